"""Counts: how many users have each key that was discovered, with noise in proportion to the root of that number.

    keys per user  users by their number of these keys              -> K, so that few users have more keys
    first counts   numbers of users, of up to K keys each           -> n, a first estimate for each key
    lengths        users by the length of their weighted vector     -> C, at which lengths are clipped
    clipped        what clipping takes away, by groups of keys      -> the share that is put back
    counts         numbers of users, weighted by 1 / sqrt(n)        -> the estimates

Amounts, if there are any, are then summed in the same way (`user_amounts`).

Each is a sum over users of a vector of bounded length, plus Gaussian noise; each depends on what the ones before it
published, and on nothing else (docs/theory.md, section 10). A user who has many of these keys is scaled down; the most
popular keys, which add little to a length, are counted as they are.
"""

import math
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa

from dpsample.accounting.clipped import Clipped
from dpsample.accounting.discovery import Counts, UserBudget
from dpsample.accounting.lengths import (
    deviation_of,
    first_length,
    first_unit,
    lost_length,
    lost_units,
    vector_length,
)
from dpsample.accounting.vectors import VectorNoise
from dpsample.private.assignment import Assigned
from dpsample.private.engine import Engine
from dpsample.private.noise import from_table
from dpsample.private.pairs import Kernel, Pairs
from dpsample.private.randomness import CoinSource
from dpsample.private.sources.source import Source
from dpsample.private.user_amounts import MeasuredAmount, Parts, all_sums, estimated_amount
from dpsample.private.user_lengths import ClipErrors, Lengths, best_clip, numbers_of_users
from dpsample.private.user_vectors import (
    FINE,
    Clip,
    FewKeys,
    Flags,
    Lost,
    ShareLost,
    Weighing,
    groups_of,
    head_of,
    unevenness,
    users_by_keys,
    users_by_length,
    weighted_counts,
)
from dpsample.scheme.sampling import Floats, Ints

_MARGIN = NormalDist().inv_cdf(0.975)
# times the detection threshold: numbers below are often those of keys with more users. With 1.5, 91 % of the intervals
# of such numbers held on the hardest data of benchmarks/user_coverage.py; with 2, 93 %
_SMALL = 2.0
_OVER = 0.15  # of all pairs, at most, are scaled down in what is beyond the clip of an amount: with less, noise is more


@dataclass(frozen=True)
class Measured:
    """Numbers of users of each key, with their errors, amounts, and the public record of how they were counted."""

    values: Floats
    errors: Floats
    counts: Counts
    amounts: tuple[MeasuredAmount, ...] = ()


def count_users(
    engine: Engine,
    source: Source,
    keys: pa.Table,
    least: int,
    budget: UserBudget,
    coins: CoinSource,
    after: Assigned | None = None,
) -> Measured:
    """Count the users of each of these keys; `least` is the number of users from which on keys are discovered.

    Pairs that were put aside with `after` are not read again.
    """
    if not keys.num_rows:
        noise = (VectorNoise.of(budget.square * share, budget.aside, 1) for share in budget.parts.values())
        clipped = tuple(Clipped(amount) for amount in budget.amounts)
        nothing = tuple(MeasuredAmount(np.zeros(0), np.zeros(0), record) for record in clipped)
        return Measured(np.zeros(0), np.zeros(0), Counts(tuple(noise), 0.0, amounts=clipped), nothing)
    pairs = engine.pairs_of(source, keys, after)
    try:
        return _Stage(engine, pairs, keys.num_rows, float(least), budget, coins).measured()
    finally:
        engine.forget_pairs(pairs)


def expected_errors(
    engine: Engine, source: Source, keys: pa.Table, least: int, budget: UserBudget, after: Assigned | None = None
) -> tuple[Floats, Floats]:
    """Return what counts of users would be if their noise happened to be 0, and their errors; for a plan. NOT private.

    All parts are as in a release, but nothing is drawn, and no noise is certified. Pairs that were put aside with
    `after` are not read again.
    """
    if not keys.num_rows:
        return np.zeros(0), np.zeros(0)
    pairs = engine.pairs_of(source, keys, after)
    try:
        counted = _Stage(engine, pairs, keys.num_rows, float(least), budget, None).counted()
        return counted.values, counted.errors
    finally:
        engine.forget_pairs(pairs)


class _Stage:
    """One run of all parts; without coins, one that has no noise."""

    def __init__(
        self, engine: Engine, pairs: Pairs, keys: int, least: float, budget: UserBudget, coins: CoinSource | None
    ) -> None:
        self._engine, self._pairs, self._keys, self._least = engine, pairs, keys, least
        self._budget, self._coins = budget, coins
        self._noise: dict[str, VectorNoise] = {}

    def measured(self) -> Measured:
        counted = self.counted()
        amounts = self._amounts(counted)
        noise = tuple(self._noise[name] for name in self._budget.parts)  # fails without coins: nothing can be released
        record = Counts(
            noise, round(counted.clipped, 6), counted.groups_record, tuple(amount.record for amount in amounts)
        )
        return Measured(counted.values, counted.errors, record, amounts)

    def counted(self) -> "_Counted":
        """The numbers of users, and what they tell about clipping."""
        keys_each, few = self._keys_per_user()
        popularity = self._first_counts(keys_each)
        head = head_of(popularity, keys_each)
        clip = self._clip(popularity, head)
        return self._counts(popularity, head, clip, few)

    def _noisy(self, part: str, kernel: Kernel, length: int) -> Ints:
        """Sum a vector of which a user changes at most `length`, and add noise."""
        return self._with_noise(part, self._engine.summed(self._pairs, kernel), length)

    def _with_noise(self, part: str, total: Ints, length: int) -> Ints:
        if self._coins is None:
            return total
        noise = VectorNoise.of(self._square(part), self._budget.aside, length)
        self._noise[part] = noise
        return total + from_table(noise.noise, len(total), self._coins.fresh())

    def _square(self, part: str) -> Any:
        return self._budget.square * self._budget.parts[part]

    def _length(self, part: str) -> int:
        """The length of a vector in units: many, so that rounding matters little, but for the length of the table."""
        return vector_length(self._square(part))

    def _deviation(self, part: str) -> float:
        """Of the noise, for a length of one."""
        return deviation_of(self._square(part))

    def _keys_per_user(self) -> tuple[float, FewKeys]:
        """A number of keys worth its noise: half of that at which noise and what clipping takes are least together.

        And the smallest number beyond which a small share of all pairs is.
        """
        rows = max(self._keys - 1, 1).bit_length() + 1
        deviation = self._deviation("keys per user")
        users, _ = numbers_of_users(self._noisy("keys per user", users_by_keys(rows), 1), deviation)
        sizes = np.maximum(0.75 * 2.0 ** np.arange(len(users)), 1)
        given = max(float(users @ sizes), 1.0)
        typical = max(given / self._keys, self._least)
        noise = self._deviation("first counts")
        options = 2 ** np.arange(0, len(users) - 0.5, 0.5)

        def error(most: float) -> float:
            taken = float(users @ (sizes * np.maximum(0, 1 - np.sqrt(most / sizes)))) / given
            return most * noise**2 + (taken * typical) ** 2

        few = next((most for most in options if users @ np.maximum(sizes - most, 0) <= _OVER * given), options[-1])
        # much of what clipping takes is common to all keys, and does not matter for weights
        worth = max(float(min(options.tolist(), key=error)) / 2, 1.0)
        return worth, FewKeys.of(users, sizes, float(few))

    def _first_counts(self, keys_each: float) -> Floats:
        """A first estimate of each number of users, not below what its noise can tell."""
        square = self._square("first counts")
        unit, length = first_unit(square, keys_each), first_length(square, keys_each)
        weights = np.full(self._keys, unit, np.int64)
        kernel = weighted_counts(weights, length**2)
        deviation = length / unit * self._deviation("first counts")
        noisy = self._noisy("first counts", kernel, length) / unit
        return np.maximum(noisy, max(deviation, self._least))

    def _clip(self, popularity: Floats, head: Flags) -> Clip:
        """Choose the square of the length at which users are clipped, and the longest that is looked at beyond it."""
        weights = np.where(head, 0.0, 1 / popularity)
        base = float(weights[~head].min())
        rows = max(math.ceil(math.log2(float(weights.sum()) / base)), 0) + 1
        noisy = self._noisy("lengths", users_by_length(weights, base, rows), 1)
        lengths = Lengths.of(base, noisy, self._deviation("lengths"))
        typical = float(np.median(popularity[~head]))
        errors = ClipErrors(
            noise=self._deviation("counts") ** 2 / typical,
            own=float((1 / popularity[head]).sum()),
            lost=self._deviation("clipped"),
        )
        # known keys may have few users, too few to be seen here: one key alone is never clipped
        shortest = float(weights.max()) if self._least <= 1 else 0.0
        return best_clip(lengths, errors, shortest)

    def _counts(self, popularity: Floats, head: Flags, clip: Clip, few: FewKeys) -> "_Counted":
        length = self._length("counts")
        scale = length / math.sqrt(clip.square + float((1 / popularity[head]).sum()))
        weights = np.maximum(np.round(scale / np.sqrt(popularity)), 1).astype(np.int64)
        while (own := int((weights[head] ** 2).sum())) > length**2 * 3 // 4:  # rounded up too often
            head[np.flatnonzero(head)[np.argmin(popularity[head])]] = False
        groups = groups_of(popularity, head, clip.groups)
        weighing = Weighing(popularity, head, weights, length, length**2 - own, clip, groups, few)
        amounts = () if self._coins is None else self._budget.amounts  # those of a plan are not summed
        totals = self._engine.summed(self._pairs, all_sums(weighing, amounts))
        users, taken, totals = np.split(totals, [self._keys, self._keys + clip.groups])
        kept = self._with_noise("counts", users, length) / weights
        errors = length * self._deviation("counts") / weights
        lost = self._lost("clipped", taken, clip)
        share = share_lost(weighing, lost, kept, errors)
        of_key, its_error = (np.where(head, 0.0, values[groups]) for values in (share.values, share.errors))
        values = kept / (1 - of_key)
        errors = np.hypot(errors, np.maximum(values, popularity / 2) * np.hypot(its_error, unevenness(of_key)))
        # popular keys may all lose less than their group: what is uneven does not cancel out in a sum
        common = np.hypot(share.errors, unevenness(share.values)) / (1 - share.values)
        least = [(float(popularity[~head & (groups == n)].min()), float(common[n])) for n in weighing.present]
        least += [(float(popularity[head].min()), 0.0)] if head.any() else []
        rounded = tuple((round(users, 1), round(error, 6)) for users, error in least)
        errors = with_least(values, errors / (1 - of_key), self._least)
        return _Counted(values, errors, float(of_key.mean()), rounded, weighing, share, totals)

    def _lost(self, part: str, taken: Ints, clip: Clip, most: float | None = None) -> Lost:
        """What was lost, in fine units, with noise; one user may lose `most`."""
        square = self._square("clipped")
        units, length = lost_units(square), lost_length(square, clip.groups)
        noisy = self._with_noise(part, taken // -(-FINE // units), length)
        unit = (clip.lost if most is None else most) / units
        return Lost((noisy + 0.5).astype(np.float64) * unit, length * self._deviation(part) * unit)

    def _amounts(self, counted: "_Counted") -> tuple[MeasuredAmount, ...]:
        """What all amounts are; each has its own noise."""
        weighing, amounts = counted.weighing, self._budget.amounts
        if not amounts:
            return ()
        clip, length = weighing.clip, weighing.length
        measured = []
        for amount, total in zip(amounts, counted.totals.reshape(len(amounts), -1), strict=True):
            sums, lost, beyond = np.split(total, [self._keys, self._keys + clip.groups])
            own, clipped, over = amount.parts
            kept = self._with_noise(own, sums, length) / weighing.weights
            errors = length * self._deviation(own) / weighing.weights
            taken = self._lost(clipped, lost, clip)
            looked_at = self._lost(over, beyond, clip, weighing.few.most)
            parts = Parts(kept, errors, taken, looked_at)
            measured.append(estimated_amount(amount, weighing, parts, counted.share, counted.values))
        return tuple(measured)


@dataclass(frozen=True, eq=False)
class _Counted:
    """Numbers of users, their errors, the mean share that was clipped and put back, groups; and shares by group."""

    values: Floats
    errors: Floats
    clipped: float
    groups_record: tuple[tuple[float, float], ...]
    weighing: Weighing
    share: ShareLost
    totals: Ints = field(repr=False)  # of amounts, without noise: as private as the data


def share_lost(weighing: Weighing, lost: Lost, kept: Floats, errors: Floats) -> ShareLost:
    """The share of users that clipping took away in each group of keys, by what was measured, and what was not."""
    clip = weighing.clip
    measured, its_error = weighing.by_group(kept, errors)
    measured = np.maximum(measured, 1e-9)
    seen = np.clip(lost.values, -measured / 3, 9 * measured)  # noise alone may be negative
    # users who are too long lose more than was measured: in all groups alike, for all that is known
    part = (seen + measured) / float((seen + measured).sum())
    unseen, unseen_error = clip.unseen * part, clip.unseen_error * part
    taken, taken_error = seen + unseen, np.hypot(lost.noise, unseen_error)
    whole = taken + measured
    error = np.hypot(taken_error * measured, its_error * taken) / whole**2
    return ShareLost(taken / whole, error, unseen / measured, unseen_error / measured)


def with_least(values: Floats, errors: Floats, least: float) -> Floats:
    """Lengthen errors so that intervals of 95 % end no lower than those of `_SMALL` times the least number of users.

    Few keys with fewer users are discovered. So the smallest measured numbers mostly belong to keys with about `least`
    users, or to keys with more users and much negative noise.
    """
    return errors + np.maximum(_SMALL * least - values, 0.0) / _MARGIN
