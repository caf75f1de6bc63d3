"""Rows that are mappings from column to value, such as a list of dicts, as Arrow.

Keys have their declared types, or are text, as those of other Python objects. Users and parts are text.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from numbers import Number
from typing import TYPE_CHECKING, Any

from dpsample.errors import InvalidValue
from dpsample.private.sources.key_types import declared_types
from dpsample.private.sources.python_objects import CHUNK, column_array, whole_frequency

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsample.private.sources.source import Source


def is_records(data: Any) -> bool:
    """Whether data are a list of rows, by the first of them."""
    return isinstance(data, list | tuple) and bool(data) and isinstance(data[0], Mapping)


def record_batches(source: "Source") -> "tuple[pa.Schema, Iterator[pa.RecordBatch]]":
    """Return an Arrow schema of the columns to read, and batches of them; what a row does not have is NULL."""
    import pyarrow as pa

    _require_columns(source)
    types = [(name, _type_of(name, source)) for name in source.columns]
    schema = pa.schema(types)
    return schema, _batches(source, schema)


def _require_columns(source: "Source") -> None:
    """Refuse a column that none of the first rows has."""
    names = dict[str, None]()
    for row in islice(source.data, CHUNK):
        if isinstance(row, Mapping):
            names.update(dict.fromkeys(str(name) for name in row))
    source.require(list(names))


def _type_of(name: str, source: "Source") -> "pa.DataType":
    """Return the type of a column, which does not follow from its values."""
    import pyarrow as pa

    if name == source.frequency:
        return pa.int64()
    if name in source.key_columns:
        return declared_types(source).get(name, pa.string())
    if name in [amount.column for amount in source.amounts]:
        return pa.float64()
    return pa.string()


def _batches(source: "Source", schema: "pa.Schema") -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa

    rows = iter(source.data)
    kinds = [set[str]() for _ in schema]  # of each column: the kinds of its values so far
    while chunk := list(islice(rows, CHUNK)):
        if not all(isinstance(row, Mapping) for row in chunk):
            raise InvalidValue(
                "at least one row of the list is no mapping from column to value",
                "write all rows as dicts",
            )
        arrays = list[pa.Array]()
        for field, known in zip(schema, kinds, strict=True):
            values = [row.get(field.name) for row in chunk]
            if field.name == source.frequency:
                values = [None if value is None else whole_frequency(value) for value in values]
            elif pa.types.is_floating(field.type):
                values = [_number(value) for value in values]
            arrays.append(_array(values, field.type, known))
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: list[Any], kind: "pa.DataType", known: set[str]) -> "pa.Array":
    """Return values as an array; numbers to be summed are floats, and all others are checked as keys are."""
    import pyarrow as pa

    return (
        pa.array(values, kind) if pa.types.is_floating(kind) else column_array(values, kind, known)
    )


def _number(value: Any) -> float | None:
    """Return a value that is summed as a float, or refuse it."""
    if value is None:
        return None
    if not isinstance(value, Number) or isinstance(value, complex):
        problem = "at least one value of a summed column is no number"
        raise InvalidValue(problem, "convert the values first")
    try:
        return float(value)  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        return None  # counts 0, as an infinite one does
