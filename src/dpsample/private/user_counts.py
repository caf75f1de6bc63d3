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
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpsample.accounting.amounts import Clipped
from dpsample.accounting.discovery import Counts, UserBudget, cleaned
from dpsample.accounting.lengths import (
    MOST_GROUPS,
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
from dpsample.private.source import Source
from dpsample.private.user_amounts import MeasuredAmount, all_sums, estimated_amount
from dpsample.private.user_vectors import (
    FINE,
    UNEVEN,
    Clip,
    Flags,
    Lost,
    Weighing,
    groups_of,
    head_of,
    most_lost,
    users_by_keys,
    users_by_length,
    weighted_counts,
)
from dpsample.scheme.sampling import Floats, Ints

_SHARE_ERROR = 0.02  # of these shares: with less noise, there are more groups
_OVER = 0.3  # of all pairs, at most, are scaled down in what is beyond the clip of an amount: with less, noise is more


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
        nothing = tuple(MeasuredAmount(*(np.zeros(0),) * 4, record) for record in clipped)
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

    def _keys_per_user(self) -> tuple[float, tuple[float, float]]:
        """A number of keys that is worth its noise: what clipping takes away and the noise are small together.

        And the smallest number beyond which a small share of all pairs is, with this share.
        """
        rows = max(self._keys - 1, 1).bit_length() + 1
        deviation = self._deviation("keys per user")
        users = np.array(cleaned(self._noisy("keys per user", users_by_keys(rows), 1).tolist(), deviation))
        sizes = np.maximum(0.75 * 2.0 ** np.arange(len(users)), 1)
        given = max(float(users @ sizes), 1.0)
        typical = max(given / self._keys, self._least)
        noise = self._deviation("first counts")
        options = 2 ** np.arange(0, len(users) - 0.5, 0.5)

        def error(most: float) -> float:
            taken = float(users @ (sizes * np.maximum(0, 1 - np.sqrt(most / sizes)))) / given
            return most * noise**2 + (taken * typical) ** 2

        over = [(float(most), float(users @ np.maximum(sizes - most, 0)) / given) for most in options]
        return float(min(options.tolist(), key=error)), next((few for few in over if few[1] <= _OVER), over[-1])

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
        deviation = self._deviation("lengths")
        noisy = self._noisy("lengths", users_by_length(weights, base, rows), 1)
        users, shortest = np.array(cleaned(noisy.tolist(), deviation)), 0.0
        if self._least <= 1:  # known keys may have few users, too few to be seen here: one key alone is never clipped
            shortest = float(weights.max())
            users = np.pad(users, (0, max(math.ceil(math.log2(shortest / base)) + 2 - len(users), 0)))
        middles = np.maximum(0.75 * base * 2.0 ** np.arange(len(users)), base)
        total = max(float(users @ middles), base)
        longest = base * 2.0 ** (len(users) - 1)
        typical, tail = float(np.median(popularity[~head])), int((~head).sum())
        own = float((1 / popularity[head]).sum())

        def error(square: float) -> float:
            lost = float(users @ (middles * np.maximum(0, 1 - np.sqrt(square / middles)))) / total
            noise = (square + own) * self._deviation("counts") ** 2 / typical
            return (noise + (UNEVEN * lost) ** 2 + self._share_error(square, longest, tail) ** 2) / (1 - lost) ** 2

        options = (base * 2 ** np.arange(0, len(users) - 0.9, 0.25)).tolist()
        square = max(min(options, key=error), shortest)
        share_error = self._share_error(square, longest, tail)
        groups = int(np.clip(_SHARE_ERROR / max(share_error, 1e-9), 1, MOST_GROUPS))
        clip = Clip(square, longest, most_lost(square, longest), groups)
        if len(users) >= rows:  # all users were looked at
            return clip
        length = min(1.5 * longest, float(weights.sum()))  # of the next row: too few users to tell them from noise
        return replace(clip, unseen=clip.beyond(length, int(noisy[len(users)]), deviation, tail))

    def _share_error(self, square: float, longest: float, keys: int) -> float:
        """The error of the share that was clipped, if it is measured for all keys together."""
        return most_lost(square, longest) * self._deviation("clipped") / keys

    def _counts(self, popularity: Floats, head: Flags, clip: Clip, few: tuple[float, float]) -> "_Counted":
        length = self._length("counts")
        scale = length / math.sqrt(clip.square + float((1 / popularity[head]).sum()))
        weights = np.maximum(np.round(scale / np.sqrt(popularity)), 1).astype(np.int64)
        while (own := int((weights[head] ** 2).sum())) > length**2 * 3 // 4:  # rounded up too often
            head[np.flatnonzero(head)[np.argmin(popularity[head])]] = False
        groups = groups_of(popularity, head, clip.groups)
        weighing = Weighing(popularity, head, weights, length, length**2 - own, clip, groups, *few)
        amounts = () if self._coins is None else self._budget.amounts  # those of a plan are not summed
        totals = self._engine.summed(self._pairs, all_sums(weighing, amounts))
        users, taken, totals = np.split(totals, [self._keys, self._keys + clip.groups])
        kept = self._with_noise("counts", users, length) / weights
        errors = length * self._deviation("counts") / weights
        lost = self._lost("clipped", taken, clip)
        share, measured_error = _share_lost(weighing, lost, kept, errors)
        share_error = np.hypot(measured_error, clip.unseen * (1 - share))
        of_key, its_error = (np.where(head, 0.0, values[groups]) for values in (share, share_error))
        values = kept / (1 - of_key)
        errors = np.hypot(errors, np.maximum(values, popularity / 2) * np.hypot(its_error, UNEVEN * of_key))
        # popular keys may all lose less than their group: what is uneven does not cancel out in a sum
        common = np.hypot(share_error, UNEVEN * share) / (1 - share)
        least = [(float(popularity[~head & (groups == n)].min()), float(common[n])) for n in weighing.present]
        least += [(float(popularity[head].min()), 0.0)] if head.any() else []
        rounded = tuple((round(users, 1), round(error, 6)) for users, error in least)
        errors /= 1 - of_key
        return _Counted(values, errors, float(of_key.mean()), rounded, weighing, share, measured_error, totals)

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
            looked_at = self._lost(over, beyond, clip, weighing.keys_each)
            shares = counted.share, counted.share_error
            measured.append(estimated_amount(amount, weighing, kept, errors, taken, looked_at, shares, counted.values))
        return tuple(measured)


@dataclass(frozen=True, eq=False)
class _Counted:
    """Numbers of users, their errors, the mean share that was clipped and put back, groups; and shares by group."""

    values: Floats
    errors: Floats
    clipped: float
    groups_record: tuple[tuple[float, float], ...]
    weighing: Weighing
    share: Floats
    share_error: Floats  # without what was not looked at
    totals: Ints = field(repr=False)  # of amounts, without noise: as private as the data


def _share_lost(weighing: Weighing, lost: Lost, kept: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """The share of users that clipping took away in each group of keys, and its error."""
    measured, its_error = weighing.by_group(kept, errors)
    measured = np.maximum(measured, 1e-9)
    taken = np.clip(lost.values, -measured / 3, 9 * measured)  # noise alone may be negative
    whole = taken + measured
    return taken / whole, np.hypot(lost.noise * measured, its_error * taken) / whole**2
