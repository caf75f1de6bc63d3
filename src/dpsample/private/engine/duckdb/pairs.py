"""Users and their wanted keys: sorted by DuckDB, put aside in a file, and read by kernels."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dpsample.private.engine.columns import positioned
from dpsample.private.engine.duckdb.sorting import Sort, code_sql, sorted_pairs, sorted_somehow
from dpsample.private.engine.duckdb.tables import Table
from dpsample.private.engine.errors import nobody_refusal
from dpsample.private.pairs import Pairs, of_complete_users
from dpsample.scheme.sampling import Ints

if TYPE_CHECKING:
    from dpsample.private.engine.duckdb.engine import DuckDB

_ROWS = 1 << 17  # that a kernel reads at once, but for a user who has more


def pairs_of(engine: "DuckDB", table: Table, keys: pa.Table, path: Path) -> Pairs:
    """Write each user's wanted keys into a file: a number for each pair, twice its position, plus one at a new user."""
    if table.user is None:
        raise nobody_refusal()
    wanted = positioned(keys, table.schema)
    engine.fill(table)
    code = code_sql("position", keys.num_rows)
    rows = f"SELECT u, {code} AS code FROM ({table.all_pairs}) JOIN wanted USING ({table.names})"
    objects = {**table.objects, "wanted": lambda: wanted}

    def write(sort: Sort) -> None:
        with path.open("wb") as file:
            for begins, positions in sorted_pairs(engine, rows, objects, 0, sort):
                (2 * positions + begins).tofile(file)

    try:
        sorted_somehow(write)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return Pairs(path)


def read_pairs(path: Path) -> Iterator[tuple[Ints, Ints]]:
    """Read pairs from their file: numbers of users, and positions of keys; no batch cuts a user."""

    def batches() -> Iterator[tuple[Ints, Ints]]:
        users = 0
        with path.open("rb") as file:
            while len(numbers := np.fromfile(file, np.int64, _ROWS)):
                yield users + np.cumsum(numbers & 1), numbers >> 1
                users += int(np.count_nonzero(numbers & 1))

    return of_complete_users(batches())
