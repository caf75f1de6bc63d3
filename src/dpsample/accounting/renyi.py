"""Rényi divergence: privacy as a curve over a fixed list of orders.

D_alpha(P || Q) = ln(sum P**alpha Q**(1 - alpha)) / (alpha - 1), in the worse direction of two neighbouring datasets.
Divergences of one order add up over mechanisms, whichever was chosen after looking at the others. All numbers are upper
bounds, computed in ball arithmetic and rounded up. A part delta is set aside: with at most that probability the
mechanism may do anything (docs/theory.md, section 8).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dpsample.balls import ball, figures_above, precision
from dpsample.definitions import added_by_conversion
from dpsample.errors import InvalidValue
from dpsample.exact import exact, text
from dpsample.lazy import flint
from dpsample.privacy import Privacy

if TYPE_CHECKING:
    from flint import arb

# Orders from 5/4 to 1024, about geometric: the epsilon of large and of small budgets is reached near one of them.
# Ledgers state divergences at these orders, so they can never be changed.
_SHOWN_ORDERS = (2, 8, 32, 128)  # in print
_QUARTERS = (5, 6, 7, 8, 10, 12, 14)
_SMALL_ORDERS = (4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96)
_WHOLE_ORDERS = (*_SMALL_ORDERS, 128, 192, 256, 384, 512, 1024)
ORDERS: tuple[Fraction, ...] = (
    *(Fraction(quarters, 4) for quarters in _QUARTERS),
    *map(Fraction, _WHOLE_ORDERS),
)


@dataclass(frozen=True)
class RenyiCurve:
    """Upper bounds of the Rényi divergence at `ORDERS`, outside of events of probability `delta`.

    >>> daily = RenyiCurve.of_privacy(Privacy("0.1", "1e-9"))
    >>> hundred = daily * 100
    >>> hundred.delta, float(hundred.epsilon(Fraction("1e-6")))
    (Fraction(1, 10000000), 5.10227408)
    """

    delta: Fraction
    divergences: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        has_all_orders = len(self.divergences) == len(ORDERS)
        if not has_all_orders or self.delta < 0 or min(self.divergences) < 0:
            raise InvalidValue(
                f"a Rényi curve must have a delta and {len(ORDERS)} divergences, none of them negative",
                "get it again from where it was written",
            )

    @classmethod
    def of_privacy(cls, privacy: Privacy) -> "RenyiCurve":
        """Return a curve that bounds every mechanism of this privacy.

        No mechanism of an epsilon and a delta diverges more than randomized response, and none of a zCDP or GDP budget
        more than Gaussian noise. So such budgets add up without loss.
        """
        if privacy.definition is not None:
            return cls.of_gaussian(1 / privacy.definition.variance, privacy.aside)
        return _of_privacy(privacy.epsilon, privacy.delta)

    @classmethod
    def of_epsilon(cls, epsilon: Fraction, delta: Fraction = Fraction(0)) -> "RenyiCurve":
        """Return a curve that bounds every mechanism of this epsilon and delta, which may be 0."""
        return _of_privacy(epsilon, delta)

    @classmethod
    def of_gaussian(cls, square: Fraction, delta: Fraction = Fraction(0)) -> "RenyiCurve":
        """Return the curve of Gaussian noise: at order alpha it diverges by ``alpha mu**2 / 2``.

        `square` is mu**2, where mu is the sensitivity divided by the standard deviation.
        """
        return cls(delta, tuple(order * square / 2 for order in ORDERS))

    @classmethod
    def of_atoms(
        cls, atoms: "Sequence[tuple[arb, arb]]", delta: Fraction = Fraction(0)
    ) -> "RenyiCurve":
        """Return the curve of a pair of laws; each atom is an outcome's probabilities under both, which are positive.

        `delta` is the probability of all outcomes that only one of the laws has.
        """
        with precision():
            logs = [(p.log(), q.log()) for p, q in atoms]
            divergences = [_divergence(logs, order) for order in ORDERS]
            return cls(delta, tuple(map(figures_above, divergences)))

    @classmethod
    def of_shifted(cls, atoms: "Sequence[tuple[arb, arb]]", end: Fraction) -> "RenyiCurve":
        """Return the curve of a bounded law and its shift by one.

        Each of the two has one outcome, an end of probability `end`, that the other does not have. It is set aside in
        delta, and `atoms` are the probabilities of the outcomes that both have.
        """
        with precision():
            rest = 1 - ball(end)
            conditional = [(p / rest, q / rest) for p, q in atoms]
            return cls.of_atoms(conditional, end)

    @classmethod
    def of_order(
        cls, order: Fraction, divergence: Fraction, otherwise: "RenyiCurve"
    ) -> "RenyiCurve":
        """Return the curve of a mechanism with this divergence at one order, which has the curve `otherwise` too.

        Divergences do not decrease with the order, so the one divergence is a bound at all smaller orders.
        """
        divergences = list(otherwise.divergences)
        for n, smaller in enumerate(ORDERS):
            if smaller <= order:
                divergences[n] = min(divergences[n], divergence)
        return cls(otherwise.delta, tuple(divergences))

    @classmethod
    def none(cls) -> "RenyiCurve":
        """Return the curve of a mechanism that reveals nothing."""
        return cls(Fraction(0), (Fraction(0),) * len(ORDERS))

    def __add__(self, other: "RenyiCurve") -> "RenyiCurve":
        """Return the curve of two mechanisms together."""
        pairs = zip(self.divergences, other.divergences, strict=True)
        divergences = tuple(one + another for one, another in pairs)
        return RenyiCurve(self.delta + other.delta, divergences)

    def __mul__(self, times: int) -> "RenyiCurve":
        """Return the curve of a mechanism that is run `times` times."""
        divergences = tuple(times * divergence for divergence in self.divergences)
        return RenyiCurve(times * self.delta, divergences)

    def epsilon(self, delta: Fraction) -> Fraction:
        """Return the smallest epsilon that this curve proves at a delta, at the best order, rounded up.

        ``epsilon = D + ln(1 - 1/alpha) - (ln(delta) + ln(alpha)) / (alpha - 1)`` (Canonne, Kamath and Steinke, 2020),
        where D is the divergence at order alpha.
        """
        return self._best(delta)[0]

    def best_order(self, delta: Fraction) -> Fraction:
        """Return the order at which `epsilon` is reached."""
        return self._best(delta)[1]

    def _best(self, delta: Fraction) -> tuple[Fraction, Fraction]:
        """Return the smallest epsilon at a delta, and the order at which it is reached."""
        left = delta - self.delta
        if left <= 0:
            raise InvalidValue(
                f"delta must be above {text(self.delta)}, which is set aside, not {text(delta)}",
                "choose a larger delta",
            )
        epsilons = []
        for order, divergence in zip(ORDERS, self.divergences, strict=True):
            epsilon = divergence + conversion(order, left)
            epsilons.append((epsilon, order))
        return min(epsilons)

    def __str__(self) -> str:
        by_order = dict(zip(ORDERS, self.divergences, strict=True))
        shown = []
        for order in _SHOWN_ORDERS:
            divergence = float(by_order[Fraction(order)])
            shown.append(f"{divergence:.4g} at order {order}")
        divergences = ", ".join(shown)
        return f"Rényi divergence at most {divergences}; delta {float(self.delta):.4g} is set aside"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: decimals that are exact as they stand."""
        orders = map(text, ORDERS)
        divergences = map(text, self.divergences)
        return {
            "delta": text(self.delta),
            "orders": dict(zip(orders, divergences, strict=True)),
        }

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "RenyiCurve":
        """Read the JSON form back."""
        divergences = {}
        for order, divergence in form["orders"].items():
            divergences[exact(order, "an order")] = exact(divergence, "a divergence")
        if set(divergences) != set(ORDERS):
            raise InvalidValue(
                "a Rényi curve must have the orders that this version of dpsample uses",
                "upgrade dpsample",
            )
        in_order = tuple(divergences[order] for order in ORDERS)
        return cls(exact(form["delta"], "delta"), in_order)


@lru_cache(maxsize=1024)
def conversion(order: Fraction, delta: Fraction) -> Fraction:
    """Return the number that turns a divergence of this order into an epsilon at this delta, rounded up.

    It may be negative. `figures_above` rounds positive numbers, so 64 is added before and subtracted afterwards.
    """
    with precision():
        added = added_by_conversion(ball(order), ball(delta))
        if added < 0:
            return figures_above(added + 64, 18) - 64
        return figures_above(added)


@lru_cache(maxsize=256)
def _of_privacy(epsilon: Fraction, delta: Fraction) -> RenyiCurve:
    """Return the curve of randomized response, which tells the truth with probability ``1 / (1 + exp(-epsilon))``."""
    with precision():
        likely = 1 / (1 + (-ball(epsilon)).exp())
        unlikely = 1 / (1 + ball(epsilon).exp())  # 1 - likely has no digits where epsilon is large
        return RenyiCurve.of_atoms([(likely, unlikely), (unlikely, likely)], delta)


def _divergence(logs: "Iterable[tuple[arb, arb]]", order: Fraction) -> "arb":
    """Return the larger Rényi divergence of both directions; `logs` are logarithms of probabilities under both laws."""
    alpha = ball(order)
    there = flint.arb(0)
    back = flint.arb(0)
    for p, q in logs:
        there += (alpha * p + (1 - alpha) * q).exp()
        back += (alpha * q + (1 - alpha) * p).exp()
    larger = there if there.upper() > back.upper() else back
    return larger.log() / (alpha - 1)
