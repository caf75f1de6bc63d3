"""Counts: how many users have each key that was discovered, with noise in proportion to the root of that number.

    keys per user  users by their number of these keys              -> K, so that few users have more keys
    first counts   numbers of users, of up to K keys each           -> n, a first estimate for each key
    lengths        users by the length of their weighted vector     -> C, at which lengths are clipped
    clipped        what clipping takes away, by groups of keys      -> the share that is put back
    counts         numbers of users, weighted by 1 / sqrt(n)        -> the estimates

Amounts, if there are any, are summed in the same pass as the counts, and then estimated (`sums`).

Each is a sum over users of a vector of bounded length, plus Gaussian noise; each depends on what the ones before it
published, and on nothing else (docs/theory.md, section 10). A user who has many of these keys is scaled down; the most
popular keys, which add little to a length, are counted as they are.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic

import numpy as np
import pyarrow as pa

from dpsample.accounting.amounts import Amount
from dpsample.accounting.clipped import Clipped
from dpsample.accounting.counts import Counts
from dpsample.accounting.lengths import (
    deviation_of,
    first_length,
    first_unit,
    lost_length,
    lost_units,
    vector_length,
)
from dpsample.accounting.normal import TABLE_MARGIN
from dpsample.accounting.user_budget import UserBudget
from dpsample.accounting.vectors import VectorNoise
from dpsample.private.assignment import Assigned
from dpsample.private.engine import Engine
from dpsample.private.pairs import Kernel, Pairs
from dpsample.private.randomness import CoinSource
from dpsample.private.sources.source import Source
from dpsample.private.users.kernel import FINE, AmountTotals, Totals, all_sums
from dpsample.private.users.keys_each import KeysPerUser
from dpsample.private.users.lengths import ClipErrors, Lengths, best_clip, numbers_of_users
from dpsample.private.users.parts import Exact, Measured, Noise, Noisy, Part, square_of
from dpsample.private.users.put_back import Lost, ShareLost, errors_in_common, put_back, share_lost
from dpsample.private.users.sums import MeasuredAmount, Parts, estimated_amount
from dpsample.private.users.vectors import users_by_keys, users_by_length, weighted_counts
from dpsample.private.users.weighing import Clip, Flags, Weighing, head_of, weighing_of
from dpsample.scheme.sampling import Floats, Ints

# times the detection threshold: numbers below are often those of keys with more users. With 1.5, 91 % of the intervals
# of such numbers held on the hardest data of benchmarks/user_coverage.py; with 2, 93 %
_SMALL = 2.0


@dataclass(frozen=True, eq=False)
class Counted(Generic[Noise]):
    """Numbers of users of each key, with their errors; what added noise says whether they may be released.

    `clipped` is the share of users that clipping took away, averaged over keys, and was put back; `share` has it by
    group. `groups` is the public record of the errors that keys have in common.
    """

    users: Measured
    noise: Noise
    share: ShareLost
    clipped: float
    groups: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class MeasuredUsers:
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
) -> MeasuredUsers:
    """Count the users of each of these keys, with noise by these coins, and sum the amounts of the budget.

    Keys are discovered from about `least` users. Pairs that were put aside with `after` are not read again.
    """
    if not keys.num_rows:
        return _nothing(budget)
    with _pairs_of(engine, source, keys, after) as pairs:
        stage = Stage(engine, pairs, keys.num_rows, float(least), budget, Noisy(coins))
        counted, amounts = stage.counted(budget.amounts)
        return released(counted, amounts, budget)


def expected_errors(
    engine: Engine,
    source: Source,
    keys: pa.Table,
    least: int,
    budget: UserBudget,
    after: Assigned | None = None,
) -> tuple[Floats, Floats]:
    """Return what counts of users would be if their noise happened to be 0, and their errors; for a plan. NOT private.

    All parts are as in a release, but nothing is drawn, no noise is certified, and no amounts are summed. Pairs that
    were put aside with `after` are not read again.
    """
    if not keys.num_rows:
        return np.zeros(0), np.zeros(0)
    with _pairs_of(engine, source, keys, after) as pairs:
        counted, _ = Stage(engine, pairs, keys.num_rows, float(least), budget, Exact()).counted()
        return counted.users.values, counted.users.errors


def released(
    counted: Counted[Noisy], amounts: tuple[MeasuredAmount, ...], budget: UserBudget
) -> MeasuredUsers:
    """Return what a release has of counts. Those without noise are of another type, and are refused by mypy."""
    records = tuple(amount.record for amount in amounts)
    record = Counts(
        counted.noise.tables(budget), round(counted.clipped, 6), counted.groups, records
    )
    return MeasuredUsers(counted.users.values, counted.users.errors, record, amounts)


def _nothing(budget: UserBudget) -> MeasuredUsers:
    """Return what a release has of the counts if no key was discovered."""
    nothing = np.zeros(0)
    noise = tuple(VectorNoise.of(square_of(budget, name), budget.aside, 1) for name in budget.parts)
    records = tuple(Clipped(amount) for amount in budget.amounts)
    amounts = tuple(MeasuredAmount(nothing, nothing, record) for record in records)
    return MeasuredUsers(nothing, nothing, Counts(noise, 0.0, amounts=records), amounts)


@contextmanager
def _pairs_of(
    engine: Engine, source: Source, keys: pa.Table, after: Assigned | None
) -> Iterator[Pairs]:
    """Lend the pairs of users and these keys for the time of a block."""
    pairs = engine.pairs_of(source, keys, after)
    try:
        yield pairs
    finally:
        engine.forget_pairs(pairs)


@dataclass(frozen=True, eq=False)
class Stage(Generic[Noise]):
    """The parts of one count of users; `keys` is the number of keys, which are discovered from about `least` users."""

    engine: Engine
    pairs: Pairs
    keys: int
    least: float
    budget: UserBudget
    noise: Noise

    def counted(
        self, amounts: tuple[Amount, ...] = ()
    ) -> tuple[Counted[Noise], tuple[MeasuredAmount, ...]]:
        """Publish all parts in their order: those that decide how users are weighted, the counts, the amounts."""
        weighing = self._weighing()
        summed = self.engine.summed(self.pairs, all_sums(weighing, amounts))
        totals = Totals.of(summed, weighing, len(amounts))
        counted = self._users(weighing, totals)
        measured = [
            self._amount(amount, weighing, of_amount, counted)
            for amount, of_amount in zip(amounts, totals.amounts, strict=True)
        ]
        return counted, tuple(measured)

    # ---- keys per user, first counts, lengths: how users are weighted

    def _weighing(self) -> Weighing:
        """Publish the first three parts, from which it follows how users are weighted and scaled down."""
        keys_per_user = self._keys_per_user()
        keys_each = self._clip_of_first_counts(keys_per_user)
        popularity = self._first_counts(keys_each)
        head = head_of(popularity, keys_each)
        clip = self._clip(popularity, head)
        # many units, so that rounding matters little, but for the length of the table of noise
        length = vector_length(self._square("counts"))
        return weighing_of(popularity, head, clip, keys_per_user.few(), length)

    def _keys_per_user(self) -> KeysPerUser:
        rows = max(self.keys - 1, 1).bit_length() + 1
        part = self._part("keys per user", 1)
        noisy = self._published(part, users_by_keys(rows))
        return KeysPerUser(numbers_of_users(noisy, part.deviation).values)

    def _clip_of_first_counts(self, keys_per_user: KeysPerUser) -> float:
        """Choose with how many keys a user counts fully in the first counts, for a key of typical popularity."""
        typical = max(keys_per_user.pairs / self.keys, self.least)
        return keys_per_user.clip(typical, deviation_of(self._square("first counts")))

    def _first_counts(self, keys_each: float) -> Floats:
        """Return a first estimate of each number of users, not below what stands out from its noise."""
        square = self._square("first counts")
        unit = first_unit(square, keys_each)
        length = first_length(square, keys_each)
        weights = np.full(self.keys, unit, np.int64)
        noisy = self._published(
            self._part("first counts", length), weighted_counts(weights, length**2)
        )
        deviation = length / unit * deviation_of(square)
        return np.maximum(noisy / unit, max(deviation, self.least))

    def _clip(self, popularity: Floats, head: Flags) -> Clip:
        """Choose the square of the length at which users are clipped, and the longest that is looked at beyond it."""
        weights = np.where(head, 0.0, 1 / popularity)
        shortest_length = float(weights[~head].min())
        longest_length = float(weights.sum())
        rows = max(math.ceil(math.log2(longest_length / shortest_length)), 0) + 1
        part = self._part("lengths", 1)
        noisy = self._published(part, users_by_length(weights, shortest_length, rows))
        lengths = Lengths.of(shortest_length, noisy, part.deviation)

        typical = float(np.median(popularity[~head]))
        noise_of_typical = deviation_of(self._square("counts")) ** 2 / typical
        of_head = float((1 / popularity[head]).sum())
        errors = ClipErrors(noise_of_typical, of_head, lost=deviation_of(self._square("clipped")))
        # known keys may have few users, too few to be seen here: one key alone is never clipped
        least_clip = float(weights.max()) if self.least <= 1 else 0.0
        return best_clip(lengths, errors, least_clip)

    # ---- counts and clipped: the users of each key

    def _users(self, weighing: Weighing, totals: Totals) -> Counted[Noise]:
        """Publish the counts and what was clipped of them, and put back what was clipped."""
        kept = self._weighted(self._part("counts", weighing.length), totals.users, weighing)
        lost = self._lost("clipped", totals.clipped, weighing.clip, weighing.clip.lost)
        share = share_lost(weighing, lost, kept)
        users = put_back(weighing, share, kept)
        users = Measured(users.values, with_least(users, self.least))
        clipped = float(weighing.each_key(share.values).mean())
        return Counted(users, self.noise, share, clipped, errors_in_common(weighing, share))

    def _amount(
        self, amount: Amount, weighing: Weighing, totals: AmountTotals, counted: Counted[Noise]
    ) -> MeasuredAmount:
        """Publish the three parts of an amount, and estimate its sums."""
        clip = weighing.clip
        sums, clipped, over = amount.parts
        kept = self._weighted(self._part(sums, weighing.length), totals.sums, weighing)
        lost = self._lost(clipped, totals.clipped, clip, clip.lost)
        beyond = self._lost(over, totals.beyond, clip, weighing.few.most)
        parts = Parts(kept, lost, beyond)
        return estimated_amount(amount, weighing, parts, counted.share, counted.users.values)

    # ---- a part

    def _square(self, part: str) -> Fraction:
        return square_of(self.budget, part)

    def _part(self, name: str, length: int) -> Part:
        return Part.of(self.budget, name, length)

    def _published(self, part: Part, kernel: Kernel) -> Ints:
        """Sum a vector of which a user changes at most the length of the part, and add noise."""
        return self.noise.published(part, self.engine.summed(self.pairs, kernel))

    def _weighted(self, part: Part, total: Ints, weighing: Weighing) -> Measured:
        """Publish what was summed by key, and divide it by the weights of keys."""
        published = self.noise.published(part, total)
        return Measured(published / weighing.weights, part.deviation / weighing.weights)

    def _lost(self, name: str, total: Ints, clip: Clip, most: float) -> Lost:
        """Publish what was lost, of which one user may lose `most` in all; `total` is in fine units of that."""
        square = self._square("clipped")  # of the users: amounts have units that are no finer
        units = lost_units(square)
        part = self._part(name, lost_length(square, clip.groups))
        fine_of_unit = -(-FINE // units)
        noisy = self.noise.published(part, total // fine_of_unit)
        unit = most / units
        middles = (noisy + 0.5).astype(np.float64)  # totals were rounded down
        return Lost(middles * unit, part.deviation * unit)


def with_least(users: Measured, least: float) -> Floats:
    """Lengthen errors so that intervals of 95 % end no lower than those of `_SMALL` times the least number of users.

    Few keys with fewer users are discovered. So the smallest measured numbers mostly belong to keys with about `least`
    users, or to keys with more users and much negative noise.
    """
    missing = np.maximum(_SMALL * least - users.values, 0.0)
    return users.errors + missing / TABLE_MARGIN
