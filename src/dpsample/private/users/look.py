"""The look: how many users have how many keys, with discrete Laplace noise."""

from fractions import Fraction

import numpy as np

from dpsample.accounting.look import Look
from dpsample.private.noise import discrete_laplace
from dpsample.private.randomness import CoinSource
from dpsample.scheme.sampling import Ints


def look_at(sizes: Ints, epsilon: Fraction, coins: CoinSource) -> Look:
    """Buy a look at how many users have how many keys; row b of `sizes` counts those with up to ``2**b``.

    A user is in one row, so noise of scale 1 / epsilon is enough.
    """
    drawn = coins.fresh()
    noisy = (n + discrete_laplace(1 / epsilon, drawn) for n in true_look(sizes))
    return Look(tuple(noisy), epsilon)


def true_look(sizes: Ints) -> list[int]:
    """Return the numbers of a look without noise, which are as private as the data."""
    largest = [1 << row for row in range(len(sizes))]  # keys of a user in each row
    place = np.searchsorted(Look.EDGES, largest)
    last = len(Look.EDGES) - 1
    users = np.bincount(np.minimum(place, last), sizes, last + 1)
    return [int(n) for n in users]
