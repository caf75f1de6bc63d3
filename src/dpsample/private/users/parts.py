"""Parts of the counts: sums over users of vectors of bounded length, and the noise that is added to them.

What adds noise is one type, `Noisy`; what does not is another, `Exact`. Counts remember which of them made them, and
what makes a release accepts those of `Noisy` alone (mypy checks it).
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from dpsample.accounting.lengths import deviation_of
from dpsample.accounting.user_budget import UserBudget
from dpsample.accounting.vectors import VectorNoise
from dpsample.private.noise import from_table
from dpsample.private.randomness import CoinSource
from dpsample.scheme.sampling import Floats, Ints


@dataclass(frozen=True)
class Part:
    """A part of the counts: what it may spend, and by how much one user changes it.

    square  the mu**2 that its noise may spend
    aside   the part of delta for the ends of its table of noise
    length  the largest length of the vector by which one user changes it, in units
    """

    name: str
    square: Fraction
    aside: Fraction
    length: int

    @classmethod
    def of(cls, budget: UserBudget, name: str, length: int) -> "Part":
        """Return a part with its share of the budget."""
        return cls(name, square_of(budget, name), budget.aside, length)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise, in the units of `length`."""
        return self.length * deviation_of(self.square)


def square_of(budget: UserBudget, name: str) -> Fraction:
    """Return the mu**2 of a part."""
    return budget.square * budget.parts[name]


class Noisy:
    """Gaussian noise by the coins of a release. It remembers the table of each part, which the release states."""

    def __init__(self, coins: CoinSource) -> None:
        self._coins = coins
        self._tables: dict[str, VectorNoise] = {}

    def published(self, part: Part, total: Ints) -> Ints:
        """Return the numbers of a part with noise, drawn by coins of its own; `total` is private."""
        noise = VectorNoise.of(part.square, part.aside, part.length)
        self._tables[part.name] = noise
        return total + from_table(noise.noise, len(total), self._coins.fresh())

    def tables(self, budget: UserBudget) -> tuple[VectorNoise, ...]:
        """Return the noise of all parts, in the order of the budget: the release states it."""
        return tuple(self._tables[name] for name in budget.parts)

    def __repr__(self) -> str:
        return "Noisy()"


class Exact:
    """No noise, for a forecast: numbers are as private as the data, and no release can be made of them."""

    def published(self, part: Part, total: Ints) -> Ints:
        """Return the numbers of a part as they are."""
        return total

    def __repr__(self) -> str:
        return "Exact()"


Noise = TypeVar("Noise", bound=Noisy | Exact)


@dataclass(frozen=True, eq=False)
class Measured:
    """Numbers with their standard errors, one for each key or group of keys."""

    values: Floats
    errors: Floats
