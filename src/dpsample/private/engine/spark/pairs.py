"""Users and their wanted keys: divided by user, sorted, kept on the workers, and read there by kernels."""

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpsample.accounting.amounts import Amount
from dpsample.private.engine.spark.frames import Frame, small
from dpsample.private.pairs import Batch, Flags, Kernel, added_up, of_complete_users
from dpsample.scheme.sampling import Ints

Batches = Iterator[pa.RecordBatch]


def pairs_of(made: Frame, wanted: Any, keys: int) -> Any:
    """Find each user's wanted keys, once each: numbers of users, within a partition, and positions.

    u, k0, k1, ... -> u, position, divided by u and sorted -> user, position, without repetition, in packed batches

    With amounts, the mark of the user and each amount follow. A row of the DataFrame is a batch: to take rows out of
    Spark one by one took most of the time of a kernel.
    """
    rows = made.amount_pairs() if made.amounts else made.all_pairs()
    more = ["mark", *(f"a{i}" for i in range(len(made.amounts)))] if made.amounts else []
    found = rows.join(small(wanted, keys), on=made.names).select("u", "position", *more)
    ordered = found.repartition("u").sortWithinPartitions("u", "position")
    kernel = _add_up(made.amounts) if made.amounts else _number_users
    return ordered.mapInArrow(_packing(kernel), "batch binary")


def vectors_of(pairs: Any, kernel: Kernel) -> list[Ints]:
    """Return the vectors that a kernel makes of the partitions."""

    def apply_kernel(batches: Batches) -> Batches:
        columns = (tuple(column.to_numpy() for column in batch.columns) for batch in _unpacked(batches))
        vector = np.asarray(kernel(of_complete_users(columns)), "<i8")
        yield pa.record_batch({"vector": [zlib.compress(vector.tobytes(), 1)]})  # most of many numbers are small

    rows = pairs.mapInArrow(apply_kernel, "vector binary").collect()
    return [np.frombuffer(zlib.decompress(bytes(row[0])), "<i8").astype(np.int64) for row in rows]


def _packing(work: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """Return work whose batches are packed into one row each."""

    def packed(batches: Batches) -> Batches:
        for batch in work(batches):
            stream = pa.BufferOutputStream()
            with pa.ipc.new_stream(stream, batch.schema) as writer:
                writer.write_batch(batch)
            yield pa.record_batch({"batch": pa.array([stream.getvalue().to_pybytes()], pa.binary())})

    return packed


def _unpacked(batches: Batches) -> Batches:
    for batch in batches:
        for packed in batch.column(0):
            yield from pa.ipc.open_stream(packed.as_buffer())


def _number_users(batches: Batches) -> Batches:
    for numbers, first, batch in _numbered(batches):
        yield pa.record_batch({"user": numbers[first], "position": batch.column(1).to_numpy()[first]})


def _add_up(amounts: tuple[Amount, ...]) -> Callable[[Batches], Batches]:
    """Return what numbers users, and adds up the amounts of each pair."""

    def add_up(batches: Batches) -> Batches:
        def rows() -> Iterator[tuple[Flags, Batch]]:
            for numbers, first, batch in _numbered(batches):
                positions, marks, *values = (column.to_numpy() for column in batch.columns[1:])
                yield first, (numbers, positions, marks & 0xFFFFFFFF, *values)

        for user, position, mark, *values in added_up(rows(), amounts):
            columns = {f"a{i}": value for i, value in enumerate(values)}
            yield pa.record_batch({"user": user, "position": position, "mark": mark, **columns})

    return add_up


def _numbered(batches: Batches) -> Iterator[tuple[Ints, Flags, pa.RecordBatch]]:
    """Numbers of users, from 0 on, whether a row begins a pair, and the row, of rows that are sorted by pairs."""
    last: pa.RecordBatch | None = None  # row
    number = -1
    for batch in batches:
        if not batch.num_rows:
            continue
        begins, positions = (_changes(batch.column(i), None if last is None else last.column(i)) for i in (0, 1))
        numbers = number + np.cumsum(begins)
        yield numbers, begins | positions, batch
        last, number = batch.slice(batch.num_rows - 1), int(numbers[-1])


def _changes(column: pa.Array, before: pa.Array | None) -> Flags:
    """Whether each value differs from the one before."""
    first = True if before is None else column[0] != before[0]
    return np.append(first, pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)).astype(bool)
