"""Counted keys: the keys of a question to a release of counted users, and what is known of each.

The number of users of a key was measured with an error that is normal. So it has an interval, and so have all of them
at once: with a level of 1 - a / n for each of n keys, all n intervals hold together with a level of 1 - a, whatever the
errors have in common (Bonferroni). A reported key has a user, or as many as the release asks for.

Such intervals are long. Shorter ones do not all hold; but of independent ones, each of which misses with a probability
of at most p, no more miss than a binomial number of as many keys. `Reached` has bounds of both kinds.
"""

import math
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsample.accounting.clipped import Clipped
from dpsample.accounting.normal import margin
from dpsample.errors import InvalidValue
from dpsample.exact import MAX_FREQUENCY
from dpsample.questions.selection import Attributes, Selection, Where
from dpsample.scheme.sampling import Floats, Ints

if TYPE_CHECKING:
    from dpsample.release.release import Release

_REACHES = (1.0, 2.0)  # errors, beside the one at which all intervals hold
_erfc = np.frompyfunc(math.erfc, 1, 1)


def normal_probability(deviations: Floats) -> Floats:
    """Return the probability that a standard normal number is at most each of these.

    >>> normal_probability(np.array([0.0, 1.96, -8.0])).round(3)
    array([0.5  , 0.975, 0.   ])
    """
    return np.asarray(_erfc(-deviations / math.sqrt(2)), np.float64) / 2


@dataclass(frozen=True, eq=False)
class CountedKeys:
    """Some keys of a release: their rows, weights, what was measured, and the errors; one value for each key.

    `common` is the part of the error that all keys of one of the `groups` have in common.
    """

    rows: Ints
    weights: Floats
    values: Floats
    errors: Floats
    groups: Ints
    common: Floats
    least: Ints  # the number of users that it has at least, as is public

    @classmethod
    def of(cls, release: "Release", rows: Ints, weights: Floats) -> "CountedKeys":
        """Look up the numbers of some rows of a release."""
        measured, errors = (release.table[name].to_numpy()[rows] for name in ("measured", "standard_error"))
        counts = release.terms.counts
        shared = counts.groups if counts and counts.groups else ((0.0, 0.0),)
        least, relative = (np.array(column) for column in zip(*shared, strict=True))
        groups = np.maximum(np.searchsorted(least, measured, side="right") - 1, 0)
        common = np.maximum(measured, least[groups]) * relative[groups]
        users = np.full(len(rows), release.sampling.least)
        if release.terms.known is not None:
            users[release.table["known"].to_numpy()[rows]] = 0
        return cls(rows, weights, measured, errors, groups, common, users)

    def of_amount(self, release: "Release", clipped: Clipped) -> "CountedKeys":
        """Return the same keys with what was measured of an amount, instead of their users."""
        amount = clipped.amount
        values, errors = (release.table[name].to_numpy()[self.rows] for name in (amount.measured, amount.error))
        relative = np.array(clipped.groups or (0.0,))
        return replace(self, values=values, errors=errors, common=np.abs(values) * relative[self.groups])

    @classmethod
    def selected(cls, release: "Release", where: Where, attributes: Attributes) -> "CountedKeys":
        """Select keys, each with weight 1."""
        _, [(rows, weights)] = Selection(release, where, attributes=attributes).weighted_rows()
        return cls.of(release, rows, weights)

    def at(self, places: Ints) -> "CountedKeys":
        """Return some of these keys, in this order."""
        return CountedKeys(*(getattr(self, field.name)[places] for field in fields(self)))

    def __len__(self) -> int:
        return len(self.rows)

    def intervals(self, level: float, keys: int = 1) -> tuple[Floats, Floats]:
        """Return the interval of each key, in whole users; with the number of `keys`, those of all keys at once."""
        reach = margin(level, max(keys, 1)) * self.errors
        low, high = np.floor(self.values - reach), np.ceil(self.values + reach)
        return np.maximum(low, self.least), np.maximum(high, self.least)

    def reaching(self, frequency: int) -> Floats:
        """Return the probability that each key has at least so many users, given what is public of it.

        By the normal law around what was measured, cut off below the least number of users.
        """
        many, some = (normal_probability((self.values - n + 0.5) / self.errors) for n in (frequency, self.least))
        return np.where(frequency > self.least, np.clip(many / np.maximum(some, 1e-300), 0, 1), 1.0)

    def place_of(self, release: "Release", key: Any) -> int | None:
        """Find a key among these; None if it was not reported."""
        rows = CountedKeys.selected(release, [key], None).rows
        if not len(rows):
            return None
        place = np.flatnonzero(self.rows == rows[0])
        if not len(place):
            raise InvalidValue("the key is among the selected ones", "one that is not", "change where")
        return int(place[0])


class Reached:
    """Bounds of how many keys have at least so many users, and of the n-th largest number, by a number of errors.

    A bound by c errors: a key of fewer than x users has ``value - c error >= x`` with a probability of at most
    ``p = Phi(-c)``. Of K keys, let N have x users or more. Then at most B(K - N) of the others seem to, where B is a
    quantile of the binomial law of p. So if s keys seem to, ``s <= N + B(K - N)``. Upper bounds are the same with all
    signs changed. Of the probability that a bound misses, each c has an equal part; B = 0 at the largest c.
    """

    def __init__(self, keys: CountedKeys, level: float) -> None:
        tail = (1 - level) / 2 / (len(_REACHES) + 1)
        reaches = (*_REACHES, -NormalDist().inv_cdf(tail / max(len(keys), 1)))
        self._bounds = [
            _Bound(
                np.sort(np.maximum(np.floor(keys.values - c * keys.errors), keys.least)),
                np.sort(np.maximum(np.ceil(keys.values + c * keys.errors), keys.least)),
                most_false(len(keys), NormalDist().cdf(-c), tail) if c in _REACHES else np.zeros(len(keys) + 1, int),
                float(keys.least.min(initial=MAX_FREQUENCY)),
            )
            for c in reaches
        ]

    def fewest(self, users: int) -> int:
        """Return a lower bound of the number of keys of at least so many users."""
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
    """Ends of intervals, ascending, and by the number of keys how many of these may be false."""

    lows: Floats
    highs: Floats
    false: Ints
    least: float  # that any key has

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
    """Return, for 0 to so many keys, the least b that a binomial number of them exceeds with `tail` at most.

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
    if b > n:
        return -math.inf
    chosen = math.lgamma(n + 1) - math.lgamma(b + 1) - math.lgamma(n - b + 1)
    return chosen + b * math.log(p) + (n - b) * math.log1p(-p)


def error_of_sum(keys: CountedKeys, chosen: Any = slice(None)) -> float:
    """The error of a weighted sum: of the keys by themselves, and what those of a group have in common."""
    own = keys.weights * keys.errors
    common = np.bincount(keys.groups[chosen], (keys.weights * keys.common)[chosen])
    return math.hypot(float(np.linalg.norm(own[chosen])), float(np.linalg.norm(common)))


def detection_threshold(release: "Release") -> int | None:
    """Return the number of users from which on a key is reported with probability 1/2, if they all give this key."""
    return release.terms.detection_threshold
