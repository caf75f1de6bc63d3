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

# The most keys whose hashes are held in memory; each takes up to 16 bytes, less than a join.
_HELD = 1 << 24
# Bytes of a memory limit for each of these keys: hashes then take at most a twelfth of the limit.
_LIMIT_EACH = 200


@dataclass(frozen=True, eq=False, repr=False)
class Codes:
    """The codes of all keys of a table, where the name of a key is its code.

    table  the name of the table of keys: k0, k1, ..., name
    keys   the number of keys
    pairs  SQL of all pairs of users and keys, with the names of keys
    """

    table: str
    keys: int
    pairs: str

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
    """The codes of all keys of a table, where the name of a key is its hash, which no other key has.

    The first bits of a hash lead to the least code with these bits. The codes that follow are tried one by one.

    hashes   the hashes of all keys, ascending: the place of a hash is the code of its key
    first    by the first bits of a hash: the least code
    longest  the most keys whose hashes have the same first bits
    shift    the number of bits of a hash that follow the first ones

    >>> codes = HashedCodes.by_hash("", "", np.array([7 << 61, 5, 3 << 62], np.uint64))
    >>> codes.of(np.array([3 << 62, 7 << 61, 5, 5], np.uint64)).tolist()
    [1, 2, 0, 0]
    """

    hashes: Numbers
    first: NDArray[np.int32]
    longest: int
    shift: int

    @staticmethod
    def by_hash(table: str, pairs: str, hashes: Numbers) -> "HashedCodes | None":
        """Return the codes of one key or more by their hashes; None if two hashes are equal."""
        hashes = np.sort(hashes)
        if (hashes[1:] == hashes[:-1]).any():
            return None
        # one or two values of the first bits for each key: with more, they would leave the cache
        first_bits = len(hashes).bit_length()
        shift = 64 - first_bits
        beginnings = (hashes >> shift).astype(np.int64)
        counts = np.bincount(beginnings, minlength=1 << first_bits)
        first = (counts.cumsum() - counts).astype(np.int32)
        longest = int(counts.max())
        return HashedCodes(table, len(hashes), pairs, hashes, first, longest, shift)

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
    """Make the table of all keys, called `into`: those of the prior order come first, then all others by hash.

    `prior` has the keys k0, k1, ... and their position. The salt decides the hashes.
    """

    def make(parts: int) -> Codes:
        keys = _distinct_keys(table, salt)
        if parts == 1 and not len(prior):
            hashed = _hashed_keys(engine, table, into, salt)
            if hashed is not None:
                return hashed
            keys = f"SELECT {table.names}, name AS kh FROM {into}"  # they are there already
        return _joined_keys(engine, table, into, keys, prior, parts)

    return in_parts(make)


def _distinct_keys(table: Table, salt: int) -> str:
    """SQL of each key once, with the hash by which it is ordered: k0, k1, ..., kh."""
    # rows without a user are refused, or left out, when pairs are sorted: a key that only they have gets no unit
    rows = replace(table, user=None).rows
    distinct = f"SELECT DISTINCT {table.names} FROM ({rows})"
    return f"SELECT *, {_key_order(table, salt)} AS kh FROM ({distinct})"


def _key_order(table: Table, salt: int) -> str:
    """SQL of the hash by which keys are ordered."""
    return order_sql(table.names.split(", "), salt)


def _hashed_keys(engine: "DuckDB", table: Table, into: str, salt: int) -> HashedCodes | None:
    """Make the table of all keys, whose names are hashes; None if these cannot be held, or two are equal."""
    keys = f"SELECT {table.names}, kh AS name FROM ({_distinct_keys(table, salt)})"
    engine.run(f"CREATE OR REPLACE TABLE {into} AS {keys}", table.objects)
    number = engine.size(into)
    most = _HELD if engine.memory_limit is None else min(_HELD, engine.memory_limit // _LIMIT_EACH)
    if not 0 < number <= most:
        return None
    batches = engine.stream(f"SELECT name FROM {into}")
    hashes = [batch.column(0).to_numpy() for batch in batches]
    pairs = f"SELECT *, {_key_order(table, salt)} AS name FROM ({table.all_pairs})"
    return HashedCodes.by_hash(into, pairs, np.concatenate(hashes))


def _joined_keys(
    engine: "DuckDB", table: Table, into: str, keys: str, prior: pa.Table, parts: int
) -> Codes:
    """Make the table of all keys, whose names are codes, part by part; `keys` is SQL of them with their hashes."""
    by = f"kh, {table.names}"
    has_prior = len(prior) > 0
    if has_prior:
        keys = f"SELECT * FROM ({keys}) LEFT JOIN prior USING ({table.names})"
        by = f"position NULLS LAST, {by}"
    objects = {**table.objects, "prior": lambda: prior}
    number = 0
    statement = f"CREATE OR REPLACE TABLE {into} AS"
    for condition in _conditions(parts, has_prior):
        code = f"{number} + row_number() OVER (ORDER BY {by}) - 1 AS name"
        part = f"SELECT {table.names}, {code} FROM ({keys}) WHERE {condition}"
        engine.run(f"{statement} {part}", objects)
        number = engine.size(into)
        statement = f"INSERT INTO {into}"
    pairs = f"SELECT * FROM ({table.all_pairs}) JOIN {into} USING ({table.names})"
    return Codes(into, number, pairs)


def _conditions(parts: int, has_prior: bool) -> list[str]:
    """Conditions that divide keys into parts, in their order: those of the prior order, then ranges of hashes."""
    if parts == 1:
        return ["true"]
    ranges = ranges_sql("kh", parts)
    if not has_prior:
        return ranges
    others = [f"position IS NULL AND {own}" for own in ranges]
    return ["position IS NOT NULL", *others]
