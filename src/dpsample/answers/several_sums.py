"""Sums over the selected keys of several releases with tokens, numbers of keys and means, each with its error.

The coins of releases are independent. So sums of frequencies, and their variances, add up. `several_numbers` counts
keys.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from dpsample.answers.evidence import Groups
from dpsample.answers.question import Question
from dpsample.answers.reported import (
    ONE_KEY,
    ReportedSums,
    added_reported,
    known_number,
    number_between,
)
from dpsample.answers.selection import Selection
from dpsample.answers.several_numbers import Group, Numbers, nothing_reported
from dpsample.answers.token_sums import (
    MeanParts,
    estimates_of_named_keys,
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
from dpsample.estimators.measures import KEYS, Form, Measure
from dpsample.estimators.reported import Reported
from dpsample.estimators.tally import Tally
from dpsample.scheme.likelihood import likely_frequencies
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.scheme import Scheme

if TYPE_CHECKING:
    from dpsample.answers.several_tokens import SeveralTokens


def total(several: "SeveralTokens", question: Question) -> Groups:
    """Estimate a sum of frequencies, or a number of keys, over all releases: see `Answers.sum`."""
    measure = question.measure
    least = _least_summed(several, question)
    _check_calibrated(several, question)
    selection = Selection.of(several.rows, question)
    groups, members = selection.weighted_rows()
    if measure.kink is None and _names_keys(question, selection, members):
        answers = _named(several, members, measure, question.level)
        return _groups(several, groups, [_with_itself_reported(one) for one in answers])
    if measure.form is Form.FREQUENCY:
        return _frequencies(several, question, groups, members, least)
    level = question.level
    reported = [_number_reported(several, group, measure, level) for group in members]
    numbers = Numbers(several, members, least).answers(level)
    in_elements = least * several.step
    note = f"keys of frequency {in_elements:,} or more in at least one of {several.stated}"
    return _groups(several, groups, _with_reported(numbers, reported), note)


def _frequencies(
    several: "SeveralTokens",
    question: Question,
    groups: pa.Table,
    members: Sequence[Group],
    least: int,
) -> Groups:
    """The sums of frequencies of groups."""
    measure, level = question.measure, question.level
    answers = _sums(several, members, measure, least, level)
    answers = _with_reported(answers, _in_reported_keys(several, members, measure, level))
    if not question.extrapolate:
        no_total = any(part.total is None for part in several.parts)
        may_need_total = no_total and question.is_plain_sum and question.where is None
        answers = [without_extrapolation(one, may_need_total) for one in answers]
    if question.is_plain_sum:
        answers = [_with_totals(several, question, one, least) for one in answers]
    return _groups(several, groups, answers, _what_each_counts(several, least))


def _what_each_counts(several: "SeveralTokens", least: int) -> str:
    return (
        f"over {several.stated}: each counts the keys that it reports, and in all keys those that have frequency "
        f"{least * several.step:,} or more in it"
    )


def in_all_keys(several: "SeveralTokens", question: Question) -> Groups:
    """Estimate a sum of frequencies in all keys of a least frequency, without what reported keys have together."""
    least = _least_summed(several, question)
    _check_calibrated(several, question)
    groups, members = Selection.of(several.rows, question).weighted_rows()
    answers = _sums(several, members, question.measure, least, question.level)
    answers = [without_extrapolation(one, may_need_total=False) for one in answers]
    return _groups(several, groups, answers, _what_each_counts(several, least))


def _with_totals(
    several: "SeveralTokens", question: Question, found: Estimate, least: int
) -> Estimate:
    """The same number of elements as a share of the private totals, and what these say of rarer keys."""
    totals = [part.total.value for part in several.parts if part.total is not None]
    if len(totals) < len(several.parts) or min(totals) <= 0:
        return found
    elements = float(sum(totals))
    found = replace(found, share=found.value / elements)
    if question.where is not None or not found.guaranteed or found.below is None:
        return found
    rarer = []
    for part in several.parts:
        everything = Selection(part.rows)
        rarer.append(part.known_below(everything, least, question.level))
    return replace(found, below=_added_below(rarer))


def mean(several: "SeveralTokens", question: Question) -> Groups:
    """Estimate the sum over the number of keys, for keys that have the least frequency in some release."""
    measure = question.measure
    if measure.form is not Form.FREQUENCY:
        raise _not_additive(measure)
    _check_calibrated(several, question)
    least, detectable = least_in_one_release(several, question)
    selection = Selection.of(several.rows, question)
    groups, members = selection.weighted_rows()
    if _names_keys(question, selection, members):
        unweighted = [(keys, np.ones(1)) for keys, _ in members]
        named = _named(several, unweighted, measure, question.level)
        return _groups(several, groups, named)
    means = _means(several, members, measure, least, detectable, question.level)
    counted = f"elements in those in which a key has frequency {least * several.step:,} or more"
    note = f"over {several.stated}: {counted}, for each such key"
    return _groups(several, groups, means, note)


def least_in_one_release(several: "SeveralTokens", question: Question) -> tuple[int, bool]:
    """Return the frequency from which keys count in one release, and whether most such keys are reported by each."""
    bounds = [least_of_keys(part.view, question.at_least) for part in several.parts]
    least = max(bound for bound, _ in bounds)
    return least, all(detectable for _, detectable in bounds)


def _means(
    several: "SeveralTokens",
    members: Sequence[Group],
    measure: Measure,
    least: int,
    detectable: bool,
    level: float,
) -> list[Estimate]:
    """The mean of each group. Its error is that of the sum of the deviations of keys from the mean."""
    sums = _sums(several, members, measure, least, level)
    numbers = Numbers(several, members, least, measure)
    [lowest] = measure([least]).tolist()
    answers = []
    for n, number in enumerate(numbers.answers(level)):
        summed = sums[n]
        value = summed.value / number.value if number.value > 0 else math.nan
        if math.isnan(value) or math.isnan(number.standard_error):
            answers.append(unknown_mean(value, number, least))
            continue
        deviations = numbers.deviations(n, value)
        bias = deviations.above / number.value
        below, above = deviations.interval_above(level)
        low = value + below / number.value - bias
        high = value + above / number.value - bias
        # where few keys were counted, the deviations seem too small, too: the number's own interval allows for that
        fewest_keys = max(number.low, 1.0)
        low = min(low, summed.value / number.high)
        high = max(high, summed.value / fewest_keys)
        overcount = numbers.sums[n].overcount(level)
        rise = max(value - lowest, 0.0)
        parts = MeanParts(summed, number, deviations, overcount, rise, detectable)
        answers.append(parts.mean(value, low, high))
    return answers


def _names_keys(question: Question, selection: Selection, members: Sequence[Group]) -> bool:
    """Whether each group is one key that the question names, and that some release reports."""
    if question.at_least is not None or not members:
        return False
    sizes = {len(keys) for keys, _ in members}
    return sizes == {1} and selection.names_keys


class _SumOfRelease(NamedTuple):
    """What one release says of the sum of a group."""

    above: SumEstimate | None = None  # None if it reports no key of the group
    rarer: float = 0.0  # what rarer keys have, extrapolated
    most_missed: float = 0.0  # the most that keys have if it reports none of the group


def _sums(
    several: "SeveralTokens",
    members: Sequence[Group],
    measure: Measure,
    least: int,
    level: float,
) -> list[Estimate]:
    """The sums of frequencies of groups: those of the releases, added."""
    by_release = []
    for scheme, cells in zip(several.schemes, several.cells.T, strict=True):
        tallies = [_tally(cells[keys], weights) for keys, weights in members]
        by_release.append(_sums_of_release(tallies, scheme, measure, least, level))

    answers = []
    for (keys, weights), *parts in zip(members, *by_release, strict=True):
        sums = [part.above for part in parts if part.above is not None]
        # all releases together miss no more than one does, unless their samples miss the same keys
        missed = [part.most_missed for part in parts]
        most_missed = sum(missed) if several.share_a_seed else max(missed)
        if not sums:
            answers.append(nothing_reported(several, level, least, most_missed, Below()))
            continue
        unweighted = bool((weights == 1).all())
        stated = (least, several.detection_threshold, len(keys), unweighted)
        together = added(sums)
        if several.share_a_seed:
            # errors that may be the same add up themselves, not by their squares
            error = sum(one.standard_error for one in sums)
            together = replace(together, standard_error=error)
        summed = answer(together, measure, level, *stated)
        below = None
        if least > 1:
            rarer = sum(part.rarer for part in parts)
            below = Below("extrapolated", rarer)
        high = summed.high + most_missed
        answers.append(replace(summed, high=high, below=below))
    return answers


def _tally(cells: Ints, weights: Floats) -> Tally | None:
    """The tally of the keys that a release reports, if it reports any."""
    here = cells > 0
    if not here.any():
        return None
    return Tally.of(cells[here], weights[here])


def _sums_of_release(
    tallies: Sequence[Tally | None], scheme: Scheme, measure: Measure, least: int, level: float
) -> list[_SumOfRelease]:
    """What a release says of the sum of each group: from the tally of its keys, if it reports any."""
    reported = [tally for tally in tallies if tally is not None]
    most_missed = 0.0
    if len(reported) < len(tallies):
        most_missed = largest_unreported_sum(scheme, measure, (1 + level) / 2, least)
    sums: list[SumEstimate] = []
    if reported:
        sums = estimate_sums(reported, scheme, measure.from_frequency(least))
    rarer = np.zeros(len(sums))
    if sums and scheme.sampling.least == 1 and least > 1:
        above = [one.above for one in sums]
        everything = extrapolated_sums(reported, scheme, measure)
        rarer = np.maximum(everything - above, 0.0)

    of_reported = iter(zip(sums, rarer.tolist(), strict=True))
    found = []
    for tally in tallies:
        if tally is None:
            found.append(_SumOfRelease(most_missed=most_missed))
        else:
            found.append(_SumOfRelease(*next(of_reported)))
    return found


def _named(
    several: "SeveralTokens", members: Sequence[Group], measure: Measure, level: float
) -> list[Estimate]:
    """The frequency of each named key over all releases, or 1 for a number of keys."""
    keys = np.concatenate([own_keys for own_keys, _ in members])
    weights = np.concatenate([own_weights for _, own_weights in members])
    value, _, low, high = several.estimates_of(keys, level)
    # an upper end may be infinite; with weight 0, it is 0 as any other
    counted = weights != 0
    ends = []
    for frequency in (value, low, high):
        weighted = np.zeros(len(keys))
        values = measure.function(frequency[counted])
        weighted[counted] = weights[counted] * values
        ends.append(weighted)
    return estimates_of_named_keys(ends, level, several.detection_threshold)


def _with_itself_reported(found: Estimate) -> Estimate:
    """The estimate of a named key, which is that in reported keys, too."""
    reported = Reported(found.value, math.nan, found.low, found.high, ONE_KEY)
    return replace(found, reported=reported)


def _with_reported(answers: Sequence[Estimate], parts: Sequence[Reported]) -> list[Estimate]:
    return [replace(one, reported=own) for one, own in zip(answers, parts, strict=True)]


def _number_reported(
    several: "SeveralTokens", group: Group, measure: Measure, level: float
) -> Reported:
    """The number of reported keys, which is known, or of those that have a frequency or more in some release.

    The latter by intervals that all hold at once (Bonferroni): of the keys that have it for certain, and of those that
    may.
    """
    keys, weights = group
    if measure == KEYS:
        return known_number(float(weights.sum()))
    least = measure.kink or 1
    tests = max(several.cells[keys].size, 1)
    level_of_each = 1 - (1 - level) / tests
    reached = np.zeros((3, len(keys)), bool)  # by values, by lower ends, by upper ends
    for n, scheme in enumerate(several.schemes):
        cells = several.cells[keys, n]
        here = np.flatnonzero(cells)
        if len(here):
            ends = likely_frequencies(cells[here], *scheme, level_of_each)
            reached[:, here] |= np.array(ends) >= least
    value, certain, possible = reached
    return number_between(weights, value, certain, possible)


def _in_reported_keys(
    several: "SeveralTokens", members: Sequence[Group], measure: Measure, level: float
) -> list[Reported]:
    """What each release has in the keys that it reports, added: their errors are independent."""
    answers = []
    for keys, weights in members:
        if len(keys) == 1:
            [one] = _named(several, [(keys, weights)], measure, level)
            answers.append(Reported(one.value, math.nan, one.low, one.high))
            continue
        parts = []
        for part, cells in zip(several.parts, several.cells.T, strict=True):
            own = cells[keys]
            here = own > 0
            sums = ReportedSums(part.view, measure, level)
            parts.append(sums.of_tokens(own[here], weights[here]))
        answers.append(added_reported(parts))
    return answers


def _groups(
    several: "SeveralTokens", groups: pa.Table, answers: list[Estimate], note: str = ""
) -> Groups:
    notes = (note,) if note else ()
    return Groups(groups, answers, (*notes, *several.remarks))


def _added_below(parts: Sequence[Below]) -> Below:
    """What rarer keys hold in all releases together: their errors are independent."""
    value = sum(part.value for part in parts)
    below = [part.value - part.low for part in parts]
    above = [part.high - part.value for part in parts]
    low = max(value - math.hypot(*below), 0.0)
    return Below("known", value, low, value + math.hypot(*above))


def _least_summed(several: "SeveralTokens", question: Question) -> int:
    """The frequency in one release from which keys count: one for all releases."""
    counts_keys = question.counts_keys_from is not None
    if question.measure.form is not Form.FREQUENCY and not counts_keys:
        raise _not_additive(question.measure)
    least = []
    for scheme in several.schemes:
        own = question.at_least or least_frequency(scheme, each_key_alike=counts_keys)
        least.append(own)
    return max(*least, question.measure.kink or 1)


def _not_additive(measure: Measure) -> InvalidValue:
    return InvalidValue(
        f"{measure} does not add up over several releases",
        "ask for frequency, keys or at-least:T, or ask each release",
    )


def _check_calibrated(several: "SeveralTokens", question: Question) -> None:
    question.require_default_estimator("sums over several releases")
    calibrations = [Calibration.of(scheme) for scheme in several.schemes]
    if not all(calibration.feasible for calibration in calibrations):
        raise InvalidValue(
            "epsilon is too small for calibrated sums over several releases", "ask each release"
        )
