"""Users and keys in their orders: by a salted hash, and by themselves where hashes are equal.

Users that are integers are mixed instead, one to one, so that no two have equal numbers.
Pairs are divided by the hashes of their users, in a file, until a part fits into memory. There, integers are sorted.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsample.accounting.amounts import Amount
from dpsample.private.assignment import Flags
from dpsample.private.engine.duckdb.errors import is_out_of_memory
from dpsample.private.formats import Objects
from dpsample.private.pairs import Batch, cut_off, summed_rows
from dpsample.scheme.sampling import Ints

if TYPE_CHECKING:
    from dpsample.private.engine.duckdb.engine import DuckDB

_T = TypeVar("_T")
Numbers = NDArray[np.uint64]

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


def mixed(users: Ints, salt: int) -> Numbers:
    """Return the numbers by which users that are integers are ordered: no two of them have the same.

    Each step can be undone: to add bits modulo 2, to multiply by an odd number, to add a shift of itself modulo 2.
    """
    numbers = users.view(np.uint64) ^ np.uint64(salt)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers ^= numbers >> np.uint64(shift)
        numbers *= np.uint64(factor)
    return numbers ^ numbers >> np.uint64(31)


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
    if not pa.types.is_integer(engine.schema(rows, objects).field("u").type):
        rows = f"SELECT {order_sql(['u'], salt)} AS h, * FROM ({rows})"
    batches = _gathered(engine.stream(rows, objects, _ROWS), lambda batch: int(batch.num_rows))
    for part, known in _parts(engine, (_Rows.of(own, salt) for own in batches), 0):
        order, begins = _user_order(part, known)
        bits = codes.bit_length()
        numbers = np.cumsum(begins, dtype=np.int64) << bits | part.codes[order]
        if amounts:
            numbers, places = _sorted_with_places(numbers, order, len(order).bit_length())
            marks = (part.hashes[places] & np.uint64(0xFFFFFFFF)).astype(np.int64)
            sorted_rows = _changes(numbers >> bits), numbers & (1 << bits) - 1, marks, *part.amounts(places)
            yield cut_off(summed_rows(_changes(numbers), sorted_rows, len(amounts)), amounts)
        else:
            numbers.sort(kind="stable")  # users ascend already: three times as fast
            numbers = numbers[_changes(numbers)]
            yield _changes(numbers >> bits), numbers & (1 << bits) - 1


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows in memory: hashes of users, codes and amounts, as 64 bits each: [row, column].

    Users that are no integers are in an Arrow array. Integers are known by their hashes, which are mixed numbers.
    """

    numbers: Numbers
    users: Any = None

    @staticmethod
    def of(batches: list[pa.RecordBatch], salt: int) -> "_Rows":
        """Take rows of u, code and amounts, after h if users are no integers."""
        table = pa.Table.from_batches(batches)
        hashed = table.column_names[0] == "h"
        columns = [table["h" if hashed else "u"], *table.columns[1 + hashed :]]
        numbers = np.empty((len(table), len(columns)), np.uint64)
        for n, column in enumerate(columns):
            numbers[:, n] = column.to_numpy().astype(np.int64, copy=False).view(np.uint64)
        if hashed:
            return _Rows(numbers, table["u"].combine_chunks())
        numbers[:, 0] = mixed(numbers[:, 0].view(np.int64), salt)
        return _Rows(numbers)

    @staticmethod
    def joined(parts: "list[_Rows]") -> "_Rows":
        """Return several as one."""
        if len(parts) == 1:
            return parts[0]
        users = None if parts[0].users is None else pa.concat_arrays([part.users for part in parts])
        return _Rows(np.concatenate([part.numbers for part in parts]), users)

    @property
    def hashes(self) -> Numbers:
        """The hashes of users."""
        return self.numbers[:, 0]

    @property
    def codes(self) -> Ints:
        """The codes of keys."""
        return self.numbers[:, 1].view(np.int64)

    def amounts(self, places: Ints) -> Iterator[Ints]:
        """Return the amounts of some rows."""
        return (self.numbers[:, n][places].view(np.int64) for n in range(2, self.numbers.shape[1]))

    @property
    def nbytes(self) -> int:
        """The bytes that it takes."""
        return self.numbers.nbytes + (0 if self.users is None else self.users.nbytes)

    def taken(self, order: Ints) -> "_Rows":
        """Return the rows in an order."""
        return _Rows(self.numbers.take(order, axis=0), None if self.users is None else self.users.take(pa.array(order)))

    def begins(self, order: Ints) -> Flags:
        """Whether each row, in an order, has another user than the one before."""
        if self.users is None:
            return _changes(self.hashes[order])
        users = self.users.take(pa.array(order))
        return np.append(True, pc.not_equal(users[1:], users[:-1]).to_numpy(zero_copy_only=False))

    def exact_order(self) -> Ints:
        """Return the rows by hash, and users with equal hashes by themselves."""
        if self.users is None:
            return np.argsort(self.hashes, kind="stable")
        keys = pa.table({"h": self.hashes, "u": self.users})
        order: Ints = pc.sort_indices(keys, sort_keys=[("h", "ascending"), ("u", "ascending")]).to_numpy()
        return order.astype(np.int64)

    def each_pair_once(self) -> "_Rows":
        """Return each pair once, with the sums of its amounts."""
        names = ["h", "code", *(f"a{n}" for n in range(self.numbers.shape[1] - 2))]
        table = pa.table({name: self.numbers[:, n].view(np.int64) for n, name in enumerate(names)})
        own = ["h", "code"] if self.users is None else ["h", "code", "u"]
        if self.users is not None:
            table = table.append_column("u", self.users)
        grouped = table.group_by(own).aggregate([(name, "sum") for name in names[2:]])
        columns = [grouped[name if name in own else f"{name}_sum"].to_numpy() for name in names]
        users = None if self.users is None else grouped["u"].combine_chunks()
        return _Rows(np.stack(columns, axis=1).view(np.uint64), users)


def _user_order(rows: _Rows, known: int) -> tuple[Ints, Flags]:
    """The order of rows by the hashes of users, of which the first `known` bits are equal; and where users begin.

    What is left of a hash and the number of a row are sorted as one integer.
    """
    row = len(rows.hashes).bit_length()  # bits
    packed = rows.hashes << known >> row << row | np.arange(len(rows.hashes), dtype=np.uint64)
    packed.sort()
    order = (packed & (1 << row) - 1).astype(np.int64)
    begins = rows.begins(order)
    if np.count_nonzero(begins) != np.count_nonzero(_changes(packed >> row)):
        order = rows.exact_order()  # two users, and one hash, or what is left
        begins = rows.begins(order)
    return order, begins


def _sorted_with_places(numbers: Ints, places: Ints, bits: int) -> tuple[Ints, Ints]:
    """Sort numbers, and sort places, of so many bits, along with them: as one integer, if they fit."""
    if int(numbers[-1]) >> 63 - bits:
        by = np.argsort(numbers, kind="stable")
        return numbers[by], places[by]
    packed = numbers << bits | places
    packed.sort()
    return packed >> bits, packed & (1 << bits) - 1


def _changes(values: Any) -> Flags:
    return np.append(True, values[1:] != values[:-1])


def _parts(engine: "DuckDB", pieces: Iterator[_Rows], divided: int) -> Iterator[tuple[_Rows, int]]:
    """Divide rows into parts by hash, ascending; yield each with the number of bits that its hashes have in common."""
    held, size, most = list[_Rows](), 0, _HELD
    for rows in pieces:
        held.append(rows)
        size += rows.nbytes
        if size <= most:
            continue
        if divided < _DIVISIONS:
            yield from _divided(engine, chain(held, pieces), divided)
            return
        held = [_Rows.joined(held).each_pair_once()]
        size = held[0].nbytes
        most = max(most, 2 * size)
    if held:
        yield _Rows.joined(held), divided * _BITS


def _divided(engine: "DuckDB", pieces: Iterable[_Rows], divided: int) -> Iterator[tuple[_Rows, int]]:
    """Write rows to a file, divided by the next bits of their hashes; read them part by part."""
    path = engine.file()
    with path.open("w+b") as file:
        path.unlink()  # what is in it lives as long as it is open
        written = list[_Written]()
        for rows in map(_Rows.joined, _gathered(pieces, lambda piece: len(piece.numbers))):
            part = (rows.hashes << divided * _BITS >> 64 - _BITS).astype(np.uint8)
            ordered = rows.taken(np.argsort(part, kind="stable"))
            ends = np.append(0, np.cumsum(np.bincount(part, minlength=1 << _BITS)))
            written.append(_Written.to(file, ordered, ends))
        for n in range(1 << _BITS):
            pieces = (piece for one in written for piece in one.read(file, n))
            yield from _parts(engine, pieces, divided + 1)


@dataclass(frozen=True, eq=False)
class _Written:
    """Where rows are in a file: the start of their numbers, the places of their parts, and messages of their users."""

    start: int
    columns: int
    ends: Ints
    users: list[tuple[int, int]]
    kind: Any  # of users

    @staticmethod
    def to(file: BinaryIO, rows: _Rows, ends: Ints) -> "_Written":
        """Write rows that are in the order of their parts."""
        start, messages = file.tell(), []
        file.write(rows.numbers.data)
        if rows.users is not None:
            users = pa.record_batch({"u": rows.users})
            messages = [
                (file.tell(), file.write(users.slice(a, b - a).serialize())) for a, b in pairwise(ends.tolist())
            ]
        kind = None if rows.users is None else rows.users.type
        return _Written(start, rows.numbers.shape[1], ends, messages, kind)

    def read(self, file: BinaryIO, part: int) -> Iterator[_Rows]:
        """Read a part, if there is anything in it."""
        first, end = self.ends[part : part + 2].tolist()
        if first == end:
            return
        file.seek(self.start + 8 * self.columns * first)
        numbers = np.frombuffer(file.read(8 * self.columns * (end - first)), np.uint64).reshape(-1, self.columns)
        users = None
        if self.users:
            place, length = self.users[part]
            file.seek(place)
            message = pa.py_buffer(file.read(length))
            users = pa.ipc.read_record_batch(message, pa.schema([("u", self.kind)])).column(0)
        yield _Rows(numbers, users)


def _gathered(pieces: Iterable[_T], rows: Callable[[_T], int]) -> Iterator[list[_T]]:
    """Gather pieces of some rows each: small ones would be divided one by one."""
    held, size = list[_T](), 0
    for piece in pieces:
        held.append(piece)
        size += rows(piece)
        if size >= _ROWS:
            yield held
            held, size = [], 0
    if held:
        yield held
