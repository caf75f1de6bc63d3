"""The paper's estimator: maximum likelihood."""

import numpy as np
from numpy.typing import ArrayLike

from dpsample.estimators.measures import Measure
from dpsample.scheme.likelihood import likeliest_frequencies
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import reporting_probabilities
from dpsample.scheme.sampling import Floats, Sampling, as_frequencies


def mle(
    cells: ArrayLike,
    sampling: Sampling,
    privacy: PerKey,
    grid: int = 1,
    of: Measure | str = "frequency",
) -> Floats:
    """Return the paper's estimate for each token: ``g(i) / pi_i`` at the frequency i at which the token is likeliest.

    `cells` are tokens in units of 1/grid, and `of` is g. Summed over the reported keys of any selection, it estimates
    the selection's number of elements: dividing by pi makes up for the keys that were not reported.

    >>> from dpsample import KeepAll, Privacy
    >>> mle([1, 1000], KeepAll(), Privacy(1, 1e-6)).round(2)
    array([  20., 1013.])
    """
    tokens = as_frequencies(cells)
    distinct, back = np.unique(tokens, return_inverse=True)
    i = likeliest_frequencies(distinct, sampling, privacy, grid)
    pi = reporting_probabilities(i, sampling, privacy)
    g = Measure.of(of)
    estimates: Floats = g(i) / pi
    return estimates[back].reshape(tokens.shape)
