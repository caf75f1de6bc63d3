"""What can be asked of a release: sums, numbers of keys, means and quantiles, each with its error.

All of it is post-processing: it sees the release alone. `ranking` has the questions about single keys.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.estimators.calibrated import NEGLIGIBLE, parts
from dpsample.estimators.cumulative import narrowed
from dpsample.estimators.estimate import Estimate, check_estimator, estimate
from dpsample.estimators.measures import Measure
from dpsample.estimators.spectrum import spectrum
from dpsample.estimators.tally import Tally
from dpsample.exact import MAX_FREQUENCY, check_level
from dpsample.questions.result import Estimates
from dpsample.questions.selection import By, Selection, Weight, Where
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import Floats

if TYPE_CHECKING:
    from dpsample.release.release import Release

_FEW = 30  # keys, below which no interval of a quantile is guaranteed


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

    def answer(tally: Tally) -> Estimate:
        if release.keys_only:
            return _reported(release, tally, level)
        assert release.grid is not None
        terms = release.sampling, release.per_key, release.grid
        found = estimate(tally, *terms, measure, estimator, level)
        if (
            release.total is None
            or weight is not None
            or measure != Measure.of("frequency")
            or release.total.value <= 0
        ):
            return found
        return replace(found, share=found.value / float(release.total.value))

    return _answers(Selection(release, where, weight, by, attributes), by, level, answer)


def count_keys(release: "Release", at_least: int | None = None, **options: Any) -> Any:
    """Estimate the number of selected keys, reported or not; `at_least` counts those of at least that frequency.

    The other arguments are those of `total`. With a weight it is the sum of the weights of these keys.
    """
    return total(release, of="keys" if at_least is None else f"at-least:{_frequency(at_least)}", **options)


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

    `at_least` is the frequency from which on keys are likely to be reported, unless told: how many rarer ones there
    are cannot be seen, so neither can their mean.
    """
    measure, level, estimator = Measure.of(of), check_level(level), check_estimator(estimator)
    if release.keys_only:
        raise needs_tokens("a mean over keys")
    assert release.grid is not None
    terms = release.sampling, release.per_key, release.grid
    least, note, sure = _least(release, at_least)

    def answer(tally: Tally) -> Estimate:
        sums, keys = (estimate(tally, *terms, g, estimator, level) for g in (_from(least, measure), _from(least)))
        value, visible = sums.value / keys.value if keys.value > 0 else math.nan, keys.detection_threshold
        if math.isnan(value) or math.isnan(keys.standard_error):
            unknown = (note, *keys.notes)
            return Estimate(value, math.nan, -math.inf, math.inf, level, math.nan, tally.total, visible, False, unknown)
        # the mean is off by the mean of what keys are above it
        above = parts(tally, *terms, _Above(measure, value, least))
        low, high = (value + end / keys.value for end in above.interval(level))
        # without the keys that look like those at the lower end, but are below, it is higher
        number = parts(tally, *terms, _from(least))
        about, most = number.taken(level)
        higher = max(value - float(measure([least])[0]), 0.0)
        high += most * higher / keys.value
        bias = (sums.bias - value * keys.bias) / keys.value
        notes, guaranteed = [note], sure and sums.guaranteed and keys.guaranteed and above.sure
        if sure and (not number.clear or about * higher > NEGLIGIBLE * above.error):
            guaranteed = False
            notes.append(_blurred(least))
        elif sure and not guaranteed:
            notes.append("the error rests on few keys: the interval is not guaranteed")
        low, high = max(min(low, value), min(value, 0.0)), max(high, value)
        error = above.error / keys.value
        return Estimate(value, error, low, high, level, bias, tally.total, visible, guaranteed, tuple(notes))

    return _answers(Selection(release, where, weight, by, attributes), by, level, answer)


def _from(least: int, measure: Measure | None = None) -> Measure:
    """A measure of the keys from some frequency on; without one, their number."""
    if measure is None:
        return Measure.of(f"at-least:{least}")
    return Measure(f"{measure} from {least}", lambda i: np.asarray(measure.function(i)) * (i >= least), kink=least)


@dataclass(frozen=True)
class _Above:
    """By how much a measure is above some value, at keys from some frequency on; below it is negative."""

    measure: Measure
    value: float
    kink: int

    def __call__(self, frequencies: Any) -> Floats:
        return np.where(np.asarray(frequencies) >= self.kink, self.measure(frequencies) - self.value, 0.0)


def quantiles(
    release: "Release",
    shares: Sequence[float],
    where: Where = None,
    level: float = 0.95,
    attributes: Any = None,
    at_least: int | None = None,
) -> Estimates:
    """Estimate quantiles of the frequencies of the selected keys that have frequency `at_least` or more.

    The quantile of share p is the smallest frequency that a share p or more of these keys do not exceed. `at_least` is
    as for `mean`.
    """
    level = check_level(level)
    p = _shares(shares)
    if release.keys_only:
        raise needs_tokens("a quantile of frequencies")
    assert release.grid is not None
    least, note, sure = _least(release, at_least)
    _, [tally] = Selection(release, where, attributes=attributes).tallies()
    terms = release.sampling, release.per_key, release.grid
    estimated = spectrum(tally, *terms)
    notes, keys = [note], float(estimated.keys[estimated.frequencies >= least].sum())
    if keys > 0:
        number = parts(tally, *terms, _from(least)) if sure and estimated.scheme.feasible else None
        known = (number.value, *number.bounds(level)) if number else None
        found, low, high = estimated.quantiles(p, least, level, known)
        if number:
            low, high = narrowed(tally, estimated.scheme, p, least, level, number.taken(level)[1], (low, high))
        found = found.clip(low, high)
        columns = [found, (high - low) / (2 * NormalDist().inv_cdf(0.5 + level / 2)), low, high]
        if number and not number.clear:
            sure = False
            notes.append(_blurred(least))
        elif keys < _FEW:
            sure = False
            notes.append("these are few keys: no interval is guaranteed")
        else:
            notes.append(
                "these intervals hold more often than they say: how much of the spread is noise of tokens is not known"
            )
    else:
        notes.append("no selected key is that frequent; at_least (--at-least) takes in rarer ones")
        columns = [np.full(len(p), value) for value in (math.nan, math.nan, 0.0, math.inf)]
    names = ("value", "standard_error", "low", "high")
    numbers = {name: column.astype(np.float64) for name, column in zip(names, columns, strict=True)}
    guaranteed = np.full(len(p), sure and keys > 0)
    table = pa.table({**numbers, "keys": np.full(len(p), tally.total), "guaranteed": guaranteed})
    visible = frequency_reaching(0.5, release.sampling, release.per_key)
    return Estimates(pa.table({"quantile": p}), table, level, visible, tuple(notes))


def needs_tokens(what: str) -> InvalidValue:
    """Refuse a question that a release of keys only cannot answer."""
    return InvalidValue(f"{what} needs tokens", "a release of keys only", "ask count_keys, or release with tokens")


def _answers(selection: Selection, by: By, level: float, answer: Callable[[Tally], Estimate]) -> Estimate | Estimates:
    groups, tallies = selection.tallies()
    if not by:
        return answer(tallies[0])
    found = [answer(tally) for tally in tallies]
    fields = ("value", "standard_error", "low", "high", "bias", "keys", "guaranteed")
    types = [pa.float64()] * 5 + [pa.int64(), pa.bool_()]
    numbers = [pa.array([getattr(e, name) for e in found], type) for name, type in zip(fields, types, strict=True)]
    visible = frequency_reaching(0.5, selection.release.sampling, selection.release.per_key)
    notes = dict.fromkeys(note for e in found for note in e.notes)
    return Estimates(groups, pa.table(numbers, list(fields)), level, visible, tuple(notes))


def _reported(release: "Release", tally: Tally, level: float) -> Estimate:
    """What a release of keys only tells of a number of keys: at least so many."""
    value = float(tally.weights.sum())
    low = value if tally.total == value else -math.inf
    visible = frequency_reaching(0.5, release.sampling, release.per_key)
    note = "a release of keys only: this counts the reported keys; how many others there are is unknown"
    return Estimate(value, math.nan, low, math.inf, level, math.nan, tally.total, visible, False, (note,))


def _least(release: "Release", at_least: int | None) -> tuple[int, str, bool]:
    """Return from which frequency on keys are counted, what to say about it, and whether all of these can be seen."""
    visible = frequency_reaching(0.5, release.sampling, release.per_key)
    if at_least is None and visible is None:
        raise InvalidValue(
            "some frequency has keys that are reported with probability 0.5",
            "none in this release",
            "state at_least; no interval can be guaranteed then",
        )
    least = _frequency(visible if at_least is None else at_least)
    sure = visible is not None and least >= visible
    note = f"over keys of frequency {least:,} or more" + ("" if sure else ", many of which cannot be seen")
    return least, note, sure


def _blurred(least: int) -> str:
    return (
        f"keys below frequency {least:,} can hardly be told from those at it: no interval is guaranteed; a larger "
        "at_least (--at-least) leaves these out"
    )


def _frequency(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= MAX_FREQUENCY:
        raise InvalidValue("at_least is a frequency, an integer from 1 on", repr(value), "give one, such as 20")
    return int(value)


def _shares(shares: Sequence[float]) -> Floats:
    try:
        p = np.asarray([shares] if np.ndim(shares) == 0 else shares, np.float64)
    except (TypeError, ValueError):
        p = np.array([math.nan])
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise InvalidValue("quantiles are shares from 0 to 1", repr(shares), "give some, such as [0.5, 0.9]")
    return p
