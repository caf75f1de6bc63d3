"""Releases for tests of applications: each kind, drawn the same each time, marked, and refused where it matters."""

import copy
import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsample
from dpsample import InvalidValue, Release, testing
from dpsample.answers.entered import verify_releases
from dpsample.ledger.ledger import new_ledger, read_ledger
from dpsample.presentation.label import label_of
from dpsample.release.proof import prove_release
from dpsample.testing.fixtures import release_for_tests
from dpsample.testing.releases import Kind
from places import ROOT

__all__ = ["release_for_tests"]

pytestmark = pytest.mark.chance("certain: the coins are fixed")

FREQUENCIES = {"cat": 1200, "dog": 340, "eel": 90, "my rare disease": 1, "nobody": 0}
MARK = "NOT private: made for tests by dpsample.testing"
Make = Callable[..., Release]


@pytest.fixture(params=testing.KINDS)
def release(request: pytest.FixtureRequest) -> Release:
    return testing.release(FREQUENCIES, request.param)


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("tokens", ["cat", "dog", "eel"]),
        ("keys only", ["cat", "dog", "eel"]),
        ("known keys", ["cat", "dog", "eel", "my rare disease", "nobody"]),
        ("counted users", ["cat", "dog", "eel"]),
        ("stream", ["cat", "dog", "eel"]),
    ],
)
def test_each_kind_has_the_keys_that_privacy_allows(kind: Kind, keys: list[str]) -> None:
    made = testing.release(FREQUENCIES, kind)
    assert made.table["key"].to_pylist() == keys
    assert made.keys_only == (kind == "keys only")
    if kind != "keys only":  # by its own intervals, of which none misses with these coins
        assert made["cat"].low <= 1200 <= made["cat"].high


def test_a_draw_is_the_same_in_each_process() -> None:
    script = (
        "from dpsample import testing\n"
        f"for kind in testing.KINDS: print(testing.release({FREQUENCIES}, kind).table.to_pylist())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    here = [str(testing.release(FREQUENCIES, kind).table.to_pylist()) for kind in testing.KINDS]
    assert run.stdout.splitlines() == here


def test_another_number_is_another_draw() -> None:
    tokens = {tuple(testing.release(FREQUENCIES, number=number).table["token"].to_pylist()) for number in range(5)}
    assert len(tokens) > 1


def test_the_mark_is_seen_wherever_a_release_is_shown(release: Release) -> None:
    assert repr(release).startswith("Test release (NOT private): ")
    assert MARK in repr(release)
    assert MARK in release._repr_html_()
    assert "Private release" not in release._repr_html_()
    assert label_of(release)["privacy parameters"].startswith(MARK)


@pytest.mark.parametrize("kind", ["tokens", "keys only", "counted users"])
def test_several_of_them_are_marked_together(kind: Kind) -> None:
    several = dpsample.combine(testing.release(FREQUENCIES, kind), testing.release({"owl": 500}, kind))
    assert repr(several).startswith("Combined, made for tests (NOT private): ")


def test_the_mark_is_kept(release: Release) -> None:
    for terms in (copy.deepcopy(release.terms), pickle.loads(pickle.dumps(release.terms)), replace(release.terms)):
        assert terms.made_for_tests
    part = Release(release.table.slice(0, 1), release.terms)
    assert part.terms.made_for_tests


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
def test_a_file_states_another_format(release: Release, ending: str, tmp_path: Path, release_for_tests: Make) -> None:
    """What strangers see who read the metadata: no program that knows releases takes the file for one."""
    path = tmp_path / f"release.{ending}"
    release.write(path)
    if ending == "parquet":
        stated = json.loads(pq.read_metadata(path).metadata[b"dpsample"])
    else:
        stated = json.loads(Path(f"{path}.json").read_text())
    assert stated["format"] == "dpsample test release"
    assert stated["private"] is False
    assert stated["warning"].startswith(MARK)
    assert dpsample.read_release(path) == release


def test_writing_reading_and_pages_are_refused_unless_asked_for(release: Release, tmp_path: Path) -> None:
    path = tmp_path / "release.parquet"
    for write in (release.write, release.report):
        with pytest.raises(InvalidValue, match="made for tests is not private, so it cannot be"):
            write(path.with_suffix(".html") if write == release.report else path)
    assert list(tmp_path.iterdir()) == []
    with testing.allowed():
        release.write(path)
    with pytest.raises(InvalidValue, match="made for tests, and is NOT private"):
        dpsample.read_release(path)


def test_a_mark_that_was_taken_off_a_file_is_noticed(tmp_path: Path) -> None:
    made, path = testing.release(FREQUENCIES), tmp_path / "release.csv"
    with testing.allowed():
        made.write(path)
    sidecar = Path(f"{path}.json")
    form = json.loads(sidecar.read_text())
    for name, value in (("format", "dpsample release"), ("private", None), ("warning", "all is well")):
        changed = {**form, name: value}
        sidecar.write_text(json.dumps(changed))
        with pytest.raises(InvalidValue), testing.allowed():
            dpsample.read_release(path)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.jsonl"
    new_ledger(path, "tests", dpsample.Privacy(1, "1e-5"))
    return path


def test_ledgers_and_proofs_refuse_it_always(release: Release, ledger: Path, release_for_tests: Make) -> None:
    with pytest.raises(InvalidValue, match="cannot be verified"):
        prove_release(release.terms)
    with pytest.raises(InvalidValue, match="cannot be entered in a ledger"):
        replace(release.terms, ledger="0" * 64)
    with pytest.raises(InvalidValue, match="cannot be used for a release that is made for tests"):
        testing.release(FREQUENCIES, ledger=ledger)
    path = ledger.with_name("release.parquet")
    release.write(path)
    with pytest.raises(InvalidValue, match="has no entry in the ledger"):
        verify_releases(read_ledger(ledger), [path])
    done = subprocess.run([sys.executable, "-m", "dpsample", "verify", path], capture_output=True, text=True)
    assert done.returncode == 2
    assert "made for tests, and is NOT private" in done.stderr


def test_it_is_no_prior_of_a_release(release: Release) -> None:
    data = pa.table({"key": ["cat"] * 9, "user": list(range(9))})
    with pytest.raises(InvalidValue, match="cannot be a prior"):
        dpsample.release(data, "key", user="user", prior=release, privacy=dpsample.Privacy(1, "1e-6"))


@pytest.mark.parametrize(
    ("stated", "problem"),
    [
        ({"kind": "other"}, "kind must be one of"),
        ({"kind": "stream", "at_least": 3}, "a stream has no options"),
        ({"kind": "counted users", "user": "key"}, "user cannot be used"),
    ],
)
def test_what_is_refused(stated: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidValue, match=problem):
        testing.release(FREQUENCIES, **stated)  # type: ignore[arg-type]


def test_the_service_of_the_guide_passes_its_tests(tmp_path: Path) -> None:
    """The page shows whole files; they are written and run as they stand there."""
    page = (ROOT / "docs" / "guides" / "testing-applications.md").read_text(encoding="utf-8")
    files = re.findall(r"^`(\w+\.py)`[^\n]*:\n\n```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in files] == ["service.py", "conftest.py", "test_service.py"]
    for name, text in files:
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
