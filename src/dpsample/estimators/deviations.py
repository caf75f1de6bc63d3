"""The error of a mean: that of the sum of the keys' deviations from it.

With S the sum and N the number of keys, the deviations from a mean v add up to S - v N. Its variance at each frequency
is that of S, less 2 v times the covariance of S and N, plus v**2 times the variance of N. The three are the same for
all groups; v is not.
"""

from collections.abc import Sequence
from dataclasses import replace
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
        self._groups = groups = Tallies.of(tallies)
        top = functionals_of(groups, scheme, summed, keys=keys)
        bottom = functionals_of(groups, scheme, counted, keys=keys)
        variances = top.variance, _covariance(top, bottom), bottom.variance
        variance_functions = [variance.function for variance in variances]
        functions: list[Function] = [
            summed,
            counted,
            *variance_functions,
            top.residual_bias,
            bottom.residual_bias,
        ]
        tokens = TokensOfGroups(groups, top.calibration, functions)

        # of each token: the values of S and N, two estimates of their variances, and the biases that they may have
        self._summed = tokens.values(top.total.table_values, 0)
        self._counted = tokens.values(bottom.total.table_values, 1)
        self._unbiased = [
            tokens.values(variance.table_values, n) for n, variance in enumerate(variances, 2)
        ]
        self._posterior = [
            tokens.values(variance.uncorrected, n) for n, variance in enumerate(variances, 2)
        ]
        self._summed_bias = tokens.values(top.bias_allowance, 5)
        self._counted_bias = tokens.values(bottom.bias_allowance, 6)
        self._unreported = unreported_moments(groups, top.calibration, variance_functions)

    def at(self, means: Floats) -> list[SumEstimate]:
        """Return the estimate of S - v N for each group, with v its mean: the sum of its keys' deviations from it."""
        groups = self._groups
        tokens_of_groups = np.diff(groups.starts, append=len(groups.cells))
        v = np.repeat(means, tokens_of_groups)  # of each token
        deviation = self._summed - v * self._counted
        bias = self._summed_bias + np.abs(v) * self._counted_bias

        unbiased = _variance_at(v, self._unbiased)
        posterior = np.maximum(_variance_at(v, self._posterior), 0.0)
        mean_square_weight = groups.sums(groups.squares) / groups.sums(groups.keys)
        unreported = np.maximum(_variance_at(means, self._unreported), 0.0) * mean_square_weight
        error = SumErrors.of(groups, posterior, unbiased, posterior**2, unreported, TUNING)
        columns = error.columns() | {
            "above": groups.sums(groups.weights * deviation),
            "bias_allowance": groups.sums(np.abs(groups.weights) * bias),
            "unreported_share": unreported / error.variance,
        }
        return sum_estimates(columns, TUNING)

    def intervals(self, means: Floats, numbers: Floats, level: float) -> tuple[Floats, Floats]:
        """Return bounds of the means, given the numbers of keys: those whose deviations may add up to 0 (Fieller).

        A mean that is larger by x is rejected if x times the number of keys exceeds the half-width of the interval at
        that mean, whose square is nearly quadratic in x. If the number of keys may be 0, there is no bound.
        """
        half_widths = self._half_widths(means, level)
        _, against_smaller = half_widths
        shortest = 1e-9 * np.abs(means) + 1e-300
        step = np.maximum(
            against_smaller / numbers, shortest
        )  # about as far as the end of the interval
        squared_distance = (numbers * step) ** 2
        ends = []
        for sign, at_zero in zip((-1, 1), half_widths, strict=True):
            side = (sign + 1) // 2
            at_one = self._half_widths(means + sign * step, level)[side]
            at_two = self._half_widths(means + sign * 2 * step, level)[side]
            steps = _crossing(at_zero**2, at_one**2, at_two**2, squared_distance)
            steps_away = np.maximum(steps, 0.0)
            ends.append(np.asarray(means + sign * steps_away * step))
        return ends[0], ends[1]

    def _half_widths(self, means: Floats, level: float) -> tuple[Floats, Floats]:
        """The lengths of the intervals of the deviations on both sides: against larger means, and smaller ones.

        A key that was not reported is probably a rare one, whose deviation is negative: it matters on both sides.
        """
        against_larger, against_smaller = [], []
        for estimate in self.at(means):
            as_if_all_reported = replace(estimate, unreported_share=0.0)
            low, high = as_if_all_reported.interval_above(level)
            against_larger.append(estimate.above - low)
            against_smaller.append(high - estimate.above)
        return np.array(against_larger), np.array(against_smaller)


def _crossing(at_zero: Floats, at_one: Floats, at_two: Floats, square: Floats) -> Floats:
    """The x from which ``square * x**2`` exceeds the parabola with these values at 0, 1 and 2; it may be infinite."""
    # the parabola is a x**2 + b x + at_zero; the larger root of q x**2 - b x - at_zero is wanted
    a = (at_two - 2 * at_one + at_zero) / 2
    b = (4 * at_one - at_two - 3 * at_zero) / 2
    q = square - a
    discriminant = np.maximum(b * b + 4 * q * at_zero, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        root = (b + np.sqrt(discriminant)) / (2 * q)
    return np.where(q > 0, root, np.inf)


def _variance_at(v: Floats, moments: Sequence[Floats]) -> Floats:
    """The variance of S - v N, from that of S, the covariance, and that of N."""
    of_sum, covariance, of_number = moments
    return np.asarray(of_sum - 2 * v * covariance + v**2 * of_number)


@lru_cache(maxsize=64)
def _covariance(top: SumFunctionals, bottom: SumFunctionals) -> Functional:
    """The functional of the covariance of two sums."""
    covariance = top.total.error_product(bottom.total, top.largest)
    return Functional(top.calibration, covariance, top.variance_keys)
