"""The tail map: token laws from reporting probabilities, by one local map.

Let ``S_i(x)`` be the probability that a key of frequency i is reported with a token above x, and
``gap_i(x) = pi_i - S_i(x)`` that it is reported with one of at most x. Tokens in (i-1, i] are new
in row i, with mass min(delta, pi_i) spread evenly; for older ones, x <= i-1,

    S_i   = min(pi_i, E S_{i-1} + delta, S_{i-1} / E + d_i)
    gap_i = max(0,    E gap_{i-1} - a_i, gap_{i-1} / E - c_i)

    a_i = E pi_{i-1} + delta - pi_i                              what `grow` leaves unused at i
    c_i = min(delta / E, 1 - pi_i - (1 - pi_{i-1} - delta) / E)  the same for `shrink`
    d_i = pi_i - pi_{i-1} / E + c_i

Both lines are the same map. S always keeps its relative precision. The gap does where it shrinks, which begins at
E gap = S; before that it is pi_i - S_i. At integers x this is Algorithm 4 of the paper, at all real x Algorithm 5, the
optimum (corrected); a grid of 1/grid steps is a coarsening of the latter. The support of a token is
about 2 L rows long, so a row needs only that many rows before it, wherever it is.

A row has all tokens of one frequency, a column all frequencies of one token.
"""

from typing import TYPE_CHECKING

import numpy as np

from dpsample.scheme.law import first_frequency, support_length
from dpsample.scheme.sampling import Floats, Ints

if TYPE_CHECKING:
    from dpsample.scheme.reporting import Reporting


def rows(frequencies: Ints, reporting: "Reporting", grid: int) -> tuple[Floats, Floats]:
    """Return S and the gap to pi at x = i - k/grid, up to where all have reached pi: arrays of shape (k, frequency)."""
    window = support_length(reporting.per_key)
    while True:
        above, gap = _row_tails(frequencies, reporting, grid, window)
        if not gap[
            -1
        ].any():  # the oldest boundary has reached pi everywhere, so all older ones have
            return above, gap
        window *= 2


def cell_masses(above: Floats, gap: Floats) -> Floats:
    """Return the probabilities of cells from S and the gap at their boundaries: shape (k, frequency).

    Boundary k is at x = frequency - k / grid; between k and k + 1 lies the cell frequency * grid - k.
    """
    return np.where(above[1:] <= gap[:-1], above[1:] - above[:-1], gap[:-1] - gap[1:])


def advance(S: Floats, reporting: "Reporting", pi: Floats, d: Floats) -> Floats:
    """S one row later: ``min(pi, E S + delta, S / E + d)``.

    E S is computed as S + (E - 1) S, so that the rounding of E does not add up over the rows.
    """
    grown = S + (S * reporting.growth + float(reporting.privacy.delta))
    shrunk = reporting.stay * S - (S * reporting.rate - d)
    return np.minimum(np.minimum(grown, shrunk), pi)


def _row_tails(
    frequencies: Ints, reporting: "Reporting", grid: int, window: int
) -> tuple[Floats, Floats]:
    """S and gap at the boundaries x = frequency - k/grid: arrays of shape (k, frequency)."""
    delta, E = float(reporting.privacy.delta), reporting.growth + 1
    grow, rate = reporting.growth, reporting.rate
    above = np.zeros((window * grid + 1, frequencies.size))
    gap = np.zeros_like(above)
    spare, other = np.empty_like(above), np.empty_like(above)
    share = (np.arange(grid) / grid)[:, None]
    span = frequencies - np.arange(window, -1, -1, dtype=np.int64)[:, None]  # rows i - window .. i
    pi, a, c, d = reporting.slacks(np.maximum(span, 0))
    for step in range(window):
        back = window - 1 - step  # this row is i - back
        p = pi[step + 1]
        old = slice((back + 1) * grid, None)
        S, g, t, u = above[old], gap[old], spare[old], other[old]
        # as in `advance`, in place: S = min(p, E S + delta, S / E + d)
        np.multiply(S, rate, out=t)
        t -= d[step]
        np.subtract(S if reporting.stay else 0.0, t, out=t)
        np.multiply(S, grow, out=u)
        u += delta
        S += u
        np.minimum(S, t, out=S)
        np.minimum(S, p, out=S)
        # gap = max(0, E gap - a, gap / E - c)
        np.multiply(g, rate, out=t)
        t += c[step]
        np.subtract(g if reporting.stay else 0.0, t, out=t)
        np.multiply(g, grow, out=u)
        u -= a[step]
        g += u
        np.maximum(g, t, out=g)
        np.maximum(g, 0, out=g)
        np.subtract(p, S, out=t)
        np.multiply(t, E, out=u)
        np.copyto(g, t, where=u > S)
        new = slice(back * grid, (back + 1) * grid)
        above[new] = share * np.minimum(p, delta)
        gap[new] = p - above[new]
    return above, gap


def columns(cells: Ints, reporting: "Reporting", grid: int, window: int) -> tuple[Floats, Floats]:
    """Return the mass of ascending tokens and S above them, over `window` + 1 rows: arrays of shape (k, token)."""
    delta = float(reporting.privacy.delta)
    E = reporting.growth + 1
    first = first_frequency(cells, grid)
    reached = _rows_reached(first, window)
    pis, a_of, c_of, d_of = reporting.slacks(np.minimum(reached, reporting.sampling.largest))
    at = np.searchsorted(reached, first)

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
    return mass, above


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
