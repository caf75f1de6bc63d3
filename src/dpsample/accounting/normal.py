"""How far intervals of normal errors extend."""

from statistics import NormalDist
from typing import Final


def margin(level: float, keys: int = 1) -> float:
    """Return by how many errors the intervals of these keys extend, to hold all at once with this level.

    >>> round(margin(0.95), 3), round(margin(0.95, keys=100), 3)
    (1.96, 3.481)
    """
    return -NormalDist().inv_cdf((1 - level) / (2 * keys))


TABLE_MARGIN: Final = margin(
    0.95
)  # of the intervals in the table of a release, each of which has a level of 95 %
