"""Serial assignment: each user in turn gives one unit to one of their keys, and no key takes more than `cap` units.

All users are in one order and all keys are in one order, and neither order depends on the data. Each user gives the
unit to the first of their own keys, in the order of keys, that has room; to none if all are full.

Adding or removing a user changes the units by one, at one key. Removing a user frees a unit of their key; the first
later user whom that key had turned away takes it, and frees a unit of another key, and so on. One unit moves along this
chain, and only the key at its end has one unit less. So the units are frequencies of which each user changes one, by
one. This holds for every pair of orders, which therefore need not be secret.

Never leave out keys with few users first, nor order keys by what was placed so far: both may move more than one unit.
All engines use this module.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsample.errors import InvalidValue
from dpsample.private.pairs import numbered
from dpsample.scheme.sampling import Ints

if TYPE_CHECKING:
    from dpsample.private.randomness import CoinSource
    from dpsample.private.sources.source import Source

Flags = NDArray[np.bool_]

SIZES: Final = 64  # classes of numbers of keys; the last has all numbers above 2**62
_FIRST_ROWS = (
    1 << 10
)  # of the first piece; a first piece with most pairs would leave most of them to the plain loop
_MOST_ROWS = 1 << 17  # of a piece
# of placing at sinks: of 10**7 pairs 47,000 are left to the loop after one, 22,200 after two, 21,600 after three
_ROUNDS = 2


@dataclass(frozen=True)
class Assigned:
    """What users gave: `source` has each key that took units, with their number as its frequency.

    `sizes[b]` is the number of users with m distinct keys for which ``(m - 1).bit_length() == b``: 1, 2, 3 to 4, 5 to
    8, ... keys; `keys[b]` is how many keys these have in all. `units` is the number of users who gave a unit. All are
    as private as the data.
    """

    source: "Source"
    sizes: Ints
    keys: Ints
    units: int  # of all keys together: users who gave one
    pairs: Any = None  # all pairs, where the engine has put them aside; for the engine alone

    def kept(self, most: int) -> int:
        """Return the sum over users of their number of keys, each up to `most`, a power of two."""
        rows = (most - 1).bit_length() + 1
        return int(self.keys[:rows].sum()) + most * int(self.sizes[rows:].sum())

    def __repr__(self) -> str:
        return "Assigned()"


class Assignment:
    """One pass over pairs of users and keys, sorted by the order of users, then by the order of keys.

    Pairs come in batches, which may end anywhere, also between two keys of a user. Between batches it remembers only
    whether the last user has placed their unit. The room that keys have left is the caller's.

    >>> room = np.array([1, 1, 2])
    >>> assignment = Assignment()
    >>> assignment.place(np.array([True, False, True]), np.array([0, 1, 0]), room)  # user 1: keys 0, 1; user 2: key 0
    >>> assignment.place(np.array([False, True]), np.array([2, 2]), room)  # user 2: key 2; user 3: key 2
    >>> room.tolist()
    [0, 1, 0]
    """

    def __init__(self) -> None:
        self._placed = False  # whether the last user has placed their unit
        # of the next piece: the more keys are full, the fewer pairs of a piece are left to the plain loop
        self._rows = _FIRST_ROWS
        self._counts = np.zeros(0, np.int64)  # zero between calls

    def place(self, begins: Flags, codes: Ints, room: Ints) -> None:
        """Place the units of some users: take them from `room`, which says how many more units each key takes.

        begins  whether a row is the first one of its user
        codes   the positions in `room` of the keys, in the order of keys for each user
        """
        start = 0
        while start < len(codes):
            end = start + self._rows
            self._place_piece(begins[start:end], codes[start:end], room)
            start, self._rows = end, min(2 * self._rows, _MOST_ROWS)

    def _place_piece(self, begins: Flags, codes: Ints, room: Ints) -> None:
        users = numbered(begins)  # 0 if the first user goes on from the batch before
        last, placed = int(users[-1]), self._placed
        self._placed = placed and last == 0
        waiting = room[codes] > 0  # a full key takes nothing more
        if placed:
            waiting &= users > 0
        rows = np.flatnonzero(waiting)
        users, codes = users[rows], codes[rows]
        for _ in range(_ROUNDS):
            users, codes = self._place_at_sinks(users, codes, room, last)
        if len(codes):
            self._place_one_by_one(users, codes, room, last)

    def _place_at_sinks(self, users: Ints, codes: Ints, room: Ints, last: int) -> tuple[Ints, Ints]:
        """Place the units of users whose first key cannot turn anybody away; return the pairs that may still matter.

        A key that has as much room as it has pairs here is a sink: it takes whoever comes. A user goes no further than
        to their first sink.
        """
        if not len(codes):
            return users, codes
        sink = self._counted(codes, len(room)) <= room[codes]
        first = np.append(True, users[1:] != users[:-1])
        starts = np.flatnonzero(first)
        lengths = np.diff(starts, append=len(users))
        sinks_before = numbered(sink) - sink
        beyond_sink = sinks_before > np.repeat(sinks_before[starts], lengths)

        settled = first & sink
        taken = codes[settled]
        ones = np.ones(
            len(taken), room.dtype
        )  # of the same type: else subtracting takes forty times as long
        np.subtract.at(room, taken, ones)
        self._placed |= bool(settled[starts[-1]]) and int(users[-1]) == last

        done = beyond_sink | np.repeat(settled[starts], lengths)
        kept = np.flatnonzero(~done)
        return users[kept], codes[kept]

    def _counted(self, codes: Ints, keys: int) -> Ints:
        """For each row, how many rows have its key."""
        if len(self._counts) < keys:
            self._counts = np.zeros(keys, np.int64)
        np.add.at(self._counts, codes, 1)
        counted = self._counts[codes]
        self._counts[codes] = 0
        return counted

    def _place_one_by_one(self, users: Ints, codes: Ints, room: Ints, last: int) -> None:
        keys, places = np.unique(codes, return_inverse=True)
        left: list[int] = room[keys].tolist()
        settled = -1
        for user, place in zip(users.tolist(), places.tolist(), strict=True):
            if user != settled and left[place]:
                left[place] -= 1
                settled = user
        room[keys] = left
        self._placed |= settled == last


class Sizes:
    """How many users have how many distinct keys, counted along sorted pairs without repetition.

    >>> sizes = Sizes()
    >>> sizes.add(np.array([True, False, False]))
    >>> sizes.add(np.array([False, True]))
    >>> sizes.counts()[:, :3].tolist()
    [[1, 0, 1], [1, 0, 4]]
    """

    def __init__(self) -> None:
        self._counts = np.zeros((2, SIZES), np.int64)
        self._held = 0  # keys of the last user so far

    def add(self, begins: Flags) -> None:
        """Count some rows, each of which begins a user or goes on with the keys of the one before."""
        starts = np.flatnonzero(begins)
        if not len(starts):
            self._held += len(begins)
            return
        last_user = self._held + starts[0]  # who may have begun in earlier rows, or nobody
        ended = np.append(last_user, np.diff(starts))
        self._counts += _classified(ended[ended > 0])
        self._held = len(begins) - int(starts[-1])

    def counts(self) -> Ints:
        """Return the numbers of users in each class of numbers of keys, and of their keys, once all rows were added."""
        last_user = [self._held] if self._held else []
        return self._counts + _classified(np.array(last_user, np.int64))


def _classified(numbers: Ints) -> Ints:
    """Count and add up positive numbers m by ``(m - 1).bit_length()``, which is the exponent of m - 1 as a float."""
    counts = np.zeros((2, SIZES), np.int64)
    place = np.frexp((numbers - 1).astype(np.float64))[1]
    counts[0] = np.bincount(place, minlength=SIZES)
    np.add.at(counts[1], place, numbers)
    return counts


def require_cap(cap: int) -> None:
    """Refuse a cap that is no whole number from 1."""
    if isinstance(cap, bool) or not isinstance(cap, int) or not 1 <= cap < 2**62:
        raise InvalidValue(f"the most units that a key takes is a whole number from 1, not {cap!r}")


def salts(coins: "CoinSource") -> tuple[int, int]:
    """Draw the salts of the orders of users and of keys; of a secret, the same each time."""
    drawn = coins.for_keys(pa.record_batch({"order": ["users", "keys"]}), "keep").first(2)
    return int(drawn[0]), int(drawn[1])
