"""Token columns: the probability of one token at each frequency of its support.

`tokens` goes along a row, all tokens of one frequency; this goes along a column, all frequencies of one token. The map
is the same (`tail_map`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpsample.scheme.law import Law, first_frequency, support_length
from dpsample.scheme.sampling import Floats, Ints

_BLOCK = 1 << 19  # rows times tokens at once: arrays of 4 MB
_FEWEST = 64  # tokens at once, however long their supports are
_TINY = 1e-300  # keeps ratios of zeros defined


@dataclass(frozen=True, eq=False)
class Columns:
    """Tokens along their supports: ``[k, token]`` is k frequencies after the first one that can have the token.

    `mass` is the probability of the token, and `above` the probability of all larger ones together.
    """

    mass: Floats
    above: Floats

    @property
    def lengths(self) -> Ints:
        """The number of rows up to the last one in which each token has positive probability."""
        row_numbers = np.arange(1, len(self.mass) + 1)[:, None]
        positive_rows = row_numbers * (self.mass > 0)
        lengths: Ints = positive_rows.max(axis=0)
        return lengths

    def of(self, place: Ints) -> "Columns":
        """Return the columns of these tokens, without the rows after the longest support."""
        rows = int(self.lengths.max(initial=1))
        return Columns(self.mass[:rows, place], self.above[:rows, place])


def consecutive_supports(
    reporting: Law, grid: int, last: int
) -> Iterator[tuple[int, Floats, Floats]]:
    """Yield for each token, from 1 to `last` units of 1/grid, its first frequency and two arrays: from there on, its
    probability at each one, and this as a multiple of the probability of all tokens above it (0 if there is none).
    """
    window = support_length(reporting.per_key)
    at_once = max(_FEWEST, _BLOCK // window)
    for start in range(1, last + 1, at_once):
        stop = min(start + at_once, last + 1)
        cells = np.arange(start, stop, dtype=np.int64)
        columns, place = _whole_columns(cells, reporting, grid)
        no_odds = np.zeros_like(columns.mass)
        odds = np.divide(columns.mass, columns.above, out=no_odds, where=columns.above > 0)

        lengths = columns.lengths.tolist()
        masses_by_token = columns.mass.T.copy()
        odds_by_token = odds.T.copy()
        for cell, n in zip(cells.tolist(), place.tolist(), strict=True):
            first = first_frequency(cell, grid)
            defined_rows = reporting.sampling.largest - first + 1
            length = min(lengths[n], defined_rows)
            yield first, masses_by_token[n, :length], odds_by_token[n, :length]


def supports(cells: Ints, reporting: Law, grid: int) -> tuple[Ints, Floats]:
    """Return, for any n tokens, the frequencies [n, m] from its first one on, and its probability under each [n, m].

    >>> from dpsample import KeepAll, Privacy
    >>> from dpsample.scheme.reporting import Reporting
    >>> frequencies, mass = supports(np.array([10**9]), Reporting.of(KeepAll(), Privacy(1, 1e-6)), grid=1)
    >>> int(frequencies[0, mass[0].argmax()])
    1000000013
    """
    columns, place = _whole_columns(cells, reporting, grid)
    mass = columns.of(place).mass.T
    frequencies = _frequencies(cells, grid, mass.shape[1])
    largest = reporting.sampling.largest
    is_defined = frequencies <= largest
    return np.where(is_defined, frequencies, largest), np.where(is_defined, mass, 0.0)


def exceedances(cells: Ints, reporting: Law, grid: int) -> tuple[Ints, Floats, Floats, Floats]:
    """Return, for any n tokens, the frequencies [n, m] and probabilities [n, m] of `supports`, and two probabilities
    that a reported key of each has a token above it, or at least it [n, m]. Both grow with the frequency, to 1.

    >>> from dpsample import KeepAll, Privacy
    >>> from dpsample.scheme.reporting import Reporting
    >>> frequencies, _, above, from_it = exceedances(np.array([30]), Reporting.of(KeepAll(), Privacy(1, 1e-6)), grid=1)
    >>> int(frequencies[0, np.argmax(from_it[0] >= 0.025)])  # a rarer key has a token of 30 or more in 2.5 % or less
    40
    """
    columns, place = _whole_columns(cells, reporting, grid)
    chosen = columns.of(place)
    mass = chosen.mass.T
    above = chosen.above.T
    every_row = _frequencies(cells, grid, mass.shape[1])
    frequencies = np.minimum(every_row, reporting.sampling.largest)
    pi = np.maximum(reporting.probabilities(frequencies), _TINY)
    token_above = np.minimum(above / pi, 1.0)
    token_at_least = np.minimum((above + mass) / pi, 1.0)
    return frequencies, mass, token_above, token_at_least


def _frequencies(cells: Ints, grid: int, rows: int) -> Ints:
    """Return the frequencies [token, k] of the rows of each token's column."""
    first = first_frequency(cells, grid)
    frequencies: Ints = first[:, None] + np.arange(rows, dtype=np.int64)
    return frequencies


def _whole_columns(cells: Ints, reporting: Law, grid: int) -> tuple[Columns, Ints]:
    """Return the columns of distinct tokens over all of their supports, and the place of each token among these.

    The column of a token has its probability at each frequency, from the token's first frequency on. Tokens that first
    occur beyond the frequency from which pi is constant have the column of the first such token, shifted: as rows are
    counted from the first frequency, it is the same column.
    """
    shift = np.maximum(first_frequency(cells, grid) - reporting.constant_from, 0)
    distinct, place = np.unique(cells - shift * grid, return_inverse=True)
    window = support_length(reporting.per_key)
    columns = Columns(*reporting.columns(distinct, grid, window))
    while columns.mass[-1].any():  # some support goes on beyond the last row
        window *= 2
        columns = Columns(*reporting.columns(distinct, grid, window))
    return columns, place
