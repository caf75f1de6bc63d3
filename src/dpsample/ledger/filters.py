"""The budget of a Rényi ledger: how much divergence all releases may have together, at each order.

A release is allowed while at least one order stays within its budget. Which one that is depends on what is released,
and so on what was seen. Therefore delta is divided over the orders when the ledger is begun:

    delta = aside + sum of delta_alpha        budget_alpha = epsilon - conversion(alpha, delta_alpha)

`aside` is what the deltas of the curves may add up to. Whatever is chosen after looking at earlier releases, all of
them together are (epsilon, delta)-private (docs/theory.md, section 8).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpsample.accounting.renyi import ORDERS, RenyiCurve, conversion
from dpsample.errors import InvalidValue
from dpsample.exact import Number, exact, figures_below, text
from dpsample.privacy import Privacy

ASIDE = Fraction(1, 10)  # of delta, unless the ledger says otherwise
# of the rest, for the order that is best for many small releases. Measured against the best single order, for budgets
# of epsilon 1 to 10: 9/10 allows 0.6 to 0.9 % fewer small releases, 3/4 2 %, 1/2 4 to 6 %. Large releases, which need
# other orders, lose 0.02 of epsilon in each case
_CENTRE = Fraction(9, 10)
_DECAY = Fraction(
    1, 2
)  # from each order to the next one that is farther off; 2/3 and 3/4 change nothing
_FIGURES = 9


@dataclass(frozen=True)
class Limit:
    """What all releases may have together at one order: a divergence, and the delta by which it is converted."""

    order: Fraction
    delta: Fraction
    divergence: Fraction

    def of(self, curve: RenyiCurve) -> Fraction:
        """Return the divergence of a curve at this order."""
        return curve.divergences[ORDERS.index(self.order)]

    def epsilon(self, curve: RenyiCurve) -> Fraction:
        """Return the epsilon that follows, at this order and by its delta."""
        return self.of(curve) + conversion(self.order, self.delta)


@dataclass(frozen=True)
class RenyiBudget:
    """A budget at each order, fixed before anything is released.

    >>> budget = RenyiBudget.of(Privacy(2, "1e-6"))
    >>> daily = RenyiCurve.of_privacy(Privacy("0.05", "1e-10"))
    >>> budget.allows(daily * 70), budget.allows(daily * 80), budget.more(daily * 70, daily)
    (True, False, 2)
    """

    aside: Fraction
    limits: tuple[Limit, ...]

    @classmethod
    def of(cls, privacy: Privacy, share: Number = ASIDE) -> "RenyiBudget":
        """Divide delta: a share is set aside, most of the rest is for one order, and each other one has a part.

        The one order is the best for many small releases, whose divergences are about proportional to the order.
        """
        share = exact(share, "the share of delta that is set aside")
        if not 0 <= share < 1:
            raise InvalidValue(
                "the share of delta that is set aside is at least 0 and below 1",
                text(share),
                "choose one such as 0.1",
            )
        return _divided(privacy.epsilon, privacy.delta, share)

    def check(self, privacy: Privacy) -> None:
        """Refuse budgets that do not prove this privacy."""
        orders = [limit.order for limit in self.limits]
        proved = (
            self.limits
            and set(orders) <= set(ORDERS)
            and len(set(orders)) == len(orders)
            and self.aside >= 0
            and min(limit.delta for limit in self.limits) > 0
            and self.aside + sum(limit.delta for limit in self.limits) <= privacy.delta
            and all(
                limit.divergence + conversion(limit.order, limit.delta) <= privacy.epsilon
                for limit in self.limits
            )
        )
        if not proved:
            raise InvalidValue(
                "the budgets of all orders must prove the budget of the ledger",
                "that they do not",
                "restore a copy",
            )

    def allows(self, total: RenyiCurve) -> bool:
        """Whether all releases together, of this curve, stay within the budget."""
        return total.delta <= self.aside and any(
            limit.of(total) <= limit.divergence for limit in self.limits
        )

    def epsilon(self, total: RenyiCurve) -> Fraction:
        """Return the epsilon that releases of this curve have together, at all of delta, by the best order."""
        return min(limit.epsilon(total) for limit in self.limits)

    def share(self, total: RenyiCurve) -> Fraction:
        """Return which share of the budget is spent, at the order where it is the smallest."""
        spent = min(limit.of(total) / limit.divergence for limit in self.limits)
        return (
            max(spent, total.delta / self.aside if total.delta else Fraction(0))
            if self.aside
            else spent
        )

    def more(self, total: RenyiCurve, curve: RenyiCurve) -> int | None:
        """Return how often a curve can be added; None if it costs nothing."""
        if not self.allows(total):
            return 0
        times = [
            int((limit.divergence - limit.of(total)) / limit.of(curve)) if limit.of(curve) else None
            for limit in self.limits
            if limit.of(total) <= limit.divergence
        ]
        most = None if None in times else max(filter(None, times), default=0)
        if not curve.delta:
            return most
        by_delta = int((self.aside - total.delta) / curve.delta)
        return by_delta if most is None else min(most, by_delta)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: decimals that are exact as they stand."""
        return {
            "kind": "renyi",
            "aside": text(self.aside),
            "orders": {
                text(limit.order): {
                    "delta": text(limit.delta),
                    "divergence": text(limit.divergence),
                }
                for limit in self.limits
            },
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any], privacy: Privacy) -> "RenyiBudget":
        """Read the JSON form back, and check that it proves this privacy."""
        if form["kind"] != "renyi":
            raise InvalidValue("a ledger's account is 'renyi'", "another", "upgrade dpsample")
        limits = [
            Limit(
                exact(order, "an order"),
                exact(at["delta"], "delta"),
                exact(at["divergence"], "a divergence"),
            )
            for order, at in form["orders"].items()
        ]
        ordered = sorted(limits, key=lambda limit: limit.order)  # canonical JSON sorts them as text
        budget = cls(exact(form["aside"], "aside"), tuple(ordered))
        budget.check(privacy)
        return budget


@lru_cache(maxsize=64)
def _divided(epsilon: Fraction, delta: Fraction, share: Fraction) -> RenyiBudget:
    aside = delta * share
    left = delta - aside
    # divergences of small releases are about proportional to the order
    best = max(
        range(len(ORDERS)),
        key=lambda i: (epsilon - conversion(ORDERS[i], left * _CENTRE)) / ORDERS[i],
    )
    distances = [abs(i - best) for i in range(len(ORDERS))]
    others = sum(_DECAY**distance for distance in distances if distance)
    limits = []
    for order, distance in zip(ORDERS, distances, strict=True):
        part = _CENTRE if not distance else (1 - _CENTRE) * _DECAY**distance / others
        own = figures_below(left * part, _FIGURES)
        divergence = epsilon - conversion(order, own)
        if divergence > 0:
            limits.append(Limit(order, own, figures_below(divergence, _FIGURES)))
    if not limits:
        raise InvalidValue(
            "a Rényi ledger needs an order at which something can be spent",
            f"none with epsilon {text(epsilon)} and delta {text(delta)}",
            "choose a larger epsilon, or account for epsilon",
        )
    return RenyiBudget(aside, tuple(limits))
