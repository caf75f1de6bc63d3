"""Neighbouring datasets in every kind of source, and their releases from the same coins."""

import csv
import datetime
import json
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import dpsample
from dpsample import Ppswor, Privacy, Source
from dpsample.accounting.parts import Part
from dpsample.private.engine.duckdb import DuckDB
from neighbours import Observation, differences, observe

PRIVACY = Privacy(1, 1e-3)
Rows = list[tuple[Any, Any]]  # a user and a key each

TEXTS = ["a", "b", "B", "é", "日本", "", " ", "007", "12", "=1", '"', "line\nbreak", "a,b", "NULL", "x" * 300, "rare"]
NUMBERS = [0, 1, 2, -1, 7, 200, 2**31, 2**40, -(2**63), 2**63 - 1]
DAYS = [datetime.date(2020, 1, n) for n in range(1, 9)] + [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]
MOMENTS = [datetime.datetime(2020, 1, n, 3, tzinfo=datetime.UTC) for n in range(1, 9)]
AMOUNTS = [Decimal(text) for text in ("1.50", "2.25", "0.00", "-7.10", "12345.67", "-99999.99")]
BYTES = [text.encode() for text in TEXTS] + [b"\xff", b"\0"]


@dataclass(frozen=True)
class Kind:
    """A kind of source: which keys it has, and how rows become a source, in a folder."""

    keys: Sequence[Any]
    source: Callable[[Rows, Path, dict[str, Any]], Source]
    users: bool = True


def columns(rows: Rows, type: pa.DataType) -> pa.Table:
    return pa.table({"u": pa.array([u for u, _ in rows], pa.int64()), "k": pa.array([k for _, k in rows], type)})


def parquet(type: pa.DataType) -> Callable[..., Source]:
    def source(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
        pq.write_table(columns(rows, type), folder / "data.parquet")
        return Source(folder / "data.parquet", "k", **options)

    return source


def arrow_file(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
    table = columns(rows, pa.string())
    with pa.ipc.new_file(folder / "data.arrow", table.schema) as file:
        file.write_table(table)
    return Source(folder / "data.arrow", "k", **options)


def delimited(ending: str, delimiter: str) -> Callable[..., Source]:
    def source(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
        with open(folder / f"data.{ending}", "w", newline="") as file:
            writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
            writer.writerow(["u", "k"])
            writer.writerows(rows)
        return Source(folder / f"data.{ending}", "k", **options)

    return source


def stated_csv(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
    """Text in another encoding, without names."""
    with open(folder / "data.csv", "w", newline="", encoding="utf-16") as file:
        csv.writer(file, delimiter=";", quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    more = {"user": "column0"} if "user" in options else {}
    stated = {"header": False, "delimiter": ";", "encoding": "utf-16", "null": "NA", "key_as": "k"}
    return Source(folder / "data.csv", "column1", **{**options, **more, **stated})


def json_lines(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
    (folder / "data.jsonl").write_text("".join(json.dumps({"u": u, "k": k}) + "\n" for u, k in rows))
    return Source(folder / "data.jsonl", "k", **options)


def sqlite_table(declared: str) -> Callable[..., Source]:
    def source(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
        path = folder / "data.db"
        path.unlink(missing_ok=True)
        with sqlite3.connect(path) as database:
            database.execute(f"CREATE TABLE t (u INTEGER, k {declared})")
            database.executemany("INSERT INTO t VALUES (?, ?)", rows)
        database.close()
        return Source(f"sqlite:///{path}", "k", table="t", **options)

    return source


def stream(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
    return Source(columns(rows, pa.string()).to_reader(), "k", **options)


def pandas_column(dtype: Any) -> Callable[..., Source]:
    def source(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
        frame = pd.DataFrame({"u": [u for u, _ in rows], "k": pd.Series([k for _, k in rows], dtype=dtype)})
        return Source(frame, "k", **options)

    return source


def polars_frame(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
    frame = pl.DataFrame({"u": [u for u, _ in rows], "k": [k for _, k in rows]}, schema={"u": pl.Int64, "k": pl.String})
    return Source(frame, "k", **options)


def python_keys(collect: Callable[[Iterable[Any]], Any]) -> Callable[..., Source]:
    def source(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
        return Source(collect(k for _, k in rows), **options)

    return source


def table(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
    return Source(columns(rows, pa.large_string()), "k", **options)


def one_part(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
    """Of two parts, by the user; one of the rest has no key."""
    table = columns(rows, pa.string())
    parts = pa.array(["in" if u % 2 == 0 else "out" for u, _ in rows], pa.string())
    table = table.append_column("p", parts)
    other = pa.table({"u": pa.array([1]), "k": pa.array([None], pa.string()), "p": ["out"]})
    pq.write_table(pa.concat_tables([table, other]), folder / "data.parquet")
    return Source(folder / "data.parquet", "k", **options).of_part(Part("p", "in"))


def computed_table(rows: Rows) -> pa.Table:
    """The key follows a mark, and the number of an odd user is none; one of the rest has no key, and no number."""
    return pa.table(
        {
            "u": pa.array([1, *(u for u, _ in rows)], pa.int64()),
            "raw": pa.array([None, *(f"x{k}" for _, k in rows)], pa.string()),
            "n": ["none", *(str(u) if u % 2 == 0 else f"{u}?" for u, _ in rows)],
        }
    )


COMPUTED: dict[str, Any] = {"key": "substr(raw, 2) AS k", "filter": "CAST(n AS BIGINT) >= 0"}


def computed(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
    """Keys are expressions, and rows where a cast fails are left out."""
    pq.write_table(computed_table(rows), folder / "data.parquet")
    return Source(folder / "data.parquet", **COMPUTED, **options)


def computed_csv(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
    table = computed_table(rows)
    with open(folder / "data.csv", "w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(table.column_names)
        writer.writerows(list(row.values()) for row in table.slice(1).to_pylist())
        file.write('"1",,"none"\r\n')
    return Source(folder / "data.csv", **COMPUTED, **options)


KINDS = {
    "parquet text": Kind(TEXTS, parquet(pa.string())),
    "parquet integers": Kind(NUMBERS, parquet(pa.int64())),
    "parquet decimals": Kind(AMOUNTS, parquet(pa.decimal128(9, 2))),
    "parquet days": Kind(DAYS, parquet(pa.date32())),
    "parquet moments": Kind(MOMENTS, parquet(pa.timestamp("us", "UTC"))),
    "parquet bytes": Kind(BYTES, parquet(pa.binary())),
    "parquet flags": Kind([True, False], parquet(pa.bool_())),
    "parquet part": Kind(TEXTS, one_part),
    "parquet computed": Kind(TEXTS, computed),
    "csv computed": Kind(TEXTS, computed_csv),
    "arrow file": Kind(TEXTS, arrow_file),
    "csv": Kind(TEXTS, delimited("csv", ",")),
    "tsv": Kind(TEXTS, delimited("tsv", "\t")),
    "csv stated": Kind(TEXTS, stated_csv),
    "json lines": Kind([*TEXTS, 5, -1, True, 2**70], json_lines),
    "sqlite text": Kind(TEXTS, sqlite_table("TEXT")),
    "sqlite integers": Kind(NUMBERS, sqlite_table("INTEGER")),
    "arrow table": Kind(TEXTS, table),
    "arrow stream": Kind(TEXTS, stream),
    "pandas text": Kind(TEXTS, pandas_column("string")),
    "pandas integers": Kind(NUMBERS, pandas_column("int64")),
    "polars": Kind(TEXTS, polars_frame),
    "list": Kind(TEXTS, python_keys(list), users=False),
    "generator": Kind(TEXTS, python_keys(iter), users=False),
    "Counter": Kind(TEXTS, python_keys(Counter), users=False),
}


def dataset(keys: Sequence[Any], rng: random.Random) -> Rows:
    """Six keys of frequencies from 1 to 60; a user for each element, or nearly so."""
    chosen = rng.sample(list(keys), min(6, len(keys)))
    rows = [key for key in chosen for _ in range(rng.choice([1, 2, 8, 15, 60]))]
    rng.shuffle(rows)
    return [(rng.randrange(2 * len(rows)), key) for key in rows]


def with_one_element(rows: Rows, keys: Sequence[Any], rng: random.Random) -> tuple[Rows, set[Any]]:
    """A neighbour: one element more or less, anywhere; and the key that has another frequency."""
    at = rng.randrange(len(rows))
    if rng.random() < 0.4:
        return rows[:at] + rows[at + 1 :], {rows[at][1]}
    key = rng.choice(keys)
    return [*rows[:at], (0, key), *rows[at:]], {key}


def with_one_user(rows: Rows, keys: Sequence[Any], rng: random.Random) -> tuple[Rows, set[Any]]:
    """A neighbour: one user more or less, with all rows; and the keys that may have another frequency."""
    if rng.random() < 0.4:
        user = rng.choice(rows)[0]
        return [row for row in rows if row[0] != user], {key for u, key in rows if u == user}
    chosen = {rng.choice(keys) for _ in range(rng.randint(1, 5))}
    more = [(10**6, key) for key in chosen for _ in range(rng.randint(1, 3))]
    at = rng.randrange(len(rows))
    return [*rows[:at], *more, *rows[at:]], chosen


def released(
    kind: Kind, rows: Rows, folder: Path, options: dict[str, Any], engine: DuckDB, form: str, seed: int
) -> Observation:
    """What is seen of a release to a file."""
    given = dict(options)
    columns = {"user": "u"} if given.keys() & {"max_keys_per_user", "discover"} else {}
    columns |= {"drop_null": given.pop("drop_null")} if "drop_null" in given else {}
    ledger = ("user" if "user" in columns else "element") if given.pop("ledger", False) else None
    if given.pop("listed", False):
        given["keys"] = list(kind.keys)[:3]

    def work(output: Path) -> None:
        paid: dict[str, Any] = {"ledger": output / "ledger"} if ledger else {}
        source = kind.source(rows, folder, columns)
        dpsample.release_to_file(output / f"out.{form}", source, privacy=PRIVACY, engine=engine, **given, **paid)

    return observe(work, folder / "output", ledger, seed)


def compare(one: Observation, other: Observation, changed: set[Any], options: dict[str, Any], moves: int) -> None:
    """Nothing differs but what was drawn, and of that only what may."""
    assert not differences(one, other), differences(one, other)
    assert not one.refused, one.outcome
    tau = options.get("sampling")
    two_pass = isinstance(tau, Ppswor) and tau.q([1])[0] < 0.02  # coins go by the batch, which differs
    if "size" not in options and not two_pass:
        texts = {json.dumps(key) if isinstance(key, bool) else str(key) for key in changed}  # as JSON has them
        same = [
            {k: v for k, v in o.drawn.items() if str(k[0]) not in texts and k[0] not in changed} for o in (one, other)
        ]
        assert same[0] == same[1]
    if one.total is not None and other.total is not None:
        assert abs(one.total - other.total) <= moves
