"""What one user adds to sums of amounts: by brute force, on small adversarial data, and against plain loops.

Data have fixed seeds: nothing here fails by chance.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpsample.accounting.amounts import LOOKED_AT, Amount, amounts_of
from dpsample.private.users.kernel import FINE, all_sums, rounded, thresholds_of
from dpsample.private.users.vectors import SCALE_BITS, UserRows
from dpsample.private.users.weighing import Weighing
from weighing import weighing_of

# clips of one side, of both sides alike, and of two different ends
SUMMED = amounts_of(3, {"price": 100, "fee": (0, 100), "debt": (-8, 0), "change": ("-6.25", 100)})


def batch_of(rng: np.random.Generator, users: int, keys: int) -> tuple[np.ndarray, ...]:
    """User numbers, positions, marks, and amounts in units: within the clip, at its ends, beyond what is looked at."""
    user, key = np.nonzero(rng.random((users, keys)) < rng.uniform(0.1, 0.95, (users, 1)))
    marks = rng.integers(0, 1 << 32, users)
    values = [rng.integers(1, LOOKED_AT * 3 + 1, len(user))]
    for amount in SUMMED[1:]:
        low, high = (2 * end for end in amount.looked_at)
        ends = rng.choice([-1, 1, *amount.ends, *amount.looked_at, low, high], len(user))
        spread = np.rint(rng.uniform(-1.2, 1.2, len(user)) * rng.choice([100, amount.whole, high - low], len(user)))
        values.append(np.where(rng.random(len(user)) < 0.5, ends, spread).astype(np.int64))
    return user.astype(np.int64), key.astype(np.int64), marks[user], *values


def without(batch: tuple[np.ndarray, ...], user: int) -> tuple[np.ndarray, ...]:
    """The same without a user; others have other numbers then, and the same marks."""
    kept = batch[0] != user
    users, *others = (column[kept] for column in batch)
    return (users - (users > user), *others)


def parts_of(weighing: Weighing, batch: tuple[np.ndarray, ...]) -> list[list[np.ndarray]]:
    """Those of each amount; numbers of users come before."""
    user, *columns = batch
    starts = np.unique(user, return_index=True)[1]
    total = all_sums(weighing, SUMMED)(iter([(starts, *columns)] if len(user) else []))
    keys, edge = len(weighing.head), len(weighing.head) + weighing.clip.groups
    return [np.split(own, [keys, edge]) for own in total[edge:].reshape(len(SUMMED), -1)]


@pytest.mark.parametrize("seed", range(4))
def test_a_user_changes_each_part_by_no_more_than_its_noise_is_made_for(seed: int) -> None:
    """If a user has twice the weight that is allowed, or changes the rounding of others, this fails."""
    rng, reached = np.random.default_rng(seed), np.zeros((len(SUMMED), 3), int)
    for _ in range(200):
        users, keys = int(rng.integers(1, 6)), int(rng.integers(1, 9))
        weighing, batch = weighing_of(rng, keys), batch_of(rng, users, keys)
        both = [parts_of(weighing, one) for one in (batch, without(batch, int(rng.integers(users))))]
        for place, (full, less) in enumerate(zip(*both, strict=True)):
            sums, lost, beyond = (a - b for a, b in zip(full, less, strict=True))
            assert (sums**2).sum() <= weighing.length**2
            assert np.abs(lost).sum() <= FINE
            assert np.abs(beyond).sum() <= FINE
            assert beyond.min() >= 0
            large = (sums**2).sum() > 0.5 * weighing.length**2, np.abs(lost).sum() > FINE / 4, beyond.sum() > FINE / 8
            reached[place] += large
    assert (reached > 3).all()  # bounds were met often enough for this to say something


def clipped_share(amount: Amount, value: int) -> Fraction:
    """A clipped amount, in units of the larger end."""
    unit = amount.reach / amount.whole
    return max(amount.low, min(value * unit, amount.high)) / amount.reach


def excess_share(amount: Amount, value: int) -> tuple[int, Fraction]:
    """Which end an amount exceeds, 0 or 1, and by how much of the seven clips that are looked at."""
    number = value * amount.reach / amount.whole
    side = int(number > 0)
    end = amount.high if side else -amount.low
    return side, min(max(abs(number) - end, Fraction(0)) / (7 * end), Fraction(1)) if end else Fraction(0)


def test_sums_against_plain_loops() -> None:
    """Exact fractions of each user and key, rounded by their thresholds, or toward zero if that is too long."""
    truncated = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        weighing, batch = weighing_of(rng, 7), batch_of(rng, 20, 7)
        users, keys, marks, *values = batch
        thresholds, found = thresholds_of(marks, keys).tolist(), parts_of(weighing, batch)
        for amount, value, (sums, _, _) in zip(SUMMED, values, found, strict=True):
            expected = np.zeros(7, np.int64)
            for user in np.unique(users):
                places = np.flatnonzero(users == user).tolist()
                square = sum(int(weighing.weights[keys[p]]) ** 2 for p in places if not weighing.head[keys[p]])
                factor = Fraction(min(1 << 16, math.isqrt((weighing.most << 32) // max(square, 1))), 1 << 16)
                exact = []
                for p in places:
                    share = clipped_share(amount, int(value[p]))
                    exact.append(int(weighing.weights[keys[p]]) * share * (1 if weighing.head[keys[p]] else factor))
                added = [math.floor(y + Fraction(thresholds[p], 1 << 16)) for p, y in zip(places, exact, strict=True)]
                if sum(a * a for a in added) > weighing.length**2:
                    added, truncated = [math.trunc(y) for y in exact], truncated + 1
                np.add.at(expected, keys[places], added)
            assert sums.tolist() == expected.tolist()
    assert truncated > 5


def test_what_is_beyond_against_plain_loops() -> None:
    """By end: up to seven clips beyond it, less for users with many keys; nothing beyond an end that is 0."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        weighing, batch = weighing_of(rng, 7), batch_of(rng, 20, 7)
        users, _, _, *values = batch
        each = np.bincount(users)
        for amount, value, (_, _, beyond) in zip(SUMMED, values, parts_of(weighing, batch), strict=True):
            expected = [0.0, 0.0]
            for user, own in zip(users.tolist(), value.tolist(), strict=True):
                side, share = excess_share(amount, own)
                expected[side] += float(share) * min(1 / weighing.few.most, 1 / each[user])
            assert (beyond / FINE).tolist() == pytest.approx(expected, abs=1e-6)
            if amount.one_sided:
                assert beyond[int(amount.high == 0)] == 0


def test_roundings_cancel_out() -> None:
    """20,000 users with 0.013 of a unit each, which alone would be rounded to 0: the sum has an error below 1.5 %."""
    users = np.arange(20_000)
    marks, one = (users * 2_654_435_761) % (1 << 32), 1 << 26
    for share in (0.013, -0.013, 0.9):
        clipped = np.full(len(users), round(share * one))
        scaled, ones = np.full(len(users), 1 << SCALE_BITS), np.ones(len(users), int)
        added = rounded(scaled * clipped, one, thresholds_of(marks, users % 50), UserRows(users, users % 50, ones), 8)
        assert added.sum() == pytest.approx(share * len(users), abs=60)  # one deviation is 16 to 42
        assert set(added.tolist()) <= {math.floor(share), math.floor(share) + 1}
