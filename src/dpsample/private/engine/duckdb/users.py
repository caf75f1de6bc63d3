"""Each user keeps a bounded number of keys: pairs of user and key, users with too many, and what they keep."""

from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from dpsample.private.bounding import choose
from dpsample.private.engine.duckdb.errors import is_out_of_memory
from dpsample.private.engine.duckdb.orders import in_parts
from dpsample.private.engine.duckdb.tables import Table
from dpsample.private.engine.errors import nobody_refusal
from dpsample.private.randomness import CoinSource
from dpsample.private.sources.source import Source

if TYPE_CHECKING:
    from dpsample.private.engine.duckdb.engine import DuckDB

_PAIR = 64  # bytes of memory that grouping a pair takes, at least
_MOST_PARTS = 4096


def bounded(
    engine: "DuckDB", source: Source, table: Table, limit: int, coins: CoinSource
) -> Source:
    """Put a key for each user who keeps it into a table of its own, and return it as a source.

    Users are taken in parts if all pairs would not fit into memory; a user is always in one part.
    """
    if table.user is None:
        raise nobody_refusal()
    engine.fill(table)
    columns = [pa.field(f"c{i}", field.type) for i, field in enumerate(table.schema)]
    kept = engine.name()
    engine.spool(kept, pa.schema(columns), ())
    parts = _parts(engine, table)
    stack = [(parts, part) for part in range(parts)]
    while stack:
        modulus, part = stack.pop()
        pairs, many = engine.name(), engine.name()
        try:
            try:
                own = "" if modulus == 1 else f" AND hash(hash({table.user})) % {modulus} = {part}"
                engine.run(f"CREATE TABLE {pairs} AS {table.pairs}{own}", table.objects)
                counted = f"SELECT u FROM {pairs} GROUP BY u HAVING count(*) > {limit}"
                engine.run(
                    f"CREATE TABLE {many} AS SELECT u, row_number() OVER () AS number FROM ({counted})"
                )
            except duckdb.OutOfMemoryException as error:
                if modulus >= _MOST_PARTS or not is_out_of_memory(error):
                    raise
                stack += [(2 * modulus, part), (2 * modulus, part + modulus)]
                continue
            engine.run(
                f"INSERT INTO {kept} SELECT {table.names} FROM {pairs} ANTI JOIN {many} USING (u)"
            )
            shown = (
                f"SELECT number, {table.names} FROM {pairs} JOIN {many} USING (u) ORDER BY number"
            )
            engine.insert(kept, choose(engine.stream(shown), limit, coins.fresh()))
        finally:
            engine.drop(pairs)
            engine.drop(many)
    rows = engine.size(kept)
    made = Source(table.schema.empty_table(), source.key)
    names = [f"c{i}" for i in range(len(table.keys))]
    engine.tables.add(made, Table(kept, table.schema, names, size=lambda: rows))
    return made


def dropped(engine: "DuckDB", table: Table, limit: int, most: int) -> int:
    """Count the distinct keys of users beyond `limit`, of each user up to `most`."""
    if table.user is None:
        raise nobody_refusal()
    engine.fill(table)

    def count(parts: int) -> int:
        beyond = 0
        for part in range(parts):
            own = "" if parts == 1 else f" AND hash(hash({table.user})) % {parts} = {part}"
            sizes = (
                f"SELECT count(*) - {limit} AS n FROM ({table.pairs}{own}) GROUP BY u HAVING n > 0"
            )
            [(found,)] = engine.run(
                f"SELECT coalesce(sum(least(n, {most})), 0) FROM ({sizes})", table.objects
            )
            beyond += int(found)
        return beyond

    return in_parts(count)


def _parts(engine: "DuckDB", table: Table) -> int:
    rows = table.size()
    if engine.memory_limit is None or rows is None:
        return 1
    return 1 + rows * _PAIR // (4 * engine.memory_limit)
