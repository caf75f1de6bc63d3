"""The frequency under which a token is most probable."""

import numpy as np
from numpy.typing import ArrayLike

from dpsample.privacy import Privacy
from dpsample.scheme.reporting import Reporting, reporting
from dpsample.scheme.sampling import Floats, Ints, Sampling, as_frequencies
from dpsample.scheme.tokens import check_grid, lifetime, moved

_BLOCK = 1 << 17  # rows times tokens at once


def likeliest_frequencies(cells: ArrayLike, sampling: Sampling, privacy: Privacy, grid: int = 1) -> Ints:
    """Return the frequency i at which each token, in units of 1/grid, has its largest probability.

    A token's two boundaries are followed from its birth until it has died out. Tokens may be as large as frequencies.

    >>> from dpsample import KeepAll, Privacy
    >>> likeliest_frequencies([1, 10**9], KeepAll(), Privacy(1, 1e-6))
    array([        14, 1000000013])
    """
    distinct, back = np.unique(as_frequencies(cells), return_inverse=True)
    grid = check_grid(grid)
    rows = reporting(sampling, privacy)
    birth = -(-distinct // grid)
    # born where pi is constant: a shift of the first such row
    shift = np.maximum(birth - rows.constant_from, 0)
    walked, place = np.unique(distinct - shift * grid, return_inverse=True)
    found = np.empty(walked.shape, np.int64)
    window = lifetime(privacy) + 32
    size = max(1, _BLOCK // window)
    for start in range(0, len(walked), size):
        found[start : start + size] = _likeliest(walked[start : start + size], rows, grid, window)
    return (found[place] + shift)[back].reshape(np.shape(cells))


def _likeliest(cells: Ints, rows: Reporting, grid: int, window: int) -> Ints:
    delta = float(rows.privacy.delta)
    birth = -(-cells // grid)
    end = rows.sampling.largest
    span = birth + np.arange(window + 1, dtype=np.int64)[:, None]
    defined = span <= end
    pi, _, _, d = rows.slacks(np.minimum(span, end))
    share = (birth * grid - cells) / grid
    above, upto = ((share + more) * np.minimum(delta, pi[0]) for more in (0.0, 1 / grid))
    best, most = birth.copy(), upto - above
    mass: Floats = most
    for step in range(1, window + 1):
        above, upto = (moved(S, rows, pi[step], d[step - 1]) for S in (above, upto))
        mass = np.where(defined[step], upto - above, 0.0)
        better = mass > most
        best[better], most[better] = span[step][better], mass[better]
    if (mass > 1e-9 * most).any():
        return _likeliest(cells, rows, grid, 2 * window)
    return best
