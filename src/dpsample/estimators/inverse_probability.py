"""The estimator of a sample that is not private."""

import numpy as np
from numpy.typing import ArrayLike

from dpsample.estimators.measures import Measure
from dpsample.scheme.sampling import Floats, Sampling, as_frequencies


def inverse_probability(
    frequencies: ArrayLike, sampling: Sampling, of: Measure | str = "frequency"
) -> Floats:
    """Estimate from a non-private sample: ``g(i) / q_i`` for each sampled key, without bias. For comparison.

    A frequency with q = 0, which cannot be in a sample, gets 0.

    >>> from dpsample import Priority
    >>> inverse_probability([5, 500], Priority("0.01"))
    array([100., 500.])
    """
    i = as_frequencies(frequencies)
    q = sampling.q(i)
    g = Measure.of(of)
    estimate = np.zeros(i.shape)
    np.divide(g(i), q, out=estimate, where=q > 0)
    return estimate
