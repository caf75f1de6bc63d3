"""The forecast of users without a contribution bound, by each way to find their keys.

UserNumbers      what users would give to a release: the interface of `private.count.CountedUsers`
forecast_users   these numbers and a setting -> its forecast

What users give is as private as the data, and so are forecasts.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np

from dpsample.accounting.choice import capacity_cap, fuller, promising_keys
from dpsample.accounting.discovery import Method
from dpsample.accounting.filled import Filled
from dpsample.accounting.look import TrueLook
from dpsample.accounting.user_budget import UserBudget
from dpsample.comparison.reporting_curve import LIKELY
from dpsample.planning.forecast import Expected, Forecast, Way, most_possible
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.setting import Setting
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import frequency_reaching, reporting_probabilities
from dpsample.scheme.sampling import Floats, Sampling

SIZES = (100, 1000)  # numbers of users for which the errors of counts are stated
# a key within this factor of such a number stands for it; a larger one averages over more keys, less alike
_NEAR = 1.5


class UserNumbers(Protocol):
    """What users would give to a release; all of it is as private as the data.

    Each method of discovery has a number. For one key of each user it is the number of users at which a key is full;
    for many keys, the number of keys that each user keeps.
    """

    @property
    def users(self) -> Frequencies:
        """How many keys have each true number of users."""

    def look(self, full: int, epsilon: Fraction) -> TrueLook:
        """Return how many users have how many keys, without noise, as if it had cost this epsilon."""

    def frequencies(self, method: Method, number: int) -> Frequencies:
        """Return how many keys are given each number of users."""

    def count_errors(
        self, method: Method, number: int, least: int, budget: UserBudget
    ) -> tuple[Floats, Floats]:
        """Return the users of keys that are given `least` users or more, and the errors of their counts."""


def forecast_users(numbers: UserNumbers, setting: Setting) -> Forecast:
    """Return what to expect of a release with `discover="ask"`: of keys only, and of keys with counts.

    What it would choose follows from the look and from the filled capacities, without noise; a release's have noise.
    All ways pay for both.
    """
    keys_only = replace(setting, keys_only=True, count_share=None, amounts=())
    methods = (*_expected_ways(numbers, keys_only), *_expected_ways(numbers, setting))
    possible = most_possible(numbers.users, setting.privacy)
    return Forecast(setting, setting.sampling, numbers.users, methods, possible=possible)


@dataclass(frozen=True)
class _Option:
    """A way to find keys that the privacy allows."""

    method: Method
    number: int  # the number of this method, as in `UserNumbers`
    keys_each: int  # the largest number of keys that a user gives
    per_key: PerKey
    given: Frequencies  # how many keys are given each number of users

    def filled(self, sampling: Sampling) -> Filled:
        """Return the capacity of keys that this way fills, without noise."""
        full = capacity_cap(self.per_key, sampling)
        units = int(np.minimum(self.given.values, full) @ self.given.counts)
        return Filled(self.keys_each, full, units, epsilon=Fraction(1))


def _expected_ways(numbers: UserNumbers, setting: Setting) -> list[Expected]:
    """Return what to expect of one key of each user, and of many keys if the privacy and the look allow them."""
    options = list(_options(numbers, setting))
    filled = [option.filled(setting.sampling) for option in options]
    chosen = fuller(filled)
    expected = []
    counted = not setting.keys_only
    unknown = (None,) * len(SIZES)
    for option, own in zip(options, filled, strict=True):
        is_chosen = own is chosen
        keys_each = option.keys_each
        way = Way(option.method, counted, keys_each, is_chosen, own.capacity, unknown)
        expected.append(_expected(numbers, setting, option, way))
    return expected


def _options(numbers: UserNumbers, setting: Setting) -> Iterator[_Option]:
    """Yield one key of each user, and many keys if the privacy and the look allow them."""
    budget = setting.users
    one_key = budget.one_key()
    full = capacity_cap(one_key, setting.sampling)
    look = numbers.look(full, budget.privacy.share(budget.look))
    yield _Option("one-key", full, 1, one_key, numbers.frequencies("one-key", full))
    keys_each = promising_keys(budget, look, setting.sampling)
    if keys_each == 1:
        return
    many_keys = budget.many_keys(keys_each)
    if many_keys is None:
        return
    given = numbers.frequencies("many-keys", keys_each)
    yield _Option("many-keys", keys_each, keys_each, many_keys, given)


def _expected(numbers: UserNumbers, setting: Setting, option: _Option, way: Way) -> Expected:
    """Return what to expect of one way to find keys; with the errors of counts, if it counts."""
    users = numbers.users
    threshold = frequency_reaching(LIKELY, setting.sampling, option.per_key)
    if way.counted and threshold is not None:
        counts, errors = numbers.count_errors(
            option.method, option.number, threshold, setting.users
        )
        near = tuple(_relative_error(counts, errors, size) for size in SIZES)
        median = float(np.median(errors / counts)) if len(counts) else None
        way = replace(way, count_errors=near, median_error=median)
    reported = reporting_probabilities(option.given.values, setting.sampling, option.per_key)
    keys = float(option.given.counts @ reported)
    pairs = _share_of_largest(users, keys)
    return Expected(_name(way), keys, keys / users.total, pairs, threshold, way=way)


def _name(way: Way) -> str:
    stage = "counted" if way.counted else "keys only"
    each = "one key each" if way.discovery == "one-key" else "up to k keys each"
    return f"{stage}, {each}"


def _share_of_largest(users: Frequencies, number: float) -> float:
    """Return the share of all pairs of a user and a key that is in this number of keys with the most users.

    It stands for the share of the keys that are found, since only their number is known.
    """
    keys = users.counts[::-1]
    values = users.values[::-1]
    keys_up_to = np.append(0.0, np.cumsum(keys))
    pairs_up_to = np.append(0.0, np.cumsum(keys * values))
    return float(np.interp(number, keys_up_to, pairs_up_to)) / users.elements


def _relative_error(counts: Floats, errors: Floats, size: int) -> float | None:
    """Return the median error of the counts near a size, relative to it; None if there are none."""
    near = (counts >= size / _NEAR) & (counts <= size * _NEAR)
    if not near.any():
        return None
    return float(np.median(errors[near])) / size
