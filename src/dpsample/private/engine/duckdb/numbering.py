"""Codes of keys: 0, 1, ..., in the order of keys. A table in DuckDB has all keys, each with a name.

hashed  the name of a key is its hash, which a row tells without a look into the table; codes are looked up here
joined  the name of a key is its code, which a join finds: if two keys have one hash, if some keys come first, or if
        there are too many keys to hold their hashes
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsample.errors import InvalidValue
from dpsample.private.engine.duckdb.sorting import Numbers, in_parts, order_sql, ranges_sql
from dpsample.private.engine.duckdb.tables import Table
from dpsample.scheme.sampling import Ints

if TYPE_CHECKING:
    from dpsample.private.engine.duckdb.engine import DuckDB

_HELD = 1 << 24  # keys whose hashes are held, at most; each takes up to 16 bytes, less than a join
_LIMIT_EACH = 200  # bytes of a memory limit, at least, for each of them: a twelfth of it is for hashes


@dataclass(frozen=True, eq=False, repr=False)
class Codes:
    """All keys of a table: how many there are, and the name of each row's key; names are codes."""

    table: str  # k0, k1, ..., name
    keys: int
    pairs: str  # SQL of all pairs, with names

    def of(self, names: NDArray[Any]) -> NDArray[Any]:
        """Return the codes of names."""
        return names

    def names(self, codes: Ints) -> NDArray[Any]:
        """Return the names of codes."""
        return codes

    def __repr__(self) -> str:
        return "Codes()"


@dataclass(frozen=True, eq=False, repr=False)
class HashedCodes(Codes):
    """The same; names are hashes, of which no two are equal.

    >>> codes = HashedCodes.by_hash("", "", np.array([7 << 61, 5, 3 << 62], np.uint64))
    >>> codes.of(np.array([3 << 62, 7 << 61, 5, 5], np.uint64)).tolist()
    [1, 2, 0, 0]
    """

    hashes: Numbers  # ascending
    first: NDArray[np.int32]  # by the first bits of a hash: the code at which to begin
    longest: int  # the most keys whose hashes have the same first bits
    shift: int

    @staticmethod
    def by_hash(table: str, pairs: str, hashes: Numbers) -> "HashedCodes | None":
        """Number one key or more by their hashes; None if two are equal."""
        hashes = np.sort(hashes)
        if (hashes[1:] == hashes[:-1]).any():
            return None
        shift = 64 - len(hashes).bit_length()  # one or two beginnings for each key: more would leave the cache
        counts = np.bincount((hashes >> shift).astype(np.int64), minlength=1 << 64 - shift)
        first = (counts.cumsum() - counts).astype(np.int32)
        return HashedCodes(table, len(hashes), pairs, hashes, first, int(counts.max()), shift)

    def of(self, names: NDArray[Any]) -> NDArray[Any]:
        """Return the codes of names; one that no key of the table has is refused."""
        codes = self.first.take((names >> self.shift).view(np.int64)).astype(np.int64)
        later = np.flatnonzero(self.hashes.take(codes, mode="clip") != names)
        for _ in range(self.longest):
            if not len(later):
                return codes
            codes[later] += 1
            later = later[self.hashes.take(codes[later], mode="clip") != names[later]]
        raise InvalidValue(
            "a source must stay as it is while it is read",
            "a key that was not there before",
            "release a copy of it, or wait until it is written",
        )

    def names(self, codes: Ints) -> NDArray[Any]:
        """Return the names of codes."""
        return self.hashes[codes]


def number_keys(engine: "DuckDB", table: Table, into: str, salt: int, prior: pa.Table) -> Codes:
    """Make the table of all keys: those of the prior order come first, then all others by hash."""
    order = order_sql([f"k{i}" for i in range(len(table.keys))], salt)
    # rows without a user are refused, or left out, when pairs are sorted: a key that only they have gets no unit
    distinct = f"SELECT DISTINCT {table.names} FROM ({replace(table, user=None).rows})"
    objects = {**table.objects, "prior": lambda: prior}

    def make(parts: int) -> Codes:
        keys, by = f"SELECT *, {order} AS kh FROM ({distinct})", f"kh, {table.names}"
        if len(prior):
            keys, by = f"{keys} LEFT JOIN prior USING ({table.names})", f"position NULLS LAST, {by}"
        elif parts == 1:
            engine.run(f"CREATE OR REPLACE TABLE {into} AS SELECT {table.names}, kh AS name FROM ({keys})", objects)
            hashed = _hashed(engine, into, f"SELECT *, {order} AS name FROM ({table.all_pairs})")
            if hashed is not None:
                return hashed
            keys = f"SELECT {table.names}, name AS kh FROM {into}"
        number, statement = 0, f"CREATE OR REPLACE TABLE {into} AS"
        for condition in _conditions(parts, len(prior) > 0):
            name = f"{number} + row_number() OVER (ORDER BY {by}) - 1 AS name"
            engine.run(f"{statement} SELECT {table.names}, {name} FROM ({keys}) WHERE {condition}", objects)
            number, statement = _size(engine, into), f"INSERT INTO {into}"
        return Codes(into, number, f"SELECT * FROM ({table.all_pairs}) JOIN {into} USING ({table.names})")

    return in_parts(make)


def _hashed(engine: "DuckDB", table: str, pairs: str) -> HashedCodes | None:
    """Number the keys of a table by their names, which are hashes, if these can be held and none are equal."""
    number, limit = _size(engine, table), engine.memory_limit
    if not 0 < number <= _HELD or (limit is not None and number * _LIMIT_EACH > limit):
        return None
    hashes = [batch.column(0).to_numpy() for batch in engine.stream(f"SELECT name FROM {table}")]
    return HashedCodes.by_hash(table, pairs, np.concatenate(hashes))


def _size(engine: "DuckDB", table: str) -> int:
    [(rows,)] = engine.run(f"SELECT count(*) FROM {table}")
    return int(rows)


def _conditions(parts: int, prior: bool) -> list[str]:
    """Conditions that divide keys into parts, in their order: those of the prior order, then ranges of hashes."""
    if parts == 1:
        return ["true"]
    if not prior:
        return ranges_sql("kh", parts)
    return ["position IS NOT NULL", *(f"position IS NULL AND {own}" for own in ranges_sql("kh", parts))]
