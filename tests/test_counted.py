"""Answers from releases of counted users: against plain arithmetic, and over many draws of normal noise.

Releases are made from known numbers of users and seeded noise: no secret coins are needed. A test of a rate has a band
of 5.4 deviations, so that another seed would fail with odds below 1e-7; of 600
draws, a rate that is lower than its level by 0.1 is found with a probability above 0.98; of 400 draws, one by 0.12.
"""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dpsample import KeepAll, Privacy, Release, read_release
from dpsample.accounting.discovery import COUNT_PARTS, COUNT_SHARE, LOOK_SHARE, Counts, Discovery, Look, UserBudget
from dpsample.accounting.discovery import capacity_cap
from dpsample.accounting.totals import Total
from dpsample.accounting.vectors import VectorNoise
from dpsample.presentation.report import content_of, display, make_report
from dpsample.questions.counted_keys import CountedKeys
from dpsample.release.rows import counted
from dpsample.release.terms import Terms
from dpsample.scheme.reporting import frequency_reaching
from support import refused, run
from test_report import blocks, data, seen

BUDGET = UserBudget(Privacy(5, "1e-5"), look=LOOK_SHARE, counts=COUNT_SHARE)
LOOK = Look((9000, 500, 20, 0, 0, 0, 0, 0, 0, 0, 0), BUDGET.privacy.share(LOOK_SHARE))
NOISE = tuple(VectorNoise.of(BUDGET.square * share, BUDGET.aside, 1) for share in COUNT_PARTS.values())
DRAWS = 600
BAND = 5.4  # deviations


def terms_of(clipped: float = 0.0, total: Total | None = None, keys: tuple[str, ...] = ("key",), **more: Any) -> Terms:
    """The terms of a release of counted users."""
    each = BUDGET.one_key()
    discovery = Discovery("one-key", 1, capacity_cap(each), LOOK)
    given: dict[str, Any] = {"discovery": discovery, "counts": Counts(NOISE, clipped), "per_key": each, **more}
    return Terms(BUDGET.privacy, KeepAll(), keys, unit="user", total=total, **given)


def made(values: Any, errors: Any, names: list[str] | None = None, **options: Any) -> Release:
    """A release of these numbers; keys are in the order of the numbers."""
    names = [f"k{n:05d}" for n in range(len(values))] if names is None else names
    table = counted(pa.table({"key": pa.array(names, pa.string())}), np.array(values, float), np.array(errors, float))
    return Release(table, terms_of(**options))


FEW = {"ant": (120.5, 4.0), "asp": (-3.0, 5.0), "bee": (40.0, 3.0), "cat": (43.0, 4.0), "cow": (9.25, 2.0)}


@pytest.fixture
def few() -> Release:
    return made(*zip(*FEW.values(), strict=True), names=list(FEW))


def z(level: float, keys: int = 1) -> float:
    return float(stats.norm.isf((1 - level) / (2 * keys)))


# One by one, against plain arithmetic.


def test_a_sum_adds_what_was_measured(few: Release) -> None:
    answer = few.sum("key <> 'asp'", level=0.9)
    error = math.sqrt(4**2 + 3**2 + 4**2 + 2**2)
    assert answer.value == pytest.approx(212.75)
    assert answer.standard_error == pytest.approx(error)
    assert (answer.low, answer.high) == pytest.approx((212.75 - z(0.9) * error, 212.75 + z(0.9) * error))
    assert answer.keys == 4
    assert answer.guaranteed
    assert answer.detection_threshold == frequency_reaching(0.5, few.sampling, few.per_key)
    assert "keys that were not reported are not in this sum" in answer.notes[0]


def test_a_sum_has_weights_and_groups(few: Release) -> None:
    answer = few.sum(weight={"ant": 2.0, "bee": -1.0})
    assert answer.value == pytest.approx(201.0)
    assert answer.standard_error == pytest.approx(math.hypot(8, 3))
    groups = few.sum(by="left(key, 1)")
    assert groups.groups["left(key, 1)"].to_pylist() == ["a", "b", "c"]
    assert groups["c"].value == pytest.approx(52.25)
    assert groups["c"].standard_error == pytest.approx(math.hypot(4, 2))
    assert few.sum(where=[]).keys == 0
    assert len(few.sum("key > 'z'", by="key")) == 0


def test_a_sum_is_not_below_one_user_for_each_key(few: Release) -> None:
    answer = few.sum(["asp"])
    assert (answer.value, answer.low) == (1.0, 1.0)
    assert answer.high == pytest.approx(-3 + z(0.95) * 5)
    assert few.sum(["asp"], weight={"asp": -1.0}).value == pytest.approx(3.0)


def test_what_clipping_has_in_common_is_not_hidden() -> None:
    release = made([100.0, 200.0], [5.0, 6.0], clipped=0.2)
    assert not release.sum().guaranteed
    assert any("have in common" in note for note in release.sum().notes)
    assert not release.mean().guaranteed
    for answer in (release.sum(["k00000"]), release.each_key()["k00000"], release.count_keys(at_least=150)):
        assert answer.guaranteed


def test_nothing_is_said_of_keys_that_were_not_reported(few: Release) -> None:
    for answer in (few.sum(["zebra"]), few.count_keys(["zebra"], at_least=3)):
        assert (answer.value, answer.low, answer.high, answer.guaranteed) == (0.0, 0.0, math.inf, False)
        assert "no reported key is selected" in answer.notes[0]
    assert math.isnan(few.mean(["zebra"]).value)
    assert not few.quantiles(0.5, ["zebra"])[0.5].guaranteed
    assert len(few.top(3, ["zebra"])) == 0


def test_reported_keys_are_a_lower_bound(few: Release) -> None:
    answer = few.count_keys()
    assert (answer.value, answer.low, answer.high, answer.guaranteed) == (5.0, 5.0, math.inf, False)
    assert "how many others there are is unknown" in answer.notes[0]
    assert few.sum(of="keys", by="left(key, 1)")["c"].value == 2


def test_keys_of_at_least_so_many_users(few: Release) -> None:
    answer = few.count_keys(at_least=42)
    laws = {key: stats.truncnorm((0.5 - m) / e, math.inf, m, e) for key, (m, e) in FEW.items()}
    p = np.array([law.sf(41.5) for law in laws.values()])
    assert answer.value == pytest.approx(p.sum(), abs=1e-9)
    assert answer.standard_error == pytest.approx(math.sqrt((p * (1 - p)).sum()))
    assert (answer.low, answer.high) == (1, 3)  # at 2.58 errors: ant; bee and cat are possible
    assert answer.guaranteed
    assert few.count_keys(at_least=1).low == 5
    weighted = few.count_keys(at_least=42, weight={"ant": 3.0, "bee": -2.0, "cat": 1.0, "cow": 7.0})
    assert (weighted.low, weighted.high) == (1.0, 4.0)
    assert few.sum(of="at-least:42") == answer


def test_means(few: Release) -> None:
    answer = few.mean("key <> 'asp'")
    error = math.sqrt(4**2 + 3**2 + 4**2 + 2**2) / 4
    assert answer.value == pytest.approx(212.75 / 4)
    assert answer.standard_error == pytest.approx(error)
    assert (answer.low, answer.high) == pytest.approx((212.75 / 4 - z(0.95) * error, 212.75 / 4 + z(0.95) * error))
    weighted = few.mean(["ant", "bee"], weight={"ant": 1.0, "bee": 3.0})
    assert weighted.value == pytest.approx((120.5 + 120) / 4)
    above = few.mean(at_least=20)  # ant, bee and cat, with certainty
    assert above.value == pytest.approx(203.5 / 3, rel=1e-5)  # asp and cow hardly count
    reach = z(0.975) * math.sqrt(41) / 3
    assert (above.low, above.high) == pytest.approx((203.5 / 3 - reach, 203.5 / 3 + reach))
    assert few.mean(by="left(key, 1)")["c"].value == pytest.approx(52.25 / 2)
    assert math.isnan(few.mean(at_least=1000).value)


def test_a_mean_allows_for_keys_that_are_possibly_too_small(few: Release) -> None:
    answer = few.mean(at_least=42)  # ant with certainty, bee and cat possibly
    reach = z(0.975) * math.sqrt(41)
    means = [(120.5 + sum(extra), 1 + len(extra)) for extra in ([], [40.0], [43.0], [40.0, 43.0])]
    assert answer.low == pytest.approx(max(min((total - reach) / n for total, n in means), 42))
    assert answer.high == pytest.approx(max((total + reach) / n for total, n in means))
    assert answer.low <= answer.value <= answer.high


def test_each_key_at_95_percent_is_what_the_file_says(few: Release) -> None:
    answer, table = few.each_key(), few.table
    for name in ("low", "high"):
        assert answer.numbers[name].to_pylist() == table[name].to_pylist()
    assert answer.numbers["value"].to_pylist() == [120.5, 1.0, 40.0, 43.0, 9.25]
    assert answer.numbers["standard_error"].to_pylist() == table["standard_error"].to_pylist()
    half = few.each_key(["ant", "asp"], level=0.5)
    assert half["ant"].low == math.floor(120.5 - z(0.5) * 4)
    assert half["asp"].low == 1
    assert half["asp"].high == 1


def test_top_lists(few: Release) -> None:
    answer = few.top(2)
    assert answer.groups["key"].to_pylist() == ["ant", "cat"]
    p = answer.numbers["probability"].to_pylist()
    assert p[0] == pytest.approx(1)
    assert p[1] == pytest.approx(stats.norm.cdf((43 - 40) / 5), abs=0.02)  # 1,000 draws, and the law of the other
    # bee competes too: 2 of 3
    level = 1 - 0.05 * 2 / 3
    assert answer["cat"].low == math.floor(43 - z(level) * 4)
    assert answer["cat"].high == math.ceil(43 + z(level) * 4)
    assert few.top(9).numbers["probability"].to_pylist() == [1.0] * 5
    assert few.top(2) is not answer
    assert few.top(2).numbers.equals(answer.numbers)


def test_probabilities_of_a_top_list_add_up() -> None:
    generator = np.random.default_rng(5)
    release = made(generator.uniform(50, 80, 200), generator.uniform(3, 9, 200))
    probability = release.top(200).numbers["probability"].to_numpy()
    assert (probability == 1).all()
    shares = np.array([release.top(k).numbers["probability"].to_numpy().sum() / k for k in (1, 20, 100)])
    assert ((shares > 0) & (shares < 1)).all()
    # against draws of all numbers
    m, e = (release.table[name].to_numpy() for name in ("measured", "standard_error"))
    drawn = m + e * generator.standard_normal((40_000, 200))
    inside = (np.argsort(np.argsort(-drawn, axis=1), axis=1) < 20).mean(0)
    answer = release.top(20)
    for key, probability in zip(answer.groups["key"].to_pylist(), answer.numbers["probability"], strict=True):
        assert probability.as_py() == pytest.approx(inside[int(key[1:])], abs=0.05)


def test_ranks_and_comparisons(few: Release) -> None:
    answer = few.rank("bee")
    above = stats.norm.cdf([80.5 / 5, -43 / math.hypot(3, 5), 3 / 5, -30.75 / math.hypot(3, 2)])
    assert answer.value == pytest.approx(1 + above.sum(), abs=1e-2)
    assert (answer.low, answer.high) == (2, 3)
    assert answer.guaranteed
    assert few.rank("ant") == few.rank("ant", level=0.95)
    assert (few.rank("ant").low, few.rank("ant").high) == (1, 1)
    assert few.compare("cat", "bee") == pytest.approx(stats.norm.cdf(3 / 5))
    assert few.compare("bee", "cat") == pytest.approx(1 - stats.norm.cdf(3 / 5))
    assert few.compare("cat", "cat") == 0
    with refused("the key was reported"):
        few.rank("zebra")
    with refused("the key is among the selected ones"):
        few.rank("ant", ["bee"])


def test_quantiles(few: Release) -> None:
    answer = few.quantiles([0, 0.5, 0.6, 1])
    reach = {key: z(0.95, 5) * e for key, (_, e) in FEW.items()}
    lows = sorted(max(math.floor(m - reach[key]), 1) for key, (m, _) in FEW.items())
    highs = sorted(max(math.ceil(m + reach[key]), 1) for key, (m, _) in FEW.items())
    assert answer.numbers["low"].to_pylist() == [lows[n] for n in (0, 2, 2, 4)]
    assert answer.numbers["high"].to_pylist() == [highs[n] for n in (0, 2, 2, 4)]
    assert answer.numbers["value"].to_pylist() == [1.0, 40.0, 40.0, 120.5]
    assert few.quantiles(0.5, at_least=20)[0.5].value == 43.0
    assert few.quantiles(0.5, at_least=20)[0.5].low >= 20
    assert math.isnan(few.quantiles(0.5, at_least=1000)[0.5].value)


def test_the_remainder_needs_a_total(few: Release) -> None:
    with refused("the remainder follows from a total"):
        few.other()
    total = Total(1000, Fraction(1, 4), Fraction(16))
    release = made([100.0, 200.0], [3.0, 4.0], total=total)
    answer = release.other(0.9)
    low, high = total.interval(0.95)
    assert answer.value == 700
    assert (answer.low, answer.high) == pytest.approx((low - 300 - z(0.95) * 5, high - 300 + z(0.95) * 5))
    assert answer.share == pytest.approx(0.7)
    assert "each user with up to 16 keys" in answer.notes[0]
    assert not answer.guaranteed
    assert "other() estimates them" in release.sum().notes[0]


@pytest.mark.parametrize("of", ["log1p", "power:2", "capped:10", np.sqrt])
def test_other_measures_are_refused(of: Any, few: Release) -> None:
    with refused("a release of counted users has sums of frequency, keys and at-least"):
        few.sum(of=of)
    with refused("a mean over counted users is that of the frequency"):
        few.mean(of=of)


def test_bad_questions_are_refused(few: Release) -> None:
    with refused("counted users have one estimator"):
        few.sum(estimator="mle")
    with refused("a level is above 0"):
        few.each_key(level=1)
    with refused("k is an integer"):
        few.top(0)
    with refused("at_least is a frequency"):
        few.mean(at_least=0)
    with refused("quantiles are shares"):
        few.quantiles([2.0])
    with refused("weights are finite"):
        few.sum(weight={"ant": 1e200})
    with refused("a mean with at_least has weights from 0 on"):
        few.mean(at_least=20, weight={"ant": 2.0, "bee": -1.0})
    with refused("attributes have columns that differ"):
        few.sum(attributes=pa.table({"key": ["ant"], "measured": [1]}))


def test_a_key_column_may_be_called_token() -> None:
    table = counted(pa.table({"token": ["a", "b"]}), np.array([30.0, 50.0]), np.array([2.0, 3.0]))
    release = Release(table, terms_of(keys=("token",)))
    assert release.sum("token = 'a'").value == 30


def test_a_release_without_keys_answers() -> None:
    release = made([], [])
    assert release.sum().keys == 0
    assert release.count_keys().value == 0
    assert len(release.each_key()) == len(release.top(3)) == 0
    assert math.isnan(release.quantiles(0.5)[0.5].value)
    assert "No key was reported" in seen(make_report(release).html)


# Over many draws.


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


def plainly_selected(release: Release, where: Any, attributes: Any) -> CountedKeys:
    """The keys of a list, or all: without DuckDB, which takes most of the time of a question to a small release."""
    rows = np.arange(len(release)) if where is None else np.array([int(key[1:]) for key in where])
    return CountedKeys.of(release, rows, np.ones(len(rows)))


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_that_depend_on_the_order_hold(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Top lists hold on average over the listed keys; quantiles and ranks hold, and are conservative."""
    monkeypatch.setattr(CountedKeys, "selected", plainly_selected)
    generator = np.random.default_rng(8)
    users, errors = truths(generator, kind)
    draws, k, shares = 400, 5, [0.1, 0.5, 0.9]
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
