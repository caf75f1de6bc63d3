"""Sums over the selected keys of several releases, numbers of keys and means, each with its error.

The coins of releases are independent. So sums of frequencies, and their variances, add up. A key counts once, in
however many releases it is: with a_d the token value of release d that has the mean G_d = 1 if the key has the least
frequency there and 0 if not, ``N = 1 - prod (1 - a_d)`` has the mean 1 if the key has it anywhere. With
``P = prod (1 - a_d)``, the mean of ``P**2 - P`` is the variance of N, since the mean of P is 0 or 1.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.estimators.calibrated import (
    SumErrors,
    estimate_sums,
    extrapolated_sums,
    functionals_of,
    unreported_moments,
)
from dpsample.estimators.calibration import calibration
from dpsample.estimators.estimate import (
    ESTIMATORS,
    Below,
    Estimate,
    Estimator,
    answer,
    check_estimator,
    largest_unreported_sum,
    least_frequency,
)
from dpsample.estimators.intervals import SumEstimate, added
from dpsample.estimators.measures import Measure
from dpsample.estimators.sum_functionals import SumFunctionals, sum_functionals
from dpsample.estimators.tally import Tallies, Tally
from dpsample.estimators.tuning import TUNING
from dpsample.exact import check_level
from dpsample.questions.result import Estimates
from dpsample.questions.selection import Attributes, By, Of, Selection, Weight, Where
from dpsample.questions.sums import check_frequency, grouped, known_below, least_of_keys, mean_answer, unknown_mean
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import Floats, Ints, Sampling

if TYPE_CHECKING:
    from dpsample.periods.combined import Combined
    from dpsample.release.release import Release

_FREQUENCY, _KEYS = Measure.of("frequency"), Measure.of("keys")
_FACTORS = (1.0, 1e-2, 1e-3)  # of the number of keys that token values are made for; finer steps gain nothing
_BIAS = 2.0  # allowance for the bias that is left, in units of its estimate: with 1, intervals at epsilon 0.25 miss it
_EMPTY = "no reported key is selected; more than this would have shown"
Group = tuple[Ints, Floats]  # the keys of a group, by their places, and their weights


def total(
    combined: "Combined",
    where: Where = None,
    weight: Weight = None,
    of: Of = "frequency",
    by: By = None,
    estimator: Estimator | None = None,
    level: float = 0.95,
    attributes: Attributes = None,
    at_least: int | None = None,
) -> Any:
    """Estimate a sum of frequencies, or a number of keys, over all releases: see `Combined.sum`."""
    measure, level, least = Measure.of(of), check_level(level), _least(combined, Measure.of(of), at_least)
    _check_calibrated(combined, estimator)
    selection = Selection(combined.rows, where, weight, by, attributes)
    groups, members = selection.weighted_rows()
    named = (
        at_least is None
        and measure.kink is None
        and selection.names_keys
        and all(len(keys) == 1 for keys, _ in members)
    )
    if members and named:
        return _answers(combined, groups, _named(combined, members, measure, level), by, level, "")
    if measure != _FREQUENCY:
        found = _Numbers(combined, members, least).answers(level)
        note = f"keys of frequency {least:,} or more in at least one of {combined.stated}"
        return _answers(combined, groups, found, by, level, note)
    answers = _sums(combined, members, least, level)
    note = f"over {combined.stated}: each counts the keys that have frequency {least:,} or more in it"
    result = _answers(combined, groups, answers, by, level, note)
    totals = [release.total for release in combined.releases]
    if by or weight is not None or any(one is None or one.value <= 0 for one in totals):
        return result
    result = replace(result, share=result.value / float(sum(one.value for one in totals if one is not None)))
    if where is None and result.guaranteed and result.below is not None:
        parts = [known_below(release, Selection(release), least, level) for release in combined.releases]
        result = replace(result, below=_added_below(parts))
    return result


def mean(
    combined: "Combined",
    where: Where = None,
    weight: Weight = None,
    of: Of = "frequency",
    by: By = None,
    estimator: Estimator | None = None,
    level: float = 0.95,
    attributes: Attributes = None,
    at_least: int | None = None,
) -> Any:
    """Estimate the sum over the number of keys, for keys that have the least frequency in some release.

    The error is that of the deviations from the mean v. With S the key's sum, the variance of S - v N has the unbiased
    estimate var S + 2 v P S + v**2 (P**2 - P).
    """
    level = check_level(level)
    if Measure.of(of) != _FREQUENCY:
        raise _not_additive(Measure.of(of))
    _check_calibrated(combined, estimator)
    bounds = [least_of_keys(release, at_least) for release in combined.releases]
    least, detectable = max(bound for bound, _ in bounds), all(sure for _, sure in bounds)
    selection = Selection(combined.rows, where, weight, by, attributes)
    groups, members = selection.weighted_rows()
    if members and at_least is None and selection.names_keys and all(len(keys) == 1 for keys, _ in members):
        ones = [(keys, np.ones(1)) for keys, _ in members]
        return _answers(combined, groups, _named(combined, ones, _FREQUENCY, level), by, level, "")
    sums, numbers = _sums(combined, members, least, level), _Numbers(combined, members, least)
    answers = []
    for n, (s, number) in enumerate(zip(sums, numbers.answers(level), strict=True)):
        value = s.value / number.value if number.value > 0 else math.nan
        if math.isnan(value) or math.isnan(number.standard_error):
            answers.append(unknown_mean(value, number, least))
            continue
        deviations = numbers.deviations(n, value)
        low, high = (end / number.value for end in deviations.interval_above(level))
        ends = value + low - deviations.above / number.value, value + high - deviations.above / number.value
        rise = max(value - least, 0.0)
        overcount = numbers.found[n].overcount(level)
        answers.append(mean_answer(value, s, number, deviations, ends, detectable, rise, overcount))
    note = (
        f"over {combined.stated}: elements in those in which a key has frequency {least:,} or more, for each such key"
    )
    return _answers(combined, groups, answers, by, level, note)


def numbers_of(combined: "Combined", keys: Ints, least: int) -> tuple[Estimate, Floats, Floats]:
    """Return the number of keys of the least frequency in some release, what each key adds to it, and its variance."""
    numbers = _Numbers(combined, [(keys, np.ones(len(keys)))], least)
    return numbers.answers(0.95)[0], 1 - numbers.absent, numbers.absent**2 - numbers.absent


def _sums(combined: "Combined", members: Sequence[Group], least: int, level: float) -> list[Estimate]:
    """The sums of frequencies of groups: those of the releases, added."""
    measure = _FREQUENCY.from_frequency(least)
    parts: list[list[SumEstimate]] = [[] for _ in members]
    below, empty = np.zeros(len(members)), np.zeros(len(members))
    for n, release in enumerate(combined.releases):
        scheme = _scheme(release)
        tallies, here = _tallies(combined, n, members)
        for at in np.setdiff1d(np.arange(len(members)), here).tolist():
            share = level if len(combined.releases) == 1 else (1 + level) / 2
            empty[at] = max(empty[at], largest_unreported_sum(*scheme[:2], _FREQUENCY, share, least))
        if not tallies:
            continue
        found = estimate_sums(tallies, *scheme, measure)
        if release.sampling.least == 1 and least > 1:
            everything = extrapolated_sums(tallies, *scheme, _FREQUENCY).tolist()
            for at, value, one in zip(here, everything, found, strict=True):
                below[at] += max(value - one.above, 0.0)
        for at, one in zip(here, found, strict=True):
            parts[at].append(one)
    answers: list[Estimate] = []
    for (keys, weights), own, rest, most in zip(members, parts, below.tolist(), empty.tolist(), strict=True):
        if not own:
            answers.append(_nothing(combined, level, least, most, Below()))
            continue
        stated = combined.threshold, len(keys), bool((weights == 1).all())
        rarer = Below("extrapolated", rest) if least > 1 else None
        summed = answer(added(own), _FREQUENCY, level, least, *stated, rarer)
        answers.append(replace(summed, high=summed.high + most))
    return answers


def _nothing(combined: "Combined", level: float, least: int, most: float, below: Below | None) -> Estimate:
    """The answer about keys of which none was reported."""
    known = math.nan, 0.0, most, level, 0.0, 0, combined.threshold
    guaranteed = all(least >= least_frequency(r.sampling, r.per_key) for r in combined.releases)
    return Estimate(0.0, *known, guaranteed, (_EMPTY,), None, least, below)


class _Numbers:
    """The numbers of keys of groups that have the least frequency in some release.

    The product of several unbiased values may have an enormous variance. So the values are made for fewer keys than
    there are, which leaves some bias, if that makes the interval of all keys shorter.
    """

    def __init__(self, combined: "Combined", members: Sequence[Group], least: int) -> None:
        self.combined, self.members, self.least = combined, members, least
        self.measure = _KEYS.from_frequency(least)
        keys, weights = (
            np.concatenate([np.zeros(0, kind), *parts])
            for kind, parts in zip((np.int64, np.float64), zip(*members, strict=True), strict=False)
        )
        self.starts = np.cumsum([0, *(len(keys) for keys, _ in members)])
        self.cells = combined.cells[keys]
        everything = slice(0, len(keys))
        choices = [_Values(combined.releases, self.cells, self.measure, factor) for factor in _FACTORS]
        self.values = min(choices, key=lambda values: values.width(weights, everything))
        self.absent: Floats = self.values.absent  # P
        self.sums, self.variances = self._frequencies()
        self.found = [self._estimate(n) for n in range(len(members))]

    def _frequencies(self) -> tuple[Floats, Floats]:
        """The token values of the frequency of each key, and their variances, over all releases."""
        sums, variances = np.zeros((2, len(self.cells)))
        for n, release in enumerate(self.combined.releases):
            here = self.cells[:, n] > 0
            if here.any():
                functionals = _functionals(release, self.cells[here, n], _FREQUENCY.from_frequency(self.least), 1.0)
                distinct, back = np.unique(self.cells[here, n], return_inverse=True)
                sums[here] += functionals.total.values(distinct)[back]
                variances[here] += functionals.variance.values(distinct)[back]
        return sums, variances

    def answers(self, level: float) -> list[Estimate]:
        """Return the number of keys of each group, or the sum of their weights."""
        answers = []
        for (keys, weights), found in zip(self.members, self.found, strict=True):
            if len(keys):
                stated = self.combined.threshold, len(keys), bool((weights == 1).all()), None
                answers.append(answer(found, self.measure, level, self.least, *stated))
            else:
                most = max(
                    largest_unreported_sum(r.sampling, r.per_key, _KEYS, level, self.least)
                    for r in self.combined.releases
                )
                answers.append(_nothing(self.combined, level, self.least, most, None))
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
                tally = Tally.of(self.cells[own, n][here], (weights * self.values.others[own, n])[here])
                parts.append(estimate_sums([tally], *_scheme(release), self.measure)[0])
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
        P, S, V = self.absent[own], self.sums[own], self.variances[own]
        variance = V + 2 * mean * P * S + mean**2 * (P**2 - P)
        found = _with_errors(weights, variance, np.abs(V) + mean**2 * np.abs(P**2 - P), 0.0)
        bias = self.found[group].bias_allowance * abs(mean)
        return replace(found, above=float((weights * (S - mean * (1 - P))).sum()), bias_allowance=bias)


class _Values:
    """Token values that count keys, made for a factor of the number of reported keys, and what follows for each key."""

    def __init__(self, releases: "Sequence[Release]", cells: Ints, measure: Measure, factor: float) -> None:
        missing, bias = np.ones(cells.shape), np.zeros(cells.shape)  # 1 - a, and how much of it may be bias
        self._functionals: dict[int, SumFunctionals] = {}
        for n, release in enumerate(releases):
            here = cells[:, n] > 0
            if here.any():
                functionals = self._functionals[n] = _functionals(release, cells[here, n], measure, factor)
                distinct, back = np.unique(cells[here, n], return_inverse=True)
                missing[here, n] -= functionals.total.values(distinct)[back]
                places = np.minimum(functionals.scheme.places(distinct), functionals.scheme.table_tokens)
                bias[here, n] = np.append(functionals.bias_allowance, 0.0)[places][back]
        self.absent = missing.prod(1)  # P
        self.others = np.stack([np.delete(missing, n, axis=1).prod(1) for n in range(len(releases))], axis=1)
        self.bias = _BIAS * (np.abs(self.others) * bias).sum(1)

    def width(self, weights: Floats, keys: slice) -> float:
        """Return about how long the interval of all keys is."""
        variance = float((weights[keys] ** 2 * np.abs(self.absent[keys] ** 2 - self.absent[keys])).sum())
        return 2 * math.sqrt(variance) + float((np.abs(weights[keys]) * self.bias[keys]).sum())

    def unreported(self, n: int, groups: Tallies) -> float:
        """Return the variance of one more key of a release, which may not have been reported."""
        functionals = self._functionals[n]
        return float(unreported_moments(groups, functionals.scheme, [functionals.variance.function])[0][0])


def _functionals(release: "Release", cells: Ints, of: Measure, factor: float) -> SumFunctionals:
    """The functionals of a sum over keys, for a factor of their number."""
    own = functionals_of(Tallies.of([Tally.of(cells)]), *_scheme(release), of, TUNING, None)
    return sum_functionals(own.scheme, of, max(1, int(own.keys * factor)), own.largest)


def _with_errors(weights: Floats, variance: Floats, size: Floats, unreported: float) -> SumEstimate:
    """The error of a sum over keys, from an unbiased estimate of the variance of each, and a positive one."""
    ones = np.ones(len(weights), np.int64)
    groups = Tallies(ones, ones, weights, weights**2, np.zeros(1, np.int64))
    error = SumErrors.of(groups, size, variance, size**2, np.array([unreported * (weights**2).mean()]), TUNING)
    return SumEstimate(
        0.0,
        math.sqrt(float(error.variance[0])),
        effective_keys=float(error.effective_keys[0]),
        variance_keys=float(error.variance_keys[0]),
        raw_variance_keys=float(error.raw_variance_keys[0]),
        unreported_share=float(unreported * (weights**2).mean() / error.variance[0]),
    )


def _named(combined: "Combined", members: Sequence[Group], measure: Measure, level: float) -> list[Estimate]:
    """The frequency of each named key over all releases, or 1 for a number of keys."""
    keys, weights = (np.concatenate(column) for column in zip(*members, strict=True))
    value, _, low, high = combined.estimates_of(keys, level)
    value, low, high = (weights * measure(np.minimum(i, 2.0**62).astype(np.int64)) for i in (value, low, high))
    low, high = np.minimum(low, high), np.maximum(low, high)
    rows = zip(value.tolist(), low.tolist(), high.tolist(), strict=True)
    return [Estimate(v, math.nan, a, b, level, keys=1, detection_threshold=combined.threshold) for v, a, b in rows]


def _tallies(combined: "Combined", n: int, members: Sequence[Group]) -> tuple[list[Tally], list[int]]:
    """The tallies of the groups that have a key in one release, and which they are."""
    tallies, groups = [], []
    for group, (keys, weights) in enumerate(members):
        cells = combined.cells[keys, n]
        if cells.any():
            tallies.append(Tally.of(cells[cells > 0], weights[cells > 0]))
            groups.append(group)
    return tallies, groups


def _answers(combined: "Combined", groups: pa.Table, answers: list[Estimate], by: By, level: float, note: str) -> Any:
    notes = (*((note,) if note else ()), *combined.cautions)
    if not by:
        return replace(answers[0], notes=(*answers[0].notes, *notes))
    result: Estimates = grouped(combined.releases[0], groups, answers, level)
    return replace(result, detection_threshold=combined.threshold, notes=(*result.notes, *notes))


def _added_below(parts: Sequence[Below]) -> Below:
    value = sum(part.value for part in parts)
    down, up = (math.hypot(*(getattr(part, end) - part.value for part in parts)) for end in ("low", "high"))
    return Below("known", value, max(value - down, 0.0), value + up)


def _scheme(release: "Release") -> tuple[Sampling, PerKey, int]:
    assert release.grid is not None
    return release.sampling, release.per_key, release.grid


def _least(combined: "Combined", measure: Measure, at_least: int | None) -> int:
    """The frequency in one release from which on keys count: one for all releases."""
    counts = measure == _KEYS or measure.name.startswith("at-least:")
    if measure != _FREQUENCY and not counts:
        raise _not_additive(measure)
    if at_least is not None:
        least = check_frequency(at_least)
    else:
        least = max(least_frequency(r.sampling, r.per_key, each_key_alike=counts) for r in combined.releases)
    return max(least, measure.kink) if measure.kink is not None else least


def _not_additive(measure: Measure) -> InvalidValue:
    return InvalidValue(
        "over several releases, frequencies are summed and keys are counted",
        f"{measure.name}, which does not add up",
        "ask for frequency, keys or at-least:T, or ask each release",
    )


def _check_calibrated(combined: "Combined", estimator: Estimator | None) -> None:
    if check_estimator(estimator) != ESTIMATORS[0]:
        raise InvalidValue("sums over several releases are calibrated", "another estimator", "leave it out")
    if not all(calibration(*_scheme(release)).feasible for release in combined.releases):
        raise InvalidValue("sums over several releases are calibrated", "too small an epsilon", "ask each release")
