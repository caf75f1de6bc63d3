"""What each noise is added to, in whole releases: one user more changes it by at most what the noise is made for.

A release is drawn; then that of a neighbour, in which each part publishes the numbers that it published in the first.
So all later parts see the same, as in the proof, and the true numbers of both are compared: squares of their
differences sum to at most `length`**2 of the noise that the certificate names. Coins are fixed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsample
from dpsample import Privacy, Release, SampleSize
from dpsample.accounting.totals import Total
from dpsample.private.users import parts
from dpsample.release.terms import Terms
from dpsample.scheme.sampling import Ints
from draws import Change, WatchedEngine, watched_noise

pytestmark = pytest.mark.usefixtures("fixed_coins")
KEYS = 24


@dataclass(frozen=True)
class Part:
    """A part of the counts: its true numbers, what is published, and the change that its noise is made for."""

    name: str
    true: Ints
    published: Ints
    length: int


@contextmanager
def parts_of_counts(publish: list[Part] | None = None) -> Iterator[list[Part]]:
    """Note the parts of the counts; with `publish`, each publishes the same as the part of another release."""
    with_noise, found = parts.Noisy.published, list[Part]()

    def noted(noise: parts.Noisy, part: parts.Part, total: Ints) -> Ints:
        published = with_noise(noise, part, total)
        if publish is not None:
            published = publish[len(found)].published
        found.append(Part(part.name, total.copy(), published.copy(), noise._tables[part.name].length))
        return published

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts.Noisy, "published", noted)
        yield found


def users(seed: int) -> pa.Table:
    """60 to 300 users, of whom some have one key, and some all; rows repeat, and prices go beyond the clip."""
    rng = np.random.default_rng(seed)
    chance = rng.choice([0.05, 0.2, 0.6, 1.0], size=int(rng.integers(60, 300)))
    has = rng.random((len(chance), KEYS)) < chance[:, None] * (1 + np.arange(KEYS)) ** -float(rng.choice([0, 0.7]))
    user, key = np.nonzero(has)
    times = rng.integers(1, 5, len(user))
    user, key = np.repeat(user, times), np.repeat(key, times)
    return pa.table({"key": key, "user": user, "price": rng.integers(-9, 10, len(user))})


def without_one(table: pa.Table, seed: int) -> pa.Table:
    """The table without one user: of those with the most rows, or of any."""
    rows = np.bincount(table["user"].to_numpy())
    gone = int(rows.argmax()) if seed % 2 else int(np.flatnonzero(rows)[seed % np.count_nonzero(rows)])
    return table.filter(pa.array(table["user"].to_numpy() != gone))


def released(table: pa.Table, **options: Any) -> Release:
    with WatchedEngine() as engine:
        return dpsample.release(table, "key", user="user", engine=engine, **options)


@pytest.mark.parametrize("amounts", [False, True])
def test_one_user_changes_each_part_by_at_most_the_length_of_its_noise(amounts: bool) -> None:
    """Known keys alone, so that both releases count the same keys. In 24 pairs the bound is nearly reached."""
    options: dict[str, Any] = {"privacy": Privacy(4, 1e-6), "keys": list(range(KEYS)), "only_known": True}
    if amounts:
        options |= {"rows": 2, "sums": {"price": 6}}
    largest: dict[str, float] = {}
    for seed in range(24):
        table = users(seed)
        with parts_of_counts() as parts:
            released(table, **options)
        with parts_of_counts(parts) as others:
            released(without_one(table, seed), **options)
        for one, other in zip(parts, others, strict=True):
            assert one.length == other.length
            change = float(np.sum((one.true - other.true).astype(np.float64) ** 2)) / one.length**2
            assert change <= 1, (seed, one.name)
            largest[one.name] = max(largest.get(one.name, 0.0), change)
    assert min(largest[name] for name in ("keys per user", "lengths")) == 1
    assert min(largest[name] for name in ("first counts", "counts")) > 0.8, largest
    assert min(largest.values()) > 0, largest  # what users have clipped is far from the most that is possible


@pytest.mark.parametrize("seed", range(6))
def test_one_user_changes_each_total_by_at_most_its_sensitivity(seed: int) -> None:
    """Totals without their noise, of releases with the same coins. At epsilon 20 a look sees who has many keys."""
    with watched_noise(Change(none=True)):
        for options in (
            {"max_keys_per_user": 3, "total": "0.2", "size": SampleSize(5)},
            {"keys_only": True, "total": "0.1"},
        ):
            table = users(seed)
            pair = [released(data, privacy=Privacy(20, 1e-6), **options) for data in (table, without_one(table, seed))]
            one, other = (release.terms for release in pair)
            for total, less in zip(totals_of(one), totals_of(other), strict=True):
                assert abs(Fraction(total.value) - Fraction(less.value)) <= total.sensitivity
            if one.discovery is not None and other.discovery is not None:
                look, looked = one.discovery.look, other.discovery.look
                assert look is not None
                assert looked is not None
                assert np.abs(np.subtract(look.users, looked.users)).sum() == 1
                assert look.most > 1


def totals_of(terms: Terms) -> list[Total]:
    """All totals that terms state."""
    weights = None if terms.bought.size is None else terms.bought.size.weights
    return [total for total in (weights, terms.bought.total, terms.bought.dropped) if total is not None]
