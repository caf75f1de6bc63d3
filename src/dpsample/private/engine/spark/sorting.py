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
from dpsample.private.engine.columns import each_pair_once, joined
from dpsample.private.engine.spark.frames import Frame
from dpsample.private.pairs import Batch, Flags, cut_off, pair_types, summed_rows
from dpsample.scheme.sampling import Ints

Batches = Iterator[pa.RecordBatch]

PACKED = "bucket long, number long, keys binary, pairs binary, users binary"
# Bits of a user's hash that follow those of its bucket: up to 256 tasks sort, and few have little to do.
_BUCKET = 56
# Rows of one user that are held at first, before each of their keys is held once.
_HELD = 1 << 18


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
    user_salt, key_salt = salts
    user_order = order_column([F.col("u")], user_salt)
    key_order = order_column([F.col(name) for name in made.names], key_salt)
    divided = rows.repartition(F.shiftright(user_order, _BUCKET))
    chosen = [user_order.alias("h"), F.col("u")]  # both orders are computed again rather than moved
    if "place" in rows.columns:
        chosen.append(F.col("place"))
    chosen += [key_order.alias("kh"), *map(F.col, made.names)]
    if made.amounts:
        chosen += [F.xxhash64("u").alias("mark"), *map(F.col, made.amount_names)]
    return divided.sortWithinPartitions(user_order).select(*chosen)


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
            starts = np.flatnonzero(_changes(buckets)).tolist()
            for start, end in pairwise([*starts, len(buckets)]):
                columns: dict[str, Any] = {"bucket": [int(buckets[start])], "number": [number]}
                columns |= _packed(piece.slice(start, end - start), keys, amounts)
                yield pa.record_batch(columns)
                number += 1

    return pack


def unpacked(batches: Batches, more: int) -> Iterator[tuple[pa.RecordBatch, Batch]]:
    """Yield the distinct keys of each packed batch; whether a row begins a user, the codes, and `more` columns."""
    for batch in batches:
        packed = zip(batch.column("keys"), batch.column("pairs"), strict=True)
        for message, pairs in packed:
            [keys] = pa.ipc.open_stream(message.as_buffer())
            yield keys, unpacked_pairs(pairs.as_buffer(), keys.num_rows, more)


def packed_pairs(keys: int, begins: Flags, codes: Ints, *more: Ints) -> bytes:
    """Pack pairs, column after column: whether each begins a user, codes below `keys`, marks and amounts.

    >>> packed = packed_pairs(5, np.array([True, False]), np.array([0, 4]))
    >>> [column.tolist() for column in unpacked_pairs(packed, 5, 0)]
    [[True, False], [0, 4]]
    """
    kinds = pair_types(keys, len(more))
    columns = zip((2 * codes + begins, *more), kinds, strict=True)
    return b"".join(column.astype(kind).tobytes() for column, kind in columns)


def unpacked_pairs(packed: Any, keys: int, more: int) -> Batch:
    """Return what `packed_pairs` packed."""
    kinds = [np.dtype(kind) for kind in pair_types(keys, more)]
    rows = len(packed) // sum(kind.itemsize for kind in kinds)
    columns = list[Any]()
    start = 0
    for kind in kinds:
        columns.append(np.frombuffer(packed, kind, rows, start))
        start += rows * kind.itemsize
    pairs, *others = columns
    begins = pairs & 1 == 1
    codes = (pairs >> 1).astype(np.int64)
    return begins, codes, *others


def order_column(columns: list[Any], salt: int) -> Any:
    """Return the salted hash by which users or keys are ordered; `Engine.assigned` explains the orders."""
    return F.xxhash64(F.lit(salt - (1 << 63)), *columns)


def _of_complete_users(batches: Batches, amounts: tuple[Amount, ...]) -> Batches:
    """Cut batches anew, so that all rows with one hash are in one: the last ones of a batch wait for the next one."""
    held = list[pa.RecordBatch]()
    most = _HELD
    for batch in batches:
        if not batch.num_rows:
            continue
        hashes = batch.column(0).to_numpy()
        changes = np.flatnonzero(hashes[1:] != hashes[:-1])
        start = int(changes[-1]) + 1 if len(changes) else 0
        is_next_user = bool(held) and held[0].column(0)[0].as_py() != hashes[0]
        if start or is_next_user:
            yield joined([*held, batch.slice(0, start)])
            held = []
            most = _HELD
        held.append(batch.slice(start))
        if sum(piece.num_rows for piece in held) > most:
            held = [each_pair_once(joined(held), len(amounts))]
            most = max(most, 2 * held[0].num_rows)
    if held:
        yield joined(held)


def _packed(rows: pa.RecordBatch, keys: int, amounts: tuple[Amount, ...]) -> dict[str, list[bytes]]:
    """Sort the rows of complete users; return their distinct keys, their pairs, and the hashes of users."""
    names = rows.schema.names
    key = names.index("kh") + 1  # where the columns of the key begin
    after = key + keys
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in names[:after]])
    rows = rows.take(order)
    codes, distinct = coded(rows.select(names[key:after]))
    hashes = rows["h"].to_numpy()
    begins = _changes(hashes) | _column_changes(rows["u"])
    marks_and_amounts = [column.to_numpy() for column in rows.columns[after:]]
    each_once = _each_once(begins, codes, marks_and_amounts, amounts)
    pairs = packed_pairs(distinct.num_rows, *each_once)
    users = hashes[begins].astype("<i8").tobytes()
    return {"keys": [_message(distinct)], "pairs": [pairs], "users": [users]}


def _each_once(
    begins: Flags, codes: Ints, others: list[Ints], amounts: tuple[Amount, ...]
) -> Batch:
    """Return sorted pairs once each; of `others`, which are marks and amounts, with the sums of the amounts."""
    first = begins | _changes(codes)
    if not amounts:
        return begins[first], codes[first]
    marks, *values = others
    last_bits = marks & 0xFFFFFFFF
    summed = summed_rows(first, (begins, codes, last_bits, *values), len(values))
    return cut_off(summed, amounts)


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
        # a number for each pair of the code so far and the value of this column
        mixed = codes * len(values.dictionary) + values.indices.to_numpy()
        _, firsts, codes = np.unique(mixed, return_index=True, return_inverse=True)
    return codes, keys.take(pa.array(firsts))


def _message(batch: pa.RecordBatch) -> bytes:
    """Return a batch as an Arrow message."""
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, batch.schema) as writer:
        writer.write_batch(batch)
    message: bytes = stream.getvalue().to_pybytes()
    return message


def _changes(values: Ints) -> Flags:
    """Whether each value differs from the one before; the first one does."""
    return np.append(True, values[1:] != values[:-1])


def _column_changes(column: pa.Array) -> Flags:
    """Whether each value of a column differs from the one before; the first one does."""
    differs = pc.not_equal(column[1:], column[:-1])
    return np.append(True, differs.to_numpy(zero_copy_only=False)).astype(bool)
