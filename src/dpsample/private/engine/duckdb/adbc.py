"""Connections to databases over ADBC, and what their errors mean."""

import contextlib
import importlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from dpsample.errors import DpsampleError, InvalidValue
from dpsample.extras import not_installed, packages_of
from dpsample.private.engine.errors import refusal_of_code
from dpsample.private.sources.source import Source

# Rows of a batch from SQLite; more take no less time.
_BATCH_ROWS = {"adbc.sqlite.query.batch_rows": "65536"}
# How SQLSTATEs begin that tell of a connection that failed, or was not permitted.
_NO_CONNECTION = ("08", "28")


@dataclass(frozen=True)
class Place:
    """Where a database is: its URI, and what a refusal shows instead."""

    uri: str
    shown: str

    @classmethod
    def of(cls, source: Source) -> "Place":
        """Return the place that a source names."""
        return cls(source.data, source.location)

    @property
    def is_sqlite(self) -> bool:
        """Whether a database is of SQLite, and else of PostgreSQL."""
        return self.uri.startswith("sqlite")


def run(place: Place, sql: str, before: str | None = None) -> Iterator[Any]:
    """Yield the schema of a result, then its batches; another statement may be run `before`."""
    problem: DpsampleError
    try:
        with _connect(place) as connection, connection.cursor() as cursor:
            if place.is_sqlite:
                cursor.adbc_statement.set_options(**_BATCH_ROWS)
            if before is not None:
                cursor.execute(before)
            cursor.execute(sql)
            reader = cursor.fetch_record_batch()
            yield reader.schema
            yield from reader
        return
    except DpsampleError:
        raise
    except Exception as error:
        # of ADBC, Arrow or the system: their messages quote statements and values
        problem = _refusal(error, place)
    raise problem


def _connect(place: Place) -> Any:
    """Return an open connection; SQLite opens the file for reading alone."""
    name = "sqlite" if place.is_sqlite else "postgresql"
    driver = None
    with contextlib.suppress(ImportError):
        driver = importlib.import_module(f"adbc_driver_{name}.dbapi")
    if driver is None:
        raise not_installed(f"the ADBC driver of {name} is not installed", *packages_of(name))
    if not place.is_sqlite:
        return driver.connect(place.uri)
    path = place.uri.partition(":///")[2]
    if not os.path.isfile(path):
        raise InvalidValue(
            f"there is no SQLite file at {path!r}",
            "write sqlite:///relative/path or, with four slashes, sqlite:////absolute/path",
        )
    return driver.connect(f"file:{quote(os.path.abspath(path))}?mode=ro")


def _refusal(error: Exception, place: Place) -> DpsampleError:
    """Put an error into words.

    Of the messages of SQLite and libpq only the beginning is looked at, since the rest may quote rows.
    """
    where = place.shown
    state = getattr(error, "sqlstate", None) or ""
    message = str(error)
    unprepared = ""
    if place.is_sqlite:
        if message == "IO: Failed to step query: integer overflow":
            return refusal_of_code("sum")
        unprepared = message.partition("[SQLite] Failed to prepare query: ")[2]
    if state == "42P01" or unprepared.startswith("no such table"):
        problem = f"{where} has no table of that name"
        return InvalidValue(problem, "check the table's name and schema")
    if state == "42703" or unprepared.startswith("no such column"):
        return InvalidValue(f"{where} has no column of a name in the query", "check the query")
    if state == "42501":
        return InvalidValue(f"{where} does not permit reading the table", "ask for permission")
    if message.startswith("IO: [libpq] Failed to connect") or state.startswith(_NO_CONNECTION):
        return InvalidValue(
            f"{where} did not accept a connection",
            "check the server, the database, the user and the password",
        )
    code = f" (SQLSTATE {state})" if state else ""
    problem = f"{where} could not answer the query{code}"
    return InvalidValue(problem, "try it in the database's own shell")
