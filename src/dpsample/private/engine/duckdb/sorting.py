"""Pairs of users and keys in their orders (`orders`): an external sort of integers.

Rows are divided by the first bits of their users' hashes, part by part, into a file. A part is short enough to be
sorted in memory. There, a hash and the place of its row are sorted as one integer.

DuckDB could sort the pairs itself, in a few statements. On two cores that takes 30 to 60 % more CPU time for 10**7
pairs.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from dpsample.private.sources.formats import Objects
from dpsample.scheme.sampling import Ints

if TYPE_CHECKING:
    from dpsample.private.engine.duckdb.engine import DuckDB

_HELD = 24 << 20  # bytes of pairs that are sorted at once; sorting takes about four times as many
_ROWS = (
    1 << 19
)  # rows that are divided at once: with fewer, parts are in many small pieces, each with its own price
_BITS = 8  # of hashes by which rows are divided at once: 256 parts
_DIVISIONS = 2  # at most; after two, a part is larger than `_HELD` only with 10**11 rows, or with users of millions
_BUFFER = 1 << 20  # bytes that are written to a file at once

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
    pieces = (
        _hashed(table, salt, lambda names: code_of(names).astype(kind))
        for table in gathered(engine.stream(rows, objects, at_once), at_once)
    )
    bits = codes.bit_length()
    for part, known in _parts(engine, pieces, 0):
        yield (
            _summed_pairs(part, known, bits, amounts)
            if amounts
            else _distinct_pairs(part, known, bits)
        )


def _hashed(table: pa.Table, salt: int, code_of: Callable[[Any], Any]) -> pa.RecordBatch:
    """Give rows hashes and codes: u, name, a0, ..., perhaps after h -> h, code, a0, ..., with u if there was h.

    Users that are integers need no column of their own: `mixed` tells them apart.
    """
    by_hash = table.column_names[0] == "h"
    users, names, *amounts = table.columns[1:] if by_hash else table.columns
    if by_hash:
        columns = {"h": table["h"], "u": users}
    else:
        columns = {"h": mixed(users.to_numpy().astype(np.int64, copy=False), salt)}
    columns["code"] = code_of(names.to_numpy())
    columns |= {f"a{n}": amount for n, amount in enumerate(amounts)}
    return joined(pa.table(columns).to_batches())


# ---- dividing


def _parts(engine: "DuckDB", pieces: Pieces, known: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Divide rows into parts that can be sorted, in the order of hashes.

    All hashes of these rows have the first `known` bits in common. A part comes with the number of bits that its hashes
    have in common.
    """
    held, size, most = list[pa.RecordBatch](), 0, int(_HELD * engine.scale)
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
        most = max(
            most, 2 * size
        )  # rows that all differ are not looked through again for each piece
    if held:
        yield joined(held), known


def _once(rows: pa.RecordBatch) -> pa.RecordBatch:
    return each_pair_once(rows, len(_amounts(rows)))


def _divided(
    engine: "DuckDB", pieces: Iterable[pa.RecordBatch], known: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Divide rows by the next bits of their hashes, in a file; then divide each part."""
    path = engine.file()
    places = [
        list[tuple[int, int]]() for _ in range(1 << _BITS)
    ]  # of each part: where its messages begin, their sizes
    end = 0
    with path.open("w+b", buffering=_BUFFER) as file:
        path.unlink()  # the content lives as long as the file is open
        for table in gathered(pieces, int(_ROWS * engine.scale)):
            rows = joined(table.to_batches())
            for part, own in _by_next_bits(rows, known):
                message = own.serialize()
                file.write(message)
                places[part].append((end, message.size))
                end += message.size
        file.flush()
        for own_places in places:
            messages = (os.pread(file.fileno(), size, start) for start, size in own_places)
            yield from _parts(
                engine, (_read(message, rows.schema) for message in messages), known + _BITS
            )


def _read(message: bytes, schema: pa.Schema) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(message), schema)


def _by_next_bits(rows: pa.RecordBatch, known: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each part, by the bits of their hashes that follow the `known` ones."""
    part_of = _hashes(rows) << known >> 64 - _BITS
    order = _order(part_of, _BITS)
    ordered = rows.take(pa.array(order))
    sizes = np.bincount(part_of.astype(np.int64), minlength=1 << _BITS)
    start = 0
    for part in np.flatnonzero(sizes).tolist():
        yield part, ordered.slice(start, sizes[part])
        start += int(sizes[part])


# ---- sorting a part


def _distinct_pairs(rows: pa.RecordBatch, known: int, bits: int) -> Batch:
    """Whether a row begins a user, and its code, which has this many bits; in the order of users and codes."""
    order, begins = _user_order(rows, known)
    pairs = numbered(begins) << bits | _codes(rows)[order]
    pairs.sort(kind="stable")  # users ascend already, which makes it three times as fast
    pairs = pairs[_changes(pairs)]
    return _changes(pairs >> bits), pairs & (1 << bits) - 1


def _summed_pairs(rows: pa.RecordBatch, known: int, bits: int, amounts: Sequence[Amount]) -> Batch:
    """The same, with marks of users and the sums of their amounts."""
    by_user, begins = _user_order(rows, known)
    pairs = numbered(begins) << bits | _codes(rows)[by_user]
    by_pair = _order(pairs, int(pairs[-1]).bit_length())
    pairs, places = pairs[by_pair], by_user[by_pair]
    values = [amount.to_numpy()[places] for amount in _amounts(rows)]
    marks = _hashes(rows)[places].astype(
        np.uint32
    )  # the last bits of a hash, which follow from the user alone
    first = _changes(pairs)
    summed = summed_rows(first, (pairs, marks, *values), len(values))
    pairs, *others = cut_off(summed, amounts)
    begins = _changes(pairs >> bits)
    codes = pairs & (1 << bits) - 1
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
    if np.count_nonzero(begins) != np.count_nonzero(_changes(compared[order])):
        order = _exact_order(rows)
        begins = _begins(rows, order)
    return order, begins


def _begins(rows: pa.RecordBatch, order: Ints) -> Flags:
    """Whether each row, in an order, has another user than the one before."""
    if "u" not in rows.schema.names:
        return _changes(_hashes(rows)[order])
    users = rows["u"].take(pa.array(order))
    return np.append(True, pc.not_equal(users[1:], users[:-1]).to_numpy(zero_copy_only=False))


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
    packed = numbers.astype(kind) << place_bits | np.arange(len(numbers), dtype=kind)
    packed.sort()
    order: Ints = (packed & (1 << place_bits) - 1).astype(np.int64)
    return order


def _changes(values: Any) -> Flags:
    """Whether each value differs from the one before; the first one does."""
    return np.append(True, values[1:] != values[:-1])


# ---- columns of rows


def _hashes(rows: pa.RecordBatch) -> Numbers:
    hashes: Numbers = rows["h"].to_numpy()
    return hashes


def _codes(rows: pa.RecordBatch) -> Ints:
    codes: Ints = rows["code"].to_numpy()
    return codes


def _amounts(rows: pa.RecordBatch) -> list[pa.Array]:
    amounts: list[pa.Array] = rows.columns[rows.schema.get_field_index("code") + 1 :]
    return amounts
