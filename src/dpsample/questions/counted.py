"""Questions to a release of counted users: sums, numbers of keys, means, each key, and the remainder.

What was measured is the true number of users of each reported key, plus normal noise. So answers are about the reported
keys alone: nothing is known of others. `counted_order` has the questions that depend on the order of keys. The names
are those of `tokens`.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsample.accounting.normal import margin
from dpsample.accounting.totals import Total
from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate
from dpsample.estimators.measures import FREQUENCY, KEYS, Measure
from dpsample.estimators.reported import Reported
from dpsample.exact import check_level
from dpsample.questions.amounts import amount_of, ratio_of, sum_of_amount, unreported_note
from dpsample.questions.arguments import check_default_estimator, check_frequency
from dpsample.questions.counted_keys import CountedKeys, Reached, detection_threshold, error_of_sum
from dpsample.questions.counted_order import compare, listing, quantiles, rank, top
from dpsample.questions.remainder import needs_total
from dpsample.questions.result import Estimates, about_each
from dpsample.questions.selection import Attributes, By, Of, Selection, Weight, Where
from dpsample.questions.sums import grouped, reported_keys
from dpsample.questions.unreported import unreported_key

if TYPE_CHECKING:
    from dpsample.release.release import Release

_OTHERS = "unknown: a key of many users may have been missed, so how many users other keys have is not estimated"

__all__ = [
    "compare",
    "count_keys",
    "each_key",
    "mean",
    "other",
    "quantiles",
    "rank",
    "ratio",
    "top",
    "total",
    "unreported_key",
]


def total(
    release: "Release",
    where: Where = None,
    weight: Weight = None,
    of: Of = "frequency",
    by: By = None,
    estimator: str | None = None,
    level: float = 0.95,
    attributes: Attributes = None,
    at_least: int | None = None,
    extrapolate: bool = False,
) -> Estimate | Estimates:
    """Estimate the sum of ``L(x) g(users of x)`` over the selected keys x that were reported.

    g is the number of users, 1 for each key, or 1 for each key of at least so many users; or an amount of the release,
    by its name, such as "rows" or "rows_clipped".
    """
    if at_least is not None:
        at_least = check_frequency(at_least)
        if of not in ("frequency", "keys"):
            raise InvalidValue("at_least is for sums of frequency and keys", "another sum", "leave it out")
        of = f"at-least:{at_least}" if of == "keys" else of
    amount, level = amount_of(release, of), check_level(level)
    answered = _summed(release, Measure.of(of)) if amount is None else partial(sum_of_amount, release, amount)
    if at_least is not None and of == "frequency":
        answered = partial(_sum_from, release, at_least)
    check_default_estimator(estimator, "counted users")
    _refuse_extrapolation(extrapolate)
    answers = _totals(answered)
    return _answers(release, Selection(release, where, weight, by, attributes), by, level, answers)


def count_keys(release: "Release", at_least: int | None = None, **options: Any) -> Estimate | Estimates:
    """Estimate the number of selected keys that were reported; `at_least` counts those of at least so many users."""
    return total(release, of="keys", at_least=at_least, **options)


def mean(
    release: "Release",
    where: Where = None,
    weight: Weight = None,
    of: Of = "frequency",
    by: By = None,
    estimator: str | None = None,
    level: float = 0.95,
    attributes: Attributes = None,
    at_least: int | None = None,
) -> Estimate | Estimates:
    """Estimate the mean number of users of the selected keys that were reported, weighted by L(x).

    `at_least` leaves out keys of fewer users; by default there are all keys.
    """
    measure, level = Measure.of(of), check_level(level)
    check_default_estimator(estimator, "counted users")
    if measure != FREQUENCY:
        raise InvalidValue("a mean over counted users is that of the frequency", measure.name, "leave `of` out")
    least = 1 if at_least is None else check_frequency(at_least)

    def answered(keys: CountedKeys, level: float) -> Estimate:
        return _mean(release, keys, level) if least == 1 else _mean_from(release, keys, least, level)

    return _answers(release, Selection(release, where, weight, by, attributes), by, level, answered)


def ratio(
    release: "Release",
    of: str,
    per: str = "users",
    where: Where = None,
    weight: Weight = None,
    by: By = None,
    level: float = 0.95,
    attributes: Attributes = None,
) -> Estimate | Estimates:
    """Estimate the sum of one amount over that of another, or over users, for the selected keys that were reported."""
    answered, level = ratio_of(release, of, per), check_level(level)
    return _answers(release, Selection(release, where, weight, by, attributes), by, level, answered)


def each_key(release: "Release", where: Where = None, level: float = 0.95, attributes: Attributes = None) -> Estimates:
    """Estimate the number of users of each selected key, in the order of the release."""
    level = check_level(level)
    keys = CountedKeys.selected(release, where, attributes)
    columns = np.maximum(keys.values, keys.least), keys.errors, *keys.intervals(level)
    return listing(release, keys.rows, columns, level, about_each(len(keys)))


def other(release: "Release", level: float = 0.95) -> Estimate:
    """Estimate how many keys of users were not reported: the total less the users of all reported keys.

    Of the probability that the interval misses, half goes to the noise of the total, and half to that of the counts.
    """
    level = check_level(level)
    bought = release.total
    if bought is None:
        raise needs_total(bought, tokens=True)
    keys = CountedKeys.selected(release, None, None)
    everything = bought.estimate((1 + level) / 2)
    covered, error = float(keys.values.sum()), error_of_sum(keys)
    reach = margin((1 + level) / 2) * error
    value = max(everything.value - covered, 0.0)
    return Estimate(
        value,
        math.hypot(error, everything.standard_error),
        low=max(everything.low - covered - reach, 0.0),
        high=max(everything.high - covered + reach, 0.0),
        level=level,
        keys=len(keys),
        detection_threshold=detection_threshold(release),
        guaranteed=False,
        notes=(_total_note(bought),),
        share=value / everything.value if everything.value > 0 else None,
    )


def _total_note(bought: Total) -> str:
    most = f"{float(bought.sensitivity):,.0f}"
    return f"the total has each user with up to {most} keys: if some have more, the remainder is too low"


Answered = Callable[[CountedKeys, float], Estimate]


def _answers(
    release: "Release", selection: Selection, by: By, level: float, answered: Answered
) -> Estimate | Estimates:
    groups, selected = selection.weighted_rows()
    answers = [answered(CountedKeys.of(release, *rows), level) for rows in selected]
    return grouped(release, groups, answers, level) if by else answers[0]


def _refuse_extrapolation(extrapolate: bool) -> None:
    if extrapolate:
        raise InvalidValue(
            "what keys that were not reported have is not extrapolated from counted users",
            "extrapolate=True (--extrapolate)",
            "leave it out; a release with total=True (--with-total) estimates it: other()",
        )


def _totals(answered: Answered) -> Answered:
    """The same answers as totals: what is in the reported keys is all that is known."""

    def total_of(keys: CountedKeys, level: float) -> Estimate:
        found = answered(keys, level)
        low, high = (found.low, found.high) if len(keys) else (0.0, 0.0)
        if found.reported is None:
            own = Reported(found.value, found.standard_error, low, high, others=_OTHERS)
        else:
            own = replace(found.reported, others=_OTHERS)
        return replace(found, reported=own)

    return total_of


def _summed(release: "Release", measure: Measure) -> Answered:
    """How a measure is summed over keys; other measures are refused."""
    if measure == FREQUENCY:
        return partial(_sum, release)
    if measure == KEYS and release.terms.known is not None:
        return lambda keys, level: _number_reaching(release, keys, 1, level)
    if measure == KEYS:
        return lambda keys, level: reported_keys(release, len(keys), float(keys.weights.sum()), level)
    if measure.counts_keys and measure.kink is not None:
        least = measure.kink
        return lambda keys, level: _number_reaching(release, keys, least, level)
    raise InvalidValue(
        "a release of counted users has sums of frequency, keys, at-least:T, and of its amounts by their names",
        measure.name,
        "ask one of these, or compute it from the columns of the release",
    )


def _sum(release: "Release", keys: CountedKeys, level: float) -> Estimate:
    if not len(keys):
        return _nothing(release, level)
    if len(keys) == 1:
        return _one_key(release, keys, level)
    value, error = float(keys.weights @ keys.values), error_of_sum(keys)
    reach = margin(level) * error
    least = _least(keys)
    value, low, high = (max(n, least) for n in (value, value - reach, value + reach))
    notes = (unreported_note(release, "this sum"),)
    return _estimate(release, keys, value, error, low, high, level, notes)


def _one_key(release: "Release", keys: CountedKeys, level: float) -> Estimate:
    """The sum over one key: it has the number and the interval of the key, as `each_key` has them."""
    weight = float(keys.weights[0])
    (low,), (high,) = keys.intervals(level)
    least, most = sorted((weight * float(low), weight * float(high)))
    value = weight * max(float(keys.values[0]), float(keys.least[0]))
    error = abs(weight) * float(keys.errors[0])
    return _estimate(release, keys, value, error, least, most, level, (unreported_note(release, "this sum"),))


def _sum_from(release: "Release", least: int, keys: CountedKeys, level: float) -> Estimate:
    """The sum over the keys of at least so many users.

    It is not certain which keys these are. Of the probability that the interval misses, half goes to that.
    """
    part = (1 + level) / 2
    certain, possible = _reaching(keys, least, part)
    some = certain | possible
    if not some.any():
        return _nothing(release, level)
    reach, sums = margin(part) * error_of_sum(keys, some), keys.weights * keys.values
    sure = float(sums[certain].sum())
    # a key that possibly counts may be measured below 0
    low = max(sure + float(np.minimum(sums[possible], 0.0).sum()) - reach, float(keys.weights[certain].sum()) * least)
    high = max(sure + float(np.maximum(sums[possible], 0.0).sum()) + reach, low)
    value = float(keys.weights * keys.reaching(least) @ np.maximum(keys.values, least))
    error = (high - low) / (2 * margin(level))  # which keys count is uncertain too
    notes = (f"over reported keys of {least:,} users or more; {unreported_note(release, 'it')}",)
    return _estimate(release, keys, min(max(value, low), high), error, low, high, level, notes)


def _reaching(keys: CountedKeys, least: int, level: float) -> tuple[Any, Any]:
    """Which keys have at least so many users with certainty, and which others possibly, by intervals of all at once."""
    if (keys.weights < 0).any():
        raise InvalidValue("what has at_least has weights from 0 on", "a negative one", "leave at_least out")
    lows, highs = keys.intervals(level, keys=max(len(keys), 1))
    return lows >= least, (highs >= least) & (lows < least)


def _number_reaching(release: "Release", keys: CountedKeys, least: int, level: float) -> Estimate:
    """The number of keys of at least so many users, or the sum of their weights."""
    if not len(keys):
        return _nothing(release, level)
    p, w = keys.reaching(least), keys.weights
    if (w == 1).all():
        reached = Reached(keys, level)
        low, high = sorted((float(reached.fewest(least)), float(reached.most(least))))  # if they miss, they may cross
    else:  # keys that reach it with certainty, and those that possibly do
        lows, highs = keys.intervals(level, keys=len(keys))
        certain, possible = lows >= least, (highs >= least) & (lows < least)
        low = float(w[certain].sum() + np.minimum(w[possible], 0).sum())
        high = float(w[certain].sum() + np.maximum(w[possible], 0).sum())
    value, error = float(np.clip(w @ p, low, high)), math.sqrt(float(w**2 @ (p * (1 - p))))
    notes = (unreported_note(release, "this number"),)
    return _estimate(release, keys, value, error, low, high, level, notes)


def _mean(release: "Release", keys: CountedKeys, level: float) -> Estimate:
    """The mean over all keys."""
    weight = float(keys.weights.sum())
    if weight <= 0:
        return _nothing(release, level, value=math.nan)
    value, error = float(keys.weights @ keys.values) / weight, error_of_sum(keys) / weight
    reach, least = margin(level) * error, _least(keys) / weight
    value, low, high = (max(n, least) for n in (value, value - reach, value + reach))
    notes = (f"over all reported keys; {unreported_note(release, 'it')}",)
    return _estimate(release, keys, value, error, low, high, level, notes)


def _mean_from(release: "Release", keys: CountedKeys, least: int, level: float) -> Estimate:
    """The mean over the keys of at least so many users.

    It is not certain which keys these are. Of the probability that the interval misses, half goes to that; the interval
    then is the union of those of all sets of keys that are possible.
    """
    part = (1 + level) / 2
    certain, possible = _reaching(keys, least, part)
    if not keys.weights[certain | possible].sum() > 0:
        return _nothing(release, level, value=math.nan)
    reach = margin(part) * error_of_sum(keys, certain | possible)
    low = max(_smallest_mean(keys, certain, possible, -reach), float(least))
    high = max(-_smallest_mean(keys, certain, possible, -reach, sign=-1), float(least))
    likely = keys.weights * keys.reaching(least)
    value = float(likely @ np.maximum(keys.values, least)) / max(float(likely.sum()), 1e-300)
    error = (high - low) / (2 * margin(level))  # which keys count is uncertain too
    over = f"over reported keys of {least:,} users or more; {unreported_note(release, 'it')}"
    notes = (over,)
    return _estimate(release, keys, min(max(value, low), high), error, low, high, level, notes)


def _smallest_mean(keys: CountedKeys, certain: Any, possible: Any, shift: float, sign: int = 1) -> float:
    """The smallest mean of `sign` times the values, over the certain keys and any of the possible ones.

    `shift` is added to the sum. The smallest mean takes in the possible keys in the order of their values.
    """
    order = np.argsort(sign * keys.values[possible], kind="stable")
    w, v = keys.weights[possible][order], sign * keys.values[possible][order]
    weights = keys.weights[certain].sum() + np.append(0.0, np.cumsum(w))
    sums = sign * float(keys.weights[certain] @ keys.values[certain]) + shift + np.append(0.0, np.cumsum(w * v))
    some = weights > 0
    return float((sums[some] / weights[some]).min()) if some.any() else -math.inf


def _least(keys: CountedKeys) -> float:
    """The least that a sum over keys can be, since each has so many users."""
    return float(keys.weights @ keys.least) if (keys.weights >= 0).all() else -math.inf


def _estimate(
    release: "Release",
    keys: CountedKeys,
    value: float,
    error: float,
    low: float,
    high: float,
    level: float,
    notes: tuple[str, ...],
) -> Estimate:
    threshold = detection_threshold(release)
    return Estimate(value, error, low, high, level, 0.0, len(keys), threshold, True, notes)


def _nothing(release: "Release", level: float, value: float = 0.0) -> Estimate:
    """The answer if no reported key is selected."""
    note = "no reported key is selected; how many users have other keys is unknown"
    threshold = detection_threshold(release)
    return Estimate(value, math.nan, 0.0, math.inf, level, math.nan, 0, threshold, False, (note,))
