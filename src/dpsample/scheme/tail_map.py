"""The tail map: token laws from reporting probabilities, by one local map; docs/theory.md, section 3.

Let ``S_i(x)`` be the probability that a key of frequency i is reported with a token above x, and
``gap_i(x) = pi_i - S_i(x)`` that it is reported with one of at most x. Tokens in (i-1, i] are new
in row i, with mass min(delta, pi_i) spread evenly; for older ones, x <= i-1,

    S_i   = min(pi_i, E S_{i-1} + delta, S_{i-1} / E + d_i)
    gap_i = max(0,    E gap_{i-1} - a_i, gap_{i-1} / E - c_i)

    a_i = E pi_{i-1} + delta - pi_i                              what `grow` leaves unused at i
    c_i = min(delta / E, 1 - pi_i - (1 - pi_{i-1} - delta) / E)  the same for `shrink`
    d_i = pi_i - pi_{i-1} / E + c_i

Both lines are the same map, (3) of docs/theory.md. S always keeps its relative precision. The gap does where it
shrinks, which begins at E gap = S; before that it is pi_i - S_i. At integers x this is Algorithm 4 of the paper, at all
real x Algorithm 5, the optimum (corrected); a grid of 1/grid steps is a coarsening of the latter. The support of a
token is about 2 L rows long, so a row needs only that many rows before it, wherever it is (section 4, Locality).

A row has all tokens of one frequency, a column all frequencies of one token.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpsample.scheme.law import first_frequency, support_length
from dpsample.scheme.sampling import Floats, Ints

if TYPE_CHECKING:
    from dpsample.scheme.reporting import Reporting


class Slacks(NamedTuple):
    """pi of consecutive rows (first axis), and a, c and d of all but the first of these."""

    pi: Floats
    a: Floats
    c: Floats
    d: Floats


def rows(frequencies: Ints, reporting: "Reporting", grid: int) -> tuple[Floats, Floats]:
    """Return S and the gap to pi at x = i - k/grid, up to where all have reached pi: arrays of shape (k, frequency)."""
    window = support_length(reporting.per_key)
    while True:
        above, gap = _row_tails(frequencies, reporting, grid, window)
        oldest_gap = gap[-1]
        if (
            not oldest_gap.any()
        ):  # the oldest boundary has reached pi everywhere, so all older ones have
            return above, gap
        window *= 2


def cell_masses(above: Floats, gap: Floats) -> Floats:
    """Return the probabilities of cells from S and the gap at their boundaries: shape (k, frequency).

    Boundary k is at x = frequency - k / grid; between k and k + 1 lies the cell frequency * grid - k.
    """
    by_above = above[1:] - above[:-1]
    by_gap = gap[:-1] - gap[1:]
    return np.where(above[1:] <= gap[:-1], by_above, by_gap)


def advance(S: Floats, reporting: "Reporting", pi: Floats, d: Floats) -> Floats:
    """Return S one row later: ``min(pi, E S + delta, S / E + d)``.

    E S is computed as S + (E - 1) S, so that the rounding of E does not add up over the rows.
    """
    grown = S + (S * reporting.growth + float(reporting.privacy.delta))
    shrunk = reporting.stay * S - (S * reporting.rate - d)
    return np.minimum(np.minimum(grown, shrunk), pi)


class _Boundaries:
    """S and the gap to pi at the boundaries x = frequency - k/grid, which follow the rows: shape (k, frequency).

    The arithmetic is that of `advance`, without new arrays: rows of many frequencies take most of the time of a
    release.
    """

    def __init__(self, reporting: "Reporting", boundaries: int, frequencies: int) -> None:
        self._delta = float(reporting.privacy.delta)
        self._growth = reporting.growth
        self._rate = reporting.rate
        self._stays = bool(reporting.stay)
        self._E = reporting.growth + 1
        self.above = np.zeros((boundaries, frequencies))
        self.gap = np.zeros_like(self.above)
        self._grown = np.empty_like(self.above)
        self._shrunk = np.empty_like(self.above)

    def advance(self, old: slice, pi: Floats, a: Floats, c: Floats, d: Floats) -> None:
        """Take the old boundaries to the next row."""
        S = self.above[old]
        gap = self.gap[old]
        grown = self._grown[old]
        shrunk = self._shrunk[old]
        # S = min(pi, E S + delta, S / E + d)
        np.multiply(S, self._rate, out=shrunk)
        shrunk -= d
        np.subtract(S if self._stays else 0.0, shrunk, out=shrunk)
        np.multiply(S, self._growth, out=grown)
        grown += self._delta
        grown += S
        np.minimum(grown, shrunk, out=S)
        np.minimum(S, pi, out=S)
        # gap = max(0, E gap - a, gap / E - c)
        np.multiply(gap, self._rate, out=shrunk)
        shrunk += c
        np.subtract(gap if self._stays else 0.0, shrunk, out=shrunk)
        np.multiply(gap, self._growth, out=grown)
        grown -= a
        grown += gap
        np.maximum(grown, shrunk, out=gap)
        np.maximum(gap, 0, out=gap)
        # before the gap shrinks, that is while E gap > S, the difference is more precise
        difference = np.subtract(pi, S, out=shrunk)
        E_difference = np.multiply(difference, self._E, out=grown)
        np.copyto(gap, difference, where=E_difference > S)

    def begin(self, new: slice, share_above: Floats, pi: Floats) -> None:
        """Set the boundaries that are new in a row, of whose new mass these shares are above them."""
        self.above[new] = share_above * np.minimum(pi, self._delta)
        self.gap[new] = pi - self.above[new]


def _row_tails(
    frequencies: Ints, reporting: "Reporting", grid: int, window: int
) -> tuple[Floats, Floats]:
    """Return S and the gap at the boundaries x = frequency - k/grid that are new within a window of rows."""
    rows_before = np.arange(window, -1, -1, dtype=np.int64)[:, None]
    pi, a, c, d = reporting.slacks(np.maximum(frequencies - rows_before, 0))
    boundaries = _Boundaries(reporting, window * grid + 1, frequencies.size)
    share_above = (np.arange(grid) / grid)[:, None]
    for step in range(window):
        rows_after = window - 1 - step  # this row is that of i - rows_after
        first_old = (rows_after + 1) * grid
        boundaries.advance(slice(first_old, None), pi[step + 1], a[step], c[step], d[step])
        boundaries.begin(slice(first_old - grid, first_old), share_above, pi[step + 1])
    return boundaries.above, boundaries.gap


def columns(cells: Ints, reporting: "Reporting", grid: int, window: int) -> tuple[Floats, Floats]:
    """Return the mass of ascending tokens and S above them, over `window` + 1 rows: arrays of shape (k, token)."""
    E = reporting.growth + 1
    first = first_frequency(cells, grid)
    reached = _rows_reached(first, window)
    slacks = reporting.slacks(np.minimum(reached, reporting.sampling.largest))
    at = np.searchsorted(reached, first)

    # [2, token]: S above the token, and above the next lower one; the gap to pi is kept beside S, since each of them
    # is precise where it is the smaller one
    share_above = (first * grid - cells) / grid
    shares = np.array([share_above, share_above + 1 / grid])
    pi = slacks.pi[at]
    new_mass = np.minimum(float(reporting.privacy.delta), pi)
    S = shares * new_mass
    gap = pi - S
    mass, above = np.zeros((2, window + 1, cells.size))
    mass[0] = S[1] - S[0]
    above[0] = S[0]
    for k in range(1, window + 1):
        pi = slacks.pi[at + k]
        before = at + k - 1  # slacks have no first row
        S = advance(S, reporting, pi, slacks.d[before])
        grown = gap + (gap * reporting.growth - slacks.a[before])
        shrunk = reporting.stay * gap - (gap * reporting.rate + slacks.c[before])
        followed = np.maximum(np.maximum(grown, shrunk), 0)
        difference = pi - S
        gap = np.where(difference * E > S, difference, followed)
        by_S = S[1] - S[0]
        by_gap = gap[0] - gap[1]
        mass[k] = np.where(S[1] <= gap[0], by_S, by_gap)
        above[k] = S[0]
    return np.maximum(mass, 0), above


def _rows_reached(first: Ints, window: int) -> Ints:
    """Return all frequencies from one of these ascending first frequencies on, up to `window` after it."""
    before_all = first[:1] - window - 2
    begins_span = np.flatnonzero(np.diff(first, prepend=before_all) > window)
    starts = first[begins_span]
    last_of_span = np.append(first[begins_span[1:] - 1], first[-1:])
    spans = []
    for start, last in zip(starts, last_of_span, strict=True):
        spans.append(np.arange(start, last + window + 1))
    return np.concatenate(spans)
