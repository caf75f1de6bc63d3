"""Neighbouring datasets on a cluster and in a database; and leaks that are planted."""

import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dpsample
from dpsample import Source
from dpsample.private.engine.duckdb import DuckDB
from neighbour_sources import (
    DAYS,
    NUMBERS,
    PRIVACY,
    TEXTS,
    Kind,
    Rows,
    columns,
    compare,
    dataset,
    released,
    with_one_element,
    with_one_user,
)
from neighbours import command, differences, observe

# ---- PostgreSQL


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDB]:
    with DuckDB(threads=1) as made:
        yield made


@pytest.mark.parametrize(
    ("declared", "keys"), [("text", TEXTS), ("bigint", NUMBERS), ("boolean", [True, False]), ("date", DAYS)]
)
def test_postgresql(declared: str, keys: list[Any], server: str, engine: DuckDB, tmp_path: Path) -> None:
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")

    def source(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
        def value(key: Any) -> str:
            return str(key) if isinstance(key, int | Decimal) else "'" + str(key).replace("'", "''") + "'"

        with dbapi.connect(server, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS t")
            cursor.execute(f"CREATE TABLE t (u bigint, k {declared})")
            cursor.execute("INSERT INTO t VALUES " + ", ".join(f"({u}, {value(key)})" for u, key in rows))
        return Source(server, "k", table="t", **options)

    kind = Kind(keys, source)
    varied: list[dict[str, Any]] = [{}, {"total": True, "ledger": True}, {"max_keys_per_user": 2}]
    for seed, options in enumerate(varied):
        rng = random.Random(f"{declared} {seed}")
        rows = dataset(keys, rng)
        users = "max_keys_per_user" in options
        neighbour, changed = (with_one_user if users else with_one_element)(rows, keys, rng)
        both = [released(kind, data, tmp_path, options, engine, "parquet", seed) for data in (rows, neighbour)]
        compare(both[0], both[1], changed, options, 2)


# ---- the harness finds what is planted


@pytest.mark.parametrize("leak", ["a message", "an error", "a file", "the type", "an order", "another key"])
def test_planted_leaks_are_found(leak: str, engine: DuckDB, tmp_path: Path) -> None:
    """One defect of each kind, in a release that is right otherwise."""
    both = []
    for rows in ([(0, "a")] * 60, [(0, "a")] * 60 + [(0, "rare")]):

        def work(output: Path, rows: Rows = rows) -> Any:
            rare = rows[-1][1] == "rare"
            data = columns(rows, pa.binary() if leak == "the type" and rare else pa.string())
            if leak == "an error":
                raise ValueError(f"{len(rows)} rows are too many")
            if leak == "a file" and rare:
                (output / "draft").touch()
            if leak == "another key" and rare:
                data = data.slice(0, 20)
            done = (
                command("ledger", "new", f"{output}/l", "--dataset", "x" * len(rows), "-e", "1", "-d", "0.1")
                if leak == "a message"
                else None
            )
            dpsample.release_to_file(
                output / f"out.{'csv' if leak == 'an order' and rare else 'parquet'}", data, "k", privacy=PRIVACY
            )
            return done

        both.append(observe(work, tmp_path / "output"))
    if leak == "another key":
        with pytest.raises(AssertionError):
            compare(both[0], both[1], {"rare"}, {}, 1)
    else:
        assert differences(both[0], both[1])
