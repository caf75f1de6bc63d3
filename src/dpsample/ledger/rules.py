"""Rules: what the releases of a dataset, or of one part of it, may spend together.

    basic composition     the sums of all epsilons and of all deltas
    optimal composition   a number of releases, if the most that each may spend was fixed before anything was seen
    Rényi composition     the sum of all curves, within the budget of at least one order (`filters`)

Which rule counts follows from the first line of a ledger alone: one that is chosen later might be chosen by what was
seen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dpsample.accounting.composition import composed_delta, largest_count
from dpsample.accounting.renyi import RenyiCurve
from dpsample.errors import BudgetSpent, InvalidValue
from dpsample.exact import text
from dpsample.ledger.charges import Charge, amount
from dpsample.ledger.filters import RenyiBudget
from dpsample.privacy import Privacy

_SPEND_LESS = "spend less, or do without this release"
# A proved epsilon is stated in thousandths of the budget's: three figures are enough for people.
_EPSILON_STEPS = 1000


@dataclass(frozen=True)
class Rule:
    """A budget, and how releases count against it. `charges` are always those that are spent.

    each     the most that a single release may spend, if that is stated
    account  the budget at each order, if the ledger counts Rényi divergences
    """

    budget: Privacy
    each: Privacy | None = None
    account: RenyiBudget | None = None

    @property
    def releases(self) -> int | None:
        """The number of releases that are allowed; None if their sums or their curves count instead."""
        if self.each is None:
            return None
        return _releases(self.each, self.budget)

    def spent(self, charges: Sequence[Charge]) -> tuple[Fraction, Fraction, str]:
        """Return epsilon and delta that are spent, and the name of the rule by which they add up."""
        if self.account is not None:
            if not charges:
                return Fraction(0), Fraction(0), "Rényi composition"
            epsilon = self.account.epsilon(curve_of(charges))
            return epsilon, self.budget.delta, "Rényi composition"
        epsilon, delta = sums(charges)
        if self.each is not None and self.releases is not None and charges:
            composed = _composed_epsilon(self.each, len(charges), self.budget)
            if composed < epsilon or delta > self.budget.delta:
                return composed, self.budget.delta, "optimal composition"
        return epsilon, delta, "basic composition"

    def share(self, charges: Sequence[Charge]) -> Fraction:
        """Return the share of the budget that is spent, by which parts are compared."""
        if self.account is not None:
            return self.account.share(curve_of(charges))
        if self.releases is not None:
            return Fraction(len(charges), self.releases)
        epsilon, delta = sums(charges)
        return max(epsilon / self.budget.epsilon, delta / self.budget.delta)

    def require(self, dataset: str, charges: Sequence[Charge], charge: Charge) -> None:
        """Refuse a release with this charge if the budget does not allow it after the others."""
        self._require_small(dataset, charge)
        if self.account is not None:
            self._require_divergence(self.account, dataset, charges, charge)
        elif self.releases is not None:
            self._require_number(self.releases, dataset, charges)
        else:
            self._require_sums(dataset, charges, charge)

    def _require_small(self, dataset: str, charge: Charge) -> None:
        """Refuse a release that spends more than any single one may."""
        if self.each is None:
            return
        privacy = charge.privacy
        is_small = privacy.epsilon <= self.each.epsilon and privacy.delta <= self.each.delta
        if not is_small:
            raise InvalidValue(
                f"a release of {dataset} may spend {_amount_of(self.each)} at most, not {_amount_of(privacy)}",
                "spend less",
            )

    def _require_number(self, releases: int, dataset: str, charges: Sequence[Charge]) -> None:
        if len(charges) >= releases:
            raise BudgetSpent(
                f"{self._together(dataset)}, which is {releases} releases; {len(charges)} are spent already",
                _SPEND_LESS,
            )

    def _require_sums(self, dataset: str, charges: Sequence[Charge], charge: Charge) -> None:
        epsilon, delta = sums(charges)
        privacy = charge.privacy
        is_allowed = (
            epsilon + privacy.epsilon <= self.budget.epsilon
            and delta + privacy.delta <= self.budget.delta
        )
        if not is_allowed:
            raise BudgetSpent(
                f"{self._together(dataset)}; {amount(epsilon, delta)} is spent already, and this release would spend "
                f"{_amount_of(privacy)}",
                _SPEND_LESS,
            )

    def _require_divergence(
        self, account: RenyiBudget, dataset: str, charges: Sequence[Charge], charge: Charge
    ) -> None:
        before = curve_of(charges)
        curve = curve_of([charge])
        if account.allows(before + curve):
            return
        if before.delta + curve.delta > account.aside:
            raise BudgetSpent(
                f"the deltas of the releases of {dataset} may add up to {text(account.aside)}, which is set aside; "
                f"{text(before.delta)} is spent already, and this release would spend {text(curve.delta)}",
                "choose a smaller delta; a new ledger may set more aside with `aside`",
            )
        raise BudgetSpent(
            f"{self._together(dataset)}, by Rényi divergences; no order has room for {_amount_of(charge.privacy)} more",
            _SPEND_LESS,
        )

    def _together(self, dataset: str) -> str:
        return f"the releases of {dataset} may spend {_amount_of(self.budget)} together"

    def left(self, charges: Sequence[Charge]) -> str:
        """Return the epsilon and delta that are left, or the number of releases, in words."""
        if self.releases is not None:
            return f"{self.releases - len(charges)} releases"
        epsilon, delta, _ = self.spent(charges)
        return amount(self.budget.epsilon - epsilon, self.budget.delta - delta)

    def more(self, charges: Sequence[Charge], charge: Charge) -> int | None:
        """Return the number of further releases of this cost that a Rényi ledger allows; None if it costs nothing."""
        assert self.account is not None
        return self.account.more(curve_of(charges), curve_of([charge]))


def sums(charges: Iterable[Charge]) -> tuple[Fraction, Fraction]:
    """Return the sums of all epsilons and of all deltas."""
    epsilon = Fraction(0)
    delta = Fraction(0)
    for charge in charges:
        epsilon += charge.privacy.epsilon
        delta += charge.privacy.delta
    return epsilon, delta


def curve_of(charges: Iterable[Charge]) -> RenyiCurve:
    """Return the sum of all curves; a release without one counts as the worst mechanism of its privacy."""
    curves = (charge.curve or RenyiCurve.of_privacy(charge.privacy) for charge in charges)
    return sum(curves, RenyiCurve.none())


def more_in_words(more: int | None) -> str:
    """Return the number of further releases like the last one, in words; None stands for any number.

    >>> more_in_words(40), more_in_words(0)
    ('about 40 more releases like the last', 'none like the last')
    """
    if more is None:
        return "any number of releases like the last"
    if not more:
        return "none like the last"
    plural = "" if more == 1 else "s"
    return f"about {more:,} more release{plural} like the last"


@lru_cache(maxsize=64)
def _releases(each: Privacy, budget: Privacy) -> int | None:
    """Return the number of releases by the optimal composition theorem; None if sums allow as many."""
    by_epsilon = int(budget.epsilon / each.epsilon)
    by_delta = int(budget.delta / each.delta)
    by_theorem = largest_count(each, budget)
    return by_theorem if by_theorem > min(by_epsilon, by_delta) else None


def _composed_epsilon(each: Privacy, releases: int, budget: Privacy) -> Fraction:
    """Return the smallest epsilon proved for this number of releases together, with all of the budget's delta.

    It is a number of thousandths of the budget's epsilon.
    """
    low = 0
    high = _EPSILON_STEPS
    while high - low > 1:
        middle = (low + high) // 2
        epsilon = budget.epsilon * middle / _EPSILON_STEPS
        if composed_delta(each, releases, epsilon) <= budget.delta:
            high = middle
        else:
            low = middle
    return budget.epsilon * high / _EPSILON_STEPS


def _amount_of(privacy: Privacy) -> str:
    return amount(privacy.epsilon, privacy.delta)
