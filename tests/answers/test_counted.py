"""Answers from releases of counted users: against plain arithmetic, and over many draws of normal noise.

Releases are made from known numbers of users and seeded noise: no secret coins are needed. A test of a rate has a band
of 5.4 deviations, so that another seed would fail with odds below 1e-7; of 600
draws, a rate that is lower than its level by 0.1 is found with a probability above 0.98; of 400 draws, one by 0.13.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from counted import made, terms_of
from dpsample import Release
from dpsample.accounting.totals import Total
from dpsample.answers.counted_keys import CountedKeys, Reached, most_false
from dpsample.presentation.report import make_report
from dpsample.release.rows import counted
from dpsample.scheme.reporting import frequency_reaching, reporting_probabilities
from reports import seen
from support import refused

FEW = {"ant": (120.5, 4.0), "asp": (-3.0, 5.0), "bee": (40.0, 3.0), "cat": (43.0, 4.0), "cow": (9.25, 2.0)}


@pytest.fixture
def few() -> Release:
    values, errors = zip(*FEW.values(), strict=True)
    return made(values, errors, names=list(FEW))


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
    assert answer.high == math.ceil(-3 + z(0.95) * 5)  # the interval of the key, which is of whole users
    assert few.sum(["asp"], weight={"asp": -1.0}).value == -1.0  # of the same one user


def test_errors_that_keys_have_in_common_add_up() -> None:
    """Three keys of a group, one of another, one that was not clipped: within a group errors add, not their squares."""
    shared = ((10.0, 0.02), (150.0, 0.1), (1000.0, 0.0))
    release = made([100.0, 120.0, 140.0, 200.0, 5000.0], [5.0, 5.0, 5.0, 6.0, 7.0], groups=shared)
    common = [0.02 * (100 + 120 + 140), 0.1 * 200]
    error = np.sqrt(3 * 25 + 36 + 49 + common[0] ** 2 + common[1] ** 2)
    answer = release.sum()
    assert answer.guaranteed
    assert answer.standard_error == pytest.approx(error)
    assert answer.high == pytest.approx(5560 + z(0.95) * error)
    assert release.mean().standard_error == pytest.approx(error / 5)


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


def ends(keys: list[tuple[float, float]], c: float) -> tuple[list[int], list[int]]:
    """Lower and upper ends of intervals of c errors."""
    lows = [max(math.floor(m - c * e), 1) for m, e in keys]
    return lows, [max(math.ceil(m + c * e), 1) for m, e in keys]


@cache
def unlikely(misjudged: int, keys: int, c: float, tail: float) -> bool:
    """Whether so many of these keys, or more, are misjudged by c errors with a small probability."""
    return misjudged > 0 and bool(stats.binom.sf(misjudged - 1, keys, stats.norm.sf(c)) <= tail * (1 + 1e-9))


def number_bounds(keys: list[tuple[float, float]], least: int, level: float) -> tuple[int, int]:
    """Bounds of the number of keys from `least` on: all numbers that no count of keys makes unlikely."""
    n, tail = len(keys), (1 - level) / 6
    possible = set(range(n + 1))
    for c in (1.0, 2.0, float(stats.norm.isf(tail / n))):
        lows, highs = ends(keys, c)
        above, below = sum(low >= least for low in lows), sum(high < least for high in highs)
        for number in range(n + 1):
            too_high, too_low = above - number, below - (n - number)  # at least so many keys are misjudged
            if unlikely(too_high, n - number, c, tail) or unlikely(too_low, number, c, tail):
                possible.discard(number)
    return min(possible), max(possible)


def order_bounds(keys: list[tuple[float, float]], smallest: int, level: float) -> tuple[float, float]:
    """Bounds of the n-th smallest number: those that bounds of numbers of keys leave."""
    n = len(keys)
    reaches = (1.0, 2.0, float(stats.norm.isf((1 - level) / 6 / n)))
    users = {1} | {end for c in reaches for part in ends(keys, c) for end in part}  # where numbers of keys change
    low = max(x for x in users if number_bounds(keys, x, level)[0] >= n - smallest + 1)
    high = min(x for x in users if number_bounds(keys, x + 1, level)[1] <= n - smallest)
    return float(low), float(high)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_bounds_of_numbers_of_keys(level: float) -> None:
    generator = np.random.default_rng(2)
    for n in (1, 2, 7, 40):
        values, errors = generator.uniform(1, 60, n), generator.uniform(1, 9, n)
        keys = list(zip(values.tolist(), errors.tolist(), strict=True))
        reached = Reached(CountedKeys(np.arange(n), np.ones(n), values, errors, (), np.ones(n, int)), level)
        for least in (1, 2, 15, 30, 31, 59, 90):
            assert (reached.fewest(least), reached.most(least)) == number_bounds(keys, least, level)
        if n <= 7:
            for place in range(n):
                assert (reached.low(place), reached.high(place)) == order_bounds(keys, n - place, level)


@pytest.mark.parametrize(("keys", "p", "tail"), [(300, 0.1587, 0.004), (300, 0.0228, 1e-9), (60, 0.5, 0.3)])
def test_how_many_may_be_misjudged(keys: int, p: float, tail: float) -> None:
    expected = [next(b for b in range(n + 1) if stats.binom.sf(b, n, p) <= tail) for n in range(keys + 1)]
    assert most_false(keys, p, tail).tolist() == expected


def test_sums_over_keys_of_at_least_so_many_users(few: Release) -> None:
    answer = few.sum(at_least=42, level=0.9)  # ant with certainty; bee and cat possibly, and no other
    reach = z(0.95) * math.sqrt(4**2 + 3**2 + 4**2)
    assert (answer.low, answer.high) == pytest.approx((120.5 - reach, 120.5 + 40 + 43 + reach))
    p = stats.norm.cdf([(40 - 41.5) / 3, (43 - 41.5) / 4])
    assert answer.value == pytest.approx(120.5 + 42 * p[0] + 43 * p[1], abs=0.1)
    assert "over reported keys of 42 users or more" in answer.notes[0]
    assert few.sum(at_least=1000).value == 0
    possible = few.sum(["asp"], at_least=1, level=0.9)  # measured below 0, but reported: it has a user
    assert possible.low == 1
    for question in ({"of": "at-least:9"}, {"of": np.sqrt}):
        with refused("at_least can only be used with sums of frequency and keys"):
            few.sum(at_least=42, **question)


def test_a_key_that_was_not_reported_is_an_answer(few: Release) -> None:
    """All of its users are taken to have given it: pi of `scheme.reporting` then bounds their number."""
    threshold = frequency_reaching(0.95, few.sampling, few.per_key)
    assert threshold is not None
    note = f"not reported: probably below {threshold}, if all of its users gave it"
    answer = few["zebra"]
    assert (answer.low, answer.high, answer.guaranteed, answer.notes) == (0, threshold - 1, False, (note,))
    rank = few.rank("zebra", level=0.95)
    assert (rank.low, rank.high, rank.guaranteed, rank.notes) == (1 + 3, math.inf, False, (note,))  # ant, bee, cat
    assert math.isnan(rank.value)
    # every number of users is as likely before, and the key was not reported
    i = np.arange(10 * threshold)
    absent = np.append(1.0, reporting_probabilities(i[1:], few.sampling, few.per_key, complement=True))
    below = stats.norm.cdf((9.25 - i) / 2.0) @ absent / absent.sum()
    assert few.compare("cow", "zebra") == pytest.approx(below, abs=1e-3)
    assert few.compare("zebra", "cow") == pytest.approx(1 - below, abs=1e-3)
    assert few.compare("ant", "zebra") > 0.999
    assert few.compare("zebra", "zebra") == 0
    assert 0.4 < few.compare("zebra", "yak") < 0.5  # equal numbers are possible


def test_keys_of_at_least_so_many_users(few: Release) -> None:
    answer = few.count_keys(at_least=42)
    laws = {key: stats.truncnorm((0.5 - m) / e, math.inf, m, e) for key, (m, e) in FEW.items()}
    p = np.array([law.sf(41.5) for law in laws.values()])
    assert answer.value == pytest.approx(p.sum(), abs=1e-9)
    assert answer.standard_error == pytest.approx(math.sqrt((p * (1 - p)).sum()))
    assert (answer.low, answer.high) == (1, 3)  # ant with certainty; bee and cat are possible
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
    mixed = few.mean(["ant", "bee"], weight={"ant": 2.0, "bee": -1.0})
    assert mixed.value == pytest.approx(201.0)


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
    with refused("the key is not among the selected ones"):
        few.rank("ant", ["bee"])


def test_quantiles(few: Release) -> None:
    answer = few.quantiles([0, 0.5, 0.6, 1])
    bounds = [order_bounds(list(FEW.values()), smallest, 0.95) for smallest in (1, 3, 3, 5)]
    assert list(zip(answer.numbers["low"].to_pylist(), answer.numbers["high"].to_pylist(), strict=True)) == bounds
    assert answer.numbers["value"].to_pylist() == [1.0, 40.0, 40.0, 120.5]
    assert few.quantiles(0.5, at_least=20)[0.5].value == 43.0
    assert few.quantiles(0.5, at_least=20)[0.5].low >= 20
    assert math.isnan(few.quantiles(0.5, at_least=1000)[0.5].value)


def test_the_remainder_needs_a_total(few: Release) -> None:
    with refused("has no total, from which the remainder follows"):
        few.other()
    total = Total(1000, Fraction(1, 4), Fraction(16))
    release = made([100.0, 200.0], [3.0, 4.0], total=total)
    answer = release.other(0.9)
    low, high = total.interval(0.95)
    assert answer.value == 700
    assert (answer.low, answer.high) == pytest.approx((low - 300 - z(0.95) * 5, high - 300 + z(0.95) * 5))
    assert answer.share == pytest.approx(0.7)
    assert "each user with at most 16 keys" in answer.notes[0]
    assert not answer.guaranteed
    assert "other() estimates them" in release.sum().notes[0]


@pytest.mark.parametrize("of", ["log1p", "power:2", "capped:10", np.sqrt])
def test_other_measures_are_refused(of: Any, few: Release) -> None:
    with refused("a release of counted users cannot sum"):
        few.sum(of=of)
    with refused("a mean over counted users cannot be of"):
        few.mean(of=of)


def test_bad_questions_are_refused(few: Release) -> None:
    with refused("counted users have one estimator"):
        few.sum(estimator="mle")
    with refused("level must be between 0 and 1"):
        few.each_key(level=1)
    with refused("k must be an integer"):
        few.top(0)
    with refused("at_least must be a whole number from 1 on"):
        few.mean(at_least=0)
    with refused("the shares of quantiles"):
        few.quantiles([2.0])
    with refused("weights must be finite"):
        few.sum(weight={"ant": 1e200})
    with refused("must have weights from 0 on"):
        few.mean(at_least=20, weight={"ant": 2.0, "bee": -1.0})
    with refused("has the name of another column"):
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
