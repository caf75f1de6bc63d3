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
from dpsample.privacy import Privacy

if TYPE_CHECKING:
    from flint import arb

# Ledgers state divergences at these orders, so they stay as they are.
ORDERS: tuple[Fraction, ...] = (
    *(Fraction(quarters, 4) for quarters in (5, 6, 7, 8, 10, 12, 14)),
    *map(
        Fraction,
        (
            4,
            5,
            6,
            7,
            8,
            10,
            12,
            14,
            16,
            20,
            24,
            28,
            32,
            40,
            48,
            56,
            64,
            80,
            96,
            128,
            192,
            256,
            384,
            512,
            1024,
        ),
    ),
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
        if len(self.divergences) != len(ORDERS) or self.delta < 0 or min(self.divergences) < 0:
            raise InvalidValue(
                f"a Rényi curve has a delta, and a divergence at each of {len(ORDERS)} orders, none negative",
                "another form",
                "take it from where it was written",
            )

    @classmethod
    def of_privacy(cls, privacy: Privacy) -> "RenyiCurve":
        """Bound every mechanism of this privacy: none diverges more than randomized response, or Gaussian noise.

        The latter is for budgets that are stated as zCDP or GDP, which add up without loss.
        """
        if privacy.definition is not None:
            return cls.of_gaussian(1 / privacy.definition.variance, privacy.aside)
        return _of_privacy(privacy.epsilon, privacy.delta)

    @classmethod
    def of_epsilon(cls, epsilon: Fraction, delta: Fraction = Fraction(0)) -> "RenyiCurve":
        """As `of_privacy`; delta may be 0."""
        return _of_privacy(epsilon, delta)

    @classmethod
    def of_gaussian(cls, square: Fraction, delta: Fraction = Fraction(0)) -> "RenyiCurve":
        """Return the curve of Gaussian noise; `square` is mu**2, with mu the sensitivity over the deviation."""
        return cls(delta, tuple(order * square / 2 for order in ORDERS))

    @classmethod
    def of_atoms(
        cls, atoms: "Sequence[tuple[arb, arb]]", delta: Fraction = Fraction(0)
    ) -> "RenyiCurve":
        """Return the curve of a pair of laws, given as the probabilities of each outcome under both.

        Outcomes that one of them does not have are set aside in `delta`, by whoever calls this.
        """
        with precision():
            logs = [(p.log(), q.log()) for p, q in atoms]
            return cls(delta, tuple(figures_above(_divergence(logs, order)) for order in ORDERS))

    @classmethod
    def of_shifted(cls, atoms: "Sequence[tuple[arb, arb]]", end: Fraction) -> "RenyiCurve":
        """Return the curve of a bounded law and its shift: each has an end of this probability, which is set aside."""
        with precision():
            rest = 1 - ball(end)
            return cls.of_atoms([(p / rest, q / rest) for p, q in atoms], end)

    @classmethod
    def of_order(
        cls, order: Fraction, divergence: Fraction, otherwise: "RenyiCurve"
    ) -> "RenyiCurve":
        """Lower a curve by what is known at one order: divergences do not decrease with the order."""
        pairs = zip(ORDERS, otherwise.divergences, strict=True)
        return cls(
            otherwise.delta, tuple(min(d, divergence) if o <= order else d for o, d in pairs)
        )

    @classmethod
    def none(cls) -> "RenyiCurve":
        """Return the curve of what tells nothing."""
        return cls(Fraction(0), (Fraction(0),) * len(ORDERS))

    def __add__(self, other: "RenyiCurve") -> "RenyiCurve":
        pairs = zip(self.divergences, other.divergences, strict=True)
        return RenyiCurve(self.delta + other.delta, tuple(a + b for a, b in pairs))

    def __mul__(self, times: int) -> "RenyiCurve":
        return RenyiCurve(times * self.delta, tuple(times * d for d in self.divergences))

    def epsilon(self, delta: Fraction) -> Fraction:
        """Return the smallest epsilon that follows at this delta, rounded up.

        ``epsilon = D + ln(1 - 1/alpha) - (ln(delta) + ln(alpha)) / (alpha - 1)`` (Canonne, Kamath and Steinke, 2020),
        at the best order.
        """
        return self._best(delta)[0]

    def best_order(self, delta: Fraction) -> Fraction:
        """Return the order at which `epsilon` is reached."""
        return self._best(delta)[1]

    def _best(self, delta: Fraction) -> tuple[Fraction, Fraction]:
        left = delta - self.delta
        if left <= 0:
            raise InvalidValue(
                f"delta must exceed what is set aside, {text(self.delta)}",
                text(delta),
                "choose a larger delta",
            )
        return min(
            (d + conversion(order, left), order)
            for d, order in zip(self.divergences, ORDERS, strict=True)
        )

    def __str__(self) -> str:
        shown = {
            order: d
            for order, d in zip(ORDERS, self.divergences, strict=True)
            if order in (2, 8, 32, 128)
        }
        parts = ", ".join(f"{float(d):.4g} at order {text(order)}" for order, d in shown.items())
        return f"Rényi divergence at most {parts}; delta {float(self.delta):.4g} is set aside"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: decimals that are exact as they stand."""
        return {
            "delta": text(self.delta),
            "orders": {
                text(order): text(d) for order, d in zip(ORDERS, self.divergences, strict=True)
            },
        }

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "RenyiCurve":
        """Read the JSON form back."""
        orders = {
            exact(order, "an order"): exact(d, "a divergence")
            for order, d in form["orders"].items()
        }
        if set(orders) != set(ORDERS):
            raise InvalidValue(
                "a Rényi curve has the orders of this version", "others", "upgrade dpsample"
            )
        return cls(exact(form["delta"], "delta"), tuple(orders[order] for order in ORDERS))


@lru_cache(maxsize=1024)
def conversion(order: Fraction, delta: Fraction) -> Fraction:
    """Return what the conversion to (epsilon, delta) adds to a divergence of this order, rounded up."""
    with precision():
        added = added_by_conversion(ball(order), ball(delta))
        return figures_above(added + 64, 18) - 64 if added < 0 else figures_above(added)


@lru_cache(maxsize=256)
def _of_privacy(epsilon: Fraction, delta: Fraction) -> RenyiCurve:
    with precision():
        likely = 1 / (1 + (-ball(epsilon)).exp())
        unlikely = 1 / (1 + ball(epsilon).exp())  # 1 - likely has no digits where epsilon is large
        return RenyiCurve.of_atoms([(likely, unlikely), (unlikely, likely)], delta)


def _divergence(logs: "Iterable[tuple[arb, arb]]", order: Fraction) -> "arb":
    """The larger of both directions."""
    alpha = ball(order)
    there, back = ball(0), ball(0)
    for p, q in logs:
        there += (alpha * p + (1 - alpha) * q).exp()
        back += (alpha * q + (1 - alpha) * p).exp()
    larger = there if there.upper() > back.upper() else back
    return larger.log() / (alpha - 1)
