"""Serial assignment: each user in turn gives one unit to one of their keys, and no key takes more than `cap` units.

All users are in one order and all keys are in one order, and neither order depends on the data. Each user gives the
unit to the first of their own keys, in the order of keys, that has room; to none if all are full.

Adding or removing a user changes the units by one, at one key. Removing a user frees a unit of their key; the first
later user whom that key had turned away takes it, and frees a unit of another key, and so on. One unit moves along this
chain, and only the key at its end has one unit less. So units are frequencies, and each user changes one of them, by
one (docs/theory.md, section 10, Serial assignment). This holds for every pair of orders, which need not be secret.

Never leave out keys with few users first, nor order keys by the units placed so far: both may move more than one unit.
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
# rows of the first piece: most keys still have room there, and a long piece would leave most of its pairs to the loop
_FIRST_ROWS = 1 << 10
_MOST_ROWS = 1 << 17  # of a piece: more take memory, and no less time
# rounds of placing at sinks: of 10**7 pairs 47,000 are left to the plain loop after one, 22,200 after two, 21,600 after
# three
_ROUNDS = 2


@dataclass(frozen=True)
class Assigned:
    """The units that users gave, and how many keys users have. All of it is as private as the data.

    source  each key that took units, with their number as its frequency
    sizes   `sizes[b]` is the number of users with m distinct keys for which ``(m - 1).bit_length() == b``: 1, 2, 3 to
            4, 5 to 8, ... keys
    keys    `keys[b]` is the number of pairs of these users and their keys
    units   the units of all keys together, which is the number of users who gave one
    pairs   all pairs of users and keys, where the engine has put them aside; for the engine alone
    """

    source: "Source"
    sizes: Ints
    keys: Ints
    units: int
    pairs: Any = None

    def kept(self, most: int) -> int:
        """Return the sum over users of their number of keys, each up to `most`, a power of two."""
        rows = (most - 1).bit_length() + 1  # of users with up to `most` keys
        of_short = int(self.keys[:rows].sum())
        long_users = int(self.sizes[rows:].sum())
        return of_short + most * long_users

    def __repr__(self) -> str:
        return "Assigned()"


class Assignment:
    """One pass over pairs of users and keys, sorted by the order of users, then by the order of keys.

    Pairs come in batches, which may end anywhere, also between two keys of a user. Between batches it remembers only
    whether the last user has placed their unit. The caller keeps the room: how many more units each key takes.

    >>> room = np.array([1, 1, 2])
    >>> assignment = Assignment()
    >>> assignment.place(np.array([True, False, True]), np.array([0, 1, 0]), room)  # user 1: keys 0, 1; user 2: key 0
    >>> assignment.place(np.array([False, True]), np.array([2, 2]), room)  # user 2: key 2; user 3: key 2
    >>> room.tolist()
    [0, 1, 0]
    """

    def __init__(self) -> None:
        self._placed = False  # whether the last user has placed their unit
        self._rows = (
            _FIRST_ROWS  # of the next piece: the more keys are full, the longer a piece may be
        )
        self._counts = np.zeros(0, np.int64)  # room for `_counted`: zero between calls

    def place(self, begins: Flags, codes: Ints, room: Ints) -> None:
        """Place the units of some users, and take them from `room`, in place.

        begins  whether a row is the first one of its user
        codes   the positions in `room` of the keys, in the order of keys for each user
        room    how many more units each key takes
        """
        start = 0
        while start < len(codes):
            end = start + self._rows
            self._place_piece(begins[start:end], codes[start:end], room)
            start = end
            self._rows = min(2 * self._rows, _MOST_ROWS)

    def _place_piece(self, begins: Flags, codes: Ints, room: Ints) -> None:
        """Place the units of the users of a piece: most of them at sinks, with arrays, the others one by one."""
        users = numbered(begins)  # 0 if the first user goes on from the piece before
        last = int(users[-1])
        placed_before = self._placed
        self._placed = placed_before and last == 0
        waiting = room[codes] > 0  # a full key takes nothing more
        if placed_before:
            waiting &= users > 0
        rows = np.flatnonzero(waiting)
        users = users[rows]
        codes = codes[rows]
        for _ in range(_ROUNDS):
            users, codes = self._place_at_sinks(users, codes, room, last)
        if len(codes):
            self._place_one_by_one(users, codes, room, last)

    def _place_at_sinks(self, users: Ints, codes: Ints, room: Ints, last: int) -> tuple[Ints, Ints]:
        """Place the units of users whose first key cannot turn anybody away; return the pairs that may still matter.

        A key with at least as much room as it has pairs here is a sink: it takes whoever comes. No user goes beyond
        their first sink. `last` is the number of the last user of the piece.
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
        # ones of the type of the room: else subtracting takes forty times as long
        ones = np.ones(len(taken), room.dtype)
        np.subtract.at(room, taken, ones)
        if settled[starts[-1]] and int(users[-1]) == last:
            self._placed = True

        done = beyond_sink | np.repeat(settled[starts], lengths)
        kept = np.flatnonzero(~done)
        return users[kept], codes[kept]

    def _counted(self, codes: Ints, keys: int) -> Ints:
        """Return, for each row, the number of rows that have its key; there are `keys` keys."""
        if len(self._counts) < keys:
            self._counts = np.zeros(keys, np.int64)
        np.add.at(self._counts, codes, 1)
        counted = self._counts[codes]
        self._counts[codes] = 0
        return counted

    def _place_one_by_one(self, users: Ints, codes: Ints, room: Ints, last: int) -> None:
        """Place the units of users in a plain loop."""
        keys, places = np.unique(codes, return_inverse=True)
        left: list[int] = room[keys].tolist()
        settled = -1  # the last user who has placed their unit
        for user, place in zip(users.tolist(), places.tolist(), strict=True):
            if user != settled and left[place]:
                left[place] -= 1
                settled = user
        room[keys] = left
        if settled == last:
            self._placed = True


class Sizes:
    """How many users have how many distinct keys, and these keys in all, counted along sorted pairs without repetition.

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
        """Count some rows; `begins` says whether a row is the first one of its user."""
        starts = np.flatnonzero(begins)
        if not len(starts):
            self._held += len(begins)
            return
        held = self._held + starts[0]  # 0 if no user went on from earlier rows
        ended = np.append(held, np.diff(starts))  # numbers of keys of users who ended here
        self._counts += _classified(ended[ended > 0])
        self._held = len(begins) - int(starts[-1])

    def counts(self) -> Ints:
        """Return `Assigned.sizes` and `Assigned.keys`, as two rows, once all rows were added."""
        last_user = [self._held] if self._held else []
        return self._counts + _classified(np.array(last_user, np.int64))


def _classified(numbers: Ints) -> Ints:
    """Count positive numbers m by ``(m - 1).bit_length()``, and add them up: two rows."""
    less_one = (numbers - 1).astype(np.float64)
    _, bit_length = np.frexp(less_one)  # the exponent of a whole number is its bit length
    counts = np.zeros((2, SIZES), np.int64)
    counts[0] = np.bincount(bit_length, minlength=SIZES)
    np.add.at(counts[1], bit_length, numbers)
    return counts


def require_cap(cap: int) -> None:
    """Refuse a cap, the number of units with which a key is full, that is no whole number from 1 on."""
    if type(cap) is not int or not 1 <= cap < 2**62:
        raise InvalidValue(
            f"a key must be full with a whole number of units from 1 on, not {cap!r}"
        )


def salts(coins: "CoinSource") -> tuple[int, int]:
    """Draw the salts of the order of users and of the order of keys; a secret draws the same each time."""
    orders = pa.record_batch({"order": ["users", "keys"]})
    of_users, of_keys = coins.for_keys(orders, "keep").first(2)
    return int(of_users), int(of_keys)
