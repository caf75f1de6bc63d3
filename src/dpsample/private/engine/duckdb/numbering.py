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
from dpsample.private.engine.duckdb.orders import Numbers, in_parts, order_sql, ranges_sql
from dpsample.private.engine.duckdb.tables import Table
from dpsample.scheme.sampling import Ints

if TYPE_CHECKING:
    from dpsample.private.engine.duckdb.engine import DuckDB

_HELD = 1 << 24  # keys whose hashes are held, at most; each takes up to 16 bytes, less than a join
_LIMIT_EACH = (
    200  # bytes of a memory limit that each of these keys needs: hashes take a twelfth of the limit
)


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
    """The same; names are hashes, and no two keys have the same.

    The first bits of a hash lead to the least code with these bits. The codes that follow are tried one by one.

    >>> codes = HashedCodes.by_hash("", "", np.array([7 << 61, 5, 3 << 62], np.uint64))
    >>> codes.of(np.array([3 << 62, 7 << 61, 5, 5], np.uint64)).tolist()
    [1, 2, 0, 0]
    """

    hashes: Numbers  # ascending
    first: NDArray[np.int32]  # by the first bits of a hash: the least code
    longest: int  # the most keys whose hashes have the same first bits
    shift: int  # bits of a hash that follow the first ones

    @staticmethod
    def by_hash(table: str, pairs: str, hashes: Numbers) -> "HashedCodes | None":
        """Number one key or more by their hashes; None if two are equal."""
        hashes = np.sort(hashes)
        if (hashes[1:] == hashes[:-1]).any():
            return None
        first_bits = len(
            hashes
        ).bit_length()  # one or two beginnings for each key: more would leave the cache
        shift = 64 - first_bits
        counts = np.bincount((hashes >> shift).astype(np.int64), minlength=1 << first_bits)
        first = (counts.cumsum() - counts).astype(np.int32)
        return HashedCodes(table, len(hashes), pairs, hashes, first, int(counts.max()), shift)

    def of(self, names: NDArray[Any]) -> NDArray[Any]:
        """Return the codes of names; a name that no key of the table has is refused."""
        codes = self.first.take((names >> self.shift).view(np.int64)).astype(np.int64)
        wrong = np.flatnonzero(self.hashes.take(codes, mode="clip") != names)
        for _ in range(self.longest):
            if not len(wrong):
                return codes
            codes[wrong] += 1
            wrong = wrong[self.hashes.take(codes[wrong], mode="clip") != names[wrong]]
        raise InvalidValue(
            "the source changed while it was read",
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
        keys = f"SELECT *, {order} AS kh FROM ({distinct})"
        by = f"kh, {table.names}"
        if len(prior):
            keys = f"{keys} LEFT JOIN prior USING ({table.names})"
            by = f"position NULLS LAST, {by}"
        elif parts == 1:
            engine.run(
                f"CREATE OR REPLACE TABLE {into} AS SELECT {table.names}, kh AS name FROM ({keys})",
                objects,
            )
            hashed = _hashed(engine, into, f"SELECT *, {order} AS name FROM ({table.all_pairs})")
            if hashed is not None:
                return hashed
            keys = f"SELECT {table.names}, name AS kh FROM {into}"
        number, statement = 0, f"CREATE OR REPLACE TABLE {into} AS"
        for condition in _conditions(parts, len(prior) > 0):
            name = f"{number} + row_number() OVER (ORDER BY {by}) - 1 AS name"
            engine.run(
                f"{statement} SELECT {table.names}, {name} FROM ({keys}) WHERE {condition}", objects
            )
            number, statement = engine.size(into), f"INSERT INTO {into}"
        return Codes(
            into, number, f"SELECT * FROM ({table.all_pairs}) JOIN {into} USING ({table.names})"
        )

    return in_parts(make)


def _hashed(engine: "DuckDB", table: str, pairs: str) -> HashedCodes | None:
    """Number the keys of a table by their names, which are hashes, if these can be held and none are equal."""
    number = engine.size(table)
    most = _HELD if engine.memory_limit is None else min(_HELD, engine.memory_limit // _LIMIT_EACH)
    if not 0 < number <= most:
        return None
    hashes = [batch.column(0).to_numpy() for batch in engine.stream(f"SELECT name FROM {table}")]
    return HashedCodes.by_hash(table, pairs, np.concatenate(hashes))


def _conditions(parts: int, prior: bool) -> list[str]:
    """Conditions that divide keys into parts, in their order: those of the prior order, then ranges of hashes."""
    if parts == 1:
        return ["true"]
    ranges = ranges_sql("kh", parts)
    return (
        ["position IS NOT NULL", *(f"position IS NULL AND {own}" for own in ranges)]
        if prior
        else ranges
    )
