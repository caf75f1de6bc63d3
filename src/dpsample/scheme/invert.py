"""The token of a single key, without its row.

A row costs O(L**2). Where few keys share a frequency it is cheaper to go back from the number v that a key drew to the
row at which its token is new, in O(L), and then forward again from that token's two boundaries to see that v lies
between them. The way forward is the arithmetic of `tail_map.advance`, so both give the same boundaries.
"""

from typing import TYPE_CHECKING

import numpy as np

from dpsample.scheme.law import support_length
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.tail_map import Slacks, advance

if TYPE_CHECKING:
    from dpsample.scheme.reporting import Reporting

_BLOCK = 1 << 18  # rows times keys at once: arrays of 2 MB
# keys at once, at least: with fewer, a step of numpy costs more than the keys; it matters below epsilon = 0.007
_LEAST = 64
_MORE_ROWS = 32  # than a support is long nearly always; an older token is decided exactly, which takes longer
_TINY = 1e-300  # keeps ratios of zeros defined


def locate_by_tail_map(
    frequencies: Ints, v: Floats, reporting: "Reporting", grid: int
) -> tuple[Ints, Floats, Floats]:
    """Return the token of each key, and the boundaries of the part of [0, 1] that draws it, as `Law.locate` does.

    A key of frequency i draws the token whose part holds its v, uniform in [0, 1]: `above` < v <= `from_it`, the
    probabilities of larger tokens, and of this one or larger. Boundaries are followed row by row, at most `window` rows
    back, which is as far as a token's support reaches. Keys are taken in blocks, which bounds memory.
    """
    window = support_length(reporting.privacy) + _MORE_ROWS
    keys_at_once = max(_LEAST, _BLOCK // window)
    cells = np.empty(frequencies.shape, np.int64)
    above = np.empty_like(v)
    from_it = np.empty_like(v)
    for start in range(0, len(frequencies), keys_at_once):
        part = slice(start, start + keys_at_once)
        located = _locate(frequencies[part], v[part], reporting, grid, window)
        cells[part], above[part], from_it[part] = located
    return cells, above, from_it


def _locate(
    i: Ints, v: Floats, reporting: "Reporting", grid: int, window: int
) -> tuple[Ints, Floats, Floats]:
    """Return the token whose boundaries enclose v at frequency i, and these, if it is at most `window` rows old."""
    rows_before = np.arange(window, -1, -1, dtype=np.int64)[:, None]
    slacks = reporting.slacks(np.maximum(i - rows_before, 0))

    # back to the row at which the boundary at v was new: it is between two tokens of that row
    back, share = _origin(v, reporting, slacks)
    cell_in_row = (share * grid).astype(np.int64)
    k = np.minimum(cell_in_row, grid - 1)
    token = (i - back) * grid - k

    # forward again, from the boundaries of that token
    share_above = np.array([k, k + 1]) / grid
    above, from_it = _boundaries_now(back, share_above, reporting, slacks)
    return token, above, from_it


def _origin(v: Floats, reporting: "Reporting", slacks: Slacks) -> tuple[Ints, Floats]:
    """Return how many rows ago the boundary that is now at v was new, and which share of the new mass was above it.

    This is the tail map inverted, row by row. S and the gap to pi are both followed, each where it is the smaller.
    """
    pi, a, c, d = slacks
    E = reporting.growth + 1
    delta = float(reporting.privacy.delta)
    window = len(pi) - 1
    S = v.copy()
    gap = np.maximum(pi[-1] - v, 0)
    back = np.full(v.shape, -1, np.int64)  # -1: older than the rows so far
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
        is_gap_smaller = gap < S
        S = np.where(is_gap_smaller, pi[before] - gap_before, S_before)
        gap = np.where(is_gap_smaller, gap_before, pi[before] - S_before)
        S = np.maximum(S, 0)
        gap = np.maximum(gap, 0)
    return np.maximum(back, 0), share


def _boundaries_now(
    back: Ints, share_above: Floats, reporting: "Reporting", slacks: Slacks
) -> Floats:
    """Return S at the last row of boundaries [n, key] that were new `back` rows before, with these shares above."""
    window = len(slacks.pi) - 1
    row_when_new = (window - back)[None]
    pi_when_new: Floats = np.take_along_axis(slacks.pi, row_when_new, 0)[0]
    delta = float(reporting.privacy.delta)
    S: Floats = share_above * np.minimum(pi_when_new, delta)
    oldest = window - int(back.max(initial=0))
    for row in range(oldest + 1, window + 1):
        was_new_before = window - row < back
        advanced = advance(S, reporting, slacks.pi[row], slacks.d[row - 1])
        S = np.where(was_new_before, advanced, S)
    return S
