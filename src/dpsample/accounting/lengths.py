"""Lengths: in how many units the vectors are counted that users add to the parts of the counts.

Many units, so that rounding matters little; but a table of noise has a cell for each, so that there are fewer where
noise is large. Lengths follow from the budget, and from how many keys and groups of keys are worth their noise, which
is chosen from a few numbers. So whoever reads a release can tell whether its lengths are some that could be chosen
(docs/theory.md, section 10).
"""

import math
from fractions import Fraction
from typing import Final

_MOST: Final = 192  # of a user's vector, in units
_SPREAD: Final = 12_000  # units of a deviation, at most: longer tables take seconds to make
_FIRST_UNIT: Final = 16  # of a key in the first counts, at most
_LOST_UNITS: Final = 48  # of what one user may lose, at most
MOST_GROUPS: Final = 6  # of keys, for which the share that was clipped is measured
_LARGEST_ROW: Final = 64  # of a histogram of users by their number of keys: these are up to 2**row


def deviation_of(square: Fraction) -> float:
    """Return the deviation of the noise that a vector of length one gets for this mu**2."""
    return 1 / math.sqrt(square)


def vector_length(square: Fraction) -> int:
    """Return the length in units of a vector whose noise has this mu**2.

    >>> vector_length(Fraction("0.01")), vector_length(Fraction("1e-6"))
    (192, 12)
    """
    return max(1, min(_MOST, int(_SPREAD / deviation_of(square))))


def first_unit(square: Fraction, keys_each: float) -> int:
    """Return the units of each key in the first counts, if users count fully in this number of keys."""
    return max(1, min(_FIRST_UNIT, int(vector_length(square) / math.sqrt(keys_each))))


def first_length(square: Fraction, keys_each: float) -> int:
    """Return the length of a user's vector in the first counts."""
    return math.isqrt(int(first_unit(square, keys_each) ** 2 * keys_each))


def first_lengths(square: Fraction) -> frozenset[int]:
    """Return all lengths that a vector of the first counts may have: numbers of keys are powers of the root of 2.

    >>> sorted(first_lengths(Fraction("0.01")))[:4]
    [16, 19, 22, 26]
    """
    return frozenset(first_length(square, 2 ** (half / 2)) for half in range(2 * _LARGEST_ROW))


def lost_units(square: Fraction) -> int:
    """Return the units of what one user may lose by clipping; `square` is that of this part of the counts."""
    return min(_LOST_UNITS, vector_length(square))


def lost_length(square: Fraction, groups: int) -> int:
    """Return the length of what one user may lose: rounding moves the total of each group by one."""
    return lost_units(square) + math.isqrt(max(groups, 2)) + 1
