"""Kinds of source: what the data of a source are, by their class and never by their values."""

import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

from dpsample.errors import InvalidValue
from dpsample.private.sources.iterables import check_iterable
from dpsample.private.sources.records import is_records
from dpsample.private.sources.stores import check_uri, is_uri

Kind = Literal[
    "files",
    "database",
    "connection",
    "duckdb",
    "table",
    "dataset",
    "stream",
    "mapping",
    "rows",
    "keys",
    "frame",
]
DATABASES: Final = ("database", "connection", "duckdb")  # kinds of which a table or a query is read

_STORES = "s3://, gs://, abfs:// and https://"
_ARROW_STREAM = "__arrow_c_stream__"
_DUCKDB_ENDINGS = (".duckdb", ".ddb")


def source_kind(data: Any, named: bool) -> Kind:
    """Return the kind of `data`: the first that fits. `named` says whether the key columns have names."""
    if _library(data) == "polars" and type(data).__name__ == "LazyFrame":
        raise InvalidValue("a LazyFrame of polars has no rows yet", "hand in data.collect()")
    if _is_duckdb(data):
        return "duckdb"
    if _is_files(data, named):
        for entry in data if isinstance(data, list | tuple) else [data]:
            if is_uri(entry):
                check_uri(entry)
        return "files"
    for kind, fits in _KINDS.items():
        if fits(data):
            _check_kind(data, kind)
            return kind
    raise InvalidValue(
        f"an object of type {type(data).__qualname__} is no source",
        "hand in a path, a database, a DataFrame, an Arrow or DuckDB object, a list of dicts, a mapping or an "
        "iterable of keys",
    )


def _check_kind(data: Any, kind: Kind) -> None:
    """Refuse data that only look as if they were of this kind."""
    if kind == "database":
        _check_database(data)
    if kind == "keys":
        check_iterable(data)


def _is_files(data: Any, named: bool) -> bool:
    """Whether data are paths; texts of a list are paths only if the key columns have names, and else keys."""
    if isinstance(data, list | tuple) and data:
        classes = (str, os.PathLike) if named else (os.PathLike,)
        return all(isinstance(entry, classes) for entry in data)
    is_path = isinstance(data, str | os.PathLike)
    return is_path and not _is_database(data)


def _is_database(data: Any) -> bool:
    return isinstance(data, str) and "://" in data and not is_uri(data)


def _is_duckdb(data: Any) -> bool:
    """Whether data are the path of a database of DuckDB."""
    is_path = isinstance(data, str | os.PathLike) and not _is_database(data)
    return is_path and os.fspath(data).lower().endswith(_DUCKDB_ENDINGS)


def _library(data: Any) -> str:
    """Return the name of the library that the class of an object comes from."""
    return type(data).__module__.partition(".")[0]


def _is_frame(data: Any) -> bool:
    """Whether data are a DataFrame of Spark."""
    return _library(data) == "pyspark" and hasattr(data, "mapInArrow")


def _is_table(data: Any) -> bool:
    """Whether data are a table in memory: of Arrow, pandas or polars."""
    library = _library(data)
    if library == "pyarrow":
        return type(data).__name__ in ("Table", "RecordBatch")
    has_columns = hasattr(data, _ARROW_STREAM) and hasattr(data, "columns")
    return library in ("pandas", "polars") and has_columns


def _is_stream(data: Any) -> bool:
    """Whether data are a table through the Arrow C stream interface: a single column, which has it too, is none."""
    is_column = type(data).__name__ in ("Series", "ChunkedArray")
    return hasattr(data, _ARROW_STREAM) and not is_column


_KINDS: dict[Kind, Callable[[Any], bool]] = {
    "database": _is_database,
    "connection": lambda data: isinstance(data, sqlite3.Connection),
    "frame": _is_frame,
    "table": _is_table,
    "dataset": lambda data: _library(data) == "pyarrow" and hasattr(data, "scanner"),
    "stream": _is_stream,
    "rows": is_records,
    "mapping": lambda data: isinstance(data, Mapping),
    "keys": lambda data: isinstance(data, Iterable),
}


def _check_database(uri: str) -> None:
    scheme = uri.partition("://")[0]
    if scheme not in ("postgresql", "postgres", "sqlite"):
        raise InvalidValue(
            f"a URI that begins with {scheme}:// is not read, only postgresql://, sqlite:///, {_STORES}",
            "copy the files to this machine, or hand in a DuckDB relation",
        )
