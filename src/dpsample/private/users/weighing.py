"""Weights of keys, and how users are scaled down, by the first counts and by the histogram of lengths.

A user has the weight 1 / sqrt(n_j) at key j, where n_j is the first count of the key. The keys of the *head* are so
popular that they add little to the length of a user's vector: they are never scaled down. Keys outside of the head, the
*tail*, are scaled down with their user. All of it follows from numbers that were published.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsample.private.users.keys_each import FewKeys
from dpsample.private.users.parts import Measured
from dpsample.scheme.sampling import Floats, Ints

Flags = NDArray[np.bool_]

# the head may add one in this many parts of a typical user's squared length: a smaller number leaves less to the tail
_HEAD_OF_TYPICAL = 8
# the part of the bound of all squares that the rounded weights of the head may take: with more, less is left to the
# tail. Its product with a bound below 2**51 is exact
_HEAD_OF_BOUND = 0.75
_TINY = 1e-9  # in place of 0, where all keys are equally popular


@dataclass(frozen=True)
class Clip:
    """The squared length at which users are clipped, and how their loss is measured.

    square   the squared length, a sum of 1 / n, above which users are scaled down
    longest  the squared length up to which losses are measured
    lost     what a user of the squared length `longest` loses: more is not counted of any user
    groups   the number of groups of keys for which losses are measured
    unseen   about what longer users lose beyond that, in all, with `unseen_error`
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

    popularity  the first count n of each key
    head        whether each key is in the head
    weights     the weight of each key, in whole units
    length      a bound of the length of each user's vector, in units
    most        a bound of the sum of squares at keys outside of the head
    clip        where users are clipped
    groups      the group of each key, by popularity
    few         how far users count in what is beyond a clip of amounts
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
        """The inverse popularity 1 / n of each key; 0 in the head."""
        return np.where(self.head, 0.0, 1 / self.popularity)

    @property
    def present(self) -> list[int]:
        """The groups that have keys."""
        return np.flatnonzero(self.keys_of_groups()).tolist()

    def in_group(self, group: int) -> Flags:
        """Return whether each key is in this group; keys of the head are in none."""
        members: Flags = ~self.head & (self.groups == group)
        return members

    def by_group(self, keys: Measured) -> Measured:
        """Sum numbers of keys by group, weighted by 1 / n, with their errors, which are independent."""
        tail = self.tail
        values = self._summed(keys.values * tail)
        squares = self._summed((keys.errors * tail) ** 2)
        return Measured(values, np.sqrt(squares))

    def _summed(self, values: Floats) -> Floats:
        """Sum a value of each key by group."""
        return np.bincount(self.groups, values, self.clip.groups).astype(np.float64)

    def keys_of_groups(self) -> Ints:
        """Return the number of keys of each group."""
        return np.bincount(self.groups[~self.head], minlength=self.clip.groups)

    def each_key(self, of_groups: Floats) -> Floats:
        """Return for each key the number of its group; 0 in the head, which is not clipped."""
        return np.where(self.head, 0.0, of_groups[self.groups])


def head_of(popularity: Floats, keys_each: float) -> Flags:
    """Return whether each key is in the head: the most popular keys, as many as add little to a typical user's length.

    A typical user has `keys_each` keys of median popularity.
    """
    weights = 1 / popularity
    most_popular_first = np.argsort(weights, kind="stable")
    typical = keys_each * float(np.median(weights))
    added = np.cumsum(weights[most_popular_first])
    within = added <= typical / _HEAD_OF_TYPICAL
    within[-1] = False  # one key at least is outside of the head
    head = np.zeros(len(popularity), bool)
    head[most_popular_first[within]] = True
    return head


def groups_of(popularity: Floats, head: Flags, groups: int) -> Ints:
    """Return the group of each key outside of the head, by the logarithm of its popularity; 0 for those in the head."""
    logs = np.log(popularity)
    low = float(logs[~head].min())
    high = float(logs[~head].max())
    place = (logs - low) / max(high - low, _TINY) * groups
    group = np.clip(place, 0, groups - 1)
    return np.where(head, 0, group).astype(np.int64)


def weighing_of(popularity: Floats, head: Flags, clip: Clip, few: FewKeys, length: int) -> Weighing:
    """Return whole weights in proportion to 1 / sqrt(n), for vectors of this length; keys may leave the head."""
    squares_of_head = 1 / popularity[head]
    of_head = float(squares_of_head.sum())
    weights = _weights(popularity, length, clip.square + of_head)
    squares = weights**2
    bound_of_head = int(length**2 * _HEAD_OF_BOUND)
    head = _head_within(head, popularity, squares, bound_of_head)
    most = length**2 - int(squares[head].sum())
    groups = groups_of(popularity, head, clip.groups)
    return Weighing(popularity, head, weights, length, most, clip, groups, few)


def _weights(popularity: Floats, length: int, square: float) -> Ints:
    """Return 1 / sqrt(n) in whole units, at least one; a vector of this squared length has `length` units."""
    units = length / math.sqrt(square)
    nearest = np.round(units / np.sqrt(popularity))
    return np.maximum(nearest, 1).astype(np.int64)


def _head_within(head: Flags, popularity: Floats, squares: Ints, most: int) -> Flags:
    """Return the head without its least popular keys, until the squares of the others sum to at most `most`."""
    kept = head.copy()
    while int(squares[kept].sum()) > most:
        members = np.flatnonzero(kept)
        least_popular = members[np.argmin(popularity[kept])]
        kept[least_popular] = False
    return kept
