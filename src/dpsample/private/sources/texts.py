"""Python values as text: the one text that equal values have, in a key column without a type of its own."""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Integral
from typing import Any
from uuid import UUID

import numpy as np

from dpsample.errors import InvalidValue
from dpsample.private.sources.iterables import one_key

# A Decimal beyond these many digits before or after the point is refused: its text would fill the memory.
_DIGITS = 1000


def as_text(value: Any) -> str:
    """Write a value as text, in one way for equal values: numbers and booleans as JSON does, dates by ISO 8601.

    >>> from decimal import Decimal
    >>> as_text("a"), as_text(7), as_text(True), as_text(Decimal("1.50")), as_text(Decimal("1.00"))
    ('a', '7', 'true', '1.5', '1')
    """
    _, write = _kind_of(value)
    return write(value)


def require_one_kind(values: Sequence[Any], known: set[str]) -> None:
    """Refuse values of two kinds in one column of text, since two kinds may be written alike, as 1 and "1".

    `known` has the kinds of earlier values of the column; those of `values` are added to it.
    """
    one_of_each_class = {type(value): value for value in values}
    one_of_each_class.pop(type(None), None)
    for value in one_of_each_class.values():
        kind, _ = _kind_of(value)
        known.add(kind)
    if len(known) > 1:
        raise InvalidValue(
            f"keys without a type are {' and '.join(sorted(known))}, and 1 and '1' would be written alike",
            "convert them all to text",
        )


def _boolean_text(value: Any) -> str:
    return "true" if value else "false"


def _number_text(value: Any) -> str:
    if isinstance(value, Integral):
        return str(int(value))
    if not value.is_finite() or abs(value.adjusted()) >= _DIGITS:
        raise one_key(value)
    if value == 0:
        return "0"  # without the sign of -0
    plain = f"{value:f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def _time_text(value: datetime) -> str:
    """Write a moment in UTC, so that it has one text in all time zones; a time without a zone as it is."""
    moment = value if value.tzinfo is None else value.astimezone(UTC)
    return moment.isoformat()


def _kind_of(value: Any) -> tuple[str, Callable[[Any], str]]:
    """Return the kind of a value, as a refusal calls it, and the function that writes such a value as text.

    The order matters: a bool is also an int, and a datetime also a date.
    """
    if isinstance(value, str):
        return "text", str
    if isinstance(value, bool | np.bool_):
        return "booleans", _boolean_text
    if isinstance(value, Integral | Decimal):
        return "numbers", _number_text
    if isinstance(value, datetime):
        return "times", _time_text
    if isinstance(value, date):
        return "dates", date.isoformat
    if isinstance(value, UUID):
        return "UUIDs", str
    raise one_key(value)
