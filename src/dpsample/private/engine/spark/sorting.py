"""Pairs of users and keys in their orders, divided by user, in packed batches.

Spark brings the rows of a user together and sorts users by a salted hash alone: to sort by one number takes a third of
the time that several columns take. Python sorts the rows of each user by a salted hash of the key. What has equal
hashes is sorted by itself. The orders of users and keys depend on the salts alone, never on the data or on partitions.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from dpsample.accounting.amounts import Amount
from dpsample.private.engine.spark.frames import Frame
from dpsample.private.pairs import Batch, Flags, cut_off, pair_types, summed_rows
from dpsample.scheme.sampling import Ints

Batches = Iterator[pa.RecordBatch]

PACKED = "bucket long, number long, keys binary, pairs binary, users binary"
_BUCKET = 56  # bits of a user's hash that follow those of its bucket: up to 256 tasks sort, and few have little to do
_HELD = 1 << 18  # rows of one user that are held at first, before each of their keys is held once


@dataclass(frozen=True, eq=False)
class AllPairs:
    """All pairs of a frame, kept on the workers; as private as the data."""

    frame: Frame
    data: Any  # a DataFrame of packed batches

    def __repr__(self) -> str:
        return "AllPairs()"


def sorted_rows(made: Frame, rows: Any, salts: tuple[int, int]) -> Any:
    """Divide and sort rows by users: h, u, place, kh, k0, k1, ..., and with amounts, mark, a0, a1, ...

    u, k0, k1, ... and perhaps place, a0, a1, ... -> divided by the first bits of h -> sorted by h
    """
    user_order = order_column([F.col("u")], salts[0])
    key_order = order_column([F.col(name) for name in made.names], salts[1])
    places = ["place"] if "place" in rows.columns else []
    more = [F.xxhash64("u").alias("mark"), *(f"a{i}" for i in range(len(made.amounts)))] if made.amounts else []
    # the orders are computed again rather than moved
    ordered = rows.repartition(F.shiftright(user_order, _BUCKET)).sortWithinPartitions(user_order)
    return ordered.select(user_order.alias("h"), "u", *places, key_order.alias("kh"), *made.names, *more)


def packing(keys: int, amounts: tuple[Amount, ...]) -> Callable[[Batches], Batches]:
    """Return what packs sorted rows with `keys` key columns into batches of complete users, each pair once.

    bucket  the first bits of users' hashes; all of a bucket is in one partition
    number  of the batch: in the order of (bucket, number), users are in their order
    keys    the distinct keys of the batch, as an Arrow message
    pairs   packed pairs, whose codes are the places of these keys
    users   the salted hashes of the users, 8 bytes each
    """

    def pack(batches: Batches) -> Batches:
        number = 0
        for piece in _of_complete_users(batches, amounts):
            buckets = piece.column(0).to_numpy() >> _BUCKET
            edges = [0, *(np.flatnonzero(buckets[1:] != buckets[:-1]) + 1).tolist(), len(buckets)]
            for start, end in pairwise(edges):
                message, pairs, users = _packed(piece.slice(start, end - start), keys, amounts)
                place = {"bucket": [int(buckets[start])], "number": [number]}
                yield pa.record_batch({**place, "keys": [message], "pairs": [pairs], "users": [users]})
                number += 1

    return pack


def unpacked(batches: Batches, more: int) -> Iterator[tuple[pa.RecordBatch, Batch]]:
    """Yield the distinct keys of each packed batch; whether a row begins a user, the codes, and `more` columns."""
    for batch in batches:
        for message, pairs in zip(batch.column("keys"), batch.column("pairs"), strict=True):
            [keys] = pa.ipc.open_stream(message.as_buffer())
            yield keys, unpacked_pairs(pairs.as_buffer(), keys.num_rows, more)


def packed_pairs(begins: Flags, codes: Ints, keys: int, *more: Ints) -> bytes:
    """Pack pairs, column after column: whether each begins a user, codes below `keys`, marks and amounts.

    >>> packed = packed_pairs(np.array([True, False]), np.array([0, 4]), 5)
    >>> [column.tolist() for column in unpacked_pairs(packed, 5, 0)]
    [[True, False], [0, 4]]
    """
    columns = zip((2 * codes + begins, *more), pair_types(keys, len(more)), strict=True)
    return b"".join(column.astype(kind).tobytes() for column, kind in columns)


def unpacked_pairs(packed: Any, keys: int, more: int) -> Batch:
    """Return what `packed_pairs` packed."""
    kinds = [np.dtype(kind) for kind in pair_types(keys, more)]
    rows, start, columns = len(packed) // sum(kind.itemsize for kind in kinds), 0, []
    for kind in kinds:
        columns.append(np.frombuffer(packed, kind, rows, start))
        start += rows * kind.itemsize
    return columns[0] & 1 == 1, (columns[0] >> 1).astype(np.int64), *columns[1:]


def order_column(columns: list[Any], salt: int) -> Any:
    """Return the salted hash by which users or keys are ordered; what has equal hashes is ordered by itself."""
    return F.xxhash64(F.lit(salt - (1 << 63)), *columns)


def _of_complete_users(batches: Batches, amounts: tuple[Amount, ...]) -> Batches:
    """Cut batches anew, so that all rows with one hash are in one: the last ones of a batch wait for the next one."""
    held, most = list[pa.RecordBatch](), _HELD
    for batch in batches:
        if not batch.num_rows:
            continue
        hashes = batch.column(0).to_numpy()
        changes = np.flatnonzero(hashes[1:] != hashes[:-1])
        start = int(changes[-1]) + 1 if len(changes) else 0
        if start or (held and held[0].column(0)[0].as_py() != hashes[0]):
            yield _joined([*held, batch.slice(0, start)])
            held, most = [], _HELD
        held.append(batch.slice(start))
        if sum(piece.num_rows for piece in held) > most:
            held = [_distinct(_joined(held), len(amounts))]
            most = max(most, 2 * held[0].num_rows)
    if held:
        yield _joined(held)


def _joined(pieces: list[pa.RecordBatch]) -> pa.RecordBatch:
    [batch] = pa.Table.from_batches(pieces).combine_chunks().to_batches()
    return batch


def _distinct(rows: pa.RecordBatch, amounts: int) -> pa.RecordBatch:
    """Each pair once; amounts are added up."""
    names = rows.schema.names
    by, values = names[: len(names) - amounts], names[len(names) - amounts :]
    grouped = pa.Table.from_batches([rows]).group_by(by).aggregate([(name, "sum") for name in values])
    return _joined(grouped.select([*by, *(f"{name}_sum" for name in values)]).rename_columns(names).to_batches())


def _packed(rows: pa.RecordBatch, keys: int, amounts: tuple[Amount, ...]) -> tuple[bytes, bytes, bytes]:
    """Sort the rows of complete users; return their distinct keys, their pairs, and the hashes of users."""
    names = rows.schema.names
    own = names.index("kh") + 1  # where the key begins
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in names[: own + keys]])
    by = order.to_numpy()
    codes, distinct = coded(rows.select(names[own : own + keys]))
    codes = codes[by]
    hashes = rows.column(0).to_numpy()[by]
    begins = _changes(hashes) | _column_changes(rows.column(1).take(order))
    first = begins | _changes(codes)
    if amounts:
        marks, *values = (column.to_numpy()[by] for column in rows.columns[own + keys :])
        columns = cut_off(summed_rows(first, (begins, codes, marks & 0xFFFFFFFF, *values), len(amounts)), amounts)
    else:
        columns = begins[first], codes[first]
    pairs = packed_pairs(columns[0], columns[1], distinct.num_rows, *columns[2:])
    return _message(distinct), pairs, hashes[begins].astype("<i8").tobytes()


def coded(keys: pa.RecordBatch) -> tuple[Ints, pa.RecordBatch]:
    """Number the distinct rows of a batch: the number of each row, and the distinct rows.

    >>> codes, distinct = coded(pa.record_batch({"a": ["x", "y", "x"], "b": [1, 1, 1]}))
    >>> codes.tolist(), distinct.to_pydict()
    ([0, 1, 0], {'a': ['x', 'y'], 'b': [1, 1]})
    """
    values = pc.dictionary_encode(keys.column(0))
    codes: Ints = values.indices.to_numpy().astype(np.int64)
    if keys.num_columns == 1:
        return codes, pa.RecordBatch.from_arrays([values.dictionary], keys.schema.names)
    firsts = codes
    for column in keys.columns[1:]:
        values = pc.dictionary_encode(column)
        mixed = codes * len(values.dictionary) + values.indices.to_numpy()
        _, firsts, codes = np.unique(mixed, return_index=True, return_inverse=True)
    return codes, keys.take(pa.array(firsts))


def _message(batch: pa.RecordBatch) -> bytes:
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, batch.schema) as writer:
        writer.write_batch(batch)
    message: bytes = stream.getvalue().to_pybytes()
    return message


def _changes(values: Ints) -> Flags:
    """Whether each value differs from the one before; the first one does."""
    return np.append(True, values[1:] != values[:-1])


def _column_changes(column: pa.Array) -> Flags:
    return np.append(True, pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)).astype(bool)
