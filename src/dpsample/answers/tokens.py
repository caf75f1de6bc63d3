"""Tokens as questions see them: the keys, their tokens, and the law by which these were drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from dpsample.answers.selection import Rows
from dpsample.release.key_hash import first_frequencies
from dpsample.release.terms import Terms
from dpsample.scheme.likelihood import likely_frequencies
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import Ints
from dpsample.scheme.scheme import Scheme

# values, lower ends and upper ends of intervals: three arrays of numbers, one for each key
Ends = Sequence[Any]


@dataclass(frozen=True, eq=False)
class TokenView:
    """Reported keys with their tokens: of a release, of a stream in steps, or of the known keys of a release.

    scheme  how keys were sampled, what privacy each has, and the grid of the tokens
    """

    rows: Rows
    scheme: Scheme

    @staticmethod
    def of(table: pa.Table, terms: Terms) -> "TokenView":
        """Return the tokens of a release."""
        assert terms.grid is not None
        scheme = Scheme(terms.sampling, terms.per_key, terms.grid)
        return TokenView(Rows.of(table, terms), scheme)

    def take(self, places: Ints, added: int = 0) -> "TokenView":
        """Return some of these keys, with elements added to their tokens."""
        keys = self.rows.keys.take(pa.array(places))
        cells = self.cells[places] + added * self.scheme.grid
        return TokenView(Rows(keys, cells, self.rows.taken), self.scheme)

    @property
    def cells(self) -> Ints:
        """The tokens, in units of 1/grid."""
        assert self.rows.cells is not None
        return self.rows.cells

    @property
    def sanitized_as(self) -> Scheme:
        """The scheme of the token of a key that was sampled."""
        return self.scheme._replace(sampling=self.scheme.sampling.sanitized_as)

    @property
    def is_coordinated(self) -> bool:
        """Whether a public hash chose the keys, so that each has a law of its own."""
        return self.scheme.sampling.seed is not None

    @cached_property
    def detection_threshold(self) -> int | None:
        """The lowest frequency that is reported with probability 1/2 or more, if there is one."""
        return frequency_reaching(0.5, self.scheme.sampling, self.scheme.per_key)

    @cached_property
    def added(self) -> Ints:
        """How many elements were added to the frequency of each key before its token was drawn.

        In a coordinated sample, a key that is kept from frequency h on has the token of its frequency less h - 1: a
        negative number was added.
        """
        if not self.is_coordinated:
            return np.zeros(len(self.cells), np.int64)
        h = first_frequencies(key_batch(self.rows.keys), self.scheme.sampling)
        return 1 - h

    def frequencies(self, rows: Ints, level: float) -> Ends:
        """Return the likeliest frequency of the key of each row, and the ends of its confidence interval."""
        added = self.added[rows]
        cells = self.cells[rows] + added * self.scheme.grid
        with_added = likely_frequencies(cells, *self.sanitized_as, level)
        return [frequency - added for frequency in with_added]


def key_batch(keys: pa.Table) -> pa.RecordBatch:
    """Return the key columns as one batch."""
    columns = []
    for column in keys:
        # `combine_chunks` returns several chunks of a column of 2 GB and more
        array = pa.concat_arrays(column.chunks) if column.num_chunks else column.combine_chunks()
        columns.append(array)
    return pa.RecordBatch.from_arrays(columns, names=keys.column_names)
