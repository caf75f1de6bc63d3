"""Sums, numbers and means over counted keys, with intervals: of all of them, or of those of a least number of users.

It is not certain which keys have the least number of users. Of the probability that an interval misses, half goes to
that, and half to the noise of the sum.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpsample.accounting.normal import margin
from dpsample.answers.counted_keys import CountedKeys, Reached
from dpsample.errors import InvalidValue
from dpsample.estimators.reported import Bools
from dpsample.scheme.sampling import Floats


class Bounded(NamedTuple):
    """A number with its error and its interval."""

    value: float
    error: float
    low: float
    high: float


def sum_of_keys(keys: CountedKeys, level: float) -> Bounded | None:
    """Return the sum over all keys, None if there are none; of one key, with the interval that `each_key` has."""
    if not len(keys):
        return None
    if len(keys) == 1:
        return _sum_of_one(keys, level)
    return _not_below(keys.least_sum, float(keys.weights @ keys.values), keys.error_of_sum(), level)


def mean_of_keys(keys: CountedKeys, level: float) -> Bounded | None:
    """Return the mean over all keys; None if their weights do not sum to more than 0."""
    weight = float(keys.weights.sum())
    if weight <= 0:
        return None
    value, error = float(keys.weights @ keys.values) / weight, keys.error_of_sum() / weight
    return _not_below(keys.least_sum / weight, value, error, level)


def _not_below(least: float, value: float, error: float, level: float) -> Bounded:
    """A number with a normal error, moved to where it can be."""
    reach = margin(level) * error
    return Bounded(max(value, least), error, max(value - reach, least), max(value + reach, least))


def _sum_of_one(keys: CountedKeys, level: float) -> Bounded:
    weight = float(keys.weights[0])
    value, error, low, high = (
        weight * float(column[0]) for column in keys.estimates(np.zeros(1, int), level)
    )
    return Bounded(value, abs(error), min(low, high), max(low, high))


def number_reaching(keys: CountedKeys, least: int, level: float) -> Bounded | None:
    """Return the number of keys of at least this many users, or the sum of their weights; None if there are no keys."""
    if not len(keys):
        return None
    p, weights = keys.reaching(least), keys.weights
    if (weights == 1).all():
        reached = Reached(keys, level)
        low, high = sorted(
            (float(reached.fewest(least)), float(reached.most(least)))
        )  # if they miss, they may cross
    else:
        found = _Reaching.of(keys, least, level)
        sure, possible = weights[found.certain].sum(), weights[found.possible]
        low = float(sure + np.minimum(possible, 0).sum())
        high = float(sure + np.maximum(possible, 0).sum())
    error = math.sqrt(float(weights**2 @ (p * (1 - p))))
    return Bounded(float(np.clip(weights @ p, low, high)), error, low, high)


def sum_from(keys: CountedKeys, least: int, level: float) -> Bounded | None:
    """Return the sum over the keys of at least this many users; None if no key can have them."""
    part = (1 + level) / 2
    found = _Reaching.of(keys, least, part, weighted=True)
    if not found.any.any():
        return None
    sums = keys.weights * keys.values
    reach = margin(part) * keys.error_of_sum(found.any)
    sure, possible = float(sums[found.certain].sum()), sums[found.possible]
    # a key that possibly counts may be measured below 0
    least_sum = float(keys.weights[found.certain].sum()) * least
    low = max(sure + float(np.minimum(possible, 0.0).sum()) - reach, least_sum)
    high = max(sure + float(np.maximum(possible, 0.0).sum()) + reach, low)
    likely = keys.weights * keys.reaching(least)
    value = float(likely @ np.maximum(keys.values, least))
    return _between(value, low, high, level)


def mean_from(keys: CountedKeys, least: int, level: float) -> Bounded | None:
    """Return the mean over the keys of at least this many users; None if no key can have them.

    The interval is the union of those of all sets of keys that are possible.
    """
    part = (1 + level) / 2
    found = _Reaching.of(keys, least, part, weighted=True)
    if not keys.weights[found.any].sum() > 0:
        return None
    reach = margin(part) * keys.error_of_sum(found.any)
    smallest = _smallest_mean(keys.weights, keys.values, found, -reach)
    largest = -_smallest_mean(keys.weights, -keys.values, found, -reach)
    low, high = max(smallest, float(least)), max(largest, float(least))
    likely = keys.weights * keys.reaching(least)
    sums = float(likely @ np.maximum(keys.values, least))
    return _between(sums / max(float(likely.sum()), 1e-300), low, high, level)


def _between(value: float, low: float, high: float, level: float) -> Bounded:
    """A number with the error of its interval: which keys count is uncertain, too."""
    return Bounded(min(max(value, low), high), (high - low) / (2 * margin(level)), low, high)


@dataclass(frozen=True, eq=False)
class _Reaching:
    """Which keys have a least number of users with certainty, and which others possibly have."""

    certain: Bools
    possible: Bools

    @staticmethod
    def of(keys: CountedKeys, least: int, level: float, weighted: bool = False) -> "_Reaching":
        """Decide by intervals of all keys at once; sums that are `weighted` need weights from 0 on."""
        if weighted and (keys.weights < 0).any():
            raise InvalidValue(
                "a sum or mean with `at_least` must have weights from 0 on", "leave `at_least` out"
            )
        lows, highs = keys.intervals(level, keys=max(len(keys), 1))
        return _Reaching(lows >= least, (highs >= least) & (lows < least))

    @property
    def any(self) -> Bools:
        """Which keys have it with certainty, or possibly."""
        return self.certain | self.possible


def _smallest_mean(weights: Floats, values: Floats, keys: _Reaching, shift: float) -> float:
    """The smallest mean over the certain keys and any of the possible ones, with `shift` added to the sum.

    It takes in the possible keys in the order of their values.
    """
    certain = keys.certain
    certain_weight = weights[certain].sum()
    certain_sum = float(weights[certain] @ values[certain]) + shift
    order = np.argsort(values[keys.possible], kind="stable")
    w = weights[keys.possible][order]
    v = values[keys.possible][order]
    weight = certain_weight + np.append(0.0, np.cumsum(w))
    sums = certain_sum + np.append(0.0, np.cumsum(w * v))
    some = weight > 0
    means = sums[some] / weight[some]
    return float(means.min()) if len(means) else -math.inf
