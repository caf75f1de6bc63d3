"""Files that were written once, of every format and version: they read the same for ever.

`vectors/make.py` made them, from generated data, and wrote what they hold into `vectors/expected.json`. A new version
of a format gets new files; those that are there are never made again.
"""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpsample import Privacy, read_ledger, read_release, read_sample
from dpsample.accounting.parts import Part
from dpsample.files import kind_of
from dpsample.ledger.charges import Charge
from dpsample.ledger.ledger import reserve_budget
from places import VECTORS
from vectors import content_of, register_halves

FOLDER = VECTORS
EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text())


def named(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", [name for name in EXPECTED if name.startswith(kind)])


def compare(content: dict[str, Any], name: str) -> None:
    """Content is as expected: all of it exactly, but for answers, which are floats and computed."""
    expected = dict(EXPECTED[name])
    answers = expected.pop("answers", {})
    assert content.pop("answers", {}) == pytest.approx(answers, rel=1e-9)
    assert json.loads(json.dumps(content)) == expected


@named("release")
def test_a_release_reads_as_it_was_written(name: str) -> None:
    register_halves()
    release = read_release(FOLDER / name)
    compare(content_of(release), name)
    assert kind_of(FOLDER / name) == "release"
    if release.grid is not None:
        known = [] if release.terms.known is None else ["known"]
        assert release.table.column_names[len(release.keys) :] == ["estimate", "low", "high", "token", *known]


@named("sample")
def test_a_sample_reads_as_it_was_written(name: str) -> None:
    compare(content_of(read_sample(FOLDER / name)), name)
    assert kind_of(FOLDER / name) == "sample"


@named("ledger")
def test_a_ledger_reads_as_it_was_written_and_goes_on(name: str, tmp_path: Path) -> None:
    ledger = read_ledger(FOLDER / name)
    compare(content_of(ledger), name)
    copy = tmp_path / name
    copy.write_bytes((FOLDER / name).read_bytes())
    small = Privacy(Fraction(1, 1000), Fraction(1, 10**12))
    part = None if ledger.parts is None else Part(ledger.parts, "the next")
    reserve_budget(copy, Charge(small, ledger.unit, "next.parquet", part=part)).confirm()
    grown = read_ledger(copy)
    assert grown.entries[:-1] == ledger.entries
    assert grown.entries[-1].privacy == small


def test_every_kind_and_format_is_there() -> None:
    kinds = {(name.split("-")[0], name.split("-")[1], name.rsplit(".", 1)[1]) for name in EXPECTED}
    formats = {"parquet", "arrow", "csv"}
    assert kinds == {
        *(("release", "1", form) for form in formats | {"parts"}),
        *(("sample", "1", form) for form in formats),
        ("ledger", "1", "ledger"),
    }
    there = {path.name for path in FOLDER.iterdir()} - {"make.py", "expected.json", "coverage.json", "__pycache__"}
    assert there - {f"{name}.json" for name in EXPECTED} == set(EXPECTED)
    for name in EXPECTED:
        if name.rsplit(".", 1)[1] in ("csv", "arrow"):
            assert (FOLDER / f"{name}.json").is_file()
