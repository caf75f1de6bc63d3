"""Users and keys in their orders: by a salted hash, and by themselves where hashes are equal.

Pairs are divided by the hashes of their users, in a file, until a part fits into memory. There, integers are sorted.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpsample.accounting.amounts import Amount
from dpsample.private.assignment import Flags
from dpsample.private.engine.duckdb.errors import is_out_of_memory
from dpsample.private.formats import Objects
from dpsample.private.pairs import Batch, cut_off, summed_rows
from dpsample.scheme.sampling import Ints

if TYPE_CHECKING:
    from dpsample.private.engine.duckdb.engine import DuckDB

_T = TypeVar("_T")

_MOST_PARTS = 1024  # of keys
_HELD = 24 << 20  # bytes of pairs that are sorted at once; to sort them takes about four times as many
_ROWS = 1 << 18  # that are divided at once: smaller batches make more pieces, and take a fifth more time
_BITS = 8  # of hashes by which pairs are divided at once
_DIVISIONS = 2  # at most: more than 10**10 pairs, or users with millions, are held as they are


def in_parts(work: Callable[[int], _T]) -> _T:
    """Do work in one part; all over again in more parts if memory is too small."""
    parts = 1
    while True:
        try:
            return work(parts)
        except (duckdb.Error, OSError) as error:
            if parts >= _MOST_PARTS or not is_out_of_memory(error):
                raise
        parts *= 4


def order_sql(columns: list[str], salt: int) -> str:
    """SQL of the salted hash by which users or keys are ordered; what has equal hashes is ordered by itself."""
    return f"hash(xor(hash({', '.join(columns)}), {salt}::UBIGINT))"


def code_sql(column: str, codes: int) -> str:
    """SQL of a code below `codes`, as short as it can be: less is to be sorted."""
    return f"{column}::{'INTEGER' if codes < 1 << 31 else 'BIGINT'}"


def ranges_sql(column: str, parts: int) -> list[str]:
    """SQL of conditions that divide hashes into ranges, in ascending order.

    >>> ranges_sql("h", 2)
    ['true AND h <= 9223372036854775807::UBIGINT', 'h > 9223372036854775807::UBIGINT AND true']
    """
    cuts = [f"{(part << 64) // parts - 1}::UBIGINT" for part in range(1, parts)]
    above = ["true", *(f"{column} > {cut}" for cut in cuts)]
    below = [*(f"{column} <= {cut}" for cut in cuts), "true"]
    return [f"{low} AND {high}" for low, high in zip(above, below, strict=True)]


def sorted_pairs(
    engine: "DuckDB", rows: str, objects: Objects, salt: int, codes: int, amounts: Sequence[Amount] = ()
) -> Iterator[Batch]:
    """Sort rows of u and code, below `codes`, by user and code; yield whether a row begins a user, and its code.

    Each pair comes once, and no batch cuts a user. If rows have amounts, marks of users and the amounts of each pair
    follow.
    """
    hashed = f"SELECT {order_sql(['u'], salt)} AS h, * FROM ({rows})"
    for pairs, known in _parts(engine, engine.stream(hashed, objects, _ROWS), 0):
        if amounts:
            yield cut_off(summed_rows(*_sorted_amounts(pairs, known, codes), len(amounts)), amounts)
        else:
            numbers, code = _numbered(pairs, known, codes)[0], codes.bit_length()
            numbers.sort(kind="stable")  # users ascend already: three times as fast
            numbers = numbers[_changes(numbers)]
            yield _changes(numbers >> code), numbers & (1 << code) - 1


def _sorted_amounts(pairs: pa.Table, known: int, codes: int) -> tuple[Flags, Batch]:
    """Sort rows, not pairs: whether they begin a pair; whether they begin a user, codes, marks and amounts."""
    numbers, order = _numbered(pairs, known, codes)
    code, by = codes.bit_length(), np.argsort(numbers, kind="stable")  # users ascend already
    numbers, rows = numbers[by], np.asarray(order)[by]
    marks = (pairs["h"].to_numpy()[rows] & np.uint64(0xFFFFFFFF)).astype(np.int64)
    values = (column.to_numpy()[rows] for column in pairs.columns[3:])
    return _changes(numbers), (_changes(numbers >> code), numbers & (1 << code) - 1, marks, *values)


def _numbered(pairs: pa.Table, known: int, codes: int) -> tuple[Ints, Any]:
    """Number pairs in memory: rows by the hashes of users, of which the first `known` bits are equal, then codes.

    Both are integers: what is left of a hash and the number of a row, then the number of a user and a code.
    """
    hashes = pairs["h"].to_numpy()
    row, code = len(hashes).bit_length(), codes.bit_length()  # bits
    packed = hashes << known >> row << row | np.arange(len(hashes), dtype=np.uint64)
    packed.sort()
    order: Any = (packed & (1 << row) - 1).astype(np.int64)
    begins = _begins(pairs, order)
    if np.count_nonzero(begins) != np.count_nonzero(
        _changes(packed >> row)
    ):  # two users, and one hash, or what is left
        order = pc.sort_indices(pairs, sort_keys=[("h", "ascending"), ("u", "ascending")])
        begins = _begins(pairs, order)
    return np.cumsum(begins, dtype=np.int64) << code | pairs["code"].to_numpy()[order], order


def _begins(pairs: pa.Table, order: Any) -> Flags:
    """Whether each row, in this order, has another user than the one before."""
    users = pairs["u"].take(pa.array(order))
    return np.append(True, pc.not_equal(users[1:], users[:-1]).to_numpy())


def _changes(values: Any) -> Flags:
    return np.append(True, values[1:] != values[:-1])


def _parts(engine: "DuckDB", batches: Iterator[pa.RecordBatch], divided: int) -> Iterator[tuple[pa.Table, int]]:
    """Divide pairs into parts by hash, ascending; yield each with the number of bits that its hashes have in common."""
    held, size, most = list[pa.RecordBatch](), 0, _HELD
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size <= most:
            continue
        if divided < _DIVISIONS:
            yield from _divided(engine, chain(held, batches), divided)
            return
        table = pa.Table.from_batches(held)
        names, amounts = table.column_names, [(name, "sum") for name in table.column_names[3:]]
        grouped = table.group_by(names[:3]).aggregate(amounts)  # each pair once
        held = grouped.select([*names[:3], *(f"{name}_sum" for name, _ in amounts)]).rename_columns(names).to_batches()
        size = sum(batch.nbytes for batch in held)
        most = max(most, 2 * size)
    if held:
        yield pa.Table.from_batches(held).combine_chunks(), divided * _BITS


def _divided(engine: "DuckDB", batches: Iterable[pa.RecordBatch], divided: int) -> Iterator[tuple[pa.Table, int]]:
    """Write pairs to a file, divided by the next bits of their hashes; read them part by part."""
    path = engine.file()
    with path.open("w+b") as file:
        path.unlink()  # what is in it lives as long as it is open
        messages = [list[tuple[int, int]]() for _ in range(1 << _BITS)]  # of each part: where, and how long
        for batch in _gathered(batches):
            part = (batch.column(0).to_numpy() << divided * _BITS >> 64 - _BITS).astype(np.uint8)
            ordered = batch.take(pa.array(np.argsort(part, kind="stable")))
            ends = np.cumsum(np.bincount(part, minlength=1 << _BITS)).tolist()
            for own, (start, end) in zip(messages, pairwise([0, *ends]), strict=True):
                if start < end:
                    own.append((file.tell(), file.write(ordered.slice(start, end - start).serialize())))
        for own in messages:
            yield from _parts(engine, _read(file, own, batch.schema), divided + 1)


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held, rows = list[pa.RecordBatch](), 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held, rows = [], 0
    if held:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


def _read(file: BinaryIO, messages: list[tuple[int, int]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for start, length in messages:
        file.seek(start)
        yield pa.ipc.read_record_batch(pa.py_buffer(file.read(length)), schema)
