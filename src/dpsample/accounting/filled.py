"""Filled capacity: how many keys each way of discovery could fill. It decides between one key of each user and many.

A key is *full* with as many users as it needs to be reported almost surely. Let each user give a unit to up to m keys.
What a way fills is the sum over keys of min(units, full), in units; divided by `full`, it is the *filled capacity*,
which is in keys. Units beyond a full key are wasted, and are not counted. A user changes what is filled by at most m
units (docs/theory.md, section 10), so discrete Laplace noise of scale m / epsilon is enough.

`choice.fuller` compares two ways.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpsample.definitions import LEAST_EPSILON
from dpsample.errors import InvalidValue
from dpsample.exact import exact, text

FILLED_SHARE = Fraction(1, 100)  # of epsilon, for both ways together
# what one key and many keys have of it: many keys are noisier by m * full / full of many keys, which is 3 to 20
FILLED_PARTS = Fraction(1, 5), Fraction(4, 5)

_MOST_UNITS = 1 << 100  # more is no number of users, whatever its noise


@dataclass(frozen=True)
class Filled:
    """What one way of discovery fills, with noise.

    >>> Filled(keys=32, full=134, units=27_202, epsilon=Fraction(1, 125)).capacity
    203.0
    """

    keys: int  # that each user gives a unit to, at most
    full: int  # units with which a key is full
    units: int  # noisy: the sum over keys of min(units, full)
    epsilon: Fraction  # that the noise cost

    def __post_init__(self) -> None:
        numbers = all(
            type(n) is int and abs(n) < _MOST_UNITS for n in (self.keys, self.full, self.units)
        )
        if not numbers or self.keys < 1 or self.full < 1 or self.epsilon < LEAST_EPSILON:
            raise InvalidValue(
                "what a way of discovery fills must be stated for one key of each user or more, for a key that some "
                f"users fill, and at an epsilon of at least {text(LEAST_EPSILON)}",
                "get the release again from where it was written",
            )

    @property
    def capacity(self) -> float:
        """The filled capacity, in keys; noise does not make it negative."""
        return max(self.units, 0) / self.full

    @property
    def scale(self) -> Fraction:
        """The scale of the noise, in units: a user changes as many as they have keys here."""
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
