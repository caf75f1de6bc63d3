"""Places from which rows come to this machine first: standard input, stores, and databases of other connections."""

import os
import shutil
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from dpsample.errors import InvalidValue, attempt
from dpsample.private.engine.duckdb import adbc
from dpsample.private.sources.folders import DataFile
from dpsample.private.sources.listing import STANDARD_INPUT, Listing
from dpsample.private.sources.source import Source
from dpsample.sql import quoted_name

if TYPE_CHECKING:
    from dpsample.private.engine.duckdb.engine import DuckDB


def readable(file: DataFile, listing: Listing, engine: "DuckDB") -> DataFile:
    """Return a file that DuckDB can read: the file itself, or a temporary copy of it.

    DuckDB reads Parquet in a store, and just the columns that are needed; files of other formats are copied.
    """
    if file.path == STANDARD_INPUT:
        return replace(file, path=_copied_input(engine.file()))
    stored = listing.stored.get(file.path)
    if stored is None:
        if not os.access(file.path, os.R_OK):
            problem = f"there is no permission to read {file.shown!r}"
            raise InvalidValue(problem, "check who may read it")
        return file
    if listing.format == "parquet":
        return replace(file, path=engine.mount(stored))
    ending = ".gz" if stored.path.endswith(".gz") else ""
    copy = f"{engine.file()}{ending}"
    stored.copy_to(copy)
    return replace(file, path=copy)


def _copied_input(copy: Path) -> str:
    """Copy standard input to a temporary file."""
    with copy.open("xb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return str(copy)


def copied_connection(source: Source, copy: Path) -> adbc.Place:
    """Copy the database of a connection of SQLite, as the connection sees it, to a temporary file."""
    unread = InvalidValue(
        f"the database of {source.location} cannot be read through it",
        "commit or roll back first, and call from the thread that made the connection",
    )

    def back_up() -> None:
        with closing(sqlite3.connect(copy)) as target:
            source.data.backup(target)

    attempt(back_up, unread, sqlite3.Error)
    return adbc.Place(f"sqlite:///{copy}", source.location)


def stored_relation(source: Source, engine: "DuckDB") -> Any:
    """Return the table or query of a database file of DuckDB as a relation; the file is opened for reading alone."""
    path = os.fspath(source.data)
    if not os.path.isfile(path):
        raise InvalidValue(f"there is no file at {path!r}", "check the path")
    config: dict[str, Any] = {"temp_directory": str(engine.file()), **engine.limits}
    unopened = InvalidValue(
        f"{path!r} cannot be opened for reading as a database of DuckDB",
        "close connections that write to it, also of this program, or hand in a relation of one of them",
    )
    connection = attempt(
        lambda: duckdb.connect(path, read_only=True, config=config), unopened, duckdb.Error
    )
    query = source.options.get("query")
    if query is None:
        names = str(source.options.get("table")).split(".", 1)
        query = f"SELECT * FROM {'.'.join(quoted_name(name) for name in names)}"
    unanswered = InvalidValue(
        f"{path!r} has no such table, or cannot answer the query",
        "check the names of the table and its columns",
    )
    relation = attempt(lambda: connection.sql(query), unanswered, duckdb.Error)
    if relation is None:
        raise unanswered
    return relation
