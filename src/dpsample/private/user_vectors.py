"""What one user adds to each part of the counts: vectors of whole numbers, whose lengths are bounded.

The functions that make kernels return what is sent to where the pairs are. What they sum depends on each user's own
rows, and on numbers that were published before (docs/theory.md, section 10).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpsample.private.pairs import Batch
from dpsample.scheme.sampling import Floats, Ints

Batches = Iterator[Batch]
Flags = NDArray[np.bool_]
Shares = TypeVar("Shares", float, Floats)

FINE = 1 << 30  # in which what is lost is added up
SCALE_BITS = 16  # of the factor by which a vector is scaled down
# how many times as much as others users with many keys are taken to have beyond the clip of each key: with 1, wide
# intervals held 80 % where amounts grow with the root of the number of keys (benchmarks/clips.py)
_MORE = 8
UNEVEN = 0.3  # how far the shares that keys lose lie apart within a group: see `unevenness`


@dataclass(frozen=True)
class Clip:
    """Where vectors are clipped: squares of lengths in units of 1 / n, what one user may lose, numbers of groups.

    Users who are longer than `longest` lose more than is looked at: about `unseen` in all, with an error.
    """

    square: float
    longest: float
    lost: float
    groups: int
    unseen: float = 0.0
    unseen_error: float = 0.0


@dataclass(frozen=True)
class FewKeys:
    """The most keys with which a user counts fully in what is beyond a clip, and how many pairs count then.

    By the noisy histogram of keys per user: `given` pairs of all users; `short`, those of users with up to `most` keys;
    `counted` pairs in all, if users with more keys count with `most` each.
    """

    most: float
    given: float
    short: float
    counted: float

    @classmethod
    def of(cls, users: Floats, sizes: Floats, most: float) -> "FewKeys":
        """Of this number of users with each of these numbers of keys."""
        pairs = users * sizes
        counted = users * np.minimum(sizes, most)
        return cls(most, float(pairs.sum()), float(pairs[sizes <= most].sum()), float(counted.sum()))

    def uncounted(self, pairs: float) -> float:
        """Return the share of what is beyond a clip that is not counted, given the number of pairs of users and keys.

        The histogram leaves out users who are too few to be told from noise; the sum of all counts has their pairs.
        Users with many keys may have more beyond the clip of each key than others have, which nothing measures: they
        are taken to have `_MORE` times as much.
        """
        whole = max(pairs, self.given, 1e-300)
        long = whole - self.short
        return _MORE * (whole - self.counted) / (whole + (_MORE - 1) * long)


@dataclass(frozen=True, eq=False)
class Weighing:
    """How users' vectors are weighted and scaled down, by the first counts of keys.

    `length` is that of a vector, at most; `most` is what keys outside of the head have of its square.
    """

    popularity: Floats
    head: Flags
    weights: Ints
    length: int
    most: int
    clip: Clip
    groups: Ints
    few: FewKeys

    @property
    def tail(self) -> Floats:
        """The weights 1 / n of the keys outside of the head, 0 in it."""
        return np.where(self.head, 0.0, 1 / self.popularity)

    @property
    def present(self) -> list[int]:
        """The groups that have keys."""
        return [n for n in range(self.clip.groups) if (~self.head & (self.groups == n)).any()]

    def by_group(self, values: Floats, errors: Floats) -> tuple[Floats, Floats]:
        """Sum values of keys by group, weighted by 1 / n; and their errors."""
        tail, groups = self.tail, self.clip.groups
        squares = np.bincount(self.groups, (errors * tail) ** 2, groups)
        return np.bincount(self.groups, values * tail, groups).astype(np.float64), np.sqrt(squares)


@dataclass(frozen=True, eq=False)
class ShareLost:
    """The shares of users that clipping took away from groups of keys, and their errors.

    `unseen` is the part that was not measured but estimated, over what was kept, with its error.
    """

    values: Floats
    errors: Floats
    unseen: Floats
    unseen_errors: Floats


@dataclass(frozen=True, eq=False)
class Lost:
    """What was lost, by groups or signs, and the deviation of its noise."""

    values: Floats
    noise: float


def most_lost(square: float, longest: Shares) -> Shares:
    """What clipping takes from the square of a user's length, at most, up to the longest."""
    lost: Shares = (1 - np.sqrt(np.minimum(square / longest, 1.0))) * longest
    return lost


def unevenness(share: Shares) -> Shares:
    """The deviation of the share that a key loses from that of its group, by which users happen to have this key.

    If a key had one user, who loses all or nothing, it would be ``sqrt(share (1 - share))``; if it had very many who
    are drawn at random, it would be 0. It is taken for `UNEVEN` times the former.
    """
    deviation: Shares = UNEVEN * np.sqrt(np.clip(share * (1 - share), 0.0, None))
    return deviation


def head_of(popularity: Floats, keys_each: float) -> Flags:
    """The most popular keys, as many as add up to an eighth of a typical user's length: these are never clipped."""
    weights = 1 / popularity
    order = np.argsort(weights, kind="stable")
    within = np.cumsum(weights[order]) <= keys_each * float(np.median(weights)) / 8
    within[-1] = False  # so that there are others
    head = np.zeros(len(popularity), bool)
    head[order[within]] = True
    return head


def groups_of(popularity: Floats, head: Flags, groups: int) -> Ints:
    """The group of each key that is not in the head, by the logarithm of its popularity; 0 for those in the head."""
    logs = np.log(popularity)
    low, high = float(logs[~head].min()), float(logs[~head].max())
    place = (logs - low) / max(high - low, 1e-9) * groups
    return np.where(head, 0, np.clip(place, 0, groups - 1)).astype(np.int64)


# ---- what is summed over users; sent to where the pairs are


def users_by_keys(rows: int) -> Callable[[Batches], Ints]:
    """Count users by their number m of keys: row ``(m - 1).bit_length()``. A user changes one number, by one."""

    def kernel(batches: Batches) -> Ints:
        counts = np.zeros(rows, np.int64)
        for starts, keys, *_ in batches:
            row = np.frexp((sizes_of(starts, keys) - 1).astype(np.float64))[1]
            counts += np.bincount(np.minimum(row, rows - 1), minlength=rows)
        return counts

    return kernel


def users_by_length(weights: Floats, base: float, rows: int) -> Callable[[Batches], Ints]:
    """Count users by the sum of the weights of their keys: row b has those up to ``base 2**b``; 0 is not counted."""
    edges = base * 2.0 ** np.arange(rows - 1) * (1 + 1e-9)

    def kernel(batches: Batches) -> Ints:
        counts = np.zeros(rows, np.int64)
        for starts, keys, *_ in batches:
            squares = np.add.reduceat(weights[keys], starts)
            counts += np.bincount(np.searchsorted(edges, squares[squares > 0]), minlength=rows)
        return counts

    return kernel


def weighted_counts(weights: Ints, most: int) -> Callable[[Batches], Ints]:
    """Sum the weights of users' keys, scaled down where their squares exceed `most`.

    Whole numbers, rounded down: what one user adds has squares that sum to at most `most`.
    """
    squares = weights**2

    def kernel(batches: Batches) -> Ints:
        counts = np.zeros(len(weights), np.int64)
        for starts, keys, *_ in batches:
            sizes, added = sizes_of(starts, keys), weights[keys]
            long, factors = scaled_down(np.add.reduceat(squares[keys], starts), starts, sizes, most)
            added[long] = added[long] * factors >> SCALE_BITS
            np.add.at(counts, keys, added)
        return counts

    return kernel


def sizes_of(starts: Ints, keys: Ints) -> Ints:
    """The number of rows of each user."""
    return np.diff(starts, append=len(keys))


def rows_of(starts: Ints, sizes: Ints) -> Ints:
    """The rows of some users.

    >>> rows_of(np.array([0, 5]), np.array([2, 3])).tolist()
    [0, 1, 5, 6, 7]
    """
    ends = np.cumsum(sizes)
    return np.repeat(starts - ends + sizes, sizes) + np.arange(sizes.sum())


def scaled_down(squares: Ints, starts: Ints, sizes: Ints, most: int) -> tuple[Ints, Ints]:
    """Return the rows of users whose squares exceed `most`, and their factors."""
    long = np.flatnonzero(squares > most)
    return rows_of(starts[long], sizes[long]), np.repeat(factors_of(squares[long], most), sizes[long])


def factors_of(squares: Ints, most: int) -> Ints:
    """The largest whole numbers f with ``f**2 squares <= most 2**32``, of squares above `most`."""
    limit = most << 2 * SCALE_BITS
    factors: Ints = np.sqrt(limit / squares).astype(np.int64)
    factors -= factors * factors * squares > limit
    return factors
