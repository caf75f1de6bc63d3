"""Files that were written once, of every format and version: they read the same for ever.

`vectors/make.py` made them, from generated data, and wrote what they hold into `vectors/expected.json`. A new version
of a format gets new files; those that are there are never made again.
"""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dpsample import (
    Ledger,
    Privacy,
    Release,
    Sample,
    Sampling,
    read_ledger,
    read_release,
    read_sample,
    register_sampling,
)
from dpsample.accounting.charges import Charge
from dpsample.accounting.ledger import reserve_budget
from dpsample.accounting.parts import Part
from dpsample.exact import text
from dpsample.files import kind_of

FOLDER = Path(__file__).with_name("vectors")
EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text())


def register_halves() -> Sampling:
    """Register the function of one of the releases: a reader has to."""
    return register_sampling("halves", lambda i: 1 - Fraction(1, 2 ** min(i, 40)))


def rows_of(table: pa.Table) -> dict[str, Any]:
    """The columns and values of a table, as JSON has them."""

    def shown(value: Any) -> Any:
        return (
            value.hex() if isinstance(value, bytes) else value if isinstance(value, str | int | float) else str(value)
        )

    columns = [[field.name, str(field.type)] for field in table.schema]
    return {"columns": columns, "rows": [[shown(value) for value in row.values()] for row in table.to_pylist()]}


def terms_of(release: Release) -> dict[str, Any]:
    """The terms of a release, field by field."""
    terms = release.terms
    return {
        "privacy": terms.privacy.to_json(),
        "sampling": terms.sampling.to_json(),
        "keys": list(terms.keys),
        "grid": terms.grid,
        "keys_only": terms.keys_only,
        "unit": terms.unit,
        "max_keys": terms.max_keys,
        "per_key": terms.per_key.to_json(),
        "size": terms.size and terms.size.to_json(),
        "total": terms.total and terms.total.to_json(),
        "ledger": terms.ledger,
        "dpsample": terms.dpsample,
        **({} if terms.part is None else {"part": terms.part.to_json()}),
        **({} if terms.dropped is None else {"dropped": terms.dropped.to_json()}),
        **({} if terms.known is None else {"known": terms.known.to_json()}),
        **({} if terms.discovery is None else {"discovery": terms.discovery.to_json()}),
        **({} if terms.counts is None else {"counts": terms.counts.to_json()}),
    }


def answers_of(release: Release) -> dict[str, float]:
    """Answers by maximum likelihood, which is defined once and for all; the default estimator may improve."""
    if release.keys_only or release.terms.counts or release.terms.known:  # the estimator is not chosen
        return {"keys reported": len(release)}
    answers = {
        "sum": release.sum(estimator="mle").value,
        "sum of 1": release.count_keys(estimator="mle").value,
    }
    if release.total is not None:
        low, high = release.total.interval(0.95)
        answers |= {"total": float(release.total.value), "total from": float(low), "total to": float(high)}
    return answers


def entries_of(ledger: Ledger) -> dict[str, Any]:
    """What a ledger says, and what follows for the next release."""
    epsilon, delta, rule = ledger.spent
    return {
        "dataset": ledger.dataset,
        "budget": ledger.budget.to_json(),
        "unit": ledger.unit,
        "each": ledger.each and ledger.each.to_json(),
        "releases": ledger.releases,
        "entries": [[e.privacy.to_json(), e.release, e.time, e.hash] for e in ledger.entries],
        "spent": [text(epsilon), text(delta), rule],
        "head": ledger.head,
        "hashes": ledger.hashes,
        **({} if ledger.account is None else {"account": ledger.account.to_json(), "more": ledger.more}),
        **({} if ledger.parts is None else {"parts": ledger.parts, "largest part": ledger.largest_part}),
    }


def content_of(made: Release | Sample | Ledger) -> dict[str, Any]:
    """All that a file holds, as JSON."""
    if isinstance(made, Ledger):
        return entries_of(made)
    if isinstance(made, Release):
        return {**rows_of(made.table), "terms": terms_of(made), "answers": answers_of(made)}
    stated = {"sampling": made.sampling.to_json(), "keys": list(made.keys), "max_keys": made.max_keys}
    stated |= {} if made.part is None else {"part": made.part.to_json()}
    return {**rows_of(made.table), **stated}


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
