"""The number of keys that have a least frequency in some of several releases: each counts once.

With a_d the token value of release d that has the mean G_d = 1 if the key has the least frequency there and 0 if not,
``N = 1 - prod (1 - a_d)`` has the mean 1 if the key has it anywhere. With ``P = prod (1 - a_d)``, the mean of
``P**2 - P`` is the variance of N, since the mean of P is 0 or 1.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpsample.estimators.calibrated import (
    SumErrors,
    estimate_sums,
    functionals_of,
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
from dpsample.estimators.measures import Measure
from dpsample.estimators.notes import NONE_SELECTED
from dpsample.estimators.sum_functionals import SumFunctionals, sum_functionals
from dpsample.estimators.tally import Tallies, Tally
from dpsample.estimators.tuning import TUNING
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.scheme import Scheme

if TYPE_CHECKING:
    from dpsample.answers.release import Release
    from dpsample.answers.several_tokens import SeveralTokens

_FREQUENCY, _KEYS = Measure.of("frequency"), Measure.of("keys")
_FACTORS = (
    1.0,
    1e-2,
    1e-3,
)  # of the number of keys that token values are made for; finer steps gain nothing
_BIAS = 2.0  # allowance for the bias that is left, in units of its estimate: with 1, intervals at epsilon 0.25 miss it
Group = tuple[Ints, Floats]  # the keys of a group, by their places, and their weights


def numbers_of(
    combined: "SeveralTokens", keys: Ints, least: int
) -> tuple[Estimate, Floats, Floats]:
    """Return the number of keys of the least frequency in some release, what each key adds to it, and its variance."""
    numbers = Numbers(combined, [(keys, np.ones(len(keys)))], least)
    return numbers.answers(0.95)[0], 1 - numbers.absent, numbers.absent**2 - numbers.absent


class Numbers:
    """The numbers of keys of groups that have the least frequency in some release.

    The product of several unbiased values may have an enormous variance. So the values are made for fewer keys than
    there are, which leaves some bias, if that makes the interval of all keys shorter.
    """

    def __init__(self, combined: "SeveralTokens", members: Sequence[Group], least: int) -> None:
        self.combined, self.members, self.least = combined, members, least
        self.measure = _KEYS.from_frequency(least)
        keys = np.concatenate([np.zeros(0, np.int64), *(keys for keys, _ in members)])
        weights = np.concatenate([np.zeros(0), *(weights for _, weights in members)])
        self.starts = np.cumsum([0, *(len(keys) for keys, _ in members)])
        self.cells = combined.cells[keys]
        choices = [
            _Values(combined.releases, self.cells, self.measure, factor) for factor in _FACTORS
        ]
        self.values = min(choices, key=lambda values: values.width(weights))
        self.absent: Floats = self.values.absent  # P
        self.found = [self._estimate(n) for n in range(len(members))]

    @cached_property
    def _frequencies(self) -> tuple[Floats, Floats]:
        """The token values of the frequency of each key, and their variances, over all releases."""
        sums, variances = np.zeros((2, len(self.cells)))
        for n, release in enumerate(self.combined.releases):
            here = self.cells[:, n] > 0
            if here.any():
                functionals = _functionals(
                    release, self.cells[here, n], _FREQUENCY.from_frequency(self.least), 1.0
                )
                distinct, back = np.unique(self.cells[here, n], return_inverse=True)
                sums[here] += functionals.total.values(distinct)[back]
                variances[here] += functionals.variance.values(distinct)[back]
        return sums, variances

    def answers(self, level: float) -> list[Estimate]:
        """Return the number of keys of each group, or the sum of their weights."""
        answers = []
        for (keys, weights), found in zip(self.members, self.found, strict=True):
            if len(keys):
                stated = self.combined.detection_threshold, len(keys), bool((weights == 1).all())
                answers.append(answer(found, self.measure, level, self.least, *stated))
            else:
                most = max(
                    largest_unreported_sum(scheme_of(r), _KEYS, level, self.least)
                    for r in self.combined.releases
                )
                answers.append(nothing(self.combined, level, self.least, most, None))
        return answers

    def _estimate(self, group: int) -> SumEstimate:
        keys, weights = self.members[group]
        if not len(keys):
            return SumEstimate(0.0, 0.0)
        own = slice(self.starts[group], self.starts[group + 1])
        P, parts, unreported = self.absent[own], [], 0.0
        for n, release in enumerate(self.combined.releases):
            here = self.cells[own, n] > 0
            if here.any():
                # what keys from below the threshold add here is what no other release has
                tally = Tally.of(
                    self.cells[own, n][here], (weights * self.values.others[own, n])[here]
                )
                parts.append(estimate_sums([tally], scheme_of(release), self.measure)[0])
                unreported = max(unreported, self.values.unreported(n, Tallies.of([tally])))
        slope = float((weights**3 * (P**2 - P**3)).sum())
        found = _with_errors(weights, P**2 - P, np.abs(P**2 - P), unreported)
        return replace(
            found,
            above=float((weights * (1 - P)).sum()),
            bias_allowance=float((np.abs(weights) * self.values.bias[own]).sum()),
            variance_slope=max(slope, 0.0) / max(found.standard_error**2, 1e-300),
            extrapolated=sum(part.extrapolated for part in parts),
            extrapolated_error=math.hypot(*(part.extrapolated_error for part in parts)),
        )

    def deviations(self, group: int, mean: float) -> SumEstimate:
        """Return the sum of the deviations of a group's keys from a mean, with its error."""
        weights, own = self.members[group][1], slice(self.starts[group], self.starts[group + 1])
        P, S, V = self.absent[own], *(column[own] for column in self._frequencies)
        variance = V + 2 * mean * P * S + mean**2 * (P**2 - P)
        found = _with_errors(weights, variance, np.abs(V) + mean**2 * np.abs(P**2 - P), 0.0)
        bias = self.found[group].bias_allowance * abs(mean)
        return replace(
            found, above=float((weights * (S - mean * (1 - P))).sum()), bias_allowance=bias
        )


class _Values:
    """Token values that count keys, made for a factor of the number of reported keys, and what follows for each key."""

    def __init__(
        self, releases: "Sequence[Release]", cells: Ints, measure: Measure, factor: float
    ) -> None:
        missing, bias = (
            np.ones(cells.shape),
            np.zeros(cells.shape),
        )  # 1 - a, and how much of it may be bias
        self._functionals: dict[int, SumFunctionals] = {}
        for n, release in enumerate(releases):
            here = cells[:, n] > 0
            if here.any():
                functionals = self._functionals[n] = _functionals(
                    release, cells[here, n], measure, factor
                )
                distinct, back = np.unique(cells[here, n], return_inverse=True)
                missing[here, n] -= functionals.total.values(distinct)[back]
                places = np.minimum(
                    functionals.calibration.places(distinct), functionals.calibration.table_tokens
                )
                bias[here, n] = np.append(functionals.bias_allowance, 0.0)[places][back]
        self.absent = missing.prod(1)  # P
        self.others = np.stack(
            [np.delete(missing, n, axis=1).prod(1) for n in range(len(releases))], axis=1
        )
        self.bias = _BIAS * (np.abs(self.others) * bias).sum(1)

    def width(self, weights: Floats) -> float:
        """Return about how long the interval of all keys is."""
        variance = float((weights**2 * np.abs(self.absent**2 - self.absent)).sum())
        return 2 * math.sqrt(variance) + float((np.abs(weights) * self.bias).sum())

    def unreported(self, n: int, groups: Tallies) -> float:
        """Return the variance of one more key of a release, which may not have been reported."""
        functionals = self._functionals[n]
        return float(
            unreported_moments(groups, functionals.calibration, [functionals.variance.function])[0][
                0
            ]
        )


def _functionals(release: "Release", cells: Ints, of: Measure, factor: float) -> SumFunctionals:
    """The functionals of a sum over keys, for a factor of their number."""
    own = functionals_of(Tallies.of([Tally.of(cells)]), scheme_of(release), of)
    return sum_functionals(own.calibration, of, max(1, int(own.keys * factor)), own.largest)


def _with_errors(weights: Floats, variance: Floats, size: Floats, unreported: float) -> SumEstimate:
    """The error of a sum over keys, from an unbiased estimate of the variance of each, and a positive one."""
    ones = np.ones(len(weights), np.int64)
    groups = Tallies(ones, ones, weights, weights**2, np.zeros(1, np.int64))
    error = SumErrors.of(
        groups, size, variance, size**2, np.array([unreported * (weights**2).mean()]), TUNING
    )
    return SumEstimate(
        0.0,
        math.sqrt(float(error.variance[0])),
        effective_keys=float(error.effective_keys[0]),
        variance_keys=float(error.variance_keys[0]),
        raw_variance_keys=float(error.raw_variance_keys[0]),
        unreported_share=float(unreported * (weights**2).mean() / error.variance[0]),
    )


def nothing(
    combined: "SeveralTokens", level: float, least: int, most: float, below: Below | None
) -> Estimate:
    """Return the answer about keys of which none was reported."""
    known = math.nan, 0.0, most, level, 0.0, 0, combined.detection_threshold
    guaranteed = all(least >= least_frequency(scheme_of(r)) for r in combined.releases)
    return Estimate(0.0, *known, guaranteed, (NONE_SELECTED,), None, least, below)


def scheme_of(release: "Release") -> Scheme:
    """Return what token laws follow from."""
    assert release.grid is not None
    return Scheme(release.sampling, release.per_key, release.grid)
