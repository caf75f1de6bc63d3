"""The error of a mean: that of the sum of the keys' deviations from it.

With S the sum and N the number of keys, the deviations from a mean v add up to S - v N. The variance of one key's
deviation, as of any linear combination of two random numbers, is

    Var[S - v N] = Var[S] - 2 v Cov[S, N] + v**2 Var[N].

The three moments on the right are the same functions of the frequency for all groups of keys; v is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dpsample.estimators.calibrated import (
    SumErrors,
    TokensOfGroups,
    functionals_of,
    sum_estimates,
    unreported_moments,
)
from dpsample.estimators.calibration import Function
from dpsample.estimators.functional import Functional
from dpsample.estimators.intervals import SumEstimate
from dpsample.estimators.measures import Measure
from dpsample.estimators.sum_functionals import SumFunctionals
from dpsample.estimators.tally import Tallies, Tally
from dpsample.estimators.tuning import TUNING
from dpsample.scheme.sampling import Floats
from dpsample.scheme.scheme import Scheme

# The first step of a search for an end of an interval, where the estimated error is 0: a share of the mean, and above
# 0 even for a mean of 0. It keeps ratios defined; a larger one would move the ends that are found.
_LEAST_STEP_SHARE = 1e-9
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class _Moments:
    """Second moments of a sum S and a number of keys N: one of each for every token, or for every group."""

    sum_variance: Floats
    covariance: Floats
    number_variance: Floats

    def deviation_variance(self, v: Floats) -> Floats:
        """Return Var[S - v N] (module docstring)."""
        from_covariance = 2 * v * self.covariance
        from_number = v**2 * self.number_variance
        return np.asarray(self.sum_variance - from_covariance + from_number)


class Deviations:
    """The sums of the keys' deviations from the means of groups, none of them empty, with their errors.

    `summed` is the measure of which the mean is taken, and `counted` is 1 for the keys that count; other keys have 0.
    `keys` is as for `estimate_sums`.
    """

    def __init__(
        self,
        tallies: Sequence[Tally],
        scheme: Scheme,
        summed: Measure,
        counted: Measure,
        keys: int | None = None,
    ) -> None:
        groups = Tallies.of(tallies)
        of_sum = functionals_of(groups, scheme, summed, keys=keys)
        of_number = functionals_of(groups, scheme, counted, keys=keys)
        covariance = _covariance(of_sum, of_number)
        moments = [of_sum.variance, covariance, of_number.variance]
        moment_functions = [moment.function for moment in moments]
        biases = [of_sum.residual_bias, of_number.residual_bias]
        functions: list[Function] = [summed, counted, *moment_functions, *biases]
        tokens = TokensOfGroups(groups, of_sum.calibration, functions)

        self._groups = groups
        # of each token: its values for S and N, and the biases that these may have
        self._summed = tokens.values(of_sum.total.table_values, summed)
        self._counted = tokens.values(of_number.total.table_values, counted)
        self._summed_bias = tokens.values(of_sum.bias_allowance, of_sum.residual_bias)
        self._counted_bias = tokens.values(of_number.bias_allowance, of_number.residual_bias)
        # of each token: two estimates of its key's moments, one without bias, and a posterior mean
        unbiased = [tokens.values(moment.table_values, moment.function) for moment in moments]
        posterior = [tokens.values(moment.uncorrected, moment.function) for moment in moments]
        self._unbiased = _Moments(*unbiased)
        self._posterior = _Moments(*posterior)
        # of each group: the moments of one key that may not have been reported
        unreported = unreported_moments(groups, of_sum.calibration, moment_functions)
        self._unreported = _Moments(*unreported)

    def at(self, means: Floats) -> list[SumEstimate]:
        """Return the estimate of S - v N for each group, with v its mean: the sum of its keys' deviations from it."""
        groups = self._groups
        tokens_of_groups = np.diff(groups.starts, append=len(groups.cells))
        v = np.repeat(means, tokens_of_groups)  # of each token
        deviation = self._summed - v * self._counted
        bias = self._summed_bias + np.abs(v) * self._counted_bias

        unbiased = self._unbiased.deviation_variance(v)
        posterior = np.maximum(self._posterior.deviation_variance(v), 0.0)
        mean_square_weight = groups.sums(groups.squares) / groups.sums(groups.keys)
        unreported_variance = np.maximum(self._unreported.deviation_variance(means), 0.0)
        unreported = unreported_variance * mean_square_weight
        error = SumErrors.of(groups, posterior, unbiased, posterior**2, unreported, TUNING)
        above = groups.sums(groups.weights * deviation)
        allowance = groups.sums(np.abs(groups.weights) * bias)
        columns = error.columns() | {
            "above": above,
            "bias_allowance": allowance,
            "unreported_share": unreported / error.variance,
        }
        return sum_estimates(columns, TUNING)

    def intervals(self, means: Floats, numbers: Floats, level: float) -> tuple[Floats, Floats]:
        """Return bounds of the means, given the numbers of keys: those whose deviations may add up to 0 (Fieller).

        A mean that is larger by x is rejected if x times the number of keys exceeds the half-width of the interval at
        that mean, whose square is nearly quadratic in x. If the number of keys may be 0, there is no bound.
        """
        below, above = self._half_widths(means, level)
        # the scale of x: about as far as the end of the interval
        least_step = _LEAST_STEP_SHARE * np.abs(means) + _TINY
        step = np.maximum(above / numbers, least_step)
        squared_distance = (numbers * step) ** 2

        # a smaller mean makes the sum of the deviations positive: the interval must reach down to 0 from there
        two_steps = 2 * step
        below_one_down, _ = self._half_widths(means - step, level)
        below_two_down, _ = self._half_widths(means - two_steps, level)
        squares_down = (below**2, below_one_down**2, below_two_down**2)
        steps_down = _crossing(*squares_down, squared_distance)
        low = means - np.maximum(steps_down, 0.0) * step

        _, above_one_up = self._half_widths(means + step, level)
        _, above_two_up = self._half_widths(means + two_steps, level)
        squares_up = (above**2, above_one_up**2, above_two_up**2)
        steps_up = _crossing(*squares_up, squared_distance)
        high = means + np.maximum(steps_up, 0.0) * step
        return np.asarray(low), np.asarray(high)

    def _half_widths(self, means: Floats, level: float) -> tuple[Floats, Floats]:
        """Return how far the intervals of the deviations reach below their estimates, and how far above.

        A key that was not reported is probably a rare one, whose deviation is negative: it matters on both sides.
        """
        below = []
        above = []
        for estimate in self.at(means):
            as_if_all_reported = replace(estimate, unreported_share=0.0)
            low, high = as_if_all_reported.interval_above(level)
            below.append(estimate.above - low)
            above.append(high - estimate.above)
        return np.array(below), np.array(above)


def _crossing(at_zero: Floats, at_one: Floats, at_two: Floats, square: Floats) -> Floats:
    """Return the x from which ``square * x**2`` exceeds the parabola with these values at 0, 1 and 2, or infinity.

    The parabola is ``a x**2 + b x + at_zero``. So x is the larger root of ``q x**2 - b x - at_zero``, with q what is
    left of `square` without a; if q is not above 0, the parabola stays above.
    """
    a = (at_two - 2 * at_one + at_zero) / 2
    b = (4 * at_one - at_two - 3 * at_zero) / 2
    q = square - a
    discriminant = b * b + 4 * q * at_zero
    spread = np.sqrt(np.maximum(discriminant, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        root = (b + spread) / (2 * q)
    return np.where(q > 0, root, np.inf)


@lru_cache(maxsize=64)
def _covariance(of_sum: SumFunctionals, of_number: SumFunctionals) -> Functional:
    """Return the functional of the covariance of one key's values for a sum and for a number of keys."""
    covariance = of_sum.total.error_product(of_number.total, of_sum.largest)
    return Functional(of_sum.calibration, covariance, of_sum.variance_keys)
