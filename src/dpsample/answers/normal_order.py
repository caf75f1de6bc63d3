"""The order of keys whose estimates have normal errors: the top k, ranks, and which of two keys is larger.

Answers are about the reported keys. Probabilities are those of normal laws around the estimates; draws have a fixed
seed, so that equal questions have equal answers. Nothing here needs to be secret: it sees the release alone.
"""

import math
from abc import abstractmethod
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dpsample.accounting.normal import margin
from dpsample.answers.evidence import Keys
from dpsample.answers.token_order import DRAWS, WORK, probability_larger
from dpsample.answers.unreported import Silence
from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate
from dpsample.scheme.sampling import Floats, Ints

_AT_ONCE = 200_000  # draws in memory; the answers do not depend on it
# Errors beyond which a normal law has nothing that matters: 1e-12 of its probability.
_FAR = 7.0
# Equally likely values that stand for the law of a key, for its rank: 256 change no digit that is shown.
_POINTS = 64
_erfc = np.frompyfunc(math.erfc, 1, 1)


def normal_probability(deviations: Floats) -> Floats:
    """Return the probability that a standard normal number is at most each of these.

    >>> normal_probability(np.array([0.0, 1.96, -8.0])).round(3)
    array([0.5  , 0.975, 0.   ])
    """
    complement = _erfc(-deviations / math.sqrt(2))
    return np.asarray(complement, np.float64) / 2


class NormalLaw(NamedTuple):
    """The law of a key's frequency: the mean and the standard deviation of a normal one."""

    mean: float
    deviation: float


def probability_above(silence: Silence, a: NormalLaw | None, b: NormalLaw | None) -> float:
    """Return the probability that key a is more frequent than key b; None is the law of a key that was not reported.

    Where keys are discovered, all users of a key that was not reported count as having given it.
    """
    if a and b:
        error = math.hypot(a.deviation, b.deviation)
        deviation = (a.mean - b.mean) / error
        [probability] = normal_probability(np.array([deviation])).tolist()
        return float(probability)
    if silence.only_listed:
        raise InvalidValue("a key is not in the list of known keys", "compare keys of the list")
    frequencies, p = silence.law()
    numbers = frequencies.astype(np.float64)
    if a:
        deviations = (a.mean - numbers) / a.deviation
        return float(p @ normal_probability(deviations))
    if b:
        deviations = (numbers - b.mean) / b.deviation
        return float(p @ normal_probability(deviations))
    return probability_larger((frequencies, p), (frequencies, p))


class NormalKeys(Keys):
    """Selected keys whose estimates have independent normal errors, or errors that are about normal."""

    widens_top = True
    values: Floats  # as measured; they may be impossible, such as a negative number
    errors: Floats
    detection_threshold: int | None
    remarks: tuple[str, ...] = ()  # what every answer says

    @abstractmethod
    def larger(self, place: int, level: float) -> tuple[int, int]:
        """Return how many other keys are larger than this one with certainty, and how many possibly are."""

    def law(self, place: int | None) -> NormalLaw | None:
        """Return the law of a key's frequency; None if it was not reported."""
        if place is None:
            return None
        value = self.values[place]
        error = self.errors[place]
        return NormalLaw(float(value), float(error))

    def ordered(self) -> Ints:
        return np.lexsort((self.rows, -self.values))

    def competing(self, listed: Ints, level: float) -> int:
        each = self.estimates(np.arange(len(self)), level)
        lowest = each.low[listed].min()
        return int((each.high >= lowest).sum())

    def in_the_top(self, k: int, listed: Ints) -> Floats:
        return in_the_top(self.values, self.errors, listed, k)

    def rank(self, place: int, level: float) -> Estimate:
        """Estimate a rank; the interval counts the keys that are larger with certainty, and those that possibly are."""
        surely, possibly = self.larger(place, level)
        low = float(1 + surely)
        high = float(1 + possibly)
        own = NormalLaw(float(self.values[place]), float(self.errors[place]))
        others = np.arange(len(self)) != place
        law = rank_law(own, self.values[others], self.errors[others])
        value = min(max(law.mean, low), high)
        about = f"among the {self.called}{self.others}"
        found = Estimate(value, law.deviation, low, high, level, keys=len(self))
        notes = (about, *self.remarks)
        return replace(found, detection_threshold=self.detection_threshold, notes=notes)


def in_the_top(values: Floats, errors: Floats, places: Ints, k: int) -> Floats:
    """Return the probability of each of some keys, with errors that are about normal, that fewer than k are above it.

    Given the others, that is the probability of reaching the k-th largest of the others: the k-th of all, or the next
    one if the key is itself among the k.
    """
    if k >= len(values):
        return np.ones(len(places))
    # the k-th largest key is certainly not below this
    lows = values - _FAR * errors
    highs = values + _FAR * errors
    floor = np.sort(lows)[-k]
    near = np.flatnonzero(highs >= floor)
    if k >= len(near):
        return np.ones(len(places))
    ours = np.searchsorted(near, places)
    near_values = values[near]
    near_errors = errors[near]
    own_values = near_values[ours]
    own_errors = near_errors[ours]

    generator = np.random.default_rng(0)
    draws = int(np.clip(WORK // len(near), *DRAWS))
    at_once = max(1, _AT_ONCE // len(near))
    probability = np.zeros(len(places))
    for start in range(0, draws, at_once):
        number = min(at_once, draws - start)
        noise = generator.standard_normal((number, len(near)))
        drawn = near_values + near_errors * noise  # [draw, key]
        ascending = np.partition(drawn, [-k, -k - 1], axis=1)
        kth = ascending[:, -k, None]
        following = ascending[:, -k - 1, None]
        is_among_the_k = drawn[:, ours] >= kth
        needed = np.where(is_among_the_k, following, kth)
        deviations = (own_values - needed) / own_errors
        probability += normal_probability(deviations).sum(0)
    return probability / draws


def rank_law(own: NormalLaw, values: Floats, errors: Floats) -> NormalLaw:
    """Return the mean and the standard deviation of a key's rank among others, with independent normal errors.

    The rank is one more than the number of other keys that are larger. Given the key's own frequency, the other keys
    are independent; so it is fixed at equally likely values, and the law of total variance joins them.
    """
    gap = values - own.mean
    reach = _FAR * (errors + own.deviation)
    certainly_larger = int((gap > reach).sum())
    is_undecided = np.abs(gap) <= reach
    undecided = values[is_undecided]
    undecided_errors = errors[is_undecided]

    means = np.zeros(_POINTS)
    variances = np.zeros(_POINTS)
    shares = (np.arange(_POINTS) + 0.5) / _POINTS
    for point, share in enumerate(shares.tolist()):
        own_value = own.mean + own.deviation * _normal_quantile(share)
        larger = normal_probability((undecided - own_value) / undecided_errors)
        means[point] = larger.sum()
        variances[point] = (larger * (1 - larger)).sum()

    mean = float(1 + certainly_larger + means.mean())
    variance = float(variances.mean() + means.var())
    return NormalLaw(mean, math.sqrt(variance))


def _normal_quantile(share: float) -> float:
    """Return the quantile of a standard normal number, with the same digits on both sides of 0."""
    quantile = margin(abs(2 * share - 1))
    return quantile if share > 0.5 else -quantile
