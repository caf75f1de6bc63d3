"""Intervals: the estimate of a sum with its errors, and the width of its confidence interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from dpsample.estimators.tuning import TUNING, Tuning
from dpsample.scheme.sampling import Floats

_TINY = 1e-300  # keeps ratios of zeros defined


@dataclass(frozen=True)
class SumEstimate:
    """The estimate of a sum over the selected keys: above the calibration threshold, and extrapolated below it.

    Effective numbers of keys are squares of a sum of variances over the sum of their squares (Kish).
    """

    above: float  # the sum over keys above the threshold, nearly without bias
    standard_error: float  # of `above`
    bias_allowance: float = 0.0  # the bias that `above` may have
    effective_keys: float = math.inf  # of the standard error
    variance_keys: float = math.inf  # of the estimated variance: half its degrees of freedom
    # the same before the variance was raised because few keys determine it
    raw_variance_keys: float = math.inf
    variance_slope: float = 0.0  # by how much the variance is larger where `above` is larger by one
    # the share of the variance that stands for one key that may not have been reported
    unreported_share: float = 0.0
    unreported_slope: float = 0.0  # and its slope; both matter above `above`, not below
    # the sum below the threshold; negative if keys from below it were counted above it
    extrapolated: float = 0.0
    extrapolated_error: float = 0.0  # its standard error, if the density continues
    tuning: Tuning = TUNING

    @property
    def value(self) -> float:
        """The estimate of the sum."""
        return self.above + self.extrapolated

    @property
    def rests_on_enough_keys(self) -> bool:
        """Whether enough keys determine the error, and none that may not have been reported does."""
        tuning = self.tuning
        enough_for_error = self.effective_keys >= tuning.least_effective_keys
        enough_for_variance = self.raw_variance_keys >= tuning.least_variance_keys
        rests_on_reported = self.unreported_share <= tuning.largest_unreported_share
        return enough_for_error and enough_for_variance and rests_on_reported

    @property
    def extrapolation_is_negligible(self) -> bool:
        """Whether the extrapolation is small against the standard error."""
        limit = self.tuning.negligible_extrapolation * self.standard_error
        return abs(self.extrapolated) <= limit

    def overcount(self, level: float) -> tuple[float, float]:
        """Return how much of `above` keys from below the threshold contribute: an estimate, and an upper bound."""
        estimate = max(-self.extrapolated, 0.0)
        if not estimate:
            return 0.0, 0.0
        error = normal_margin(level) * self.extrapolated_error
        return estimate, self.tuning.overcount_factor * estimate + error

    def interval(self, level: float) -> tuple[float, float]:
        """Return bounds of the sum: the range below the threshold may hold nothing, or as much as is extrapolated."""
        low, high = self.interval_above(level)
        if self.extrapolation_is_negligible:
            return low, high
        if self.extrapolated < 0:
            _, at_most = self.overcount(level)
            return low - at_most, high
        error = normal_margin(level) * self.extrapolated_error
        return low, high + self.extrapolated + error

    def interval_above(self, level: float) -> tuple[float, float]:
        """Return bounds of the sum over keys above the threshold: a test inverted, as in Wilson's interval of a share.

        If few keys happened to be reported, both `above` and its standard error are too small. So a sum that is larger
        by d is tested with the variance to be expected then, ``standard_error**2 + variance_slope * d``. The error of
        the variance is met by Student's distribution with two degrees of freedom for each effective key
        (docs/theory.md, section 7, The interval).

        The ends are the solutions of ``d**2 = t**2 standard_error**2 + t**2 variance_slope d``. With s half of the last
        factor, that is ``d = s -+ sqrt(t**2 standard_error**2 + s**2)``.
        """
        degrees_of_freedom = np.array(2 * self.variance_keys)
        t = float(student_quantile(0.5 + level / 2, degrees_of_freedom))
        square = (t * self.standard_error) ** 2

        # a key that may not have been reported would only add to the sum: the lower end leaves it out
        square_below = square * (1 - self.unreported_share)
        half_slope_below = t * t * self.variance_slope / 2
        distance_below = math.sqrt(square_below + half_slope_below**2)
        low = self.above + half_slope_below - distance_below

        slope_above = self.variance_slope + self.unreported_slope
        half_slope_above = t * t * slope_above / 2
        distance_above = math.sqrt(square + half_slope_above**2)
        high = self.above + half_slope_above + distance_above
        return low - self.bias_allowance, high + self.bias_allowance


def added(parts: Sequence[SumEstimate]) -> SumEstimate:
    """Return the estimate of the sum of independent ones: values, variances and their slopes add up.

    >>> added([SumEstimate(10.0, 3.0, effective_keys=8.0), SumEstimate(5.0, 4.0, effective_keys=8.0)]).standard_error
    5.0
    """
    variance = np.array([part.standard_error**2 for part in parts])
    total = float(variance.sum())

    def column(name: str) -> list[float]:
        return [getattr(part, name) for part in parts]

    def effective(name: str) -> float:
        """Return the effective number of keys of the total, from those of the parts: variance**2 / keys adds up."""
        keys = np.maximum(column(name), _TINY)
        square = float((variance**2 / keys).sum())
        return total**2 / max(square, _TINY)

    def weighted_mean(name: str) -> float:
        """Return the mean of a share or slope of the variance, by the variance."""
        return float(variance @ column(name)) / max(total, _TINY)

    return SumEstimate(
        above=sum(column("above")),
        standard_error=math.sqrt(total),
        bias_allowance=sum(column("bias_allowance")),
        effective_keys=effective("effective_keys"),
        variance_keys=effective("variance_keys"),
        raw_variance_keys=effective("raw_variance_keys"),
        variance_slope=weighted_mean("variance_slope"),
        unreported_share=weighted_mean("unreported_share"),
        unreported_slope=weighted_mean("unreported_slope"),
        extrapolated=sum(column("extrapolated")),
        extrapolated_error=math.hypot(*column("extrapolated_error")),
        tuning=parts[0].tuning,
    )


def normal_margin(level: float) -> float:
    """Return how many standard errors the ends of a normal interval are from its middle."""
    return NormalDist().inv_cdf(0.5 + level / 2)


def student_quantile(probability: float, degrees_of_freedom: Floats) -> Floats:
    """Return a quantile of Student's distribution, for each number of degrees of freedom.

    By its expansion around the normal quantile z (Cornish and Fisher), up to the second order. Fewer than 2 degrees of
    freedom, for which the expansion is far off, count as 2.
    """
    z = NormalDist().inv_cdf(probability)
    n = np.maximum(degrees_of_freedom, 2.0)
    first_polynomial = z**3 + z
    second_polynomial = 5 * z**5 + 16 * z**3 + 3 * z
    first_order = first_polynomial / (4 * n)
    second_order = second_polynomial / (96 * n**2)
    return np.asarray(z + first_order + second_order)
