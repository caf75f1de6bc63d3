"""Users without a contribution bound: what is to be expected of a release that finds their keys, and counts them.

possible_keys    the expected number of keys that any method could report
Way              what is to be expected of one way to find keys
UsersForecast    the expectations of one setting
forecast_users   what users give, a setting -> its forecast

What users give is in `UserNumbers`, and is as private as the data. So are forecasts.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from dpsample.accounting.discovery import Look, Method, UserBudget, capacity_cap, promising_keys
from dpsample.accounting.filled import Filled, fuller
from dpsample.comparison.reporting_curve import LIKELY
from dpsample.exact import text
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.setting import Setting
from dpsample.privacy import Privacy
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import frequency_reaching, reporting_probabilities
from dpsample.scheme.sampling import Floats, KeepAll, Sampling

SIZES = (100, 1000)  # numbers of users for which the errors of counts are stated
_NEAR = 1.5  # a key within this factor of such a number stands for it


def possible_keys(users: Frequencies, privacy: Privacy) -> float:
    """Return the expected number of keys that any method could report with this epsilon and delta.

    `users` are the true numbers of users of each key. Take the users of a key away, one by one: from one to the next,
    the probability that the key is reported falls as privacy allows, down to 0. So no method reports a key more often
    than one that spends all of the privacy on it.

    >>> round(possible_keys(Frequencies.of({10: 5, 1000: 2}), Privacy(1, 1e-6)), 3)
    2.064
    """
    return _expected_keys(users, KeepAll(), Privacy(privacy.epsilon, privacy.delta))


class UserNumbers(Protocol):
    """What users would give to a release; all of it is as private as the data.

    A method has a number: with one key of each user, the number of users at which a key is full; with many, the number
    of keys that each user keeps.
    """

    progress: Any  # is called as work goes on, with its stage

    @property
    def users(self) -> Frequencies:
        """How many keys have each true number of users."""

    def look(self, full: int, epsilon: Fraction) -> Look:
        """Return how many users have how many keys, without noise, as if it had cost this epsilon."""

    def frequencies(self, method: Method, number: int) -> Frequencies:
        """Return how many keys are given each number of users."""

    def count_errors(self, method: Method, number: int, least: int, budget: UserBudget) -> tuple[Floats, Floats]:
        """Return the users of keys that are given `least` users or more, and the errors of their counts."""


@dataclass(frozen=True)
class Way:
    """What is to be expected of one way to find keys.

    `errors` are those of the counts of keys with `SIZES` users, relative to these; None where there are no such keys.
    """

    method: Method
    counted: bool  # or keys only
    keys_each: int  # keys that each user gives, at most
    keys: float  # that are reported
    threshold: int | None  # users who give a key, from which on it is reported with probability 1/2 or more
    chosen: bool = False  # by `discover="ask"`
    errors: tuple[float | None, ...] = (None,) * len(SIZES)
    error: float | None = None  # the median of the counts of all keys that are found, relative to them
    filled: float = 0.0  # the filled capacity, by which `discover="ask"` chooses


@dataclass(frozen=True, repr=False)
class UsersForecast:
    """What is to be expected of a release of users' keys, found in each way; as private as the data."""

    setting: Setting
    users: Frequencies  # keys by their true numbers of users
    possible: float  # keys that any method could report
    ways: tuple[Way, ...]

    def __repr__(self) -> str:
        return f"UsersForecast({self.setting.privacy}: NOT private)"

    @property
    def covered(self) -> float:
        """The share of users' keys that are among the most frequent keys, as many as are found with counts by "ask"."""
        _, reported = max((way.chosen, way.keys) for way in self.ways if way.counted)
        # the most frequent first
        keys = self.users.counts[::-1]
        users = self.users.values[::-1]
        keys_up_to = np.append(0.0, np.cumsum(keys))
        elements_up_to = np.append(0.0, np.cumsum(keys * users))
        elements = float(np.interp(reported, keys_up_to, elements_up_to))
        return elements / self.users.elements

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "private_input": True,
            "epsilon": text(self.setting.privacy.epsilon),
            "delta": text(self.setting.privacy.delta),
            "keys": self.users.total,
            "pairs": self.users.elements,
            "possible_keys": self.possible,
            "ways": [
                {**asdict(way), "errors": dict(zip(map(str, SIZES), way.errors, strict=True))} for way in self.ways
            ],
        }


def forecast_users(numbers: UserNumbers, setting: Setting) -> UsersForecast:
    """Return what is to be expected of a release with `discover="ask"`: of keys only, and of keys with counts.

    What it would choose follows from a look, and from what is filled, without noise; a release's have noise. All ways
    pay for both.
    """
    only = replace(setting, keys_only=True, count_share=None, amounts=())
    ways = [
        way
        for counted, own in ((False, only), (True, setting))
        for way in _ways(numbers, own.users, counted, setting.sampling)
    ]
    return UsersForecast(setting, numbers.users, possible_keys(numbers.users, setting.privacy), tuple(ways))


def _ways(numbers: UserNumbers, budget: UserBudget, counted: bool, sampling: Sampling) -> Iterator[Way]:
    """One key of each user, and many if that is possible."""
    one_key = budget.one_key()
    full = capacity_cap(one_key, sampling)
    look = numbers.look(full, budget.privacy.share(budget.look))
    most = promising_keys(budget, look, sampling)
    many = budget.many_keys(most) if most > 1 else None
    options: list[tuple[Method, int, int, PerKey]] = [("one-key", full, 1, one_key)]
    if many is not None:
        options.append(("many-keys", most, most, many))
    filled = [
        _filled(numbers.frequencies(method, number), keys_each, capacity_cap(each, sampling))
        for method, number, keys_each, each in options
    ]
    chosen = fuller(filled)
    for (method, number, keys_each, each), own in zip(options, filled, strict=True):
        found = numbers.frequencies(method, number)
        threshold = frequency_reaching(LIKELY, sampling, each)
        keys = _expected_keys(found, sampling, each)
        way = Way(method, counted, keys_each, keys, threshold, own is chosen, filled=own.capacity)
        if counted and threshold is not None:
            values, errors = numbers.count_errors(method, number, threshold, budget)
            median = float(np.median(errors / values)) if len(values) else None
            way = replace(way, errors=tuple(_relative_error(values, errors, size) for size in SIZES), error=median)
        yield way


def _filled(given: Frequencies, keys_each: int, full: int) -> Filled:
    """What a way fills, without noise."""
    units = int(np.minimum(given.values, full) @ given.counts)
    return Filled(keys_each, full, units, epsilon=Fraction(1))


def _expected_keys(frequencies: Frequencies, sampling: Sampling, each: PerKey) -> float:
    return float(frequencies.counts @ reporting_probabilities(frequencies.values, sampling, each))


def _relative_error(values: Floats, errors: Floats, size: int) -> float | None:
    """The median error of the counts near a size, relative to it; None if there are none."""
    near = (values >= size / _NEAR) & (values <= size * _NEAR)
    return float(np.median(errors[near])) / size if near.any() else None
