"""The choice of `discover="ask"`: one key of each user, or many? It is made from noisy numbers alone.

promising_keys   with how many keys of each user the most could be found, from the look
fuller           of two ways that were measured, the one that could fill more keys
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

FULL = 0.999  # a key is full with the number of users at which it is reported with this probability
ALL = KeepAll()

_NUMBERS_OF_KEYS = tuple(
    1 << n for n in range(1, 10)
)  # of each user; with more than 512, noise would decide too often
_PAST = 0.7  # a capacity below this part of the largest one is past the maximum: with more keys it only falls further


class OfManyKeys(Protocol):
    """What knows the mechanism of a key if each user gives several: a `UserBudget`."""

    def many_keys(self, keys: int) -> RenyiSteps | None:
        """Return the mechanism, or None if the budget does not allow it."""


def capacity_cap(each: PerKey, sampling: Sampling = ALL) -> int:
    """Return the number of users at which a key is full."""
    reached = frequency_reaching(FULL, sampling, each)
    assert reached is not None  # all keys are kept from some frequency on
    return reached


def promising_keys(budget: OfManyKeys, look: UsersByKeys, sampling: Sampling = ALL) -> int:
    """Return with how many keys of each user the most keys could be found, judged by the look alone.

    The capacity of k keys of each user is the number of units that users give, the sum of min(k, their keys), divided
    by the units at which a key has an even chance of being reported. The result is the power of two from 2 to 512 with
    the largest capacity, or 1 if the budget allows no more than one key.
    """
    best_capacity, best = -math.inf, 1
    for keys in _NUMBERS_OF_KEYS:
        each = budget.many_keys(keys)
        if each is None:
            continue
        units_for_even_chance = each.steps + (sampling.least - 1)
        capacity = look.kept_with_doubt(keys) / units_for_even_chance
        if capacity > best_capacity:
            best_capacity, best = capacity, keys
        elif capacity < _PAST * best_capacity:
            break
    return best


def fuller(ways: Sequence[Filled]) -> Filled:
    """Return the way with the largest filled capacity; of equal ones the first. Integers decide.

    >>> from fractions import Fraction
    >>> one, many = Filled(1, 21, 2100, Fraction(1)), Filled(32, 134, 13_400, Fraction(1))
    >>> fuller([one, many]).keys, fuller([many, one]).keys
    (1, 32)
    """
    best, *others = ways
    for way in others:
        # units / full, compared without division
        if max(way.units, 0) * best.full > max(best.units, 0) * way.full:
            best = way
    return best
