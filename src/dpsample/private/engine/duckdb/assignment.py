"""Serial assignment: DuckDB numbers the keys and sorts the pairs; one pass over them places the units."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpsample.private.assignment import Assigned, Assignment, Flags, Sizes, growing, salts
from dpsample.private.engine.columns import positioned
from dpsample.private.engine.duckdb.tables import Table
from dpsample.private.engine.errors import nobody_refusal
from dpsample.private.formats import Objects
from dpsample.private.randomness import CoinSource
from dpsample.private.source import Source
from dpsample.scheme.sampling import Ints

if TYPE_CHECKING:
    from dpsample.private.engine.duckdb.engine import DuckDB

_T = TypeVar("_T")


def assigned(
    engine: "DuckDB", source: Source, table: Table, cap: int, coins: CoinSource, prior: pa.Table | None
) -> Assigned:
    """Let each user give one unit to one of their keys; put the keys and their units into a table of its own.

    u, k0, k1, ... -> k0, k1, ..., code: the keys in their order -> u, code, sorted by users -> k0, k1, ..., units
    """
    if table.user is None:
        raise nobody_refusal()
    first = positioned(table.schema.empty_table() if prior is None else prior, table.schema)
    engine.fill(table)
    user_salt, key_salt = salts(coins)
    codes = engine.name()
    try:
        _number_keys(engine, table, codes, key_salt, first)
        [(keys,)] = engine.run(f"SELECT count(*) FROM {codes}")
        rows = f"SELECT u, code FROM ({table.all_pairs}) JOIN {codes} USING ({table.names})"
        units, sizes = without_ties(lambda ties: _placed(sorted_pairs(engine, table, rows, user_salt, ties), keys, cap))
        return Assigned(_source_of(engine, source, table, codes, units), sizes)
    finally:
        engine.drop(codes)


def _placed(pairs: Iterator[tuple[Flags, Ints]], keys: int, cap: int) -> tuple[Ints, Ints]:
    """The units of each key, and the sizes of users, from sorted pairs."""
    room, sizes, assignment = np.full(keys, cap, np.int64), Sizes(), Assignment()
    for begins, codes in pairs:
        sizes.add(begins)
        assignment.place(begins, codes, room)
    return cap - room, sizes.counts()


def order_sql(columns: list[str], salt: int) -> str:
    """SQL of the salted hash by which users or keys are ordered; what has equal hashes is ordered by itself."""
    return f"hash(xor(hash({', '.join(columns)}), {salt}::UBIGINT))"


def _number_keys(engine: "DuckDB", table: Table, codes: str, salt: int, prior: pa.Table) -> None:
    """Make the table of all keys with their codes, 0, 1, ...: those of the prior order first, then by hash."""
    names = [f"k{i}" for i in range(len(table.keys))]
    keys = f"SELECT DISTINCT {table.names} FROM ({table.all_pairs})"
    order = ", ".join(["position NULLS LAST", order_sql(names, salt), *names])
    code = f"row_number() OVER (ORDER BY {order}) - 1 AS code"
    placed = f"({keys}) LEFT JOIN prior USING ({table.names})"
    objects = {**table.objects, "prior": lambda: prior}
    engine.run(f"CREATE TABLE {codes} AS SELECT {table.names}, {code} FROM {placed}", objects)


class TieError(Exception):
    """Two users have equal hashes."""


def without_ties(work: Callable[[bool], _T]) -> _T:
    """Do work that reads sorted pairs; once more, with users in the sort, if two of them have equal hashes."""
    try:
        return work(False)
    except TieError:
        pass
    return work(True)


def sorted_pairs(
    engine: "DuckDB", table: Table, rows: str, salt: int, ties: bool, objects: Objects | None = None
) -> Iterator[tuple[Flags, Ints]]:
    """Sort rows of u and code by user and code; yield whether a row begins a user, and codes, each pair once.

    Users are sorted by their hashes alone unless there are `ties`: to sort text costs twice as much. Users with equal
    hashes are compared, so that a tie is always found.
    """
    order = "h, u, code" if ties else "h, code"
    sql = f"SELECT {order_sql(['u'], salt)} AS h, u, code FROM ({rows}) ORDER BY {order}"
    held: pa.RecordBatch | None = None  # the last row
    for piece in growing(engine.stream(sql, {**table.objects, **(objects or {})})):
        if held is not None:
            [piece] = pa.Table.from_batches([held, piece]).combine_chunks().to_batches()
        hashes, users, codes = piece.column(0).to_numpy(), piece.column(1), piece.column(2).to_numpy()
        begins = np.append(held is None, pc.not_equal(users[1:], users[:-1]).to_numpy(zero_copy_only=False))
        if not ties and (begins[1:] & (hashes[1:] == hashes[:-1])).any():
            raise TieError
        kept = begins | np.append(held is None, codes[1:] != codes[:-1])
        yield begins[kept], codes[kept]
        held = piece.slice(len(codes) - 1)


def _source_of(engine: "DuckDB", source: Source, table: Table, codes: str, units: Ints) -> Source:
    """Put the keys that have units into a table, and return it as a source with frequencies."""
    given = np.flatnonzero(units)
    taken = pa.table({"code": given, "units": units[given]})
    kept, count = engine.name(), len(given)
    names = [f"c{i}" for i in range(len(table.keys))]
    chosen = ", ".join(f"k{i} AS {name}" for i, name in enumerate(names))
    made = Source(table.schema.append(pa.field("frequency", pa.int64())).empty_table(), source.key, "frequency")
    joined = f"SELECT {chosen}, units FROM {codes} JOIN taken USING (code)"
    engine.run(f"CREATE TABLE {kept} AS {joined}", {"taken": lambda: taken})
    engine.tables.add(made, Table(kept, table.schema, names, "units", size=lambda: count))
    return made
