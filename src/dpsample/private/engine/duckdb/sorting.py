"""Users and keys in their orders: by a salted hash, and by themselves where hashes are equal.

Users that are integers are mixed instead, one to one, so that no two have equal numbers.
Pairs are divided by the hashes of their users, in memory or in a file, into parts that are short. There, integers are
sorted.
"""

import os
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
from dpsample.private.pairs import Batch, cut_off, numbered, summed_rows
from dpsample.private.sources.formats import Objects
from dpsample.scheme.sampling import Ints

if TYPE_CHECKING:
    from dpsample.private.engine.duckdb.engine import DuckDB

_T = TypeVar("_T")
Numbers = NDArray[np.uint64]

_MOST_PARTS = 1024  # of keys
_HELD = 24 << 20  # bytes of pairs that are sorted at once; to sort them takes about four times as many
_KEPT = 256 << 20  # bytes of divided pairs that stay in memory, unless it is limited: a file takes more time
_BUFFER = 1 << 20  # bytes that are written to a file at once
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
    engine: "DuckDB",
    rows: str,
    objects: Objects,
    salt: int,
    codes: int,
    amounts: Sequence[Amount] = (),
    code_of: Callable[[Any], Any] = np.asarray,
) -> Iterator[Batch]:
    """Sort rows of users and keys by user and code, below `codes`; yield whether a row begins a user, and its code.

    Rows have u, then codes, or what `code_of` makes codes of, and perhaps amounts. Each pair comes once, and no batch
    cuts a user. With amounts, marks of users and the amounts of each pair follow.
    """
    if not pa.types.is_integer(engine.schema(rows, objects).field("u").type):
        rows = f"SELECT {order_sql(['u'], salt)} AS h, * FROM ({rows})"
    most = int(_ROWS * engine.scale)
    batches = _gathered(engine.stream(rows, objects, most), lambda batch: int(batch.num_rows), most)
    bits, kind = codes.bit_length(), np.min_scalar_type(-codes - 1)  # short: less is to be divided
    taken = (_Rows.of(own, salt, lambda names: code_of(names).astype(kind)) for own in batches)
    for part, known in _parts(engine, taken, 0):
        yield _summed_pairs(part, known, bits, amounts) if amounts else _distinct_pairs(part, known, bits)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows in memory: hashes of users, codes, and amounts.

    Users that are no integers are in an Arrow array. Integers are known by their hashes, which are mixed numbers.
    """

    hashes: Numbers
    codes: Ints
    amounts: tuple[Ints, ...] = ()
    users: Any = None

    @staticmethod
    def of(batches: list[pa.RecordBatch], salt: int, code_of: Callable[[Any], Any]) -> "_Rows":
        """Take rows of u, what tells codes, and amounts, after h if users are no integers."""
        table = pa.Table.from_batches(batches)
        hashed = table.column_names[0] == "h"
        first, names, *amounts = (column.to_numpy() for column in table.drop_columns("u" if hashed else []).columns)
        codes = code_of(names)
        if hashed:
            return _Rows(first, codes, tuple(amounts), table["u"].combine_chunks())
        return _Rows(mixed(first.astype(np.int64, copy=False), salt), codes, tuple(amounts))

    @staticmethod
    def joined(parts: "list[_Rows]") -> "_Rows":
        """Return several as one."""
        if len(parts) == 1:
            return parts[0]
        users = None if parts[0].users is None else pa.concat_arrays([part.users for part in parts])
        hashes, codes, *amounts = (np.concatenate(own) for own in zip(*(part.columns for part in parts), strict=True))
        return _Rows(hashes, codes, tuple(amounts), users)

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        """All numbers."""
        return self.hashes, self.codes, *self.amounts

    @property
    def nbytes(self) -> int:
        """The bytes that it takes."""
        return sum(column.nbytes for column in self.columns) + (0 if self.users is None else self.users.nbytes)

    def __len__(self) -> int:
        return len(self.hashes)

    def __getitem__(self, rows: slice) -> "_Rows":
        hashes, codes, *amounts = (column[rows] for column in self.columns)
        return _Rows(hashes, codes, tuple(amounts), None if self.users is None else self.users[rows])

    def taken(self, order: Ints) -> "_Rows":
        """Return the rows in an order."""
        hashes, codes, *amounts = (column.take(order) for column in self.columns)
        return _Rows(hashes, codes, tuple(amounts), None if self.users is None else self.users.take(pa.array(order)))

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
        names = [f"a{n}" for n in range(len(self.amounts))]
        table = pa.table({"h": self.hashes, "code": self.codes, **dict(zip(names, self.amounts, strict=True))})
        table = table if self.users is None else table.append_column("u", self.users)
        own = ["h", "code"] if self.users is None else ["h", "code", "u"]
        grouped = table.group_by(own).aggregate([(name, "sum") for name in names])
        hashes, codes, *amounts = (grouped[name].to_numpy() for name in ("h", "code", *(f"{n}_sum" for n in names)))
        return _Rows(hashes, codes, tuple(amounts), None if self.users is None else grouped["u"].combine_chunks())


def _distinct_pairs(rows: _Rows, known: int, bits: int) -> Batch:
    """Whether a row begins a user, and its code, of so many bits, in the order of users and codes."""
    order, begins = _user_order(rows, known)
    numbers = numbered(begins) << bits | rows.codes[order]
    numbers.sort(kind="stable")  # users ascend already: three times as fast
    numbers = numbers[_changes(numbers)]
    return _changes(numbers >> bits), numbers & (1 << bits) - 1


def _summed_pairs(rows: _Rows, known: int, bits: int, amounts: Sequence[Amount]) -> Batch:
    """The same, with marks of users and the sums of amounts."""
    order, begins = _user_order(rows, known)
    numbers = numbered(begins) << bits | rows.codes[order]
    numbers, places = _sorted_with_places(numbers, order, len(order).bit_length())
    first = _changes(numbers)
    own = summed_rows(first, (numbers, places, *(amount[places] for amount in rows.amounts)), len(amounts))
    numbers, places, *sums = cut_off(own, amounts)
    return _changes(numbers >> bits), numbers & (1 << bits) - 1, rows.hashes[places].astype(np.uint32), *sums


def _user_order(rows: _Rows, known: int) -> tuple[Ints, Flags]:
    """The order of rows by the hashes of users, of which the first `known` bits are equal; and where users begin.

    What is left of a hash and the number of a row are sorted as one integer.
    """
    row = len(rows).bit_length()  # bits
    packed = rows.hashes << known >> row << row | np.arange(len(rows), dtype=np.uint64)
    packed.sort()
    order = (packed & (1 << row) - 1).view(np.int64)
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
    held, size, most = list[_Rows](), 0, int(_HELD * engine.scale)
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
    """Divide rows by the next bits of their hashes, in memory or else in a file; read them part by part."""
    path, room = engine.file(), _KEPT if engine.memory_limit is None and not divided else 0
    with path.open("w+b", buffering=_BUFFER) as file:
        path.unlink()  # what is in it lives as long as it is open
        kept = list[_Kept | _Written]()
        for rows in map(_Rows.joined, _gathered(pieces, len, int(_ROWS * engine.scale))):
            ordered, ends = _by_part(rows, divided * _BITS)
            room -= ordered.nbytes
            kept.append(_Kept(ordered, ends) if room >= 0 else _Written.to(file, ordered, ends))
        file.flush()
        for n in range(1 << _BITS):
            yield from _parts(engine, (rows for one in kept if len(rows := one.part(n))), divided + 1)


def _by_part(rows: _Rows, known: int) -> tuple[_Rows, list[int]]:
    """Order rows by the next bits of their hashes; return where parts end, from 0 on."""
    bits = len(rows).bit_length()
    kind: Any = np.uint32 if bits + _BITS <= 32 else np.uint64
    packed = (rows.hashes << known >> 64 - _BITS).astype(kind) << bits | np.arange(len(rows), dtype=kind)
    packed.sort()  # a third of the time of a stable argsort of the parts
    ends = np.searchsorted(packed, np.arange((1 << _BITS) + 1, dtype=np.uint64) << bits)
    return rows.taken((packed & (1 << bits) - 1).astype(np.int64)), ends.tolist()


@dataclass(frozen=True, eq=False)
class _Kept:
    """Rows in the order of their parts, and where these end."""

    rows: _Rows
    ends: list[int]

    def part(self, n: int) -> _Rows:
        """Return the rows of a part."""
        return self.rows[self.ends[n] : self.ends[n + 1]]


@dataclass(frozen=True, eq=False)
class _Written:
    """Where rows are in a file, part by part: column after column, then users, if there are any, as a message."""

    file: BinaryIO
    kinds: list[Any]  # of columns
    users: Any  # their type
    ends: list[int]
    places: list[int]  # where parts end

    @staticmethod
    def to(file: BinaryIO, rows: _Rows, ends: list[int]) -> "_Written":
        """Write rows that are in the order of their parts."""
        places = [file.tell()]
        for start, end in pairwise(ends):
            part = rows[start:end]
            file.writelines(column.data for column in part.columns)
            if part.users is not None:
                file.write(pa.record_batch({"u": part.users}).serialize())
            places.append(file.tell())
        kinds = [column.dtype for column in rows.columns]
        return _Written(file, kinds, None if rows.users is None else rows.users.type, ends, places)

    def part(self, n: int) -> _Rows:
        """Read the rows of a part."""
        rows = self.ends[n + 1] - self.ends[n]
        data = os.pread(self.file.fileno(), self.places[n + 1] - self.places[n], self.places[n])
        place, columns = 0, []
        for kind in self.kinds:
            columns.append(np.frombuffer(data, kind, rows, place))
            place += columns[-1].nbytes
        hashes, codes, *amounts = columns
        users = None
        if self.users is not None:
            message = pa.py_buffer(data[place:])  # a copy: what is before it may end anywhere
            users = pa.ipc.read_record_batch(message, pa.schema([("u", self.users)])).column(0)
        return _Rows(hashes, codes, tuple(amounts), users)


def _gathered(pieces: Iterable[_T], rows: Callable[[_T], int], most: int) -> Iterator[list[_T]]:
    """Gather pieces of some rows each: small ones would be divided one by one."""
    held, size = list[_T](), 0
    for piece in pieces:
        held.append(piece)
        size += rows(piece)
        if size >= most:
            yield held
            held, size = [], 0
    if held:
        yield held
