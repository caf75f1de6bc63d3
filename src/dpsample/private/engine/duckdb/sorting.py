"""Users and keys in their orders: sorted by DuckDB, in parts where memory is scarce."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpsample.private.assignment import Flags, growing
from dpsample.private.engine.duckdb.errors import is_out_of_memory
from dpsample.private.formats import Objects
from dpsample.scheme.sampling import Ints

if TYPE_CHECKING:
    from dpsample.private.engine.duckdb.engine import DuckDB

_T = TypeVar("_T")

_MOST_PARTS = 1024


class TieError(Exception):
    """Two users, or two keys, have equal hashes."""


@dataclass(frozen=True)
class Sort:
    """How pairs or keys are sorted. All ways lead to the same order, unless hashes are tied, which is found.

    ties    users or keys themselves are sorted, not only their hashes; for text it takes twice as long
    parts   they are taken in this many ranges of hashes, one after the other
    """

    ties: bool = False
    parts: int = 1


def sorted_somehow(work: Callable[[Sort], _T]) -> _T:
    """Do work that sorts; all over again in another way if hashes are tied, or if memory is too small."""
    sort = Sort()
    while True:
        try:
            return work(sort)
        except TieError:
            following = replace(sort, ties=True)
        except (duckdb.Error, OSError) as error:
            if sort.parts >= _MOST_PARTS or not is_out_of_memory(error):
                raise
            following = replace(sort, parts=4 * sort.parts)
        sort = following


def order_sql(columns: list[str], salt: int) -> str:
    """SQL of the salted hash by which users or keys are ordered; what has equal hashes is ordered by itself."""
    return f"hash(xor(hash({', '.join(columns)}), {salt}::UBIGINT))"


def code_sql(column: str, codes: int) -> str:
    """SQL of a code below `codes`, as short as it can be: less is to be sorted."""
    return f"{column}::{'INTEGER' if codes < 1 << 31 else 'BIGINT'}"


def ranges_sql(column: str, parts: int) -> list[str]:
    """SQL of conditions that divide hashes into ranges, in ascending order.

    >>> ranges_sql("h", 2)
    ['true AND h <= 9223372036854775807::UBIGINT', 'h > 9223372036854775807::UBIGINT AND true']
    """
    cuts = [f"{(part << 64) // parts - 1}::UBIGINT" for part in range(1, parts)]
    above = ["true", *(f"{column} > {cut}" for cut in cuts)]
    below = [*(f"{column} <= {cut}" for cut in cuts), "true"]
    return [f"{low} AND {high}" for low, high in zip(above, below, strict=True)]


def sorted_pairs(engine: "DuckDB", rows: str, objects: Objects, salt: int, sort: Sort) -> Iterator[tuple[Flags, Ints]]:
    """Sort rows of u and code by user and code; yield whether a row begins a user, and codes, each pair once."""
    last: pa.RecordBatch | None = None  # row
    for piece in growing(_sorted(engine, rows, objects, salt, sort)):
        hashes, users, codes = (_changes(column, i, last) for i, column in enumerate(piece.columns))
        # another hash means another user; another user with the same hash is tied
        if not sort.ties and np.count_nonzero(users) != np.count_nonzero(hashes):
            raise TieError
        first = users | codes
        numbers = piece.column(2).to_numpy().astype(np.int64)
        yield (users, numbers) if first.all() else (users[first], numbers[first])
        last = piece.slice(piece.num_rows - 1)


def _changes(column: pa.Array, place: int, last: pa.RecordBatch | None) -> Flags:
    """Whether each value differs from the one before."""
    changes = np.ones(len(column), np.bool_)
    if last is not None:
        changes[0] = column[0] != last.column(place)[0]
    changes[1:] = pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return changes


def _sorted(engine: "DuckDB", rows: str, objects: Objects, salt: int, sort: Sort) -> Iterator[pa.RecordBatch]:
    hashed = f"SELECT {order_sql(['u'], salt)} AS h, u, code FROM ({rows})"
    order = "h, u, code" if sort.ties else "h, code"
    for own in ranges_sql("h", sort.parts):
        yield from engine.stream(f"SELECT h, u, code FROM ({hashed}) WHERE {own} ORDER BY {order}", objects)
