"""Python objects as Arrow: keys, keys with frequencies, and columns of pandas that hold objects.

Their type is declared by the caller, or they are text: a type that followed from the values would tell of them. What
is refused is never shown.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import islice
from numbers import Integral, Number
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

from dpsample.errors import InvalidValue, attempt
from dpsample.private.sources.iterables import one_key

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 1 << 16  # rows of a batch
_DIGITS = 1000  # of a decimal that is written out
_ARROW = (
    ValueError,
    TypeError,
    OverflowError,
    NotImplementedError,
    KeyError,
)  # Arrow's own errors are among these


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
    kinds: list[set[str]] = [set() for _ in schema]
    while chunk := list(islice(left, CHUNK)):
        columns = (
            _counted_columns(chunk, len(schema) - 1) if counted else _columns(chunk, len(schema))
        )
        gaps = [i for i, column in enumerate(columns) if type(None) in set(map(type, column))]
        if gaps and not drop_null:
            raise null_refusal(schema.names[gaps[0]])
        if gaps:
            rows = [
                row for row in zip(*columns, strict=True) if not any(value is None for value in row)
            ]
            columns = list(zip(*rows, strict=True))
        if columns:
            arrays = list(map(column_array, columns, schema.types, kinds))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def column_array(
    values: Sequence[Any], kind: "pa.DataType", known: set[str] | None = None
) -> "pa.Array":
    """Return values as an array of a declared type; None is NULL. Text takes what `as_text` writes.

    With `known`, the kinds of the values of this column that came before, they must be of one kind.

    >>> import pyarrow as pa
    >>> column_array([7, None], pa.string()).to_pylist()
    ['7', None]
    """
    import pyarrow as pa

    if pa.types.is_string(kind):
        if known is not None:
            _require_one_kind(values, known)
        if not set(map(type, values)) <= {str, type(None)}:
            values = [None if value is None else as_text(value) for value in values]
    else:
        accepted = accepted_classes(kind)
        wrong = _SUBCLASSES.get(accepted, bool)
        present = [value for value in values if value is not None]
        if not all(
            isinstance(value, accepted) and not isinstance(value, wrong) for value in present
        ):
            raise InvalidValue(
                f"at least one value is not of the declared type {kind}",
                "convert the values, or declare text",
            )
        if accepted == (Integral,):
            values = [None if value is None else int(value) for value in values]
    written = "text in UTF-8" if pa.types.is_string(kind) else kind
    refusal = InvalidValue(
        f"at least one value cannot be written as {written}", "convert the values first"
    )
    return attempt(lambda: pa.array(values, kind), refusal, *_ARROW)


# what is also an instance of the accepted classes, but of another type; of all others: bool
_SUBCLASSES: dict[tuple[type, ...], Any] = {(date,): datetime, (bool, np.bool_): ()}


def accepted_classes(kind: "pa.DataType") -> tuple[type, ...]:
    """Return the classes of Python values that a column of this type takes; none if it takes no objects."""
    import pyarrow as pa

    classes: dict[str, tuple[type, ...]] = {
        "string": (object,),
        "boolean": (bool, np.bool_),
        "integer": (Integral,),
        "decimal": (Decimal, Integral),
        "binary": (bytes,),
        "timestamp": (datetime,),
        "date": (date,),
    }
    families = [name for name in classes if getattr(pa.types, f"is_{name}")(kind)]
    return classes[families[0]] if families else ()


def as_text(value: Any) -> str:
    """Write a value as text, in one way for equal values: numbers and booleans as JSON does, dates by ISO 8601.

    >>> from decimal import Decimal
    >>> as_text("a"), as_text(7), as_text(True), as_text(Decimal("1.50")), as_text(Decimal("1.00"))
    ('a', '7', 'true', '1.5', '1')
    """
    kind = _kind(value)
    if kind == "text":
        return str(value)
    if kind == "booleans":
        return "true" if value else "false"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) < _DIGITS:
        return _decimal_text(value)
    if isinstance(value, datetime):  # of one moment, whatever the time zone
        return value.isoformat() if value.tzinfo is None else value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    raise one_key(value)  # a Decimal that is no number, or too long


def _decimal_text(value: Decimal) -> str:
    plain = f"{value:f}"
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return "0" if value == 0 else plain  # without the sign of -0


_KINDS: list[
    tuple[tuple[type, ...], str]
] = [  # of what is written as text; a class is of the first that fits
    ((str,), "text"),
    ((bool, np.bool_), "booleans"),
    ((Integral, Decimal), "numbers"),
    ((datetime,), "times"),
    ((date,), "dates"),
    ((UUID,), "UUIDs"),
]


def _kind(value: Any) -> str:
    """Name the kind of a value that is written as text."""
    for classes, name in _KINDS:
        if isinstance(value, classes):
            return name
    raise one_key(value)


def _require_one_kind(values: Sequence[Any], known: set[str]) -> None:
    """Refuse values of two kinds in one column of text; the kinds are added to those that are known.

    Two kinds may be written alike, as 1 and "1".
    """
    one_of_each_class = {type(value): value for value in values}
    one_of_each_class.pop(type(None), None)
    known.update(map(_kind, one_of_each_class.values()))
    if len(known) > 1:
        raise InvalidValue(
            f"keys without a type are {' and '.join(sorted(known))}, and 1 and '1' would be written alike",
            "convert them all to text",
        )


def frame_table(
    frame: Any, columns: Sequence[str], types: Mapping[str, "pa.DataType"], numbers: Sequence[str]
) -> Any:
    """Return columns of a pandas or polars DataFrame as an Arrow table.

    A column of pandas that holds objects has no type of its own: it has the one in `types`, or is text. The columns of
    `numbers`, whose types are not published, are what their values are.
    """
    import pyarrow as pa

    labels = [label for label in frame.columns if str(label) in columns]
    untyped = [
        label for label in labels if str(label) not in numbers and _holds_objects(frame[label])
    ]
    typed = [label for label in labels if label not in untyped]
    for name in types:
        if name not in map(str, untyped):
            raise InvalidValue(
                f"the column {name!r} has a type of its own", "cast the column instead"
            )
    mixed = InvalidValue(
        "a column of a DataFrame has values of several types", "convert the values first"
    )
    table = attempt(lambda: pa.table(frame[typed]), mixed, *_ARROW) if typed else pa.table({})
    arrays = {name: table.column(name) for name in map(str, typed)}
    for label in untyped:
        objects = frame[label].astype(object)
        values = objects.where(objects.notna(), None).tolist()
        arrays[str(label)] = column_array(values, types.get(str(label), pa.string()))
    return pa.table({name: arrays[name] for name in columns})


def is_pandas(data: Any) -> bool:
    """Whether an object is of pandas, whose columns may hold Python objects."""
    return type(data).__module__.partition(".")[0] == "pandas"


def _holds_objects(column: Any) -> bool:
    """Whether a column, or the categories that it names, are Python objects."""
    if not is_pandas(column):
        return False
    categories = getattr(column.dtype, "categories", None)
    return bool((column if categories is None else categories).dtype == object)


def _counted_columns(items: list[Any], width: int) -> list[Sequence[Any]]:
    """Turn pairs of a key and its frequency into one sequence for each key column, and one of frequencies."""
    keys = _columns([key for key, _ in items], width)
    return [*keys, [_whole(frequency) for _, frequency in items]]


def _columns(keys: list[Any], width: int) -> list[Sequence[Any]]:
    """Turn keys into one sequence for each key column."""
    if width == 1:
        return [keys]
    if not all(isinstance(key, tuple) and len(key) == width for key in keys):
        raise InvalidValue(
            f"at least one key is no tuple of {width}, one value for each key column",
            "name as many key columns as a key has places",
        )
    return list(zip(*keys, strict=True))


def null_refusal(column: str) -> InvalidValue:
    """Put a NULL in a key column into words."""
    return InvalidValue(
        f"the key column {column!r} must have no NULL, but at least one row has one",
        "leave such rows out with `drop_null=True`, or fill them in",
    )


def _whole(frequency: Any) -> int:
    """Read a frequency of a mapping as an integer, or refuse it."""
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
