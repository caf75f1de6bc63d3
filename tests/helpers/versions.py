"""The fast tests, under each supported Python that is on this machine: `make versions`.

Each version has an environment of its own in .venv-versions. Those that are not there are named at the end.

    python tests/helpers/versions.py --here

runs them in the environment of this Python: on Windows, those of what is meant to work there (CONTRIBUTING.md).
"""

import os
import shutil
import subprocess
import sys

from places import ROOT

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
TESTS = (  # mathematics, files, locks, releases, the command line: what an interpreter could change
    "tests/test_exact.py",
    "tests/test_privacy.py",
    "tests/test_definitions.py",
    "tests/test_defined_noise.py",
    "tests/test_defined_releases.py",
    "tests/scheme/test_tokens.py",
    "tests/scheme/test_reporting.py",
    "tests/private/test_randomness.py",
    "tests/files/test_files.py",
    "tests/files/test_atomic_outputs.py",
    "tests/files/test_crashes.py",
    "tests/files/test_reading.py",
    "tests/release/test_releases.py",
    "tests/release/test_damaged_releases.py",
    "tests/release/test_format.py",
    "tests/answers/test_periods.py",
    "tests/cli/test_demo.py",
    "tests/cli/test_wording.py",
    "tests/house/test_portable.py",
    "README.md",
    "docs/budget.md",
    "docs/over-time.md",
    "docs/python.md",
)
WITHOUT_FILES = (  # what works where no file can be written safely
    "tests/test_exact.py",
    "tests/test_privacy.py",
    "tests/test_definitions.py",
    "tests/test_defined_noise.py",
    "tests/scheme/test_tokens.py",
    "tests/scheme/test_reporting.py",
    "tests/private/test_randomness.py",
    "tests/house/test_portable.py",
)
NEEDED = ("pytest", "hypothesis", "scipy", "mpmath", "pandas", "polars", "dp-accounting")


def main() -> int:
    """Test under each version; the exit code is 1 if one fails, or none is there."""
    if sys.argv[1:] == ["--here"]:
        tests = WITHOUT_FILES if sys.platform == "win32" else TESTS
        return subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests], cwd=ROOT).returncode
    results = {version: tested(version) for version in VERSIONS}
    for version, result in results.items():
        print(f"Python {version}: {result}")
    return 0 if "passed" in results.values() and "failed" not in results.values() else 1


def tested(version: str) -> str:
    """Install the package for one version, and run the tests there."""
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "-c", "import venv"], capture_output=True).returncode:
        return "not on this machine"
    print(f"\n== Python {version}", flush=True)
    own = ROOT / ".venv-versions" / version
    here = str(own / "bin" / "python")
    install = [
        here,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--constraint",
        "constraints.txt",
    ]
    commands = [
        [python, "-m", "venv", str(own)],
        [*install, "--editable", ".[report,sqlite]", *NEEDED],
        [here, "-m", "pytest", "-p", "no:cacheprovider", *TESTS],
    ]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for command in commands:
        if subprocess.run(command, cwd=ROOT, env=clean).returncode:
            return "failed"
    return "passed"


if __name__ == "__main__":
    sys.exit(main())
