"""The choice of how keys are discovered: by one key of each user, or by many (docs/theory.md, section 10).

A look says with how many keys of each user the most could be found. With `discover="ask"`, what one key and what that
number of keys fill is then compared, with noise.
"""

from dataclasses import dataclass, replace

from dpsample.accounting.choice import capacity_cap, fuller, promising_keys
from dpsample.accounting.discovery import Discovery
from dpsample.accounting.filled import Filled
from dpsample.accounting.user_budget import UserBudget
from dpsample.private.assignment import Assigned
from dpsample.private.drawing import Drawing
from dpsample.private.engine import Engine
from dpsample.private.noise import discrete_laplace
from dpsample.private.randomness import CoinSource
from dpsample.private.users.look import look_at
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import Sampling


@dataclass(frozen=True)
class Choice:
    """How keys are discovered: the public record, and the mechanism by which they are reported."""

    discovery: Discovery
    per_key: PerKey


def choose(drawing: Drawing, given: Assigned) -> Choice:
    """Buy what the budget has a share for, the look and what is filled, and choose by it."""
    budget, sampling = drawing.request.setting.users, drawing.request.setting.sampling
    look = None
    filled: tuple[Filled, ...] = ()
    keys = 1  # of each user
    if budget.look:
        look = look_at(given.sizes, budget.privacy.share(budget.look), drawing.coins)
        keys = promising_keys(budget, look, sampling)
    if budget.filled:
        filled = compare_filled(drawing.engine, given, keys, budget, sampling, drawing.coins)
        keys = fuller(filled).keys
    per_key = mechanism(budget, keys)
    if keys > 1:
        return Choice(Discovery("many-keys", keys, look=look, filled=filled), per_key)
    full = capacity_cap(per_key, sampling)
    prior = drawing.request.prior is not None
    return Choice(Discovery("one-key", 1, full, look, prior, filled), per_key)


def mechanism(budget: UserBudget, keys: int) -> PerKey:
    """Return the mechanism by which keys are reported if each user gives up to `keys` keys."""
    if keys == 1:
        return budget.one_key()
    many = budget.many_keys(keys)
    assert many is not None  # the number of keys was chosen by it
    return many


def compare_filled(
    engine: Engine,
    given: Assigned,
    keys: int,
    budget: UserBudget,
    sampling: Sampling,
    coins: CoinSource,
) -> tuple[Filled, ...]:
    """Buy what one key of each user fills, and what `keys` keys fill: units, each with noise of its own."""
    drawn = coins.fresh()
    ways = []
    for number, epsilon in zip((1, keys), budget.filled_epsilons, strict=True):
        full = capacity_cap(mechanism(budget, number), sampling)
        # with one key of each user, no key has more units than it takes, and nobody has given two
        units = given.units if number == 1 else engine.filled(given, number, full, coins)
        way = Filled(number, full, units, epsilon)
        ways.append(replace(way, units=units + discrete_laplace(way.scale, drawn)))
    return tuple(ways)
