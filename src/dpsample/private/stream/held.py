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
_WORTH = 0.25  # the share of elements from which on that saves time
# elements of other keys that are looked up at once, at least, and for each held key, of which a hash table is made:
# with fewer of them this takes longer, with more of them it takes memory
_LEAST = 1 << 18
_PER_HELD = 4


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
        self._waiting: list[
            tuple[pa.Table, NDArray[np.bool_]]
        ] = []  # elements, and whether they are picked
        self._frequent: Ints = np.zeros(0, np.int64)  # rows of the most frequent keys, lately
        self._frequent_keys = nothing
        self._chosen_at = self._counts.copy()  # counts when they were chosen
        self._elements = 0  # since they were chosen

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
        """Count a chunk of elements, one row each, whose coins are these words."""
        picked = words < np.uint64(picked_words)
        self._elements += len(picked)
        if len(self._frequent):
            place = _places(elements, self._frequent_keys)
            self._counts[self._frequent] += _bincount(place, len(self._frequent))
            others = place < 0
            elements, picked = elements.filter(pa.array(others)), picked[others]
        self._waiting.append((elements, picked))
        if sum(len(picked) for _, picked in self._waiting) >= max(
            _LEAST, _PER_HELD * len(self._counts)
        ):
            self._count_waiting()

    def add(self, counted: pa.Table) -> None:
        """Add distinct keys that were counted elsewhere, with `frequency`; those that are not held are so from now on.

        >>> held = HeldKeys(pa.schema([("key", pa.string())]))
        >>> for keys in (["a"], ["b", "a"]):
        ...     held.add(pa.table({"key": keys, "frequency": range(3, 3 + len(keys))}))
        >>> held.table.to_pydict()
        {'key': ['a', 'b'], 'frequency': [7, 3]}
        """
        self._count_waiting()
        keys, counts = counted.select(self.schema.names), counted.column("frequency").to_numpy()
        place = _places(keys, self._keys)
        held = place >= 0
        self._counts[place[held]] += counts[held]
        self._keys = pa.concat_tables([self._keys, keys.filter(pa.array(~held))]).combine_chunks()
        self._counts = np.append(self._counts, counts[~held])

    def _count_waiting(self) -> None:
        """Count the elements that wait, and choose the most frequent keys again."""
        if not self._waiting:
            return
        elements = pa.concat_tables([part for part, _ in self._waiting])
        picked = np.concatenate([part for _, part in self._waiting])
        before, self._waiting = len(self._counts), []
        new, first = self._picked(elements, picked)
        if len(new):
            self._keys = pa.concat_tables([self._keys, new]).combine_chunks()
        place = _places(elements, self._keys)
        rows = np.flatnonzero(
            place >= before
        )  # of a new key, elements before the picked one do not count
        place[rows[rows < first[place[rows] - before]]] = -1
        self._counts = np.append(self._counts, np.zeros(len(new), np.int64)) + _bincount(
            place, before + len(new)
        )
        self._choose_frequent()
        pa.default_memory_pool().release_unused()  # 15 MB of 290, and no time

    def _choose_frequent(self) -> None:
        lately = self._counts.copy()
        lately[: len(self._chosen_at)] -= self._chosen_at
        most = np.argpartition(lately, -min(_FREQUENT, len(lately)))[-_FREQUENT:]
        if lately[most].sum() < _WORTH * self._elements:
            most = most[:0]
        self._frequent, self._frequent_keys = most, self._keys.take(pa.array(most)).combine_chunks()
        self._chosen_at, self._elements = self._counts.copy(), 0

    def _picked(self, elements: pa.Table, picked: NDArray[np.bool_]) -> tuple[pa.Table, Ints]:
        """The keys of picked elements that are not held yet, and the row at which each was picked first."""
        rows = np.flatnonzero(picked)
        of_rows = elements.take(pa.array(rows))
        _, first = np.unique(_numbered(of_rows), return_index=True)
        keys = of_rows.take(pa.array(first)).combine_chunks()
        held = _places(self._keys, keys)  # a hash table of the few, not of all that are held
        new = np.setdiff1d(np.arange(len(first)), held)
        first_rows = rows[first[new]]
        return keys.take(pa.array(new)), first_rows


def words_of(key: bytes, start: int, n: int) -> Words:
    """Return the coins of n elements from element `start` on."""
    return StreamCoins(key, start).first(n)


def _places(elements: pa.Table, keys: pa.Table) -> Ints:
    """Return the row of each element's key in a table of distinct keys, or -1.

    Several columns become one: a number for each pair of values of the first two that a key has, and so on.
    """
    (first, known), *others = [
        (elements.column(n), keys.column(n)) for n in range(keys.num_columns)
    ]
    place, key = first, known
    for column, values in others:
        place, key = _numbers(place, key)
        second, second_key = _numbers(column, values)
        width = np.int64(second_key.max(initial=0) + 1)
        place = np.where((place < 0) | (second < 0), -1, place * width + second)
        key = key * width + second_key
    return _index(place, key)


def _numbered(keys: pa.Table) -> Ints:
    """Number the distinct rows of a table, and return the number of each row."""
    number = np.zeros(len(keys), np.int64)
    for column in keys.columns:
        second = _index(column, pc.unique(column))
        _, number = np.unique(number * (second.max(initial=0) + 1) + second, return_inverse=True)
    return number


def _bincount(place: Ints, n: int) -> Ints:
    """Count the places from 0 to n - 1; -1 is none."""
    counts: Ints = np.bincount(place + 1, minlength=n + 1)[1:]
    return counts


def _numbers(column: Any, values: Any) -> tuple[Ints, Ints]:
    """Number the distinct values; return the numbers of a column, -1 for others, and of the values themselves."""
    distinct = pc.unique(pa.array(values) if isinstance(values, np.ndarray) else values)
    return _index(column, distinct), _index(values, distinct)


def _index(column: Any, values: Any) -> Ints:
    """Return the place of each element of a column among distinct values, or -1."""
    places = pc.index_in(_as_arrow(column), value_set=_as_arrow(values))
    index: Ints = pc.fill_null(places, -1).to_numpy()
    return index if index.flags.writeable else index.copy()


def _as_arrow(values: Any) -> Any:
    if isinstance(values, np.ndarray):
        return pa.array(values)
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    return values
