"""Users and their wanted keys: selected from packed batches, kept on the workers, and read there by kernels."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from dpsample.private.engine.spark.frames import Frame, small
from dpsample.private.engine.spark.sorting import (
    AllPairs,
    packed_pairs,
    packing,
    sorted_rows,
    unpacked,
    unpacked_pairs,
)
from dpsample.private.pairs import Batch, Kernel, kept_rows, numbered
from dpsample.scheme.sampling import Ints

Batches = Iterator[pa.RecordBatch]

_FAST = 1  # the fastest level of zlib: the next ones take longer, and save little


def pairs_of(made: Frame, sent: Any, wanted: pa.Table) -> Any:
    """Find each user's wanted keys, once each: a DataFrame of packed pairs, whose codes are positions.

    u, k0, k1, ..., of wanted keys -> divided by user, sorted -> pairs

    A row of the DataFrame is a batch: to take rows out of Spark one by one took most of the time of a kernel.
    """
    keys = small(sent, wanted.num_rows)
    found = made.all_pairs().join(keys, on=made.names, how="left_semi")
    ordered = sorted_rows(made, found, (0, 0))
    pack = packing(len(made.names), made.amounts)
    select = _selecting(wanted, made.more)
    return ordered.mapInArrow(lambda batches: select(pack(batches)), "pairs binary")


def selected(pairs: Any, wanted: pa.Table, more: int) -> Any:
    """Select each user's wanted keys from packed batches of all pairs."""
    return pairs.select("keys", "pairs").mapInArrow(_selecting(wanted, more), "pairs binary")


def filled(every: AllPairs, most: int, full: int) -> Any:
    """Return the sum over keys of min(`full`, users who keep the key), each up to `most` keys: the only row.

    packed batches -> which rows users keep -> k0, k1, ..., users of each batch -> of all batches -> cut off, added up

    What a user keeps follows from the salted hash of this user, whose salt follows from the secret. So a task that is
    run again keeps the same, in whatever batches Spark brings users.
    """
    made = every.frame
    more = made.more  # a frame cannot be sent to workers

    def count_kept(batches: Batches) -> Batches:
        for batch in batches:
            for row in range(batch.num_rows):
                yield _users_who_keep(batch.slice(row, 1), more, most)

    of_batches = every.data.mapInArrow(count_kept, made.fields(users="long"))
    groups = of_batches.groupBy(*made.names)
    users = groups.agg(F.sum("users").alias("users"))
    cut_off = F.least("users", F.lit(full))
    return users.agg(F.sum(cut_off))


def _users_who_keep(packed: pa.RecordBatch, more: int, most: int) -> pa.RecordBatch:
    """Return the keys of a packed batch that some of its users keep, and how many do."""
    [(keys, pairs)] = unpacked(iter([packed]), more)
    begins, codes, *_ = pairs
    hashes = np.frombuffer(packed["users"][0].as_buffer(), "<u8")
    kept_codes = codes[kept_rows(begins, most, hashes)]
    users = np.bincount(kept_codes, minlength=keys.num_rows)
    kept = np.flatnonzero(users)
    kept_keys = keys.take(pa.array(kept))
    return kept_keys.append_column("users", pa.array(users[kept], pa.int64()))


@dataclass(frozen=True, eq=False)
class KeptPairs:
    """A DataFrame of packed pairs, the number of wanted keys, and that of columns with marks and amounts."""

    data: Any
    keys: int
    more: int


def vectors_of(pairs: KeptPairs, kernel: Kernel) -> list[Ints]:
    """Return the vectors that a kernel makes of the partitions."""
    keys, more = pairs.keys, pairs.more

    def apply_kernel(batches: Batches) -> Batches:
        vector = np.asarray(kernel(_read(batches, keys, more)), "<i8")
        # a vector may be long, and most of its numbers are small
        packed = zlib.compress(vector.tobytes(), _FAST)
        yield pa.record_batch({"vector": [packed]})

    rows = pairs.data.mapInArrow(apply_kernel, "vector binary").collect()
    vectors = list[Ints]()
    for row in rows:
        vector = zlib.decompress(bytes(row[0]))
        vectors.append(np.frombuffer(vector, "<i8").astype(np.int64))
    return vectors


def _selecting(wanted: pa.Table, more: int) -> Callable[[Batches], Batches]:
    """Return what selects the pairs of wanted keys from packed batches, with `more` columns beside the pairs."""

    def select(batches: Batches) -> Batches:
        index = Positions(wanted)
        for keys, (begins, codes, *others) in unpacked(batches, more):
            positions = index.of(keys)[codes]
            kept = np.flatnonzero(positions >= 0)
            if not len(kept):
                continue
            # a user begins at the first one of these, whatever came before
            kept_begins = np.diff(numbered(begins)[kept], prepend=0) > 0
            columns = [column[kept] for column in others]
            pairs = packed_pairs(wanted.num_rows, kept_begins, positions[kept], *columns)
            yield pa.record_batch({"pairs": [pairs]})

    return select


def _read(batches: Batches, keys: int, more: int) -> Iterator[Batch]:
    """The rows where users begin, and positions of keys; then marks and amounts, if there are any."""
    for batch in batches:
        for pairs in batch.column(0):
            begins, *columns = unpacked_pairs(pairs.as_buffer(), keys, more)
            yield np.flatnonzero(begins), *columns


class Positions:
    """Finds keys in a table of distinct keys, k0, k1, ..., and their positions; they are compared by all their bytes.

    >>> index = Positions(pa.table({"k0": ["x", "y", "x"], "k1": [1, 1, 2], "position": [5, 6, 7]}))
    >>> index.of(pa.record_batch({"k0": ["y", "x", "y", "z"], "k1": [1, 2, 2, 1]})).tolist()
    [6, 7, -1, -1]
    """

    def __init__(self, wanted: pa.Table) -> None:
        *columns, positions = wanted.combine_chunks().columns
        # of each column: its distinct values, and the distinct pairs of the code so far and the value, as one number
        self._levels = list[tuple[pa.Array, Ints]]()
        codes = np.zeros(wanted.num_rows, np.int64)
        for column in columns:
            values = pc.dictionary_encode(column).combine_chunks()
            mixed = codes * len(values.dictionary) + _ints(values.indices)
            together, codes = np.unique(mixed, return_inverse=True)
            self._levels.append((values.dictionary, together))
        self._positions = np.append(np.zeros(len(codes), np.int64), -1)
        self._positions[codes] = positions.to_numpy()

    def of(self, keys: pa.RecordBatch) -> Ints:
        """Return the position of each key, or -1 where it is not wanted."""
        codes = np.zeros(keys.num_rows, np.int64)
        found = np.ones(keys.num_rows, bool)
        for column, (values, together) in zip(keys.columns, self._levels, strict=True):
            place = pc.index_in(column.cast(values.type), values)
            found &= place.is_valid().to_numpy(zero_copy_only=False)
            mixed = codes * len(values) + _ints(place.fill_null(0))
            nearest = np.searchsorted(together, mixed)
            codes = np.minimum(nearest, len(together) - 1)
            found[found] = together[codes[found]] == mixed[found]
        return self._positions[np.where(found, codes, -1)]


def _ints(column: pa.Array) -> Ints:
    """Return a column of integers."""
    values: Ints = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return values
