"""Write the SBOM of the package where wheels carry one: `.dist-info/sboms` (PEP 770).

Everything else is in pyproject.toml. The SBOM is CycloneDX. It lists what the package requires, with the versions that
it allows: a wheel of Python alone holds no code of others. It has no time and no serial number, so that a wheel that is
built again is the same.
"""

import json
import re
from pathlib import Path

from setuptools import setup
from setuptools.command.egg_info import egg_info


class WithSbom(egg_info):
    """Make the metadata of the package, which the wheel copies, with the SBOM among them."""

    def run(self) -> None:
        """Write the metadata, then the SBOM."""
        super().run()
        folder = Path(self.egg_info, "sboms")
        folder.mkdir(exist_ok=True)
        text = json.dumps(self.sbom(), indent=2, ensure_ascii=False)
        (folder / "dpsample.cdx.json").write_text(text + "\n", encoding="utf-8")

    def sbom(self) -> dict[str, object]:
        """Return the SBOM: the package, what it requires, and what its extras require."""
        stated = self.distribution.metadata
        own = f"pkg:pypi/{stated.get_name()}@{stated.get_version()}"
        package = {
            "type": "library",
            "bom-ref": own,
            "name": stated.get_name(),
            "version": stated.get_version(),
            "description": stated.get_description(),
            "licenses": [{"license": {"id": "Apache-2.0"}}],
            "purl": own,
        }
        required = [component(text, "required", "") for text in self.distribution.install_requires]
        for extra, texts in sorted(self.distribution.extras_require.items()):
            if extra not in ("dev", "docs"):
                required += [component(text, "optional", extra) for text in texts]
        return {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {"component": package},
            "components": required,
            "dependencies": [{"ref": own, "dependsOn": sorted({str(one["bom-ref"]) for one in required})}],
        }


def component(requirement: str, scope: str, extra: str) -> dict[str, object]:
    """Return a required package: its name, and the versions that are allowed."""
    name = re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower()
    properties = [{"name": "dpsample:requirement", "value": requirement}]
    if extra:
        properties.append({"name": "dpsample:extra", "value": extra})
    return {
        "type": "library",
        "bom-ref": f"{extra or 'package'}:{name}",
        "name": name,
        "scope": scope,
        "purl": f"pkg:pypi/{name}",
        "properties": properties,
    }


setup(cmdclass={"egg_info": WithSbom})
