"""Budget: what a release's privacy is spent on, and the noisy totals that a part of it buys.

    epsilon = keys + sample size + total        delta = keys

The parts add up exactly (basic composition of what one run draws on its own). The keys' part is what one user's up to k
keys have together, if users are protected; each key's share of it follows by `composition`.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpsample.composition import check_keys_per_user, per_key
from dpsample.errors import InvalidValue
from dpsample.exact import Number, exact, text
from dpsample.privacy import Privacy

UNITS = ("element", "user")
SHARE = Fraction(1, 20)  # of epsilon that a total gets unless told


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


@dataclass(frozen=True)
class Total:
    """A private total: the truth plus discrete Laplace noise, in steps of `unit`.

    One element or user changes the truth by at most `sensitivity`; `epsilon` was spent on it.

    >>> total = Total(1_000_000, epsilon=Fraction(1, 20), sensitivity=Fraction(1))
    >>> total.scale, total.interval(0.95)
    (Fraction(20, 1), (999940, 1000060))
    """

    value: int | Fraction
    epsilon: Fraction
    sensitivity: Fraction
    unit: Fraction = Fraction(1)

    @property
    def scale(self) -> Fraction:
        """The scale of the noise x, which has a probability proportional to exp(-abs(x) / scale)."""
        return self.sensitivity / self.epsilon

    def interval(self, level: float = 0.95) -> tuple[int | Fraction, int | Fraction]:
        """Return bounds that hold the truth with at least this probability; totals are not negative.

        ``Pr[abs(x) > m unit] = 2 a**(m + 1) / (1 + a)`` with ``a = exp(-unit / scale)``.
        """
        step = float(self.unit / self.scale)
        tail = math.log((1 - check_level(level)) * (1 + math.exp(-step)) / 2)
        m = max(0, math.ceil(-tail / step * (1 + 1e-12)) - 1) * self.unit
        low, high = (max(Fraction(self.value) + way * m, Fraction(0)) for way in (-1, 1))
        return (int(low), int(high)) if self.unit == 1 else (low, high)

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form."""
        return {
            "value": text(Fraction(self.value)),
            "epsilon": text(self.epsilon),
            "sensitivity": text(self.sensitivity),
            "unit": text(self.unit),
            "scale": text(self.scale),
        }

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "Total":
        """Read the JSON form back."""
        value, epsilon, sensitivity, unit = (
            exact(form[name], name) for name in ("value", "epsilon", "sensitivity", "unit")
        )
        if epsilon <= 0 or sensitivity <= 0 or unit <= 0:
            raise InvalidValue(
                "a total has a positive epsilon, sensitivity and unit", "another", "get it from where it was written"
            )
        return cls(int(value) if unit == 1 else value, epsilon, sensitivity, unit)


@dataclass(frozen=True)
class Sized:
    """The sample size that was wanted, and the private total of weights from which tau followed."""

    wanted: int
    weights: Total

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form."""
        return {"wanted": self.wanted, "weights": self.weights.to_json()}

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "Sized":
        """Read the JSON form back."""
        return cls(int(form["wanted"]), Total.from_json(form["weights"]))


def check_share(value: bool | Number, name: str) -> Fraction:
    """Read a share of epsilon: True is the default, False none.

    >>> check_share(True, "total"), check_share("0.1", "total"), check_share(False, "total")
    (Fraction(1, 20), Fraction(1, 10), Fraction(0, 1))
    """
    if isinstance(value, bool):
        return SHARE if value else Fraction(0)
    share = exact(value, name)
    if not 0 < share < 1:
        raise InvalidValue(
            f"the share of epsilon for {name} is above 0 and below 1", text(share), f"choose one such as {text(SHARE)}"
        )
    return share


def check_level(level: float) -> float:
    """Check the probability with which an interval is to hold."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise InvalidValue("a level is above 0 and below 1", repr(level), "choose one such as 0.95")
    return float(level)
