"""How far intervals of normal errors extend."""

from statistics import NormalDist
from typing import Final


def margin(level: float, keys: int = 1) -> float:
    """Return the half width of intervals, in standard errors, that hold for `keys` keys all at once with this level.

    The probability of a miss is divided evenly among the keys (Bonferroni).


    >>> round(margin(0.95), 3), round(margin(0.95, keys=100), 3)
    (1.96, 3.481)
    """
    miss_on_one_side = (1 - level) / (2 * keys)
    return -NormalDist().inv_cdf(miss_on_one_side)


# The half width of the intervals in the table of a release: the level of each is 95 %.
TABLE_MARGIN: Final = margin(0.95)
