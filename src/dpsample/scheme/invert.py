"""The token of a single key, without its row.

A row costs O(L**2); where few keys share a frequency it is cheaper to go back from the drawn number to the row at which
its token is new, in O(L), and then forward again from that token's two boundaries to see that the number lies between
them. The way forward is the same arithmetic as that of `tokens`, so both give the same boundaries.
"""

from typing import TYPE_CHECKING

import numpy as np

from dpsample.scheme.law import Law, support_length
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.tail_map import advance

if TYPE_CHECKING:
    from dpsample.scheme.reporting import Reporting

Slacks = tuple[Floats, Floats, Floats, Floats]  # pi, a, c and d of rows; see `tail_map`
_BLOCK = 1 << 18  # rows times keys at once
_TINY = 1e-300  # keeps ratios of zeros defined
_LEAST = 64  # keys at once: with fewer, a step of numpy costs more than the keys; it matters below epsilon = 0.007


def locate(frequencies: Ints, v: Floats, reporting: Law, grid: int) -> tuple[Ints, Floats, Floats]:
    """For each key, the token (in units of 1/grid) whose boundaries enclose v, and these: S above the token, and above
    the next lower one.

    v is uniform in [0, q_i), end to end, and must lie below pi_i. A v that does not lie between the two boundaries that
    are returned was too close to one for float arithmetic; the caller decides it exactly.
    """
    return reporting.locate(frequencies, v, grid)


def locate_by_tail_map(
    frequencies: Ints, v: Floats, reporting: "Reporting", grid: int
) -> tuple[Ints, Floats, Floats]:
    """As `locate`, for tokens that follow from pi."""
    window = support_length(reporting.privacy) + 32
    size = max(_LEAST, _BLOCK // window)
    cells = np.empty(frequencies.shape, np.int64)
    above = np.empty_like(v)
    upto = np.empty_like(v)
    for start in range(0, len(frequencies), size):
        part = slice(start, start + size)
        located = _locate(frequencies[part], v[part], reporting, grid, window)
        cells[part], above[part], upto[part] = located
    return cells, above, upto


def _locate(
    i: Ints, v: Floats, reporting: "Reporting", grid: int, window: int
) -> tuple[Ints, Floats, Floats]:
    """Return the token whose boundaries enclose v at frequency i, and these, if it is at most `window` rows old."""
    rows_before = np.arange(window, -1, -1, dtype=np.int64)[:, None]
    rows = np.maximum(i - rows_before, 0)
    slacks = reporting.slacks(rows)

    # back to the row at which the boundary at v was new: it is between two tokens of that row
    back, share = _origin(v, reporting, slacks)
    place_in_row = (share * grid).astype(np.int64)
    k = np.minimum(place_in_row, grid - 1)
    token = (i - back) * grid - k

    # forward again, from the boundaries of that token
    tokens_above = np.array([k, k + 1])
    above, upto = _advance(back, tokens_above / grid, reporting, slacks)
    return token, above, upto


def _origin(v: Floats, reporting: "Reporting", slacks: Slacks) -> tuple[Ints, Floats]:
    """Return how many rows ago the boundary that is now at v was new, and which share of the new mass was above it.

    This is the tail map inverted, row by row. S and the gap to pi are both followed, each where it is the smaller.
    """
    pi, a, c, d = slacks
    E, delta = reporting.growth + 1, float(reporting.privacy.delta)
    window = len(pi) - 1
    S, gap = v.copy(), np.maximum(pi[-1] - v, 0)
    back = np.full(v.shape, -1, np.int64)
    share = np.zeros_like(v)
    for step in range(window):
        row = window - step
        new_mass = np.minimum(delta, pi[row])
        is_new = (back < 0) & (new_mass >= S)
        back[is_new] = step
        share[is_new] = S[is_new] / np.maximum(new_mass[is_new], _TINY)
        if (back >= 0).all():
            break
        before = row - 1
        gap_before = np.minimum((gap + a[before]) / E, (gap + c[before]) * E)
        S_before = np.maximum((S - delta) / E, (S - d[before]) * E)
        gap_is_smaller = gap < S
        S = np.where(gap_is_smaller, pi[before] - gap_before, S_before)
        gap = np.where(gap_is_smaller, gap_before, pi[before] - S_before)
        S = np.maximum(S, 0)
        gap = np.maximum(gap, 0)
    return np.maximum(back, 0), share


def _advance(back: Ints, share: Floats, reporting: "Reporting", slacks: Slacks) -> Floats:
    """Return S at the last row of boundaries [n, key] that were new `back` rows before, with this share above."""
    pi, _, _, d = slacks
    window = len(pi) - 1
    delta = float(reporting.privacy.delta)
    row_when_new = (window - back)[None]
    pi_when_new: Floats = np.take_along_axis(pi, row_when_new, 0)[0]
    S: Floats = share * np.minimum(pi_when_new, delta)
    oldest = window - int(back.max(initial=0))
    for row in range(oldest + 1, window + 1):
        was_new_before = window - row < back
        S = np.where(was_new_before, advance(S, reporting, pi[row], d[row - 1]), S)
    return S
