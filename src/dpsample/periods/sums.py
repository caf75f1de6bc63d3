"""Sums over the selected keys of several releases, numbers of keys and means, each with its error.

The coins of releases are independent. So sums of frequencies, and their variances, add up. `numbers` counts keys.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.estimators.calibrated import estimate_sums, extrapolated_sums
from dpsample.estimators.calibration import Calibration
from dpsample.estimators.estimate import (
    Below,
    Estimate,
    Estimator,
    answer,
    largest_unreported_sum,
    least_frequency,
)
from dpsample.estimators.intervals import SumEstimate, added
from dpsample.estimators.measures import Measure
from dpsample.estimators.reported import Reported
from dpsample.estimators.tally import Tally
from dpsample.exact import check_level
from dpsample.periods.numbers import Group, Numbers, nothing, scheme_of
from dpsample.questions.arguments import check_default_estimator, check_frequency
from dpsample.questions.reported import ONE_KEY, added_reported, number_between, sum_of_tokens
from dpsample.questions.result import Estimates
from dpsample.questions.selection import Attributes, By, Of, Selection, Weight, Where
from dpsample.questions.sums import (
    grouped,
    known_below,
    least_of_keys,
    mean_answer,
    unknown_mean,
    without_extrapolation,
)
from dpsample.scheme.likelihood import likely_frequencies
from dpsample.scheme.sampling import Floats, Ints

if TYPE_CHECKING:
    from dpsample.periods.combined import Combined

_FREQUENCY, _KEYS = Measure.of("frequency"), Measure.of("keys")


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
    extrapolate: bool = False,
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
        found = _named(combined, members, measure, level)
        parts = [Reported(one.value, math.nan, one.low, one.high, ONE_KEY) for one in found]
        return _answers(combined, groups, _with_reported(found, parts), by, level, "")
    if measure != _FREQUENCY:
        parts = [_number(combined, keys, weights, measure, level) for keys, weights in members]
        found = _with_reported(Numbers(combined, members, least).answers(level), parts)
        note = f"keys of frequency {least:,} or more in at least one of {combined.stated}"
        return _answers(combined, groups, found, by, level, note)
    whole = where is None and weight is None and not by and any(one.total is None for one in combined.releases)
    answers = _with_reported(_sums(combined, members, least, level), _in_reported_keys(combined, members, level))
    answers = answers if extrapolate else [without_extrapolation(one, whole) for one in answers]
    note = (
        f"over {combined.stated}: each counts the keys that it reports, and in all keys those that have frequency "
        f"{least:,} or more in it"
    )
    result = _answers(combined, groups, answers, by, level, note)
    totals = [release.total for release in combined.releases]
    if by or weight is not None or any(one is None or one.value <= 0 for one in totals):
        return result
    result = replace(result, share=result.value / float(sum(one.value for one in totals if one is not None)))
    if where is None and result.guaranteed and result.below is not None:
        rarer = [known_below(release, Selection(release), least, level) for release in combined.releases]
        result = replace(result, below=_added_below(rarer))
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
    sums, numbers = _sums(combined, members, least, level), Numbers(combined, members, least)
    answers = []
    for n, (s, number) in enumerate(zip(sums, numbers.answers(level), strict=True)):
        value = s.value / number.value if number.value > 0 else math.nan
        if math.isnan(value) or math.isnan(number.standard_error):
            answers.append(unknown_mean(value, number, least))
            continue
        deviations = numbers.deviations(n, value)
        low, high = (end / number.value for end in deviations.interval_above(level))
        ends = value + low - deviations.above / number.value, value + high - deviations.above / number.value
        # where few keys were counted, the deviations seem too small, too: the number's own interval allows for that
        ends = min(ends[0], s.value / number.high), max(ends[1], s.value / max(number.low, 1.0))
        rise = max(value - least, 0.0)
        overcount = numbers.found[n].overcount(level)
        answers.append(mean_answer(value, s, number, deviations, ends, detectable, rise, overcount))
    note = (
        f"over {combined.stated}: elements in those in which a key has frequency {least:,} or more, for each such key"
    )
    return _answers(combined, groups, answers, by, level, note)


def _sums(combined: "Combined", members: Sequence[Group], least: int, level: float) -> list[Estimate]:
    """The sums of frequencies of groups: those of the releases, added."""
    measure = _FREQUENCY.from_frequency(least)
    parts: list[list[SumEstimate]] = [[] for _ in members]
    below, empty = np.zeros(len(members)), np.zeros(len(members))
    for n, release in enumerate(combined.releases):
        scheme = scheme_of(release)
        tallies, here = _tallies(combined, n, members)
        missing = np.setdiff1d(np.arange(len(members)), here)
        if len(missing):  # of all releases together, the most is that of one
            most = largest_unreported_sum(scheme, _FREQUENCY, (1 + level) / 2, least)
            empty[missing] = np.maximum(empty[missing], most)
        if not tallies:
            continue
        found = estimate_sums(tallies, scheme, measure)
        if release.sampling.least == 1 and least > 1:
            everything = extrapolated_sums(tallies, scheme, _FREQUENCY).tolist()
            for at, value, one in zip(here, everything, found, strict=True):
                below[at] += max(value - one.above, 0.0)
        for at, one in zip(here, found, strict=True):
            parts[at].append(one)
    answers: list[Estimate] = []
    for (keys, weights), own, rest, most in zip(members, parts, below.tolist(), empty.tolist(), strict=True):
        if not own:
            answers.append(nothing(combined, level, least, most, Below()))
            continue
        stated = combined.threshold, len(keys), bool((weights == 1).all())
        rarer = Below("extrapolated", rest) if least > 1 else None
        summed = answer(added(own), _FREQUENCY, level, least, *stated, rarer)
        answers.append(replace(summed, high=summed.high + most))
    return answers


def _named(combined: "Combined", members: Sequence[Group], measure: Measure, level: float) -> list[Estimate]:
    """The frequency of each named key over all releases, or 1 for a number of keys."""
    keys, weights = (np.concatenate(column) for column in zip(*members, strict=True))
    value, _, low, high = combined.estimates_of(keys, level)
    value, low, high = (weights * measure(np.minimum(i, 2.0**62).astype(np.int64)) for i in (value, low, high))
    low, high = np.minimum(low, high), np.maximum(low, high)
    rows = zip(value.tolist(), low.tolist(), high.tolist(), strict=True)
    return [Estimate(v, math.nan, a, b, level, keys=1, detection_threshold=combined.threshold) for v, a, b in rows]


def _with_reported(answers: Sequence[Estimate], parts: Sequence[Reported]) -> list[Estimate]:
    return [replace(one, reported=own) for one, own in zip(answers, parts, strict=True)]


def _number(combined: "Combined", keys: Ints, weights: Floats, measure: Measure, level: float) -> Reported:
    """The number of reported keys, which is known, or of those that have a frequency or more in some release.

    The latter by intervals that all hold at once: of the keys that have it for certain, and of those that may.
    """
    if measure == _KEYS:
        number = float(weights.sum())
        return Reported(number, 0.0, number, number)
    least, tests = measure.kink or 1, max(combined.cells[keys].size, 1)
    reached = np.zeros((3, len(keys)), bool)
    for n, release in enumerate(combined.releases):
        cells = combined.cells[keys, n]
        here = np.flatnonzero(cells)
        if len(here):
            ends = likely_frequencies(cells[here], *scheme_of(release), 1 - (1 - level) / tests)
            reached[:, here] |= np.array(ends) >= least
    value, certain, possible = reached
    return number_between(weights, value, certain, possible)


def _in_reported_keys(combined: "Combined", members: Sequence[Group], level: float) -> list[Reported]:
    """What each release has in the keys that it reports, added: their errors are independent."""
    answers = []
    for keys, weights in members:
        if len(keys) == 1:
            [one] = _named(combined, [(keys, weights)], _FREQUENCY, level)
            answers.append(Reported(one.value, math.nan, one.low, one.high))
        else:
            parts = [_of_release(combined, n, keys, weights, level) for n in range(len(combined.releases))]
            answers.append(added_reported(parts))
    return answers


def _of_release(combined: "Combined", n: int, keys: Ints, weights: Floats, level: float) -> Reported:
    """What one release has in those of some keys that it reports."""
    cells = combined.cells[keys, n]
    here = cells > 0
    return sum_of_tokens(combined.releases[n], cells[here], weights[here], _FREQUENCY, level)


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


def _least(combined: "Combined", measure: Measure, at_least: int | None) -> int:
    """The frequency in one release from which on keys count: one for all releases."""
    counts = measure.counts_keys
    if measure != _FREQUENCY and not counts:
        raise _not_additive(measure)
    if at_least is not None:
        least = check_frequency(at_least)
    else:
        least = max(least_frequency(scheme_of(r), each_key_alike=counts) for r in combined.releases)
    return max(least, measure.kink) if measure.kink is not None else least


def _not_additive(measure: Measure) -> InvalidValue:
    return InvalidValue(
        "over several releases, frequencies are summed and keys are counted",
        f"{measure.name}, which does not add up",
        "ask for frequency, keys or at-least:T, or ask each release",
    )


def _check_calibrated(combined: "Combined", estimator: Estimator | None) -> None:
    check_default_estimator(estimator, "sums over several releases")
    if not all(Calibration.of(scheme_of(release)).feasible for release in combined.releases):
        raise InvalidValue("sums over several releases are calibrated", "too small an epsilon", "ask each release")
