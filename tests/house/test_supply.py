"""What is installed is what was tested: locked versions with hashes, an SBOM, workflows without secrets."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lock import ENVIRONMENTS, read_pins
from places import ROOT

LOCKED = {name: ROOT / "requirements" / f"{name}.txt" for name in ENVIRONMENTS}
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")


def blocks(path: Path) -> dict[str, list[str]]:
    """The lines of each package in a locked file: its version, then hashes."""
    text = path.read_text(encoding="utf-8").replace(" \\\n", "\n")
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("    "):
            found[name].append(line.strip())
        elif not line.startswith("#"):
            name = canonicalize_name(re.split(r"[=;\s]", line)[0])
            found[name] = [line]
    return found


@pytest.mark.parametrize("name", LOCKED)
def test_a_locked_version_is_the_tested_one_and_has_hashes(name: str) -> None:
    pins = read_pins()
    for package, (stated, *hashes) in blocks(LOCKED[name]).items():
        assert stated.split(";")[0].strip().endswith(f"=={pins[package]}"), "run `make lock`"
        assert hashes
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), package


def test_locked_files_have_what_the_package_requires() -> None:
    """A requirement that was added needs `make lock`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = {"demo": project["dependencies"], "audit": project["dependencies"]}
    needed["dev"] = [*project["dependencies"], *(text for texts in extras.values() for text in texts)]
    for name, texts in needed.items():
        locked = blocks(LOCKED[name])
        for requirement in map(Requirement, texts):
            package = canonicalize_name(requirement.name)
            if package == "dpsample":
                continue
            version = locked[package][0].split(";")[0].partition("==")[2].strip()
            assert requirement.specifier.contains(version), f"{package} in {name}: run `make lock`"


def test_files_name_no_host_of_an_index() -> None:
    for path in (*LOCKED.values(), ROOT / "constraints.txt", ROOT / "Makefile", *WORKFLOWS):
        assert "://" not in path.read_text(encoding="utf-8"), path.name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_no_secret_and_no_more_rights_than_it_needs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "secrets." not in text
    assert "password" not in re.sub("#.*", "", text)
    workflow: dict[str, Any] = yaml.safe_load(text)
    assert workflow["permissions"] == {}
    for name, job in workflow["jobs"].items():
        writing = {right for right, how in job["permissions"].items() if how == "write"}
        assert writing == ({"id-token", "attestations"} if name == "publish" else set())
        for step in job["steps"]:
            action = step.get("uses", "")
            assert not action or PINNED.fullmatch(action) or action == "pypa/gh-action-pypi-publish@release/v1"
