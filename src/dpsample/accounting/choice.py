"""The choice of `discover="ask"`: one key of each user, or many? It is made from noisy numbers alone.

promising_keys   the number of keys of each user with which most keys could be found, by the look
fuller           the way of discovery that fills most keys, among those that were measured
capacity_cap     the number of users that fills a key
"""

import math
from collections.abc import Sequence
from typing import Protocol

from dpsample.accounting.filled import Filled
from dpsample.accounting.look import UsersByKeys
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.renyi_steps import RenyiSteps
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import KeepAll, Sampling

# A key is full, and takes no more users, once its reporting probability reaches this value.
FULL = 0.999
ALL = KeepAll()
# Numbers of keys of each user that are considered: 2, 4, ..., 512. With more, noise would decide too often.
_NUMBERS_OF_KEYS = tuple(1 << n for n in range(1, 10))
# A capacity below this part of the largest one is past the maximum. With more keys it only falls further.
_PAST_THE_BEST = 0.7


class OfManyKeys(Protocol):
    """A budget that says how each key is reported if users give several keys: a `UserBudget`."""

    def many_keys(self, keys: int) -> RenyiSteps | None:
        """Return the mechanism of each key if users give `keys` keys, or None if the budget does not allow it."""


def capacity_cap(each: PerKey, sampling: Sampling = ALL) -> int:
    """Return the number of users at which a key is full."""
    reached = frequency_reaching(FULL, sampling, each)
    assert reached is not None  # every key is reported with this probability from some frequency on
    return reached


def promising_keys(budget: OfManyKeys, look: UsersByKeys, sampling: Sampling = ALL) -> int:
    """Return the number of keys of each user with which most keys could be found, judged by the look alone.

    The capacity of k keys of each user is the number of units that users give, the sum of min(k, their keys), divided
    by the units at which a key has an even chance of being reported. The result is the power of two from 2 to 512 with
    the largest capacity, or 1 if the budget allows no more than one key.
    """
    best_capacity = -math.inf
    best = 1
    for keys in _NUMBERS_OF_KEYS:
        each = budget.many_keys(keys)
        if each is None:
            continue
        # `steps` units lead from 0 to an even chance; keys of fewer than `least` users are never reported
        units_for_even_chance = each.steps + (sampling.least - 1)
        # the sum of min(k, keys), less one deviation of the look's noise
        capacity = look.kept_with_doubt(keys) / units_for_even_chance
        if capacity > best_capacity:
            best_capacity = capacity
            best = keys
        elif capacity < _PAST_THE_BEST * best_capacity:
            break
    return best


def fuller(ways: Sequence[Filled]) -> Filled:
    """Return the way of discovery with the largest filled capacity, and the first of equals. Integers decide.

    >>> from fractions import Fraction
    >>> one, many = Filled(1, 21, 2100, Fraction(1)), Filled(32, 134, 13_400, Fraction(1))
    >>> fuller([one, many]).keys, fuller([many, one]).keys
    (1, 32)
    """
    best, *others = ways
    for way in others:
        units = max(way.units, 0)
        best_units = max(best.units, 0)
        is_fuller = units * best.full > best_units * way.full  # units / full, without division
        if is_fuller:
            best = way
    return best
