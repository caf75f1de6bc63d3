"""Users and their keys: sorted by DuckDB, put aside in a file, and read by kernels.

A file has blocks of complete users. A block has its number of pairs, and a number for each pair: twice the position or
the code of its key, plus one at a new user. With amounts it also has the marks of users, then each amount.
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import pyarrow as pa

from dpsample.private.assignment import Flags
from dpsample.private.engine.columns import positioned
from dpsample.private.engine.duckdb.numbering import Codes
from dpsample.private.engine.duckdb.sorting import sorted_pairs
from dpsample.private.engine.duckdb.tables import Table
from dpsample.private.engine.errors import nobody_refusal
from dpsample.private.pairs import Batch, Pairs, kept_rows, numbered, pair_types
from dpsample.private.randomness import Coins
from dpsample.scheme.sampling import Ints

if TYPE_CHECKING:
    from dpsample.private.engine.duckdb.engine import DuckDB

_ROWS = 1 << 17  # of a block, but for a user who has more


@dataclass(frozen=True, eq=False)
class AllPairs:
    """All pairs of a table, once each, with codes of keys; as private as the data."""

    table: Table
    codes: Codes
    path: Path

    def __repr__(self) -> str:
        return "AllPairs()"


@dataclass(frozen=True, eq=False)
class PairsFile:
    """The file of wanted pairs, the number of wanted keys, and that of columns with marks and amounts."""

    path: Path
    keys: int
    more: int


def columns_beside(table: Table) -> int:
    """Return the number of columns that pairs have beside user and key: marks and amounts."""
    return len(table.amounts) and 1 + len(table.amounts)


def pairs_of(engine: "DuckDB", table: Table, keys: pa.Table, every: AllPairs | None) -> Pairs:
    """Write each user's wanted keys into a file: from all pairs, if they are still there, or sorted by DuckDB."""
    if table.user is None:
        raise nobody_refusal()
    wanted = positioned(keys, table.schema)
    file = PairsFile(engine.file(), keys.num_rows, columns_beside(table))
    try:
        if every is not None and every.table is table and every.path.exists():
            _select_pairs(engine, every, wanted, file)
        else:
            _sort_pairs(engine, table, wanted, file)
    except BaseException:
        file.path.unlink(missing_ok=True)
        raise
    return Pairs(file)


def _sort_pairs(engine: "DuckDB", table: Table, wanted: pa.Table, to: PairsFile) -> None:
    engine.fill(table)
    chosen = ", ".join(["u", "position", *table.amount_names])
    rows = f"SELECT {chosen} FROM ({table.all_pairs}) JOIN wanted USING ({table.names})"
    objects = {**table.objects, "wanted": lambda: wanted}
    with to.path.open("wb") as file:
        for begins, positions, *more in sorted_pairs(engine, rows, objects, 0, to.keys, table.amounts):
            write_pairs(file, begins, positions, to.keys, *more)


def _select_pairs(engine: "DuckDB", every: AllPairs, wanted: pa.Table, to: PairsFile) -> None:
    """Select the wanted keys: a user begins at the first one of these, whatever came before."""
    position = _positions(engine, every, wanted)
    with to.path.open("wb") as file:
        for begins, codes, *more in _read(every.path, every.codes.keys, to.more):
            positions = position[codes]
            kept = np.flatnonzero(positions >= 0)
            begins = np.diff(numbered(begins)[kept], prepend=0) > 0
            write_pairs(file, begins, positions[kept].astype(np.int64), to.keys, *(column[kept] for column in more))


def _positions(engine: "DuckDB", every: AllPairs, wanted: pa.Table) -> Ints:
    """The position of each code, or -1 where its key is not wanted."""
    joined = f"SELECT name, position FROM {every.codes.table} JOIN wanted USING ({every.table.names})"
    # as short as it can be: it is looked up for every pair
    position = np.full(every.codes.keys, -1, np.min_scalar_type(-wanted.num_rows - 1))
    for batch in engine.stream(joined, {"wanted": lambda: wanted}):
        position[every.codes.of(batch.column(0).to_numpy())] = batch.column(1).to_numpy()
    return position


def filled(every: AllPairs, most: int, full: int, coins: Coins) -> int:
    """Return the sum over keys of min(`full`, users who keep the key), of users who keep up to `most` of their keys."""
    more = columns_beside(every.table)
    users_of = np.zeros(every.codes.keys, np.uint32)
    for begins, codes, *_ in _read(every.path, every.codes.keys, more):
        kept = codes[kept_rows(begins, most, coins.first(int(np.count_nonzero(begins))))]
        np.add.at(users_of, kept, np.ones(len(kept), users_of.dtype))  # of one type: else it takes forty times as long
    return int(np.minimum(users_of, full).sum(dtype=np.int64))


def write_pairs(file: BinaryIO, begins: Flags, codes: Ints, keys: int, *more: Ints) -> None:
    """Add complete users to a file; codes, or positions, are below `keys`; `more` are marks and amounts."""
    starts = np.append(np.flatnonzero(begins), len(begins))
    cuts = starts[np.searchsorted(starts, np.append(np.arange(0, len(begins), _ROWS), len(begins)))]
    columns = [c.astype(kind) for c, kind in zip((2 * codes + begins, *more), pair_types(keys, len(more)), strict=True)]
    for start, end in pairwise(np.unique(cuts).tolist()):
        file.write(np.array([end - start], np.int64).data)
        file.writelines(column[start:end].data for column in columns)


def read_pairs(file: PairsFile) -> Iterator[Batch]:
    """Read pairs from their file: the rows where users begin, and positions of keys; no batch cuts a user."""
    return ((np.flatnonzero(begins), *others) for begins, *others in _read(file.path, file.keys, file.more))


def _read(path: Path, keys: int, more: int) -> Iterator[Batch]:
    """Whether each row begins a user, and codes or positions of keys; then marks and amounts, if there are any.

    Blocks are mapped, one at a time: what a kernel does not look at is not read.
    """
    kinds = [np.dtype(kind) for kind in pair_types(keys, more)]
    with path.open("rb") as file:
        while len(rows := np.fromfile(file, np.int64, 1)):
            start, length = file.tell(), int(rows[0])
            before = start % mmap.ALLOCATIONGRANULARITY
            end = file.seek(start + length * sum(kind.itemsize for kind in kinds))
            block = mmap.mmap(file.fileno(), before + end - start, access=mmap.ACCESS_READ, offset=start - before)
            columns = []
            for kind in kinds:
                columns.append(np.frombuffer(block, kind, length, before))
                before += columns[-1].nbytes
            yield (columns[0] & 1).astype(bool), (columns[0] >> 1).astype(np.int64), *columns[1:]
