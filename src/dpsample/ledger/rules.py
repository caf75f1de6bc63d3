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


@dataclass(frozen=True)
class Rule:
    """A budget, and how releases count against it. `charges` are those that are spent."""

    budget: Privacy
    each: Privacy | None = None  # the most that a single release may spend
    account: RenyiBudget | None = None  # of a Rényi ledger

    @property
    def releases(self) -> int | None:
        """How many releases are allowed; None if it is their sums that count."""
        return None if self.each is None else _releases(self.each, self.budget)

    def spent(self, charges: Sequence[Charge]) -> tuple[Fraction, Fraction, str]:
        """Epsilon and delta that are spent, and by which rule."""
        if self.account is not None:
            epsilon = self.account.epsilon(curve_of(charges)) if charges else Fraction(0)
            return epsilon, self.budget.delta if charges else Fraction(0), "Rényi composition"
        epsilon, delta = sums(charges)
        if self.each is not None and self.releases is not None and charges:
            composed = _composed_epsilon(self.each, len(charges), self.budget)
            if composed < epsilon or delta > self.budget.delta:
                return composed, self.budget.delta, "optimal composition"
        return epsilon, delta, "basic composition"

    def share(self, charges: Sequence[Charge]) -> Fraction:
        """Return which share of the budget is spent: parts are compared by it."""
        if self.account is not None:
            return self.account.share(curve_of(charges))
        if self.releases is not None:
            return Fraction(len(charges), self.releases)
        epsilon, delta = sums(charges)
        return max(epsilon / self.budget.epsilon, delta / self.budget.delta)

    def require(self, dataset: str, charges: Sequence[Charge], charge: Charge) -> None:
        """Refuse a release that the budget does not allow after these."""
        privacy = charge.privacy
        if self.each is not None and not (
            privacy.epsilon <= self.each.epsilon and privacy.delta <= self.each.delta
        ):
            raise InvalidValue(
                f"a release of {dataset} may spend {amount(self.each.epsilon, self.each.delta)} at most",
                amount(privacy.epsilon, privacy.delta),
                "spend less",
            )
        rule = f"the releases of {dataset} may spend {amount(self.budget.epsilon, self.budget.delta)} together"
        if self.account is not None:
            self._require_divergence(rule, dataset, charges, charge)
            return
        epsilon, delta = sums(charges)
        if self.releases is not None:
            allowed = len(charges) < self.releases
            finding = f"{len(charges)} releases of {self.releases} that it allows"
        else:
            allowed = (
                epsilon + privacy.epsilon <= self.budget.epsilon
                and delta + privacy.delta <= self.budget.delta
            )
            finding = f"{amount(epsilon, delta)} already spent, and {amount(privacy.epsilon, privacy.delta)} requested"
        if not allowed:
            raise BudgetSpent(rule, finding, "spend less, or do without this release")

    def _require_divergence(
        self, rule: str, dataset: str, charges: Sequence[Charge], charge: Charge
    ) -> None:
        assert self.account is not None
        before, curve = curve_of(charges), curve_of([charge])
        if self.account.allows(before + curve):
            return
        if before.delta + curve.delta > self.account.aside:
            raise BudgetSpent(
                f"the deltas of the releases of {dataset} may add up to {text(self.account.aside)}, which is set aside",
                f"{text(before.delta)} already spent, and {text(curve.delta)} requested",
                "choose a smaller delta; a new ledger may set more aside with `aside`",
            )
        requested = amount(charge.privacy.epsilon, charge.privacy.delta)
        raise BudgetSpent(
            f"{rule}, by Rényi divergences",
            f"no order that has room for {requested} more",
            "spend less, or do without this release",
        )

    def left(self, charges: Sequence[Charge]) -> str:
        """State what is left of epsilon and delta, or the number of releases that are."""
        if self.releases is not None:
            return f"{self.releases - len(charges)} releases"
        epsilon, delta, _ = self.spent(charges)
        return amount(self.budget.epsilon - epsilon, self.budget.delta - delta)

    def more(self, charges: Sequence[Charge], charge: Charge) -> int | None:
        """Return how many more releases of this cost a Rényi ledger allows; None if it costs nothing."""
        assert self.account is not None
        return self.account.more(curve_of(charges), curve_of([charge]))


def sums(charges: Iterable[Charge]) -> tuple[Fraction, Fraction]:
    """Return the sums of all epsilons and of all deltas."""
    spent = [charge.privacy for charge in charges]
    return sum((p.epsilon for p in spent), Fraction(0)), sum((p.delta for p in spent), Fraction(0))


def curve_of(charges: Iterable[Charge]) -> RenyiCurve:
    """Return the sum of all curves; a release without one counts as the worst mechanism of its privacy."""
    curves = (charge.curve or RenyiCurve.of_privacy(charge.privacy) for charge in charges)
    return sum(curves, RenyiCurve.none())


def more_in_words(more: int | None) -> str:
    """State how many more releases like the last are allowed.

    >>> more_in_words(40), more_in_words(0)
    ('about 40 more releases like the last', 'none like the last')
    """
    if more is None:
        return "any number of releases like the last"
    if not more:
        return "none like the last"
    return f"about {more:,} more release{'' if more == 1 else 's'} like the last"


@lru_cache(maxsize=64)
def _releases(each: Privacy, budget: Privacy) -> int | None:
    by_sums = min(int(budget.epsilon / each.epsilon), int(budget.delta / each.delta))
    most = largest_count(each, budget)
    return most if most > by_sums else None


def _composed_epsilon(each: Privacy, releases: int, budget: Privacy) -> Fraction:
    """The smallest epsilon, to three figures, proved for this number of releases with all of the budget's delta."""
    low, high = 0, 1000
    while high - low > 1:
        middle = (low + high) // 2
        if composed_delta(each, releases, budget.epsilon * middle / 1000) <= budget.delta:
            high = middle
        else:
            low = middle
    return budget.epsilon * high / 1000
