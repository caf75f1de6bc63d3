"""Neighbouring datasets, replayed with the same coins: nothing but drawn rows may tell them apart.

All coins are replayed, so nothing here can fail by chance. Neighbours are generated, with fixed seeds.
"""

import os
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dpsample
from dpsample import Ppswor, Priority, SampleSize, Source
from dpsample.cli.log import end_log
from dpsample.private.engine.duckdb import DuckDB
from neighbour_sources import KINDS, PRIVACY, Rows, compare, dataset, released, with_one_element, with_one_user
from neighbours import Observation, command, differences, observe


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDB]:
    with DuckDB(threads=1) as made:
        yield made


FILES = [
    name
    for name in KINDS
    if KINDS[name].source.__qualname__.split(".")[0] in ("parquet", "delimited", "json_lines", "arrow_file")
]

ELEMENTS: list[dict[str, Any]] = [
    {},
    {"keys_only": True},
    {"sampling": Ppswor("0.05")},
    {"sampling": Ppswor("0.01")},  # of raw elements in files and tables: in two passes
    {"sampling": Priority("0.1", power="0.5"), "grid": 2},
    {"sampling": Ppswor("0.05", seed="public")},
    {"total": True},
    {"size": 4},
    {"size": SampleSize(4, "priority", power="0.5"), "total": "0.1"},
    {"ledger": True},
    {"ledger": True, "total": True, "drop_null": True},
    {"ledger": True, "part_vouched": ("day", "2026-11-14")},
    {"at_least": 8},
    {"listed": True},
    {"listed": True, "only_known": True, "total": True},
]
USERS: list[dict[str, Any]] = [
    {"max_keys_per_user": 1},
    {"max_keys_per_user": 2, "sampling": Priority("0.1")},
    {"max_keys_per_user": 3, "total": True, "ledger": True},
    {"max_keys_per_user": 2, "size": 4, "keys_only": True},
    {"max_keys_per_user": 2, "ledger": True, "part_vouched": ("day", "2026-11-14")},
    {"discover": "one-key", "keys_only": True},
    {"discover": "one-key", "ledger": True},
    {"discover": "one-key", "rows": 2},
    {"discover": "ask", "total": True},
    {"discover": "many-keys", "keys_only": True},
    {"max_keys_per_user": 2, "listed": True, "only_known": True},
    {"discover": "one-key", "listed": True},
]


def options_for(name: str, options: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All options, but one part alone: a source that is a part cannot be vouched for as another.

    Discovery reads pairs in one way, and a list of keys is joined in one; a few kinds of sources are enough for these.
    What is done once keys are counted does not know their source: the other kinds share it out, one half each.
    """
    options = [one for one in options if name != "parquet part" or "part_vouched" not in one]
    if name in ("parquet text", "csv", "sqlite text"):
        return options
    few, half = {"discover", "listed", "at_least"}, list(KINDS).index(name) % 2
    reads = [one for one in options if one in ({}, {"max_keys_per_user": 1}) or one.keys() & {"total", "drop_null"}]
    reads += [one for one in options if one == {"sampling": Ppswor("0.01")}]
    others = [one for one in options if one not in reads and not few & one.keys()]
    return [one for one in options if one in reads + others[half::2] and not few & one.keys()]


def compare_discovered(one: Observation, other: Observation, options: dict[str, Any]) -> None:
    """Nothing differs but what was drawn; with one key of each user, one key of what is reported at most.

    Where `ask` chose another way by its noisy numbers, which are drawn, all that follows from the way differs as well.
    That the choice follows from these numbers alone is proved by `prove_release`.
    """
    assert not one.refused, one.outcome
    assert not other.refused, other.outcome
    if options["discover"] == "ask" and one.metadata["discovery"]["method"] != other.metadata["discovery"]["method"]:
        return
    assert not differences(one, other), differences(one, other)
    if options["discover"] == "one-key":
        assert len(one.drawn.keys() ^ other.drawn.keys()) <= 1
    if one.total is not None and other.total is not None:
        assert abs(one.total - other.total) <= 4096  # the most that a user may count for


@pytest.mark.parametrize("name", KINDS)
def test_one_element_more_or_less(name: str, engine: DuckDB, tmp_path: Path) -> None:
    kind = KINDS[name]
    for seed, options in enumerate(options_for(name, ELEMENTS)):
        rng = random.Random(f"{name} {seed}")
        rows = dataset(kind.keys, rng)
        neighbour, changed = with_one_element(rows, kind.keys, rng)
        form = ("parquet", "csv", "arrow")[seed % 3]
        both = [released(kind, data, tmp_path, options, engine, form, seed) for data in (rows, neighbour)]
        compare(both[0], both[1], changed, options, 1)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.users])
def test_one_user_more_or_less(name: str, engine: DuckDB, tmp_path: Path) -> None:
    kind = KINDS[name]
    for seed, options in enumerate(options_for(name, USERS)):
        rng = random.Random(f"{name} {seed}")
        rows = dataset(kind.keys, rng)
        neighbour, changed = with_one_user(rows, kind.keys, rng)
        both = [released(kind, data, tmp_path, options, engine, "parquet", seed) for data in (rows, neighbour)]
        if "discover" in options:
            compare_discovered(both[0], both[1], options)
        else:
            compare(both[0], both[1], changed, options, options["max_keys_per_user"])


@pytest.mark.parametrize(
    "name",
    ["list", "Counter", "pandas text", "arrow table", "parquet text", "csv", "csv stated", "json lines", "sqlite text"],
)
def test_the_first_and_only_element(name: str, engine: DuckDB, tmp_path: Path) -> None:
    """An empty dataset and one element."""
    kind = KINDS[name]
    for options in ({}, {"total": True, "ledger": True}):
        both = [released(kind, rows, tmp_path, options, engine, "parquet", 0) for rows in ([], [(0, "rare")])]
        compare(both[0], both[1], {"rare"}, options, 1)


@pytest.mark.parametrize("user", [None, "u"])
@pytest.mark.parametrize("raw", [None, "x7", "7x", "none"], ids=["no text", "left out", "fails", "fails, left out"])
def test_a_row_that_gives_no_key(user: str | None, raw: str | None, engine: DuckDB, tmp_path: Path) -> None:
    """Its expression fails, or the filter leaves it out: with or without it, a release is the same, draws included."""
    rng = random.Random(1)
    rows = [(u, str(rng.choice([1, 2, 3]))) for u in range(60)]

    def work(output: Path, more: int) -> None:
        texts = [*(f"x{key}" for _, key in rows), *([raw] * more)]
        table = pa.table({"u": [*(u for u, _ in rows), *([99] * more)], "raw": pa.array(texts, pa.string())})
        key = "CAST(substr(raw, 2) AS BIGINT) AS k"
        source = Source(table, key, filter="raw <> 'x7' AND length(raw) > 1", drop_null=True, user=user)
        ledger = output / "ledger"
        dpsample.release_to_file(output / "out.csv", source, privacy=PRIVACY, engine=engine, ledger=ledger, **bound)

    bound: dict[str, Any] = {} if user is None else {"max_keys_per_user": 2}
    unit = "element" if user is None else "user"
    both = [observe(partial(work, more=more), tmp_path / "output", unit) for more in (0, 1)]
    assert not both[0].refused, both[0].outcome
    assert both[0].drawn
    assert both[0] == both[1]


# ---- the command line


COMMANDS: list[list[str]] = [
    [],
    ["--format", "json", "--with-total"],
    ["--scheme", "ppswor", "--tau", "0.05", "--keys-only"],
    ["--scheme", "priority", "--sample-size", "4", "--with-total"],
    ["--user", "u", "--max-keys-per-user", "2"],
    ["--log", "LOG", "--if-missing", "--with-total"],
]


@pytest.mark.parametrize("name", [*FILES, "sqlite text", "sqlite integers"])
def test_the_command_line(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    for seed, options in enumerate(COMMANDS):
        rng = random.Random(f"{name} {seed}")
        rows = dataset(kind.keys, rng)
        neighbour, _ = (with_one_user if "--user" in options else with_one_element)(rows, kind.keys, rng)
        ledger: Any = "user" if "--user" in options else "element"

        def work(output: Path, data: Rows, options: list[str] = options) -> Any:
            source = kind.source(data, tmp_path, {})
            place = ["--table", "t"] if "table" in source.options else []
            to = [f"{output}/out.csv", "--ledger", f"{output}/ledger", "-e", "1", "-d", "0.001"]
            words = [f"{output}/events.jsonl" if word == "LOG" else word for word in options]
            done = command("release", str(source.data), *place, "-k", "k", *words, "-o", *to)
            end_log(done.exit_code, "")
            return done

        both = [observe(partial(work, data=data), tmp_path / "output", ledger, seed) for data in (rows, neighbour)]
        assert both[0].code == 0, both[0].printed
        assert not differences(both[0], both[1]), differences(both[0], both[1])


@pytest.mark.parametrize("options", [[], ["--format", "json"]], ids=["text", "json"])
def test_sample_then_sanitize(options: list[str], tmp_path: Path) -> None:
    kind = KINDS["parquet text"]
    for seed in range(4):
        rng = random.Random(seed)
        rows = dataset(kind.keys, rng)
        neighbour, _ = with_one_element(rows, kind.keys, rng)

        def work(output: Path, data: Rows) -> Any:
            source = kind.source(data, tmp_path, {})
            sample = f"{output}/sample.parquet"
            drawn = command("sample", str(source.data), "-k", "k", "--scheme", "ppswor", "--tau", "0.3", "-o", sample)
            assert drawn.exit_code == 0
            done = command("sanitize", sample, "-e", "1", "-d", "0.001", *options, "-o", f"{output}/out.parquet")
            os.remove(sample)  # it is not private
            return done

        both = [observe(partial(work, data=data), tmp_path / "output", seed=seed) for data in (rows, neighbour)]
        assert both[0].code == 0, both[0].printed
        assert not differences(both[0], both[1]), differences(both[0], both[1])
