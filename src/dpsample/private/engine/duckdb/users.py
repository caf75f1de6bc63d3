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

# Bytes of memory that grouping a pair takes, at least: it decides into how many parts users are divided at first.
_PAIR = 64
# With more parts, a single user's pairs would not fit into memory.
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
    fields = [pa.field(f"c{place}", kind) for place, kind in enumerate(table.schema.types)]
    kept = engine.name()
    engine.spool(kept, pa.schema(fields), ())
    parts = _parts(engine, table)
    stack = [(parts, part) for part in range(parts)]
    while stack:
        modulus, part = stack.pop()
        if not _keep_of_part(engine, table, (modulus, part), limit, coins, kept):
            stack += [(2 * modulus, part), (2 * modulus, part + modulus)]
    rows = engine.size(kept)
    made = Source(table.schema.empty_table(), source.key)
    columns = [field.name for field in fields]
    engine.tables.add(made, Table(kept, table.schema, columns, size=lambda: rows))
    return made


def _keep_of_part(
    engine: "DuckDB",
    table: Table,
    part: tuple[int, int],
    limit: int,
    coins: CoinSource,
    kept: str,
) -> bool:
    """Add what users keep to the table `kept`, of the users in one part: (number of parts, part).

    All keys of users with at most `limit` keys are kept; of other users, those that the coins choose. Return False, and
    add nothing, if the pairs of the part do not fit into memory.
    """
    pairs = engine.name()
    many = engine.name()
    try:
        if not _find_pairs(engine, table, part, limit, pairs, many):
            return False
        few = f"SELECT {table.names} FROM {pairs} ANTI JOIN {many} USING (u)"
        engine.run(f"INSERT INTO {kept} {few}")
        rows = f"SELECT number, {table.names} FROM {pairs} JOIN {many} USING (u) ORDER BY number"
        engine.insert(kept, choose(engine.stream(rows), limit, coins.fresh()))
        return True
    finally:
        engine.drop(pairs)
        engine.drop(many)


def _find_pairs(
    engine: "DuckDB", table: Table, part: tuple[int, int], limit: int, pairs: str, many: str
) -> bool:
    """Make the table `pairs` of the pairs of a part, and the table `many` of its users with more than `limit` keys.

    Return False if they do not fit into memory, and more parts may help.
    """
    modulus, _ = part
    own = _own_users(table, *part)
    counted = f"SELECT u FROM {pairs} GROUP BY u HAVING count(*) > {limit}"
    numbered = f"SELECT u, row_number() OVER () AS number FROM ({counted})"
    try:
        engine.run(f"CREATE TABLE {pairs} AS {table.pairs}{own}", table.objects)
        engine.run(f"CREATE TABLE {many} AS {numbered}")
    except duckdb.OutOfMemoryException as error:
        if modulus >= _MOST_PARTS or not is_out_of_memory(error):
            raise
        return False
    return True


def _own_users(table: Table, parts: int, part: int) -> str:
    """SQL of the condition that a user is in a part, to be added to others."""
    return "" if parts == 1 else f" AND hash(hash({table.user})) % {parts} = {part}"


def dropped(engine: "DuckDB", table: Table, limit: int, most: int) -> int:
    """Count the distinct keys of users beyond `limit`, of each user up to `most`."""
    if table.user is None:
        raise nobody_refusal()
    engine.fill(table)

    def count(parts: int) -> int:
        beyond = 0
        for part in range(parts):
            own = _own_users(table, parts, part)
            sizes = f"SELECT count(*) - {limit} AS n FROM ({table.pairs}{own}) GROUP BY u"
            total = f"SELECT coalesce(sum(least(n, {most})), 0) FROM ({sizes} HAVING n > 0)"
            [(dropped_keys,)] = engine.run(total, table.objects)
            beyond += int(dropped_keys)
        return beyond

    return in_parts(count)


def _parts(engine: "DuckDB", table: Table) -> int:
    """Return into how many parts to divide users at first, so that one takes about a quarter of the memory."""
    rows = table.size()
    if engine.memory_limit is None or rows is None:
        return 1
    return 1 + rows * _PAIR // (4 * engine.memory_limit)
