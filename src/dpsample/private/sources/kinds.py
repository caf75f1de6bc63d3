"""Kinds of source: what its data are, the names and types that are stated for its key, and what goes together.

All of it is checked when a source is made, before anything is read.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from dpsample.errors import InvalidValue
from dpsample.private.sources.computed import is_computed
from dpsample.private.sources.formats import FORMATS
from dpsample.private.sources.iterables import check_iterable
from dpsample.private.sources.python_objects import accepted_classes

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsample.private.sources.source import Source

Kind = Literal["files", "database", "table", "stream", "mapping", "keys", "frame"]

RESERVED = (
    "frequency",
    "token",
    "estimate",
)  # names of columns that samples and releases have of their own
_ARROW_STREAM = "__arrow_c_stream__"


def source_kind(data: Any, named: bool) -> Kind:
    """Return the kind of `data`: the first that fits; `named` if its key columns have names."""
    _refuse_if(
        _library(data) == "polars" and type(data).__name__ == "LazyFrame",
        "a LazyFrame of polars has no rows yet",
        "hand in data.collect()",
    )
    if _is_files(data, named):
        return "files"
    kind = next((kind for kind, fits in _KINDS.items() if fits(data)), None)
    if kind is None:
        raise InvalidValue(
            f"an object of type {type(data).__qualname__} is no source",
            "hand in a path, a database, a DataFrame, an Arrow or DuckDB object, a mapping or an iterable of keys",
        )
    if kind == "database":
        _check_database(data)
    if kind == "keys":
        check_iterable(data)
    return kind


def _is_files(data: Any, named: bool) -> bool:
    """Whether data are paths; texts of a list are paths only if the key columns have names, and else keys."""
    if isinstance(data, list | tuple) and data:
        classes = (str, os.PathLike) if named else os.PathLike
        return all(isinstance(entry, classes) for entry in data)
    return isinstance(data, str | os.PathLike) and not _is_database(data)


def _is_database(data: Any) -> bool:
    return isinstance(data, str) and "://" in data


def _library(data: Any) -> str:
    return type(data).__module__.partition(".")[0]


def _is_frame(data: Any) -> bool:
    """Whether data are a DataFrame of Spark."""
    return _library(data) == "pyspark" and hasattr(data, "mapInArrow")


def _is_table(data: Any) -> bool:
    if _library(data) == "pyarrow":
        return type(data).__name__ in ("Table", "RecordBatch")
    return (
        _library(data) in ("pandas", "polars")
        and hasattr(data, _ARROW_STREAM)
        and hasattr(data, "columns")
    )


def _is_stream(data: Any) -> bool:
    """Whether data have columns, and come through the Arrow C stream interface: a column alone has none."""
    return hasattr(data, _ARROW_STREAM) and type(data).__name__ not in ("Series", "ChunkedArray")


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


def public_names(
    columns: tuple[str, ...], key_as: str | Sequence[str] | None, kind: Kind
) -> tuple[str, ...]:
    """Return the names of key columns in samples and releases."""
    names = columns if key_as is None else key_names(key_as, kind)
    _refuse_if(
        key_as is not None and kind in ("mapping", "keys"),
        "`key_as` cannot be used with a mapping or an iterable of keys",
        "name them by key alone",
    )
    _refuse_if(
        len(names) != len(columns),
        f"`key_as` has {len(names)} names for {len(columns)} key columns",
        "write one name for each column",
    )
    for name in names:
        _refuse_if(
            is_computed(name),
            f"the name {name!r} of a key is written like an expression with a name",
            "choose one without AS",
        )
        _refuse_if(
            name.lower() in RESERVED,
            f"the key column {name!r} is called like a column that samples and releases have of their own",
            "give it another name there, such as `key_as='name'`",
        )
    return names


def key_names(key: str | Sequence[str] | None, kind: Kind) -> tuple[str, ...]:
    """Return the names of key columns, each once; Python objects need none."""
    if key is None and kind in ("mapping", "keys"):
        return ("key",)
    names = (key,) if isinstance(key, str) else tuple(key or ())
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InvalidValue(
            "`key` must be the name of a column, or of several", "write `key='name'`"
        )
    seen = set[str]()
    for name in names:
        if name.lower() in seen:  # databases do not tell upper from lower case
            raise InvalidValue(f"the key has the column {name!r} twice", "name each column once")
        seen.add(name.lower())
    return names


def declared_types(source: "Source") -> dict[str, "pa.DataType"]:
    """Return the types that the caller declared, by key column."""
    from dpsample.files.tables import named_type

    declared = source.options.get("key_type") or {}
    if isinstance(declared, str):
        declared = dict.fromkeys(source.key_columns, declared)
    if source.kind not in ("mapping", "keys", "table"):
        raise InvalidValue(
            "`key_type` is for key columns of Python objects or of pandas",
            "leave it out: this source has types of its own, or is text",
        )
    if not set(declared) <= set(source.key_columns):
        raise InvalidValue(
            "`key_type` names a column that is not in the key", "declare types of key columns alone"
        )
    types = {name: named_type(str(kind)) for name, kind in declared.items()}
    for name, kind in types.items():
        if kind is None or not accepted_classes(kind):
            raise InvalidValue(
                "`key_type` must be an Arrow type of text, booleans, bytes, integers, dates, timestamps or decimals,"
                f" not {declared[name]!r}",
                "write a name such as 'int64', 'date32', 'timestamp[us]' or 'decimal128(9, 2)'",
            )
    return types


def check_together(source: "Source") -> None:
    """Refuse options that do not go together in a source, before anything is read."""
    _check_frequency(source)
    if source.user is not None:
        _check_user(source)
    _check_place(source)
    if source.computes:
        _check_computed(source)
    if "key_type" in source.options:
        declared_types(source)


def _check_computed(source: "Source") -> None:
    """Refuse expressions where no engine computes them."""
    _refuse_if(
        source.kind in ("mapping", "keys"),
        "an expression or `filter` cannot be used with a mapping or an iterable of keys",
        "compute its keys in Python",
    )
    _refuse_if(
        source.kind == "database",
        "an expression or `filter` cannot be used with a database",
        "write it in SQL: `query='SELECT lower(query) AS query FROM ...'`",
    )
    if source.kind == "frame":
        raise refusal_on_spark()


def refusal_on_spark() -> InvalidValue:
    """Return the refusal of expressions where Spark reads the rows."""
    return InvalidValue(
        "an expression or `filter` is computed by DuckDB, not by Spark",
        "compute it in the DataFrame: data.where(...).selectExpr('lower(query) AS query')",
    )


def _refuse_if(broken: bool, problem: str, remedy: str) -> None:
    if broken:
        raise InvalidValue(problem, remedy)


def _check_frequency(source: "Source") -> None:
    name = source.frequency
    _refuse_if(
        name is not None and source.kind in ("mapping", "keys"),
        "`frequency` cannot be used with a mapping or an iterable of keys",
        "leave it out: the values of a mapping are its frequencies",
    )
    _refuse_if(
        name is not None and not (isinstance(name, str) and name),
        f"`frequency` must be the name of a column, not of type {type(name).__name__}",
        "write its name",
    )
    _refuse_if(
        name in source.key_columns,
        f"the column {name!r} is both key and frequency",
        "name two different columns",
    )


def _check_user(source: "Source") -> None:
    user = source.user
    _refuse_if(
        not isinstance(user, str) or not user,
        f"`user` must be the name of a column, not of type {type(user).__name__}",
        "write its name",
    )
    _refuse_if(
        source.aggregated,
        "privacy of users needs rows with a user and a key each, and these are aggregated by key",
        "read the raw rows, without a frequency: a key's frequency is then its number of users",
    )
    _refuse_if(
        source.kind == "keys",
        "privacy of users needs a user column, and an iterable of keys has none",
        "hand in a table",
    )
    _refuse_if(
        str(user).lower() in map(str.lower, source.key_columns),
        f"the column {user!r} is both key and user",
        "name two different columns",
    )


def _check_place(source: "Source") -> None:
    """Refuse options of files for other sources, and options of databases likewise."""
    format, text = source.options.get("format"), source.text_options
    in_database = {"table", "query"} & source.options.keys()
    is_file, is_database = source.kind == "files", source.kind == "database"
    _refuse_if(
        format is not None and not (is_file and format in FORMATS),
        f"`format` can only be used with files, and is one of {', '.join(FORMATS)}",
        "leave it out where the extension says it",
    )
    _refuse_if(
        bool(text) and not is_file,
        f"`{''.join(text[:1])}` can only be used with files of CSV or TSV",
        "leave it out",
    )
    _refuse_if(
        bool(in_database) and not is_database,
        "`table` and `query` can only be used with a database",
        "name it as sqlite:///PATH or postgresql://HOST/NAME, or leave them out",
    )
    _refuse_if(
        is_database and len(in_database) != 1,
        "a database needs either a table or a query",
        "write `table='name'` or `query='SELECT ...'`",
    )
