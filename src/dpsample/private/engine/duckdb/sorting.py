"""Pairs of users and keys in their orders (`orders`): an external sort of integers.

Rows are divided by the first bits of their users' hashes, part by part, into a file. A part is short enough to be
sorted in memory. There, a hash and the place of its row are sorted as one integer.

DuckDB could sort the pairs itself, in a few statements. On two cores that takes 30 to 60 % more CPU time for 10**7
pairs.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpsample.accounting.amounts import Amount
from dpsample.lazy import pc
from dpsample.private.assignment import Flags
from dpsample.private.engine.columns import each_pair_once, joined
from dpsample.private.engine.duckdb.orders import Numbers, mixed, order_sql
from dpsample.private.engine.duckdb.statements import gathered
from dpsample.private.pairs import Batch, cut_off, numbered, summed_rows
from dpsample.private.sources.scans import Objects
from dpsample.scheme.sampling import Ints

if TYPE_CHECKING:
    from dpsample.private.engine.duckdb.engine import DuckDB

# Bytes of pairs that are sorted at once; sorting takes about four times as many.
_HELD = 24 << 20
# Rows that are divided at once. With fewer, parts are in many small pieces, each with its own price.
_ROWS = 1 << 19
# Bits of hashes by which rows are divided at once: 256 parts.
_BITS = 8
# How often rows are divided at most. After two times, a part is larger than `_HELD` only with 10**11 rows, or where
# users have millions of rows.
_DIVISIONS = 2
# Bytes that are written to a file at once.
_BUFFER = 1 << 20

Pieces = Iterator[pa.RecordBatch]  # of rows: h, perhaps u, code, a0, a1, ...


def sorted_pairs(
    engine: "DuckDB",
    rows: str,
    objects: Objects,
    salt: int,
    codes: int,
    amounts: Sequence[Amount] = (),
    code_of: Callable[[Any], Any] = np.asarray,
) -> Iterator[Batch]:
    """Sort rows of users and keys by user, then by the code of the key; yield each pair once.

    `rows` selects u, then names of keys, of which `code_of` makes codes below `codes`, then amounts. A batch says
    whether each row begins a user, and its code. With amounts, marks of users and the sums of the amounts follow. No
    batch cuts a user.
    """
    if not pa.types.is_integer(engine.schema(rows, objects).field("u").type):
        rows = f"SELECT {order_sql(['u'], salt)} AS h, * FROM ({rows})"
    at_once = int(_ROWS * engine.scale)
    kind = np.min_scalar_type(-codes - 1)  # the shortest type: each byte is written and read

    def pieces() -> Pieces:
        for table in gathered(engine.stream(rows, objects, at_once), at_once):
            yield _hashed(table, salt, lambda names: code_of(names).astype(kind))

    bits = codes.bit_length()
    for part, known in _parts(engine, pieces(), 0):
        if amounts:
            yield _summed_pairs(part, known, bits, amounts)
        else:
            yield _distinct_pairs(part, known, bits)


def _hashed(table: pa.Table, salt: int, code_of: Callable[[Any], Any]) -> pa.RecordBatch:
    """Give rows the hashes of users, and the codes of keys.

    u, name, a0, a1, ... of users that are integers -> h, code, a0, a1, ...
    h, u, name, a0, a1, ... of others               -> h, u, code, a0, a1, ...

    Users that are integers need no column of their own: `mixed` tells them apart.
    """
    columns = dict[str, Any]()
    if "h" in table.column_names:
        _, users, names, *amounts = table.columns
        columns["h"] = table["h"]
        columns["u"] = users
    else:
        users, names, *amounts = table.columns
        columns["h"] = mixed(users.to_numpy().astype(np.int64, copy=False), salt)
    columns["code"] = code_of(names.to_numpy())
    for place, amount in enumerate(amounts):
        columns[f"a{place}"] = amount
    return joined(pa.table(columns).to_batches())


# ---- dividing


def _parts(engine: "DuckDB", pieces: Pieces, known: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Divide rows into parts that can be sorted, in the order of hashes.

    All hashes of these rows have the first `known` bits in common. A part comes with the number of bits that its hashes
    have in common.
    """
    held = list[pa.RecordBatch]()
    size = 0
    most = int(_HELD * engine.scale)
    for rows in pieces:
        held.append(rows)
        size += rows.nbytes
        if size <= most:
            continue
        if known < _DIVISIONS * _BITS:
            yield from _divided(engine, chain(held, pieces), known)
            return
        held = [_once(joined(held))]
        size = held[0].nbytes
        # rows that all differ are not looked through again for each piece
        most = max(most, 2 * size)
    if held:
        yield joined(held), known


def _once(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return each pair of a user and a key once, with the sums of its amounts."""
    return each_pair_once(rows, len(_amounts(rows)))


@dataclass(frozen=True)
class _Place:
    """Where a message is in a file."""

    start: int
    size: int


def _divided(
    engine: "DuckDB", pieces: Iterable[pa.RecordBatch], known: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Divide rows by the next bits of their hashes, in a file; then divide each part."""
    path = engine.file()
    places = [list[_Place]() for _ in range(1 << _BITS)]  # of the messages of each part
    end = 0
    with path.open("w+b", buffering=_BUFFER) as file:
        path.unlink()  # the content lives as long as the file is open
        for table in gathered(pieces, int(_ROWS * engine.scale)):
            rows = joined(table.to_batches())
            for part, rows_of_part in _by_next_bits(rows, known):
                message = rows_of_part.serialize()
                file.write(message)
                places[part].append(_Place(end, message.size))
                end += message.size
        file.flush()
        for places_of_part in places:
            messages = _read(file.fileno(), places_of_part, rows.schema)
            yield from _parts(engine, messages, known + _BITS)


def _read(file: int, places: Sequence[_Place], schema: pa.Schema) -> Pieces:
    """Yield the rows of messages in an open file."""
    for place in places:
        message = os.pread(file, place.size, place.start)
        yield pa.ipc.read_record_batch(pa.py_buffer(message), schema)


def _by_next_bits(rows: pa.RecordBatch, known: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each part, by the bits of their hashes that follow the `known` ones."""
    parts = _hashes(rows) << known >> 64 - _BITS
    order = _order(parts, _BITS)
    ordered = rows.take(pa.array(order))
    sizes = np.bincount(parts.astype(np.int64), minlength=1 << _BITS)
    start = 0
    for part in np.flatnonzero(sizes).tolist():
        size = int(sizes[part])
        yield part, ordered.slice(start, size)
        start += size


# ---- sorting a part


def _distinct_pairs(rows: pa.RecordBatch, known: int, bits: int) -> Batch:
    """Return the distinct pairs of some rows, in the order of users and codes.

    They are whether each begins a user, and its code, which has this many bits.
    """
    order, begins = _user_order(rows, known)
    pairs = numbered(begins) << bits | _codes(rows)[order]
    pairs.sort(kind="stable")  # users ascend already, which makes it three times as fast
    pairs = pairs[_changes(pairs)]
    return _divided_pairs(pairs, bits)


def _divided_pairs(pairs: Ints, bits: int) -> tuple[Flags, Ints]:
    """Divide sorted numbers of users and codes, which are the last bits: whether each begins a user, and its code."""
    begins = _changes(pairs >> bits)
    codes = pairs & (1 << bits) - 1
    return begins, codes


def _summed_pairs(rows: pa.RecordBatch, known: int, bits: int, amounts: Sequence[Amount]) -> Batch:
    """Return the distinct pairs of some rows, with marks of users and the sums of amounts."""
    by_user, begins = _user_order(rows, known)
    pairs = numbered(begins) << bits | _codes(rows)[by_user]
    by_pair = _order(pairs, int(pairs[-1]).bit_length())
    pairs = pairs[by_pair]
    places = by_user[by_pair]
    values = [amount.to_numpy()[places] for amount in _amounts(rows)]
    # the last bits of a hash, which follow from the user alone
    marks = _hashes(rows)[places].astype(np.uint32)
    summed = summed_rows(_changes(pairs), (pairs, marks, *values), len(values))
    pairs, *others = cut_off(summed, amounts)
    begins, codes = _divided_pairs(pairs, bits)
    return begins, codes, *others


def _user_order(rows: pa.RecordBatch, known: int) -> tuple[Ints, Flags]:
    """Return the order of rows by users, and which rows of this order begin a user.

    The first `known` bits of all hashes are equal. Of the others, as many are compared as fit beside the number of the
    row. Two users may be equal in these, or have one hash: then rows are sorted by all of the hash, and by the user.
    """
    hashes = _hashes(rows)
    row_bits = len(hashes).bit_length()
    compared = hashes << known >> row_bits
    order = _order(compared, 64 - row_bits)
    begins = _begins(rows, order)
    distinct = np.count_nonzero(_changes(compared[order]))
    if np.count_nonzero(begins) == distinct:
        return order, begins
    order = _exact_order(rows)
    return order, _begins(rows, order)


def _begins(rows: pa.RecordBatch, order: Ints) -> Flags:
    """Whether each row, in an order, has another user than the one before."""
    if "u" not in rows.schema.names:
        return _changes(_hashes(rows)[order])
    users = rows["u"].take(pa.array(order))
    differs = pc.not_equal(users[1:], users[:-1])
    return np.append(True, differs.to_numpy(zero_copy_only=False))


def _exact_order(rows: pa.RecordBatch) -> Ints:
    """Return the order of rows by hashes, and by users where hashes are equal."""
    by = [(name, "ascending") for name in rows.schema.names if name in ("h", "u")]
    order: Ints = pc.sort_indices(rows, sort_keys=by).to_numpy().astype(np.int64)
    return order


def _order(numbers: Any, bits: int) -> Ints:
    """Return the order in which numbers of this many bits ascend; equal ones stay in their order.

    A number and its place are sorted as one integer, if it fits: that takes a third of the time of `argsort`.
    """
    place_bits = len(numbers).bit_length()
    if bits + place_bits > 64:
        return np.argsort(numbers, kind="stable")
    kind: Any = np.uint32 if bits + place_bits <= 32 else np.uint64
    places = np.arange(len(numbers), dtype=kind)
    packed = numbers.astype(kind) << place_bits | places
    packed.sort()
    last_bits = packed & (1 << place_bits) - 1
    order: Ints = last_bits.astype(np.int64)
    return order


def _changes(values: Any) -> Flags:
    """Whether each value differs from the one before; the first one does."""
    return np.append(True, values[1:] != values[:-1])


# ---- columns of rows


def _hashes(rows: pa.RecordBatch) -> Numbers:
    """Return the hashes of users."""
    hashes: Numbers = rows["h"].to_numpy()
    return hashes


def _codes(rows: pa.RecordBatch) -> Ints:
    """Return the codes of keys."""
    codes: Ints = rows["code"].to_numpy()
    return codes


def _amounts(rows: pa.RecordBatch) -> list[pa.Array]:
    """Return the columns of amounts, which follow the codes."""
    first = rows.schema.get_field_index("code") + 1
    amounts: list[pa.Array] = rows.columns[first:]
    return amounts
