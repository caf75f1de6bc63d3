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
from dpsample.lazy import flint

if TYPE_CHECKING:
    from flint import arb

# With a smaller epsilon, the integers of a scheme hardly tell exp(epsilon) from 1.
LEAST_EPSILON = Fraction(1, 10**12)
# The range of rho and mu. Below it no scheme can be made; above it nothing is private.
_LEAST = LEAST_EPSILON
_MOST = Fraction(10**6)
# Figures of epsilon, rho and mu in terms and certificates: more than anybody reads, and still short.
_FIGURES = 9
# Figures of costs that are added up. A billion costs then have a sum that is right to `_FIGURES` figures.
_COST_FIGURES = 18
# Steps of a bisection. A hundred halvings leave an interval far smaller than `_FIGURES` figures can show.
_STEPS = 100
# Bits of ball arithmetic: far beyond `_COST_FIGURES`, so that bounds are nearly equal to the true values.
_BITS = 256


@dataclass(frozen=True)
class Definition(ABC):
    """A definition of privacy with one parameter, from which follows an amount that adds up exactly over mechanisms.

    value          the parameter: rho or mu
    name           the name in JSON
    written        the name in prose
    symbol         the name of the parameter
    amount_symbol  the name of the amount: rho or mu**2
    """

    value: Fraction
    name: ClassVar[str]
    written: ClassVar[str]
    symbol: ClassVar[str]
    amount_symbol: ClassVar[str]

    def __init__(self, value: Number) -> None:
        object.__setattr__(self, "value", _positive(value, self.symbol))

    @property
    @abstractmethod
    def amount(self) -> Fraction:
        """The amount that adds up over mechanisms: rho, or mu**2."""

    @property
    @abstractmethod
    def variance(self) -> Fraction:
        """The variance of Gaussian noise that has this privacy, on a number that changes by one."""

    @abstractmethod
    def epsilon(self, delta: Fraction) -> Fraction:
        """Return the smallest epsilon that this definition implies at a delta, rounded up."""

    @abstractmethod
    def pure(self, share: Fraction = Fraction(1)) -> Fraction:
        """Return the largest epsilon, rounded down, of a mechanism with delta = 0 that may spend this share."""

    @abstractmethod
    def allows(self, epsilon: Fraction, times: int = 1) -> bool:
        """Whether `times` mechanisms of this epsilon, each with delta = 0, are proved to satisfy this definition."""

    @staticmethod
    @abstractmethod
    def cost(epsilon: Fraction) -> Fraction:
        """Return the amount that a mechanism of this epsilon, with delta = 0, spends at most, rounded up."""

    @classmethod
    @abstractmethod
    def _of_amount_below(cls, amount: Fraction) -> Self:
        """Return the definition with this amount, its parameter rounded down."""

    @classmethod
    @abstractmethod
    def _of_amount_above(cls, amount: Fraction) -> Self:
        """Return the definition with this amount, its parameter rounded up."""

    def less(self, epsilons: Iterable[Fraction]) -> Self:
        """Return the definition that is left after mechanisms of these epsilons, each with delta = 0, rounded down."""
        spent = sum(map(self.cost, epsilons), Fraction(0))
        if not spent:
            return self
        if spent >= self.amount:
            raise InvalidValue(
                "totals must leave some of the privacy for the keys", "choose smaller shares"
            )
        left = figures_below(self.amount - spent, _FIGURES)
        return self._of_amount_below(left)

    @classmethod
    def implied(cls, epsilons: Iterable[Fraction]) -> Self:
        """Return the definition that mechanisms of these epsilons, each with delta = 0, have together, rounded up."""
        spent = sum(map(cls.cost, epsilons), Fraction(0))
        return cls._of_amount_above(spent)

    @classmethod
    def cost_in_words(cls, epsilon: Fraction) -> str:
        """Return the cost of a mechanism of this epsilon, with delta = 0, such as "rho 0.005"."""
        cost = float(cls.cost(epsilon))
        return f"{cls.amount_symbol} {cost:.9g}"

    def __str__(self) -> str:
        return f"{self.written} with {self.symbol} {text(self.value)}"


class Zcdp(Definition):
    """Zero-concentrated differential privacy.

    >>> zcdp = Zcdp("0.1")
    >>> float(zcdp.epsilon(Fraction("1e-6"))), float(zcdp.pure())
    (2.14193893, 0.450974724)
    """

    name = "zcdp"
    written = "zCDP"
    symbol = "rho"
    amount_symbol = "rho"

    @property
    def amount(self) -> Fraction:  # noqa: D102
        return self.value

    @property
    def variance(self) -> Fraction:  # noqa: D102
        return 1 / (2 * self.value)

    def epsilon(self, delta: Fraction) -> Fraction:
        """Return the smallest epsilon at this delta, by `added_by_conversion` at the best order, rounded up."""
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

    name = "gdp"
    written = "GDP"
    symbol = "mu"
    amount_symbol = "mu**2"

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
        """Return the largest epsilon, rounded down, of a mechanism with delta = 0 that may spend this share of mu**2.

        ``epsilon = ln(Phi(mu / 2) / Phi(-mu / 2))``
        """
        with precision(_BITS):
            mu = ball(self.amount * share).sqrt()
            half = mu / 2
            epsilon = (_normal(half) / _normal(-half)).log()
            lower_bound = Fraction(floor(epsilon, _BITS), 1 << _BITS)
            return figures_below(lower_bound, _FIGURES)

    def allows(self, epsilon: Fraction, times: int = 1) -> bool:  # noqa: D102
        with precision(_BITS):
            mu_of_each = ball(self.amount / times).sqrt()
            return _covers(mu_of_each, epsilon)

    @staticmethod
    def cost(epsilon: Fraction) -> Fraction:  # noqa: D102
        return _gdp_cost(epsilon)

    @classmethod
    def _of_amount_below(cls, amount: Fraction) -> "Gdp":
        scale = 10**60  # far more digits than are kept
        root = math.isqrt(int(amount * scale**2))
        mu = Fraction(root, scale)
        return cls(figures_below(mu, _FIGURES))

    @classmethod
    def _of_amount_above(cls, amount: Fraction) -> "Gdp":
        with precision(_BITS):
            return cls(figures_above(ball(amount).sqrt(), _FIGURES))


DEFINITIONS: dict[str, type[Zcdp] | type[Gdp]] = {"zcdp": Zcdp, "gdp": Gdp}


def added_by_conversion(order: "arb", delta: "arb") -> "arb":
    """Return the number that, added to a Rényi divergence of this order, is an epsilon that holds with this delta.

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
    """Return the epsilon of rho-zCDP at the best order alpha, rounded up.

    The epsilon at order alpha is ``rho alpha + added_by_conversion(alpha, delta)``. Its derivative is 0 where
    ``rho (alpha - 1)**2 + ln(delta alpha) = 0``. The left side increases with alpha, so there is one such order, which
    is found by bisection. A slightly different order gives a slightly larger epsilon, which holds as well.
    """
    with precision(_BITS):
        rho_ball = ball(rho)
        delta_ball = ball(delta)
        # the bisection is of alpha - 1, in ball arithmetic, which is the same on every machine
        low = Fraction(0)
        high = Fraction(2 * math.sqrt(-math.log(delta) / rho))
        for _ in range(_STEPS):
            middle = (low + high) / 2
            alpha = 1 + ball(middle)
            derivative_is_positive = rho_ball * ball(middle) ** 2 + (delta_ball * alpha).log() > 0
            if derivative_is_positive:
                high = middle
            else:
                low = middle
        alpha = 1 + ball(high)
        epsilon = rho_ball * alpha + added_by_conversion(alpha, delta_ball)
        return max(figures_above(epsilon, _FIGURES), LEAST_EPSILON)


@lru_cache(maxsize=256)
def _zcdp_pure(rho: Fraction) -> Fraction:
    """Return the largest epsilon of a mechanism with delta = 0 that is proved to have rho-zCDP, rounded down."""
    with precision(_BITS):
        allowed = ball(rho)

        def is_allowed(epsilon: Fraction) -> bool:
            return bool(_zcdp_cost(epsilon) <= allowed)

        for_small_epsilon = Fraction(math.sqrt(2 * rho))  # tanh(x) is about x
        return _largest(is_allowed, for_small_epsilon)


def _zcdp_cost(epsilon: Fraction) -> "arb":
    """Return ``epsilon tanh(epsilon / 2)``: the rho of the worst mechanism of this epsilon, randomized response."""
    exact_epsilon = ball(epsilon)
    return exact_epsilon * (exact_epsilon / 2).tanh()


@lru_cache(maxsize=256)
def _gdp_epsilon(mu: Fraction, delta: Fraction) -> Fraction:
    """Return the smallest epsilon at which the delta of mu-GDP is at most this one, rounded up."""
    with precision(_BITS):
        mu_ball = ball(mu)
        most_delta = ball(delta)

        def is_enough(epsilon: Fraction) -> bool:
            return bool(gaussian_delta(ball(epsilon), mu_ball) <= most_delta)

        by_chernoff = mu**2 / 2 + mu * Fraction(math.sqrt(-2 * math.log(delta)))
        return _smallest(is_enough, by_chernoff, _FIGURES)


@lru_cache(maxsize=256)
def _gdp_cost(epsilon: Fraction) -> Fraction:
    """Return the mu**2 of the smallest GDP that every mechanism of this epsilon, with delta = 0, has, rounded up."""

    def is_enough(mu: Fraction) -> bool:
        return _covers(ball(mu), epsilon)

    guess = min(epsilon, Fraction(3)) * 2
    with precision(_BITS):
        mu = _smallest(is_enough, guess, _COST_FIGURES)
    return rounded_up(mu**2, _COST_FIGURES)


def _covers(mu: "arb", epsilon: Fraction) -> bool:
    """Whether every mechanism of this epsilon, with delta = 0, is proved to have mu-GDP.

    It has if ``Phi(-mu / 2) (1 + exp(epsilon)) <= 1`` (docs/budget.md).
    """
    return bool(_normal(-mu / 2) * (1 + ball(epsilon).exp()) <= 1)


def _normal(x: "arb") -> "arb":
    """Return Phi(x), the standard normal distribution function, with a small relative error also where it is small."""
    return (-x / flint.arb(2).sqrt()).erfc() / 2


def _smallest(holds: Callable[[Fraction], bool], guess: Fraction, figures: int) -> Fraction:
    """Return the smallest number, written with `figures` figures, at which a statement is proved.

    The result is at least `LEAST_EPSILON`. If the statement holds for a number, it holds for every larger one. The
    search begins at `guess`.
    """
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
    """Return the largest number, written with `_FIGURES` figures, for which a statement is proved.

    If the statement holds for a number, it holds for every smaller one. The search begins at `guess`.
    """
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
    """Return the exact value of rho or mu, after checking its range."""
    number = exact(value, symbol)
    if not _LEAST <= number <= _MOST:
        raise InvalidValue(
            f"{symbol} must be from {text(_LEAST)} to {text(_MOST)}, not {text(number)}",
            "choose one such as 0.1; smaller is more private",
        )
    return number
