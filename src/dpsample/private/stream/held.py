"""Held keys: what a chunk of elements does to them. NOT private.

Element n of a stream is picked if word n of the stream's coins is below s 2**64. The key of a picked element is held
from that element on. So what is held after n elements depends on the elements and the coins alone: not on how they were
cut into batches, nor on when the state was written and read again.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsample.private.randomness import StreamCoins, Words
from dpsample.scheme.sampling import Ints

_THREADS = os.cpu_count() or 1
_PART = 1 << 17  # elements that a thread looks up at once, at least
_PER_HELD = 4  # and for each held key: a thread makes a hash table of these, which takes as long


class HeldKeys:
    """Keys with the number of their elements since they were picked.

    >>> held = HeldKeys(pa.schema([("key", pa.string())]))
    >>> held.count(pa.table({"key": ["a", "b", "a", "a"]}), np.array([9, 9, 0, 0], np.uint64), 1)
    >>> held.table.to_pylist()
    [{'key': 'a', 'frequency': 2}]
    """

    def __init__(self, schema: pa.Schema, keys: pa.Table | None = None, counts: Ints | None = None) -> None:
        self._keys = schema.empty_table() if keys is None else keys.combine_chunks()
        self._counts = np.zeros(0, np.int64) if counts is None else counts

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def schema(self) -> pa.Schema:
        """The key columns."""
        return self._keys.schema

    @property
    def table(self) -> pa.Table:
        """Key columns and `frequency`, in the order of keys."""
        table = self._keys.append_column("frequency", pa.array(self._counts))
        return table.sort_by([(name, "ascending") for name in self.schema.names])

    def count(self, elements: pa.Table, words: Words, picked_words: int) -> None:
        """Count a chunk of elements, one row each, whose coins are these words."""
        before = len(self)
        new, first = self._picked(elements, np.flatnonzero(words < np.uint64(picked_words)))
        if len(new):
            self._keys = pa.concat_tables([self._keys, new]).combine_chunks()
        self._counts = np.append(self._counts, np.zeros(len(new), np.int64))

        part = max(_PART, _PER_HELD * len(self))

        def counts(start: int) -> Ints:
            place = _places(elements.slice(start, part), self._keys)
            if len(new):  # of a key that was not held, elements before the picked one do not count
                rows = np.flatnonzero(place >= before)
                place[rows[start + rows < first[place[rows] - before]]] = -1
            return np.bincount(place + 1, minlength=len(self) + 1)[1:]

        with ThreadPoolExecutor(_THREADS) as pool:
            for added in pool.map(counts, range(0, len(elements), part)):
                self._counts += added

    def _picked(self, elements: pa.Table, rows: NDArray[np.intp]) -> tuple[pa.Table, Ints]:
        """The keys of picked elements that are not held yet, and the row at which each was picked first."""
        picked, names = elements.take(pa.array(rows)), [f"k{n}" for n in range(len(self.schema))]
        placed = picked.rename_columns(names).append_column("row", pa.array(rows, pa.int64()))
        first = placed.group_by(names, use_threads=False).aggregate([("row", "min")])
        keys = first.select(names).rename_columns(self.schema.names).cast(self.schema)
        known = _places(self._keys, keys)  # a hash table of the few, not of all that are held
        new = np.setdiff1d(np.arange(len(keys)), known)
        return keys.take(pa.array(new)), first["row_min"].to_numpy()[new]


def words_of(key: bytes, start: int, n: int) -> Words:
    """Return the coins of n elements from element `start` on."""
    return StreamCoins(key, start).first(n)


def _places(elements: pa.Table, keys: pa.Table) -> Ints:
    """Return the row of each element's key in a table of distinct keys, or -1.

    Several columns become one: a number for each pair of values of the first two that a key has, and so on.
    """
    (first, known), *others = [(elements.column(n), keys.column(n)) for n in range(keys.num_columns)]
    place, key = first, known
    for column, values in others:
        place, key = _numbers(place, key)
        second, second_key = _numbers(column, values)
        width = np.int64(second_key.max(initial=0) + 1)
        place = np.where((place < 0) | (second < 0), -1, place * width + second)
        key = key * width + second_key
    return _index(place, key)


def _numbers(column: Any, values: Any) -> tuple[Ints, Ints]:
    """Number the distinct values; return the numbers of a column, -1 for others, and of the values themselves."""
    distinct = pc.unique(pa.array(values) if isinstance(values, np.ndarray) else values)
    return _index(column, distinct), _index(values, distinct)


def _index(column: Any, values: Any) -> Ints:
    column, values = (pa.array(v) if isinstance(v, np.ndarray) else v for v in (column, values))
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    found: Ints = pc.fill_null(pc.index_in(column, value_set=values), -1).to_numpy()
    return found if found.flags.writeable else found.copy()
