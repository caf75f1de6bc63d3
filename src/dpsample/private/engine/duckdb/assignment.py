"""Serial assignment: DuckDB numbers the keys, the pairs are sorted, and one pass over them places the units."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dpsample.private.assignment import Assigned, Assignment, Sizes, salts
from dpsample.private.engine.columns import positioned
from dpsample.private.engine.duckdb.numbering import Codes, number_keys
from dpsample.private.engine.duckdb.pairs import AllPairs, PairsFile, columns_beside
from dpsample.private.engine.duckdb.sorting import sorted_pairs
from dpsample.private.engine.duckdb.tables import Table
from dpsample.private.engine.errors import nobody_refusal
from dpsample.private.pairs import Batch
from dpsample.private.randomness import CoinSource
from dpsample.private.sources.source import Source
from dpsample.scheme.sampling import Ints

if TYPE_CHECKING:
    from dpsample.private.engine.duckdb.engine import DuckDB


def assigned(
    engine: "DuckDB",
    source: Source,
    table: Table,
    cap: int,
    coins: CoinSource,
    prior: pa.Table | None,
    keep_pairs: bool,
) -> Assigned:
    """Let each user give one unit to one of their keys; put the keys and their units into a table of its own.

    u, k0, k1, ... -> k0, k1, ..., name: the keys in their order -> u, code, sorted by users -> k0, k1, ..., units

    `Engine.assigned` explains `cap`, `prior` and `keep_pairs`.
    """
    if table.user is None:
        raise nobody_refusal()
    first_keys = table.schema.empty_table() if prior is None else prior
    first = positioned(first_keys, table.schema)
    engine.fill(table)
    # amounts are read only with pairs that are kept
    read = table if keep_pairs else replace(table, amounts=(), units=[])
    user_salt, key_salt = salts(coins)
    keys_table = engine.name()
    # what is put aside is forgotten with the source that is returned, or at once if anything fails
    with ExitStack() as undo:
        undo.callback(engine.drop, keys_table)
        codes = number_keys(engine, read, keys_table, key_salt, first)
        columns = ", ".join(["u", "name", *read.amount_names])
        rows = f"SELECT {columns} FROM ({codes.pairs})"
        pairs = sorted_pairs(
            engine, rows, table.objects, user_salt, codes.keys, read.amounts, codes.of
        )
        if not keep_pairs:
            units, sizes = _placed(pairs, codes.keys, cap)
            made = _source_of(engine, source, table, codes, units)
            return Assigned(made, sizes[0], sizes[1], int(units.sum()), None)
        file = PairsFile(engine.file(), codes.keys, columns_beside(table))
        undo.callback(file.path.unlink, missing_ok=True)
        with file.writing() as write:
            units, sizes = _placed(_written(pairs, write), codes.keys, cap)
        made = _source_of(engine, source, table, codes, units)
        every = AllPairs(table, codes, file)
        engine.tables.open(made).forget_more = undo.pop_all().close
        return Assigned(made, sizes[0], sizes[1], int(units.sum()), every)


def _written(pairs: Iterator[Batch], write: Callable[..., None]) -> Iterator[Batch]:
    """Yield pairs, and write them on the way."""
    for batch in pairs:
        write(*batch)
        yield batch


def _placed(pairs: Iterator[Batch], keys: int, cap: int) -> tuple[Ints, Ints]:
    """Place the units of users; return the units of each key, and the sizes of users as `Sizes.counts` returns them."""
    # of the shortest type: the room of a key is looked up for every pair, and fewer bytes stay in the cache
    room = np.full(keys, cap, np.min_scalar_type(-cap - 1))
    sizes = Sizes()
    assignment = Assignment()
    for begins, codes, *_ in pairs:
        sizes.add(begins)
        assignment.place(begins, codes, room)
    units = cap - room.astype(np.int64)
    return units, sizes.counts()


def _source_of(engine: "DuckDB", source: Source, table: Table, codes: Codes, units: Ints) -> Source:
    """Put the keys that have units into a table, and return it as a source with frequencies."""
    given = np.flatnonzero(units)
    count = len(given)
    taken = pa.table({"name": codes.names(given), "units": units[given]})
    kept = engine.name()
    rows = f"SELECT {table.names}, units FROM {codes.table} JOIN taken USING (name)"
    engine.run(f"CREATE TABLE {kept} AS {rows}", {"taken": lambda: taken})
    columns = table.schema.append(pa.field("frequency", pa.int64()))
    made = Source(columns.empty_table(), source.key, "frequency")
    keys = table.names.split(", ")
    engine.tables.add(made, Table(kept, table.schema, keys, "units", size=lambda: count))
    return made
