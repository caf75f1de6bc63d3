"""Functionals of a sum: the token values that estimate it, its variance, and what keys below the threshold add.

They are costly, the same for all tallies of about as many keys, and computed when they are first used.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from dpsample.estimators.calibration import Calibration, Function
from dpsample.estimators.extrapolation import Kernel, kernels_of
from dpsample.estimators.functional import Functional
from dpsample.estimators.tuning import TUNING, Tuning
from dpsample.scheme.sampling import Floats, Ints


def round_up_key_count(keys: float, tuning: Tuning = TUNING) -> int:
    """Round a number of reported keys up, so that few functionals serve all tallies.

    >>> [round_up_key_count(keys) for keys in (3, 101, 400, 10**6)]
    [100, 316, 1000, 1000000]
    """
    per_decade = tuning.key_counts_per_decade
    exponent = np.log10(max(keys, tuning.least_key_count))
    rounded_up = np.ceil(per_decade * exponent) / per_decade
    return int(10**rounded_up)


@dataclass(frozen=True, eq=False)
class SumFunctionals:
    """The functionals that estimate the sum of `of` and its error, for about `keys` reported keys.

    Variances are known up to about the frequency `largest`.
    """

    calibration: Calibration
    of: Function
    keys: int
    largest: int

    @cached_property
    def total(self) -> Functional:
        """The functional of the sum."""
        return _least_error(self.calibration, self.of, self.keys)

    @cached_property
    def kernels(self) -> list[Kernel]:
        """The estimators of the density of keys just above the threshold."""
        return kernels_of(self.total, self.keys)

    @cached_property
    def variance(self) -> Functional:
        """The functional of the variance of the sum."""
        computed_variance = self.total.error_product(self.total, self.largest)

        def variance(i: Ints) -> Floats:
            return np.maximum(computed_variance(i), 0.0)

        return Functional(self.calibration, variance, self.variance_keys)

    @cached_property
    def covariance(self) -> Functional:
        """The functional of the covariance of the sum and its variance."""
        covariance = self.total.covariance(self.variance, self.largest)
        return Functional(self.calibration, covariance, self.variance_keys)

    @property
    def variance_keys(self) -> float:
        """The number of keys that functionals of variances are made for."""
        if self.calibration.balanced:
            return self.calibration.tuning.balanced_keys
        return self.calibration.tuning.variance_penalty_factor * self.keys

    @cached_property
    def squared_variance(self) -> Floats:
        """For each token, the posterior mean of the square of a key's estimated variance."""
        frequencies = self.calibration.frequencies
        squares = self.calibration.laws @ self.variance.table_values**2

        def mean_square(i: Ints) -> Floats:
            return np.interp(i, frequencies, squares)

        return self.calibration.posterior_mean_table(mean_square)

    @cached_property
    def residual_bias(self) -> Function:
        """The size of the bias that one key's value in the sum has left, at each frequency."""
        return self.total.residual_bias(self.largest)

    @cached_property
    def bias_allowance(self) -> Floats:
        """The posterior mean of this bias, for each token."""
        return self.calibration.posterior_mean_table(self.residual_bias)


@lru_cache(maxsize=64)
def sum_functionals(
    calibration: Calibration, of: Function, keys: int, largest: int
) -> SumFunctionals:
    """Return the functionals of a sum, which are kept."""
    return SumFunctionals(calibration, of, keys, largest)


def _least_error(calibration: Calibration, of: Function, keys: int) -> Functional:
    """Return the functional of a sum; for bounded noise, that of the shortest interval.

    Bounded noise is nearly normal. There bias is balanced, or traded for variance.
    To undo normal noise costs ever more variance the sharper the function is. So the bias that is left in is chosen by
    the half-width of the interval, of which it is a part: two standard errors, and the bias. Keys are taken to be
    distributed by Zipf's law, whose density falls with the square of the frequency.
    """
    tuning = calibration.tuning
    if calibration.balanced:
        return Functional(calibration, of, tuning.balanced_keys)
    if not calibration.reporting.bell_shaped:
        return Functional(calibration, of, keys)
    above = ~calibration.below
    density = calibration.frequencies[above] ** -2.0
    keys_at = density * (keys / density.sum())

    def half_width(total: Functional) -> float:
        variance = np.maximum(total.variances[above], 0)
        bias = np.abs(total.bias[above])
        standard_error = math.sqrt(keys_at @ variance)
        return float(2 * standard_error + keys_at @ bias)

    factors = tuning.normal_noise_penalties
    candidates = (Functional(calibration, of, keys * factor) for factor in factors)
    return min(candidates, key=half_width)
