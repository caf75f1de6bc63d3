"""Declared types of key columns that have none of their own: `key_type`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dpsample.errors import InvalidValue
from dpsample.private.sources.python_objects import accepted_classes

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsample.private.sources.source import Source


def declared_types(source: "Source") -> dict[str, "pa.DataType"]:
    """Return the types that the caller declared, by key column."""
    names = _type_names(source)
    if names and source.kind not in ("mapping", "keys", "rows", "table", "files"):
        raise InvalidValue(
            "`key_type` is for key columns of Python objects, of pandas or of folders' names",
            "leave it out: this source has types of its own, or is text",
        )
    if not names.keys() <= set(source.key_columns):
        problem = "`key_type` names a column that is not in the key"
        raise InvalidValue(problem, "declare types of key columns alone")
    if names.keys() & source.computed.keys():
        problem = "`key_type` cannot be used with an expression"
        raise InvalidValue(problem, "cast it, as in `key='CAST(n AS BIGINT) AS n'`")
    return {column: _declared(name) for column, name in names.items()}


def _type_names(source: "Source") -> Mapping[str, str]:
    """Return the names of types as they were declared, by column: one name stands for all key columns."""
    declared = source.options.get("key_type") or {}
    if isinstance(declared, str):
        return dict.fromkeys(source.key_columns, declared)
    return declared


def _declared(name: str) -> "pa.DataType":
    """Return the Arrow type of a name, or refuse one whose values no Python object can be checked against."""
    from dpsample.files.tables import named_type  # imports Arrow, which takes time

    kind = named_type(str(name))
    if kind is None or not accepted_classes(kind):
        raise InvalidValue(
            "`key_type` must be an Arrow type of text, booleans, bytes, integers, dates, timestamps or decimals,"
            f" not {name!r}",
            "write a name such as 'int64', 'date32', 'timestamp[us]' or 'decimal128(9, 2)'",
        )
    return kind
