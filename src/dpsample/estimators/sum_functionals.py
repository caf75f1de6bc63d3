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
from dpsample.scheme.sampling import Floats


def round_up_key_count(keys: float, tuning: Tuning = TUNING) -> int:
    """Round a number of reported keys up, so that few functionals serve all tallies.

    >>> [round_up_key_count(keys) for keys in (3, 101, 400, 10**6)]
    [100, 316, 1000, 1000000]
    """
    per_decade = tuning.key_counts_per_decade
    return int(
        10 ** (np.ceil(per_decade * np.log10(max(keys, tuning.least_key_count))) / per_decade)
    )


@dataclass(frozen=True, eq=False)
class SumFunctionals:
    """The functionals that estimate a sum and its error, for about so many reported keys up to a largest frequency."""

    calibration: Calibration
    of: Function
    keys: int
    largest: int

    @cached_property
    def total(self) -> Functional:
        """The sum."""
        return _least_error(self.calibration, self.of, self.keys)

    @cached_property
    def kernels(self) -> list[Kernel]:
        """The densities just above the threshold."""
        return kernels_of(self.total, self.keys)

    @cached_property
    def variance(self) -> Functional:
        """The variance of the sum."""
        variance_at = self.total.error_product(self.total, self.largest)
        return Functional(
            self.calibration, lambda i: np.maximum(variance_at(i), 0.0), self.variance_keys
        )

    @cached_property
    def covariance(self) -> Functional:
        """The covariance of the sum and its variance."""
        return Functional(
            self.calibration, self.total.covariance(self.variance, self.largest), self.variance_keys
        )

    @property
    def variance_keys(self) -> float:
        """The number of keys that functionals of variances are made for."""
        if self.calibration.balanced:
            return self.calibration.tuning.balanced_keys
        return self.calibration.tuning.variance_penalty_factor * self.keys

    @cached_property
    def squared_variance(self) -> Floats:
        """For each token, the posterior mean of the square of a key's estimated variance."""
        squares = self.calibration.laws @ self.variance.table_values**2
        return self.calibration.posterior_mean_table(
            lambda i: np.interp(i, self.calibration.frequencies, squares)
        )

    @cached_property
    def residual_bias(self) -> Function:
        """The bias of the sum that is left, at each frequency."""
        return self.total.residual_bias(self.largest)

    @cached_property
    def bias_allowance(self) -> Floats:
        """The same for each token."""
        return self.calibration.posterior_mean_table(self.residual_bias)


@lru_cache(maxsize=64)
def sum_functionals(
    calibration: Calibration, of: Function, keys: int, largest: int
) -> SumFunctionals:
    """Return the functionals of a sum."""
    return SumFunctionals(calibration, of, keys, largest)


def _least_error(calibration: Calibration, of: Function, keys: int) -> Functional:
    """The functional of a sum. For bounded noise, which is nearly normal, biases are balanced, or traded for variance.

    To undo normal noise costs ever more variance the sharper the function is, so there the bias that is left in is
    chosen by the width of the interval, of which it is a part, for keys that are distributed by Zipf's law.
    """
    if calibration.balanced:
        return Functional(calibration, of, calibration.tuning.balanced_keys)
    if not calibration.reporting.bell_shaped:
        return Functional(calibration, of, keys)
    above = ~calibration.below
    weights = calibration.frequencies[above] ** -2.0
    weights *= keys / weights.sum()

    def width(total: Functional) -> float:
        variance, bias = np.maximum(total.variances[above], 0), np.abs(total.bias[above])
        return float(2 * math.sqrt(weights @ variance) + weights @ bias)

    return min(
        (
            Functional(calibration, of, keys * factor)
            for factor in calibration.tuning.normal_noise_penalties
        ),
        key=width,
    )
