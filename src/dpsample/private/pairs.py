"""Pairs of users and wanted keys, put aside so that several kernels can read them.

A kernel reads batches of user numbers and positions of keys. The rows of a user follow one another, and no batch cuts
them. What it returns is added up over all batches of all workers: a vector of whole numbers.
All engines use this module.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsample.scheme.sampling import Ints

Kernel = Callable[[Iterator[tuple[Ints, Ints]]], Ints]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Each user's wanted keys, once each, as an engine has put them aside; as private as the data."""

    data: Any  # for the engine alone

    def __repr__(self) -> str:
        return "Pairs()"


def of_complete_users(batches: Iterable[tuple[Ints, Ints]]) -> Iterator[tuple[Ints, Ints]]:
    """Cut batches anew, so that each user is in one: the last user of a batch waits for the next one.

    >>> batches = [(np.array([1, 1, 2]), np.array([0, 5, 3])), (np.array([2, 3]), np.array([4, 0]))]
    >>> [users.tolist() for users, positions in of_complete_users(batches)]
    [[1, 1], [2, 2], [3]]
    """
    held: list[tuple[Ints, Ints]] = []  # of one user
    for users, positions in batches:
        if not len(users):
            continue
        changes = np.flatnonzero(users[1:] != users[:-1])
        start = int(changes[-1]) + 1 if len(changes) else 0  # of the last user's rows
        if start or (held and held[0][0][0] != users[0]):
            yield _joined([*held, (users[:start], positions[:start])])
            held = []
        held.append((users[start:], positions[start:]))
    if held:
        yield _joined(held)


def _joined(pieces: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    return np.concatenate([users for users, _ in pieces]), np.concatenate([positions for _, positions in pieces])
