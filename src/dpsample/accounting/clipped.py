"""What clips took from amounts: the public record of what was measured, and what follows from it for each key.

How much the amounts of all keys have beyond a clip was measured, up to eight times the clip. To which keys this belongs
is not known. Where it was too noisy to see, its upper bound is still known (docs/theory.md, section 10).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsample.accounting.amounts import LOOKED_AT, Amount, check_measured
from dpsample.accounting.normal import TABLE_MARGIN
from dpsample.exact import exact, text
from dpsample.scheme.sampling import Floats, Ints

# by how much what a key has beyond a clip may differ from what it is given, relative to it; chosen on generated data:
# with 0.5, intervals were too short where clips took a quarter or more of a sum (docs/theory.md, section 10)
_APART = 1.25
_SEEN = 2.0  # errors: what was measured beyond an end of the clip is shown as seen from here on


@dataclass(frozen=True)
class Beyond:
    """What amounts have beyond one end of a clip, on average for each user of a key, with its standard error.

    It cannot be more than `limit`, since no more is looked at.
    """

    each: float
    error: float
    limit: float = np.inf

    @property
    def seen(self) -> bool:
        """Whether it can be told from noise."""
        return self.each > _SEEN * self.error

    @property
    def most(self) -> float:
        """The upper end of its 95 % interval."""
        return min(max(self.each, 0.0) + TABLE_MARGIN * self.error, self.limit)


@dataclass(frozen=True, eq=False)
class BeyondKeys:
    """What keys have beyond one end of a clip, by each of three ways to divide it: arrays of ways x keys."""

    parts: Floats
    common_errors: Floats  # which all keys have in common
    own_errors: Floats  # of each key by itself

    def longer(self) -> tuple[Floats, Floats]:
        """By how much the interval of each key is longer, and the standard error of this: of the ways, the largest."""
        errors = np.hypot(self.common_errors.max(axis=0), self.own_errors.max(axis=0))
        return self.parts.max(axis=0), errors

    def of(self, rows: Ints, weights: Floats) -> "BeyondKeys":
        """Return what some keys have, weighted; no weight is negative."""
        parts = self.parts[:, rows] * weights
        return BeyondKeys(
            parts, self.common_errors[:, rows] * weights, self.own_errors[:, rows] * weights
        )

    def with_other_end(self, other: "BeyondKeys") -> "BeyondKeys":
        """Add what keys have beyond the other end, each key at one of both: weights of sums have either sign."""
        parts = self.parts + other.parts
        return BeyondKeys(
            parts, self.common_errors + other.common_errors, self.own_errors + other.own_errors
        )

    def longer_sum(self) -> tuple[float, float]:
        """By how much the interval of a sum is longer, with its error: errors in common add up, others by squares."""
        common = float(self.common_errors.sum(axis=1).max())
        own = float(np.linalg.norm(self.own_errors, axis=1).max())
        return float(self.parts.sum(axis=1).max()), float(np.hypot(common, own))


def exponential_tail(means: Floats) -> Floats:
    """Return the mean beyond a clip of 1 of exponential numbers, from the mean of the numbers when they are clipped.

    Of mean m, clipped ones have the mean ``m (1 - exp(-1 / m))``, and ``m exp(-1 / m)`` is beyond, up to 7 here.

    >>> exponential_tail(np.array([-1.0, 0.1, 0.5, 2.0])).round(4)
    array([0.    , 0.    , 0.1275, 7.    ])
    """
    m = np.geomspace(0.02, 64, 400)
    tails = np.minimum(m * np.exp(-1 / m), LOOKED_AT - 1)
    return np.interp(means, m * -np.expm1(-1 / m), tails, left=0.0, right=LOOKED_AT - 1)


@dataclass(frozen=True)
class Clipped:
    """What clipping did to an amount, as it was measured: the public record.

    `share` is what the clipping of users' lengths took away, averaged over keys, and was put back; `groups` has the
    relative error of that for the groups of the counts. `beyond` is what amounts have beyond the low and the high end
    of the clip, up to eight times as far, on average for each user of a key, with the errors of both; beyond an end
    that is 0, nothing is looked at.
    """

    amount: Amount
    share: float = 0.0
    groups: tuple[float, ...] = ()
    beyond: tuple[float, float] = (0.0, 0.0)
    beyond_errors: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        check_measured(
            "what clipping did to an amount",
            (self.share, *self.beyond),
            (*self.groups, *self.beyond_errors),
        )

    @property
    def below(self) -> Beyond:
        """What is below the low end."""
        return Beyond(
            self.beyond[0], self.beyond_errors[0], (LOOKED_AT - 1) * float(-self.amount.low)
        )

    @property
    def above(self) -> Beyond:
        """What is above the high end."""
        return Beyond(
            self.beyond[1], self.beyond_errors[1], (LOOKED_AT - 1) * float(self.amount.high)
        )

    def beyond_keys(self, users: Floats, values: Floats) -> tuple[BeyondKeys, BeyondKeys]:
        """Divide what is below the clip, and what is above it, among all keys, from their users and clipped sums."""
        users = np.maximum(users, 1.0)
        below = _divided(self.below, users, -values, float(-self.amount.low))
        above = _divided(self.above, users, values, float(self.amount.high))
        return below, above

    def intervals(
        self, users: Floats, values: Floats, errors: Floats
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """The ends of 95 % intervals of each key: low and high of its clipped sum, then of the sum that is looked at.

        Ends are where the sums can be: no end is negative if no clipped amount is.
        """
        below, above = self.beyond_keys(users, values)
        (down, down_error), (up, up_error) = below.longer(), above.longer()
        ends = (
            values - TABLE_MARGIN * errors,
            values + TABLE_MARGIN * errors,
            values - down - TABLE_MARGIN * np.hypot(errors, down_error),
            values + up + TABLE_MARGIN * np.hypot(errors, up_error),
        )
        first, second, third, fourth = (self.possible(end) for end in ends)
        return first, second, third, fourth

    def possible(self, sums: Floats) -> Floats:
        """Move sums of amounts to where they can be: to 0, if they have a sign that no clipped amount has."""
        least = 0.0 if self.amount.low == 0 else -np.inf
        most = 0.0 if self.amount.high == 0 else np.inf
        moved: Floats = np.clip(sums, least, most)
        return moved

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form; rows have no column."""
        column = {} if self.amount.column is None else {"column": self.amount.column}
        return {
            **column,
            "clip": [text(self.amount.low), text(self.amount.high)],
            "clipped": self.share,
            "groups": list(self.groups),
            "beyond": list(self.beyond),
            "beyond_errors": list(self.beyond_errors),
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Clipped":
        """Read the JSON form back."""
        low, high = (exact(end, "clip") for end in form["clip"])
        below, above = map(float, form["beyond"])
        below_error, above_error = map(float, form["beyond_errors"])
        return cls(
            Amount(form.get("column"), low, high),
            float(form["clipped"]),
            tuple(map(float, form["groups"])),
            (below, above),
            (below_error, above_error),
        )


def _divided(beyond: Beyond, users: Floats, sums: Floats, end: float) -> BeyondKeys:
    """Divide what is beyond one end of a clip among keys; `sums` of keys are positive on its side.

    Which keys it belongs to is not known. So it is divided in three ways, and an interval is longer by the largest
    part: in proportion to users; to what is beyond the clip of exponential amounts that have the mean of the key's
    clipped ones; and to the sums of keys, with a tenth of the clip for each user, since sums of both signs may be
    near 0.
    """
    if end == 0 or not len(users):  # nothing is looked at there
        nothing = np.zeros((3, len(users)))
        return BeyondKeys(nothing, nothing, nothing)
    means = sums / users / end
    by_users, by_tail, by_sum = (
        np.ones(len(users)),
        exponential_tail(means),
        np.clip(means, 0.0, 1.0) + 0.1,
    )
    if (
        not by_tail.any()
    ):  # no key has sums of this sign: the law is 0 for all of them, and says nothing
        by_tail = by_users
    laws = np.array([by_users, by_tail, by_sum])
    shares = laws * (users.sum() / (laws @ users))[:, None]
    each = users * shares
    parts = each * max(beyond.each, 0.0)
    return BeyondKeys(parts, each * beyond.error, _APART * parts)
