"""Users and their keys: sorted by DuckDB, put aside in a file, and read by kernels.

A file has a number for each pair: twice the position or the code of its key, plus one at a new user. With amounts it
also has the mark of the user, and each amount.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa

from dpsample.private.assignment import Flags
from dpsample.private.engine.columns import positioned
from dpsample.private.engine.duckdb.sorting import code_sql, sorted_pairs
from dpsample.private.engine.duckdb.tables import Table
from dpsample.private.engine.errors import nobody_refusal
from dpsample.private.pairs import Batch, Pairs, of_complete_users
from dpsample.scheme.sampling import Ints

if TYPE_CHECKING:
    from dpsample.private.engine.duckdb.engine import DuckDB

_ROWS = 1 << 17  # that are read at once, but for a user of a kernel who has more


@dataclass(frozen=True, eq=False)
class AllPairs:
    """All pairs of a table, once each, with codes of keys; as private as the data."""

    table: Table
    codes: str  # table: k0, k1, ..., code
    keys: int  # codes are below
    path: Path

    def __repr__(self) -> str:
        return "AllPairs()"


@dataclass(frozen=True, eq=False)
class PairsFile:
    """The file of wanted pairs, the number of wanted keys, and that of amounts."""

    path: Path
    keys: int
    amounts: int = 0


def pairs_of(engine: "DuckDB", table: Table, keys: pa.Table, every: AllPairs | None) -> Pairs:
    """Write each user's wanted keys into a file: from all pairs, if they are still there, or sorted by DuckDB."""
    if table.user is None:
        raise nobody_refusal()
    wanted = positioned(keys, table.schema)
    file = PairsFile(engine.file(), keys.num_rows, len(table.amounts))
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
    code = code_sql("position", to.keys)
    chosen = ", ".join(["u", f"{code} AS code", *table.amount_names])
    rows = f"SELECT {chosen} FROM ({table.all_pairs}) JOIN wanted USING ({table.names})"
    objects = {**table.objects, "wanted": lambda: wanted}
    with to.path.open("wb") as file:
        for begins, positions, *more in sorted_pairs(engine, rows, objects, 0, to.keys, table.amounts):
            write_pairs(file, begins, positions, to.keys, *more)


def _select_pairs(engine: "DuckDB", every: AllPairs, wanted: pa.Table, to: PairsFile) -> None:
    """Select the wanted keys: a user begins at the first one of these, whatever came before."""
    position = _positions(engine, every, wanted)
    last = 0  # user who was written
    with to.path.open("wb") as file:
        for users, codes, *more in _read(every.path, every.keys, to.amounts):
            positions = position[codes]
            kept = positions >= 0
            owners = users[kept]
            begins = np.diff(owners, prepend=last) > 0
            write_pairs(file, begins, positions[kept], to.keys, *(column[kept] for column in more))
            last = int(owners[-1]) if len(owners) else last


def _positions(engine: "DuckDB", every: AllPairs, wanted: pa.Table) -> Ints:
    """The position of each code, or -1 where its key is not wanted."""
    joined = f"SELECT code, position FROM {every.codes} JOIN wanted USING ({every.table.names})"
    position = np.full(every.keys, -1, np.int64)
    for batch in engine.stream(joined, {"wanted": lambda: wanted}):
        position[batch.column(0).to_numpy()] = batch.column(1).to_numpy()
    return position


def write_pairs(file: BinaryIO, begins: Flags, codes: Ints, keys: int, *more: Ints) -> None:
    """Add pairs to a file; codes, or positions, are below `keys`. With amounts, there are `more` columns."""
    numbers = 2 * codes + begins
    if not more:
        file.write(numbers.astype(_type(keys)).data)
        return
    rows = np.empty(len(numbers), _record(keys, len(more) - 1))
    for name, column in zip(rows.dtype.names or (), (numbers, *more), strict=True):
        rows[name] = column
    file.write(rows.data)


def read_pairs(file: PairsFile) -> Iterator[Batch]:
    """Read pairs from their file: numbers of users, and positions of keys; no batch cuts a user."""
    return of_complete_users(_read(file.path, file.keys, file.amounts))


def _read(path: Path, keys: int, amounts: int) -> Iterator[Batch]:
    """Numbers of users, from 1 on, and codes or positions of keys; then marks and amounts, if there are any."""
    users = 0
    with path.open("rb") as file:
        while len(rows := np.fromfile(file, _record(keys, amounts) if amounts else _type(keys), _ROWS)):
            columns = [rows[name] for name in rows.dtype.names] if rows.dtype.names else [rows]
            owners = users + np.cumsum(columns[0] & 1, dtype=np.int64)
            yield owners, (columns[0] >> 1).astype(np.int64), *(column.astype(np.int64) for column in columns[1:])
            users = int(owners[-1])


def _type(keys: int) -> Any:
    """The shorter type of integers that holds twice each code, plus one."""
    return np.int32 if keys <= 1 << 30 else np.int64


def _record(keys: int, amounts: int) -> np.dtype[Any]:
    """The type of a pair with a mark and amounts, which are below 2**31."""
    return np.dtype([("code", _type(keys)), ("mark", np.uint32), *((f"a{i}", np.int32) for i in range(amounts))])
