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

_TINY = 1e-300  # keeps ratios of zeros defined


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
    value = float(keys.weights @ keys.values)
    return _not_below(keys.least_sum, value, keys.error_of_sum(), level)


def mean_of_keys(keys: CountedKeys, level: float) -> Bounded | None:
    """Return the mean over all keys; None if their weights do not sum to more than 0."""
    weight = float(keys.weights.sum())
    if weight <= 0:
        return None
    value = float(keys.weights @ keys.values) / weight
    error = keys.error_of_sum() / weight
    return _not_below(keys.least_sum / weight, value, error, level)


def _not_below(least: float, value: float, error: float, level: float) -> Bounded:
    """Return a number with a normal error, and its interval; each is raised to the least that is possible."""
    reach = margin(level) * error
    low = max(value - reach, least)
    high = max(value + reach, least)
    return Bounded(max(value, least), error, low, high)


def _sum_of_one(keys: CountedKeys, level: float) -> Bounded:
    """Return the sum over a single key, with its own interval."""
    weight = float(keys.weights[0])
    only = np.zeros(1, int)
    estimate = keys.estimates(only, level)
    value, error, low, high = [weight * float(column[0]) for column in estimate]
    return Bounded(value, abs(error), min(low, high), max(low, high))


def number_reaching(keys: CountedKeys, least: int, level: float) -> Bounded | None:
    """Return the number of keys of `least` users or more, or the sum of their weights; None if there are no keys.

    Each key has them with a probability p, so that its variance is ``weight**2 p (1 - p)``.
    """
    if not len(keys):
        return None
    weights = keys.weights
    if (weights == 1).all():
        reached = Reached(keys, level)
        ends = float(reached.fewest(least)), float(reached.most(least))
        low, high = sorted(ends)  # bounds that miss may cross
    else:
        reaching = _Reaching.of(keys, least, level)
        low, high = reaching.bounds_of_sum(weights)
    p = keys.reaching(least)
    value = float(np.clip(weights @ p, low, high))
    variance = float(weights**2 @ (p * (1 - p)))
    return Bounded(value, math.sqrt(variance), low, high)


def sum_from(keys: CountedKeys, least: int, level: float) -> Bounded | None:
    """Return the sum over the keys of `least` users or more; None if no key can have them."""
    level_of_half = (1 + level) / 2
    reaching = _Reaching.of(keys, least, level_of_half, weighted=True)
    if not reaching.any.any():
        return None
    low_sum, high_sum = reaching.bounds_of_sum(keys.weights * keys.values)
    reach = margin(level_of_half) * keys.error_of_sum(reaching.any)
    # the certain keys have that many users each, also if they were measured lower
    least_sum = float(keys.weights[reaching.certain].sum()) * least
    low = max(low_sum - reach, least_sum)
    high = max(high_sum + reach, low)
    likely_weights = keys.weights * keys.reaching(least)
    value = float(likely_weights @ np.maximum(keys.values, least))
    return _between(value, low, high, level)


def mean_from(keys: CountedKeys, least: int, level: float) -> Bounded | None:
    """Return the mean over the keys of `least` users or more; None if no key can have them.

    The interval is the union of those of all sets of keys that are possible.
    """
    level_of_half = (1 + level) / 2
    reaching = _Reaching.of(keys, least, level_of_half, weighted=True)
    if not keys.weights[reaching.any].sum() > 0:
        return None
    reach = margin(level_of_half) * keys.error_of_sum(reaching.any)
    smallest = _smallest_mean(keys.weights, keys.values, reaching, -reach)
    largest = -_smallest_mean(keys.weights, -keys.values, reaching, -reach)
    low = max(smallest, float(least))
    high = max(largest, float(least))
    likely_weights = keys.weights * keys.reaching(least)
    total = float(likely_weights @ np.maximum(keys.values, least))
    value = total / max(float(likely_weights.sum()), _TINY)
    return _between(value, low, high, level)


def _between(value: float, low: float, high: float, level: float) -> Bounded:
    """Return a number with the error of its interval: which keys count is uncertain, too."""
    error = (high - low) / (2 * margin(level))
    return Bounded(min(max(value, low), high), error, low, high)


@dataclass(frozen=True, eq=False)
class _Reaching:
    """The keys that have a least number of users with certainty, and the others that possibly have."""

    certain: Bools
    possible: Bools

    @staticmethod
    def of(keys: CountedKeys, least: int, level: float, weighted: bool = False) -> "_Reaching":
        """Return which keys have `least` users, by intervals of all keys at once.

        If the answer is a sum that is `weighted`, weights must not be negative.
        """
        if weighted and (keys.weights < 0).any():
            raise InvalidValue(
                "a sum or mean with `at_least` must have weights from 0 on", "leave `at_least` out"
            )
        lows, highs = keys.intervals(level, keys=max(len(keys), 1))
        certain = lows >= least
        possible = (highs >= least) & ~certain
        return _Reaching(certain, possible)

    def bounds_of_sum(self, values: Floats) -> tuple[float, float]:
        """Return the least and the largest sum of values over the certain keys and any of the possible ones."""
        certain_sum = float(values[self.certain].sum())
        possible = values[self.possible]
        least = certain_sum + float(np.minimum(possible, 0.0).sum())
        largest = certain_sum + float(np.maximum(possible, 0.0).sum())
        return least, largest

    @property
    def any(self) -> Bools:
        """The keys that have it with certainty, or possibly."""
        return self.certain | self.possible


def _smallest_mean(weights: Floats, values: Floats, keys: _Reaching, shift: float) -> float:
    """Return the smallest mean over the certain keys and any of the possible ones, with `shift` added to the sum.

    A possible key makes the mean smaller if its value is below it. So the smallest mean takes in the possible keys in
    the order of their values, up to one of them.
    """
    certain = keys.certain
    certain_weight = weights[certain].sum()
    certain_sum = float(weights[certain] @ values[certain]) + shift
    ascending = np.argsort(values[keys.possible], kind="stable")
    possible_weights = weights[keys.possible][ascending]
    possible_values = values[keys.possible][ascending]
    taken_weight = np.append(0.0, np.cumsum(possible_weights))
    taken_sum = np.append(0.0, np.cumsum(possible_weights * possible_values))
    weight = certain_weight + taken_weight
    total = certain_sum + taken_sum
    has_weight = weight > 0
    if not has_weight.any():
        return -math.inf
    means = total[has_weight] / weight[has_weight]
    return float(means.min())
