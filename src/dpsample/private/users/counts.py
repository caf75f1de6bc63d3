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

# measured numbers below this many times the detection threshold often belong to keys with more users. With 1.5, 91 %
# of the intervals of such numbers held on the hardest data of benchmarks/user_coverage.py; with 2, 93 %
_SMALL = 2.0
_FIGURES = 6  # decimal places of what a release states of clipping: more would be below its noise


@dataclass(frozen=True, eq=False)
class Counted(Generic[Noise]):
    """Numbers of users of each key, with their errors; the type of `noise` says whether they may be released.

    share    the share of users that clipping took away, by group of keys; it was put back
    clipped  the same, averaged over keys
    groups   the public record of the errors that keys have in common, by group
    """

    users: Measured
    noise: Noise
    share: ShareLost
    clipped: float
    groups: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class MeasuredUsers:
    """Noisy numbers of users of each key, with their errors, and amounts; `counts` is the public record of them."""

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
        return _of_no_keys(budget)
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
    """Return the true numbers of users as a release would estimate them, and their errors; for a plan. NOT private.

    All parts are as in a release, but nothing is drawn, no noise is certified, and no amounts are summed. Pairs that
    were put aside with `after` are not read again.
    """
    if not keys.num_rows:
        return np.zeros(0), np.zeros(0)
    with _pairs_of(engine, source, keys, after) as pairs:
        stage = Stage(engine, pairs, keys.num_rows, float(least), budget, Exact())
        counted, _ = stage.counted()
        return counted.users.values, counted.users.errors


def released(
    counted: Counted[Noisy], amounts: tuple[MeasuredAmount, ...], budget: UserBudget
) -> MeasuredUsers:
    """Return the counts as a release has them. Those without noise are of another type, and are refused by mypy."""
    noise = counted.noise.tables(budget)
    clipped = round(counted.clipped, _FIGURES)
    records = tuple(amount.record for amount in amounts)
    record = Counts(noise, clipped, counted.groups, records)
    return MeasuredUsers(counted.users.values, counted.users.errors, record, amounts)


def _of_no_keys(budget: UserBudget) -> MeasuredUsers:
    """Return the counts of a release in which no key was discovered: it states the noise that it would have drawn."""
    no_values = np.zeros(0)
    noise = []
    for name in budget.parts:
        square = square_of(budget, name)
        noise.append(VectorNoise.of(square, budget.aside, 1))
    records = tuple(Clipped(amount) for amount in budget.amounts)
    amounts = tuple(MeasuredAmount(no_values, no_values, record) for record in records)
    record = Counts(tuple(noise), clipped=0.0, amounts=records)
    return MeasuredUsers(no_values, no_values, record, amounts)


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
    """The stage of a release, or of a forecast, that counts users: part by part, in a fixed order.

    pairs   the users and keys that are counted, once each; private
    keys    the number of keys that are counted
    least   the number of users from which keys are discovered, about
    budget  what each part may spend
    noise   adds noise to each part, or none for a forecast
    """

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
        kernel = all_sums(weighing, amounts)
        totals = Totals.of(self.engine.summed(self.pairs, kernel), weighing, len(amounts))
        counted = self._users(weighing, totals)
        measured = []
        for amount, totals_of_amount in zip(amounts, totals.amounts, strict=True):
            measured.append(self._amount(amount, weighing, totals_of_amount, counted))
        return counted, tuple(measured)

    # ---- keys per user, first counts, lengths: how users are weighted

    def _weighing(self) -> Weighing:
        """Publish the first three parts: how users are weighted and scaled down follows from them."""
        keys_per_user = self._keys_per_user()
        keys_each = self._clip_of_first_counts(keys_per_user)
        popularity = self._first_counts(keys_each)
        head = head_of(popularity, keys_each)
        clip = self._clip(popularity, head)
        length = vector_length(self._square("counts"))
        return weighing_of(popularity, head, clip, keys_per_user.few(), length)

    def _keys_per_user(self) -> KeysPerUser:
        """Publish a histogram of users by their number of keys; row b has those with up to ``2**b`` keys."""
        largest_row = max(self.keys - 1, 1).bit_length()
        part = self._part("keys per user", 1)
        noisy = self._published(part, users_by_keys(largest_row + 1))
        estimated = numbers_of_users(noisy, part.deviation)
        return KeysPerUser(estimated.values)

    def _clip_of_first_counts(self, keys_per_user: KeysPerUser) -> float:
        """Choose with how many keys a user counts fully in the first counts, for a key of typical popularity."""
        typical = max(keys_per_user.pairs / self.keys, self.least)
        deviation = deviation_of(self._square("first counts"))
        return keys_per_user.clip(typical, deviation)

    def _first_counts(self, keys_each: float) -> Floats:
        """Publish a first estimate n of the users of each key: at least its own noise, and at least `least`.

        Each user counts with up to `keys_each` keys fully.
        """
        square = self._square("first counts")
        unit = first_unit(square, keys_each)
        length = first_length(square, keys_each)
        weights = np.full(self.keys, unit, np.int64)
        part = self._part("first counts", length)
        noisy = self._published(part, weighted_counts(weights, length**2))
        deviation = length / unit * deviation_of(square)
        return np.maximum(noisy / unit, max(deviation, self.least))

    def _clip(self, popularity: Floats, head: Flags) -> Clip:
        """Publish a histogram of users by length, and choose the length at which users are clipped.

        The square of a user's length is the sum of 1 / n over the user's keys outside of the head.
        """
        weights = np.where(head, 0.0, 1 / popularity)
        shortest = float(weights[~head].min())
        longest = float(weights.sum())
        doublings = math.ceil(math.log2(longest / shortest))
        rows = max(doublings, 0) + 1
        part = self._part("lengths", 1)
        noisy = self._published(part, users_by_length(weights, shortest, rows))
        lengths = Lengths.of(shortest, noisy, part.deviation)

        typical = float(np.median(popularity[~head]))
        noise_of_typical = deviation_of(self._square("counts")) ** 2 / typical
        of_head = float((1 / popularity[head]).sum())
        errors = ClipErrors(noise_of_typical, of_head, lost=deviation_of(self._square("clipped")))
        # known keys may have few users, too few to be seen here: one key alone is never clipped
        shortest_clip = float(weights.max()) if self.least <= 1 else 0.0
        return best_clip(lengths, errors, shortest_clip)

    # ---- counts and clipped: the users of each key

    def _users(self, weighing: Weighing, totals: Totals) -> Counted[Noise]:
        """Publish the counts and what clipping took away from them, and put back what it took."""
        part = self._part("counts", weighing.length)
        kept = self._weighted(part, totals.users, weighing)
        lost = self._lost("clipped", totals.clipped, weighing.clip, weighing.clip.lost)
        share = share_lost(weighing, lost, kept)
        users = put_back(weighing, share, kept)
        users = Measured(users.values, with_least(users, self.least))
        clipped = float(weighing.each_key(share.values).mean())
        groups = errors_in_common(weighing, share)
        return Counted(users, self.noise, share, clipped, groups)

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
        """Sum the vectors of users, none of them longer than the part's length, and add noise."""
        total = self.engine.summed(self.pairs, kernel)
        return self.noise.published(part, total)

    def _weighted(self, part: Part, total: Ints, weighing: Weighing) -> Measured:
        """Add noise to a weighted sum of each key, and divide it by the weight of the key."""
        noisy = self.noise.published(part, total)
        return Measured(noisy / weighing.weights, part.deviation / weighing.weights)

    def _lost(self, name: str, total: Ints, clip: Clip, most: float) -> Lost:
        """Publish what clipping took away; one user may lose `most` in all.

        `total` counts in steps of ``most / FINE``. It is rounded down to coarser units before noise is added, so that
        tables of noise are short (docs/theory.md, section 10, Sensitivities).
        """
        square = self._square("clipped")  # of the users: amounts have units that are no finer
        units = lost_units(square)
        part = self._part(name, lost_length(square, clip.groups))
        fine_of_unit = -(-FINE // units)
        noisy = self.noise.published(part, total // fine_of_unit)
        unit = most / units
        middles = (noisy + 0.5).astype(np.float64)  # totals were rounded down
        return Lost(middles * unit, part.deviation * unit)


def with_least(users: Measured, least: float) -> Floats:
    """Lengthen errors so that intervals of 95 % reach at least `_SMALL` times the least number of users.

    Few keys with fewer users are discovered. So the smallest measured numbers mostly belong to keys with about `least`
    users, or to keys with more users and much negative noise.
    """
    missing = np.maximum(_SMALL * least - users.values, 0.0)
    return users.errors + missing / TABLE_MARGIN
