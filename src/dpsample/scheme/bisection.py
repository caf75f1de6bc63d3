"""Bisection: the first number at which a condition holds, if it holds from there on."""

from collections.abc import Callable

_HALVINGS = 60  # of floats: more than the 53 bits that they have


def first_integer(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first integer above `low` at which the condition holds, given that it holds at `high`.

    >>> first_integer(lambda n: n * n >= 50, 0, 100)
    8
    """
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def last_float(is_beyond: Callable[[float], bool], low: float, high: float) -> float:
    """Return a float from `low` on that is not beyond, next to those that are, given that `high` is.

    >>> last_float(lambda x: x * x > 2, 0.0, 2.0)
    1.414213562373095
    """
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if is_beyond(middle):
            high = middle
        else:
            low = middle
    return low
