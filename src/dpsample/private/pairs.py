"""Pairs of users and wanted keys, put aside so that several kernels can read them.

A kernel reads batches: the rows where users begin, and the position of each row's key. The rows of a user follow one
another, and no batch cuts them. What it returns is added up over all batches of all workers: a vector of whole numbers.
Batches of a source with amounts have further arrays: marks of users, 32 bits that follow from the user alone, then each
amount in whole units.
All engines use this module.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsample.accounting.amounts import Amount
from dpsample.private.randomness import Words
from dpsample.scheme.sampling import Ints

Batch = tuple[Any, ...]  # arrays
Flags = NDArray[np.bool_]
Kernel = Callable[[Iterator[Batch]], Ints]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Each user's wanted keys, once each, as an engine has put them aside; as private as the data."""

    data: Any  # for the engine alone

    def __repr__(self) -> str:
        return "Pairs()"


def numbered(begins: Flags) -> Ints:
    """Number users from 1 on, by whether each row begins one; 0 before the first.

    >>> numbered(np.array([True, False, True])).tolist()
    [1, 1, 2]
    """
    return begins.astype(np.int64).cumsum()  # to sum flags as integers would take ten times as long


def kept_rows(begins: Flags, most: int, words: Words) -> Ints:
    """Return the rows that users keep, who each keep up to `most` of their rows; there is a random word for each user.

    A user keeps rows that follow one another, from a random one on; the first row follows the last one. So each row of
    a user with n rows is kept with probability most / n, and what a user keeps depends on this user alone.

    >>> words = np.array([0, 3 << 62], np.uint64)  # from the first row on; from three quarters of the rows on
    >>> kept_rows(np.array([True, False, False, True, False, False, False]), 2, words).tolist()
    [0, 1, 3, 6]
    """
    starts = np.flatnonzero(begins)
    lengths = np.diff(starts, append=len(begins))
    scaled = (words >> np.uint64(32)) * lengths.astype(np.uint64)
    first = starts + (scaled >> np.uint64(32)).astype(np.int64)
    user = numbered(begins) - 1
    place = np.arange(len(begins)) - first[user]
    place[place < 0] += lengths[user][
        place < 0
    ]  # rows before the first one that is kept follow the last one
    return np.flatnonzero(place < most)


def summed_rows(first: Flags, batch: Batch, amounts: int) -> Batch:
    """Add up the last columns, which are amounts, of rows that do not differ from the one before.

    Sums of whole numbers are the same in any order, also if they overflow.

    >>> rows = summed_rows(np.array([True, False, True]), (np.array([7, 7, 8]), np.array([3, 2, 1])), 1)
    >>> [column.tolist() for column in rows]
    [[7, 8], [5, 1]]
    """
    starts = np.flatnonzero(first)
    if len(starts) == len(first):
        return batch
    sums = [np.add.reduceat(column, starts) for column in batch[-amounts:]]
    return (*(column[starts] for column in batch[:-amounts]), *sums)


def cut_off(batch: Batch, amounts: Sequence[Amount]) -> Batch:
    """Cut amounts, the last columns, off where they are not looked at."""
    first = len(batch) - len(amounts)
    columns = zip(batch[first:], amounts, strict=True)
    return (*batch[:first], *(np.clip(column, *amount.looked_at) for column, amount in columns))


def pair_types(keys: int, more: int) -> list[Any]:
    """Return the types of columns of packed pairs whose codes are below `keys`.

    The first one has a number for each pair: twice its code, plus one at a new user. `more` are marks of users, then
    amounts, which are below 2**31.
    """
    codes = np.int32 if keys <= 1 << 30 else np.int64
    marks_and_amounts = [np.uint32, *[np.int32] * more][:more]
    return [codes, *marks_and_amounts]
