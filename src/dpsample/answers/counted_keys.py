"""Counted keys: the keys of a question to a release of counted users, and what is known of each.

The number of users of a key was measured with an error that is normal. So it has an interval, and so have all of them
at once: with a level of 1 - a / n for each of n keys, all n intervals hold together with a level of 1 - a, whatever the
errors have in common (Bonferroni). A reported key has a user, or as many as the release asks for.

Such intervals are long. Shorter ones do not all hold; but of independent ones, each of which misses with a probability
of at most p, no more miss than a binomial number of as many keys. `Reached` has bounds of both kinds.
"""

import math
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

_REACHES = (
    1.0,
    2.0,
)  # errors, beside the one at which all intervals hold; more bounds share the same probability


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
    """What several releases say of the keys that some of them do not report."""

    def most(self, probability: float) -> Floats:
        """Return what each key has at most where it is not reported, but for this probability."""

    def bounds(self, probabilities: Floats) -> Floats:
        """Return the same for several probabilities: [key, probability]."""


@dataclass(frozen=True, eq=False)
class CountedKeys(NormalKeys):
    """Some keys of a release: their rows, weights, what was measured, and the errors; one value for each key.

    `shared` are the parts of the errors that keys have in common, for each release. `gaps` bounds what keys have in
    releases that do not report them; None of a single release.
    """

    rows: Ints
    weights: Floats
    values: Floats
    errors: Floats
    shared: tuple[Shared, ...]
    least: Ints  # the number of users that it has at least, as is public
    detection_threshold: int | None = None
    gaps: Gaps | None = None
    called: str = NormalKeys.called
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: pa.Table, terms: Terms, rows: Ints, weights: Floats) -> "CountedKeys":
        """Look up the numbers of some rows of a release."""
        measured = table["measured"].to_numpy()[rows]
        errors = table["standard_error"].to_numpy()[rows]
        shared = terms.counts.groups if terms.counts and terms.counts.groups else ((0.0, 0.0),)
        least, relative = (np.array(column) for column in zip(*shared, strict=True))
        groups = np.maximum(np.searchsorted(least, measured, side="right") - 1, 0)
        common = np.maximum(measured, least[groups]) * relative[groups]
        users = np.full(len(rows), terms.sampling.least)
        if terms.known is not None:
            users[table["known"].to_numpy()[rows]] = 0
        own = (Shared(groups, common),)
        return cls(rows, weights, measured, errors, own, users, terms.detection_threshold)

    def of_amount(self, table: pa.Table, clipped: Clipped) -> "CountedKeys":
        """Return the same keys with what was measured of an amount, instead of their users."""
        amount = clipped.amount
        values = table[amount.measured].to_numpy()[self.rows]
        errors = table[amount.error].to_numpy()[self.rows]
        relative = np.array(clipped.groups or (0.0,))
        [shared] = self.shared
        common = np.abs(values) * relative[shared.groups]
        return replace(self, values=values, errors=errors, shared=(Shared(shared.groups, common),))

    def __len__(self) -> int:
        return len(self.rows)

    # ---- each key

    @property
    def possible(self) -> Floats:
        """The number of users of each key: what was measured, or the least that it can be."""
        return np.maximum(self.values, self.least)

    def estimates(self, places: Ints, level: float) -> KeyEstimates:
        low, high = self.intervals(level)
        return KeyEstimates(self.possible[places], self.errors[places], low[places], high[places])

    def intervals(self, level: float, keys: int = 1) -> tuple[Floats, Floats]:
        """Return the interval of each key, in whole users; with the number of `keys`, those of all keys at once."""
        keys = max(keys, 1)
        low, high = self.whole(margin(level, keys))
        if self.gaps is None:
            return low, high
        # where a release misses a key, half of the upper tail goes to what it misses
        missed = self.missed((1 - level) / 4 / keys)
        _, higher = self.whole(margin((1 + level) / 2, keys))
        return low, np.where(missed > 0, higher + missed, high)

    def whole(self, reach: float) -> tuple[Floats, Floats]:
        """Return the ends of intervals that extend by this number of errors, in whole users."""
        low = np.floor(self.values - reach * self.errors)
        high = np.ceil(self.values + reach * self.errors)
        return np.maximum(low, self.least), np.maximum(high, self.least)

    def missed(self, probability: float) -> Floats:
        """Return what each key has at most in releases that do not report it, but for this probability."""
        return np.zeros(len(self)) if self.gaps is None else self.gaps.most(probability)

    def larger(self, place: int, level: float) -> tuple[int, int]:
        """By intervals of the differences from all other keys at once."""
        pairs = max(len(self) - 1, 1)
        missed = self.missed((1 - level) / 4 / pairs)
        if self.gaps is not None:
            level = (1 + level) / 2
        differences = self.values - self.values[place]
        errors = np.hypot(self.errors, self.errors[place])
        reach = margin(level, pairs) * errors
        others = np.arange(len(self)) != place
        surely = others & (differences - missed[place] > reach)
        possibly = others & (differences + missed > -reach)
        return int(surely.sum()), int(possibly.sum())

    def fewest(self, frequency: int, level: float) -> float:
        return float(Reached(self, level).fewest(frequency))

    # ---- keys together

    def reaching(self, frequency: int) -> Floats:
        """Return the probability that each key has at least this many users, given what is public of it.

        By the normal law around what was measured, cut off below the least number of users.
        """
        many = self._probability_reaching(frequency)
        some = self._probability_reaching(self.least)
        cut_off = np.clip(many / np.maximum(some, 1e-300), 0, 1)
        return np.where(frequency > self.least, cut_off, 1.0)

    def _probability_reaching(self, frequency: Ints | int) -> Floats:
        """The probability of reaching a whole number, by the normal law."""
        return normal_probability((self.values - frequency + 0.5) / self.errors)

    def error_of_sum(self, chosen: Any = slice(None)) -> float:
        """The error of a weighted sum: of the keys by themselves, and what those of a group have in common."""
        weights = self.weights[chosen]
        own = float(np.linalg.norm(weights * self.errors[chosen]))
        in_common = math.fsum(
            shared.of_sum(weights, chosen) for shared in self.shared
        )  # alike from day to day
        return math.hypot(own, in_common)

    @property
    def least_sum(self) -> float:
        """The least that the weighted sum can be, since each key has its least number of users."""
        return float(self.weights @ self.least) if (self.weights >= 0).all() else -math.inf


class Reached:
    """Bounds of how many keys have at least a number of users, and of the n-th largest number of users.

    A bound by c errors: a key of fewer than x users has ``value - c error >= x`` with a probability of at most
    ``p = Phi(-c)``. Of K keys, let N have x users or more. Then at most B(K - N) of the others seem to, where B is a
    quantile of the binomial law of p. So if s keys seem to, ``s <= N + B(K - N)``. Upper bounds are the same with all
    signs changed. Of the probability that a bound misses, each c has an equal part; B = 0 at the largest c.
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
        """Return a lower bound of the number of keys of at least this many users."""
        return max(bound.fewest(users) for bound in self._bounds)

    def most(self, users: int) -> int:
        """Return an upper bound of it."""
        return min(bound.most(users) for bound in self._bounds)

    def low(self, place: int) -> float:
        """Return a lower bound of the number of users at a place, from the largest number on, which is at 0."""
        return max(bound.low(place) for bound in self._bounds)

    def high(self, place: int) -> float:
        """Return an upper bound of it."""
        return min(bound.high(place) for bound in self._bounds)


@dataclass(frozen=True, eq=False)
class _Bound:
    """The ends of the keys' intervals, ascending, and how many of them may be false, by the number of keys."""

    lows: Floats
    highs: Floats
    false: Ints
    least: float  # that any key has

    @staticmethod
    def of(keys: CountedKeys, reach: float, false: Ints, missed: Floats) -> "_Bound":
        """Return the bound by this number of errors, and what releases miss of each key."""
        lows, highs = keys.whole(reach)
        highs = highs + missed
        least = float(keys.least.min(initial=MAX_FREQUENCY))
        return _Bound(np.sort(lows), np.sort(highs), false, least)

    def fewest(self, users: int) -> int:
        return self._least(len(self.lows) - int(np.searchsorted(self.lows, users)))

    def most(self, users: int) -> int:
        return len(self.highs) - self._least(int(np.searchsorted(self.highs, users)))

    def low(self, place: int) -> float:
        seeming = place + 1 + int(self.false[len(self.lows) - place])
        return float(self.lows[-seeming]) if seeming <= len(self.lows) else self.least

    def high(self, place: int) -> float:
        below = len(self.highs) - place  # keys up to this one, from the smallest on
        seeming = below + int(self.false[place + 1])
        return float(self.highs[seeming - 1]) if seeming <= len(self.highs) else math.inf

    def _least(self, seeming: int) -> int:
        """The least number N of keys with ``N + B(K - N) >= seeming``."""
        n = np.arange(len(self.false))
        return int(np.argmax(n + self.false[::-1] >= seeming))


@lru_cache(maxsize=16)
def most_false(keys: int, probability: float, tail: float) -> Ints:
    """Return, for each number of keys, the least b that a binomial number of them exceeds with `tail` at most.

    >>> most_false(4, 0.5, 0.1)
    array([0, 1, 2, 3, 3])
    """
    most = np.zeros(keys + 1, np.int64)
    b, at_most, equal = 0, 1.0, 1.0  # of n keys: the probability of b or fewer, and that of b
    for n in range(1, keys + 1):
        # one key more: b or fewer stay so, unless there are b and the new one is false
        at_most -= probability * equal
        equal = math.exp(_log_binomial(n, b, probability))
        while 1 - at_most > tail:
            b += 1
            equal = math.exp(_log_binomial(n, b, probability))
            at_most += equal
        most[n] = b
    most.flags.writeable = False
    return most


def _log_binomial(n: int, b: int, p: float) -> float:
    """The logarithm of the binomial probability of b out of n."""
    if b > n:
        return -math.inf
    rest = n - b
    chosen = math.lgamma(n + 1) - math.lgamma(b + 1) - math.lgamma(rest + 1)
    return chosen + b * math.log(p) + rest * math.log1p(-p)
