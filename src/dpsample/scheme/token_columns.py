"""Token columns: the probability of one token at each frequency of its support.

`tokens` goes along a row, all tokens of one frequency; this goes along a column, all frequencies of one token. The map
is the same.
"""

from collections.abc import Iterator

import numpy as np

from dpsample.scheme.reporting import OwnLaws, Reporting
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.tokens import advance, first_frequency, support_length

_BLOCK = 1 << 19  # rows times tokens at once


def consecutive_supports(reporting: Reporting, grid: int, last: int) -> Iterator[tuple[int, Floats, Floats]]:
    """Yield for each token, from 1 to `last` units of 1/grid, its first frequency and two arrays: from there on, its
    probability at each one, and this as a multiple of the probability of all tokens above it (0 if there is none).
    """
    window = support_length(reporting.per_key)
    size = max(64, _BLOCK // window)
    for start in range(1, last + 1, size):
        cells = np.arange(start, min(start + size, last + 1), dtype=np.int64)
        mass, above, place = _whole_columns(cells, reporting, grid, window)
        odds = np.divide(mass, above, out=np.zeros_like(mass), where=above > 0).T.copy()
        length = (np.arange(1, len(mass) + 1)[:, None] * (mass > 0)).max(axis=0).tolist()
        mass = mass.T.copy()
        for cell, n in zip(cells.tolist(), place.tolist(), strict=True):
            first = first_frequency(cell, grid)
            rest = min(length[n], reporting.sampling.largest - first + 1)
            yield first, mass[n, :rest], odds[n, :rest]


def supports(cells: Ints, reporting: Reporting, grid: int) -> tuple[Ints, Floats]:
    """Return, for any n tokens, the frequencies [n, m] from its first one on, and its probability under each [n, m].

    >>> from dpsample import KeepAll, Privacy
    >>> from dpsample.scheme.reporting import Reporting
    >>> frequencies, mass = supports(np.array([10**9]), Reporting.of(KeepAll(), Privacy(1, 1e-6)), grid=1)
    >>> int(frequencies[0, mass[0].argmax()])
    1000000013
    """
    mass, _, place = _whole_columns(cells, reporting, grid, support_length(reporting.per_key))
    mass = mass[: int((np.arange(1, len(mass) + 1)[:, None] * (mass > 0)).max(initial=1))].T[place]
    frequencies = first_frequency(cells, grid)[:, None] + np.arange(mass.shape[1], dtype=np.int64)
    defined = frequencies <= reporting.sampling.largest
    return np.where(defined, frequencies, reporting.sampling.largest), np.where(defined, mass, 0.0)


def exceedances(cells: Ints, reporting: Reporting, grid: int) -> tuple[Ints, Floats, Floats, Floats]:
    """Return, for any n tokens, the frequencies [n, m] and probabilities [n, m] of `supports`, and two probabilities
    that a reported key of each has a token above it, or at least it [n, m]. Both grow with the frequency, to 1.

    >>> from dpsample import KeepAll, Privacy
    >>> from dpsample.scheme.reporting import Reporting
    >>> frequencies, _, above, from_it = exceedances(np.array([30]), Reporting.of(KeepAll(), Privacy(1, 1e-6)), grid=1)
    >>> int(frequencies[0, np.argmax(from_it[0] >= 0.025)])  # of rarer keys, tokens are hardly ever as large
    40
    """
    mass, above, place = _whole_columns(cells, reporting, grid, support_length(reporting.per_key))
    last = int((np.arange(1, len(mass) + 1)[:, None] * (mass > 0)).max(initial=1))
    frequencies = first_frequency(cells, grid)[:, None] + np.arange(last, dtype=np.int64)
    frequencies = np.minimum(frequencies, reporting.sampling.largest)
    pi = np.maximum(reporting.probabilities(frequencies), 1e-300)
    mass, above = mass[:last].T[place], above[:last].T[place]
    return frequencies, mass, np.minimum(above / pi, 1.0), np.minimum((above + mass) / pi, 1.0)


def _whole_columns(cells: Ints, reporting: Reporting, grid: int, window: int) -> tuple[Floats, Floats, Ints]:
    """As `_columns`, over all of their support; and where each token is found in it."""
    # new where pi is constant: a shift of the first such row
    shift = np.maximum(first_frequency(cells, grid) - reporting.constant_from, 0)
    walked, place = np.unique(cells - shift * grid, return_inverse=True)
    mass, above = _columns(walked, reporting, grid, window)
    while mass[-1].any():
        window *= 2
        mass, above = _columns(walked, reporting, grid, window)
    return mass, above, place


def _columns(cells: Ints, reporting: Reporting, grid: int, window: int) -> tuple[Floats, Floats]:
    """For ascending tokens, the probability of each, k rows after its first, and of all above it: shape (k, tokens)."""
    if isinstance(reporting, OwnLaws):
        return reporting.columns(cells, grid, window)
    delta, E, end = float(reporting.privacy.delta), reporting.growth + 1, reporting.sampling.largest
    first = first_frequency(cells, grid)
    spans = np.flatnonzero(np.diff(first, prepend=first[:1] - window - 2) > window)  # rows that nobody reaches between
    ends = np.append(first[spans[1:] - 1], first[-1:]) + window
    reached = np.concatenate([np.arange(a, b + 1) for a, b in zip(first[spans].tolist(), ends.tolist(), strict=True)])
    pis, *slacks = reporting.slacks(np.minimum(reached, end))
    share = (first * grid - cells) / grid
    # of both boundaries, (2, tokens): S and, where that is the smaller, the gap to pi; as in `tokens`
    at = np.searchsorted(reached, first)
    pi = pis[at]
    S = np.array([share, share + 1 / grid]) * np.minimum(delta, pi)
    gap = pi - S
    mass, above = np.zeros((2, window + 1, cells.size))
    mass[0], above[0] = S[1] - S[0], S[0]
    for k in range(1, window + 1):
        a, c, d = (slack[at + k - 1] for slack in slacks)
        pi = pis[at + k]
        S = advance(S, reporting, pi, d)
        kept = np.maximum(gap + (gap * reporting.growth - a), reporting.stay * gap - (gap * reporting.rate + c))
        gap = np.where((pi - S) * E > S, pi - S, np.maximum(kept, 0))
        mass[k] = np.where(S[1] <= gap[0], S[1] - S[0], gap[0] - gap[1])
        above[k] = S[0]
    np.maximum(mass, 0, out=mass)
    return mass, above
