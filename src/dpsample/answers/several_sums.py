"""Sums over the selected keys of several releases, numbers of keys and means, each with its error.

The coins of releases are independent. So sums of frequencies, and their variances, add up. `numbers` counts keys.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dpsample.answers.evidence import Groups
from dpsample.answers.question import Question
from dpsample.answers.reported import ONE_KEY, ReportedSums, added_reported, number_between
from dpsample.answers.selection import Selection
from dpsample.answers.several_numbers import Group, Numbers, nothing, scheme_of
from dpsample.answers.token_sums import (
    MeanParts,
    least_of_keys,
    unknown_mean,
    without_extrapolation,
)
from dpsample.errors import InvalidValue
from dpsample.estimators.calibrated import estimate_sums, extrapolated_sums
from dpsample.estimators.calibration import Calibration
from dpsample.estimators.estimate import (
    Below,
    Estimate,
    answer,
    largest_unreported_sum,
    least_frequency,
)
from dpsample.estimators.intervals import SumEstimate, added
from dpsample.estimators.measures import FREQUENCY, KEYS, Measure
from dpsample.estimators.reported import Reported
from dpsample.estimators.tally import Tally
from dpsample.scheme.likelihood import likely_frequencies
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.scheme import Scheme

if TYPE_CHECKING:
    from dpsample.answers.several_tokens import SeveralTokens


def total(combined: "SeveralTokens", question: Question) -> Groups:
    """Estimate a sum of frequencies, or a number of keys, over all releases: see `Answers.sum`."""
    measure, level, least = question.measure, question.level, _least(combined, question)
    _check_calibrated(combined, question)
    selection = Selection.of(combined.rows, question)
    groups, members = selection.weighted_rows()
    if measure.kink is None and _names_keys(question, selection, members):
        found = _named(combined, members, measure, level)
        parts = [Reported(one.value, math.nan, one.low, one.high, ONE_KEY) for one in found]
        return _groups(combined, groups, _with_reported(found, parts))
    if measure != FREQUENCY:
        parts = [_number(combined, keys, weights, measure, level) for keys, weights in members]
        found = _with_reported(Numbers(combined, members, least).answers(level), parts)
        note = f"keys of frequency {least:,} or more in at least one of {combined.stated}"
        return _groups(combined, groups, found, note)
    totals = [part.total for part in combined.parts]
    may_need_total = question.is_plain_sum and question.where is None and None in totals
    answers = _with_reported(
        _sums(combined, members, least, level), _in_reported_keys(combined, members, level)
    )
    answers = (
        answers
        if question.extrapolate
        else [without_extrapolation(one, may_need_total) for one in answers]
    )
    note = (
        f"over {combined.stated}: each counts the keys that it reports, and in all keys those that have frequency "
        f"{least:,} or more in it"
    )
    result = _groups(combined, groups, answers, note)
    if not question.is_plain_sum or any(one is None or one.value <= 0 for one in totals):
        return result
    [answer] = answers
    elements = float(sum(one.value for one in totals if one is not None))
    answer = replace(answer, share=answer.value / elements)
    if question.where is None and answer.guaranteed and answer.below is not None:
        rarer = [part.known_below(Selection(part.rows), least, level) for part in combined.parts]
        answer = replace(answer, below=_added_below(rarer))
    return result._replace(estimates=[answer])


def mean(combined: "SeveralTokens", question: Question) -> Groups:
    """Estimate the sum over the number of keys, for keys that have the least frequency in some release.

    The error is that of the deviations from the mean v. With S the key's sum, the variance of S - v N has the unbiased
    estimate var S + 2 v P S + v**2 (P**2 - P).
    """
    level = question.level
    if question.measure != FREQUENCY:
        raise _not_additive(question.measure)
    _check_calibrated(combined, question)
    bounds = [least_of_keys(part.view, question.at_least) for part in combined.parts]
    least, detectable = max(bound for bound, _ in bounds), all(sure for _, sure in bounds)
    selection = Selection.of(combined.rows, question)
    groups, members = selection.weighted_rows()
    if _names_keys(question, selection, members):
        ones = [(keys, np.ones(1)) for keys, _ in members]
        return _groups(combined, groups, _named(combined, ones, FREQUENCY, level))
    sums, numbers = _sums(combined, members, least, level), Numbers(combined, members, least)
    answers = []
    for n, (s, number) in enumerate(zip(sums, numbers.answers(level), strict=True)):
        value = s.value / number.value if number.value > 0 else math.nan
        if math.isnan(value) or math.isnan(number.standard_error):
            answers.append(unknown_mean(value, number, least))
            continue
        deviations = numbers.deviations(n, value)
        low, high = (end / number.value for end in deviations.interval_above(level))
        low, high = (value + end - deviations.above / number.value for end in (low, high))
        # where few keys were counted, the deviations seem too small, too: the number's own interval allows for that
        low, high = min(low, s.value / number.high), max(high, s.value / max(number.low, 1.0))
        overcount = numbers.found[n].overcount(level)
        parts = MeanParts(s, number, deviations, overcount, max(value - least, 0.0), detectable)
        answers.append(parts.mean(value, low, high))
    counted = f"elements in those in which a key has frequency {least:,} or more"
    note = f"over {combined.stated}: {counted}, for each such key"
    return _groups(combined, groups, answers, note)


def _names_keys(question: Question, selection: Selection, members: Sequence[Group]) -> bool:
    """Whether each group is one key that the question names, and that some release reports."""
    plain = question.at_least is None and bool(members)
    return plain and selection.names_keys and all(len(keys) == 1 for keys, _ in members)


def _sums(
    combined: "SeveralTokens", members: Sequence[Group], least: int, level: float
) -> list[Estimate]:
    """The sums of frequencies of groups: those of the releases, added."""
    measure = FREQUENCY.from_frequency(least)
    parts: list[list[SumEstimate]] = [[] for _ in members]
    below, empty = np.zeros(len(members)), np.zeros(len(members))
    for n, release in enumerate(combined.releases):
        scheme = scheme_of(release)
        tallies, here = _tallies(combined, n, members)
        missing = np.setdiff1d(np.arange(len(members)), here)
        if len(missing):  # of all releases together, the most is that of one
            most = largest_unreported_sum(scheme, FREQUENCY, (1 + level) / 2, least)
            empty[missing] = np.maximum(empty[missing], most)
        if not tallies:
            continue
        found = estimate_sums(tallies, scheme, measure)
        if release.sampling.least == 1 and least > 1:
            everything = extrapolated_sums(tallies, scheme, FREQUENCY).tolist()
            for at, value, one in zip(here, everything, found, strict=True):
                below[at] += max(value - one.above, 0.0)
        for at, one in zip(here, found, strict=True):
            parts[at].append(one)
    answers: list[Estimate] = []
    for (keys, weights), own, rest, most in zip(
        members, parts, below.tolist(), empty.tolist(), strict=True
    ):
        if not own:
            answers.append(nothing(combined, level, least, most, Below()))
            continue
        stated = combined.detection_threshold, len(keys), bool((weights == 1).all())
        rarer = Below("extrapolated", rest) if least > 1 else None
        summed = replace(answer(added(own), FREQUENCY, level, least, *stated), below=rarer)
        answers.append(replace(summed, high=summed.high + most))
    return answers


def _named(
    combined: "SeveralTokens", members: Sequence[Group], measure: Measure, level: float
) -> list[Estimate]:
    """The frequency of each named key over all releases, or 1 for a number of keys."""
    keys, weights = (np.concatenate(column) for column in zip(*members, strict=True))
    value, _, low, high = combined.estimates_of(keys, level)
    value, low, high = (
        weights * measure(np.minimum(i, 2.0**62).astype(np.int64)) for i in (value, low, high)
    )
    low, high = np.minimum(low, high), np.maximum(low, high)
    rows = zip(value.tolist(), low.tolist(), high.tolist(), strict=True)
    return [
        Estimate(v, math.nan, a, b, level, keys=1, detection_threshold=combined.detection_threshold)
        for v, a, b in rows
    ]


def _with_reported(answers: Sequence[Estimate], parts: Sequence[Reported]) -> list[Estimate]:
    return [replace(one, reported=own) for one, own in zip(answers, parts, strict=True)]


def _number(
    combined: "SeveralTokens", keys: Ints, weights: Floats, measure: Measure, level: float
) -> Reported:
    """The number of reported keys, which is known, or of those that have a frequency or more in some release.

    The latter by intervals that all hold at once: of the keys that have it for certain, and of those that may.
    """
    if measure == KEYS:
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


def _in_reported_keys(
    combined: "SeveralTokens", members: Sequence[Group], level: float
) -> list[Reported]:
    """What each release has in the keys that it reports, added: their errors are independent."""
    answers = []
    for keys, weights in members:
        if len(keys) == 1:
            [one] = _named(combined, [(keys, weights)], FREQUENCY, level)
            answers.append(Reported(one.value, math.nan, one.low, one.high))
        else:
            parts = [
                _of_release(combined, n, keys, weights, level)
                for n in range(len(combined.releases))
            ]
            answers.append(added_reported(parts))
    return answers


def _of_release(
    combined: "SeveralTokens", n: int, keys: Ints, weights: Floats, level: float
) -> Reported:
    """What one release has in those of some keys that it reports."""
    cells = combined.cells[keys, n]
    here = cells > 0
    return ReportedSums(combined.parts[n].view, FREQUENCY, level).of_tokens(
        cells[here], weights[here]
    )


def _tallies(
    combined: "SeveralTokens", n: int, members: Sequence[Group]
) -> tuple[list[Tally], list[int]]:
    """The tallies of the groups that have a key in one release, and which they are."""
    tallies, groups = [], []
    for group, (keys, weights) in enumerate(members):
        cells = combined.cells[keys, n]
        if cells.any():
            tallies.append(Tally.of(cells[cells > 0], weights[cells > 0]))
            groups.append(group)
    return tallies, groups


def _groups(
    combined: "SeveralTokens", groups: pa.Table, answers: list[Estimate], note: str = ""
) -> Groups:
    return Groups(groups, answers, (*((note,) if note else ()), *combined.remarks))


def _added_below(parts: Sequence[Below]) -> Below:
    value = sum(part.value for part in parts)
    down, up = (
        math.hypot(*(getattr(part, end) - part.value for part in parts)) for end in ("low", "high")
    )
    return Below("known", value, max(value - down, 0.0), value + up)


def _least(combined: "SeveralTokens", question: Question) -> int:
    """The frequency in one release from which on keys count: one for all releases."""
    if question.measure != FREQUENCY and question.counts_keys_from is None:
        raise _not_additive(question.measure)
    return max(_least_in_one(part.view.scheme, question) for part in combined.parts)


def _least_in_one(scheme: Scheme, question: Question) -> int:
    counts = question.counts_keys_from is not None
    least = question.at_least or least_frequency(scheme, each_key_alike=counts)
    return max(least, question.measure.kink or least)


def _not_additive(measure: Measure) -> InvalidValue:
    return InvalidValue(
        f"{measure} does not add up over several releases",
        "ask for frequency, keys or at-least:T, or ask each release",
    )


def _check_calibrated(combined: "SeveralTokens", question: Question) -> None:
    question.require_default_estimator("sums over several releases")
    if not all(Calibration.of(part.view.scheme).feasible for part in combined.parts):
        raise InvalidValue(
            "epsilon is too small for calibrated sums over several releases", "ask each release"
        )
