"""The choice of how keys are discovered: by one key of each user, or by many (docs/theory.md, section 10, The rule).

The look says with how many keys of each user the most keys could be found. With `discover="ask"`, what one key of each
user fills is then compared with what that number of keys fills. All of it is bought: the choice follows from noisy
numbers alone.
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


def choose(drawing: Drawing, assigned: Assigned) -> Choice:
    """Buy the look and what is filled, if the budget has shares for them, and choose by these."""
    budget = drawing.request.options.users
    sampling = drawing.request.options.sampling
    look = None
    filled: tuple[Filled, ...] = ()
    keys_each = 1  # keys that each user gives
    if budget.look:
        look = look_at(assigned.sizes, budget.privacy.share(budget.look), drawing.coins)
        keys_each = promising_keys(budget, look, sampling)
    if budget.filled:
        filled = buy_filled(drawing.engine, assigned, keys_each, budget, sampling, drawing.coins)
        keys_each = fuller(filled).keys
    per_key = mechanism(budget, keys_each)
    if keys_each > 1:
        many = Discovery("many-keys", keys_each, look=look, filled=filled)
        return Choice(many, per_key)
    full = capacity_cap(per_key, sampling)
    has_prior = drawing.request.prior is not None
    one = Discovery("one-key", 1, full, look, has_prior, filled)
    return Choice(one, per_key)


def mechanism(budget: UserBudget, keys_each: int) -> PerKey:
    """Return the mechanism by which keys are reported if each user gives up to `keys_each` keys."""
    if keys_each == 1:
        return budget.one_key()
    many = budget.many_keys(keys_each)
    assert (
        many is not None
    )  # `promising_keys` leaves out numbers of keys that the budget does not allow
    return many


def buy_filled(
    engine: Engine,
    assigned: Assigned,
    many: int,
    budget: UserBudget,
    sampling: Sampling,
    coins: CoinSource,
) -> tuple[Filled, ...]:
    """Buy what two ways of discovery fill, in units: one key of each user, and `many` keys of each user.

    One user changes what a way fills by at most the number of keys that each user gives. Each has noise of its own.
    """
    drawn = coins.fresh()
    bought = []
    for keys_each, epsilon in zip((1, many), budget.filled_epsilons, strict=True):
        full = capacity_cap(mechanism(budget, keys_each), sampling)
        if keys_each == 1:
            units = (
                assigned.units
            )  # no key has more units than it takes, and each user gave one unit
        else:
            units = engine.filled(assigned, keys_each, full, coins)
        way = Filled(keys_each, full, units, epsilon)
        noise = discrete_laplace(way.scale, drawn)
        bought.append(replace(way, units=units + noise))
    return tuple(bought)
