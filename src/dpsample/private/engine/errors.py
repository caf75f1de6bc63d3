"""What all engines refuse, in the same words. A mark travels in an engine's error message and holds no data."""

from typing import Final

from dpsample.errors import DpsampleError, InvalidValue
from dpsample.private.python_objects import null_refusal

MARK: Final = "dpsample-refused"
WORDS = {
    "missing": "at least one row without a frequency (NULL)",
    "negative": "at least one negative frequency",
    "large": "at least one that is too large, infinite or NaN (floats are exact up to 2**53)",
    "fractional": "at least one frequency with a fraction",
    "text": "at least one that is not written as a plain whole number up to 2**63 - 1",
    "sum": "at least one key whose frequencies sum to more",
}


def marked(code: str, column: str) -> DpsampleError:
    """Put a mark into words."""
    if code == "null":
        return null_refusal(column)
    if code == "nobody":
        return InvalidValue(
            f"the user column {column!r} must have no NULL",
            "at least one row with NULL",
            "leave such rows out with drop_null=True (--drop-null), or say whose they are",
        )
    if code == "nested":
        return type_refusal(column, "an object or array", "nested values")
    return InvalidValue(
        "frequencies must be whole numbers from 0 to 2**63 - 1", WORDS[code], "count the elements of each key"
    )


def type_refusal(name: str, found: str, what: str, role: str = "key") -> DpsampleError:
    """Return the refusal of the type of a column, of the key or the user."""
    why = {
        "floats": "; floats are not compared exactly (0.1 + 0.2, -0.0, NaN)",
        "nested values": "; it may be made of several columns instead",
    }
    return InvalidValue(
        f"the {role} column {name!r} must be of integers, decimals, text, bytes, booleans, dates or times"
        + why.get(what, ""),
        found,
        "cast it to text or to an integer first",
    )
