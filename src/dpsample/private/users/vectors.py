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

# bits of the factor by which a vector is scaled down: products of such factors, weights and amounts fit into 64 bits
SCALE_BITS = 16
_EDGE_MARGIN = 1e-9  # relative: sums of floats that reach the edge of a row still belong to it


@dataclass(frozen=True, eq=False)
class UserRows:
    """The rows of a batch, by user.

    starts  the first row of each user
    places  the position of each row's key among the wanted keys
    sizes   the number of rows of each user
    """

    starts: Ints
    places: Ints
    sizes: Ints

    @classmethod
    def of(cls, starts: Ints, places: Ints) -> "UserRows":
        """Return the rows of a batch of pairs."""
        sizes = sizes_of(starts, places)
        return cls(starts, places, sizes)

    def summed(self, values: Ints) -> Ints:
        """Sum a number of each row over the rows of each user."""
        return np.add.reduceat(values, self.starts)

    def rows(self, users: Ints) -> Ints:
        """Return the rows of some users, one user after another."""
        return rows_of(self.starts[users], self.sizes[users])


def users_by_keys(rows: int) -> Kernel:
    """Return the kernel that counts users by their number m of keys: row ``(m - 1).bit_length()``.

    Larger numbers are in the last row. A user changes one number, by one.
    """

    def kernel(batches: Batches) -> Ints:
        counts = np.zeros(rows, np.int64)
        for starts, keys, *_ in batches:
            less_one = sizes_of(starts, keys) - 1
            _, bit_length = np.frexp(less_one.astype(np.float64))
            row = np.minimum(bit_length, rows - 1)
            counts += np.bincount(row, minlength=rows)
        return counts

    return kernel


def users_by_length(weights: Floats, base: float, rows: int) -> Kernel:
    """Return the kernel that counts users by the sum of the weights of their keys.

    Row b has the sums up to ``base * 2**b``. Users whose sum is 0 are not counted. A user changes one number, by one.
    """
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
    """Return the kernel that sums the weights of users' keys, scaled down where their squares exceed `most`.

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
    """Return the rows of some users, one user after another: `sizes` rows from each of `starts` on.

    >>> rows_of(np.array([0, 5]), np.array([2, 3])).tolist()
    [0, 1, 5, 6, 7]
    """
    ends = np.cumsum(sizes)
    shifts = starts - ends + sizes  # from places in the result to rows
    return np.repeat(shifts, sizes) + np.arange(sizes.sum())


def scaled_down(users: UserRows, squares: Ints, most: int) -> tuple[Ints, Ints]:
    """Return the rows of users whose squares sum to more than `most`, and the factor of each of these rows."""
    sums = users.summed(squares)
    long = np.flatnonzero(sums > most)
    factors = factors_of(sums[long], most)
    return users.rows(long), np.repeat(factors, users.sizes[long])


def factors_of(squares: Ints, most: int) -> Ints:
    """Return the largest whole numbers f with ``f**2 * squares <= most * 2**32``, for squares above `most`.

    They are the factors by which vectors are scaled down, times 2**16. Floats may be one too large; integers decide.
    """
    limit = most << 2 * SCALE_BITS
    factors: Ints = np.sqrt(limit / squares).astype(np.int64)
    factors -= factors * factors * squares > limit
    return factors
