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
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias

from flint import arb

from dpsample.balls import ball, figures_above, floor, precision
from dpsample.errors import InvalidValue
from dpsample.exact import Number, exact, figures_below, text

LEAST_EPSILON = Fraction(1, 10**12)  # less, and the integers of a scheme hardly tell exp(epsilon) from 1
_LEAST, _MOST = LEAST_EPSILON, Fraction(10**6)  # of rho and mu: beyond, no scheme can be made, or nothing is private
_FIGURES = 9  # of what is stated
_COST_FIGURES = 18  # of what is added up
_STEPS = 100  # of a bisection
_BITS = 256


@dataclass(frozen=True)
class Zcdp:
    """Zero-concentrated differential privacy.

    >>> zcdp = Zcdp("0.1")
    >>> float(zcdp.epsilon(Fraction("1e-6"))), float(zcdp.pure())
    (2.14193893, 0.450974724)
    """

    rho: Fraction
    name: ClassVar[str] = "zcdp"
    symbol: ClassVar[str] = "rho"

    def __init__(self, rho: Number) -> None:
        object.__setattr__(self, "rho", _positive(rho, "rho"))

    @property
    def value(self) -> Fraction:
        """The parameter: rho."""
        return self.rho

    @property
    def variance(self) -> Fraction:
        """The variance of Gaussian noise that has this privacy, on a number that changes by one."""
        return 1 / (2 * self.rho)

    def epsilon(self, delta: Fraction) -> Fraction:
        """Return the smallest epsilon that follows at this delta, by the conversion of `accounting.renyi`, rounded up.

        Its derivative is 0 where ``rho (alpha - 1)**2 = -ln(delta alpha)``, once.
        """
        return _zcdp_epsilon(self.rho, delta)

    def pure(self, share: Fraction = Fraction(1)) -> Fraction:
        """Return the largest epsilon, rounded down, of a mechanism without a delta that may have this share of it."""
        return _zcdp_pure(self.rho * share)

    def allows(self, epsilon: Fraction, times: int = 1) -> bool:
        """Whether so many mechanisms of this epsilon, without a delta, are proved to have this privacy together."""
        with precision(_BITS):
            return bool(times * _zcdp_cost(epsilon) <= ball(self.rho))

    def less(self, epsilons: Iterable[Fraction]) -> "Zcdp":
        """Return what mechanisms of these epsilons leave, rounded down."""
        return Zcdp(_left(self.rho, map(self.cost, epsilons)))

    @staticmethod
    def cost(epsilon: Fraction) -> Fraction:
        """Return the rho of a mechanism of this epsilon without a delta, rounded up."""
        with precision(_BITS):
            return figures_above(_zcdp_cost(epsilon), _COST_FIGURES)

    @classmethod
    def cost_in_words(cls, epsilon: Fraction) -> str:
        """State what a mechanism of this epsilon without a delta costs."""
        return f"rho {float(cls.cost(epsilon)):.9g}"

    @staticmethod
    def implied(epsilons: Iterable[Fraction]) -> "Zcdp":
        """Return what mechanisms of these epsilons have together, rounded up."""
        return Zcdp(_figures_up(sum(map(Zcdp.cost, epsilons), Fraction(0)), _FIGURES))

    def __str__(self) -> str:
        return f"zCDP with rho {text(self.rho)}"


@dataclass(frozen=True)
class Gdp:
    """Gaussian differential privacy.

    >>> gdp = Gdp("0.5")
    >>> float(gdp.epsilon(Fraction("1e-6"))), float(gdp.pure())
    (2.25408466, 0.400077689)
    """

    mu: Fraction
    name: ClassVar[str] = "gdp"
    symbol: ClassVar[str] = "mu"

    def __init__(self, mu: Number) -> None:
        object.__setattr__(self, "mu", _positive(mu, "mu"))

    @property
    def value(self) -> Fraction:
        """The parameter: mu."""
        return self.mu

    @property
    def variance(self) -> Fraction:
        """The variance of Gaussian noise that has this privacy, on a number that changes by one."""
        return 1 / self.mu**2

    def epsilon(self, delta: Fraction) -> Fraction:
        """Return the smallest epsilon at this delta, rounded up.

        ``delta = Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu)`` (Balle and Wang, 2018).
        """
        return _gdp_epsilon(self.mu, delta)

    def pure(self, share: Fraction = Fraction(1)) -> Fraction:
        """Return the largest epsilon, rounded down, of a mechanism without a delta that may have this share of mu**2.

        ``epsilon = ln(Phi(mu / 2) / Phi(-mu / 2))``
        """
        with precision(_BITS):
            half = ball(self.mu**2 * share).sqrt() / 2
            bound = (_normal(half) / _normal(-half)).log()
            return figures_below(Fraction(floor(bound, _BITS), 1 << _BITS), _FIGURES)

    def allows(self, epsilon: Fraction, times: int = 1) -> bool:
        """Whether so many mechanisms of this epsilon, without a delta, are proved to have this privacy together."""
        with precision(_BITS):
            return _covers(ball(self.mu**2 / times).sqrt(), epsilon)

    def less(self, epsilons: Iterable[Fraction]) -> "Gdp":
        """Return what mechanisms of these epsilons leave, rounded down."""
        costs = [self.cost(epsilon) for epsilon in epsilons]
        return Gdp(_root_below(_left(self.mu**2, costs))) if costs else self

    @staticmethod
    def cost(epsilon: Fraction) -> Fraction:
        """Return the mu**2 of a mechanism of this epsilon without a delta, rounded up."""
        return _gdp_cost(epsilon)

    @classmethod
    def cost_in_words(cls, epsilon: Fraction) -> str:
        """State what a mechanism of this epsilon without a delta costs."""
        return f"mu**2 {float(cls.cost(epsilon)):.9g}"

    @staticmethod
    def implied(epsilons: Iterable[Fraction]) -> "Gdp":
        """Return what mechanisms of these epsilons have together, rounded up."""
        with precision(_BITS):
            return Gdp(figures_above(ball(sum(map(_gdp_cost, epsilons), Fraction(0))).sqrt(), _FIGURES))

    def __str__(self) -> str:
        return f"GDP with mu {text(self.mu)}"


Definition: TypeAlias = Zcdp | Gdp
DEFINITIONS: dict[str, type[Zcdp] | type[Gdp]] = {definition.name: definition for definition in (Zcdp, Gdp)}


@lru_cache(maxsize=256)
def _zcdp_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
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
        epsilon = slope * alpha + (1 - 1 / alpha).log() - (at_most * alpha).log() / (alpha - 1)
        return max(figures_above(epsilon, _FIGURES), LEAST_EPSILON)


@lru_cache(maxsize=256)
def _zcdp_pure(rho: Fraction) -> Fraction:
    with precision(_BITS):
        most = ball(rho)
        return _largest(lambda epsilon: bool(_zcdp_cost(epsilon) <= most), Fraction(math.sqrt(2 * rho)))


def _zcdp_cost(epsilon: Fraction) -> arb:
    return ball(epsilon) * (ball(epsilon) / 2).tanh()


@lru_cache(maxsize=256)
def _gdp_epsilon(mu: Fraction, delta: Fraction) -> Fraction:
    with precision(_BITS):
        deviation, most = ball(mu), ball(delta)

        def enough(epsilon: Fraction) -> bool:
            ratio = ball(epsilon) / deviation
            likely, unlikely = _normal(deviation / 2 - ratio), _normal(-deviation / 2 - ratio)
            return bool(likely - ball(epsilon).exp() * unlikely <= most)

        return _smallest(enough, mu**2 / 2 + mu * Fraction(math.sqrt(-2 * math.log(delta))), _FIGURES)


@lru_cache(maxsize=256)
def _gdp_cost(epsilon: Fraction) -> Fraction:
    with precision(_BITS):
        mu = _smallest(lambda mu: _covers(ball(mu), epsilon), min(epsilon, Fraction(3)) * 2, _COST_FIGURES)
    return _figures_up(mu**2, _COST_FIGURES)


def _covers(mu: arb, epsilon: Fraction) -> bool:
    """Whether GDP of mu allows every mechanism of this epsilon: Phi(-mu / 2) is at most 1 / (1 + exp(epsilon))."""
    return bool(_normal(-mu / 2) * (1 + ball(epsilon).exp()) <= 1)


def _normal(x: arb) -> arb:
    """Phi(x), with a small relative error also where it is small."""
    return (-x / arb(2).sqrt()).erfc() / 2


def _smallest(holds: Callable[[Fraction], bool], guess: Fraction, figures: int) -> Fraction:
    """The smallest number of so many figures from which on a statement is proved; at least `LEAST_EPSILON`."""
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
        low, high = (low, middle) if holds(middle) else (middle, high)
    number = _figures_up(low, figures)
    while not holds(number):
        number += _unit(number, figures)
    return max(number, LEAST_EPSILON)


def _largest(holds: Callable[[Fraction], bool], guess: Fraction) -> Fraction:
    """The largest number of few figures up to which a statement is proved."""
    low = guess
    while not holds(low):
        low /= 2
    high = 2 * low
    while holds(high):
        low, high = high, 2 * high
    while (high - low) * 10 ** (_FIGURES + 2) > low:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    number = figures_below(high, _FIGURES)
    while not holds(number):
        number -= _unit(number, _FIGURES)
    return number


def _left(amount: Fraction, costs: Iterable[Fraction]) -> Fraction:
    """What costs leave, rounded down."""
    spent = sum(costs, Fraction(0))
    if spent >= amount:
        raise InvalidValue("totals must leave some of the privacy for the keys", "none", "choose smaller shares")
    return figures_below(amount - spent, _FIGURES) if spent else amount


def _root_below(square: Fraction) -> Fraction:
    """The root, rounded down."""
    scale = 10**60
    return figures_below(Fraction(math.isqrt(int(square * scale**2)), scale), _FIGURES)


def _figures_up(value: Fraction, figures: int) -> Fraction:
    unit = _unit(value, figures)
    return -(-value // unit) * unit


def _unit(value: Fraction, figures: int) -> Fraction:
    return Fraction(10) ** (math.floor(math.log10(value)) - figures + 1)


def _positive(value: Any, name: str) -> Fraction:
    number = exact(value, name)
    if not _LEAST <= number <= _MOST:
        raise InvalidValue(
            f"{name} must be from {text(_LEAST)} to {text(_MOST)}",
            text(number),
            "choose one such as 0.1; smaller is more private",
        )
    return number
