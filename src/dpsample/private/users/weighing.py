"""Weights of keys, and how users are scaled down, by the first counts and by the histogram of lengths.

A user has the weight 1 / sqrt(n_j) at key j, with n_j its first count. The keys of the *head* are so popular that they
add little to the length of a user's vector: they are never scaled down. Others are scaled down with their user.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsample.private.users.keys_each import FewKeys
from dpsample.private.users.parts import Measured
from dpsample.scheme.sampling import Floats, Ints

Flags = NDArray[np.bool_]

# the part of a typical user's squared length that the head may add, and the part of the bound of all squares that its
# rounded weights may take: with more of either, less is left for all other keys
_HEAD_OF_TYPICAL = 8
_HEAD_OF_BOUND = 0.75  # exact for bounds below 2**51


@dataclass(frozen=True)
class Clip:
    """At which squared length, in units of 1 / n, users are clipped, and how what they lose is measured.

    One user may lose `lost`, the loss of a user of the squared length `longest`. Users who are longer lose more than is
    measured: about `unseen` in all, with an error. What is lost is measured for this number of `groups` of keys.
    """

    square: float
    longest: float
    lost: float
    groups: int
    unseen: float = 0.0
    unseen_error: float = 0.0


@dataclass(frozen=True, eq=False)
class Weighing:
    """How users' vectors are weighted and scaled down.

    The squares of a user's numbers sum to at most ``length**2``: those of keys outside of the head to at most `most`.
    """

    popularity: Floats  # the first counts
    head: Flags
    weights: Ints
    length: int
    most: int
    clip: Clip
    groups: Ints  # of keys, by popularity
    few: FewKeys

    @property
    def tail(self) -> Floats:
        """The weights 1 / n of the keys outside of the head, 0 in it."""
        return np.where(self.head, 0.0, 1 / self.popularity)

    @property
    def present(self) -> list[int]:
        """The groups that have keys."""
        return np.flatnonzero(self.keys_of_groups()).tolist()

    def in_group(self, group: int) -> Flags:
        """Return which keys are in a group; those of the head are in none."""
        found: Flags = ~self.head & (self.groups == group)
        return found

    def by_group(self, keys: Measured) -> Measured:
        """Sum numbers of keys by group, weighted by 1 / n; and their errors."""
        tail = self.tail
        values = self._summed(keys.values * tail)
        squares = self._summed((keys.errors * tail) ** 2)
        return Measured(values, np.sqrt(squares))

    def _summed(self, values: Floats) -> Floats:
        return np.bincount(self.groups, values, self.clip.groups).astype(np.float64)

    def keys_of_groups(self) -> Ints:
        """Return the number of keys of each group."""
        return np.bincount(self.groups[~self.head], minlength=self.clip.groups)

    def each_key(self, of_groups: Floats) -> Floats:
        """Return for each key the number of its group; 0 in the head, which is not clipped."""
        return np.where(self.head, 0.0, of_groups[self.groups])


def head_of(popularity: Floats, keys_each: float) -> Flags:
    """Return which keys are the head: the most popular ones, as many as add little to a typical user's length."""
    weights = 1 / popularity
    most_popular_first = np.argsort(weights, kind="stable")
    typical = keys_each * float(np.median(weights))
    within = np.cumsum(weights[most_popular_first]) <= typical / _HEAD_OF_TYPICAL
    within[-1] = False  # so that there are other keys
    head = np.zeros(len(popularity), bool)
    head[most_popular_first[within]] = True
    return head


def groups_of(popularity: Floats, head: Flags, groups: int) -> Ints:
    """Return the group of each key outside of the head, by the logarithm of its popularity; 0 for those in the head."""
    logs = np.log(popularity)
    low = float(logs[~head].min())
    high = float(logs[~head].max())
    place = (logs - low) / max(high - low, 1e-9) * groups
    group = np.clip(place, 0, groups - 1)
    return np.where(head, 0, group).astype(np.int64)


def weighing_of(popularity: Floats, head: Flags, clip: Clip, few: FewKeys, length: int) -> Weighing:
    """Return whole weights in proportion to 1 / sqrt(n), for vectors of this length; keys may leave the head."""
    of_head = float((1 / popularity[head]).sum())
    weights = _weights(popularity, length, clip.square + of_head)
    squares = weights**2
    head = _head_within(head, popularity, squares, int(length**2 * _HEAD_OF_BOUND))
    most = length**2 - int(squares[head].sum())
    groups = groups_of(popularity, head, clip.groups)
    return Weighing(
        popularity,
        head,
        weights,
        length,
        most,
        clip,
        groups,
        few,
    )


def _weights(popularity: Floats, length: int, square: float) -> Ints:
    """Return 1 / sqrt(n) in units, of which a vector of this squared length has `length`; at least one unit."""
    scale = length / math.sqrt(square)
    nearest = np.round(scale / np.sqrt(popularity))
    return np.maximum(nearest, 1).astype(np.int64)


def _head_within(head: Flags, popularity: Floats, squares: Ints, most: int) -> Flags:
    """Return the head without its least popular keys, so that its squares, which were rounded, sum to at most this."""
    kept = head.copy()
    while int(squares[kept].sum()) > most:
        least_popular = np.argmin(popularity[kept])
        kept[np.flatnonzero(kept)[least_popular]] = False
    return kept
