"""Pairs of users and wanted keys, put aside so that several kernels can read them.

A kernel reads batches of user numbers and positions of keys. The rows of a user follow one another, and no batch cuts
them. What it returns is added up over all batches of all workers: a vector of whole numbers. Batches of a source with
amounts have further arrays: marks of users, 32 bits that follow from the user alone, then each amount in whole units.
All engines use this module.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsample.accounting.amounts import Amount
from dpsample.scheme.sampling import Ints

Batch = tuple[Any, ...]  # arrays of one length
Flags = NDArray[np.bool_]
Kernel = Callable[[Iterator[Batch]], Ints]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Each user's wanted keys, once each, as an engine has put them aside; as private as the data."""

    data: Any  # for the engine alone

    def __repr__(self) -> str:
        return "Pairs()"


def of_complete_users(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Cut batches anew, so that each user is in one: the last user of a batch waits for the next one.

    >>> batches = [(np.array([1, 1, 2]), np.array([0, 5, 3])), (np.array([2, 3]), np.array([4, 0]))]
    >>> [users.tolist() for users, positions in of_complete_users(batches)]
    [[1, 1], [2, 2], [3]]
    """
    held: list[Batch] = []  # of one user
    for batch in batches:
        users = batch[0]
        if not len(users):
            continue
        changes = np.flatnonzero(users[1:] != users[:-1])
        start = int(changes[-1]) + 1 if len(changes) else 0  # of the last user's rows
        if start or (held and held[0][0][0] != users[0]):
            yield _joined([*held, tuple(column[:start] for column in batch)])
            held = []
        held.append(tuple(column[start:] for column in batch))
    if held:
        yield _joined(held)


def added_up(batches: Iterable[tuple[Flags, Batch]], amounts: Sequence[Amount]) -> Iterator[Batch]:
    """Add up the amounts of equal rows, which follow one another, and cut them off where they are not looked at.

    A batch has whether a row differs from the one before, and columns of which the last ones are amounts, of one row
    each: sums of whole numbers are the same in any order, also if they overflow.

    >>> batches = [(np.array([True, False, True]), (np.array([7, 7, 8]), np.array([3, 2, 1])))]
    >>> from fractions import Fraction
    >>> [[column.tolist() for column in batch] for batch in added_up(batches, [Amount(None, Fraction(1))])]
    [[[7], [5]], [[8], [1]]]
    """
    held: Batch | None = None  # the last row, which may go on
    for first, batch in batches:
        if not len(first):
            continue
        if held is not None:
            batch, first = _joined([held, batch]), np.append(True, first)
        rows = summed_rows(first, batch, len(amounts))
        yield cut_off(tuple(column[:-1] for column in rows), amounts)
        held = tuple(column[-1:] for column in rows)
    if held is not None:
        yield cut_off(held, amounts)


def summed_rows(first: Flags, batch: Batch, amounts: int) -> Batch:
    """Add up the last columns, which are amounts, of rows that do not differ from the one before."""
    starts = np.flatnonzero(first)
    if len(starts) == len(first):
        return batch
    names = (column[starts] for column in batch[:-amounts])
    return (*names, *(np.add.reduceat(column, starts) for column in batch[-amounts:]))


def cut_off(batch: Batch, amounts: Sequence[Amount]) -> Batch:
    """Cut amounts, the last columns, off where they are not looked at."""
    limits = [amount.most for amount in amounts]
    values = (np.clip(column, -most, most) for column, most in zip(batch[-len(limits) :], limits, strict=True))
    return (*batch[: -len(limits)], *values)


def _joined(pieces: list[Batch]) -> Batch:
    return tuple(np.concatenate(columns) for columns in zip(*pieces, strict=True))
