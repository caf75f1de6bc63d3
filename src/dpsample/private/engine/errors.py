"""What all engines refuse, in the same words.

A condition on rows raises a mark inside the engine: a code, and the number of a column. The mark holds no data, and a
number that this process drew, so that no row can be taken for one: an engine's message may quote rows.
"""

import re
import secrets
from collections.abc import Sequence
from typing import Final

from dpsample.errors import DpsampleError, InvalidValue
from dpsample.private.sources.python_objects import null_refusal

MARK: Final = f"dpsample-refused-{secrets.token_hex(16)}"
FREQUENCY_FAULTS: Final = {
    "missing": "at least one row without a frequency (NULL)",
    "negative": "at least one negative frequency",
    "large": "at least one that is too large, infinite or NaN (floats are exact up to 2**53)",
    "fractional": "at least one frequency with a fraction",
    "text": "at least one that is not written as a plain whole number up to 2**63 - 1",
    "sum": "at least one key whose frequencies sum to more",
}

_WHY_UNFIT: Final = {
    "floats": ": floats are not compared exactly (0.1 + 0.2, -0.0, NaN)",
    "nested values": ": it may be made of several columns instead",
}


def refusal_of_mark(message: str, before: str, columns: Sequence[str]) -> DpsampleError | None:
    """Return the refusal that the mark in an engine's message stands for, if there is one.

    `before` is what the engine puts before a mark that was raised, as a regular expression: its messages may also quote
    the statement, with all marks that it might raise.

    >>> refusal_of_mark(f"Error: {MARK}:null:0", "Error: ", ["k"])
    InvalidValue("the key column 'k' must have no NULL, but at least one row has one; ...")
    >>> refusal_of_mark("Error: dpsample-refused:null:0", "Error: ", ["k"])
    """
    mark = re.search(rf"{before}{MARK}:(\w+)(?::(\d+))?", message)
    if mark is None:
        return None
    place = int(mark[2] or 0)
    return refusal_of_code(mark[1], columns[place] if place < len(columns) else "")


def refusal_of_code(code: str, column: str = "") -> DpsampleError:
    """Return the refusal that a code stands for."""
    if code == "null":
        return null_refusal(column)
    if code == "nobody":
        return InvalidValue(
            f"the user column {column!r} must have no NULL, but at least one row has one",
            "leave such rows out with `drop_null=True`, or fill in the user",
        )
    if code in ("nested", "nested_user"):
        role = "user" if code == "nested_user" else "key"
        return type_refusal(column, "an object or array", "nested values", role)
    if code == "inexact_user":
        return type_refusal(column, "a number with a fraction, or above 2**53", "floats", "user")
    if code == "twice":
        return InvalidValue(
            "at least one key of the sample is in several rows",
            "sum the frequencies of each key before sampling; two samples cannot be merged by stacking them",
        )
    fault = FREQUENCY_FAULTS[code]
    return InvalidValue(
        f"frequencies must be whole numbers from 0 to 2**63 - 1, but there is {fault}",
        "count the elements of each key",
    )


def nobody_refusal() -> DpsampleError:
    """Return the refusal of a source that has no user column."""
    return InvalidValue(
        "the source has no user column, so users cannot be bounded", "name it: `user='...'`"
    )


def amount_refusal(name: str, kind: str) -> DpsampleError:
    """Return the refusal of the type of a column that is to be summed."""
    return InvalidValue(
        f"the summed column {name!r} must be of numbers, not {kind}", "name another, or cast it"
    )


def frequency_refusal(name: str, kind: str) -> DpsampleError:
    """Return the refusal of the type of a column with frequencies."""
    return InvalidValue(
        f"the frequency column {name!r} must be of numbers, not {kind}", "name another, or cast it"
    )


def type_refusal(name: str, kind: str, what: str, role: str = "key") -> DpsampleError:
    """Return the refusal of the type of a column.

    kind  the type, in words
    what  what it has, if that explains the refusal: "floats" or "nested values"
    role  what the column is for: key, user or part
    """
    if role == "part":
        return InvalidValue(
            f"the part column {name!r} must be of text, integers, dates or booleans, not {kind}",
            "cast it first, for example a timestamp to a date",
        )
    why = _WHY_UNFIT.get(what, "")
    return InvalidValue(
        f"the {role} column {name!r} must be of integers, decimals, text, bytes, booleans, dates or timestamps, not "
        f"{kind}{why}",
        "cast it to text or to an integer first",
    )
