"""Sums over the selected keys of a release, numbers of keys and means, each with its error.

All of it is post-processing: it sees the release alone.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.estimators.calibrated import estimate_sums
from dpsample.estimators.deviations import Deviations
from dpsample.estimators.estimate import (
    ESTIMATORS,
    Below,
    Estimate,
    Estimator,
    check_estimator,
    estimate,
    estimates,
    least_frequency,
)
from dpsample.estimators.intervals import SumEstimate
from dpsample.estimators.measures import Measure
from dpsample.estimators.notes import FEW, HIDDEN, blurred_note
from dpsample.estimators.reported import Reported
from dpsample.estimators.tally import Tally
from dpsample.exact import MAX_FREQUENCY, check_level
from dpsample.presentation.explain import explain_kept
from dpsample.questions.arguments import check_frequency
from dpsample.questions.reported import ONE_KEY, reported_sums
from dpsample.questions.result import Estimates
from dpsample.questions.selection import By, Rows, Selection, Weight, Where
from dpsample.questions.single_keys import key_frequencies
from dpsample.scheme.sampling import Floats
from dpsample.scheme.scheme import Scheme

if TYPE_CHECKING:
    from dpsample.release.release import Release


def total(
    release: "Release",
    where: Where = None,
    weight: Weight = None,
    of: Measure | str | Callable[[Floats], Any] = "frequency",
    by: By = None,
    estimator: Estimator | None = None,
    level: float = 0.95,
    attributes: Any = None,
    at_least: int | None = None,
    extrapolate: bool = False,
) -> Any:
    """Estimate the sum of ``L(x) g(frequency of x)`` over the selected keys x of frequency `at_least` or more.

    Keys count whether they were reported or not; `Estimate.reported` is the sum over those that were. Returns an
    `Estimate`, or with `by` an `Estimates` of one for each group. If the question names one key, and it was reported,
    the answer is about this key, whatever its frequency. What rarer keys hold is extrapolated if that is asked.
    """
    measure, level, estimator = Measure.of(of), check_level(level), check_estimator(estimator)
    if release.keys_only and (at_least is not None or (measure([1, MAX_FREQUENCY]) != 1).any()):
        raise needs_tokens("what depends on frequencies")
    least = 1 if release.keys_only else _least(release, measure, at_least)
    selection = Selection(release, where, weight, by, attributes)

    shares = weight is None and measure == Measure.of("frequency")
    whole = shares and where is None and not by and release.total is None

    def answered(tallies: list[Tally]) -> list[Estimate]:
        if release.keys_only:
            return [reported_keys(release, tally.total, float(tally.weights.sum()), level) for tally in tallies]
        together = reported_sums(release, selection, tallies, measure, level)
        if about_named_keys(selection, tallies, at_least, estimator):
            named = _named_keys(release, selection, measure, level)
            parts = [replace(own, others=ONE_KEY) for own in together]
            return [replace(one, reported=own) for one, own in zip(named, parts, strict=True)]
        found = estimates(tallies, _scheme(release), measure, estimator, level, least)
        found = found if extrapolate else [without_extrapolation(one, whole) for one in found]
        return [replace(one, reported=own) for one, own in zip(found, together, strict=True)]

    answers = _answers(selection, by, level, answered, everything=shares and where is None and not by)
    if by or not shares or release.total is None or release.total.value <= 0:
        return answers
    answer = replace(answers, share=answers.value / float(release.total.value))
    if where is None and answer.guaranteed and answer.below is not None:
        answer = replace(answer, below=known_below(release, selection, least, level))
    return answer


def without_extrapolation(estimate: Estimate, whole: bool) -> Estimate:
    """Return an answer that says of rarer keys what the release knows: nothing.

    A private total would tell, if the question is about the `whole` data.
    """
    if estimate.below is None:
        return estimate
    remedy = "; a private total would tell: release with total=True (--with-total)" if whole else ""
    return replace(estimate, below=Below(remedy=remedy))


def count_keys(release: "Release", at_least: int | None = None, **options: Any) -> Any:
    """Estimate the number of selected keys of frequency `at_least` or more, reported or not.

    The other arguments are those of `total`. With a weight it is the sum of the weights of these keys.
    """
    return total(release, of="keys", at_least=at_least, **options)


def mean(
    release: "Release",
    where: Where = None,
    weight: Weight = None,
    of: Measure | str | Callable[[Floats], Any] = "frequency",
    by: By = None,
    estimator: Estimator | None = None,
    level: float = 0.95,
    attributes: Any = None,
    at_least: int | None = None,
) -> Any:
    """Estimate the mean of g(frequency) over the selected keys of frequency `at_least` or more, weighted by L(x).

    The number of rarer keys cannot be known, so neither can their mean.
    """
    measure, level, estimator = Measure.of(of), check_level(level), check_estimator(estimator)
    if release.keys_only:
        raise needs_tokens("a mean over keys")
    least, detectable = least_of_keys(release, at_least)
    selection = Selection(release, where, weight, by, attributes)

    def answered(tallies: list[Tally]) -> list[Estimate]:
        if about_named_keys(selection, tallies, at_least, estimator):
            return _named_keys(release, selection, measure, level, weighted=False)
        summed, counted = measure.from_frequency(least), Measure.of("keys").from_frequency(least)
        sums, numbers = (estimates(tallies, _scheme(release), g, estimator, level, least) for g in (summed, counted))
        means = [s.value / n.value if n.value > 0 else math.nan for s, n in zip(sums, numbers, strict=True)]
        if any(math.isnan(n.standard_error) for n in numbers):
            return [unknown_mean(value, n, least) for value, n in zip(means, numbers, strict=True)]
        deviations = Deviations(tallies, _scheme(release), summed, counted)
        centres, keys = np.nan_to_num(means), np.array([max(n.value, 1e-9) for n in numbers])
        ends = zip(*(bounds.tolist() for bounds in deviations.intervals(centres, keys, level)), strict=True)
        overcounts = [number.overcount(level) for number in estimate_sums(tallies, _scheme(release), counted)]
        rises = [max(value - float(measure([least])[0]), 0.0) for value in means]
        return [
            unknown_mean(v, n, least) if math.isnan(v) else mean_answer(v, s, n, d, end, detectable, rise, overcount)
            for v, s, n, d, end, rise, overcount in zip(
                means, sums, numbers, deviations.at(centres), ends, rises, overcounts, strict=True
            )
        ]

    return _answers(selection, by, level, answered)


def mean_answer(
    value: float,
    sums: Estimate,
    keys: Estimate,
    deviations: SumEstimate,
    ends: tuple[float, float],
    detectable: bool,
    rise: float,
    overcount: tuple[float, float],
) -> Estimate:
    """Return the mean of a group, with the error of its deviations; keys at the least frequency are below by `rise`.

    `overcount` is how many keys from below were counted, and an upper bound: they lower the mean. If it is rare keys
    whose number is uncertain, the mean is as far above theirs as the interval of that number says, which is in whole
    keys. The law of the deviations is then far from normal, and `ends` alone would be too close.
    """
    assert keys.at_least is not None
    low, high = ends
    if keys.high > 0:
        low = min(low, value - rise * (1 - keys.value / keys.high))
    if keys.low > 0:
        high = max(high, value + rise * (keys.value / keys.low - 1))
    high += overcount[1] * rise / keys.value
    low, high = max(min(low, value), min(value, 0.0)), max(high, value)
    clear = overcount[0] * rise <= deviations.tuning.negligible_extrapolation * deviations.standard_error
    guaranteed = detectable and sums.guaranteed and keys.guaranteed and clear
    notes = [] if guaranteed else [blurred_note(keys.at_least) if detectable else HIDDEN]
    if guaranteed and not deviations.rests_on_enough_keys:
        notes.append(FEW)
    return replace(
        keys,
        value=value,
        standard_error=deviations.standard_error / keys.value,
        low=low,
        high=high,
        guaranteed=guaranteed,
        notes=tuple(notes),
        below=None,
    )


def unknown_mean(value: float, keys: Estimate, least: int) -> Estimate:
    """Return a mean without an interval."""
    unknown = replace(keys, value=value, standard_error=math.nan, low=-math.inf, high=math.inf, guaranteed=False)
    return replace(unknown, at_least=least, below=None)


def needs_tokens(what: str) -> InvalidValue:
    """Refuse a question that a release of keys only cannot answer."""
    return InvalidValue(f"{what} needs tokens", "a release of keys only", "ask count_keys, or release with tokens")


def kept_notes(release: Rows, everything: bool = False) -> tuple[str, ...]:
    """Return the note that numbers are of keys that users kept; for a sum over everything, with how much that is."""
    terms = release.terms
    if terms.max_keys is None or terms.keys_only:
        return ()
    return (explain_kept(terms.max_keys, terms.kept if everything else None),)


def _answers(
    selection: Selection,
    by: By,
    level: float,
    answered: Callable[[list[Tally]], list[Estimate]],
    everything: bool = False,
) -> Any:
    groups, tallies = selection.tallies()
    kept = kept_notes(selection.release, everything)
    answers = [replace(answer, notes=(*answer.notes, *kept)) for answer in (answered(tallies) if tallies else [])]
    return grouped(selection.release, groups, answers, level) if by else answers[0]


def grouped(release: Rows, groups: pa.Table, answers: list[Estimate], level: float) -> Estimates:
    """Return the answers of groups as one."""
    columns = _reported_columns(answers)
    for name in ("value", "standard_error", "low", "high"):
        columns[name] = pa.array([getattr(e, name) for e in answers], pa.float64())
    columns["keys"] = pa.array([e.keys for e in answers], pa.int64())
    if any(e.below and e.below.kind == "extrapolated" for e in answers):
        columns["below"] = pa.array([e.below.value if e.below else 0.0 for e in answers], pa.float64())
    columns["guaranteed"] = pa.array([e.guaranteed for e in answers], pa.bool_())
    threshold = release.terms.detection_threshold
    notes = dict.fromkeys(note for e in answers for note in e.notes)
    least = answers[0].at_least if answers else None
    others = dict.fromkeys(e.reported.others for e in answers if e.reported is not None)
    same = next(iter(others)) if len(others) == 1 else ""
    return Estimates(groups, pa.table(columns), level, threshold, tuple(notes), least, others=same)


def _reported_columns(answers: list[Estimate]) -> dict[str, pa.Array]:
    """Return the columns of what is in reported keys, if the answers are totals."""
    parts = [e.reported for e in answers]
    if not parts or any(part is None for part in parts):
        return {}
    names = {"reported": "value", "reported_low": "low", "reported_high": "high"}
    return {name: pa.array([getattr(part, of) for part in parts], pa.float64()) for name, of in names.items()}


def _scheme(release: "Release") -> Scheme:
    return Scheme(release.sampling, release.per_key, release.grid or 1)


def about_named_keys(selection: Selection, tallies: list[Tally], at_least: int | None, estimator: Estimator) -> bool:
    """Whether each group is one key that the question names, and that was reported."""
    plain = at_least is None and estimator == ESTIMATORS[0]
    return plain and selection.names_keys and all(tally.total == 1 for tally in tallies)


def _named_keys(
    release: "Release", selection: Selection, measure: Measure, level: float, weighted: bool = True
) -> list[Estimate]:
    """The frequency of each named key, as in the release's table, or what a measure makes of it."""
    groups = selection.weighted_rows()[1]
    rows = np.concatenate([places for places, _ in groups])
    weights = np.concatenate([w for _, w in groups]) if weighted else np.ones(len(rows))
    value, low, high = (weights * measure(i) for i in key_frequencies(release, rows, level))
    low, high = np.minimum(low, high), np.maximum(low, high)
    threshold = release.terms.detection_threshold
    ends = zip(value.tolist(), low.tolist(), high.tolist(), strict=True)
    return [Estimate(v, math.nan, a, b, level, keys=1, detection_threshold=threshold) for v, a, b in ends]


def known_below(release: "Release", selection: Selection, least: int, level: float) -> Below:
    """Return what keys below the least frequency hold: the private total minus the sum over the others.

    Of the probability that the interval misses, half goes to each of the two.
    """
    assert release.total is not None
    half = (1 + level) / 2
    elements = release.total.estimate(half)
    [tally] = selection.tallies()[1]
    above = estimate(tally, _scheme(release), Measure.of("frequency"), level=half, least=least)
    ends = (elements.value - above.value, elements.low - above.high, elements.high - above.low)
    value, low, high = (max(end, 0.0) for end in ends)
    return Below("known", value, low, high)


def reported_keys(release: "Release", keys: int, weight: float, level: float) -> Estimate:
    """Return the number of reported keys, or the sum of their weights: a lower bound, if each has weight 1."""
    low = weight if keys == weight else -math.inf
    threshold = release.terms.detection_threshold
    note = "this counts the reported keys; how many others there are is unknown"
    if release.keys_only:
        note = f"a release of keys only: {note}"
    number = Reported(weight, 0.0, weight, weight)
    return Estimate(weight, math.nan, low, math.inf, level, math.nan, keys, threshold, False, (note,), reported=number)


def _least(release: "Release", measure: Measure, at_least: int | None) -> int:
    """The frequency from which on keys are summed."""
    if at_least is not None:
        least = check_frequency(at_least)
    else:
        least = least_frequency(_scheme(release), each_key_alike=measure == Measure.of("keys"))
    if measure.kink is not None and not measure([measure.kink - 1]).any():
        least = max(least, measure.kink)  # rarer keys count 0
    return least


def least_of_keys(release: "Release", at_least: int | None) -> tuple[int, bool]:
    """Return the frequency from which on keys are averaged, and whether most of these keys are reported."""
    threshold = release.terms.detection_threshold
    if at_least is not None:
        least = check_frequency(at_least)
        return least, threshold is not None and least >= threshold
    if threshold is None:
        raise InvalidValue(
            "some frequency has keys that are reported with probability 0.5",
            "none in this release",
            "state at_least; no interval can be guaranteed then",
        )
    return least_frequency(_scheme(release), each_key_alike=True), True
