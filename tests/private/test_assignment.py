"""Serial assignment: each user gives one unit to one key, and one user more changes one key, by one unit."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assigning import Small, deferred, placed, run, sizes_of
from dpsample.private import assignment
from dpsample.private.assignment import Assignment, Sizes
from dpsample.scheme.sampling import Ints


@pytest.mark.parametrize(("datasets", "users", "keys"), [(60_000, 5, 5), (30_000, 7, 4), (10_000, 4, 9)])
def test_a_user_more_changes_one_key_by_one_unit(datasets: int, users: int, keys: int) -> None:
    """100,000 datasets, each without each of its users, in batches that end anywhere."""
    small = Small(datasets, users, keys, seed=users)
    rng = np.random.default_rng(1)
    ends = np.cumsum(np.exp(rng.uniform(0, 11, 2000)).astype(int))
    units = small.units(ends[ends < len(small.codes)].tolist())
    np.testing.assert_array_equal(units, small.oracle())
    change = units[:, :1] - units[:, 1:]
    assert set(np.unique(change)) == {0, 1}
    assert change.sum(axis=2).max() == 1
    # there is something to see: units move along chains, so that another key than the removed user's own changes
    assert (change.sum(axis=2) == 0).any()


def test_batches_of_every_size() -> None:
    small = Small(40, 6, 5, seed=9)
    expected = small.oracle()
    for size in (1, 2, 3, 7, 50):
        np.testing.assert_array_equal(small.units(range(size, len(small.codes), size)), expected)


@given(st.data())
def test_the_pass_against_two_oracles(data: st.DataObject) -> None:
    """Also with repeated pairs, which change nothing."""
    users, keys = range(data.draw(st.integers(1, 12))), range(data.draw(st.integers(1, 8)))
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(users), st.sampled_from(keys)), min_size=1, max_size=60))
    cap = data.draw(st.integers(1, 5))
    oracle = placed(pairs, cap, users, keys)
    assert deferred(pairs, cap, users, keys) == oracle
    owners, codes = np.array(sorted(pairs)).T
    begins = np.append(True, owners[1:] != owners[:-1])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(codes)), max_size=8)))
    room = run(begins, codes, np.full(len(keys), cap), cuts)
    assert {key: cap - left for key, left in enumerate(room.tolist()) if left < cap} == oracle


def test_a_chain_of_all_users_moves_one_unit() -> None:
    """User n has the keys n and n + 1: without the first user, every other one changes keys."""
    n = 20_000
    begins, codes = np.tile([True, False], n), np.repeat(np.arange(n), 2) + np.tile([0, 1], n)
    with_first = run(np.append(True, begins), np.append(0, codes), np.ones(n + 1, np.int64), [5, 4001])
    without = run(begins, codes, np.ones(n + 1, np.int64), [4000])
    assert with_first.tolist() == [0] * (n + 1)
    assert without.tolist() == [0] * n + [1]


def test_few_pairs_are_left_to_the_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The small first pieces are what the filters need: of a million pairs less than a tenth is left."""
    rng = np.random.default_rng(2)
    owners = np.sort(rng.integers(0, 100_000, 1_000_000))
    codes = np.minimum(rng.random(len(owners)) ** -1.5, 50_000).astype(np.int64)
    order = np.lexsort((codes, owners))
    users, codes = owners[order], codes[order]
    looped, plain = [], Assignment._place_one_by_one

    def counted(self: Assignment, users: Ints, codes: Ints, room: Ints, last: int) -> None:
        looped.append(len(users))
        plain(self, users, codes, room, last)

    monkeypatch.setattr(Assignment, "_place_one_by_one", counted)
    Assignment().place(np.append(True, users[1:] != users[:-1]), codes, np.full(50_001, 18))
    assert 0 < sum(looped) < 100_000


@given(st.lists(st.integers(1, 70), min_size=1, max_size=30), st.lists(st.integers(0, 500), max_size=6))
def test_sizes_wherever_batches_end(numbers: list[int], ends: list[int]) -> None:
    begins = np.concatenate([np.arange(n) == 0 for n in numbers])
    sizes = Sizes()
    for start, end in pairwise([0, *sorted(min(end, len(begins)) for end in ends), len(begins)]):
        sizes.add(begins[start:end])
    oracle = sizes_of((user, key) for user, n in enumerate(numbers) for key in range(n))
    assert sizes.counts()[0].tolist() == oracle
    assert sizes.counts()[1].sum() == sum(numbers)
    assert sum(oracle) == len(numbers)


def test_classes_of_sizes_are_exact() -> None:
    for m in (1, 2, 3, 4, 5, 8, 9, 2**31, 2**31 + 1, 2**52, 2**52 + 1):
        found = assignment._classified(np.array([m]))
        assert np.flatnonzero(found[0]).tolist() == np.flatnonzero(found[1]).tolist() == [(m - 1).bit_length()]
        assert found[1].sum() == m
        assert found.shape == (2, 64)


def test_keys_are_added_up_to_a_power_of_two() -> None:
    sizes = Sizes()
    for n in (1, 2, 3, 4, 5, 17, 100):
        sizes.add(np.arange(n) == 0)
    users, keys = sizes.counts()
    made = assignment.Assigned(None, users, keys, units=7)  # type: ignore[arg-type]
    for most in (1, 4, 16, 64, 256):
        assert made.kept(most) == sum(min(n, most) for n in (1, 2, 3, 4, 5, 17, 100))
