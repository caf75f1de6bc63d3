"""Releases of computed keys and filtered rows: what they state, what a ledger adds up, and who refuses them."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsample
from dpsample import KeepAll, Privacy, Source, new_ledger, read_ledger, read_release
from dpsample.accounting.reading import Reading
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.request import Request
from dpsample.private.stream.stream import Stream
from dpsample.release.terms import Terms
from neighbours import command, replayed_coins
from support import refused

PRIVACY = Privacy(1, 1e-6)
WORDS = ["Cat", "cat", "CAT", "dog"] * 100 + ["rare"]
ROWS = pa.table(
    {
        "query": WORDS,
        "country": ["DE" if n % 2 else "FR" for n in range(len(WORDS))],
        "user": [n // 2 for n in range(len(WORDS))],
        "price": [1.0] * len(WORDS),
    }
)
KEY, FILTER = "lower(query) AS query", "country = 'DE'"
STATED = Reading({"query": "lower(query)"}, FILTER)


@pytest.fixture(autouse=True)
def coins() -> Iterator[None]:
    """All coins are replayed: nothing here can fail by chance."""
    with replayed_coins():
        yield


def test_a_release_counts_computed_keys_and_states_how_it_read_them(tmp_path: Path) -> None:
    release = dpsample.release(ROWS, KEY, filter=FILTER, privacy=PRIVACY)
    expected = Counter(q.lower() for q, c in zip(WORDS, ROWS["country"].to_pylist(), strict=True) if c == "DE")
    assert set(release) == {"cat", "dog"}
    assert all(release[key].low <= expected[key] <= release[key].high + 30 for key in release)
    assert release.terms.reading == STATED
    assert "read      query = lower(query), of the rows where country = 'DE'" in repr(release)
    release.write(tmp_path / "out.parquet")
    again = read_release(tmp_path / "out.parquet")
    assert again.terms.reading == STATED
    assert again == release


@pytest.mark.parametrize(
    "options",
    [
        {"max_keys_per_user": 2},
        {"discover": "one-key", "rows": 5, "sums": {"price": 3}},
        {"keys": ["cat", "mouse"], "only_known": True},
    ],
)
def test_users_and_amounts_are_those_of_the_filtered_rows(options: dict[str, Any]) -> None:
    release = dpsample.release(ROWS, KEY, filter=FILTER, user="user", privacy=PRIVACY, **options)
    assert "cat" in set(release)
    assert "Cat" not in set(release)
    assert release.terms.reading == STATED


def test_a_sample_carries_how_it_was_read_to_its_release(tmp_path: Path) -> None:
    sample = dpsample.sample(ROWS, KEY, filter=FILTER, sampling=KeepAll())
    assert "query = lower(query), of the rows where country = 'DE'" in repr(sample)
    sample.write(tmp_path / "sample.parquet")
    again = dpsample.read_sample(tmp_path / "sample.parquet")
    assert again.reading == STATED
    assert dpsample.sanitize(again, privacy=PRIVACY).terms.reading == STATED


def test_releases_with_different_filters_add_up(tmp_path: Path) -> None:
    """Rows of one filter and another may be the same: there is no such thing as a part here."""
    ledger = tmp_path / "data.ledger"
    new_ledger(ledger, "data", Privacy(2, 1e-5))
    for condition in ("country = 'DE'", "country = 'FR'"):
        dpsample.release(ROWS, KEY, filter=condition, privacy=PRIVACY, ledger=ledger)
    entries = read_ledger(ledger).entries
    assert [
        f'filter="{condition}"' in str(entry.charge.source)
        for entry, condition in zip(entries, ("country = 'DE'", "country = 'FR'"), strict=True)
    ] == [True, True]
    assert all("key='lower(query) AS query'" in str(entry.charge.source) for entry in entries)
    with refused("may spend epsilon 2"):
        dpsample.release(ROWS, KEY, filter="country = 'IT'", privacy=PRIVACY, ledger=ledger)


def test_the_command_line_has_both(tmp_path: Path) -> None:
    data, output = tmp_path / "rows.parquet", tmp_path / "out.parquet"
    pq.write_table(ROWS, data)
    words = [str(data), "--key", KEY, "--filter", FILTER, "-e", "1", "-d", "1e-6"]
    done = command("release", *words, "-o", str(output))
    assert done.exit_code == 0, done.output
    assert "read as query = lower(query), of the rows where country = 'DE'" in done.output
    assert read_release(output).terms.reading == STATED
    aggregate = [str(data), "--key", "query", "--filter", "count(*) > 1", "-e", "1", "-d", "1e-6"]
    with refused("filter can use plain functions of one row's values"):
        command("release", *aggregate, "-o", "x")
    shown = command("info", str(output), "--format", "json")
    assert json.loads(shown.stdout)["reading"] == STATED.to_json()


def test_settings_of_a_run_have_a_filter(tmp_path: Path) -> None:
    data = tmp_path / "rows.parquet"
    pq.write_table(ROWS, data)
    settings = tmp_path / "release.toml"
    settings.write_text(
        f'source = "{data}"\nkey = ["{KEY}"]\nfilter = "{FILTER}"\nepsilon = "1"\ndelta = "1e-6"\n'
        f'output = "{tmp_path}/out.parquet"\n'
    )
    done = command("run", str(settings))
    assert done.exit_code == 0, done.output
    assert read_release(tmp_path / "out.parquet").terms.reading == STATED


def test_a_plan_reads_the_same_rows_and_prints_them_in_its_command(tmp_path: Path) -> None:
    data = tmp_path / "rows.parquet"
    pq.write_table(ROWS, data)
    planned = command("plan", str(data), "--key", KEY, "--filter", FILTER, "-e", "1", "-d", "1e-6")
    assert planned.exit_code == 0, planned.output
    assert "--key 'lower(query) AS query'" in planned.output
    assert "--filter 'country = '\"'\"'DE'\"'\"''" in planned.output


def test_terms_of_computed_keys_are_those_that_files_have() -> None:
    terms = Request.of(ROWS, KEY, filter=FILTER, privacy=PRIVACY).source.reading
    assert terms == STATED
    with pytest.raises(dpsample.InvalidValue):
        Reading({})
    with pytest.raises(dpsample.InvalidValue):
        Reading({"query": ""})
    form = dpsample.release(ROWS, KEY, privacy=PRIVACY).terms.to_json(rows=0)
    assert Terms.from_json(form).reading == Reading({"query": "lower(query)"})
    broken: Any
    for broken in ({}, {"keys": {}}, {"filter": 7}, {"keys": {"query": "lower(query)"}, "more": 1}, "x"):
        with refused("a release states" if broken in ({}, {"keys": {}}, {"filter": 7}) else "terms"):
            Terms.from_json({**form, "reading": broken})


def test_a_stream_computes_no_keys(tmp_path: Path) -> None:
    stream = Stream("0.1", "lower(query) AS query")
    with refused("a stream computes no keys"):
        stream.add(ROWS)
    assert tmp_path.exists()


def test_a_source_is_opened_once_more_with_the_same_filter() -> None:
    source = Source(ROWS, KEY, filter=FILTER)
    with DuckDB() as engine:
        assert engine.total(source) == 200
        listed = engine.restricted(source, pa.table({"query": ["cat"]}), outside=False)
        assert engine.total(listed) == 100
