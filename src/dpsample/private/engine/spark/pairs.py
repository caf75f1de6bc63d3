"""Users and their wanted keys: divided by user, sorted, kept on the workers, and read there by kernels."""

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpsample.private.engine.spark.frames import Frame, small
from dpsample.private.pairs import Kernel, of_complete_users
from dpsample.scheme.sampling import Ints

Batches = Iterator[pa.RecordBatch]


def pairs_of(made: Frame, wanted: Any, keys: int) -> Any:
    """Find each user's wanted keys, once each: a DataFrame of numbers of users, within a partition, and positions.

    u, k0, k1, ... -> u, position, divided by u and sorted -> user, position, without repetition
    """
    found = made.all_pairs().join(small(wanted, keys), on=made.names).select("u", "position")
    ordered = found.repartition("u").sortWithinPartitions("u", "position")
    return ordered.mapInArrow(_number_users, "user long, position long")


def vectors_of(pairs: Any, kernel: Kernel) -> list[Ints]:
    """Return the vectors that a kernel makes of the partitions."""

    def apply_kernel(batches: Batches) -> Batches:
        columns = ((batch.column(0).to_numpy(), batch.column(1).to_numpy()) for batch in batches)
        vector = np.asarray(kernel(of_complete_users(columns)), "<i8")
        yield pa.record_batch({"vector": [zlib.compress(vector.tobytes(), 1)]})  # most of many numbers are small

    rows = pairs.mapInArrow(apply_kernel, "vector binary").collect()
    return [np.frombuffer(zlib.decompress(bytes(row[0])), "<i8").astype(np.int64) for row in rows]


def _number_users(batches: Batches) -> Batches:
    held: pa.RecordBatch | None = None  # the last row
    number = -1
    for batch in batches:
        if not batch.num_rows:
            continue
        if held is not None:
            [batch] = pa.Table.from_batches([held, batch]).combine_chunks().to_batches()
        users, positions = batch.column(0), batch.column(1).to_numpy()
        begins = np.append(held is None, pc.not_equal(users[1:], users[:-1]).to_numpy(zero_copy_only=False))
        kept = begins | np.append(held is None, positions[1:] != positions[:-1])
        numbers = number + np.cumsum(begins)
        yield pa.record_batch({"user": numbers[kept], "position": positions[kept]})
        held, number = batch.slice(batch.num_rows - 1), int(numbers[-1])
