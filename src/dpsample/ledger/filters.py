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

# The default share of delta for the deltas of the releases.
ASIDE = Fraction(1, 10)
# The share of the rest for the order that is best for many small releases. Measured against the best single order, for
# budgets of epsilon 1 to 10: 9/10 allows 0.6 to 0.9 % fewer small releases, 3/4 2 %, 1/2 4 to 6 %. Large releases,
# which need other orders, lose 0.02 of epsilon in each case.
_CENTRE = Fraction(9, 10)
# The quotient of the shares of an order and of the next one that is nearer to the best. 2/3 and 3/4 change nothing.
_DECAY = Fraction(1, 2)
# Figures of divergences and deltas, rounded down so that files state short numbers.
_FIGURES = 9


@dataclass(frozen=True)
class Limit:
    """The largest divergence of all releases together at one order, and the delta that turns it into an epsilon."""

    order: Fraction
    delta: Fraction
    divergence: Fraction

    def of(self, curve: RenyiCurve) -> Fraction:
        """Return the divergence of a curve at this order."""
        return curve.divergences[ORDERS.index(self.order)]

    def epsilon(self, curve: RenyiCurve) -> Fraction:
        """Return the epsilon that the curve proves at this order, with the delta of this limit."""
        return self.of(curve) + conversion(self.order, self.delta)


@dataclass(frozen=True)
class RenyiBudget:
    """A limit at each order, fixed before anything is released; `aside` is for the deltas of the releases.

    >>> budget = RenyiBudget.of(Privacy(2, "1e-6"))
    >>> daily = RenyiCurve.of_privacy(Privacy("0.05", "1e-10"))
    >>> budget.allows(daily * 70), budget.allows(daily * 80), budget.more(daily * 70, daily)
    (True, False, 2)
    """

    aside: Fraction
    limits: tuple[Limit, ...]

    @classmethod
    def of(cls, privacy: Privacy, share: Number = ASIDE) -> "RenyiBudget":
        """Return the limits that prove this privacy, with a share of delta set aside.

        Most of the rest of delta is for the order that is best for many small releases, and each other order has a
        part.
        """
        aside = exact(share, "the share of delta that is set aside")
        if not 0 <= aside < 1:
            raise InvalidValue(
                f"the share of delta that is set aside must be at least 0 and below 1, not {text(aside)}",
                "choose one such as 0.1",
            )
        return _divided(privacy.epsilon, privacy.delta, aside)

    def check(self, privacy: Privacy) -> None:
        """Refuse limits that do not prove this privacy."""
        if not self._proves(privacy):
            raise InvalidValue(
                "the limits of all orders do not prove the budget of this ledger", "restore a copy"
            )

    def _proves(self, privacy: Privacy) -> bool:
        """Whether the deltas add up to that of the privacy at most, and each limit implies its epsilon."""
        orders = [limit.order for limit in self.limits]
        deltas = [limit.delta for limit in self.limits]
        if not orders or not set(orders) <= set(ORDERS) or len(set(orders)) < len(orders):
            return False
        if self.aside < 0 or min(deltas) <= 0 or self.aside + sum(deltas) > privacy.delta:
            return False
        epsilons = [
            limit.divergence + conversion(limit.order, limit.delta) for limit in self.limits
        ]
        return max(epsilons) <= privacy.epsilon

    def allows(self, total: RenyiCurve) -> bool:
        """Whether releases that have this curve together stay within the limit of at least one order."""
        within_a_limit = any(limit.of(total) <= limit.divergence for limit in self.limits)
        return total.delta <= self.aside and within_a_limit

    def epsilon(self, total: RenyiCurve) -> Fraction:
        """Return the epsilon of releases that have this curve together, with all of delta, at the best order."""
        return min(limit.epsilon(total) for limit in self.limits)

    def share(self, total: RenyiCurve) -> Fraction:
        """Return the share that is spent: of the divergence at the best order, or of the delta that is set aside."""
        of_divergence = min(limit.of(total) / limit.divergence for limit in self.limits)
        if not self.aside or not total.delta:
            return max(of_divergence, Fraction(0))
        return max(of_divergence, total.delta / self.aside)

    def more(self, total: RenyiCurve, curve: RenyiCurve) -> int | None:
        """Return how often a curve can be added to the total; None if it costs nothing."""
        if not self.allows(total):
            return 0
        by_divergence = self._more_by_divergence(total, curve)
        if not curve.delta:
            return by_divergence
        by_delta = int((self.aside - total.delta) / curve.delta)
        return by_delta if by_divergence is None else min(by_divergence, by_delta)

    def _more_by_divergence(self, total: RenyiCurve, curve: RenyiCurve) -> int | None:
        """Return how often a curve can be added at the order that allows most; None if its divergence there is 0."""
        most = 0
        for limit in self.limits:
            left = limit.divergence - limit.of(total)
            if left < 0:
                continue
            if not limit.of(curve):
                return None
            most = max(most, int(left / limit.of(curve)))
        return most

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: decimals that are exact as they stand."""
        orders = {}
        for limit in self.limits:
            order = text(limit.order)
            orders[order] = {"delta": text(limit.delta), "divergence": text(limit.divergence)}
        return {"kind": "renyi", "aside": text(self.aside), "orders": orders}

    @classmethod
    def from_json(cls, form: Mapping[str, Any], privacy: Privacy) -> "RenyiBudget":
        """Read the JSON form back, and check that it proves this privacy."""
        if form["kind"] != "renyi":
            raise InvalidValue(
                "this version of dpsample knows no ledger that counts in this way",
                "upgrade dpsample",
            )
        limits = []
        for order, stated in form["orders"].items():
            delta = exact(stated["delta"], "delta")
            divergence = exact(stated["divergence"], "a divergence")
            limits.append(Limit(exact(order, "an order"), delta, divergence))
        ordered = sorted(limits, key=lambda limit: limit.order)  # canonical JSON sorts them as text
        budget = cls(exact(form["aside"], "aside"), tuple(ordered))
        budget.check(privacy)
        return budget


@lru_cache(maxsize=64)
def _divided(epsilon: Fraction, delta: Fraction, share: Fraction) -> RenyiBudget:
    """Divide delta among the orders: a part for the best one, and half as much with each order farther off.

    The divergences of small releases are about proportional to the order. So the best order for many of them is the one
    with the largest quotient of the limit and the order.
    """
    aside = delta * share
    left = delta - aside

    def releases_allowed(place: int) -> Fraction:
        """Return a number that is proportional to the number of small releases that this order allows."""
        limit = epsilon - conversion(ORDERS[place], left * _CENTRE)
        return limit / ORDERS[place]

    best = max(range(len(ORDERS)), key=releases_allowed)
    distances = [abs(place - best) for place in range(len(ORDERS))]
    others = sum(_DECAY**distance for distance in distances if distance)
    limits = []
    for order, distance in zip(ORDERS, distances, strict=True):
        part = _CENTRE
        if distance:
            part = (1 - _CENTRE) * _DECAY**distance / others
        own_delta = figures_below(left * part, _FIGURES)
        divergence = epsilon - conversion(order, own_delta)
        if divergence > 0:
            limits.append(Limit(order, own_delta, figures_below(divergence, _FIGURES)))
    if not limits:
        raise InvalidValue(
            f"a Rényi ledger of epsilon {text(epsilon)} and delta {text(delta)} could allow no release at all",
            "choose a larger epsilon, or leave `account` out",
        )
    return RenyiBudget(aside, tuple(limits))
