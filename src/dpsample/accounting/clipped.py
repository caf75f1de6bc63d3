"""The effect of clips on amounts: the public record of what was measured, and the intervals that follow for each key.

The sum beyond a clip was measured for all keys together, up to eight times the clip. To which keys it belongs is not
known. Where it was too noisy to see, its upper bound is still known (docs/theory.md, section 10).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsample.accounting.amounts import LOOKED_AT, Amount, check_measured
from dpsample.accounting.normal import TABLE_MARGIN
from dpsample.exact import exact, text
from dpsample.scheme.sampling import Floats, Ints

# The standard error of the part beyond a clip that a key is given, relative to that part. Chosen on generated data:
# with 0.5, intervals were too short where clips took a quarter or more of a sum (docs/theory.md, section 10).
_APART = 1.25
# A sum beyond the clip of more than this many standard errors is shown as seen.
_SEEN = 2.0
# Added to the share of each user's clip by which a sum is divided among keys, since sums of both signs may be near 0.
_LEAST_SHARE = 0.1
# The table by which `exponential_tail` interpolates: means of unclipped numbers, from where next to nothing is beyond
# the clip to where the limit is reached.
_LEAST_MEAN = 0.02
_LARGEST_MEAN = 64
_MEANS = 400


@dataclass(frozen=True)
class Beyond:
    """The sum of amounts beyond one end of a clip, on average for each user of a key.

    each   the average, as it was measured
    error  its standard error
    limit  the largest average that is possible, since amounts are looked at up to eight times the clip
    """

    each: float
    error: float
    limit: float = np.inf

    @property
    def seen(self) -> bool:
        """Whether the average can be told from noise."""
        return self.each > _SEEN * self.error

    @property
    def most(self) -> float:
        """The upper end of its 95 % interval."""
        upper_end = max(self.each, 0.0) + TABLE_MARGIN * self.error
        return min(upper_end, self.limit)


@dataclass(frozen=True, eq=False)
class BeyondKeys:
    """The sums of keys beyond one end of a clip, by each of three ways to divide the measured sum among them.

    All are arrays of ways x keys.

    parts          the sum of each key beyond the clip
    common_errors  its standard error that all keys have in common
    own_errors     its standard error that is the key's own
    """

    parts: Floats
    common_errors: Floats
    own_errors: Floats

    def longer(self) -> tuple[Floats, Floats]:
        """Return by how much the interval of each key is longer, and the standard error of that.

        Of the three ways, the largest part and the largest errors count.
        """
        common_errors = self.common_errors.max(axis=0)
        own_errors = self.own_errors.max(axis=0)
        return self.parts.max(axis=0), np.hypot(common_errors, own_errors)

    def of(self, rows: Ints, weights: Floats) -> "BeyondKeys":
        """Return the sums of the keys in these rows, multiplied by weights of at least 0."""
        return BeyondKeys(
            self.parts[:, rows] * weights,
            self.common_errors[:, rows] * weights,
            self.own_errors[:, rows] * weights,
        )

    def with_other_end(self, other: "BeyondKeys") -> "BeyondKeys":
        """Return the sums beyond this end and the other one together.

        Each key counts at one end alone, by the sign of its weight; at the other its numbers are 0.
        """
        return BeyondKeys(
            self.parts + other.parts,
            self.common_errors + other.common_errors,
            self.own_errors + other.own_errors,
        )

    def longer_sum(self) -> tuple[float, float]:
        """Return by how much the interval of the sum over all keys is longer, and the standard error of that.

        Errors in common add up, and own errors add up by their squares.
        """
        sums = self.parts.sum(axis=1)  # by each way to divide
        common_errors = self.common_errors.sum(axis=1)
        own_errors = np.linalg.norm(self.own_errors, axis=1)
        error = np.hypot(common_errors.max(), own_errors.max())
        return float(sums.max()), float(error)


def exponential_tail(means: Floats) -> Floats:
    """Return the mean beyond a clip of 1 of exponential numbers, from the mean of the clipped numbers.

    Numbers of mean m have the mean ``m (1 - exp(-1 / m))`` when they are clipped, and ``m exp(-1 / m)`` is beyond the
    clip, of which up to 7 is looked at.

    >>> exponential_tail(np.array([-1.0, 0.1, 0.5, 2.0])).round(4)
    array([0.    , 0.    , 0.1275, 7.    ])
    """
    most = LOOKED_AT - 1
    m = np.geomspace(_LEAST_MEAN, _LARGEST_MEAN, _MEANS)
    clipped_means = m * -np.expm1(-1 / m)
    tails = np.minimum(m * np.exp(-1 / m), most)
    return np.interp(means, clipped_means, tails, left=0.0, right=most)


@dataclass(frozen=True)
class Clipped:
    """The effect of clipping on an amount, as it was measured: the public record.

    share          the share that scaling users down to the length took away, averaged over keys, and that was put back
    groups         the relative error of what was put back, for each group of the counts
    beyond         the sums below the low end of the clip and above the high end, up to eight times as far, on average
                   for each user of a key; beyond an end that is 0, nothing is looked at
    beyond_errors  the standard errors of both
    """

    amount: Amount
    share: float = 0.0
    groups: tuple[float, ...] = ()
    beyond: tuple[float, float] = (0.0, 0.0)
    beyond_errors: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        values = (self.share, *self.beyond)
        errors = (*self.groups, *self.beyond_errors)
        check_measured("the effect of clipping on an amount", values, errors)

    @property
    def below(self) -> Beyond:
        """The average below the low end of the clip."""
        limit = (LOOKED_AT - 1) * float(-self.amount.low)
        return Beyond(self.beyond[0], self.beyond_errors[0], limit)

    @property
    def above(self) -> Beyond:
        """The average above the high end of the clip."""
        limit = (LOOKED_AT - 1) * float(self.amount.high)
        return Beyond(self.beyond[1], self.beyond_errors[1], limit)

    def beyond_keys(self, users: Floats, values: Floats) -> tuple[BeyondKeys, BeyondKeys]:
        """Return the sums of keys below the clip and above it; `values` are the clipped sums of keys."""
        low_end = float(-self.amount.low)
        high_end = float(self.amount.high)
        at_least_one = np.maximum(users, 1.0)
        below = _divided(self.below, at_least_one, -values, low_end)
        above = _divided(self.above, at_least_one, values, high_end)
        return below, above

    def intervals(
        self, users: Floats, values: Floats, errors: Floats
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the ends of 95 % intervals of each key: low and high of its clipped sum, then of the wider sum.

        The wider sum is that of amounts clipped at eight times the range. `values` are clipped sums, and `errors` their
        standard errors. No end has a sign that no amount has.
        """
        below, above = self.beyond_keys(users, values)
        down, down_error = below.longer()
        up, up_error = above.longer()
        clipped_low = values - TABLE_MARGIN * errors
        clipped_high = values + TABLE_MARGIN * errors
        low_error = np.hypot(errors, down_error)
        high_error = np.hypot(errors, up_error)
        low = values - down - TABLE_MARGIN * low_error
        high = values + up + TABLE_MARGIN * high_error
        return (
            self.possible(clipped_low),
            self.possible(clipped_high),
            self.possible(low),
            self.possible(high),
        )

    def possible(self, sums: Floats) -> Floats:
        """Return sums of amounts, or 0 where they have a sign that no clipped amount has."""
        least = 0.0 if self.amount.low == 0 else -np.inf
        most = 0.0 if self.amount.high == 0 else np.inf
        moved: Floats = np.clip(sums, least, most)
        return moved

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form; rows have no column."""
        form: dict[str, Any] = {}
        if self.amount.column is not None:
            form["column"] = self.amount.column
        form["clip"] = [text(self.amount.low), text(self.amount.high)]
        form["clipped"] = self.share
        form["groups"] = list(self.groups)
        form["beyond"] = list(self.beyond)
        form["beyond_errors"] = list(self.beyond_errors)
        return form

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Clipped":
        """Read the JSON form back."""
        low, high = (exact(end, "clip") for end in form["clip"])
        amount = Amount(form.get("column"), low, high)
        groups = tuple(map(float, form["groups"]))
        below, above = map(float, form["beyond"])
        below_error, above_error = map(float, form["beyond_errors"])
        return cls(
            amount, float(form["clipped"]), groups, (below, above), (below_error, above_error)
        )


def _divided(beyond: Beyond, users: Floats, sums: Floats, end: float) -> BeyondKeys:
    """Divide the measured sum beyond one end of a clip among keys; `sums` of keys are positive on its side.

    `end` is the size of this end of the clip. To which keys the sum belongs is not known. So it is divided in three
    ways, and an interval is longer by the largest part: in proportion to users; to the tails of exponential amounts
    that have the mean of the key's clipped ones; and to the sums of keys, with a tenth of the clip for each user.
    """
    nothing_is_looked_at = end == 0
    if nothing_is_looked_at or not len(users):
        nothing = np.zeros((3, len(users)))
        return BeyondKeys(nothing, nothing, nothing)
    means = sums / users / end
    by_users = np.ones(len(users))
    by_tail = exponential_tail(means)
    by_sum = np.clip(means, 0.0, 1.0) + _LEAST_SHARE
    if not by_tail.any():  # no key has a sum of this sign: in proportion to tails would divide by 0
        by_tail = by_users
    laws = np.array([by_users, by_tail, by_sum])
    total_of_law = laws @ users
    shares = laws * (users.sum() / total_of_law)[:, None]  # of a user of each key: 1 on average
    users_by_law = users * shares
    parts = users_by_law * max(beyond.each, 0.0)
    return BeyondKeys(parts, users_by_law * beyond.error, _APART * parts)
