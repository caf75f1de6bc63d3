"""Budget: what the privacy of a release is spent on.

    epsilon = keys + sample size + totals        delta = keys

The parts are drawn independently and add up exactly (basic composition). If users are protected, the part of the keys
is what the up to k keys of one user have together; `many_keys` gives the part of each. A budget that is stated as zCDP
or GDP is divided by its rho or mu**2 instead of by epsilon, and half of delta is for the keys.
"""

from dataclasses import dataclass
from fractions import Fraction

from dpsample.accounting.composition import check_keys_per_user, per_key
from dpsample.accounting.gaussian import scheme_within
from dpsample.accounting.many_keys import chosen_per_key, curve_of_keys
from dpsample.accounting.renyi import RenyiCurve
from dpsample.accounting.totals import SHARE
from dpsample.errors import InvalidValue
from dpsample.exact import text
from dpsample.privacy import Privacy
from dpsample.scheme.per_key import ManyKeys

UNITS = ("element", "user")


@dataclass(frozen=True)
class Budget:
    """How the privacy of a release is divided. It is fixed before anything is read.

    max_keys   the contribution bound; None if elements are protected
    size       the share of epsilon for the sample size
    total      the share of epsilon for totals: of elements, or of the keys that users kept and dropped
    all_keys   whether keys are not sampled
    keys_only  whether keys are reported without tokens

    >>> budget = Budget(Privacy(1, 1e-6), max_keys=50, total=Fraction(1, 20))
    >>> budget.keys, type(budget.per_key).__name__
    (Privacy(epsilon='0.95', delta='1e-06'), 'KeyNoise')
    """

    privacy: Privacy
    max_keys: int | None = None
    size: Fraction = Fraction(0)
    total: Fraction = Fraction(0)
    all_keys: bool = True
    keys_only: bool = False

    def __post_init__(self) -> None:
        if self.max_keys is not None:
            object.__setattr__(self, "max_keys", check_keys_per_user(self.max_keys))
        if self.size + self.total >= 1:
            raise InvalidValue(
                f"totals take {text(self.size + self.total)} of epsilon, which leaves nothing for the keys",
                f"choose smaller shares, such as {text(SHARE)}",
            )

    @property
    def unit(self) -> str:
        """The unit of privacy: an element, or a user."""
        return "element" if self.max_keys is None else "user"

    @property
    def changes(self) -> int:
        """The number of frequencies that adding or removing one element or user changes, by one each."""
        return self.max_keys or 1

    @property
    def keys(self) -> Privacy:
        """The privacy of all keys of one user together, or of the key of one element."""
        return self.privacy.less(self.spent_on(share) for share in self.shares.values())

    @property
    def shares(self) -> dict[str, Fraction]:
        """The shares of epsilon, by what they buy. The totals of kept and of dropped keys have one half each."""
        shares = {"sample size": self.size, "total": self.total}
        if self.max_keys is not None:
            shares["total"] = self.total / 2
            shares["dropped keys"] = self.total / 2
        return {name: share for name, share in shares.items() if share}

    def spent_on(self, share: Fraction) -> Fraction:
        """Return the epsilon of the Laplace noise that this share of the privacy pays for."""
        return self.privacy.share(share)

    @property
    def per_key(self) -> ManyKeys:
        """The mechanism by which the token of each key is drawn."""
        return self._per_key(quick=False)

    @property
    def curve(self) -> RenyiCurve:
        """Upper bounds of the Rényi divergences of the whole release, which a Rényi ledger adds up."""
        if self.privacy.definition is not None:
            return RenyiCurve.of_privacy(self.privacy)
        of_keys = curve_of_keys(self.per_key, self.changes, self.keys)
        epsilons = map(self.spent_on, self.shares.values())
        of_totals = map(RenyiCurve.of_epsilon, epsilons)
        return sum(of_totals, of_keys)

    @property
    def composed_per_key(self) -> Privacy:
        """The epsilon and delta of each key for a method of which nothing more is known, such as a baseline.

        They follow from the optimal composition theorem; within zCDP or GDP, from the cost of a pure epsilon.
        """
        if self.privacy.definition is not None:
            return scheme_within(self.keys, self.changes)
        if self.max_keys is None:
            return self.keys
        return per_key(self.keys, self.changes)

    @property
    def predicted_per_key(self) -> ManyKeys:
        """About the mechanism of each key, found quickly, for predictions."""
        return self._per_key(quick=True)

    def _per_key(self, quick: bool) -> ManyKeys:
        if self.max_keys is None and self.privacy.definition is None:
            return self.keys
        return chosen_per_key(self.keys, self.changes, self.all_keys, self.keys_only, quick)
