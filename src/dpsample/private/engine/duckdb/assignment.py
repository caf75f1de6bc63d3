"""Serial assignment: DuckDB numbers the keys and sorts the pairs; one pass over them places the units."""

from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dpsample.private.assignment import Assigned, Assignment, Sizes, salts
from dpsample.private.engine.columns import positioned
from dpsample.private.engine.duckdb.numbering import Codes, number_keys
from dpsample.private.engine.duckdb.pairs import AllPairs, write_pairs
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
    """
    if table.user is None:
        raise nobody_refusal()
    first = positioned(table.schema.empty_table() if prior is None else prior, table.schema)
    engine.fill(table)
    user_salt, key_salt = salts(coins)
    name = engine.name()
    with ExitStack() as undo:
        undo.callback(engine.drop, name)
        codes = number_keys(engine, table, name, key_salt, first)
        every = AllPairs(table, codes, engine.file()) if keep_pairs else None
        if every is not None:
            undo.callback(every.path.unlink, missing_ok=True)
        amounts = table.amounts if keep_pairs else ()
        rows = f"SELECT {', '.join(['u', 'name', *table.amount_names[: len(amounts)]])} FROM ({codes.pairs})"
        pairs = sorted_pairs(engine, rows, table.objects, user_salt, codes.keys, amounts, codes.of)
        units, sizes = _placed(pairs, codes.keys, cap, every)
        made = _source_of(engine, source, table, codes, units)
        if every is not None:
            engine.tables.open(made).forget_more = undo.pop_all().close
        return Assigned(made, sizes[0], sizes[1], int(units.sum()), every)


def _placed(pairs: Iterator[Batch], keys: int, cap: int, every: AllPairs | None) -> tuple[Ints, Ints]:
    """The units of each key, and the sizes of users, from sorted pairs, which are put aside on the way."""
    # as short as it can be: it is looked up for every pair
    room, sizes, assignment = np.full(keys, cap, np.min_scalar_type(-cap - 1)), Sizes(), Assignment()
    with nullcontext() if every is None else every.path.open("wb") as file:
        for begins, codes, *more in pairs:
            sizes.add(begins)
            assignment.place(begins, codes, room)
            if file is not None:
                write_pairs(file, begins, codes, keys, *more)
    return cap - room.astype(np.int64), sizes.counts()


def _source_of(engine: "DuckDB", source: Source, table: Table, codes: Codes, units: Ints) -> Source:
    """Put the keys that have units into a table, and return it as a source with frequencies."""
    given = np.flatnonzero(units)
    taken = pa.table({"name": codes.names(given), "units": units[given]})
    kept, count = engine.name(), len(given)
    names = [f"c{i}" for i in range(len(table.keys))]
    chosen = ", ".join(f"k{i} AS {name}" for i, name in enumerate(names))
    made = Source(table.schema.append(pa.field("frequency", pa.int64())).empty_table(), source.key, "frequency")
    joined = f"SELECT {chosen}, units FROM {codes.table} JOIN taken USING (name)"
    engine.run(f"CREATE TABLE {kept} AS {joined}", {"taken": lambda: taken})
    engine.tables.add(made, Table(kept, table.schema, names, "units", size=lambda: count))
    return made
