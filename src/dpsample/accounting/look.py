"""The look: a noisy histogram of users by their number of keys. It decides how many keys each user may give."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from dpsample.definitions import LEAST_EPSILON
from dpsample.errors import InvalidValue
from dpsample.exact import exact, text

# One standard deviation of noise is subtracted from a sum, so that noise alone seldom makes it large.
_DOUBT = 1.0
# A sum of rows counts as users if it exceeds four standard deviations of its noise, which noise alone hardly ever does.
_CLEAR = 4.0
# A larger number in a file is no number of users, whatever its noise.
_MOST_USERS = 1 << 100
_REREAD = "get the release again from where it was written"


@dataclass(frozen=True)
class UsersByKeys:
    """A histogram of users by their number of keys, and the epsilon that it costs.

    `users` has the number of users in each row; a row ends at one of `EDGES`: 1, 4, 16, ..., 4096 keys.
    """

    users: tuple[int, ...]
    epsilon: Fraction
    EDGES: ClassVar[tuple[int, ...]] = tuple(4**i for i in range(7))

    def kept(self, most: int) -> float:
        """Estimate the number of keys that users keep in all if each keeps up to `most`.

        That is the sum over users of min(most, keys).
        """
        kept_each = self._kept_each(most)
        return sum(users * kept for users, kept in zip(self.users, kept_each, strict=True))

    def kept_with_doubt(self, most: int) -> float:
        """Return `kept` less one standard deviation of its noise, so that noise alone seldom makes it large."""
        squares = sum(kept * kept for kept in self._kept_each(most))
        # each row has Laplace noise of scale 1 / epsilon, whose variance is 2 / epsilon**2
        deviation = math.sqrt(2 * squares) / float(self.epsilon)
        return self.kept(most) - _DOUBT * deviation

    def _kept_each(self, most: int) -> list[float]:
        """Return about how many keys a user of each row keeps: the middle of the row's range, or `most` if less."""
        kept_each = []
        lowest = 1
        for highest in self.EDGES:
            middle = (lowest + highest) / 2
            kept_each.append(min(float(most), middle))
            lowest = highest + 1
        return kept_each


class TrueLook(UsersByKeys):
    """The histogram without noise, for a forecast of what an epsilon would bring. NOT private; no release has one."""

    def __repr__(self) -> str:
        return "TrueLook()"


@dataclass(frozen=True)
class Look(UsersByKeys):
    """The histogram with noise, as a release states it. Adding or removing a user changes one of the numbers by one."""

    def __post_init__(self) -> None:
        if self.epsilon < LEAST_EPSILON:
            raise InvalidValue(
                f"the look at users must cost an epsilon of at least {text(LEAST_EPSILON)}, not {text(self.epsilon)}",
                _REREAD,
            )
        are_counts = all(type(n) is int and abs(n) < _MOST_USERS for n in self.users)
        if not are_counts or len(self.users) != len(self.EDGES):
            raise InvalidValue("a look must have one whole number for each range of keys", _REREAD)

    @property
    def most(self) -> int:
        """The largest number of keys of a user, as far as noise lets it be seen: the end of the last row that stays."""
        return self.EDGES[len(self._cleaned) - 1]

    @cached_property
    def _cleaned(self) -> list[float]:
        deviation = math.sqrt(2) / float(self.epsilon)
        return cleaned(self.users, deviation)

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form."""
        return {"users": list(self.users), "epsilon": text(self.epsilon)}

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "Look":
        """Read the JSON form back."""
        return cls(tuple(form["users"]), exact(form["epsilon"], "epsilon"))


def cleaned(numbers: tuple[int, ...] | list[int], deviation: float) -> list[float]:
    """Return a noisy histogram without the rows at its end that are noise alone; negative numbers become 0.

    `deviation` is that of the noise of each row. The last row that stays is the last one whose sum with all rows after
    it exceeds four standard deviations of that sum.
    """
    last = 0
    sum_to_end = 0.0
    for row in range(len(numbers) - 1, 0, -1):
        sum_to_end += numbers[row]
        rows_to_end = len(numbers) - row
        deviation_of_sum = deviation * math.sqrt(rows_to_end)
        if sum_to_end > _CLEAR * deviation_of_sum:
            last = row
            break
    return [max(float(n), 0.0) for n in numbers[: last + 1]]
