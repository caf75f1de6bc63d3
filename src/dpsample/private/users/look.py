"""The look: how many users have how many keys, with discrete Laplace noise."""

from fractions import Fraction

import numpy as np

from dpsample.accounting.look import Look
from dpsample.private.noise import discrete_laplace
from dpsample.private.randomness import CoinSource
from dpsample.scheme.sampling import Ints


def look_at(sizes: Ints, epsilon: Fraction, coins: CoinSource) -> Look:
    """Buy a look at how many users have how many keys; `sizes` are those of `Assigned`.

    A user is in one row of the histogram, so noise of scale 1 / epsilon is enough.
    """
    drawn = coins.fresh()
    noisy = []
    for users in true_look(sizes):
        noise = discrete_laplace(1 / epsilon, drawn)
        noisy.append(users + noise)
    return Look(tuple(noisy), epsilon)


def true_look(sizes: Ints) -> list[int]:
    """Return the numbers of a look without noise. NOT private.

    Row b of `sizes` counts users with up to ``2**b`` keys; a look has fewer rows, whose largest numbers of keys are
    `Look.EDGES`. Users with more keys are in its last row.
    """
    largest_keys = [1 << row for row in range(len(sizes))]
    last_row = len(Look.EDGES) - 1
    row_of_look = np.minimum(np.searchsorted(Look.EDGES, largest_keys), last_row)
    users = np.bincount(row_of_look, sizes, last_row + 1)
    return [int(n) for n in users]
