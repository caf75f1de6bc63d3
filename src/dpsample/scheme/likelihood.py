"""The frequency under which a token is most probable."""

import numpy as np
from numpy.typing import ArrayLike

from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import Ints, Sampling, as_frequencies
from dpsample.scheme.token_columns import supports
from dpsample.scheme.tokens import check_grid, first_frequency, support_length

_BLOCK = 1 << 17  # rows times tokens at once


def likeliest_frequencies(cells: ArrayLike, sampling: Sampling, privacy: PerKey, grid: int = 1) -> Ints:
    """Return the frequency i at which each token, in units of 1/grid, has its largest probability.

    A token's two boundaries are followed over its support. Tokens may be as large as frequencies.

    >>> from dpsample import KeepAll, Privacy
    >>> likeliest_frequencies([1, 10**9], KeepAll(), Privacy(1, 1e-6))
    array([        14, 1000000013])
    """
    distinct, back = np.unique(as_frequencies(cells), return_inverse=True)
    grid = check_grid(grid)
    reporting = Reporting.of(sampling, privacy)
    # new where pi is constant: a shift of the first such row
    shift = np.maximum(first_frequency(distinct, grid) - reporting.constant_from, 0)
    walked, place = np.unique(distinct - shift * grid, return_inverse=True)
    likeliest = np.empty(walked.shape, np.int64)
    size = max(1, _BLOCK // support_length(privacy))
    for start in range(0, len(walked), size):
        frequencies, mass = supports(walked[start : start + size], reporting, grid)
        likeliest[start : start + size] = frequencies[np.arange(len(mass)), mass.argmax(1)]
    # probabilities rise up to the likeliest frequency; where a sequence of q ends before it, its last one is that
    return np.minimum(likeliest[place] + shift, sampling.largest)[back].reshape(np.shape(cells))
