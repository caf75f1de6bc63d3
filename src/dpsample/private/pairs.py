"""Pairs of users and wanted keys, put aside so that several kernels can read them.

A kernel reads batches of arrays: the rows where users begin, and the position of each row's key. The rows of a user
follow one another, and no batch cuts them. A kernel returns a vector of whole numbers; these vectors are added up over
all workers. Batches of a source with amounts have further arrays: marks of users, 32 bits that follow from the user
alone, then each amount in whole units.
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
    """Return the number of each row's user, from 1 on; `begins` says whether a row is its user's first. 0 before that.

    >>> numbered(np.array([True, False, True])).tolist()
    [1, 1, 2]
    """
    return begins.astype(np.int64).cumsum()  # to sum flags as integers would take ten times as long


def kept_rows(begins: Flags, most: int, words: Words) -> Ints:
    """Return the rows that users keep: up to `most` rows each, chosen by one random word of each user.

    A user keeps rows that follow one another, from a random row on; the first row follows the last one. So each row of
    a user with n rows is kept with probability most / n, and the choice depends on this user alone.

    >>> words = np.array([0, 3 << 62], np.uint64)  # from the first row on; from three quarters of the rows on
    >>> kept_rows(np.array([True, False, False, True, False, False, False]), 2, words).tolist()
    [0, 1, 3, 6]
    """
    starts = np.flatnonzero(begins)
    lengths = np.diff(starts, append=len(begins))
    # the 32 highest bits of a word, times the number of rows, over 2**32: a uniform row of the user
    high_bits = words >> np.uint64(32)
    scaled = high_bits * lengths.astype(np.uint64)
    offset = scaled >> np.uint64(32)
    first = starts + offset.astype(np.int64)
    user = numbered(begins) - 1
    place = np.arange(len(begins)) - first[user]
    before_first = place < 0  # these rows follow the user's last one
    place[before_first] += lengths[user][before_first]
    return np.flatnonzero(place < most)


def summed_rows(first: Flags, batch: Batch, amounts: int) -> Batch:
    """Add up the amounts, which are the last columns, of rows that belong together; `first` marks the first of each.

    Sums of whole numbers are the same in any order, also if they overflow.

    >>> rows = summed_rows(np.array([True, False, True]), (np.array([7, 7, 8]), np.array([3, 2, 1])), 1)
    >>> [column.tolist() for column in rows]
    [[7, 8], [5, 1]]
    """
    starts = np.flatnonzero(first)
    if len(starts) == len(first):
        return batch
    others = [column[starts] for column in batch[:-amounts]]
    sums = [np.add.reduceat(column, starts) for column in batch[-amounts:]]
    return (*others, *sums)


def cut_off(batch: Batch, amounts: Sequence[Amount]) -> Batch:
    """Cut amounts, which are the last columns, off at the ends of the range that is looked at."""
    first = len(batch) - len(amounts)
    cut = []
    for column, amount in zip(batch[first:], amounts, strict=True):
        cut.append(np.clip(column, *amount.looked_at))
    return (*batch[:first], *cut)


def pair_types(keys: int, more: int) -> list[Any]:
    """Return the types of the columns of packed pairs, whose codes of keys are below `keys`.

    The first column has a number for each pair: twice the code of its key, plus one at a new user. `more` columns
    follow, if the source has amounts: marks of users, then each amount, which is below 2**31.
    """
    codes = np.int32 if keys <= 1 << 30 else np.int64
    if more == 0:
        return [codes]
    amounts = [np.int32] * (more - 1)
    return [codes, np.uint32, *amounts]
