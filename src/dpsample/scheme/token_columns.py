"""Token columns: the probability of one token at each frequency of its support.

`tokens` goes along a row, all tokens of one frequency; this goes along a column, all frequencies of one token. The map
is the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpsample.scheme.reporting import OwnLaws, Reporting
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.tokens import advance, first_frequency, support_length

_BLOCK = 1 << 19  # rows times tokens at once
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
        lengths: Ints = (row_numbers * (self.mass > 0)).max(axis=0)
        return lengths

    def of(self, place: Ints) -> "Columns":
        """Return the columns of these tokens, without the rows after the longest support."""
        rows = int(self.lengths.max(initial=1))
        return Columns(self.mass[:rows, place], self.above[:rows, place])


def consecutive_supports(reporting: Reporting, grid: int, last: int) -> Iterator[tuple[int, Floats, Floats]]:
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
            defined = reporting.sampling.largest - first + 1
            length = min(lengths[n], defined)
            yield first, masses_by_token[n, :length], odds_by_token[n, :length]


def supports(cells: Ints, reporting: Reporting, grid: int) -> tuple[Ints, Floats]:
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
    defined = frequencies <= largest
    return np.where(defined, frequencies, largest), np.where(defined, mass, 0.0)


def exceedances(cells: Ints, reporting: Reporting, grid: int) -> tuple[Ints, Floats, Floats, Floats]:
    """Return, for any n tokens, the frequencies [n, m] and probabilities [n, m] of `supports`, and two probabilities
    that a reported key of each has a token above it, or at least it [n, m]. Both grow with the frequency, to 1.

    >>> from dpsample import KeepAll, Privacy
    >>> from dpsample.scheme.reporting import Reporting
    >>> frequencies, _, above, from_it = exceedances(np.array([30]), Reporting.of(KeepAll(), Privacy(1, 1e-6)), grid=1)
    >>> int(frequencies[0, np.argmax(from_it[0] >= 0.025)])  # of rarer keys, tokens are hardly ever as large
    40
    """
    columns, place = _whole_columns(cells, reporting, grid)
    chosen = columns.of(place)
    mass, above = chosen.mass.T, chosen.above.T
    frequencies = np.minimum(_frequencies(cells, grid, mass.shape[1]), reporting.sampling.largest)
    pi = np.maximum(reporting.probabilities(frequencies), _TINY)
    token_above = np.minimum(above / pi, 1.0)
    token_at_least = np.minimum((above + mass) / pi, 1.0)
    return frequencies, mass, token_above, token_at_least


def _frequencies(cells: Ints, grid: int, rows: int) -> Ints:
    """Return the frequencies [token, k] of the rows of each token's column."""
    frequencies: Ints = first_frequency(cells, grid)[:, None] + np.arange(rows, dtype=np.int64)
    return frequencies


def _whole_columns(cells: Ints, reporting: Reporting, grid: int) -> tuple[Columns, Ints]:
    """Return the columns of distinct tokens over all of their supports, and where among these each token is.

    A token that is new where pi is constant has the column of the first such token, shifted.
    """
    shift = np.maximum(first_frequency(cells, grid) - reporting.constant_from, 0)
    walked, place = np.unique(cells - shift * grid, return_inverse=True)
    window = support_length(reporting.per_key)
    columns = _columns(walked, reporting, grid, window)
    while columns.mass[-1].any():  # some support goes on beyond the last row
        window *= 2
        columns = _columns(walked, reporting, grid, window)
    return columns, place


def _columns(cells: Ints, reporting: Reporting, grid: int, window: int) -> Columns:
    """Return the columns of ascending tokens, over `window` + 1 rows."""
    if isinstance(reporting, OwnLaws):
        return Columns(*reporting.columns(cells, grid, window))
    delta = float(reporting.privacy.delta)
    E = reporting.growth + 1
    first = first_frequency(cells, grid)
    rows = _rows_reached(first, window)
    pis, a_of, c_of, d_of = reporting.slacks(np.minimum(rows, reporting.sampling.largest))
    at = np.searchsorted(rows, first)

    # [2, token]: S above the token, and above the next lower one; the gap to pi is kept beside S, since each of them
    # is precise where it is the smaller one (see `tokens`)
    share_above = (first * grid - cells) / grid
    share = np.array([share_above, share_above + 1 / grid])
    pi = pis[at]
    new_mass = np.minimum(delta, pi)
    S = share * new_mass
    gap = pi - S
    mass, above = np.zeros((2, window + 1, cells.size))
    mass[0], above[0] = S[1] - S[0], S[0]
    for k in range(1, window + 1):
        before = at + k - 1
        pi = pis[at + k]
        S = advance(S, reporting, pi, d_of[before])
        grown = gap + (gap * reporting.growth - a_of[before])
        shrunk = reporting.stay * gap - (gap * reporting.rate + c_of[before])
        followed = np.maximum(np.maximum(grown, shrunk), 0)
        difference = pi - S
        gap = np.where(difference * E > S, difference, followed)
        by_S = S[1] - S[0]
        by_gap = gap[0] - gap[1]
        mass[k] = np.where(S[1] <= gap[0], by_S, by_gap)
        above[k] = S[0]
    np.maximum(mass, 0, out=mass)
    return Columns(mass, above)


def _rows_reached(first: Ints, window: int) -> Ints:
    """Return all frequencies that are at most `window` after one of these first frequencies, which ascend."""
    before_all = first[:1] - window - 2
    begins_span = np.flatnonzero(np.diff(first, prepend=before_all) > window)
    starts = first[begins_span]
    ends = np.append(first[begins_span[1:] - 1], first[-1:]) + window
    spans = []
    for start, end in zip(starts, ends, strict=True):
        spans.append(np.arange(start, end + 1))
    return np.concatenate(spans)
