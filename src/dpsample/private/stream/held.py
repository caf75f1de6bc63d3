"""Held keys: what a chunk of elements does to them. NOT private.

Element n of a stream is picked if word n of the stream's coins is below s 2**64. The key of a picked element is held
from that element on. So what is held after n elements depends on the elements and the coins alone: not on how they were
cut into batches, nor on when the state was written and read again.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsample.lazy import pc
from dpsample.private.randomness import StreamCoins, Words
from dpsample.scheme.sampling import Ints

# keys that are looked up first, in a hash table that fits into the cache of a processor: of Zipf-like keys, 1,024 have
# 0.72 of the elements and take 12 ns for each, 4,096 0.78 and 17 ns, 16,384 0.83 and 37 ns
_FREQUENT = 4096
_WORTH = 0.25  # they are looked up first only if they have this share of the elements: with less, it takes time
# other elements wait until there are this many of them, at least, and for each held key: with fewer, a hash table of
# all held keys is made more often, which takes time; with more, they take memory
_LEAST = 1 << 18
_PER_HELD = 4

Flags = NDArray[np.bool_]


class HeldKeys:
    """Keys with the number of their elements since they were picked.

    Elements of the most frequent keys, which are held, are counted at once. The others wait until there are enough of
    them, in their order: a hash table of all held keys takes time to make.

    >>> held = HeldKeys(pa.schema([("key", pa.string())]))
    >>> held.count(pa.table({"key": ["a", "b", "a", "a"]}), np.array([9, 9, 0, 0], np.uint64), 1)
    >>> held.table.to_pylist()
    [{'key': 'a', 'frequency': 2}]
    """

    def __init__(
        self, schema: pa.Schema, keys: pa.Table | None = None, counts: Ints | None = None
    ) -> None:
        nothing = schema.empty_table()
        self._keys = nothing if keys is None else keys.combine_chunks()
        self._counts = np.zeros(0, np.int64) if counts is None else counts
        self._waiting: list[tuple[pa.Table, Flags]] = []  # elements, and whether they are picked
        # the most frequent keys, lately, and what decides when they are chosen again
        self._frequent: Ints = np.zeros(0, np.int64)  # their rows among the held keys
        self._frequent_keys = nothing
        self._counts_when_chosen = self._counts.copy()
        self._elements_since = 0

    @property
    def schema(self) -> pa.Schema:
        """The key columns."""
        return self._keys.schema

    @property
    def table(self) -> pa.Table:
        """Key columns and `frequency`, in the order of keys."""
        self._count_waiting()
        table = self._keys.append_column("frequency", pa.array(self._counts))
        return table.sort_by([(name, "ascending") for name in self.schema.names])

    def count(self, elements: pa.Table, words: Words, picked_words: int) -> None:
        """Count a chunk of elements, one row each, whose coins are these words; those below `picked_words` pick."""
        picked = words < np.uint64(picked_words)
        self._elements_since += len(picked)
        if len(self._frequent):
            place = _places(elements, self._frequent_keys)
            self._counts[self._frequent] += _bincount(place, len(self._frequent))
            others = place < 0
            elements = elements.filter(pa.array(others))
            picked = picked[others]
        self._waiting.append((elements, picked))
        waiting = sum(len(of_chunk) for _, of_chunk in self._waiting)
        if waiting >= max(_LEAST, _PER_HELD * len(self._counts)):
            self._count_waiting()

    def add(self, counted: pa.Table) -> None:
        """Add distinct keys that were counted elsewhere, with `frequency`; from now on all of them are held.

        >>> held = HeldKeys(pa.schema([("key", pa.string())]))
        >>> for keys in (["a"], ["b", "a"]):
        ...     held.add(pa.table({"key": keys, "frequency": range(3, 3 + len(keys))}))
        >>> held.table.to_pydict()
        {'key': ['a', 'b'], 'frequency': [7, 3]}
        """
        self._count_waiting()
        keys = counted.select(self.schema.names)
        counts = counted.column("frequency").to_numpy()
        place = _places(keys, self._keys)
        held = place >= 0
        self._counts[place[held]] += counts[held]
        self._append_keys(keys.filter(pa.array(~held)))
        self._counts = np.append(self._counts, counts[~held])

    def _append_keys(self, new: pa.Table) -> None:
        """Hold further keys; their counts are the caller's."""
        self._keys = pa.concat_tables([self._keys, new]).combine_chunks()

    def _count_waiting(self) -> None:
        """Count the elements that wait, and choose the most frequent keys again."""
        if not self._waiting:
            return
        elements = pa.concat_tables([of_chunk for of_chunk, _ in self._waiting])
        picked = np.concatenate([of_chunk for _, of_chunk in self._waiting])
        self._waiting = []
        held_before = len(self._counts)
        new, picked_first = self._newly_picked(elements, picked)
        if len(new):
            self._append_keys(new)
        place = _places(elements, self._keys)
        # elements of a new key do not count before the row at which it was picked first
        of_new = np.flatnonzero(place >= held_before)
        too_early = of_new[of_new < picked_first[place[of_new] - held_before]]
        place[too_early] = -1
        counts = np.append(self._counts, np.zeros(len(new), np.int64))
        self._counts = counts + _bincount(place, len(counts))
        self._choose_frequent()
        # gives 15 MB of 290 back to the system, and takes no time
        pa.default_memory_pool().release_unused()

    def _choose_frequent(self) -> None:
        """Choose the keys with the most elements since the last choice, if looking them up first saves time."""
        lately = self._counts.copy()
        lately[: len(self._counts_when_chosen)] -= self._counts_when_chosen
        chosen = np.argpartition(lately, -min(_FREQUENT, len(lately)))[-_FREQUENT:]
        if lately[chosen].sum() < _WORTH * self._elements_since:
            chosen = chosen[:0]
        self._frequent = chosen
        self._frequent_keys = self._keys.take(pa.array(chosen)).combine_chunks()
        self._counts_when_chosen = self._counts.copy()
        self._elements_since = 0

    def _newly_picked(self, elements: pa.Table, picked: Flags) -> tuple[pa.Table, Ints]:
        """Return the keys of picked elements that are not held yet, and the row at which each was picked first."""
        picked_rows = np.flatnonzero(picked)
        of_picked = elements.take(pa.array(picked_rows))
        numbers = _numbered(of_picked)
        _, first = np.unique(numbers, return_index=True)
        keys = of_picked.take(pa.array(first)).combine_chunks()
        held = _places(self._keys, keys)  # a hash table of the few, not of all that are held
        new = np.setdiff1d(np.arange(len(first)), held)
        return keys.take(pa.array(new)), picked_rows[first[new]]


def words_of(key: bytes, start: int, n: int) -> Words:
    """Return the coins of n elements from element `start` on, of the key stream of a secret key."""
    return StreamCoins(key, start).first(n)


def _places(elements: pa.Table, keys: pa.Table) -> Ints:
    """Return the row of each element's key in a table of distinct keys, or -1.

    Several columns become one: each pair of values of the first two columns that a key has gets a number; then each
    pair of such a number and a value of the third column; and so on.
    """
    place = elements.column(0)
    known = keys.column(0)
    for column in range(1, keys.num_columns):
        first, first_of_keys = _numbers(place, known)
        second, second_of_keys = _numbers(elements.column(column), keys.column(column))
        width = np.int64(second_of_keys.max(initial=0) + 1)
        absent = (first < 0) | (second < 0)
        place = np.where(absent, -1, first * width + second)
        known = first_of_keys * width + second_of_keys
    return _index(place, known)


def _numbered(keys: pa.Table) -> Ints:
    """Number the distinct rows of a table, and return the number of each row."""
    number = np.zeros(len(keys), np.int64)
    for column in keys.columns:
        value = _index(column, pc.unique(column))
        values = value.max(initial=0) + 1
        pair = number * values + value
        _, number = np.unique(pair, return_inverse=True)
    return number


def _bincount(place: Ints, n: int) -> Ints:
    """Count the places from 0 to n - 1; -1 is no place."""
    counts: Ints = np.bincount(place + 1, minlength=n + 1)[1:]
    return counts


def _numbers(column: Any, values: Any) -> tuple[Ints, Ints]:
    """Number distinct values; return the numbers of a column, -1 for other values, and those of the values."""
    distinct = pc.unique(_as_arrow(values))
    return _index(column, distinct), _index(values, distinct)


def _index(column: Any, values: Any) -> Ints:
    """Return the place of each element of a column among distinct values, or -1."""
    places = pc.index_in(_as_arrow(column), value_set=_as_arrow(values))
    index: Ints = pc.fill_null(places, -1).to_numpy()
    return index if index.flags.writeable else index.copy()


def _as_arrow(values: Any) -> Any:
    """Return an array of Arrow, from one of NumPy or from chunks."""
    if isinstance(values, np.ndarray):
        return pa.array(values)
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    return values
