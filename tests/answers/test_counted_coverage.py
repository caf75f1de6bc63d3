"""Intervals of counted users hold, over many draws of normal noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from counted import made
from dpsample.answers.counted import CountedEvidence
from dpsample.answers.counted_keys import CountedKeys
from dpsample.answers.question import Question

DRAWS = 300
BAND = 5.4  # deviations


def truths(generator: Any, kind: str) -> tuple[Any, Any]:
    """Numbers of users, and errors of their measurements."""
    if kind == "equal":
        return np.full(40, 60.0), np.full(40, 12.0)
    if kind == "close":
        return np.arange(30, 70).astype(float), generator.uniform(2, 15, 40)
    users = np.floor(3000 / np.arange(1, 41)).clip(8)
    return users, 1.5 * np.sqrt(users)


KINDS = ("equal", "close", "zipf")


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_sums_and_keys_hold(kind: str) -> None:
    """Normal: the share of intervals that hold is 0.9 but for rounding and for the bound of one user."""
    generator = np.random.default_rng(7)
    users, errors = truths(generator, kind)
    n = len(users)
    names = [f"{draw:04d}-{key:02d}" for draw in range(DRAWS) for key in range(n)]
    values = np.tile(users, DRAWS) + np.tile(errors, DRAWS) * generator.standard_normal(n * DRAWS)
    release = made(values, np.tile(errors, DRAWS), names=names)
    sums = release.sum(by="left(key, 4)", level=0.9)
    low, high = (sums.numbers[name].to_numpy() for name in ("low", "high"))
    held = ((low <= users.sum()) & (users.sum() <= high)).mean()
    assert abs(held - 0.9) <= BAND * math.sqrt(0.9 * 0.1 / DRAWS)
    each = release.each_key(level=0.9)
    low, high = (each.numbers[name].to_numpy() for name in ("low", "high"))
    held = ((low <= np.tile(users, DRAWS)) & (np.tile(users, DRAWS) <= high)).mean()
    assert held >= 0.9 - BAND * math.sqrt(0.9 * 0.1 / (n * DRAWS))
    assert held <= 0.99  # rounded outwards to whole users
    assert (low >= 1).all()
    for least in (20, 45, 60, 61):
        counts = release.count_keys(at_least=least, by="left(key, 4)", level=0.9)
        truth = (users >= least).sum()
        low, high, value = (counts.numbers[name].to_numpy() for name in ("low", "high", "value"))
        assert ((low <= truth) & (truth <= high)).mean() >= 0.9 - BAND * math.sqrt(0.9 * 0.1 / DRAWS)
        assert ((low <= value) & (value <= high)).all()
        if truth:
            means = release.mean(at_least=least, by="left(key, 4)", level=0.9)
            low, high = (means.numbers[name].to_numpy() for name in ("low", "high"))
            truth = users[users >= least].mean()
            assert ((low <= truth) & (truth <= high)).mean() >= 0.9 - BAND * math.sqrt(0.9 * 0.1 / DRAWS)
        sums = release.sum(at_least=least, by="left(key, 4)", level=0.9)
        low, high = (sums.numbers[name].to_numpy() for name in ("low", "high"))
        truth = users[users >= least].sum()
        assert ((low <= truth) & (truth <= high)).mean() >= 0.9 - BAND * math.sqrt(0.9 * 0.1 / DRAWS)


def plainly_selected(evidence: CountedEvidence, question: Question) -> CountedKeys:
    """The keys of a list, or all: without DuckDB, which takes most of the time of a question to a small release."""
    where: Any = question.where
    rows = np.arange(len(evidence.table)) if where is None else np.array([int(key[1:]) for key in where])
    return CountedKeys.of(evidence.table, evidence.terms, rows, np.ones(len(rows)))


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_that_depend_on_the_order_hold(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Top lists hold on average over the listed keys; quantiles and ranks hold, and are conservative."""
    monkeypatch.setattr(CountedEvidence, "keys", plainly_selected)
    generator = np.random.default_rng(8)
    users, errors = truths(generator, kind)
    draws, k, shares = 200, 5, [0.1, 0.5, 0.9]
    band = BAND * math.sqrt(0.9 * 0.1 / draws)
    expected = np.sort(users)[[math.ceil(p * len(users)) - 1 for p in shares]]
    ordered = np.sort(users[users >= 45])
    above = ordered[math.ceil(0.5 * len(ordered)) - 1]
    listed, quantile, upper, ranked = [], [], [], []
    for _ in range(draws):
        release = made(users + errors * generator.standard_normal(len(users)), errors)
        top = release.top(k, level=0.9)
        places = [int(key[1:]) for key in top.groups["key"].to_pylist()]
        low, high = (top.numbers[name].to_numpy() for name in ("low", "high"))
        listed.append(((low <= users[places]) & (users[places] <= high)).mean())
        answer = release.quantiles(shares, level=0.9)
        low, high = (answer.numbers[name].to_numpy() for name in ("low", "high"))
        quantile.append((low <= expected) & (expected <= high))
        part = release.quantiles(0.5, level=0.9, at_least=45)[0.5]
        upper.append(part.low <= above <= part.high)
        rank = release.rank("k00007", level=0.9)
        ranked.append(rank.low <= 1 + (users > users[7]).sum() <= rank.high)
    assert np.mean(listed) >= 0.9 - band
    assert (np.mean(quantile, axis=0) >= 0.9 - band).all()
    assert np.mean(upper) >= 0.9 - band
    assert np.mean(ranked) >= 0.9 - band
