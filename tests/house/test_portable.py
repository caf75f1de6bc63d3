"""Versions and systems: one version everywhere, and Windows, as far as it can be played on another system."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import dpsample
from dpsample import Privacy, SystemFailure, new_ledger, release
from dpsample.files import atomic_file, atomic_folder
from places import ROOT, VECTORS


def test_one_version() -> None:
    """The package states it; the metadata read it from there, and what cannot is compared."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "dpsample.__version__"}
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", citation, re.MULTILINE) == [dpsample.__version__]
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == dpsample.__version__


# Libraries that know Windows are imported first. Then everything goes that Windows does not have.
_WINDOWS = """
import importlib, os, pkgutil, signal, sys
import click, cryptography.hazmat.primitives.ciphers, duckdb, flint, numpy, pandas, portalocker, pyarrow.csv
import pyarrow.dataset, pyarrow.feather, pyarrow.parquet, rich.progress, rich.table
for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
for name in ("O_CLOEXEC", "O_NOFOLLOW", "fchmod", "fork", "geteuid", "getuid", "posix_fallocate", "sched_getaffinity"):
    delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGPIPE"):
    delattr(signal, name)
import dpsample
for module in pkgutil.walk_packages(dpsample.__path__, "dpsample.", onerror=lambda name: None):  # Spark may be missing
    if ".spark" not in module.name and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
dpsample.files.atomic_file._WINDOWS = True
release = dpsample.release({"often": 5000, "also": 4000}, privacy=(1, 1e-9))
stored = dpsample.read_release(sys.argv[1])
print(len(release), len(stored), stored.top(1).groups.num_rows, stored.report() is not None)
"""


@pytest.mark.chance("certain: keys of 4,000 elements are reported")
def test_without_what_windows_lacks(tmp_path: Path) -> None:
    """All modules are imported, a release is made in memory, and one is read, asked and shown as a page."""
    example = VECTORS / "release-1-all.parquet"
    done = subprocess.run([sys.executable, "-c", _WINDOWS, str(example)], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[0] == "2"


def _atomic_folder(path: Path) -> None:
    with atomic_folder(path):
        pass


@pytest.mark.parametrize(
    "write",
    [
        lambda path: new_ledger(path / "a.ledger", "events", Privacy(1, 1e-9)),
        lambda path: dpsample.release_to_file(path / "a.parquet", {"often": 5000}, privacy=(1, 1e-9)),
        lambda path: _atomic_folder(path / "folder"),
    ],
    ids=["ledger", "release", "folder"],
)
def test_windows_is_refused_where_files_are_written(
    write: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is open cannot get another name there: said before any work, and not found out at the end."""
    monkeypatch.setattr(atomic_file, "_WINDOWS", True)
    with pytest.raises(SystemFailure, match=r"cannot be written on Windows.*use the Windows Subsystem for Linux"):
        write(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.chance("certain: both keys exceed any noise")
def test_a_release_in_memory_needs_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic_file, "_WINDOWS", True)
    assert len(release({"often": 5000, "also": 4000}, privacy=(1, 1e-9))) == 2
