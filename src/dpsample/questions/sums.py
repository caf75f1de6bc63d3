"""Sums over the selected keys of a release, numbers of keys and means, each with its error.

All of it is post-processing: it sees the release alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.estimators.calibrated import estimate_sum
from dpsample.estimators.estimate import Estimate, check_estimator, estimate
from dpsample.estimators.measures import Measure
from dpsample.estimators.tally import Tally
from dpsample.exact import MAX_FREQUENCY, check_level
from dpsample.questions.result import Estimates
from dpsample.questions.selection import By, Selection, Weight, Where
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import Floats

if TYPE_CHECKING:
    from dpsample.release.release import Release


def total(
    release: "Release",
    where: Where = None,
    weight: Weight = None,
    of: Measure | str | Callable[[Floats], Any] = "frequency",
    by: By = None,
    estimator: str | None = None,
    level: float = 0.95,
    attributes: Any = None,
) -> Any:
    """Estimate the sum of ``L(x) g(frequency of x)`` over the selected keys x, reported or not.

    Returns an `Estimate`, or with `by` an `Estimates` of one for each group, answered as if selected by `where`.
    """
    measure, level, estimator = Measure.of(of), check_level(level), check_estimator(estimator)
    if release.keys_only and (measure([1, MAX_FREQUENCY]) != 1).any():
        raise needs_tokens("what depends on frequencies")

    def answered(tally: Tally) -> Estimate:
        if release.keys_only:
            return reported_keys(release, tally.total, float(tally.weights.sum()), level)
        assert release.grid is not None
        terms = release.sampling, release.per_key, release.grid
        answer = estimate(tally, *terms, measure, estimator, level)
        if (
            release.total is None
            or weight is not None
            or measure != Measure.of("frequency")
            or release.total.value <= 0
        ):
            return answer
        return replace(answer, share=answer.value / float(release.total.value))

    return _answers(Selection(release, where, weight, by, attributes), by, level, answered)


def count_keys(release: "Release", at_least: int | None = None, **options: Any) -> Any:
    """Estimate the number of selected keys, reported or not; `at_least` counts those of at least that frequency.

    The other arguments are those of `total`. With a weight it is the sum of the weights of these keys.
    """
    return total(release, of="keys" if at_least is None else f"at-least:{check_frequency(at_least)}", **options)


def mean(
    release: "Release",
    where: Where = None,
    weight: Weight = None,
    of: Measure | str | Callable[[Floats], Any] = "frequency",
    by: By = None,
    estimator: str | None = None,
    level: float = 0.95,
    attributes: Any = None,
    at_least: int | None = None,
) -> Any:
    """Estimate the mean of g(frequency) over the selected keys of frequency `at_least` or more, weighted by L(x).

    `at_least` is the detection threshold by default: the number of rarer keys cannot be known, so neither can their
    mean.
    """
    measure, level, estimator = Measure.of(of), check_level(level), check_estimator(estimator)
    if release.keys_only:
        raise needs_tokens("a mean over keys")
    assert release.grid is not None
    terms = release.sampling, release.per_key, release.grid
    least, note, detectable = least_frequency(release, at_least)
    summed, counted = measure.from_frequency(least), Measure.of(f"at-least:{least}")

    def answered(tally: Tally) -> Estimate:
        sums, keys = (estimate(tally, *terms, g, estimator, level) for g in (summed, counted))
        value, threshold = sums.value / keys.value if keys.value > 0 else math.nan, keys.detection_threshold
        if math.isnan(value) or math.isnan(keys.standard_error):
            unknown = math.nan, -math.inf, math.inf, level, math.nan
            return Estimate(value, *unknown, tally.total, threshold, False, (note, *keys.notes))
        # the error of the mean is the mean of the keys' deviations from it
        deviations = estimate_sum(tally, *terms, _Deviation(measure, value, least))
        low, high = (value + end / keys.value for end in deviations.interval_above(level))
        # keys from below the least frequency that were counted lower the mean
        number = estimate_sum(tally, *terms, counted)
        overcount, most = number.overcount(level)
        rise = max(value - float(measure([least])[0]), 0.0)
        high += most * rise / keys.value
        bias = (sums.bias - value * keys.bias) / keys.value
        notes = [note]
        guaranteed = detectable and sums.guaranteed and keys.guaranteed and deviations.rests_on_enough_keys
        negligible = deviations.tuning.negligible_extrapolation * deviations.standard_error
        if detectable and (not number.extrapolation_is_negligible or overcount * rise > negligible):
            guaranteed = False
            notes.append(blurred_note(least))
        elif detectable and not guaranteed:
            notes.append("the error rests on few keys: the interval is not guaranteed")
        low, high = max(min(low, value), min(value, 0.0)), max(high, value)
        error = deviations.standard_error / keys.value
        return Estimate(value, error, low, high, level, bias, tally.total, threshold, guaranteed, tuple(notes))

    return _answers(Selection(release, where, weight, by, attributes), by, level, answered)


@dataclass(frozen=True)
class _Deviation:
    """The deviation of a measure from a value at keys from a frequency on (the kink), and 0 at rarer ones."""

    measure: Measure
    value: float
    kink: int

    def __call__(self, frequencies: Any) -> Floats:
        return np.where(np.asarray(frequencies) >= self.kink, self.measure(frequencies) - self.value, 0.0)


def needs_tokens(what: str) -> InvalidValue:
    """Refuse a question that a release of keys only cannot answer."""
    return InvalidValue(f"{what} needs tokens", "a release of keys only", "ask count_keys, or release with tokens")


def _answers(selection: Selection, by: By, level: float, answered: Callable[[Tally], Estimate]) -> Estimate | Estimates:
    groups, tallies = selection.tallies()
    if not by:
        return answered(tallies[0])
    return grouped(selection.release, groups, [answered(tally) for tally in tallies], level)


def grouped(release: "Release", groups: pa.Table, answers: list[Estimate], level: float) -> Estimates:
    """Return the answers of groups as one."""
    fields = ("value", "standard_error", "low", "high", "bias", "keys", "guaranteed")
    types = [pa.float64()] * 5 + [pa.int64(), pa.bool_()]
    numbers = [pa.array([getattr(e, name) for e in answers], type) for name, type in zip(fields, types, strict=True)]
    threshold = release.terms.detection_threshold
    notes = dict.fromkeys(note for e in answers for note in e.notes)
    return Estimates(groups, pa.table(numbers, list(fields)), level, threshold, tuple(notes))


def reported_keys(release: "Release", keys: int, weight: float, level: float) -> Estimate:
    """Return the number of reported keys, or the sum of their weights: a lower bound, if each has weight 1."""
    low = weight if keys == weight else -math.inf
    threshold = frequency_reaching(0.5, release.sampling, release.per_key)
    note = "this counts the reported keys; how many others there are is unknown"
    if release.keys_only:
        note = f"a release of keys only: {note}"
    return Estimate(weight, math.nan, low, math.inf, level, math.nan, keys, threshold, False, (note,))


def least_frequency(release: "Release", at_least: int | None) -> tuple[int, str, bool]:
    """Return the frequency from which on keys are counted, a note, and whether it is above the detection threshold."""
    threshold = frequency_reaching(0.5, release.sampling, release.per_key)
    if at_least is None and threshold is None:
        raise InvalidValue(
            "some frequency has keys that are reported with probability 0.5",
            "none in this release",
            "state at_least; no interval can be guaranteed then",
        )
    least = check_frequency(threshold if at_least is None else at_least)
    detectable = threshold is not None and least >= threshold
    note = f"over keys of frequency {least:,} or more" + ("" if detectable else ", many of which are not reported")
    return least, note, detectable


def blurred_note(least: int) -> str:
    """Return the note of an answer about keys from a frequency on, if keys just below it matter."""
    return (
        f"keys below frequency {least:,} cannot be distinguished from those at it: no interval is guaranteed; a larger "
        "at_least (--at-least) leaves these out"
    )


def check_frequency(value: Any) -> int:
    """Check the frequency from which on keys count."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= MAX_FREQUENCY:
        raise InvalidValue("at_least is a frequency, an integer from 1 on", repr(value), "give one, such as 20")
    return int(value)
