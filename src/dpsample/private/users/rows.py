"""Rows of counted users: which keys are counted, and the numbers that the release states of each."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dpsample.private.engine import Engine
from dpsample.private.users.counts import MeasuredUsers
from dpsample.release.rows import counted, summed
from dpsample.scheme.sampling import Ints


@dataclass(frozen=True, eq=False)
class Wanted:
    """Keys to be counted, in their order, with a column `known` if there is a list of known keys.

    Keys are discovered from about `least` users. `fewest` has, for each key, the least number of users that it can
    have: known keys can have none.
    """

    table: pa.Table
    least: int
    fewest: Ints


def wanted_keys(
    engine: Engine, discovered: pa.Table, known: pa.Table | None, least: int, at_least: int
) -> Wanted:
    """Put discovered and known keys together, in the order of keys.

    Keys were discovered from about `least` users, and never with fewer than `at_least`.
    """
    if known is None:
        return Wanted(discovered, least, np.full(len(discovered), at_least))
    both = pa.concat_tables([discovered, known])
    is_known = np.arange(len(both)) >= len(discovered)
    both = both.append_column("known", pa.array(is_known))
    batches = engine.sort(both.to_batches(), both.schema, discovered.column_names)
    ordered = pa.Table.from_batches(batches, both.schema)
    fewest = np.where(ordered["known"].to_numpy(), 0, at_least)
    return Wanted(ordered, 1, fewest)


def rows_of(wanted: Wanted, measured: MeasuredUsers) -> pa.Table:
    """Return the keys with their numbers of users and sums of amounts."""
    users = measured.values
    rows = counted(wanted.table, users, measured.errors, wanted.fewest)
    # a key that was discovered has a row; a known key may have none
    fewest_rows = np.minimum(wanted.fewest, 1)
    for amount in measured.amounts:
        rows = summed(rows, amount.record, amount.values, amount.errors, users, fewest_rows)
    return rows
