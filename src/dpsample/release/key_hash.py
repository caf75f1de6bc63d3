"""Key hashes: the public numbers by which coordinated samples choose keys.

Anybody can compute the hash of a key from the seed, and with it the lowest frequency at which the key is sampled. It is
BLAKE2b with 16 bytes of output and the person "dpsample sample", of these bytes:

    the seed in UTF-8, a zero byte, one letter for each key column, a zero byte, then the values

    column     letter  value
    text       t       UTF-8
    bytes      b       as they are
    integer    i       in decimal digits, with a minus sign if it is negative
    boolean    l       0 or 1
    date       d       days since 1970-01-01, in digits
    timestamp  s       nanoseconds since 1970-01-01 (UTC if it has a time zone), in digits
    decimal    n       in decimal digits, without zeros at the end of a fraction, and no point before none

Each value but the last has its length in bytes before it, as 8 bytes, the lowest first. The output is a number, the
highest byte first, and u is this number over 2**128. So neither the width of a column's type nor the engine matters.
"""

from decimal import Decimal
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from dpsample.files import is_text
from dpsample.scheme.coordinated import Words, first_kept
from dpsample.scheme.sampling import Ints, Sampling

_PERSON = b"dpsample sample"  # BLAKE2b's personalization, which sets these hashes apart from others
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def first_frequencies(keys: pa.RecordBatch, sampling: Sampling) -> Ints:
    """Return the first frequency at which a coordinated sample has each key.

    >>> from dpsample import Ppswor
    >>> keys = pa.record_batch({"query": ["cat", "dog", "cow"]})
    >>> first_frequencies(keys, Ppswor("0.01", seed="2026 public"))
    array([317,  35,  41])
    """
    assert sampling.seed is not None
    return first_kept(key_hashes(keys, sampling.seed), sampling)


def key_hashes(keys: pa.RecordBatch, seed: str) -> Words:
    """Return the hash of each key, a row of one or several columns, as two words, the high one first.

    >>> hashes = key_hashes(pa.record_batch({"n": pa.array([7, -1], pa.int32())}), "2026 public")
    >>> bool((hashes == key_hashes(pa.record_batch({"m": pa.array([7, -1])}), "2026 public")).all())
    True
    """
    letters = "".join(_letter(column.type) for column in keys.columns)
    header = b"\0".join([seed.encode(), letters.encode(), b""])
    start = blake2b(header, digest_size=16, person=_PERSON)
    digests = []
    for row in _rows(keys):
        hashed = start.copy()
        hashed.update(row)
        digests.append(hashed.digest())
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64).reshape(-1, 2)


def _rows(keys: pa.RecordBatch) -> list[bytes]:
    """Return the bytes of each row: its values, each but the last with its length before it."""
    *columns_before, last = keys.columns
    rows = _values(last)
    for column in reversed(columns_before):
        longer_rows = []
        for value, rest in zip(_values(column), rows, strict=True):
            length = len(value).to_bytes(8, "little")
            longer_rows.append(length + value + rest)
        rows = longer_rows
    return rows


def _letter(kind: pa.DataType) -> str:
    """Return the letter of a type, by the table in the docstring of this module."""
    types = pa.types
    if is_text(kind):
        return "t"
    if types.is_binary(kind) or types.is_large_binary(kind):
        return "b"
    if types.is_decimal(kind):
        return "n"
    if types.is_timestamp(kind):
        return "s"
    if types.is_boolean(kind):
        return "l"
    if types.is_date(kind):
        return "d"
    return "i"


def _values(column: pa.Array) -> list[bytes]:
    """Return the bytes of each value of a column, by the table in the docstring of this module."""
    match _letter(column.type):
        case "t" | "b":
            values: list[bytes] = column.cast(pa.large_binary()).to_pylist()
            return values
        case "n":
            return [_decimal_digits(number) for number in column.to_pylist()]
        case "s":
            nanoseconds = _NANOSECONDS[column.type.unit]
            units = column.cast(pa.int64()).to_pylist()
            return [str(number * nanoseconds).encode() for number in units]
        case "l":
            return _digits(column.cast(pa.uint8()))
        case "d":
            return _digits(column.cast(pa.date32()).cast(pa.int32()))
        case _:
            return _digits(column)


def _decimal_digits(number: Decimal) -> bytes:
    """Return a decimal number in digits, without zeros at the end of its fraction."""
    digits = format(number, "f")
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    return digits.encode()


def _digits(column: pa.Array) -> list[bytes]:
    """Return the integers of a column in digits."""
    texts: list[bytes] = column.cast(pa.string()).cast(pa.large_binary()).to_pylist()
    return texts
