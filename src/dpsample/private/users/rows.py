"""Rows of counted users: which keys are counted, and what the release has of each."""

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

    Keys are discovered from about `least` users. `fewest` is the least number of users that each of them can have.
    """

    table: pa.Table
    least: int
    fewest: Ints


def wanted_keys(
    engine: Engine, reported: pa.Table, known: pa.Table | None, least: int, at_least: int
) -> Wanted:
    """Put reported and known keys together; keys were reported from about `least` users, and not below `at_least`."""
    if known is None:
        return Wanted(reported, least, np.full(len(reported), at_least))
    both = pa.concat_tables([reported, known])
    is_known = np.arange(len(both)) >= len(reported)
    both = both.append_column("known", pa.array(is_known))
    batches = engine.sort(both.to_batches(), both.schema, reported.column_names)
    ordered = pa.Table.from_batches(batches, both.schema)
    fewest = np.where(ordered["known"].to_numpy(), 0, at_least)
    return Wanted(ordered, 1, fewest)


def rows_of(wanted: Wanted, measured: MeasuredUsers) -> pa.Table:
    """Return the keys with their numbers of users and sums of amounts."""
    rows = counted(wanted.table, measured.values, measured.errors, wanted.fewest)
    rows_at_least = np.minimum(wanted.fewest, 1)
    for amount in measured.amounts:
        rows = summed(
            rows, amount.record, amount.values, amount.errors, measured.values, rows_at_least
        )
    return rows
