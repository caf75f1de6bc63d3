"""Users and their keys: sorted by DuckDB, put aside in a file, and read by kernels.

A file has a number for each pair: twice the position or the code of its key, plus one at a new user.
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
from dpsample.private.pairs import Pairs, of_complete_users
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
    """The file of wanted pairs, and the number of wanted keys."""

    path: Path
    keys: int


def pairs_of(engine: "DuckDB", table: Table, keys: pa.Table, every: AllPairs | None) -> Pairs:
    """Write each user's wanted keys into a file: from all pairs, if they are still there, or sorted by DuckDB."""
    if table.user is None:
        raise nobody_refusal()
    wanted = positioned(keys, table.schema)
    file = PairsFile(engine.file(), keys.num_rows)
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
    rows = f"SELECT u, {code} AS code FROM ({table.all_pairs}) JOIN wanted USING ({table.names})"
    objects = {**table.objects, "wanted": lambda: wanted}
    with to.path.open("wb") as file:
        for begins, positions in sorted_pairs(engine, rows, objects, 0, to.keys):
            write_pairs(file, begins, positions, to.keys)


def _select_pairs(engine: "DuckDB", every: AllPairs, wanted: pa.Table, to: PairsFile) -> None:
    """Select the wanted keys: a user begins at the first one of these, whatever came before."""
    position = _positions(engine, every, wanted)
    last = 0  # user who was written
    with to.path.open("wb") as file:
        for users, codes in _read(every.path, every.keys):
            positions = position[codes]
            kept = positions >= 0
            owners = users[kept]
            write_pairs(file, np.diff(owners, prepend=last) > 0, positions[kept], to.keys)
            last = int(owners[-1]) if len(owners) else last


def _positions(engine: "DuckDB", every: AllPairs, wanted: pa.Table) -> Ints:
    """The position of each code, or -1 where its key is not wanted."""
    joined = f"SELECT code, position FROM {every.codes} JOIN wanted USING ({every.table.names})"
    position = np.full(every.keys, -1, np.int64)
    for batch in engine.stream(joined, {"wanted": lambda: wanted}):
        position[batch.column(0).to_numpy()] = batch.column(1).to_numpy()
    return position


def write_pairs(file: BinaryIO, begins: Flags, codes: Ints, keys: int) -> None:
    """Add pairs to a file; codes, or positions, are below `keys`."""
    file.write((2 * codes + begins).astype(_type(keys)).data)


def read_pairs(file: PairsFile) -> Iterator[tuple[Ints, Ints]]:
    """Read pairs from their file: numbers of users, and positions of keys; no batch cuts a user."""
    return of_complete_users(_read(file.path, file.keys))


def _read(path: Path, keys: int) -> Iterator[tuple[Ints, Ints]]:
    """Numbers of users, from 1 on, and codes or positions of keys."""
    users = 0
    with path.open("rb") as file:
        while len(numbers := np.fromfile(file, _type(keys), _ROWS)):
            owners = users + np.cumsum(numbers & 1, dtype=np.int64)
            yield owners, (numbers >> 1).astype(np.int64)
            users = int(owners[-1])


def _type(keys: int) -> Any:
    """The shorter type of integers that holds twice each code, plus one."""
    return np.int32 if keys <= 1 << 30 else np.int64
