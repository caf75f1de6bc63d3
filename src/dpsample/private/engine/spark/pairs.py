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
            for n in range(batch.num_rows):
                yield _users_who_keep(batch.slice(n, 1), more, most)

    of_batches = every.data.mapInArrow(count_kept, made.fields(users="long"))
    users = of_batches.groupBy(*made.names).agg(F.sum("users").alias("users"))
    return users.agg(F.sum(F.least("users", F.lit(full))))


def _users_who_keep(packed: pa.RecordBatch, more: int, most: int) -> pa.RecordBatch:
    """The keys of a packed batch that some of its users keep, and how many do."""
    [(keys, (begins, codes, *_))] = unpacked(iter([packed]), more)
    hashes = np.frombuffer(packed["users"][0].as_buffer(), "<u8")
    rows = kept_rows(begins, most, hashes)
    users = np.bincount(codes[rows], minlength=keys.num_rows)
    kept = np.flatnonzero(users)
    counts = pa.array(users[kept], pa.int64())
    return keys.take(pa.array(kept)).append_column("users", counts)


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
        yield pa.record_batch(
            {"vector": [zlib.compress(vector.tobytes(), 1)]}
        )  # most of many numbers are small

    rows = pairs.data.mapInArrow(apply_kernel, "vector binary").collect()
    vectors = [zlib.decompress(bytes(row[0])) for row in rows]
    return [np.frombuffer(vector, "<i8").astype(np.int64) for vector in vectors]


def _selecting(wanted: pa.Table, more: int) -> Callable[[Batches], Batches]:
    def select(batches: Batches) -> Batches:
        index = Positions(wanted)
        for keys, (begins, codes, *others) in unpacked(batches, more):
            positions = index.of(keys)[codes]
            kept = np.flatnonzero(positions >= 0)
            if len(kept):  # a user begins at the first one of these, whatever came before
                begins = np.diff(numbered(begins)[kept], prepend=0) > 0
                columns = [column[kept] for column in others]
                pairs = packed_pairs(wanted.num_rows, begins, positions[kept], *columns)
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
        self._levels = list[
            tuple[pa.Array, Ints]
        ]()  # of each column: its values, and which are with which before
        codes = np.zeros(wanted.num_rows, np.int64)
        for column in columns:
            values = pc.dictionary_encode(column).combine_chunks()
            together, codes = np.unique(
                codes * len(values.dictionary) + _ints(values.indices), return_inverse=True
            )
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
    values: Ints = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return values
