"""Budget: what a release's privacy is spent on, and the noisy totals that a part of it buys.

    epsilon = keys + sample size + total        delta = keys

The parts add up exactly (basic composition of what one run draws on its own). The keys' part is what one user's up to k
keys have together, if users are protected; each key's share of it follows by `composition`.
"""

from dataclasses import dataclass
from fractions import Fraction

from dpsample.accounting.composition import check_keys_per_user, per_key
from dpsample.accounting.totals import SHARE
from dpsample.errors import InvalidValue
from dpsample.exact import text
from dpsample.privacy import Privacy

UNITS = ("element", "user")


@dataclass(frozen=True)
class Budget:
    """How a release's privacy is divided; made before anything is read.

    >>> budget = Budget(Privacy(1, 1e-6), max_keys=50, total=Fraction(1, 20))
    >>> budget.keys, budget.per_key
    (Privacy(epsilon='0.95', delta='1e-06'), Privacy(epsilon='0.031...', delta='1...e-08'))
    """

    privacy: Privacy
    max_keys: int | None = None  # for each user; None: elements are protected
    size: Fraction = Fraction(0)  # shares of epsilon
    total: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.max_keys is not None:
            object.__setattr__(self, "max_keys", check_keys_per_user(self.max_keys))
        if self.size + self.total >= 1:
            raise InvalidValue(
                "the shares of epsilon for totals must leave some for the keys",
                f"{text(self.size + self.total)} in all",
                f"choose smaller ones, such as {text(SHARE)}",
            )

    @property
    def unit(self) -> str:
        """Whom the privacy protects: each element, or each user."""
        return "element" if self.max_keys is None else "user"

    @property
    def changes(self) -> int:
        """How many frequencies one element or user changes, by one each."""
        return self.max_keys or 1

    @property
    def keys(self) -> Privacy:
        """What all keys of one user, or the key of one element, have together."""
        return Privacy(self.privacy.epsilon * (1 - self.size - self.total), self.privacy.delta)

    @property
    def per_key(self) -> Privacy:
        """What each key has: the parameters of the scheme that tokens are drawn from."""
        return self.keys if self.max_keys is None else per_key(self.keys, self.max_keys)
