"""Kinds of source: what its data are, the names and types that are stated for its key, and what goes together.

All of it is checked when a source is made, before anything is read.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from dpsample.errors import InvalidValue
from dpsample.private.sources.formats import FORMATS
from dpsample.private.sources.iterables import check_iterable
from dpsample.private.sources.python_objects import accepted_classes

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsample.private.sources.source import Source

Kind = Literal["files", "database", "table", "stream", "mapping", "keys", "frame"]

RESERVED = ("frequency", "token", "estimate")  # names of columns that samples and releases have of their own


def source_kind(data: Any, named: bool) -> Kind:
    """Return what `data` is; `named` if its key columns have names."""
    if isinstance(data, str) and "://" in data:
        scheme = data.split("://", 1)[0]
        if scheme not in ("postgresql", "postgres", "sqlite"):
            raise InvalidValue(
                "a URI names a database, postgresql:// or sqlite:///",
                f"{scheme}://",
                "copy remote files to this machine, or hand in a DuckDB relation",
            )
        return "database"
    if isinstance(data, str | os.PathLike):
        return "files"
    if isinstance(data, list | tuple) and data:
        pathlike = all(isinstance(entry, os.PathLike) for entry in data)
        if pathlike or (named and all(isinstance(entry, str | os.PathLike) for entry in data)):
            return "files"
    library = type(data).__module__.partition(".")[0]
    if library == "polars" and type(data).__name__ == "LazyFrame":
        raise InvalidValue(
            "a source has its rows", "a LazyFrame of polars, which has none yet", "hand in data.collect()"
        )
    if library == "pyspark" and hasattr(data, "mapInArrow"):
        return "frame"
    if library in ("pandas", "polars") and hasattr(data, "__arrow_c_stream__") and hasattr(data, "columns"):
        return "table"
    if library == "pyarrow" and type(data).__name__ in ("Table", "RecordBatch"):
        return "table"
    if hasattr(data, "__arrow_c_stream__") and type(data).__name__ not in ("Series", "ChunkedArray"):
        return "stream"
    if isinstance(data, Mapping):
        return "mapping"
    if isinstance(data, Iterable):
        check_iterable(data)
        return "keys"
    raise InvalidValue(
        "a source is a path, a database, a DataFrame, an Arrow or DuckDB object, a mapping or an iterable of keys",
        f"an object of type {type(data).__qualname__}",
        "see the documentation of Source",
    )


def no_text_files(argument: str, found: str) -> InvalidValue:
    """Put an option of CSV for other sources into words."""
    return InvalidValue(f"{argument} goes with files of CSV or TSV", found, "leave it out")


def public_names(columns: tuple[str, ...], key_as: str | Sequence[str] | None, kind: Kind) -> tuple[str, ...]:
    """Return the names of key columns in samples and releases."""
    names = columns if key_as is None else key_names(key_as, kind)
    if key_as is not None and (kind in ("mapping", "keys") or len(names) != len(columns)):
        raise InvalidValue(
            "key_as has a new name for each key column of a table",
            "a mapping or an iterable of keys" if len(names) == len(columns) else f"{len(names)} for {len(columns)}",
            "name as many as the key has" if len(names) != len(columns) else "name them by key alone",
        )
    taken = [name for name in names if name.lower() in RESERVED]
    if taken:
        raise InvalidValue(
            f"samples and releases have the columns {', '.join(RESERVED)} of their own",
            f"the key column {taken[0]!r}",
            "give it another name there, such as key_as='name'",
        )
    return names


def key_names(key: str | Sequence[str] | None, kind: Kind) -> tuple[str, ...]:
    """Return the names of key columns, each once; Python objects need none."""
    if key is None and kind in ("mapping", "keys"):
        return ("key",)
    names = (key,) if isinstance(key, str) else tuple(key or ())
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InvalidValue(
            "key is the name of a column, or of several", "none" if not names else "something else", "write key='name'"
        )
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise InvalidValue(
                "key columns must differ, also in more than upper and lower case",
                f"{name!r} twice",
                "name each column once",
            )
        seen.add(name.lower())
    return names


def declared_types(source: "Source") -> dict[str, "pa.DataType"]:
    """Return the types that the caller declared, by key column."""
    from dpsample.files.tables import named_type

    declared = source.key_type or {}
    if isinstance(declared, str):
        declared = dict.fromkeys(source.key_columns, declared)
    if source.kind not in ("mapping", "keys", "table") or not set(declared) <= set(source.key_columns):
        raise InvalidValue(
            "key_type declares types of key columns of Python objects or of pandas",
            "another source" if set(declared) <= set(source.key_columns) else "a column that is not in the key",
            "leave it out: this source has types of its own, or is text",
        )
    types = {name: named_type(str(kind)) for name, kind in declared.items()}
    for name, kind in types.items():
        if kind is None or not accepted_classes(kind):
            raise InvalidValue(
                "a key_type is an Arrow type: string, bool, binary, an integer, a date, a timestamp or a decimal",
                repr(declared[name]),
                "write a name such as 'int64', 'date32', 'timestamp[us]' or 'decimal128(9, 2)'",
            )
    return types


def check_stated(source: "Source") -> None:
    """Refuse what does not go together in a source, before anything is read."""
    if source.kind in ("mapping", "keys") and source.frequency is not None:
        raise InvalidValue(
            "a mapping or an iterable of keys has no columns to read a frequency from",
            "a frequency column",
            "leave it out: the values of a mapping are its frequencies",
        )
    if source.frequency is not None and (not isinstance(source.frequency, str) or not source.frequency):
        raise InvalidValue("frequency is the name of a column", type(source.frequency).__name__, "write its name")
    if source.frequency in source.key_columns:
        raise InvalidValue(
            "the frequency is not part of the key", f"{source.frequency!r} as both", "name two different columns"
        )
    if source.user is not None:
        _check_user(source)
    if source.format is not None and (source.kind != "files" or source.format not in FORMATS):
        raise InvalidValue(
            f"format goes with files, and is one of {', '.join(FORMATS)}",
            f"{source.format!r} with {'files' if source.kind == 'files' else 'no files'}",
            "leave it out where the extension tells",
        )
    if source.dialect.stated and source.kind != "files":
        raise no_text_files(min(source.dialect.stated), "no files")
    if source.key_type is not None:
        declared_types(source)
    if source.kind != "database" and (source.table is not None or source.query is not None):
        raise InvalidValue(
            "table and query go with a database",
            f"{source.location}, which names none" if source.kind == "files" else "no database",
            "name it as sqlite:///PATH or postgresql://HOST/NAME, or leave them out",
        )
    if source.kind == "database" and (source.table is None) == (source.query is None):
        raise InvalidValue(
            "a database needs either a table or a query",
            "neither" if source.table is None else "both",
            "write table='name' or query='SELECT ...'",
        )


def _check_user(source: "Source") -> None:
    if not isinstance(source.user, str) or not source.user:
        raise InvalidValue("user is the name of a column", type(source.user).__name__, "write its name")
    if source.aggregated:
        raise InvalidValue(
            "privacy of users needs rows with a user and a key each",
            "rows that are aggregated by key",
            "read the raw rows, without a frequency: a key's frequency is then its number of users",
        )
    if source.kind == "keys":
        raise InvalidValue(
            "privacy of users needs a column that says whose row it is",
            "an iterable of keys, which has no columns",
            "hand in a table",
        )
    if source.user.lower() in (name.lower() for name in source.key_columns):
        raise InvalidValue("the user is not part of the key", f"{source.user!r} as both", "name two different columns")
