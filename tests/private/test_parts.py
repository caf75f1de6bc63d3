"""A release of a part reads its rows alone."""

import csv
import datetime
import json
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import servers
from days import day
from days import engine as engine
from dpsample import Source
from dpsample.accounting.parts import Part
from dpsample.private.engine import Engine
from dpsample.private.engine.duckdb import DuckDB
from support import refused

# ---- what is read

WEIRD = ["a'b", '"', "'; DROP TABLE t; --", "' OR '1'='1", "\\", "\\' OR 1=1 --", "%", "é", "", " a", "A", "a", "NULL"]


def counted(batches: Iterable[pa.RecordBatch]) -> dict[Any, int]:
    result: dict[Any, int] = {}
    for batch in batches:
        for key, frequency in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            assert key not in result
            result[key] = frequency
    return result


COLUMNS: dict[str, tuple[list[Any], pa.DataType, Callable[[Any], str]]] = {
    "text": (WEIRD, pa.string(), str),
    "integers": ([0, 1, -1, 7, 2**63 - 1, -(2**63)], pa.int64(), str),
    "small integers": ([0, 1, -1, 127], pa.int8(), str),
    "dates": ([datetime.date(2026, 11, n) for n in (13, 14, 15)] + [datetime.date(1, 1, 1)], pa.date32(), str),
    "booleans": ([True, False], pa.bool_(), lambda value: str(value).lower()),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_part_has_the_rows_of_its_value_alone(name: str, engine: Engine, tmp_path: Path) -> None:
    """As if the source had been filtered before; a NULL is in no part."""
    values, kind, text = COLUMNS[name]
    rng = random.Random(name)
    rows = [(rng.choice("xyz"), rng.choice([*values, None]), rng.randrange(50)) for _ in range(2000)]
    table = pa.table(
        {
            "k": [k for k, _, _ in rows],
            "the part": pa.array([p for _, p, _ in rows], kind),
            "n": pa.array([n for _, _, n in rows], pa.int64()),
        }
    )
    path = tmp_path / "data.parquet"
    pq.write_table(table, path, row_group_size=100)
    raw, aggregated = Source(path, "k"), Source(path, "k", "n")
    for i, value in enumerate(values):
        part = Part("the part", text(value))
        mine = [(k, n) for k, p, n in rows if p == value and type(p) is type(value)]
        assert counted(engine.aggregated(raw.of_part(part))) == Counter(k for k, _ in mine)
        if i > 1 and not isinstance(engine, DuckDB):
            continue  # each job of a cluster takes a second
        sums: Counter[str] = Counter()
        for k, n in mine:
            sums[k] += n
        assert counted(engine.aggregated(aggregated.of_part(part))) == {k: n for k, n in sums.items() if n}
        assert engine.total(aggregated.of_part(part)) == sum(sums.values())
    chosen = raw.of_part(Part("the part", text(values[0])))
    expected = Counter(k for k, p, _ in rows if p == values[0])
    assert sum(batch.num_rows for batch in engine.elements(chosen)) == sum(expected.values())
    wanted = pa.table({"k": ["x"]})
    assert counted(engine.count(chosen, wanted)) == {"x": expected["x"]}


def test_a_part_that_is_part_of_the_key(engine: Engine, tmp_path: Path) -> None:
    table = pa.table({"day": ["1", "1", "2", None], "k": ["a", "b", "a", "a"]})
    pq.write_table(table, tmp_path / "data.parquet")
    source = Source(tmp_path / "data.parquet", ["day", "k"]).of_part(day("1"))
    batches = [row for batch in engine.aggregated(source) for row in batch.to_pylist()]
    assert sorted(row["k"] for row in batches) == ["a", "b"]
    assert {row["day"] for row in batches} == {"1"}


@pytest.mark.chance("certain: each user has one key")
def test_faults_of_other_parts_are_not_seen(engine: Engine, tmp_path: Path) -> None:
    """A row that is refused changes the outcome: a release of another part must not tell of it."""
    table = pa.table(
        {
            "k": ["a", None, "a", "b", "a"],
            "n": pa.array([5, 1, -1, None, 7], pa.int64()),
            "u": pa.array([1, 2, 3, 4, None], pa.int64()),
            "day": ["1", "2", "3", "4", "5"],
        }
    )
    pq.write_table(table, tmp_path / "data.parquet")
    raw, summed = Source(tmp_path / "data.parquet", "k"), Source(tmp_path / "data.parquet", "k", "n")
    users = Source(tmp_path / "data.parquet", "k", user="u")
    for value, source, rule in (
        ("2", raw, "the key column 'k' must have no NULL"),
        ("3", summed, "frequencies must be whole numbers"),
        ("4", summed, "frequencies must be whole numbers"),
        ("5", users, "the user column 'u' must have no NULL"),
    ):
        with refused(rule):
            bad = source.of_part(day(value))
            bad = engine.bounded(bad, 1, engine.new_coins()) if source is users else bad
            list(engine.aggregated(bad))
        good = source.of_part(day("1"))
        if source is users:
            good = engine.bounded(good, 1, engine.new_coins())
        assert counted(engine.aggregated(good)) == {"a": 5 if source is summed else 1}


@pytest.mark.parametrize(
    ("kind", "values", "part", "rule"),
    [
        (pa.float64(), [1.0], "1.0", "the part column 'p' must be of text, integers, dates or booleans"),
        (pa.timestamp("us", "UTC"), [0], "1970-01-01", "the part column 'p' must be of text, integers, dates or"),
        (pa.timestamp("us"), [0], "1970-01-01", "the part column 'p' must be of text, integers, dates or booleans"),
        (pa.decimal128(9, 2), [1], "1.00", "the part column 'p' must be of text, integers, dates or booleans"),
        (pa.binary(), [b"a"], "a", "the part column 'p' must be of text, integers, dates or booleans"),
        (pa.int64(), [7], "07", "the part of the column 'p' must be a value of type integer"),
        (pa.int64(), [7], "7 OR 1=1", "the part of the column 'p' must be a value of type integer"),
        (pa.int64(), [7], "-0", "the part of the column 'p' must be a value of type integer"),
        (pa.int64(), [7], "9223372036854775808", "the part of the column 'p' must be a value of type integer"),
        (pa.int64(), [7], "٧", "the part of the column 'p' must be a value of type integer"),
        (pa.date32(), [7], "2026-1-1", "the part of the column 'p' must be a value of type date"),
        (pa.date32(), [7], "2026-02-30", "the part of the column 'p' must be a value of type date"),
        (pa.bool_(), [True], "True", "the part of the column 'p' must be a value of type boolean"),
    ],
    ids=str,
)
def test_one_value_has_one_text(
    kind: pa.DataType, values: list[Any], part: str, rule: str, engine: Engine, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"k": ["a"], "p": pa.array(values, kind)}), tmp_path / "data.parquet")
    with refused(rule):
        engine.check(Source(tmp_path / "data.parquet", "k").of_part(Part("p", part)))


def sources(rows: list[tuple[str, str]], folder: Path) -> Iterator[Source]:
    """Rows of a key and a part, in everything that the embedded engine reads."""
    table = pa.table({"k": [k for k, _ in rows], "p": [p for _, p in rows]})
    for ending, delimiter in (("csv", ","), ("tsv", "\t")):
        with open(folder / f"data.{ending}", "w", newline="") as file:
            writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
            writer.writerows([("k", "p"), *rows])
        yield Source(folder / f"data.{ending}", "k")
    (folder / "data.jsonl").write_text("".join(json.dumps({"k": k, "p": p}) + "\n" for k, p in rows))
    yield Source(folder / "data.jsonl", "k")
    with pa.ipc.new_file(folder / "data.arrow", table.schema) as arrow:
        arrow.write_table(table)
    yield Source(folder / "data.arrow", "k")
    with sqlite3.connect(folder / "data.db") as database:
        database.execute("CREATE TABLE t (k TEXT, p TEXT COLLATE NOCASE)")
        database.executemany("INSERT INTO t VALUES (?, ?)", rows)
    database.close()
    yield Source(f"sqlite:///{folder}/data.db", "k", table="t")
    yield Source(f"sqlite:///{folder}/data.db", "k", query="SELECT * FROM t")
    yield Source(table, "k")
    yield Source(table.to_reader(), "k")
    yield Source(table.set_column(1, "p", table["p"].dictionary_encode()), "k")
    yield Source(pd.DataFrame({"k": table["k"].to_pylist(), "p": pd.Series(table["p"].to_pylist(), dtype=object)}), "k")
    yield Source(pl.DataFrame(table), "k")


@pytest.mark.parametrize("value", WEIRD)
def test_every_source_is_filtered(value: str, tmp_path: Path) -> None:
    rows = [(f"k{n % 3}", p) for n, p in enumerate(WEIRD * 2)]
    expected = Counter(k for k, p in rows if p == value)
    with DuckDB(threads=1) as engine:
        for source in sources(rows, tmp_path):
            assert counted(engine.aggregated(source.of_part(Part("p", value)))) == expected, source


def test_json_and_sqlite_values_are_compared_as_their_text(tmp_path: Path) -> None:
    lines = ['{"k": "a", "p": 7}', '{"k": "b", "p": "7"}', '{"k": "c", "p": null}', '{"k": "d", "p": true}']
    (tmp_path / "data.jsonl").write_text("\n".join(lines) + "\n")
    with sqlite3.connect(tmp_path / "data.db") as database:
        database.execute("CREATE TABLE t (k TEXT, p)")
        database.executemany("INSERT INTO t VALUES (?, ?)", [("a", 7), ("b", "7"), ("c", None), ("d", 7.5)])
    database.close()
    with DuckDB() as engine:
        for source in (Source(tmp_path / "data.jsonl", "k"), Source(f"sqlite:///{tmp_path}/data.db", "k", table="t")):
            assert counted(engine.aggregated(source.of_part(Part("p", "7")))) == {"a": 1, "b": 1}
        assert counted(engine.aggregated(Source(tmp_path / "data.jsonl", "k").of_part(Part("p", "true")))) == {"d": 1}


@pytest.mark.skipif(servers.binaries() is None, reason="no PostgreSQL server binary")
def test_postgresql_is_filtered_by_the_server() -> None:
    """Whatever its settings: with escapes in text, and dates in another style."""
    from adbc_driver_postgresql import dbapi

    with servers.postgresql() as uri, dbapi.connect(uri) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (k text, p text, n int, d date, b boolean, m numeric)")
        for i, value in enumerate(WEIRD):
            held = "convert_from(decode('" + value.encode().hex() + "', 'hex'), 'UTF8')"
            cursor.execute(f"INSERT INTO t VALUES ('k{i}', {held}, {i}, DATE '2026-11-14' + {i}, {i} = 3, 1.0)")
        cursor.execute("INSERT INTO t VALUES ('null', NULL, NULL, NULL, NULL, NULL)")
        cursor.execute("ALTER ROLE tester SET standard_conforming_strings = off")
        cursor.execute("ALTER ROLE tester SET DateStyle = 'German'")
        connection.commit()
        with DuckDB() as engine:
            source = Source(uri, "k", table="t")
            for i, value in enumerate(WEIRD):
                expected = {f"k{i}": 1}
                assert counted(engine.aggregated(source.of_part(Part("p", value)))) == expected
                assert counted(engine.aggregated(source.of_part(Part("n", str(i))))) == expected
            assert counted(engine.aggregated(source.of_part(Part("d", "2026-11-15")))) == {"k1": 1}
            assert counted(engine.aggregated(source.of_part(Part("b", "true")))) == {"k3": 1}
            assert sum(batch.num_rows for batch in engine.elements(source.of_part(Part("p", "A")))) == 1
            with refused("the part column 'm' must be of text, integers, dates or booleans"):
                engine.check(source.of_part(Part("m", "1.0")))
