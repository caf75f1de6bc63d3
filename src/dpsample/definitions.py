"""Definitions: privacy stated as zCDP or as GDP, and what follows from one definition for another.

zCDP(rho)  the Rényi divergence is at most rho alpha, at every order alpha above 1 (Bun and Steinke, 2016)
GDP(mu)    neighbours are at least as hard to tell apart as N(0, 1) and N(mu, 1) (Dong, Roth and Su, 2019)

Both add up exactly over mechanisms: rho, and mu squared. Gaussian noise of variance v on a number that changes by one
has rho = 1 / (2 v) and mu**2 = 1 / v. A mechanism that is epsilon-private without a delta has

    rho = epsilon tanh(epsilon / 2)      mu with Phi(-mu / 2) = 1 / (1 + exp(epsilon))

and nothing smaller holds for all of them (docs/budget.md has the proofs). Every number here is proved in ball
arithmetic, rounded toward privacy, and the same on every machine.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dpsample.balls import ball, figures_above, floor, precision
from dpsample.errors import InvalidValue
from dpsample.exact import Number, exact, figures_below, rounded_up, text, unit_of_figures

if TYPE_CHECKING:
    from flint import arb

LEAST_EPSILON = Fraction(
    1, 10**12
)  # less, and the integers of a scheme hardly tell exp(epsilon) from 1
_LEAST, _MOST = (
    LEAST_EPSILON,
    Fraction(10**6),
)  # of rho and mu: beyond, no scheme can be made, or nothing is private
_FIGURES = 9  # of what is stated
_COST_FIGURES = (
    18  # of what is added up: a billion costs add up with the precision of what is stated
)
_STEPS = 100  # of a bisection: a hundred bits, far beyond the figures that are stated
_BITS = 256


@dataclass(frozen=True)
class Definition(ABC):
    """A definition of privacy with one parameter. Its amount, a function of that, adds up exactly over mechanisms."""

    value: Fraction  # rho or mu
    name: ClassVar[str]
    written: ClassVar[str]  # the name in prose
    symbol: ClassVar[str]
    amount_symbol: ClassVar[str]  # of what adds up

    def __init__(self, value: Number) -> None:
        object.__setattr__(self, "value", _positive(value, self.symbol))

    @property
    @abstractmethod
    def amount(self) -> Fraction:
        """What adds up over mechanisms: rho, or mu**2."""

    @property
    @abstractmethod
    def variance(self) -> Fraction:
        """The variance of Gaussian noise that has this privacy, on a number that changes by one."""

    @abstractmethod
    def epsilon(self, delta: Fraction) -> Fraction:
        """Return the smallest epsilon that follows at this delta, rounded up."""

    @abstractmethod
    def pure(self, share: Fraction = Fraction(1)) -> Fraction:
        """Return the largest epsilon, rounded down, of a mechanism without a delta that may spend this share."""

    @abstractmethod
    def allows(self, epsilon: Fraction, times: int = 1) -> bool:
        """Whether this number of mechanisms of this epsilon, without a delta, is proved to spend no more together."""

    @staticmethod
    @abstractmethod
    def cost(epsilon: Fraction) -> Fraction:
        """Return the amount that a mechanism of this epsilon without a delta spends, rounded up."""

    @classmethod
    @abstractmethod
    def _of_amount_below(cls, amount: Fraction) -> Self:
        """The definition of this amount, rounded down."""

    @classmethod
    @abstractmethod
    def _of_amount_above(cls, amount: Fraction) -> Self:
        """The definition of this amount, rounded up."""

    def less(self, epsilons: Iterable[Fraction]) -> Self:
        """Return what mechanisms of these epsilons leave, rounded down."""
        spent = sum(map(self.cost, epsilons), Fraction(0))
        if not spent:
            return self
        if spent >= self.amount:
            raise InvalidValue(
                "totals must leave some of the privacy for the keys", "choose smaller shares"
            )
        return self._of_amount_below(figures_below(self.amount - spent, _FIGURES))

    @classmethod
    def implied(cls, epsilons: Iterable[Fraction]) -> Self:
        """Return what mechanisms of these epsilons have together, rounded up."""
        return cls._of_amount_above(sum(map(cls.cost, epsilons), Fraction(0)))

    @classmethod
    def cost_in_words(cls, epsilon: Fraction) -> str:
        """State what a mechanism of this epsilon without a delta costs."""
        return f"{cls.amount_symbol} {float(cls.cost(epsilon)):.9g}"

    def __str__(self) -> str:
        return f"{self.written} with {self.symbol} {text(self.value)}"


class Zcdp(Definition):
    """Zero-concentrated differential privacy.

    >>> zcdp = Zcdp("0.1")
    >>> float(zcdp.epsilon(Fraction("1e-6"))), float(zcdp.pure())
    (2.14193893, 0.450974724)
    """

    name, written, symbol, amount_symbol = "zcdp", "zCDP", "rho", "rho"

    @property
    def amount(self) -> Fraction:  # noqa: D102
        return self.value

    @property
    def variance(self) -> Fraction:  # noqa: D102
        return 1 / (2 * self.value)

    def epsilon(self, delta: Fraction) -> Fraction:
        """Return the smallest epsilon that follows at this delta, at the best order of the conversion, rounded up."""
        return _zcdp_epsilon(self.value, delta)

    def pure(self, share: Fraction = Fraction(1)) -> Fraction:  # noqa: D102
        return _zcdp_pure(self.value * share)

    def allows(self, epsilon: Fraction, times: int = 1) -> bool:  # noqa: D102
        with precision(_BITS):
            return bool(times * _zcdp_cost(epsilon) <= ball(self.value))

    @staticmethod
    def cost(epsilon: Fraction) -> Fraction:  # noqa: D102
        with precision(_BITS):
            return figures_above(_zcdp_cost(epsilon), _COST_FIGURES)

    @classmethod
    def _of_amount_below(cls, amount: Fraction) -> "Zcdp":
        return cls(amount)

    @classmethod
    def _of_amount_above(cls, amount: Fraction) -> "Zcdp":
        return cls(rounded_up(amount, _FIGURES))


class Gdp(Definition):
    """Gaussian differential privacy.

    >>> gdp = Gdp("0.5")
    >>> float(gdp.epsilon(Fraction("1e-6"))), float(gdp.pure())
    (2.25408466, 0.400077689)
    """

    name, written, symbol, amount_symbol = "gdp", "GDP", "mu", "mu**2"

    @property
    def amount(self) -> Fraction:  # noqa: D102
        return self.value**2

    @property
    def variance(self) -> Fraction:  # noqa: D102
        return 1 / self.amount

    def epsilon(self, delta: Fraction) -> Fraction:
        """Return the smallest epsilon at this delta, by `gaussian_delta`, rounded up."""
        return _gdp_epsilon(self.value, delta)

    def pure(self, share: Fraction = Fraction(1)) -> Fraction:
        """Return the largest epsilon, rounded down, of a mechanism without a delta that may spend this share of mu**2.

        ``epsilon = ln(Phi(mu / 2) / Phi(-mu / 2))``
        """
        with precision(_BITS):
            half = ball(self.amount * share).sqrt() / 2
            bound = (_normal(half) / _normal(-half)).log()
            return figures_below(Fraction(floor(bound, _BITS), 1 << _BITS), _FIGURES)

    def allows(self, epsilon: Fraction, times: int = 1) -> bool:  # noqa: D102
        with precision(_BITS):
            return _covers(ball(self.amount / times).sqrt(), epsilon)

    @staticmethod
    def cost(epsilon: Fraction) -> Fraction:  # noqa: D102
        return _gdp_cost(epsilon)

    @classmethod
    def _of_amount_below(cls, amount: Fraction) -> "Gdp":
        scale = 10**60  # far more digits than are kept
        root = Fraction(math.isqrt(int(amount * scale**2)), scale)
        return cls(figures_below(root, _FIGURES))

    @classmethod
    def _of_amount_above(cls, amount: Fraction) -> "Gdp":
        with precision(_BITS):
            return cls(figures_above(ball(amount).sqrt(), _FIGURES))


DEFINITIONS: dict[str, type[Zcdp] | type[Gdp]] = {
    definition.name: definition for definition in (Zcdp, Gdp)
}


def added_by_conversion(order: "arb", delta: "arb") -> "arb":
    """Return what the conversion to (epsilon, delta) adds to a Rényi divergence of this order.

    ``ln(1 - 1/alpha) - (ln(delta) + ln(alpha)) / (alpha - 1)`` (Canonne, Kamath and Steinke, 2020).
    """
    return (1 - 1 / order).log() - (delta.log() + order.log()) / (order - 1)


def gaussian_delta(epsilon: "arb", mu: "arb") -> "arb":
    """Return the delta of mu-GDP at an epsilon of any sign.

    ``Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu)`` (Balle and Wang, 2018).
    """
    root = mu * ball(2).sqrt()
    near = (epsilon - mu**2 / 2) / root
    far = (epsilon + mu**2 / 2) / root
    return (near.erfc() - epsilon.exp() * far.erfc()) / 2


@lru_cache(maxsize=256)
def _zcdp_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """The epsilon at the best order: its derivative is 0 where ``rho (alpha - 1)**2 = -ln(delta alpha)``, once."""
    with precision(_BITS):
        slope = ball(rho)
        at_most = ball(delta)
        # alpha - 1 by bisection, in ball arithmetic, which is the same on every machine
        low = Fraction(0)
        high = Fraction(2 * math.sqrt(-math.log(delta) / rho))
        for _ in range(_STEPS):
            middle = (low + high) / 2
            alpha = 1 + ball(middle)
            beyond = slope * ball(middle) ** 2 + (at_most * alpha).log() > 0
            if beyond:
                high = middle
            else:
                low = middle
        alpha = 1 + ball(high)
        epsilon = slope * alpha + added_by_conversion(alpha, at_most)
        return max(figures_above(epsilon, _FIGURES), LEAST_EPSILON)


@lru_cache(maxsize=256)
def _zcdp_pure(rho: Fraction) -> Fraction:
    with precision(_BITS):
        most = ball(rho)
        return _largest(
            lambda epsilon: bool(_zcdp_cost(epsilon) <= most), Fraction(math.sqrt(2 * rho))
        )


def _zcdp_cost(epsilon: Fraction) -> "arb":
    return ball(epsilon) * (ball(epsilon) / 2).tanh()


@lru_cache(maxsize=256)
def _gdp_epsilon(mu: Fraction, delta: Fraction) -> Fraction:
    with precision(_BITS):
        deviation, most = ball(mu), ball(delta)

        def is_enough(epsilon: Fraction) -> bool:
            return bool(gaussian_delta(ball(epsilon), deviation) <= most)

        by_chernoff = mu**2 / 2 + mu * Fraction(math.sqrt(-2 * math.log(delta)))
        return _smallest(is_enough, by_chernoff, _FIGURES)


@lru_cache(maxsize=256)
def _gdp_cost(epsilon: Fraction) -> Fraction:
    guess = min(epsilon, Fraction(3)) * 2
    with precision(_BITS):
        mu = _smallest(lambda mu: _covers(ball(mu), epsilon), guess, _COST_FIGURES)
    return rounded_up(mu**2, _COST_FIGURES)


def _covers(mu: "arb", epsilon: Fraction) -> bool:
    """Whether GDP of mu allows every mechanism of this epsilon: Phi(-mu / 2) is at most 1 / (1 + exp(epsilon))."""
    return bool(_normal(-mu / 2) * (1 + ball(epsilon).exp()) <= 1)


def _normal(x: "arb") -> "arb":
    """Phi(x), with a small relative error also where it is small."""
    return (-x / ball(2).sqrt()).erfc() / 2


def _smallest(holds: Callable[[Fraction], bool], guess: Fraction, figures: int) -> Fraction:
    """The smallest number of this many figures from which on a statement is proved; at least `LEAST_EPSILON`."""
    high = guess
    while not holds(high):
        high *= 2
    low = high / 2
    while holds(low):
        low, high = low / 2, low
        if high < LEAST_EPSILON:
            return LEAST_EPSILON
    while (high - low) * 10 ** (figures + 2) > low:
        middle = (low + high) / 2
        if holds(middle):
            high = middle
        else:
            low = middle
    number = rounded_up(low, figures)
    while not holds(number):
        number += unit_of_figures(number, figures)
    return max(number, LEAST_EPSILON)


def _largest(holds: Callable[[Fraction], bool], guess: Fraction) -> Fraction:
    """The largest number of `_FIGURES` figures up to which a statement is proved."""
    low = guess
    while not holds(low):
        low /= 2
    high = 2 * low
    while holds(high):
        low, high = high, 2 * high
    while (high - low) * 10 ** (_FIGURES + 2) > low:
        middle = (low + high) / 2
        if holds(middle):
            low = middle
        else:
            high = middle
    number = figures_below(high, _FIGURES)
    while not holds(number):
        number -= unit_of_figures(number, _FIGURES)
    return number


def _positive(value: Any, symbol: str) -> Fraction:
    number = exact(value, symbol)
    if not _LEAST <= number <= _MOST:
        raise InvalidValue(
            f"{symbol} must be from {text(_LEAST)} to {text(_MOST)}, not {text(number)}",
            "choose one such as 0.1; smaller is more private",
        )
    return number
