"""Counts of discovered keys: what one user changes, by brute force; and numbers that hold for the true users."""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpsample import Privacy
from dpsample.accounting.choice import capacity_cap
from dpsample.accounting.counts import COUNT_PARTS, COUNT_SHARE
from dpsample.accounting.discovery import Discovery
from dpsample.accounting.lengths import _LOST_UNITS
from dpsample.accounting.user_budget import UserBudget
from dpsample.accounting.user_proof import certify_users
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.randomness import StreamCoins
from dpsample.private.sources.source import Source
from dpsample.private.users.counts import count_users
from dpsample.private.users.kernel import FINE, all_sums
from dpsample.private.users.keys_each import FewKeys
from dpsample.private.users.lengths import most_lost
from dpsample.private.users.vectors import SCALE_BITS, factors_of, users_by_keys, users_by_length, weighted_counts
from dpsample.private.users.weighing import Clip, Weighing, groups_of, head_of

CASES = 2000

ONE_KEY = FewKeys(1.0, 1.0, 1.0, 1.0)


def pairs_of(rng: np.random.Generator, users: int, keys: int) -> tuple[np.ndarray, np.ndarray]:
    matrix = rng.random((users, keys)) < rng.uniform(0.1, 0.9, (users, 1))
    user, key = np.nonzero(matrix)
    return user.astype(np.int64), key.astype(np.int64)


def summed(kernel: Any, user: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Two batches, cut between users."""
    if not len(user):
        return np.asarray(kernel(iter(())))
    middle = int(np.searchsorted(user, user[len(user) // 2]))
    halves = [(user[:middle], key[:middle]), (user[middle:], key[middle:])]
    batches = [(np.unique(own, return_index=True)[1], keys) for own, keys in halves if len(own)]
    return np.asarray(kernel(iter(batches)))


@pytest.mark.parametrize("seed", range(4))
def test_a_user_changes_each_part_by_no_more_than_its_noise_is_made_for(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reached = 0
    for _ in range(CASES // 4):
        users, keys = int(rng.integers(1, 6)), int(rng.integers(1, 9))
        user, key = pairs_of(rng, users, keys)
        without = user != rng.integers(users)
        popularity = rng.uniform(5, 300, keys)
        head = head_of(popularity, float(rng.uniform(1, 8)))
        assert not head.all()

        def change(kernel: Any) -> np.ndarray:
            changed: np.ndarray = summed(kernel, user, key) - summed(kernel, user[without], key[without])  # noqa: B023
            return changed

        rows = max(keys - 1, 1).bit_length() + 1
        weights = np.where(head, 0.0, 1 / popularity)
        base = float(weights[~head].min())
        lengths = max(math.ceil(math.log2(float(weights.sum()) / base)), 0) + 1
        for histogram in (users_by_keys(rows), users_by_length(weights, base, lengths)):
            changed = change(histogram)
            assert np.abs(changed).sum() <= 1
            assert changed.min(initial=0) >= 0
        whole = np.maximum(np.round(rng.uniform(5, 60) / np.sqrt(popularity)), 1).astype(np.int64)
        own = int((whole[head] ** 2).sum())
        most = int(rng.integers(1, 60))
        assert (change(weighted_counts(whole, most)) ** 2).sum() <= most
        square = base * float(rng.uniform(0.5, 4))
        longest = base * 2.0 ** rng.integers(0, 4)
        groups = int(rng.integers(1, 4))
        clip = Clip(square, longest, most_lost(square, longest), groups)
        of_keys = groups_of(popularity, head, groups)
        weighing = Weighing(popularity, head, whole, math.isqrt(most + own), most, clip, of_keys, ONE_KEY)
        changed, lost = np.split(change(all_sums(weighing)), [keys])
        assert (changed**2).sum() <= most + own
        assert (changed[~head] ** 2).sum() <= most
        reached += (changed[~head] ** 2).sum() > 0.7 * most
        changed = lost
        assert changed.min() >= 0
        assert changed.sum() <= FINE
        # totals are rounded: whatever the others add, a coordinate moves by less than one more
        others = rng.integers(0, 1 << 40, groups)
        step = -(-FINE // _LOST_UNITS)
        moved = (others + changed) // step - others // step
        assert math.sqrt(float((moved**2).sum())) <= _LOST_UNITS + math.isqrt(groups) + 1
    assert reached > CASES // 40  # lengths were clipped often enough for this to say something


def test_factors_are_the_largest_whole_ones() -> None:
    rng = np.random.default_rng(1)
    for most in (1, 37, 65536, 1 << 24):
        limit = most << 2 * SCALE_BITS
        squares = most + np.concatenate([rng.integers(1, 200, 500), rng.integers(1, 1 << 36, 500)])
        exact = [math.isqrt(limit // s) for s in squares.tolist()]
        assert factors_of(squares, most).tolist() == exact


def test_kernels_against_plain_loops() -> None:
    rng = np.random.default_rng(2)
    user, key = pairs_of(rng, 40, 12)
    popularity = rng.uniform(5, 300, 12)
    head = head_of(popularity, 6.0)
    weights = np.maximum(np.round(60 / np.sqrt(popularity)), 1).astype(np.int64)
    most, unit = 60, 5
    plain = np.zeros(12, np.int64)  # first counts: equal weights, and no head
    expected = np.zeros(12, np.int64)
    sizes, lengths = np.zeros(6, int), np.zeros(12, int)
    tail = np.where(head, 0.0, 1 / popularity)
    base = float(tail[~head].min())
    for u in np.unique(user):
        own = key[user == u]
        sizes[(len(own) - 1).bit_length()] += 1
        length = tail[own].sum()
        if length > 0:
            lengths[max(math.ceil(math.log2(length / base) - 1e-6), 0)] += 1
        square = sum(int(weights[k]) ** 2 for k in own if not head[k])
        plain[own] += min(unit << 16, unit * math.isqrt((most << 32) // (unit**2 * len(own)))) >> 16
        for k in own.tolist():
            w = int(weights[k])
            if head[k] or square <= most:
                expected[k] += w
            else:
                expected[k] += w * math.isqrt((most << 32) // square) >> 16
    clip = Clip(2 * base, 8 * base, most_lost(2 * base, 8 * base), 1)
    weighing = Weighing(popularity, head, weights, 60, most, clip, np.zeros(12, np.int64), ONE_KEY)
    assert summed(all_sums(weighing), user, key)[:12].tolist() == expected.tolist()
    assert summed(weighted_counts(np.full(12, unit), most), user, key).tolist() == plain.tolist()
    assert summed(users_by_keys(6), user, key).tolist() == sizes.tolist()
    assert summed(users_by_length(tail, base, 12), user, key).tolist() == lengths.tolist()


def test_head_and_groups() -> None:
    popularity = np.array([10.0, 21, 30, 40, 100, 1000, 5000, 9000])
    head = head_of(popularity, 4.0)
    # up to an eighth of four keys of median weight, which lies between 1 / 100 and 1 / 40
    assert 1 / 9000 + 1 / 5000 + 1 / 1000 <= (1 / 40 + 1 / 100) / 4 < 1 / 9000 + 1 / 5000 + 1 / 1000 + 1 / 100
    assert np.flatnonzero(head).tolist() == [5, 6, 7]
    assert groups_of(popularity, head, 2).tolist() == [0, 0, 0, 1, 1, 0, 0, 0]
    assert not head_of(np.array([50.0]), 1.0).any()
    assert not head_of(np.full(5, 50.0), 1e6).all()


def drawn(seed: int, users: int, mean: float, keys: int, zipf: float) -> pa.Table:
    rng = np.random.default_rng(seed)
    each = rng.geometric(1 / mean, users)
    p = np.arange(1, keys + 1) ** -zipf
    pairs = np.unique(np.repeat(np.arange(users), each) * keys + rng.choice(keys, each.sum(), p=p / p.sum()))
    return pa.table({"user": pairs // keys, "key": pairs % keys})


@pytest.mark.parametrize(
    ("users", "mean", "keys", "zipf", "least"), [(20_000, 4, 3000, 1.1, 30), (1500, 60, 2000, 0.9, 100)]
)
def test_intervals_hold_the_true_number_of_users(users: int, mean: float, keys: int, zipf: float, least: int) -> None:
    """Twelve fixed draws of coins, all keys from a number of users on: 94 % or more hold, and errors are no larger.

    Keys of these data lose alike. Errors allow for keys that do not (`test_user_lengths.py`), so more hold.
    """
    table = drawn(3, users, mean, keys, zipf)
    truth = np.bincount(table["key"].to_numpy(), minlength=keys)
    wanted = np.flatnonzero(truth >= least)
    budget = UserBudget(Privacy(1, 1e-6), counts=COUNT_SHARE)
    source = Source(table, "key", user="user")
    held, scaled = [], []
    with DuckDB() as engine:
        for n in range(12):
            coins = StreamCoins(n.to_bytes(32, "big"))
            measured = count_users(engine, source, pa.table({"key": wanted}), least, budget, coins)
            scaled.append((measured.values - truth[wanted]) / measured.errors)
            held.append(np.abs(scaled[-1]) <= 1.96)
    assert np.mean(held) >= 0.94
    assert 0.4 <= np.std(np.concatenate(scaled)) <= 1.1
    assert abs(np.mean(np.concatenate(scaled))) < 0.3
    assert len(wanted) > 60


def test_the_noise_is_that_of_the_budget_and_is_proved() -> None:
    table = drawn(4, 3000, 4, 300, 1.1)
    budget = UserBudget(Privacy(1, 1e-6), look=Fraction(1, 50), counts=COUNT_SHARE)
    with DuckDB() as engine:
        source = Source(table, "key", user="user")
        measured = count_users(engine, source, pa.table({"key": [0, 1, 2]}), 20, budget, StreamCoins(bytes(32)))
        nothing = count_users(
            engine, source, pa.table({"key": pa.array([], pa.int64())}), 20, budget, StreamCoins(bytes(32))
        )
    assert len(nothing.values) == 0
    each = budget.one_key()
    discovery = Discovery("one-key", 1, capacity_cap(each))
    for counts in (measured.counts, nothing.counts):
        certificate = certify_users(discovery, each, counts, budget.left)
        squares = [float(stage.square / budget.square) for stage in certificate.stages]
        assert squares == pytest.approx([float(share) for share in COUNT_PARTS.values()], rel=1e-9)
        assert sum(stage.delta for stage in certificate.stages) <= 5 * budget.aside


def test_nothing_is_left_behind_when_counting_fails() -> None:
    table = drawn(4, 300, 4, 30, 1.1)
    budget = UserBudget(Privacy(1, 1e-6), counts=COUNT_SHARE)

    class Failing(DuckDB):
        def summed(self, pairs: Any, kernel: Any) -> Any:
            raise RuntimeError

    source, wanted = Source(table, "key", user="user"), pa.table({"key": [0]})
    with Failing() as engine:
        with pytest.raises(RuntimeError):
            count_users(engine, source, wanted, 20, budget, StreamCoins(bytes(32)))
        assert not list(Path(engine._temp.path).rglob("*spool*"))
