"""Lengths of the vectors that users add to the counts, in units.

Weights are counted in whole units. Many units make rounding matter little. But a table of noise has a cell for each
unit, so there are fewer where noise is large. Lengths follow from the budget, and from the numbers of keys and groups
of keys that are worth their noise, which are chosen from short lists. So whoever reads a release can tell whether its
lengths are some that could be chosen (docs/theory.md, section 10).
"""

import math
from fractions import Fraction
from typing import Final

# The largest length of a user's vector: rounding a weight to 1/192 of it matters little.
_MOST: Final = 192
# The most units of a standard deviation: longer tables take seconds to make.
_SPREAD: Final = 12_000
# The most units of one key in the first counts.
_FIRST_UNIT: Final = 16
# The most units that one user may lose by clipping.
_LOST_UNITS: Final = 48
# The most groups of keys for which the clipped share is measured: each further group has more noise.
MOST_GROUPS: Final = 6
# The rows of a histogram of users by their number of keys end at powers of two up to this one.
_LARGEST_ROW: Final = 64


def deviation_of(square: Fraction) -> float:
    """Return the standard deviation of the noise of a vector of length one, for a mu**2 of `square`."""
    return 1 / math.sqrt(square)


def vector_length(square: Fraction) -> int:
    """Return the length in units of a vector whose noise has this mu**2.

    >>> vector_length(Fraction("0.01")), vector_length(Fraction("1e-6"))
    (192, 12)
    """
    units_for_spread = int(_SPREAD / deviation_of(square))
    return max(1, min(_MOST, units_for_spread))


def first_unit(square: Fraction, keys_each: float) -> int:
    """Return the units of each key in the first counts, if users count fully in up to `keys_each` keys."""
    units_for_length = int(vector_length(square) / math.sqrt(keys_each))
    return max(1, min(_FIRST_UNIT, units_for_length))


def first_length(square: Fraction, keys_each: float) -> int:
    """Return the length, in units, of a user's vector in the first counts: that of `keys_each` keys with all units."""
    unit = first_unit(square, keys_each)
    return math.isqrt(int(unit**2 * keys_each))


def first_lengths(square: Fraction) -> frozenset[int]:
    """Return all lengths that a vector of the first counts may have: `keys_each` is a power of the square root of 2.

    >>> sorted(first_lengths(Fraction("0.01")))[:4]
    [16, 19, 22, 26]
    """
    keys_each = [2 ** (half / 2) for half in range(2 * _LARGEST_ROW)]
    return frozenset(first_length(square, keys) for keys in keys_each)


def lost_units(square: Fraction) -> int:
    """Return the units that one user may lose by clipping; `square` is the mu**2 of the part that measures it."""
    return min(_LOST_UNITS, vector_length(square))


def lost_length(square: Fraction, groups: int) -> int:
    """Return the length of the vector that one user may lose, over all groups.

    Rounding changes the total of each group by at most one unit, and all of them by the root of their number.
    """
    return lost_units(square) + math.isqrt(max(groups, 2)) + 1
