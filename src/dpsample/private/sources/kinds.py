"""Kinds of source: what the data of a source are, by their class and never by their values."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from dpsample.errors import InvalidValue
from dpsample.private.sources.iterables import check_iterable

Kind = Literal["files", "database", "table", "stream", "mapping", "keys", "frame"]

_ARROW_STREAM = "__arrow_c_stream__"


def source_kind(data: Any, named: bool) -> Kind:
    """Return the kind of `data`: the first that fits. `named` says whether the key columns have names."""
    if _library(data) == "polars" and type(data).__name__ == "LazyFrame":
        raise InvalidValue("a LazyFrame of polars has no rows yet", "hand in data.collect()")
    if _is_files(data, named):
        return "files"
    for kind, fits in _KINDS.items():
        if fits(data):
            _check_kind(data, kind)
            return kind
    raise InvalidValue(
        f"an object of type {type(data).__qualname__} is no source",
        "hand in a path, a database, a DataFrame, an Arrow or DuckDB object, a mapping or an iterable of keys",
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
    return isinstance(data, str) and "://" in data


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
    "frame": _is_frame,
    "table": _is_table,
    "stream": _is_stream,
    "mapping": lambda data: isinstance(data, Mapping),
    "keys": lambda data: isinstance(data, Iterable),
}


def _check_database(uri: str) -> None:
    scheme = uri.partition("://")[0]
    if scheme not in ("postgresql", "postgres", "sqlite"):
        raise InvalidValue(
            f"a URI that begins with {scheme}:// is not read, only postgresql:// and sqlite:///",
            "copy remote files to this machine, or hand in a DuckDB relation",
        )
