"""Statements: a connection to DuckDB, its temporary folder, and what runs on it, each on a cursor of its own.

DuckDB works in another thread than Python's main one, which alone is interrupted by Ctrl-C. In the main thread, an
interrupt that came while DuckDB calls Python, as to read Arrow, would become an error of DuckDB's, in words that a row
could have as well.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.interrupts import held
from dpsample.private.engine.duckdb.columns import numbered
from dpsample.private.engine.duckdb.errors import called
from dpsample.private.engine.duckdb.mounts import Mounts
from dpsample.private.engine.duckdb.temporary import TemporaryFolder
from dpsample.private.sources.scans import Objects
from dpsample.private.sources.stores import StoredFile

_T = TypeVar("_T")

# Rows of a batch: one of DuckDB's row groups.
_BATCH = 122_880
# Seconds between two looks at whether a signal came, and between two interrupts of work that goes on after one.
_LOOK = 0.05
_SETTINGS = "SET enable_progress_bar = false; SET TimeZone = 'UTC'"


class Statements:
    """An open connection, until it is closed. Names of tables and files are its own."""

    def __init__(self, config: dict[str, Any], temp_dir: str | PathLike[str] | None) -> None:
        self._temp = TemporaryFolder(temp_dir)
        settings = {**config, "temp_directory": self._temp.path}
        self._connection: duckdb.DuckDBPyConnection | None = None
        try:
            with held():
                self._connection = duckdb.connect(":memory:", config=settings)
        finally:
            if self._connection is None:
                self._temp.remove()
        self._mounts = Mounts()
        self._cursors: list[duckdb.DuckDBPyConnection] = []
        self._names = (f"spool_{i}" for i in count())

    def close(self) -> None:
        """Close the connection and remove all temporary files; batches that are still open end with an error."""
        if self._connection is None:
            return
        connection, self._connection = self._connection, None
        with held():  # what is half removed would stay
            try:
                for cursor in self._cursors:
                    cursor.close()
                connection.close()
            finally:
                self._temp.remove()

    def run(self, sql: str, objects: Objects | None = None) -> list[Any]:
        """Run a statement to its end."""
        with self._cursor(objects) as cursor:
            rows: list[Any] = _waited(cursor, lambda: cursor.execute(sql).fetchall())
            return rows

    def stream(
        self, sql: str, objects: Objects | None = None, rows: int = _BATCH
    ) -> Iterator[pa.RecordBatch]:
        """Yield the result of a query in batches of at most `rows` rows."""
        with self._cursor(objects) as cursor:
            reader = _waited(cursor, lambda: cursor.sql(sql).to_arrow_reader(rows))
            while (batch := _waited(cursor, lambda: next(reader, None))) is not None:
                if batch.num_rows:
                    yield batch
                # else the result of a cursor that was closed would seem to have come to its end
                self._require_open()

    def describe(self, origin: str, objects: Objects | None = None) -> list[tuple[str, Any]]:
        """Return the names and DuckDB types of the columns of a FROM item."""
        with self._cursor(objects) as cursor:
            relation = _waited(cursor, lambda: cursor.sql(f"SELECT * FROM {origin} LIMIT 0"))
            return _waited(cursor, lambda: list(zip(relation.columns, relation.types, strict=True)))

    def schema(self, sql: str, objects: Objects | None = None) -> pa.Schema:
        """Return the Arrow schema of a query's result."""
        with self._cursor(objects) as cursor:
            return _waited(cursor, lambda: cursor.sql(f"{sql} LIMIT 0").to_arrow_reader(1).schema)

    def name(self) -> str:
        """Return a name for a table that no other has."""
        return next(self._names)

    def file(self) -> Path:
        """Return a path for a temporary file that no other has."""
        return Path(self._temp.path, self.name())

    def mount(self, file: StoredFile) -> str:
        """Let statements open a file in a store; return its name there."""
        return self._mounts.add(file, self._require_open())

    @contextmanager
    def _cursor(self, objects: Objects | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a cursor on which objects have names, for the time of a block."""
        cursor = self._require_open().cursor()
        self._cursors.append(cursor)
        try:
            made = {name: make() for name, make in (objects or {}).items()}
            _waited(cursor, partial(_set_up, cursor, made))
            yield cursor
        finally:
            self._cursors.remove(cursor)
            cursor.close()

    def _require_open(self) -> duckdb.DuckDBPyConnection:
        """Return the connection, or refuse if it was closed."""
        if self._connection is None:
            raise InvalidValue("the engine is closed", "use it inside its `with` block")
        return self._connection

    def spool(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Put batches into a new table, which may spill, with columns c0, c1, ...; return the number of rows."""
        empty = numbered(schema.empty_table())
        self.run(f"CREATE TABLE {name} AS SELECT * FROM empty", {"empty": lambda: empty})
        return self.insert(name, batches)

    def insert(self, name: str, batches: Iterable[pa.RecordBatch]) -> int:
        """Add batches to a table; return their number of rows."""
        rows = 0
        with self._cursor() as cursor:
            for table in gathered(batches, _BATCH):
                _waited(cursor, partial(_insert, cursor, name, numbered(table)))
                rows += table.num_rows
        return rows

    def size(self, name: str) -> int:
        """Return the number of rows of a table."""
        [(rows,)] = self.run(f"SELECT count(*) FROM {name}")
        return int(rows)

    def drop(self, name: str) -> None:
        """Remove a table, if it is there."""
        if self._connection is not None:
            self.run(f"DROP TABLE IF EXISTS {name}")


def _set_up(cursor: duckdb.DuckDBPyConnection, objects: Mapping[str, Any]) -> None:
    """Apply the settings, and give objects their names in statements."""
    cursor.execute(_SETTINGS).fetchall()
    for name, made in objects.items():
        cursor.register(name, made)


def _insert(cursor: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Add rows to a table."""
    cursor.register("batch", rows)
    cursor.execute(f"INSERT INTO {name} SELECT * FROM batch").fetchall()
    cursor.unregister("batch")


def _waited(cursor: duckdb.DuckDBPyConnection, work: Callable[[], _T]) -> _T:
    """Run work on a cursor in another thread, and wait for it; a signal ends the work, and is handled afterwards.

    An error that the handler of a signal raised while this thread waits could leave the lock of the future taken, and
    the other thread would never end. So signals are held.
    """
    with held() as came, ThreadPoolExecutor(1) as pool:
        future = pool.submit(called, work)
        while not wait([future], _LOOK).done:
            if came:
                cursor.interrupt()  # again and again: one that comes before its work began is forgotten
    return future.result()


def gathered(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Gather batches into tables of at least `rows` rows, but for the last one: each table has a price of its own."""
    held = list[pa.RecordBatch]()
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.num_rows
        if size >= rows:
            yield pa.Table.from_batches(held)
            held = []
            size = 0
    if held:
        yield pa.Table.from_batches(held)
