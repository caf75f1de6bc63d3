"""Weighted sampling without privacy, the best that a private method could come close to."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpsample.comparison.accuracy import Errors
from dpsample.estimators.measures import Measure
from dpsample.scheme.sampling import Floats, Sampling, as_frequencies


@dataclass(frozen=True)
class NonPrivate:
    """A weighted sample with its true frequencies, and the inverse-probability estimate g(i) / q_i. NOT private.

    Bias 0, variance ``g(i)**2 (1 / q_i - 1)``; where q_i is 0, the key is never sampled.

    >>> from dpsample import Priority
    >>> NonPrivate(Priority("0.01")).errors([10, 50, 200]).variance
    array([ 900., 2500.,    0.])
    """

    sampling: Sampling

    def reported(self, frequencies: ArrayLike) -> Floats:
        """Return q, the probability that a key of each frequency is sampled."""
        return self.sampling.q(frequencies)

    def errors(self, frequencies: ArrayLike, of: Measure | str = "frequency") -> Errors:
        """Return bias and variance of the inverse-probability estimate."""
        i = as_frequencies(frequencies)
        g = Measure.of(of)(i)
        q = self.sampling.q(i)
        absent = self.sampling.complement(i)
        is_sampled = q > 0
        bias = np.where(is_sampled, 0.0, -g)
        spread = g**2 * absent / np.where(is_sampled, q, 1.0)
        variance = np.where(is_sampled, spread, 0.0)
        return Errors(frequencies=i, truth=g, reported=q, bias=bias, variance=variance)
