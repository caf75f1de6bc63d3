"""What one user adds to the first parts of the counts: vectors of whole numbers, whose lengths are bounded.

The functions that make kernels return what is sent to where the pairs are. What they sum depends on each user's own
rows, and on numbers that were published before (docs/theory.md, section 10, Sensitivities).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpsample.private.pairs import Batch, Kernel
from dpsample.scheme.sampling import Floats, Ints

Batches = Iterator[Batch]

SCALE_BITS = (
    16  # of the factor by which a vector is scaled down: whole factors and weights fit into 64 bits
)
_EDGE_MARGIN = 1e-9  # relative: sums of floats that reach the edge of a row still belong to it


@dataclass(frozen=True, eq=False)
class UserRows:
    """The rows of a batch, by user: where users begin, the positions of the keys, and how many rows each user has."""

    starts: Ints
    places: Ints
    sizes: Ints

    @classmethod
    def of(cls, starts: Ints, places: Ints) -> "UserRows":
        """Return the rows of a batch."""
        return cls(starts, places, sizes_of(starts, places))

    def summed(self, values: Ints) -> Ints:
        """Sum a number of each row over the rows of each user."""
        return np.add.reduceat(values, self.starts)

    def rows(self, users: Ints) -> Ints:
        """Return the rows of some users."""
        return rows_of(self.starts[users], self.sizes[users])


def users_by_keys(rows: int) -> Kernel:
    """Count users by their number m of keys: row ``(m - 1).bit_length()``. A user changes one number, by one."""

    def kernel(batches: Batches) -> Ints:
        counts = np.zeros(rows, np.int64)
        for starts, keys, *_ in batches:
            before = sizes_of(starts, keys) - 1
            exponent = np.frexp(before.astype(np.float64))[1]  # the bit length of a whole number
            counts += np.bincount(np.minimum(exponent, rows - 1), minlength=rows)
        return counts

    return kernel


def users_by_length(weights: Floats, base: float, rows: int) -> Kernel:
    """Count users by the sum of the weights of their keys: row b has those up to ``base 2**b``; 0 is not counted."""
    edges = base * 2.0 ** np.arange(rows - 1) * (1 + _EDGE_MARGIN)

    def kernel(batches: Batches) -> Ints:
        counts = np.zeros(rows, np.int64)
        for starts, keys, *_ in batches:
            squares = np.add.reduceat(weights[keys], starts)
            row = np.searchsorted(edges, squares[squares > 0])
            counts += np.bincount(row, minlength=rows)
        return counts

    return kernel


def weighted_counts(weights: Ints, most: int) -> Kernel:
    """Sum the weights of users' keys, scaled down where their squares exceed `most`.

    Whole numbers, rounded down: what one user adds has squares that sum to at most `most`.
    """
    squares = weights**2

    def kernel(batches: Batches) -> Ints:
        counts = np.zeros(len(weights), np.int64)
        for starts, keys, *_ in batches:
            users = UserRows.of(starts, keys)
            added = weights[keys]
            long, factors = scaled_down(users, squares[keys], most)
            added[long] = added[long] * factors >> SCALE_BITS
            np.add.at(counts, keys, added)
        return counts

    return kernel


def sizes_of(starts: Ints, keys: Ints) -> Ints:
    """Return the number of rows of each user."""
    return np.diff(starts, append=len(keys))


def rows_of(starts: Ints, sizes: Ints) -> Ints:
    """Return the rows of some users.

    >>> rows_of(np.array([0, 5]), np.array([2, 3])).tolist()
    [0, 1, 5, 6, 7]
    """
    ends = np.cumsum(sizes)
    return np.repeat(starts - ends + sizes, sizes) + np.arange(sizes.sum())


def scaled_down(users: UserRows, squares: Ints, most: int) -> tuple[Ints, Ints]:
    """Return the rows of users whose squares sum to more than `most`, and the factor of each of these rows."""
    sums = users.summed(squares)
    long = np.flatnonzero(sums > most)
    return users.rows(long), np.repeat(factors_of(sums[long], most), users.sizes[long])


def factors_of(squares: Ints, most: int) -> Ints:
    """Return the largest whole numbers f with ``f**2 squares <= most 2**32``, of squares above `most`."""
    limit = most << 2 * SCALE_BITS
    factors: Ints = np.sqrt(limit / squares).astype(np.int64)
    factors -= factors * factors * squares > limit
    return factors
