"""Kinds of source: what the data of a source are, by their class and never by their values."""

import os
import sqlite3
from collections.abc import Iterable, Mapping
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
_OF_SPARK = ("hdfs", "s3a", "s3n", "wasb", "wasbs", "dbfs")  # schemes that Spark reads
_ARROW_STREAM = "__arrow_c_stream__"
_DUCKDB_ENDINGS = (".duckdb", ".ddb")


def source_kind(data: Any, named: bool) -> Kind:
    """Return the kind of `data`. `named` says whether the key columns have names."""
    if _library(data) == "polars" and type(data).__name__ == "LazyFrame":
        raise InvalidValue("a LazyFrame of polars has no rows yet", "hand in data.collect()")
    kind = _first_that_fits(data, named)
    if kind is None:
        raise InvalidValue(
            f"an object of type {type(data).__qualname__} is no source",
            "hand in a path, a database, a DataFrame, an Arrow or DuckDB object, a list of dicts, a mapping or an "
            "iterable of keys",
        )
    _check_kind(data, kind)
    return kind


def _first_that_fits(data: Any, named: bool) -> Kind | None:
    """Return the first kind that fits `data`, or None: the order matters, since a list of paths is also an iterable."""
    if _is_duckdb(data):
        return "duckdb"
    if _is_files(data, named):
        return "files"
    if _is_database(data):
        return "database"
    if isinstance(data, sqlite3.Connection):
        return "connection"
    if _is_frame(data):
        return "frame"
    if _is_table(data):
        return "table"
    if _is_dataset(data):
        return "dataset"
    if _is_stream(data):
        return "stream"
    if is_records(data):
        return "rows"
    if isinstance(data, Mapping):
        return "mapping"
    return "keys" if isinstance(data, Iterable) else None


def _check_kind(data: Any, kind: Kind) -> None:
    """Refuse data that only look as if they were of this kind, and URIs that are not read."""
    if kind == "files":
        for entry in data if isinstance(data, list | tuple) else [data]:
            if is_uri(entry):
                check_uri(entry)
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


def _is_dataset(data: Any) -> bool:
    """Whether data are a dataset of Arrow."""
    return _library(data) == "pyarrow" and hasattr(data, "scanner")


def _remedy(scheme: str) -> str:
    """Return what to do with rows at a URI of a scheme that is not read."""
    if scheme in _OF_SPARK:
        return "read it with Spark: --engine spark, or dpsample.spark"
    return (
        "write the rows to Parquet files, or hand in an Arrow reader or a DuckDB relation of them"
    )


def _check_database(uri: str) -> None:
    scheme = uri.partition("://")[0]
    if scheme not in ("postgresql", "postgres", "sqlite"):
        raise InvalidValue(
            f"a URI that begins with {scheme}:// is not read, only postgresql://, sqlite:///, {_STORES}",
            _remedy(scheme),
        )
