"""How long users are, where they are clipped, and what is put back: by formulas, by brute force, and on uneven data."""

import importlib.util
import math
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpsample import Privacy
from dpsample.accounting.amounts import Amount
from dpsample.accounting.counts import count_share
from dpsample.accounting.user_budget import UserBudget
from dpsample.private.randomness import StreamCoins
from dpsample.private.users.counts import Stage, with_least
from dpsample.private.users.keys_each import FewKeys
from dpsample.private.users.lengths import ClipErrors, Lengths, best_clip, few_users, most_lost, numbers_of_users
from dpsample.private.users.parts import Measured, Noisy, Part
from dpsample.private.users.put_back import UNEVEN, Lost, share_lost, unevenness
from dpsample.private.users.weighing import Clip, Weighing
from places import ROOT


def benchmark() -> Any:
    """The benchmark of the same intervals: its folder is no package."""
    path = ROOT / "benchmarks" / "user_coverage.py"
    spec = importlib.util.spec_from_file_location("user_coverage", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["user_coverage"] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


COVERAGE = benchmark()


# ---- numbers of users by length


@pytest.mark.parametrize("noisy", [-80.0, -5.0, 0.0, 3.0, 40.0, 500.0])
@pytest.mark.parametrize("mean", [0.5, 20.0, 1000.0])
def test_few_users_against_an_integral(noisy: float, mean: float) -> None:
    """The mean and the deviation of the density exp(-n / mean - (noisy - n)**2 / 800) over n > 0, summed finely."""
    deviation = 20.0
    n = (np.arange(400_000) + 0.5) / 400_000 * (max(noisy, 0.0) + 12 * deviation)
    logs = -n / mean - (noisy - n) ** 2 / (2 * deviation**2)
    law = np.exp(logs - logs.max())
    law /= law.sum()
    expected = float(n @ law)
    spread = math.sqrt(float((n - expected) ** 2 @ law))
    assert few_users(noisy, deviation, mean) == pytest.approx((expected, spread), rel=1e-3, abs=1e-3)


def test_few_users_far_below_the_noise_are_as_many_as_was_thought() -> None:
    users, error = few_users(-1e4, 10.0, 0.01)
    assert 0 < users <= 0.01
    assert 0 <= error <= 0.011


def test_rows_beyond_the_noise_are_not_left_out() -> None:
    """Two rows stand out; the others are not seen one by one, and still have users, fewer and fewer, with errors."""
    noisy = np.array([5000, 2000, 60, -10, 12, 5, 0, 0])
    found = numbers_of_users(noisy, 40.0)
    users, errors = found.values, found.errors
    assert users[:2].tolist() == [5000.0, 2000.0]
    assert errors[:2].tolist() == [40.0, 40.0]
    assert (users[2:] > 0).all()
    assert (errors > 0).all()
    assert (errors[2:] <= 40.0).all()
    assert (np.diff(users[3:]) < 0).all()


def test_what_long_users_lose_beyond_the_measured_part() -> None:
    """A user of squared length 6 who is clipped at 1 loses 6 - sqrt(6), of which 4 - 2 is measured; so 10 users do."""
    lengths = Lengths(1.0, np.array([0.0, 0.0, 0.0, 10.0]), np.array([0.0, 0.0, 0.0, 3.0]))
    assert lengths.middles.tolist() == [1.0, 1.5, 3.0, 6.0]
    [beyond] = lengths.beyond(1.0, np.array([4.0]))
    assert beyond.tolist() == pytest.approx([0.0, 0.0, 0.0, 6 - math.sqrt(6) - 2])
    assert lengths.share_lost(1.0) == pytest.approx((6 - math.sqrt(6)) / 6)
    assert float(most_lost(1.0, 4.0)) == 2.0


def test_where_to_clip_is_where_the_errors_are_least() -> None:
    """All lengths to clip at, and all longest ones: a plain loop over the formula of docs/theory.md."""
    rng = np.random.default_rng(3)
    for _ in range(30):
        rows = int(rng.integers(1, 9))
        users = rng.uniform(0, 1000, rows) / 2 ** np.arange(rows)
        lengths = Lengths(0.01, users, rng.uniform(1, 50, rows))
        errors = ClipErrors(float(rng.uniform(0.1, 10)), float(rng.uniform(0, 0.02)), float(rng.uniform(5, 100)))
        middles = [max(0.75 * 0.01 * 2**b, 0.01) for b in range(rows)]
        total = sum(n * m for n, m in zip(users, middles, strict=True))
        found = {}
        for step in range(4 * (rows - 1) + 1):
            square = 0.01 * 2 ** (step / 4)
            for row in range(rows):
                longest = max(0.01 * 2**row, square)
                each = [m - math.sqrt(square * m) if m > square else 0.0 for m in middles]
                measured = longest - math.sqrt(square * longest)
                beyond = [max(loss - measured, 0.0) for loss in each]
                share = sum(n * loss for n, loss in zip(users, each, strict=True)) / total
                variance = (square + errors.own) * errors.noise + UNEVEN**2 * share * (1 - share)
                variance += (measured * errors.lost / total) ** 2
                variance += sum((e * b / total) ** 2 for e, b in zip(lengths.errors, beyond, strict=True))
                unseen = sum(n * b for n, b in zip(users, beyond, strict=True))
                found[variance / (1 - share) ** 2] = square, longest, unseen
        clip = best_clip(lengths, errors)
        assert (clip.square, clip.longest) == pytest.approx(found[min(found)][:2])
        assert clip.unseen == pytest.approx(found[min(found)][2], abs=1e-9)
        assert clip.lost == pytest.approx(clip.longest - math.sqrt(clip.square * clip.longest), abs=1e-12)


def test_keys_that_are_known_are_clipped_no_shorter_than_one_of_them() -> None:
    lengths = Lengths(0.01, np.array([500.0, 0.0, 0.0]), np.full(3, 5.0))
    assert best_clip(lengths, ClipErrors(100.0, 0.0, 10.0), shortest=0.033).square >= 0.033
    assert best_clip(lengths, ClipErrors(100.0, 0.0, 10.0)).square == 0.01


# ---- what is put back


def test_unevenness() -> None:
    assert unevenness(0.5) == pytest.approx(UNEVEN / 2)
    assert unevenness(np.array([0.0, 0.1, 1.0, -0.2])).tolist() == pytest.approx([0.0, UNEVEN * 0.3, 0.0, 0.0])


def test_what_was_not_measured_is_put_back() -> None:
    """Two groups of 100 keys of 50 users each, of whom 40 were counted.

    Of what was lost, 200 keys' worth of 50 users, 1 / 5, half was measured, and half estimated.
    """
    groups = np.repeat([0, 1], 100)
    popularity, head = np.full(200, 50.0), np.zeros(200, bool)
    clip = Clip(0.1, 0.2, 0.05, 2, unseen=20.0, unseen_error=4.0)
    weighing = Weighing(popularity, head, np.full(200, 10), 100, 10_000, clip, groups, FewKeys(1.0, 1.0, 1.0, 1.0))
    lost = Lost(np.array([10.0, 10.0]), 3.0)
    share = share_lost(weighing, lost, Measured(np.full(200, 40.0), np.full(200, 5.0)))
    # kept: 100 keys of 40 / 50; measured as lost: 10; estimated: half of 20; all: 100
    assert share.values.tolist() == pytest.approx([0.2, 0.2])
    assert share.unseen.tolist() == pytest.approx([10 / 80] * 2)
    assert share.unseen_errors.tolist() == pytest.approx([2 / 80] * 2)
    # the share is t / (t + k): its slopes are k / 100**2 and t / 100**2; k is a sum of 100 errors of 5 / 50
    expected = math.hypot(math.hypot(3.0, 2.0) * 80, 1.0 * 20) / 100**2
    assert share.errors.tolist() == pytest.approx([expected] * 2)


def test_intervals_of_small_numbers_end_no_lower_than_those_of_keys_just_discovered() -> None:
    values, errors = np.array([-30.0, 10.0, 29.0, 39.0, 400.0]), np.full(5, 10.0)
    ends = values + 1.959963985 * with_least(Measured(values, errors), 20.0)
    assert ends.tolist() == pytest.approx([59.6, 59.6, 59.6, 59.6, 419.6], abs=0.01)


# ---- sensitivity: all parts at once, with anything published before


class Recorder(Noisy):
    """Notes what each part sums, and publishes something else instead, as a noise that is as unlikely as you like."""

    def __init__(self, seed: int) -> None:
        super().__init__(StreamCoins(bytes(32)))
        self.seen: list[tuple[str, Any, int]] = []
        self.generator = np.random.default_rng(seed)
        self.kind = seed % 4

    def published(self, part: Part, total: Any) -> Any:
        self.seen.append((part.name, total.copy(), part.length))
        n, rng = len(total), self.generator
        published = [
            rng.integers(-20, 2000, n),
            (rng.pareto(0.7, n) * 100).clip(0, 1e9).astype(np.int64) - 50,
            rng.integers(0, 2, n) * rng.integers(1, 10**7, n),
            np.full(n, int(rng.integers(-5, 5000))),
        ]
        return published[self.kind].astype(np.int64)


@pytest.mark.parametrize("seed", range(4))
def test_a_user_changes_no_part_by_more_than_its_length_whatever_was_published(seed: int) -> None:
    rng, worst = np.random.default_rng(seed), dict[str, float]()
    for n in range(60):
        keys, users = int(rng.choice([1, 2, 7, 20, 150])), int(rng.choice([1, 2, 5, 40]))
        amounts = (Amount(None, Fraction(0), Fraction(3)), Amount("price", Fraction(-100), Fraction(100)))[
            : int(rng.integers(0, 3))
        ]
        privacy = Privacy(str(rng.choice([0.3, 1.0, 4.0])), "1e-6")
        budget = UserBudget(privacy, counts=count_share(len(amounts)), amounts=amounts)
        least = float(rng.choice([1, 15, 60]))
        data = [a_user(rng, keys, amounts) for _ in range(users)]
        without = int(rng.integers(users))
        parts = []
        for batches in ([batch_of(data)], [batch_of([one]) for n, one in enumerate(data) if n != without]):
            recorder = Recorder(4 * n + seed)
            stage = Stage(COVERAGE.Arrays(), batches, keys, least, budget, recorder)  # type: ignore[arg-type]
            stage.counted(amounts)
            parts.append(recorder.seen)
        assert [(part, length) for part, _, length in parts[0]] == [(part, length) for part, _, length in parts[1]]
        for (part, with_user, length), (_, others, _) in zip(*parts, strict=True):
            changed = sum(int(c) ** 2 for c in with_user - others) / length**2
            assert changed <= 1
            worst[part] = max(worst.get(part, 0.0), changed)
    assert worst.keys() >= {"keys per user", "first counts", "lengths", "counts", "clipped"}
    assert min(worst[part] for part in ("keys per user", "first counts", "lengths", "counts")) > 0.9
    assert worst["clipped"] > 0.2


def a_user(rng: np.random.Generator, keys: int, amounts: tuple[Amount, ...]) -> tuple[Any, ...]:
    """Some or all keys, a mark, and amounts within what is looked at; rows are at least 1."""
    own = np.sort(rng.choice(keys, int(rng.choice([1, min(3, keys), keys])), replace=False))
    values = []
    for amount in amounts:
        low, high = amount.looked_at
        values.append(rng.integers(1 if amount.column is None else low, high + 1, own.size))
    return own, np.full(own.size, rng.integers(0, 2**32), np.uint32), *values


def batch_of(users: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    sizes = [len(user[0]) for user in users]
    starts = np.cumsum([0, *sizes[:-1]])
    keys, marks, *amounts = (np.concatenate(column) for column in zip(*users, strict=True))
    return (starts, keys, marks, *amounts) if amounts else (starts, keys)


# ---- intervals on uneven data; seeds are fixed, so nothing fails by chance


@pytest.mark.parametrize("method", ["one-key", "many-keys"])
@pytest.mark.parametrize("shape", ["few users, 0.6", "few users, 1.1", "few users, 1.1, taste"])
def test_few_users_of_many_keys(shape: str, method: str) -> None:
    """Before long users were put back 53 to 83 % of the intervals held."""
    line = COVERAGE.measured((shape, None, 1.0, method, 30))
    assert line.keys > 6
    assert line.hold >= 0.92
    assert abs(line.bias) < 0.5


SMALLER: dict[str, dict[str, Any]] = {
    "long users prefer some keys": {"users": 40_000, "exponent": 1.5, "taste": 0.7},
    "long users avoid some keys": {"users": 40_000, "exponent": 1.1, "taste": -0.25},
    "keys come in clusters": {"users": 40_000, "exponent": 2.0, "run": 8},
}


@pytest.mark.parametrize("method", ["one-key", "many-keys"])
@pytest.mark.parametrize("name", SMALLER)
def test_keys_that_lose_more_than_others(name: str, method: str) -> None:
    pairs = COVERAGE.Shape(**SMALLER[name]).drawn()
    line = COVERAGE.measured((name, pairs, 1.0, method, 8))
    assert line.keys > 100
    assert line.hold >= 0.94
    assert min(line.reported, line.true) >= 0.92
