"""Serial assignment as an oracle, and by every engine."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dpsample.private.assignment import Assignment
from dpsample.scheme.sampling import Ints

Pair = tuple[Any, Any]


# ---- oracles


def placed(pairs: Iterable[Pair], cap: int, users: Sequence[Any], keys: Sequence[Any]) -> dict[Any, int]:
    """The units of each key, user by user and key by key, in these orders."""
    of: dict[Any, set[Any]] = defaultdict(set)
    for user, key in pairs:
        of[user].add(key)
    units: Counter[Any] = Counter()
    for user in users:
        for key in keys:
            if key in of[user] and units[key] < cap:
                units[key] += 1
                break
    return dict(units)


def deferred(pairs: Iterable[Pair], cap: int, users: Sequence[Any], keys: Sequence[Any]) -> dict[Any, int]:
    """The same by rounds: all users ask for their next key at a time; keys keep their first `cap` users so far."""
    rank = {user: n for n, user in enumerate(users)}
    present = set(pairs)
    lists = {user: [key for key in keys if (user, key) in present] for user in users}
    asking, held = set(users), defaultdict(list)
    while asking:
        touched = set()
        for user in sorted(asking, key=rank.__getitem__, reverse=True):
            if lists[user]:
                held[lists[user][0]].append(user)
                touched.add(lists[user].pop(0))
        asking = set()
        for key in touched:
            held[key].sort(key=rank.__getitem__)
            asking |= set(held[key][cap:])
            held[key] = held[key][:cap]
    return {key: len(users) for key, users in held.items() if users}


def sizes_of(pairs: Iterable[Pair]) -> list[int]:
    """How many users have 1, 2, 3 to 4, 5 to 8, ... keys."""
    numbers = Counter(user for user, _ in set(pairs)).values()
    limits = [0, 1, *(2**b for b in range(1, 64))]
    return [sum(low < n <= high for n in numbers) for low, high in pairwise(limits)]


# ---- the pass


def run(begins: Any, codes: Any, room: Ints, cuts: Iterable[int]) -> Ints:
    """The room that is left when batches end at these rows."""
    room, one = room.copy(), Assignment()
    for start, end in pairwise([0, *cuts, len(codes)]):
        one.place(begins[start:end], codes[start:end], room)
    return room


class Small:
    """Very many small datasets, and each without each of its users, side by side with keys of their own."""

    def __init__(self, datasets: int, users: int, keys: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        density = rng.uniform(0.2, 1, (datasets, 1, 1))
        single = rng.random((datasets, users, keys)) < density
        self.has = np.repeat(single[:, None], users + 1, axis=1)  # dataset, who is removed (first: nobody), user, key
        for user in range(users):
            self.has[:, user + 1, user] = False
        self.cap = rng.integers(1, 4, (datasets, 1, 1))
        dataset, removed, owner, key = np.nonzero(self.has)
        variant = dataset * (users + 1) + removed
        owner = variant * users + owner
        self.begins = np.append(True, owner[1:] != owner[:-1])
        self.codes = variant * keys + key
        self.shape = (datasets, users + 1, keys)
        self.room = np.broadcast_to(self.cap, self.shape).astype(np.int64).ravel()

    def units(self, cuts: Iterable[int]) -> Ints:
        return (self.room - run(self.begins, self.codes, self.room, cuts)).reshape(self.shape)

    def oracle(self) -> Ints:
        """Cell by cell, for all datasets at a time."""
        units = np.zeros(self.shape, np.int64)
        for user in range(self.has.shape[2]):
            settled = np.zeros(self.shape[:2], bool)
            for key in range(self.has.shape[3]):
                gives = self.has[:, :, user, key] & ~settled & (units[:, :, key] < self.cap[:, :, 0])
                units[:, :, key] += gives
                settled |= gives
        return units
