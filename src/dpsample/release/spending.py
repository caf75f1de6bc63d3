"""Spending: the noisy numbers that a release bought beside its keys, and their costs. The keys have the rest."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from dpsample.accounting.discovery import Discovery
from dpsample.release.bought import Bought


@dataclass(frozen=True)
class Spending:
    """A noisy number that a release buys: its name, the same in words, its epsilon, and the scale of its noise.

    The scale is None for a plan.
    """

    name: str
    words: str
    epsilon: Fraction
    scale: Fraction | None


def spending_of(discovery: Discovery | None, bought: Bought) -> Iterator[Spending]:
    """Yield the purchases of a release, in their order."""
    if discovery is not None:
        yield from _before_discovery(discovery)
    if bought.size is not None:
        weights = bought.size.weights
        yield Spending("sample size", "the sample size", weights.epsilon, weights.scale)
    if bought.total is not None:
        total = bought.total
        yield Spending("total", "the total", total.epsilon, total.scale)
    if bought.dropped is not None:
        dropped = bought.dropped
        words = "the total of dropped keys"
        yield Spending("dropped keys", words, dropped.epsilon, dropped.scale)


def _before_discovery(discovery: Discovery) -> Iterator[Spending]:
    """Yield the noisy numbers that chose the method of discovery, and the number of keys of each user.

    A user changes one number of the look by one.
    """
    if discovery.look is not None:
        epsilon = discovery.look.epsilon
        yield Spending("look", "a look at how many keys users have", epsilon, 1 / epsilon)
    for way in discovery.filled:
        if way.keys == 1:
            keys = "one key"
            given = keys
        else:
            keys = f"{way.keys:,} keys"
            given = f"up to {keys}"
        words = f"the number of keys that {given} of each user could fill"
        yield Spending(f"filled by {keys} of each user", words, way.epsilon, way.scale)
