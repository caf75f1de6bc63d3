"""Counted keys: the keys of a question to a release of counted users, and what is known of each.

The number of users of a key was measured with an error that is normal. So it has an interval, and so have all of them
at once: with a level of 1 - a / n for each of n keys, all n intervals hold together with a level of 1 - a, whatever the
errors have in common (Bonferroni). A reported key has a user.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsample.errors import InvalidValue
from dpsample.questions.selection import Attributes, Selection, Where
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import Floats, Ints

if TYPE_CHECKING:
    from dpsample.release.release import Release

_erfc = np.frompyfunc(math.erfc, 1, 1)


def normal_probability(deviations: Floats) -> Floats:
    """Return the probability that a standard normal number is at most each of these.

    >>> normal_probability(np.array([0.0, 1.96, -8.0])).round(3)
    array([0.5  , 0.975, 0.   ])
    """
    return np.asarray(_erfc(-deviations / math.sqrt(2)), np.float64) / 2


def margin(level: float, keys: int = 1) -> float:
    """Return by how many errors the intervals of these keys extend, to hold all at once with this level.

    >>> round(margin(0.95), 3), round(margin(0.95, keys=100), 3)
    (1.96, 3.481)
    """
    return -NormalDist().inv_cdf((1 - level) / (2 * keys))


@dataclass(frozen=True, eq=False)
class CountedKeys:
    """Some keys of a release: their rows, their weights, what was measured, and the errors; one value for each key."""

    rows: Ints
    weights: Floats
    values: Floats
    errors: Floats

    @classmethod
    def of(cls, release: "Release", rows: Ints, weights: Floats) -> "CountedKeys":
        """Look up the numbers of some rows of a release."""
        measured, errors = (release.table[name].to_numpy()[rows] for name in ("measured", "standard_error"))
        return cls(rows, weights, measured, errors)

    @classmethod
    def selected(cls, release: "Release", where: Where, attributes: Attributes) -> "CountedKeys":
        """Select keys, each with weight 1."""
        _, [(rows, weights)] = Selection(release, where, attributes=attributes).weighted_rows()
        return cls.of(release, rows, weights)

    def __len__(self) -> int:
        return len(self.rows)

    def intervals(self, level: float, keys: int = 1) -> tuple[Floats, Floats]:
        """Return the interval of each key, in whole users; with the number of `keys`, those of all keys at once."""
        reach = margin(level, max(keys, 1)) * self.errors
        return np.maximum(np.floor(self.values - reach), 1), np.maximum(np.ceil(self.values + reach), 1)

    def reaching(self, frequency: int) -> Floats:
        """Return the probability that each key has at least so many users, given that it has one.

        By the normal law around what was measured, cut off below one user.
        """
        users, user = (normal_probability((self.values - least + 0.5) / self.errors) for least in (frequency, 1))
        return np.clip(users / np.maximum(user, 1e-300), 0, 1) if frequency > 1 else np.ones(len(self))

    def place_of(self, release: "Release", key: Any) -> int:
        """Find a key among these."""
        rows = CountedKeys.selected(release, [key], None).rows
        if not len(rows):
            raise InvalidValue("the key was reported", "one that is not in the release", "check its spelling")
        place = np.flatnonzero(self.rows == rows[0])
        if not len(place):
            raise InvalidValue("the key is among the selected ones", "one that is not", "change where")
        return int(place[0])


def detection_threshold(release: "Release") -> int | None:
    """Return the number of users from which on a key is reported with probability 1/2, if they all give this key."""
    return frequency_reaching(0.5, release.sampling, release.per_key)
