"""The package as users get it: sdist and wheel are built, the wheel is installed, and looked at from outside.

    make package

The environment that the wheel is installed into is new, and is removed at the end. Nothing in it sees the source tree.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nights import checked, days, night, prepare
from places import ROOT

ASSETS = {".py", ".css", ".js", ".typed"}
_OUTSIDE = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MYPY"))}


def main() -> None:
    """Build and check. A failure ends it; each step says how long it took."""
    with tempfile.TemporaryDirectory(prefix="dpsample-package-") as folder:
        work = Path(folder)
        with step("build sdist and wheel, the wheel from the sdist"):
            build = ("-m", "build", "--no-isolation", "--outdir", str(work / "dist"))  # the locked setuptools
            _call(sys.executable, *build, str(ROOT), cwd=work)
            (sdist,), (wheel,) = (list((work / "dist").glob(kind)) for kind in ("*.tar.gz", "*.whl"))
        with step("the sdist has all files of the project, the wheel all of the package"):
            check_sdist(sdist)
            check_wheel(wheel)
            check_sbom(wheel)
        with step("install the wheel, and nothing else, in a clean environment"):
            venv.create(work / "clean", with_pip=True)
            python = work / "clean" / "bin" / "python"
            constraints = ("--constraint", str(ROOT / "constraints.txt"))
            install = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
            _call(*install, *constraints, str(wheel), cwd=work)
        with step("import it, and run the demo, from elsewhere"):
            check_installed(python, work)
        with step("the guide's nightly job, twice"):
            check_nights(python, work / "nights")
        with step("types: mypy and pyright, strict, of a stranger's program"):
            check_types(python, work)
        kept = ROOT / "dist"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(work / "dist", kept)
    print(f"{sdist.name} and {wheel.name} are in {kept.name}/")


def check_sdist(sdist: Path) -> None:
    """Everything that is under version control is there, but for dot-files."""
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    missing = {name for name in _tracked() if not name.startswith(".")} - held
    assert not missing, f"not in the sdist: {sorted(missing)}; add them to MANIFEST.in"


def check_wheel(wheel: Path) -> None:
    """All modules and assets of the package are there, and nothing else is."""
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = {
        name.removeprefix("src/") for name in _tracked() if name.startswith("src/") and Path(name).suffix in ASSETS
    }
    assert held == package, (
        f"in one of wheel and source alone: {sorted(held ^ package)}; see package-data in pyproject.toml"
    )


def check_sbom(wheel: Path) -> None:
    """The wheel has its SBOM where PEP 770 says, and that is valid CycloneDX of this version of the package."""
    # of the environment of `make package` alone
    from cyclonedx.schema import SchemaVersion  # type: ignore[import-not-found,unused-ignore]
    from cyclonedx.validation.json import JsonStrictValidator  # type: ignore[import-not-found,unused-ignore]

    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if ".dist-info/sboms/" in name)
        text = archive.read(name).decode()
    assert name.endswith("dpsample.cdx.json"), name
    invalid = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    assert invalid is None, invalid
    package = json.loads(text)["metadata"]["component"]
    assert wheel.name.startswith(f"{package['name']}-{package['version']}-"), package


def check_installed(python: Path, work: Path) -> None:
    """The version is that of the metadata; the demo ends well, with the page that needs all assets."""
    outside = work / "outside"
    outside.mkdir()
    seen = _call(
        str(python),
        "-I",
        "-c",
        "import importlib.metadata, dpsample\n"
        "print(dpsample.__file__, dpsample.__version__, importlib.metadata.version('dpsample'))",
        cwd=outside,
    )
    place, version, stated = seen.split()
    assert Path(place).is_relative_to(work / "clean"), place
    assert version == stated, seen
    assert version in _call(str(python.with_name("dpsample")), "--version", cwd=outside)
    story = _call(str(python.with_name("dpsample")), "demo", "--output", "kept", cwd=outside)
    assert "Proved:" in story, story
    assert "<svg" in (outside / "kept" / "demo-report.html").read_text(encoding="utf-8")


def check_nights(python: Path, folder: Path) -> None:
    """The nightly job of the guide runs as it stands; the second time, it finds the release."""
    [day] = days(1)
    folder.mkdir()
    prepare(folder, [day], str(python))
    for _ in range(2):
        done = night(folder, day)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done
    assert checked(folder, [day]).lost == 0


def check_types(python: Path, work: Path) -> None:
    """A program that uses the installed package passes both checkers, though it has no part of ours beside it."""
    program = work / "outside" / "stranger.py"
    shutil.copy(ROOT / "tests" / "typed" / "stranger.py", program)
    (program.parent / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    tools = Path(sys.executable).parent
    _call(str(tools / "mypy"), "--strict", "--python-executable", str(python), program.name, cwd=program.parent)
    _call(str(tools / "pyright"), "--pythonpath", str(python), program.name, cwd=program.parent)


@contextmanager
def step(name: str) -> Iterator[None]:
    """Say what is done, and how long it took."""
    print(f"{name} ...", end=" ", flush=True)
    started = time.monotonic()
    yield
    print(f"{time.monotonic() - started:.0f} s", flush=True)


def _tracked() -> list[str]:
    return _call("git", "-c", "core.quotePath=false", "ls-files", cwd=ROOT).splitlines()


def _call(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, env=_OUTSIDE, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"\n{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
