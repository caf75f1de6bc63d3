"""The orders of users and keys in DuckDB, and work that is divided by them; `Engine.assigned` explains the orders."""

from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsample.private.engine.duckdb.errors import is_out_of_memory
from dpsample.scheme.sampling import Ints

_T = TypeVar("_T")
Numbers = NDArray[np.uint64]

# With more parts, less memory would not be needed: DuckDB takes some for each statement.
_MOST_PARTS = 1024

# Shifts and odd factors of a function that mixes 64 bits: Stafford's variant 13 of MurmurHash3's, as in SplitMix64.
# Other values would give other orders of users, and so other draws under given coins.
_MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31


def order_sql(columns: list[str], salt: int) -> str:
    """Return SQL of the salted hash by which users or keys are ordered."""
    return f"hash(xor(hash({', '.join(columns)}), {salt}::UBIGINT))"


def mixed(users: Ints, salt: int) -> Numbers:
    """Return the numbers by which users that are integers are ordered, instead of a hash.

    No two users have the same number, since each step can be undone: adding bits modulo 2, adding a shift of the number
    to itself modulo 2, and multiplying by an odd factor.
    """
    numbers = users.view(np.uint64) ^ np.uint64(salt)
    for shift, factor in _MIXING:
        numbers ^= numbers >> np.uint64(shift)
        numbers *= np.uint64(factor)
    return numbers ^ numbers >> np.uint64(_LAST_SHIFT)


def ranges_sql(column: str, parts: int) -> list[str]:
    """Return SQL of conditions that divide hashes into ranges of one length, in ascending order.

    >>> ranges_sql("h", 2)
    ['h BETWEEN 0::UBIGINT AND 9223372036854775807::UBIGINT', \
'h BETWEEN 9223372036854775808::UBIGINT AND 18446744073709551615::UBIGINT']
    """
    edges = [(part << 64) // parts for part in range(parts + 1)]
    conditions = list[str]()
    for start, end in pairwise(edges):
        last = end - 1
        conditions.append(f"{column} BETWEEN {start}::UBIGINT AND {last}::UBIGINT")
    return conditions


def in_parts(work: Callable[[int], _T]) -> _T:
    """Do work in one part; do it again from the start, in four times as many parts, while memory is too small."""
    parts = 1
    while True:
        try:
            return work(parts)
        except (duckdb.Error, OSError) as error:
            if parts >= _MOST_PARTS or not is_out_of_memory(error):
                raise
        parts *= 4
