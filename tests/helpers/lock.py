"""Write the locked requirements: what an environment needs, with the hashes of all files of each version.

    make lock

The versions are those of `constraints.txt`. pip resolves each environment on this machine. Packages that other systems
or versions of Python need besides are added, with a marker. Hashes are those of every file that the package index has
of a version, so that one list serves all systems. pip says which index that is; no file here names one.
"""

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from itertools import product
from typing import Any

from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from places import ROOT

FOLDER = ROOT / "requirements"
BUILD = ["setuptools"]  # builds the package in the environment itself, since an isolated one would not be locked
ENVIRONMENTS = {  # by the target of the Makefile
    "demo": [".", *BUILD],
    "dev": [".[dev]", *BUILD],
    "audit": [".", "scipy", "pandas", *BUILD],
    "package": ["build", "mypy", "pyright[nodejs]", "cyclonedx-python-lib[json-validation]", *BUILD],
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SYSTEMS = {"linux": ("Linux", "posix"), "darwin": ("Darwin", "posix"), "win32": ("Windows", "nt")}
HEAD = "# Written by `make lock` from constraints.txt: versions, and the hashes of all of their files.\n"
_FILE = re.compile(r'href="[^"#]*/([^"/#]+)#sha256=([0-9a-f]{64})"')


def main() -> None:
    """Write one file for each environment."""
    pins = read_pins()
    for name, roots in ENVIRONMENTS.items():
        needed = resolved(roots)
        locked = [block(package, versions, pins) for package, versions in sorted(everywhere(needed, pins).items())]
        (FOLDER / f"{name}.txt").write_text(HEAD + "".join(locked), encoding="utf-8")
        print(f"{name}: {len(locked)} packages")


def read_pins() -> dict[str, str]:
    """Return the version of each package in `constraints.txt`."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if "==" in line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def resolved(roots: list[str]) -> list[dict[str, Any]]:
    """Return the metadata of the packages that pip would install on this machine."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    command += ["--constraint", "constraints.txt", *roots]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [one["metadata"] for one in json.loads(done.stdout)["install"]]


def everywhere(needed: list[dict[str, Any]], pins: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Return the version of each package, and the marker of those that only some systems need."""
    found: dict[str, tuple[str, str]] = {}
    for one in needed:
        found[canonicalize_name(one["name"])] = (str(one["version"]), "")
    found.pop("dpsample", None)
    for one in needed:
        for text in one.get("requires_dist", ()):
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            if name in found or not needed_somewhere(requirement.marker):
                continue
            version = pins.get(name) or newest(name, requirement)
            found[name] = (version, str(requirement.marker))
    return found


def needed_somewhere(marker: Marker | None) -> bool:
    """Whether a supported system, with a supported Python, needs what has this marker; extras are resolved already."""
    return marker is not None and any(marker.evaluate({**one, "extra": ""}) for one in environments())


def environments() -> Iterator[dict[str, str]]:
    """Yield the variables of markers for each supported system and version of Python."""
    here = {name: str(value) for name, value in default_environment().items()}
    for (system, (name, os_name)), python in product(SYSTEMS.items(), PYTHONS):
        there = {"sys_platform": system, "platform_system": name, "os_name": os_name}
        yield {**here, **there, "python_version": python, "python_full_version": f"{python}.0"}


def newest(name: str, requirement: Requirement) -> str:
    """Return the newest version of a package that no constraint pins and this machine does not need."""
    versions = {version_of(file) for file, _ in files_of(name)}
    allowed = [version for version in versions if version and requirement.specifier.contains(version)]
    return str(max(map(Version, allowed)))


def block(name: str, locked: tuple[str, str], pins: dict[str, str]) -> str:
    """Return the lines of one package."""
    version, marker = locked
    if pins.get(name, version) != version:
        raise SystemExit(f"{name} {version} is not the version of constraints.txt")
    hashes = sorted({sha256 for file, sha256 in files_of(name) if version_of(file) == str(Version(version))})
    if not hashes:
        raise SystemExit(f"the index has no files of {name} {version}")
    condition = f" ; {marker}" if marker else ""
    lines = [f"{name}=={version}{condition}", *(f"    --hash=sha256:{sha256}" for sha256 in hashes)]
    return " \\\n".join(lines) + "\n"


_files: dict[str, list[tuple[str, str]]] = {}


def files_of(name: str) -> list[tuple[str, str]]:
    """Return the names and hashes of all files that the index has of a package."""
    if name not in _files:
        with urllib.request.urlopen(f"{index()}/{name}/", timeout=60) as page:
            _files[name] = _FILE.findall(page.read().decode())
    return _files[name]


def index() -> str:
    """Return the address of the package index that pip uses."""
    from pip._internal.models.index import PyPI

    stated = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True
    )
    return (stated.stdout.strip() or PyPI.simple_url).rstrip("/")


def version_of(file: str) -> str | None:
    """Return the version in the name of a wheel or an sdist."""
    if file.endswith(".whl"):
        return str(Version(file.split("-")[1]))
    _, _, version = file.removesuffix(".tar.gz").removesuffix(".zip").rpartition("-")
    try:
        return str(Version(version))
    except InvalidVersion:
        return None


if __name__ == "__main__":
    main()
