"""The token of a single key, without its row.

A row costs O(L**2); where few keys share a frequency it is cheaper to go back from the drawn number to the row at which
its token is new, in O(L), and then forward again from that token's two boundaries to see that the number lies between
them. The way forward is the same arithmetic as that of `tokens`, so both give the same boundaries.
"""

import numpy as np

from dpsample.scheme.noise import NoiseReporting
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.tokens import advance, support_length

_BLOCK = 1 << 18  # rows times keys at once
_TINY = 1e-300  # keeps ratios of zeros defined
_LEAST = 64  # keys at once: with fewer, a step of numpy costs more than the keys; it matters below epsilon = 0.007


def locate(frequencies: Ints, v: Floats, reporting: Reporting, grid: int) -> tuple[Ints, Floats, Floats]:
    """For each key, the token (in units of 1/grid) whose boundaries enclose v, and these: S above the token, and above
    the next lower one.

    v is uniform in [0, q_i), end to end, and must lie below pi_i. A v that does not lie between the two boundaries that
    are returned was too close to one for float arithmetic; the caller decides it exactly.
    """
    if isinstance(reporting, NoiseReporting):
        return reporting.locate(frequencies, v)
    cells = np.empty(frequencies.shape, np.int64)
    above, upto = np.empty_like(v), np.empty_like(v)
    window = support_length(reporting.privacy) + 32
    size = max(_LEAST, _BLOCK // window)
    for start in range(0, len(frequencies), size):
        part = slice(start, start + size)
        cells[part], above[part], upto[part] = _locate(frequencies[part], v[part], reporting, grid, window)
    return cells, above, upto


def _locate(i: Ints, v: Floats, reporting: Reporting, grid: int, window: int) -> tuple[Ints, Floats, Floats]:
    E, delta = reporting.growth + 1, float(reporting.privacy.delta)
    pi, a, c, d = reporting.slacks(np.maximum(i - np.arange(window, -1, -1, dtype=np.int64)[:, None], 0))
    # back: the tail map inverted, S and gap each where it is the smaller
    S, gap = v.copy(), np.maximum(pi[-1] - v, 0)
    back = np.full(i.shape, -1, np.int64)  # rows from i back to the token's first frequency
    share = np.zeros_like(v)
    for step in range(window):
        row = window - step
        mass = np.minimum(delta, pi[row])
        new = (back < 0) & (mass >= S)
        back[new] = step
        share[new] = S[new] / np.maximum(mass[new], _TINY)
        if (back >= 0).all():
            break
        by_gap = gap < S
        older_gap = np.minimum((gap + a[row - 1]) / E, (gap + c[row - 1]) * E)
        older_S = np.maximum((S - delta) / E, (S - d[row - 1]) * E)
        S = np.maximum(np.where(by_gap, pi[row - 1] - older_gap, older_S), 0)
        gap = np.maximum(np.where(by_gap, older_gap, pi[row - 1] - older_S), 0)
    k = np.minimum((share * grid).astype(np.int64), grid - 1)
    back = np.maximum(back, 0)
    above, upto = _advance(back, np.array([k, k + 1]) / grid, pi, d, reporting, window)
    return (i - back) * grid - k, above, upto


def _advance(back: Ints, share: Floats, pi: Floats, d: Floats, reporting: Reporting, window: int) -> Floats:
    """S at row i of boundaries [n, key] that were new `back` rows before, with this share of the new mass above."""
    first: Floats = np.take_along_axis(pi, (window - back)[None], 0)[0]
    S: Floats = share * np.minimum(first, float(reporting.privacy.delta))
    for row in range(window - int(back.max(initial=0)) + 1, window + 1):
        S = np.where(window - row < back, advance(S, reporting, pi[row], d[row - 1]), S)
    return S
