"""Python objects as Arrow: keys, keys with frequencies, and lists of values.

Their type is declared by the caller, or they are text: a type that followed from the values would tell of them. What
is refused is never shown.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from numbers import Integral, Number
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dpsample.errors import InvalidValue, attempt
from dpsample.private.sources.texts import as_text, require_one_kind

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK: Final = 1 << 16  # rows of a batch: enough that its own price does not count
# What Arrow raises for values that it cannot hold; its own errors are among these.
ARROW_ERRORS: Final = (ValueError, TypeError, OverflowError, NotImplementedError, KeyError)

# What is also an instance of the accepted classes, but is of another type; of all others: bool.
_SUBCLASSES: dict[tuple[type, ...], Any] = {(date,): datetime, (bool, np.bool_): ()}


def batches(
    items: Iterable[Any], schema: "pa.Schema", counted: bool, drop_null: bool
) -> Iterator["pa.RecordBatch"]:
    """Yield batches of the key columns; of items that are pairs of a key and its frequency if they are `counted`.

    >>> import pyarrow as pa
    >>> schema = pa.schema([("word", pa.string()), ("frequency", pa.int64())])
    >>> [batch] = batches({"a": 5, None: 7}.items(), schema, counted=True, drop_null=True)
    >>> batch.to_pylist()
    [{'word': 'a', 'frequency': 5}]
    """
    import pyarrow as pa

    left = iter(items)
    kinds = [set[str]() for _ in schema]  # of each column: the kinds of its values so far
    while chunk := list(islice(left, CHUNK)):
        if counted:
            columns = _counted_columns(chunk, len(schema) - 1)
        else:
            columns = _columns(chunk, len(schema))
        columns = _without_null(columns, schema.names, drop_null)
        if columns:
            arrays = [
                column_array(values, kind, known)
                for values, kind, known in zip(columns, schema.types, kinds, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _without_null(
    columns: list[Sequence[Any]], names: list[str], drop_null: bool
) -> list[Sequence[Any]]:
    """Return columns without the rows that have a NULL; they are refused unless `drop_null`."""
    gaps = [name for name, column in zip(names, columns, strict=True) if _has_null(column)]
    if not gaps:
        return columns
    if not drop_null:
        raise null_refusal(gaps[0])
    rows = [row for row in zip(*columns, strict=True) if not _has_null(row)]
    return list(zip(*rows, strict=True))


def _has_null(values: Sequence[Any]) -> bool:
    return type(None) in set(map(type, values))


def _counted_columns(items: list[Any], width: int) -> list[Sequence[Any]]:
    """Turn pairs of a key and its frequency into a sequence for each of `width` key columns, and one of frequencies."""
    keys = _columns([key for key, _ in items], width)
    frequencies = [whole_frequency(frequency) for _, frequency in items]
    return [*keys, frequencies]


def _columns(keys: list[Any], width: int) -> list[Sequence[Any]]:
    """Turn keys into one sequence for each of `width` key columns."""
    if width == 1:
        return [keys]
    if not all(isinstance(key, tuple) and len(key) == width for key in keys):
        raise InvalidValue(
            f"at least one key is no tuple of {width}, one value for each key column",
            "name as many key columns as a key has places",
        )
    return list(zip(*keys, strict=True))


def column_array(
    values: Sequence[Any], kind: "pa.DataType", known: set[str] | None = None
) -> "pa.Array":
    """Return values as an array of a declared type; None is NULL. Text takes what `as_text` writes.

    `known` has the kinds of the values of this column that came before, if there were any: all must be of one kind.

    >>> import pyarrow as pa
    >>> column_array([7, None], pa.string()).to_pylist()
    ['7', None]
    """
    import pyarrow as pa

    if pa.types.is_string(kind):
        if known is not None:
            require_one_kind(values, known)
        values = _texts(values)
        written = "text in UTF-8"
    else:
        values = _of_type(values, kind)
        written = str(kind)
    refusal = InvalidValue(
        f"at least one value cannot be written as {written}", "convert the values first"
    )
    return attempt(lambda: pa.array(values, kind), refusal, *ARROW_ERRORS)


def _texts(values: Sequence[Any]) -> Sequence[Any]:
    """Write values as text; None stays."""
    if set(map(type, values)) <= {str, type(None)}:
        return values
    return [None if value is None else as_text(value) for value in values]


def _of_type(values: Sequence[Any], kind: "pa.DataType") -> Sequence[Any]:
    """Return values that all are instances of what a type accepts, or None; others are refused."""
    accepted = accepted_classes(kind)
    excluded = _SUBCLASSES.get(accepted, bool)
    for value in values:
        if value is None:
            continue
        if not isinstance(value, accepted) or isinstance(value, excluded):
            raise InvalidValue(
                f"at least one value is not of the declared type {kind}",
                "convert the values, or declare text",
            )
    if accepted == (Integral,):
        return [None if value is None else int(value) for value in values]
    return values


def accepted_classes(kind: "pa.DataType") -> tuple[type, ...]:
    """Return the classes of Python values that a column of this type takes; none if it takes no objects."""
    import pyarrow as pa

    if pa.types.is_string(kind):
        return (object,)
    if pa.types.is_boolean(kind):
        return (bool, np.bool_)
    if pa.types.is_integer(kind):
        return (Integral,)
    if pa.types.is_decimal(kind):
        return (Decimal, Integral)
    if pa.types.is_binary(kind):
        return (bytes,)
    if pa.types.is_timestamp(kind):
        return (datetime,)
    if pa.types.is_date(kind):
        return (date,)
    return ()


def null_refusal(column: str) -> InvalidValue:
    """Return the refusal of a NULL in a key column."""
    return InvalidValue(
        f"the key column {column!r} must have no NULL, but at least one row has one",
        "leave such rows out with `drop_null=True`, or fill them in",
    )


def whole_frequency(frequency: Any) -> int:
    """Return a frequency as an integer, or refuse it."""
    if isinstance(frequency, bool) or not isinstance(frequency, Number):
        raise InvalidValue(
            "the values of a mapping must be the frequencies of its keys, whole numbers, but one is of type "
            f"{type(frequency).__qualname__}",
            "count the elements of each key; if these are columns, hand in pyarrow.table(columns) and name their key",
        )
    try:
        whole = int(frequency)  # type: ignore[call-overload]
        if whole == frequency:
            return int(whole)
    except (ValueError, TypeError, OverflowError, ArithmeticError):
        pass
    raise InvalidValue(
        "at least one frequency is no whole number", "count the elements of each key"
    )
