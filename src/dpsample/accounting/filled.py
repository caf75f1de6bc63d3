"""Filled capacity: how many keys each way of discovery could fill. It decides between one key of each user and many.

A key is *full* with as many users as it needs to be reported almost surely. Let each user give a unit to up to m keys.
A way of discovery fills the sum over keys of min(units, full), in units; divided by `full`, it is the *filled
capacity*, in keys. Units beyond a full key are wasted, and are not counted. A user changes what is filled by at most m
units (docs/theory.md, section 10), so discrete Laplace noise of scale m / epsilon is enough.

`choice.fuller` compares two ways.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpsample.definitions import LEAST_EPSILON
from dpsample.errors import InvalidValue
from dpsample.exact import exact, text

# The share of epsilon for both ways together.
FILLED_SHARE = Fraction(1, 100)
# The parts of that share for one key of each user and for many. The number for many keys has more noise, by a factor of
# m times the quotient of both numbers `full`: 3 to 20.
FILLED_PARTS = Fraction(1, 5), Fraction(4, 5)
# A larger number in a file is no number of users, whatever its noise.
_MOST_UNITS = 1 << 100


@dataclass(frozen=True)
class Filled:
    """The noisy number of units that one way of discovery fills.

    keys     the number of keys that each user gives a unit to, at most
    full     the number of units with which a key is full
    units    the sum over keys of min(units, full), with noise
    epsilon  the cost of the noise

    >>> Filled(keys=32, full=134, units=27_202, epsilon=Fraction(1, 125)).capacity
    203.0
    """

    keys: int
    full: int
    units: int
    epsilon: Fraction

    def __post_init__(self) -> None:
        numbers = (self.keys, self.full, self.units)
        are_counts = all(type(n) is int and abs(n) < _MOST_UNITS for n in numbers)
        if not are_counts or self.keys < 1 or self.full < 1 or self.epsilon < LEAST_EPSILON:
            raise InvalidValue(
                "a comparison of ways of discovery must state whole numbers, of which keys and full are at least "
                f"1, and an epsilon of at least {text(LEAST_EPSILON)}",
                "get the release again from where it was written",
            )

    @property
    def capacity(self) -> float:
        """The filled capacity, in keys, or 0 if noise made it negative."""
        return max(self.units, 0) / self.full

    @property
    def scale(self) -> Fraction:
        """The scale of the noise, in units: a user changes up to `keys` units."""
        return self.keys / self.epsilon

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form."""
        return {
            "keys": self.keys,
            "full": self.full,
            "units": self.units,
            "epsilon": text(self.epsilon),
        }

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "Filled":
        """Read the JSON form back."""
        return cls(form["keys"], form["full"], form["units"], exact(form["epsilon"], "epsilon"))
