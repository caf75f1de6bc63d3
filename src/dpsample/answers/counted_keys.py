"""Counted keys: the keys of a question to a release of counted users, and what is known of each.

The number of users of a key was measured with an error that is normal. So it has an interval, and so have all of them
at once: with a level of 1 - a / n for each of n keys, all n intervals hold together with a level of 1 - a, whatever the
errors have in common (Bonferroni). A reported key has a user, or the least number that the release asks for.

Such intervals are long. Shorter ones do not all hold; but of independent ones, each of which misses with a probability
of at most p, no more miss than a binomial number of as many keys. `Reached` has bounds of both kinds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from dpsample.accounting.clipped import Clipped
from dpsample.accounting.normal import margin
from dpsample.answers.evidence import KeyEstimates
from dpsample.answers.normal_order import NormalKeys, normal_probability
from dpsample.exact import MAX_FREQUENCY
from dpsample.release.terms import Terms
from dpsample.scheme.sampling import Floats, Ints

# The lengths of intervals, in errors, of which some may miss; beside the one at which all hold. Bounds of further
# lengths would share the same probability of a miss: each would be longer.
_REACHES = (1.0, 2.0)
_TINY = 1e-300  # keeps ratios of zeros defined


@dataclass(frozen=True, eq=False)
class Shared:
    """The part of the error of each key that all keys of its group in one release have in common."""

    groups: Ints
    errors: Floats

    def of_sum(self, weights: Floats, chosen: Any) -> float:
        """Return this part of the error of a weighted sum over chosen keys."""
        of_groups = np.bincount(self.groups[chosen], weights * self.errors[chosen])
        return float(np.linalg.norm(of_groups))


class Gaps(Protocol):
    """Bounds of the users that keys have in the releases, of several, that do not report them."""

    def most(self, probability: float) -> Floats:
        """Return what each key has at most where it is not reported; the bound misses with this probability."""

    def bounds(self, probabilities: Floats) -> Floats:
        """Return such bounds for several probabilities: [key, probability]."""


@dataclass(frozen=True, eq=False)
class CountedKeys(NormalKeys):
    """Some keys of a release, with one value for each key.

    rows, weights   their rows in the release, and the weights that a question gives them
    values, errors  the measured numbers of users, and their errors
    shared          the parts of the errors that keys have in common, for each release
    least           the number of users that each key has at least, which is public
    gaps            bounds of what keys have in releases that do not report them; None if there is a single release
    """

    rows: Ints
    weights: Floats
    values: Floats
    errors: Floats
    shared: tuple[Shared, ...]
    least: Ints
    detection_threshold: int | None = None
    gaps: Gaps | None = None
    called: str = NormalKeys.called
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: pa.Table, terms: Terms, rows: Ints, weights: Floats) -> "CountedKeys":
        """Return the keys of some rows of a release.

        The terms state groups of keys by their number of users: the least number of a group, and the part of the error
        that its keys have in common, relative to their users.
        """
        measured = table["measured"].to_numpy()[rows]
        errors = table["standard_error"].to_numpy()[rows]
        stated_groups: Sequence[tuple[float, float]] = ((0.0, 0.0),)
        if terms.counts and terms.counts.groups:
            stated_groups = terms.counts.groups
        least_of_group = np.array([least for least, _ in stated_groups])
        relative_error = np.array([relative for _, relative in stated_groups])
        group = np.searchsorted(least_of_group, measured, side="right") - 1
        group = np.maximum(group, 0)
        common = np.maximum(measured, least_of_group[group]) * relative_error[group]
        shared = (Shared(group, common),)

        least_users = np.full(len(rows), terms.sampling.least)
        if terms.known is not None:
            is_known = table["known"].to_numpy()[rows]
            least_users[is_known] = 0
        return cls(rows, weights, measured, errors, shared, least_users, terms.detection_threshold)

    def of_amount(self, table: pa.Table, clipped: Clipped) -> "CountedKeys":
        """Return the same keys with the measured sums of an amount instead of their users."""
        amount = clipped.amount
        values = table[amount.measured].to_numpy()[self.rows]
        errors = table[amount.error].to_numpy()[self.rows]
        relative_error = np.array(clipped.groups or (0.0,))
        [shared] = self.shared
        common = np.abs(values) * relative_error[shared.groups]
        shared_of_amount = (Shared(shared.groups, common),)
        return replace(self, values=values, errors=errors, shared=shared_of_amount)

    def __len__(self) -> int:
        return len(self.rows)

    # ---- each key

    @property
    def possible(self) -> Floats:
        """The number of users of each key: as measured, or the least that it can be."""
        return np.maximum(self.values, self.least)

    def estimates(self, places: Ints, level: float) -> KeyEstimates:
        low, high = self.intervals(level)
        value = self.possible
        return KeyEstimates(value[places], self.errors[places], low[places], high[places])

    def intervals(self, level: float, keys: int = 1) -> tuple[Floats, Floats]:
        """Return the interval of each key, in whole users; with the number of `keys`, intervals that hold at once."""
        keys = max(keys, 1)
        low, high = self.whole(margin(level, keys))
        if self.gaps is None:
            return low, high
        # where a release misses a key, half of the upper tail goes to what it misses
        upper_tail = (1 - level) / 2
        missed = self.missed(upper_tail / 2 / keys)
        _, higher = self.whole(margin((1 + level) / 2, keys))
        return low, np.where(missed > 0, higher + missed, high)

    def whole(self, reach: float) -> tuple[Floats, Floats]:
        """Return the ends of intervals that extend by this number of errors, in whole users."""
        low = np.floor(self.values - reach * self.errors)
        high = np.ceil(self.values + reach * self.errors)
        return np.maximum(low, self.least), np.maximum(high, self.least)

    def missed(self, probability: float) -> Floats:
        """Return what each key has at most in releases that do not report it; misses with this probability."""
        if self.gaps is None:
            return np.zeros(len(self))
        return self.gaps.most(probability)

    def larger(self, place: int, level: float) -> tuple[int, int]:
        """Count by intervals of the differences from all other keys at once (Bonferroni)."""
        pairs = max(len(self) - 1, 1)
        missed = self.missed((1 - level) / 4 / pairs)
        level_of_noise = level if self.gaps is None else (1 + level) / 2
        differences = self.values - self.values[place]
        errors = np.hypot(self.errors, self.errors[place])
        reach = margin(level_of_noise, pairs) * errors
        is_other = np.arange(len(self)) != place
        least_difference = differences - missed[place]
        most_difference = differences + missed
        surely_larger = is_other & (least_difference > reach)
        possibly_larger = is_other & (most_difference > -reach)
        return int(surely_larger.sum()), int(possibly_larger.sum())

    def fewest(self, frequency: int, level: float) -> float:
        return float(Reached(self, level).fewest(frequency))

    # ---- keys together

    def reaching(self, frequency: int) -> Floats:
        """Return the probability that each key has `frequency` users or more.

        By the normal law around the measured number, given that the key has its least number of users.
        """
        reaching = self._probability_reaching(frequency)
        reaching_least = self._probability_reaching(self.least)
        conditional = reaching / np.maximum(reaching_least, _TINY)
        return np.where(frequency > self.least, np.clip(conditional, 0, 1), 1.0)

    def _probability_reaching(self, frequency: Ints | int) -> Floats:
        """Return the probability of reaching a whole number, by the normal law with a continuity correction."""
        excess = self.values - frequency + 0.5
        return normal_probability(excess / self.errors)

    def error_of_sum(self, chosen: Any = slice(None)) -> float:
        """Return the error of a weighted sum over chosen keys: of keys by themselves, and that which they share.

        The shared parts of several releases may be alike from day to day, so they add up themselves.
        """
        weights = self.weights[chosen]
        own = float(np.linalg.norm(weights * self.errors[chosen]))
        in_common = math.fsum([shared.of_sum(weights, chosen) for shared in self.shared])
        return math.hypot(own, in_common)

    @property
    def least_sum(self) -> float:
        """The least that the weighted sum can be, since each key has its least number of users."""
        if (self.weights < 0).any():
            return -math.inf
        return float(self.weights @ self.least)


class Reached:
    """Bounds of the number of keys that have at least x users, and of the n-th largest number of users.

    A bound by intervals of c errors: a key *seems* to have x users if its lower end, ``value - c error``, is x or more.
    A key of fewer than x users seems to have x with a probability of at most ``p = Phi(-c)``. Of K keys, let N have x
    users or more. Then at most B(K - N) of the others seem to, where B is a quantile of the binomial law of p. So if s
    keys seem to, ``s <= N + B(K - N)``, and the least such N is a lower bound. Upper bounds are the same with all signs
    changed. Of the probability that a bound misses, each c has an equal part; B = 0 at the largest c, at which all
    intervals hold.
    """

    def __init__(self, keys: CountedKeys, level: float) -> None:
        parts = len(_REACHES) + 1
        if keys.gaps is not None:
            parts += 1
        tail = (1 - level) / 2 / parts
        tail_of_each = tail / max(len(keys), 1)
        missed = keys.missed(tail_of_each)
        none_false = np.zeros(len(keys) + 1, np.int64)
        reach_of_all = -NormalDist().inv_cdf(tail_of_each)
        self._bounds = [_Bound.of(keys, reach_of_all, none_false, missed)]
        for reach in _REACHES:
            false = most_false(len(keys), NormalDist().cdf(-reach), tail)
            self._bounds.append(_Bound.of(keys, reach, false, missed))

    def fewest(self, users: int) -> int:
        """Return a lower bound of the number of keys that have `users` users or more."""
        return max(bound.fewest(users) for bound in self._bounds)

    def most(self, users: int) -> int:
        """Return an upper bound of the number of keys that have `users` users or more."""
        return min(bound.most(users) for bound in self._bounds)

    def low(self, place: int) -> float:
        """Return a lower bound of the number of users at a place, in descending order from 0 on."""
        return max(bound.low(place) for bound in self._bounds)

    def high(self, place: int) -> float:
        """Return an upper bound of the number of users at a place, in descending order from 0 on."""
        return min(bound.high(place) for bound in self._bounds)


@dataclass(frozen=True, eq=False)
class _Bound:
    """The bounds by intervals of one length."""

    lows: Floats  # the lower ends of all keys, ascending
    highs: Floats  # the upper ends, ascending
    false: Ints  # how many of n intervals may miss, for n from 0 on: B
    least: float  # the least number of users that any key has

    @staticmethod
    def of(keys: CountedKeys, reach: float, false: Ints, missed: Floats) -> "_Bound":
        """Return the bounds by intervals of `reach` errors; `missed` is what releases may miss of each key."""
        lows, highs = keys.whole(reach)
        highs = highs + missed
        least = float(keys.least.min(initial=MAX_FREQUENCY))
        return _Bound(np.sort(lows), np.sort(highs), false, least)

    def fewest(self, users: int) -> int:
        seem_fewer = int(np.searchsorted(self.lows, users))
        return self._least_number(len(self.lows) - seem_fewer)

    def most(self, users: int) -> int:
        seem_fewer = int(np.searchsorted(self.highs, users))
        return len(self.highs) - self._least_number(seem_fewer)

    def low(self, place: int) -> float:
        # `place` keys are larger; of the others, this number may seem to be
        false = int(self.false[len(self.lows) - place])
        seeming = place + 1 + false
        if seeming > len(self.lows):
            return self.least
        return float(self.lows[-seeming])

    def high(self, place: int) -> float:
        # of the keys that are as large as this one, or larger, some may seem to be smaller
        false = int(self.false[place + 1])
        seeming = len(self.highs) - place + false
        if seeming > len(self.highs):
            return math.inf
        return float(self.highs[seeming - 1])

    def _least_number(self, seeming: int) -> int:
        """Return the least number N of keys with ``N + B(K - N) >= seeming``."""
        n = np.arange(len(self.false))
        most_seeming = n + self.false[::-1]
        return int(np.argmax(most_seeming >= seeming))


@lru_cache(maxsize=16)
def most_false(keys: int, probability: float, tail: float) -> Ints:
    """Return B for n from 0 to `keys`: the least b that a binomial number of n exceeds with probability `tail` at most.

    >>> most_false(4, 0.5, 0.1)
    array([0, 1, 2, 3, 3])
    """
    most = np.zeros(keys + 1, np.int64)
    b = 0
    at_most_b = 1.0  # the probability that b or fewer of n are false
    exactly_b = 1.0  # the probability that b of n are
    for n in range(1, keys + 1):
        # with one key more, b or fewer are false as before, unless b were and the new one is
        at_most_b -= probability * exactly_b
        exactly_b = math.exp(_log_binomial(n, b, probability))
        while 1 - at_most_b > tail:
            b += 1
            exactly_b = math.exp(_log_binomial(n, b, probability))
            at_most_b += exactly_b
        most[n] = b
    most.flags.writeable = False
    return most


def _log_binomial(n: int, b: int, p: float) -> float:
    """Return the logarithm of the binomial probability of b out of n."""
    if b > n:
        return -math.inf
    rest = n - b
    log_coefficient = math.lgamma(n + 1) - math.lgamma(b + 1) - math.lgamma(rest + 1)
    log_false = b * math.log(p)
    log_true = rest * math.log1p(-p)
    return log_coefficient + log_false + log_true
