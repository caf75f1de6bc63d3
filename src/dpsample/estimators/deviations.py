"""The error of a mean: that of the sum of the keys' deviations from it.

With S the sum and N the number of keys, the deviations from a mean v add up to S - v N. Its variance at each frequency
is that of S, less 2 v times the covariance of S and N, plus v**2 times the variance of N. The three are the same for
all groups; v is not.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from dpsample.estimators.calibrated import SumErrors, functionals_of, sum_estimates, unreported_moments
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

        # values of the table's tokens, and of those beyond it: 2 sums, 3 variances, 2 biases
        cells, back = np.unique(groups.cells, return_inverse=True)
        places = top.calibration.places(cells)
        inside = places < top.calibration.table_tokens
        functions: list[Function] = [summed, counted, *variance_functions, top.residual_bias, bottom.residual_bias]
        far = top.calibration.posterior_means(cells[~inside], functions)

        def by_token(table: Floats, n: int) -> Floats:
            return np.append(table[places[inside]], far[:, n])[back]

        self._values = [by_token(sums.total.table_values, n) for n, sums in enumerate((top, bottom))]
        self._unbiased = [by_token(variance.table_values, n) for n, variance in enumerate(variances, 2)]
        self._posterior = [by_token(variance.uncorrected, n) for n, variance in enumerate(variances, 2)]
        self._bias = [by_token(sums.bias_allowance, n) for n, sums in enumerate((top, bottom), 5)]
        self._unreported = unreported_moments(groups, top.calibration, variance_functions)

    def at(self, means: Floats) -> list[SumEstimate]:
        """Return the sum of the deviations of each group from a mean."""
        groups = self._groups
        v = np.repeat(means, np.diff(groups.starts, append=len(groups.cells)))
        unbiased = _combined(self._unbiased, v)
        posterior = np.maximum(_combined(self._posterior, v), 0.0)
        weight = groups.sums(groups.squares) / groups.sums(groups.keys)
        unreported = np.maximum(_combined(self._unreported, means), 0.0) * weight
        error = SumErrors.of(groups, posterior, unbiased, posterior**2, unreported, TUNING)
        bias = self._bias[0] + np.abs(v) * self._bias[1]
        columns = {
            "above": groups.sums(groups.weights * (self._values[0] - v * self._values[1])),
            "standard_error": np.sqrt(error.variance),
            "bias_allowance": groups.sums(np.abs(groups.weights) * bias),
            "effective_keys": error.effective_keys,
            "variance_keys": error.variance_keys,
            "raw_variance_keys": error.raw_variance_keys,
            "unreported_share": unreported / error.variance,
        }
        return sum_estimates(columns, TUNING)

    def intervals(self, means: Floats, numbers: Floats, level: float) -> tuple[Floats, Floats]:
        """Return bounds of the means, given the numbers of keys: those whose deviations may add up to 0 (Fieller).

        A mean that is larger by x is rejected if x times the number of keys exceeds the half-width of the interval at
        that mean, whose square is nearly quadratic in x. If the number of keys may be 0, there is no bound.
        """
        half_widths = self._half_widths(means, level)
        against_smaller = half_widths[1]
        step = np.maximum(against_smaller / numbers, 1e-9 * np.abs(means) + 1e-300)

        def end(sign: int) -> Floats:
            """The mean that is as far away as its own interval is long, in the direction of the sign."""
            side = (sign + 1) // 2
            at_zero = half_widths[side]
            at_one = self._half_widths(means + sign * step, level)[side]
            at_two = self._half_widths(means + sign * 2 * step, level)[side]
            steps = _crossing(at_zero**2, at_one**2, at_two**2, (numbers * step) ** 2)
            return np.asarray(means + sign * np.maximum(steps, 0.0) * step)

        return end(-1), end(1)

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


def _combined(parts: Sequence[Floats], v: Floats) -> Floats:
    """The variance of S - v N, from that of S, the covariance, and that of N."""
    ss, sn, nn = parts
    return np.asarray(ss - 2 * v * sn + v**2 * nn)


@lru_cache(maxsize=64)
def _covariance(top: SumFunctionals, bottom: SumFunctionals) -> Functional:
    """The functional of the covariance of two sums."""
    covariance = top.total.error_product(bottom.total, top.largest)
    return Functional(top.calibration, covariance, top.variance_keys)
