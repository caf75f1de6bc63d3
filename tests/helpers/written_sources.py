"""The same rows in every kind of source that the embedded engine reads."""

from __future__ import annotations

import csv
import gzip
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import servers
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.sources.source import Source
from support import refused_alone

CANARY = "SECRET-canary"
WEIRD = 'x\'; DROP TABLE "t"; -- é %s\\'  # a column name that breaks what does not quote
MAX = 2**63 - 1

KEYS = [
    "a",
    "A",
    "",
    "007",
    "7",
    "é",
    "e\u0301",
    "日本",
    'q"q',
    "q'q",
    "a,b",
    "a\nb",
    "a\r\nb",
    " a ",
    "\t",
    "NULL",
    "\\N",
    "{}",
]
ELEMENTS = [key for i, key in enumerate(KEYS) for _ in range(i + 1)]

Rows = dict[str, list[Any]]


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDB]:
    with DuckDB() as made:
        yield made


def run(uri: str, *statements: str) -> None:
    """Run statements in a database."""
    if uri.startswith("sqlite"):
        with sqlite3.connect(uri.removeprefix("sqlite:///")) as lite:
            for statement in statements:
                lite.execute(statement)
        lite.close()
        return
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def counted(batches: Iterable[pa.RecordBatch]) -> dict[Any, int]:
    """The keys and frequencies of batches; each key must come once."""
    result: dict[Any, int] = {}
    for batch in batches:
        assert batch.schema.names[-1] == "frequency"
        assert batch.schema.field("frequency").type == pa.int64()
        assert batch.num_rows > 0
        columns = [column.to_pylist() for column in batch.columns]
        for *key, frequency in zip(*columns, strict=True):
            known = key[0] if len(key) == 1 else tuple(key)
            assert known not in result
            result[known] = frequency
    return result


# ---- one table as every kind of source

Writer = Callable[[Rows, Path, str], Any]  # columns, a folder, the server's URI -> data, and options for Source


def write_csv(rows: Rows, path: Path, delimiter: str = ",") -> Path:
    opened: Any = gzip.open if path.name.endswith(".gz") else open
    with opened(path, "wt", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
        writer.writerow(rows)
        writer.writerows(zip(*rows.values(), strict=True))
    return path


def write_json(rows: Rows, path: Path) -> Path:
    opened: Any = gzip.open if path.name.endswith(".gz") else open
    with opened(path, "wt", encoding="utf-8") as file:
        for row in zip(*rows.values(), strict=True):
            file.write(json.dumps(dict(zip(rows, row, strict=True))) + "\n")
    return path


def write_parquet(rows: Rows, path: Path) -> Path:
    pq.write_table(pa.table(rows), path)
    return path


def write_ipc(rows: Rows, path: Path, stream: bool = False) -> Path:
    table = pa.table(rows)
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    return path


def write_feather(rows: Rows, path: Path) -> Path:
    pyarrow.feather.write_feather(pa.table(rows), str(path))
    return path


def halves(rows: Rows, folder: Path) -> list[Path]:
    """Two files whose columns are in different orders."""
    folder.mkdir()
    middle = len(next(iter(rows.values()))) // 2
    first = {column: values[:middle] for column, values in rows.items()}
    second = {column: rows[column][middle:] for column in reversed(rows)}
    return [write_csv(first, folder / "1.csv"), write_csv(second, folder / "2.csv")]


def parts(rows: Rows, folder: Path) -> Path:
    (folder / "deep").mkdir(parents=True)
    for i, part in enumerate("xyz"):
        write_parquet({c: values[i::3] for c, values in rows.items()}, folder / "deep" / f"{part} [{i}]*'.parquet")
    return folder


class OnlyStream:
    """Nothing but the Arrow C stream interface."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def relation(rows: Rows) -> Any:
    connection = duckdb.connect()
    return connection.from_arrow(pa.table(rows))


def database(uri: str, rows: Rows) -> tuple[str, dict[str, Any]]:
    kinds = {str: "text", int: "bigint"}
    columns = ", ".join(f"{name(c)} {kinds[type(values[0])]}" for c, values in rows.items())
    text = [
        ", ".join("'" + v.replace("'", "''") + "'" if isinstance(v, str) else str(v) for v in row)
        for row in zip(*rows.values(), strict=True)
    ]
    table = 'ta"b; le'
    run(
        uri,
        f"DROP TABLE IF EXISTS {name(table)}",
        f"CREATE TABLE {name(table)} ({columns})",
        f"INSERT INTO {name(table)} VALUES {', '.join(f'({row})' for row in text)}",
    )
    return uri, {"table": table}


def queried(uri: str, rows: Rows) -> tuple[str, dict[str, Any]]:
    data, options = database(uri, rows)
    return data, {"query": f"SELECT * FROM {name(options['table'])} -- all of it\n;"}


KINDS: dict[str, Writer] = {
    "parquet": lambda rows, folder, _: write_parquet(rows, folder / "a.parquet"),
    "csv": lambda rows, folder, _: write_csv(rows, folder / "a.csv"),
    "csv.gz": lambda rows, folder, _: str(write_csv(rows, folder / "a.csv.gz")),
    "csv files": lambda rows, folder, _: halves(rows, folder / "csv"),
    "csv glob": lambda rows, folder, _: (halves(rows, folder / "csv"), f"{folder}/csv/*.csv")[1],
    "tsv": lambda rows, folder, _: write_csv(rows, folder / "a.tsv", "\t"),
    "jsonl": lambda rows, folder, _: write_json(rows, folder / "a.jsonl"),
    "ndjson.gz": lambda rows, folder, _: write_json(rows, folder / "a.ndjson.gz"),
    "arrow file": lambda rows, folder, _: write_ipc(rows, folder / "a.arrow"),
    "arrow stream": lambda rows, folder, _: write_ipc(rows, folder / "a.ipc", stream=True),
    "feather": lambda rows, folder, _: write_feather(rows, folder / "a.feather"),
    "parquet folder": lambda rows, folder, _: parts(rows, folder / "parts"),
    "format": lambda rows, folder, _: (write_csv(rows, folder / "a.dat"), {"format": "csv"}),
    "pandas": lambda rows, *_: pytest.importorskip("pandas").DataFrame(rows),
    "polars": lambda rows, *_: pytest.importorskip("polars").DataFrame(rows),
    "arrow table": lambda rows, *_: pa.table(rows),
    "arrow dictionary": lambda rows, *_: pa.table({c: pa.array(v).dictionary_encode() for c, v in rows.items()}),
    "arrow batch": lambda rows, *_: pa.RecordBatch.from_pydict(rows),
    "arrow reader": lambda rows, *_: pa.table(rows).to_reader(5),
    "arrow interface": lambda rows, *_: OnlyStream(pa.table(rows)),
    "relation": lambda rows, *_: relation(rows),
    "sqlite": lambda rows, folder, _: database(f"sqlite:///{folder}/a b?.db", rows),
    "sqlite query": lambda rows, folder, _: queried(f"sqlite:///{folder}/a.db", rows),
    "postgresql": lambda rows, _, uri: database(uri, rows),
    "postgresql query": lambda rows, _, uri: queried(uri, rows),
}


# ---- refusals


refused = partial(refused_alone, hidden=(CANARY, servers.PASSWORD))


def drain(engine: DuckDB, source: Source) -> None:
    """Read a source to the end; there must not be a first batch if there is a fault anywhere."""
    batches = engine.aggregated(source)
    next(batches, None)
    pytest.fail("not refused before the first batch")
