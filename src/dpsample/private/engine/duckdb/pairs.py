"""Users and their keys: sorted by DuckDB, put aside in a file, and read by kernels.

A file is a stream of Arrow batches of complete users. The first column has a number for each pair: twice the position
or the code of its key, plus one at a new user. With amounts, marks of users and the amounts follow.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

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

# Rows of a batch, unless a user has more: a kernel holds several numbers for each row.
_ROWS = 1 << 17


@dataclass(frozen=True, eq=False)
class PairsFile:
    """A file of pairs whose codes are below `keys`, with `more` columns beside them: marks and amounts."""

    path: Path
    keys: int
    more: int

    @contextmanager
    def writing(self) -> Iterator[Callable[..., None]]:
        """Open the file; return a function that adds complete users: where they begin, codes, marks and amounts."""
        kinds = pair_types(self.keys, self.more)
        fields = [(str(place), pa.from_numpy_dtype(kind)) for place, kind in enumerate(kinds)]
        schema = pa.schema(fields)
        with self.path.open("wb") as file, pa.ipc.new_stream(file, schema) as writer:

            def write(begins: Flags, codes: Ints, *more: Ints) -> None:
                columns = zip([2 * codes + begins, *more], kinds, strict=True)
                arrays = [column.astype(kind) for column, kind in columns]
                batch = pa.record_batch(arrays, schema=schema)
                for start, end in pairwise(_cuts(begins)):
                    writer.write_batch(batch.slice(start, end - start))

            yield write

    def read(self) -> Iterator[Batch]:
        """Yield whether each row begins a user, and codes; then marks and amounts, if there are any."""
        with pa.OSFile(str(self.path)) as file, pa.ipc.open_stream(file) as batches:
            for batch in batches:
                pairs, *more = (column.to_numpy() for column in batch.columns)
                begins = (pairs & 1).astype(bool)
                codes = (pairs >> 1).astype(np.int64)
                yield begins, codes, *more


@dataclass(frozen=True, eq=False)
class AllPairs:
    """All pairs of a table, once each, with codes of keys; as private as the data."""

    table: Table
    codes: Codes
    file: PairsFile

    def __repr__(self) -> str:
        return "AllPairs()"


def _cuts(begins: Flags) -> list[int]:
    """Return where to cut rows into batches of about `_ROWS` rows: where users begin, and at both ends."""
    end = len(begins)
    starts = np.append(np.flatnonzero(begins), end)
    wanted = np.append(np.arange(0, end, _ROWS), end)
    next_starts = starts[np.searchsorted(starts, wanted)]
    cuts: list[int] = np.unique(next_starts).tolist()
    return cuts


def columns_beside(table: Table) -> int:
    """Return the number of columns that pairs have beside user and key: marks and amounts."""
    return 1 + len(table.amounts) if table.amounts else 0


def pairs_of(engine: "DuckDB", table: Table, keys: pa.Table, every: AllPairs | None) -> Pairs:
    """Write each user's wanted keys into a file: from all pairs, if they are still there, or sorted by DuckDB."""
    if table.user is None:
        raise nobody_refusal()
    wanted = positioned(keys, table.schema)
    file = PairsFile(engine.file(), keys.num_rows, columns_beside(table))
    try:
        if every is not None and every.table is table and every.file.path.exists():
            _select_pairs(engine, every, wanted, file)
        else:
            _sort_pairs(engine, table, wanted, file)
    except BaseException:
        file.path.unlink(missing_ok=True)
        raise
    return Pairs(file)


def _sort_pairs(engine: "DuckDB", table: Table, wanted: pa.Table, to: PairsFile) -> None:
    """Read the source again, and write the pairs of wanted keys, sorted by users."""
    engine.fill(table)
    chosen = ", ".join(["u", "position", *table.amount_names])
    rows = f"SELECT {chosen} FROM ({table.all_pairs}) JOIN wanted USING ({table.names})"
    objects = {**table.objects, "wanted": lambda: wanted}
    with to.writing() as write:
        for batch in sorted_pairs(engine, rows, objects, 0, to.keys, table.amounts):
            write(*batch)


def _select_pairs(engine: "DuckDB", every: AllPairs, wanted: pa.Table, to: PairsFile) -> None:
    """Select the pairs of wanted keys: a user begins at the first one of these, whatever came before."""
    position = _positions(engine, every, wanted)
    with to.writing() as write:
        for begins, codes, *more in every.file.read():
            positions = position[codes]
            kept = np.flatnonzero(positions >= 0)
            users = numbered(begins)[kept]
            kept_begins = np.diff(users, prepend=0) > 0
            kept_positions = positions[kept].astype(np.int64)
            write(kept_begins, kept_positions, *[column[kept] for column in more])


def _positions(engine: "DuckDB", every: AllPairs, wanted: pa.Table) -> Ints:
    """Return the position of each code among the wanted keys, or -1 where its key is not wanted."""
    keys = every.codes.table
    joined = f"SELECT name, position FROM {keys} JOIN wanted USING ({every.table.names})"
    # of the shortest type: a position is looked up for every pair, and fewer bytes stay in the cache
    position = np.full(every.codes.keys, -1, np.min_scalar_type(-wanted.num_rows - 1))
    for batch in engine.stream(joined, {"wanted": lambda: wanted}):
        names, positions = (column.to_numpy() for column in batch.columns)
        position[every.codes.of(names)] = positions
    return position


def filled(every: AllPairs, most: int, full: int, coins: Coins) -> int:
    """Return the sum over keys of min(`full`, users who keep the key), if users keep up to `most` of their keys."""
    users_of = np.zeros(every.codes.keys, np.uint32)
    for begins, codes, *_ in every.file.read():
        users = int(np.count_nonzero(begins))
        kept = codes[kept_rows(begins, most, coins.first(users))]
        # of the same type: with two types, `add.at` takes forty times as long
        ones = np.ones(len(kept), users_of.dtype)
        np.add.at(users_of, kept, ones)
    cut_off = np.minimum(users_of, full)
    return int(cut_off.sum(dtype=np.int64))


def read_pairs(file: PairsFile) -> Iterator[Batch]:
    """Read pairs for a kernel: the rows where users begin, and positions of keys; no batch cuts a user."""
    return ((np.flatnonzero(begins), *others) for begins, *others in file.read())
