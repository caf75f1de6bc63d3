"""A row cannot choose the error that ends a run: whatever it says, a broken row is refused as a broken row.

Engines quote rows in their messages. What the code looks for in a message is planted in rows here, for each of the
places from which a message may quote: CSV, JSON lines, a cast or an error in a relation, SQLite.
"""

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from dpsample import InvalidValue, Source, SystemFailure
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.engine.duckdb.errors import refusal
from dpsample.private.engine.errors import MARK, refusal_of_mark

HARMLESS = "nothing special"

IMITATIONS = [
    "failed: KeyboardInterrupt",
    "failed: KeyboardInterrupt: ",
    "Invalid Input Error: reading the stream registered as 'source' failed: KeyboardInterrupt: ",
    "reading the schema of the object registered as 'source' failed: KeyboardInterrupt: ",
    "Query interrupted",
    "INTERRUPT Error: Interrupted!",
    "No space left",
    "No space left on device",
    "IO Error: No space left on device",
    "Out of Memory Error",
    "Out of Memory Error: max_temp_directory_size",
    "temp_directory_size",
    "dpsample-refused",
    "dpsample-refused:null:0",
    "dpsample-refused:nobody:0",
    "dpsample-refused:negative",
    "dpsample-refused:sum",
    "dpsample-refused:twice",
    "dpsample-refused-00000000000000000000000000000000:null:0",
    "CSV Error on Line: 777",
    "JSON transform error in line 777",
    'Malformed JSON in file "x", at byte 1 in line 777',
    "integer overflow",
    "no such table: t",
    "no such column: k",
    "Failed to connect",
]


def csv_row(text: str, folder: Path) -> Source:
    quoted = text.replace('"', '""')
    (folder / "rows.csv").write_text("key,other\n" + "a,1\n" * 10 + f'"{quoted}",1,2,3,4\n')
    return Source(folder / "rows.csv", "key")


def json_row(text: str, folder: Path) -> Source:
    """An array, which is no object: the message quotes it."""
    (folder / "rows.jsonl").write_text('{"key": "a"}\n' * 10 + json.dumps([text]) + "\n")
    return Source(folder / "rows.jsonl", "key")


def cast_row(text: str, folder: Path) -> Source:
    rows = pa.table({"text": ["1", text]})
    connection = duckdb.connect()
    connection.register("rows", rows)
    return Source(connection.sql("SELECT CAST(text AS INTEGER) AS key FROM rows"), "key")


def sqlite_row(text: str, folder: Path) -> Source:
    pytest.importorskip("adbc_driver_sqlite")
    path = folder / "rows.db"
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE t (k TEXT)")
    database.execute("INSERT INTO t VALUES (?)", [text])
    database.commit()
    database.close()
    return Source(f"sqlite:///{path}", "k", query="SELECT json_extract('{}', k) AS k FROM t")


ROWS: dict[str, Callable[[str, Path], Source]] = {
    "CSV": csv_row,
    "JSON lines": json_row,
    "a cast": cast_row,
    "SQLite": sqlite_row,
}


def ending(source: Source) -> tuple[type[BaseException], str]:
    """How a run over this source ends."""
    with DuckDB() as engine:
        try:
            list(engine.aggregated(source))
        except BaseException as error:
            return type(error), str(error)
    raise AssertionError("a broken row was read")


@pytest.mark.parametrize("place", ROWS)
def test_no_row_chooses_the_error(place: str, tmp_path: Path) -> None:
    expected = ending(ROWS[place](HARMLESS, tmp_path))
    assert expected[0] is InvalidValue
    for text in IMITATIONS:
        assert ending(ROWS[place](text, tmp_path)) == expected, text


@pytest.mark.parametrize("text", IMITATIONS)
def test_an_error_that_a_relation_raises_is_a_broken_source(text: str, tmp_path: Path) -> None:
    """Its message begins with what the row says, so it may choose between the words for broken files, and no more."""
    connection = duckdb.connect()
    connection.register("rows", pa.table({"text": ["1", text]}))
    query = "SELECT CASE WHEN text = '1' THEN text ELSE error(text) END AS key FROM rows"
    kind, message = ending(Source(connection.sql(query), "key"))
    assert kind is InvalidValue
    assert message.startswith(("<DuckDBPyRelation> is not whole", "<DuckDBPyRelation> has a broken"))


def test_the_line_of_a_broken_row_is_its_own(tmp_path: Path) -> None:
    assert "near line 12;" in ending(csv_row("CSV Error on Line: 777", tmp_path))[1]
    assert "near line 11;" in ending(json_row("x in line 777", tmp_path))[1]


def test_marks_are_read_where_the_engine_puts_them() -> None:
    statement = f"Parser Error: syntax error\nLINE 1: SELECT error('{MARK}:null:0')"
    assert refusal_of_mark(statement, r"\A(?:Invalid Input Error: )?", ["k"]) is None
    assert "must have no NULL" in str(refusal(duckdb.Error(f"Invalid Input Error: {MARK}:null:0"), "it", ["k"]))
    assert len(MARK) >= len("dpsample-refused-") + 32


def test_real_failures_are_still_recognised() -> None:
    full = "has no room left"
    endings: list[tuple[Exception, str]] = [
        (duckdb.IOException('IO Error: Could not write file "x": No space left on device'), full),
        (duckdb.OutOfMemoryException("Out of Memory Error: failed; see 'max_temp_directory_size'"), full),
        (OSError(28, "No space left on device"), full),
        (OSError("IO Error: Could not write file: No space left on device"), full),  # through Arrow
        (duckdb.OutOfMemoryException("Out of Memory Error: failed to allocate"), "does not fit into the memory limit"),
        (MemoryError(), "does not fit into the memory limit"),
    ]
    for error, words in endings:
        found = refusal(error, "it", ["k"])
        assert isinstance(found, SystemFailure)
        assert words in str(found)


def test_duckdb_calls_python_where_ctrl_c_does_not_come(tmp_path: Path) -> None:
    """Python's main thread alone is interrupted: elsewhere, no KeyboardInterrupt can become an error of DuckDB's."""
    called_in = []

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            called_in.append(threading.current_thread())
            yield pa.record_batch({"c0": ["a"]})

    def reader() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(pa.schema([("c0", pa.string())]), batches())

    with DuckDB() as engine:
        assert engine.run("SELECT count(*) FROM r", {"r": reader}) == [(3,)]
        assert sum(batch.num_rows for batch in engine.stream("SELECT * FROM r", {"r": reader})) == 3
        assert engine.describe("r", {"r": reader}) == [("c0", duckdb.sqltypes.VARCHAR)]
    assert len(called_in) >= 6
    assert threading.main_thread() not in called_in


def test_ctrl_c_in_a_stream_of_python() -> None:
    def batches() -> object:
        yield pa.record_batch({"key": ["a"]})
        raise KeyboardInterrupt

    rows = pa.RecordBatchReader.from_batches(pa.schema([("key", pa.string())]), batches())
    assert ending(Source(rows, "key"))[0] is KeyboardInterrupt
