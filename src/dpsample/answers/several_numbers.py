"""The number of keys that have a least frequency in some of several releases: each counts once.

Let G_d be 1 if a key has the least frequency in release d, and 0 if not, and let a_d be the value of its token there,
whose mean is G_d. With ``P = prod (1 - a_d)``, ``N = 1 - P`` has the mean 1 if the key has the frequency anywhere, and
0 if not: the sum of N over keys is the number of keys.

**Errors.** The mean of P is 0, or P is always 1. So the mean of ``P**2 - P`` is the variance of N, and that of ``P**2 -
P**3`` the covariance of N and this estimate of its variance. Let S be the value of the key's frequency over all
releases, with the variance V. Then ``V + 2 v P S + v**2 (P**2 - P)`` has the mean of the variance of ``S - v N``.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dpsample.estimators.calibrated import (
    SumErrors,
    estimate_sums,
    functionals_of,
    sum_estimates,
    unreported_moments,
)
from dpsample.estimators.estimate import (
    Below,
    Estimate,
    answer,
    largest_unreported_sum,
    least_frequency,
)
from dpsample.estimators.intervals import SumEstimate
from dpsample.estimators.measures import FREQUENCY, KEYS, Measure
from dpsample.estimators.notes import NONE_SELECTED
from dpsample.estimators.sum_functionals import SumFunctionals, sum_functionals
from dpsample.estimators.tally import Tallies, Tally
from dpsample.estimators.tuning import TUNING
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.scheme import Scheme

if TYPE_CHECKING:
    from dpsample.answers.several_tokens import SeveralTokens

# Token values are made for these shares of the number of reported keys, and the best is taken: finer steps gain little.
_FACTORS = (1.0, 1e-2, 1e-3)
# The allowance for the bias that is left, in units of its estimate: with 1, intervals at epsilon 0.25 miss too often.
_BIAS_ALLOWANCE = 2.0
_TINY = 1e-300  # keeps ratios of zeros defined
Group = tuple[Ints, Floats]  # the keys of a group, by their rows, and their weights


class Numbers:
    """The numbers of keys of groups that have the least frequency in some release.

    The product of several unbiased values may have an enormous variance. So the values are made for fewer keys than
    there are, which leaves some bias, if that makes the interval of all keys shorter.

    `frequency` is the frequency in elements, as a function of that of the tokens.

    absent  P of each key: without noise, 1 if it has the frequency in no release, and 0 if it has
    sums    the estimate of each group, with its errors
    """

    def __init__(
        self,
        several: "SeveralTokens",
        groups: Sequence[Group],
        least: int,
        frequency: Measure = FREQUENCY,
    ) -> None:
        self._several = several
        self._frequency = frequency.from_frequency(least)
        self._groups = groups
        self._least = least
        self._measure = KEYS.from_frequency(least)
        # the keys of all groups one after the other, and where each group is among them
        lengths = [len(keys) for keys, _ in groups]
        ends = np.cumsum([0, *lengths]).tolist()
        self._slices = [slice(start, end) for start, end in pairwise(ends)]
        all_keys = np.zeros(ends[-1], np.int64)
        all_weights = np.zeros(ends[-1])
        for own, (keys, weights) in zip(self._slices, groups, strict=True):
            all_keys[own] = keys
            all_weights[own] = weights
        self._cells = several.cells[all_keys]
        choices = [self._values_for(factor) for factor in _FACTORS]
        self._values = min(choices, key=lambda values: values.width(all_weights))
        self.absent = self._values.absent
        self.sums = [self._sum(n) for n in range(len(groups))]

    def _values_for(self, factor: float) -> "_NumberValues":
        return _NumberValues(self._several.schemes, self._cells, self._measure, factor)

    def answers(self, level: float) -> list[Estimate]:
        """Return the number of keys of each group, or the sum of their weights."""
        threshold = self._several.detection_threshold
        answers = []
        for (keys, weights), found in zip(self._groups, self.sums, strict=True):
            if not len(keys):
                answers.append(self._of_no_reported_key(level))
                continue
            unweighted = bool((weights == 1).all())
            stated = (self._least, threshold, len(keys), unweighted)
            answers.append(answer(found, self._measure, level, *stated))
        return answers

    def _of_no_reported_key(self, level: float) -> Estimate:
        most = 0.0
        for scheme in self._several.schemes:
            most = max(most, largest_unreported_sum(scheme, KEYS, level, self._least))
        return nothing_reported(self._several, level, self._least, most, below=None)

    def _sum(self, group: int) -> SumEstimate:
        """The number of keys of a group, with its errors."""
        keys, weights = self._groups[group]
        if not len(keys):
            return SumEstimate(0.0, 0.0)
        own = self._slices[group]
        P = self.absent[own]
        parts = []
        unreported = 0.0
        for n, scheme in enumerate(self._several.schemes):
            cells = self._cells[own, n]
            here = cells > 0
            if here.any():
                # a key from below the threshold adds to the number only if no other release has it
                absent_elsewhere = self._values.others[own, n]
                in_no_other = weights * absent_elsewhere
                tally = Tally.of(cells[here], in_no_other[here])
                parts += estimate_sums([tally], scheme, self._measure)
                unreported = max(unreported, self._values.unreported_variance(n, tally))

        variance = P**2 - P
        errors = _with_errors(weights, variance, np.abs(variance), unreported)
        number = weights * (1 - P)
        covariance = weights**3 * (P**2 - P**3)
        slope = max(float(covariance.sum()), 0.0) / max(errors.standard_error**2, _TINY)
        bias = np.abs(weights) * self._values.bias[own]
        extrapolated_errors = [part.extrapolated_error for part in parts]
        return replace(
            errors,
            above=float(number.sum()),
            bias_allowance=float(bias.sum()),
            variance_slope=slope,
            extrapolated=sum(part.extrapolated for part in parts),
            extrapolated_error=math.hypot(*extrapolated_errors),
        )

    def deviations(self, group: int, mean: float) -> SumEstimate:
        """Return the sum of the deviations ``S - mean N`` of a group's keys, with its error."""
        own = self._slices[group]
        _, weights = self._groups[group]
        P = self.absent[own]
        all_sums, all_variances = self._frequencies
        S = all_sums[own]
        V = all_variances[own]
        var_N = P**2 - P
        variance = V + 2 * mean * P * S + mean**2 * var_N
        size = np.abs(V) + mean**2 * np.abs(var_N)
        errors = _with_errors(weights, variance, size, 0.0)
        deviations = S - mean * (1 - P)
        total = float((weights * deviations).sum())
        bias = self.sums[group].bias_allowance * abs(mean)
        return replace(errors, above=total, bias_allowance=bias)

    @cached_property
    def _frequencies(self) -> tuple[Floats, Floats]:
        """S and V of each key: the values of its frequency over all releases, and their variances."""
        sums = np.zeros(len(self._cells))
        variances = np.zeros(len(self._cells))
        for scheme, cells in zip(self._several.schemes, self._cells.T, strict=True):
            here = cells > 0
            if here.any():
                functionals = _functionals(scheme, cells[here], self._frequency, 1.0)
                distinct, back = np.unique(cells[here], return_inverse=True)
                sums[here] += functionals.total.values(distinct)[back]
                variances[here] += functionals.variance.values(distinct)[back]
        return sums, variances


class _NumberValues:
    """Token values that count keys, made for a factor of the number of reported keys, and what follows for each key.

    absent  P of each key
    others  the product of 1 - a_d over all releases but one: [key, release]
    bias    the bias that P may have
    """

    def __init__(
        self, schemes: Sequence[Scheme], cells: Ints, measure: Measure, factor: float
    ) -> None:
        missing = np.ones(cells.shape)  # 1 - a_d: [key, release]
        bias = np.zeros(cells.shape)  # the part of it that may be bias
        self._functionals: dict[int, SumFunctionals] = {}
        for n, scheme in enumerate(schemes):
            here = cells[:, n] > 0
            if here.any():
                reported = cells[here, n]
                functionals = _functionals(scheme, reported, measure, factor)
                self._functionals[n] = functionals
                distinct, back = np.unique(reported, return_inverse=True)
                values = functionals.total.values(distinct)
                missing[here, n] -= values[back]
                bias[here, n] = _biases(functionals, distinct)[back]
        self.absent: Floats = missing.prod(1)
        self.others = np.ones(cells.shape)
        for n in range(len(schemes)):
            self.others[:, n] = np.delete(missing, n, axis=1).prod(1)
        bias_of_product = np.abs(self.others) * bias
        self.bias = _BIAS_ALLOWANCE * bias_of_product.sum(1)

    def width(self, weights: Floats) -> float:
        """Return about how long the interval of all keys is."""
        P = self.absent
        variance = weights**2 * np.abs(P**2 - P)
        bias = np.abs(weights) * self.bias
        return 2 * math.sqrt(float(variance.sum())) + float(bias.sum())

    def unreported_variance(self, n: int, tally: Tally) -> float:
        """Return the variance of one more key of a release, which may not have been reported."""
        functionals = self._functionals[n]
        variance_of = functionals.variance.function
        one_group = Tallies.of([tally])
        [moments] = unreported_moments(one_group, functionals.calibration, [variance_of])
        return float(moments[0])


def _biases(functionals: SumFunctionals, cells: Ints) -> Floats:
    """The bias that the value of each token may have; 0 beyond the table of tokens."""
    calibration = functionals.calibration
    places = np.minimum(calibration.places(cells), calibration.table_tokens)
    biases: Floats = np.append(functionals.bias_allowance, 0.0)[places]
    return biases


def _functionals(scheme: Scheme, cells: Ints, of: Measure, factor: float) -> SumFunctionals:
    """The functionals of a sum over keys with these tokens, made for a factor of their number."""
    one_group = Tallies.of([Tally.of(cells)])
    for_all_keys = functionals_of(one_group, scheme, of)
    keys = max(1, int(for_all_keys.keys * factor))
    return sum_functionals(for_all_keys.calibration, of, keys, for_all_keys.largest)


def _with_errors(weights: Floats, variance: Floats, size: Floats, unreported: float) -> SumEstimate:
    """The errors of a weighted sum over keys, whose value is still 0.

    `variance` is an unbiased estimate of the variance of each key, `size` a positive one, and `unreported` the variance
    of one more key of typical weight.
    """
    ones = np.ones(len(weights), np.int64)
    start = np.zeros(1, np.int64)
    one_group = Tallies(ones, ones, weights, weights**2, start)
    of_unreported = np.array([unreported * (weights**2).mean()])
    errors = SumErrors.of(one_group, size, variance, size**2, of_unreported, TUNING)
    [share] = (of_unreported / errors.variance).tolist()
    columns = errors.columns() | {"above": np.zeros(1)}
    [estimate] = sum_estimates(columns, TUNING)
    return replace(estimate, unreported_share=share)


def nothing_reported(
    several: "SeveralTokens", level: float, least: int, most: float, below: Below | None
) -> Estimate:
    """Return the answer about keys that no release reports: it is at most `most`."""
    thresholds = [least_frequency(scheme) for scheme in several.schemes]
    nothing = Estimate(0.0, math.nan, 0.0, most, level, keys=0, notes=(NONE_SELECTED,))
    return replace(
        nothing,
        detection_threshold=several.detection_threshold,
        guaranteed=least >= max(thresholds),
        at_least=least,
        below=below,
    )
