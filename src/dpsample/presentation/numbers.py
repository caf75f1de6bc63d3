"""How a page writes numbers for people: whole frequencies, and intervals that hold after they are rounded."""

import math
from collections.abc import Callable

from dpsample.exact import shown_number


def whole(number: float, rounded: Callable[[float], int] = round) -> str:
    """Write a frequency, or a number of keys: a whole number.

    >>> whole(1690.4), whole(0.2, math.ceil)
    ('1,690', '1')
    """
    if not math.isfinite(number):
        return shown_number(number)
    return f"{rounded(number):,}"


def interval(low: float, high: float) -> str:
    """Write an interval as whole numbers that enclose it.

    >>> interval(1541.7, 1840.2)
    '1,541 to 1,841'
    """
    first = whole(low, math.floor)
    last = whole(high, math.ceil)
    return f"{first} to {last}"


def with_interval(value: float, low: float, high: float) -> str:
    """Write an estimate with its interval.

    >>> with_interval(1690.4, 1541.7, 1840.2)
    '1,690 (1,541 to 1,841)'
    """
    return f"{whole(value)} ({interval(low, high)})"
