"""Several releases together: which may be combined, what they say of keys, sums and orders, and what changed."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsample
from dpsample import KeepAll, Ppswor, Privacy, Release, Sampling, combine
from dpsample.accounting.parts import Part
from dpsample.answers.changes import changes
from dpsample.answers.estimates import Estimates
from dpsample.answers.several import Combined
from dpsample.answers.several_keys import cells_of, keys_of, reported_frequencies
from dpsample.answers.several_tokens import SeveralTokens
from dpsample.answers.several_totals import KeyTotals
from dpsample.answers.several_unreported import largest_unreported
from dpsample.estimators.estimate import Estimate
from dpsample.presentation.report.changed import changed_section
from dpsample.scheme import default_grid, reporting_probabilities, token_law
from dpsample.scheme.likelihood import likely_frequencies
from dpsample.scheme.sampling import Ints
from several import PRIVACY, release_of
from stated_terms import restated, stated_terms
from support import refused, run


def by_tokens(week: Combined) -> SeveralTokens:
    """What a week of releases with tokens says."""
    assert isinstance(week.evidence, SeveralTokens)
    return week.evidence


@pytest.fixture(scope="module")
def days() -> Ints:
    """Frequencies of 1,000 keys on five days."""
    mean = 5000.0 * np.arange(1, 1001)[:, None] ** -1.1
    return np.random.default_rng(7).poisson(np.repeat(mean, 5, axis=1)).astype(np.int64)


@pytest.fixture(scope="module")
def week(days: Ints) -> Combined:
    return Combined([release_of(days[:, n], n, part=Part("day", str(n))) for n in range(5)])


# which releases


def altered(release: Release, **terms: Any) -> Release:
    return Release(release.table.select(["key", "token"]), restated(release.terms, **terms))


def test_one_release_is_itself(week: Combined) -> None:
    assert combine(week.releases[0]) is week.releases[0]


def test_releases_that_do_not_add_up_are_refused(week: Combined) -> None:
    monday, tuesday = week.releases[:2]
    with refused("can be combined"):
        combine()
    with refused("can be combined"):
        combine(monday, "tuesday.parquet")  # type: ignore[arg-type]
    with refused("there twice"):
        combine(monday, tuesday, monday)
    with refused("there twice"):
        combine(altered(monday, ledger="a" * 64), altered(tuesday, ledger="a" * 64))
    with refused("of the same part"):
        combine(monday, altered(tuesday, part=monday.terms.part))
    with refused("may overlap"):
        combine(monday, altered(tuesday, part=None))
    with refused("may overlap"):
        combine(monday, altered(tuesday, part=Part("country", "Norway")))
    renamed = Release(
        tuesday.table.select(["key", "token"]).rename_columns(["word", "token"]),
        restated(tuesday.terms, keys=("word",)),
    )
    with refused("different key columns"):
        combine(monday, renamed)
    with refused("do not add up"):
        combine(monday, altered(tuesday, max_keys=1))
    keys = Release(tuesday.table.select(["key"]), restated(tuesday.terms, keys_only=True))
    with refused("a release of keys only has no numbers"):
        combine(monday, keys)


def test_costs_add_up_unless_parts_do_not_overlap(week: Combined) -> None:
    assert week.cost == ["epsilon 1, delta 1e-06, for each element: parts do not overlap"]
    plain = Combined([altered(release, part=None) for release in week.releases])
    assert plain.cost[0].startswith("epsilon 5, delta 5e-06, for each element, if their data overlap")
    users = Combined([altered(release, max_keys=1) for release in week.releases])
    assert [cost.split(",")[0] for cost in users.cost] == ["epsilon 1", "epsilon 5"]


def test_users_are_counted_once_in_each_release_and_answers_say_so(week: Combined) -> None:
    users = Combined([altered(release, max_keys=1) for release in week.releases[:2]])
    answers: list[Estimate | Estimates] = [
        users.sum(),
        users.count_keys(),
        users.mean(),
        users.top(3),
        users.quantiles([0.5]),
        users["k00000"],
    ]
    answers += [users["nothing"], users.rank("k00003"), users.each_key(["k00001"]), users.sum(by="left(key, 4)")]
    assert all(any("not distinct users" in note for note in answer.notes) for answer in answers)
    assert not any("users" in note for note in week.sum().notes)


@pytest.mark.parametrize("kind", [pa.int64(), pa.bool_(), pa.date32(), pa.binary(), pa.decimal128(21, 2)], ids=str)
def test_keys_of_any_type_and_of_several_columns_meet(kind: pa.DataType) -> None:
    values = (
        pa.array([0, 1]).cast(pa.int32())
        if kind == pa.date32()
        else pa.array([b"a", b"b"])
        if kind == pa.binary()
        else pa.array([0, 1])
    )
    column = values.cast(kind)
    terms = stated_terms(PRIVACY, KeepAll(), ("a", "b"), grid=16)
    both = pa.table({"a": ["x", "x"], "b": column, "token": [50.0, 60.0]})
    week = Combined([Release(both, terms), Release(both.slice(1), terms)])
    assert len(week) == 2
    assert (by_tokens(week).cells == [[800, 0], [960, 960]]).all()
    assert ("x", column[1].as_py()) in week


# single keys


@pytest.mark.parametrize(
    ("privacy", "sampling"),
    [(PRIVACY, KeepAll()), (Privacy("0.1", "1e-6"), KeepAll()), (Privacy("0.5", "1e-6"), Ppswor("0.01"))],
    ids=str,
)
def test_of_one_release_the_intervals_are_its_own(privacy: Privacy, sampling: Sampling) -> None:
    grid = default_grid(privacy)
    cells = np.unique(np.geomspace(1, 1e6, 100).astype(np.int64))
    release = Release(
        pa.table({"key": cells, "token": cells / grid}), stated_terms(privacy, sampling, ("key",), grid=grid)
    )
    _, rows = keys_of([release])
    totals = KeyTotals([release], reported_frequencies([release], rows), cells_of([release], rows))
    for level in (0.5, 0.95):
        value, low, high = likely_frequencies(cells, sampling, privacy, grid, level)
        ours = totals.intervals(np.arange(len(cells)), level)
        assert (totals.values == value).all()
        assert (ours[0] == low).all()
        assert (ours[1] == high).all()
    assert largest_unreported([release], np.array([0.05]))[0] == release[-1].high


def test_the_interval_of_two_reported_days_is_that_of_the_noise_of_both() -> None:
    """Where laws are shifts, the sum of two tokens less the sum of two frequencies has a law that is convolved here."""
    grid = default_grid(PRIVACY)
    law = token_law(1000, KeepAll(), PRIVACY, grid)
    noise = np.zeros(int(1000 * grid - law.cells[0]) + 1)
    noise[1000 * grid - law.cells] = law.probabilities
    upto = np.cumsum(np.convolve(noise, noise))  # that both tokens lack at most so many cells
    table = pa.table({"key": ["a"], "token": [(700 * grid + 3) / grid]}), pa.table({"key": ["a"], "token": [900.5]})
    week = Combined([Release(one, stated_terms(PRIVACY, KeepAll(), ("key",), grid=grid)) for one in table])
    cells = 700 * grid + 3 + int(900.5 * grid)
    i = np.arange(1600, 1660)
    at_least = np.array([upto[int(n)] for n in np.clip(i * grid - cells, 0, len(upto) - 1)])
    low, high = i[np.argmax(at_least >= 0.025)], i[np.argmax(at_least > 0.975)]
    # between whole frequencies distributions are linear, and an end may move by one
    assert abs(week["a"].low - low) <= 1
    assert abs(week["a"].high - high) <= 1


def test_the_most_that_releases_can_miss_is_the_largest_sum() -> None:
    """All pairs of frequencies, one by one."""
    for privacy, sampling in ((PRIVACY, KeepAll()), (PRIVACY, Ppswor("0.05"))):
        release = release_of(np.array([100]), 0, privacy, sampling)
        i = np.arange(0, 140)
        absent = np.append(1.0, reporting_probabilities(i[1:], sampling, privacy, complement=True))
        for probability in (0.05, 0.001):
            most = (i[:, None] + i)[np.outer(absent, absent) >= probability].max()
            bound = largest_unreported([release] * 2, np.array([probability]))[0]
            assert most <= bound <= most + 2


def test_intervals_of_keys_hold_over_simulated_weeks(days: Ints, week: Combined) -> None:
    """Fixed coins. Of 95 % intervals of keys that all days report, 300 or more, 93 to 98 % hold."""
    totals = days.sum(1).astype(float)
    held: dict[bool, list[bool]] = {True: [], False: []}
    for seed in (0, 100):
        drawn = week if not seed else Combined([release_of(days[:, n], seed + n) for n in range(5)])
        truth = totals[np.array([int(key[1:]) for key in drawn])]
        _, _, low, high = by_tokens(drawn).estimates_of(np.arange(len(drawn)), 0.95)
        holds, whole = np.asarray((low <= truth) & (truth <= high)), np.asarray((by_tokens(drawn).cells > 0).all(1))
        for kind in (True, False):
            held[kind] += holds[whole == kind].tolist()
    assert len(held[True]) > 300
    assert 0.93 < np.mean(held[True]) < 0.98
    assert np.mean(held[False]) > 0.95


def test_a_day_that_does_not_report_a_key_adds_something(days: Ints, week: Combined) -> None:
    """About as many elements as that day's law allows: neither none, nor the most."""
    gaps = ~(by_tokens(week).cells > 0).all(1)
    truth = days.sum(1)[[int(key[1:]) for key in week]][gaps]
    totals = by_tokens(week).totals
    with_nothing, ours = (np.abs(v[gaps] - truth).mean() for v in (totals.reported, totals.values))
    assert ours < 0.7 * with_nothing
    far = Combined([release_of(np.array([5000]), 1), release_of(np.array([0, 60]), 2)])
    assert by_tokens(far).totals.values[0] == by_tokens(far).totals.reported[0]  # 5,000 elements would have shown
    assert "reported in 1 of 2 releases" in far["k00000"].notes
    assert far["k00000"].high > far["k00000"].low + 20


# sums and orders


def test_sums_add_up_and_hold(days: Ints, week: Combined) -> None:
    """Fixed coins; intervals of 5 sums, of which all hold with these."""
    answer = week.sum(extrapolate=True)
    parts = [release.sum(extrapolate=True) for release in week.releases]
    assert answer.value == pytest.approx(sum(part.value for part in parts))
    assert answer.standard_error == pytest.approx(math.hypot(*(part.standard_error for part in parts)), rel=0.02)
    assert answer.below is not None
    assert answer.below.value == pytest.approx(sum(part.below.value for part in parts if part.below))
    assert answer.low <= days[days >= 16].sum() <= answer.high
    groups = week.sum(by="right(key, 1)")
    assert sum(estimate.value for _, estimate in groups) == pytest.approx(answer.value, rel=1e-3)
    assert week.sum(where=["nothing"]).value == 0
    assert week.sum("key = 'k00002'").low == week["k00002"].low
    with refused("does not add up over several releases"):
        week.sum(of="log1p")
    with refused("have one estimator"):
        week.sum(estimator="mle")


def test_numbers_of_keys_and_means_hold(days: Ints, week: Combined) -> None:
    number, mean = week.count_keys(), week.mean()
    assert number.at_least is not None
    counted = (days >= number.at_least).any(1)
    assert number.low <= counted.sum() <= number.high
    assert number.high - number.low < 0.2 * counted.sum()
    truth = days[days >= number.at_least].sum() / counted.sum()
    assert mean.low <= truth <= mean.high
    large = week.count_keys(at_least=100)
    assert week.sum(of="at-least:100").value == pytest.approx(large.value)
    assert large.low <= (days >= 100).any(1).sum() <= large.high
    assert (
        len(week.count_keys("false", by="key"))
        == len(week.mean("false", by="key"))
        == len(week.sum("false", by="key"))
        == 0
    )
    assert week.count_keys("false").value == 0
    assert math.isnan(week.mean("false").value)
    assert week.count_keys("key < 'k00010'").value == pytest.approx(10, abs=0.01)


def test_a_number_of_keys_is_unbiased_over_the_laws() -> None:
    """Two keys, two days: the mean of 1 - prod(1 - a) over all pairs of tokens, by their exact laws."""
    from dpsample.answers.several_numbers import Numbers

    grid, least = 2, 40
    privacy = Privacy("0.5", "1e-4")
    for pair, expected in (((60, 60), 1.0), ((60, 2), 1.0), ((25, 26), 0.0)):
        laws = [token_law(i, KeepAll(), privacy, grid) for i in pair]
        tokens = [np.append(0, law.cells) for law in laws]
        shares = [np.append(law.not_reported, law.probabilities) for law in laws]
        outcomes = np.array(list(itertools.product(*tokens)))
        probability = np.outer(*shares).ravel()
        some = outcomes.any(1)
        names = np.array([f"k{n:06d}" for n in range(int(some.sum()))])
        releases = []
        for n in range(2):
            cells = outcomes[some, n]
            table = pa.table({"key": names[cells > 0], "token": cells[cells > 0] / grid})
            releases.append(Release(table, stated_terms(privacy, KeepAll(), ("key",), grid=grid)))
        everything = np.arange(len(names)), np.ones(len(names))
        counts = 1 - Numbers(by_tokens(Combined(releases)), [everything], least).absent
        assert float(probability[some] @ counts) == pytest.approx(expected, abs=0.02)


def test_orders(days: Ints, week: Combined) -> None:
    totals = days.sum(1)
    top = week.top(5)
    assert top.groups["key"].to_pylist() == [f"k{n:05d}" for n in np.argsort(-totals)[:5]]
    assert min(top.numbers["probability"].to_pylist()) == 1
    crowded = week.top(300)
    assert crowded.numbers["probability"][-1].as_py() < 0.9
    assert "compete for the list" in crowded.notes[0]
    assert week.rank("k00000").value == 1
    rank = week.rank("k00050")
    assert rank.low <= 1 + (totals > totals[50]).sum() <= rank.high
    assert rank.guaranteed
    assert week.rank("nothing").low > 100
    assert week.compare("k00000", "k00001") == 1
    assert week.compare("nothing", "k00001") < 1e-6
    assert 0 < week.compare("k00400", "k00401") < 1
    counted = totals[(days >= 16).any(1)]
    for share, estimate in week.quantiles([0.25, 0.5, 0.9]):
        assert estimate.low <= np.quantile(counted, share, method="inverted_cdf") <= estimate.high
    assert list(week)[:2] == ["k00000", "k00001"]
    with refused("among the selected ones"):
        week.rank("k00001", where="key > 'k00002'")
    assert week["nothing"].low == 0
    assert "probably below" in week["nothing"].notes[0]
    with refused("from which the remainder follows"):
        week.other()


# what changed


def test_p_values_are_valid_at_every_frequency_given_that_a_key_is_reported() -> None:
    """Exact: over all pairs of tokens, the p-value is at most alpha with probability at most alpha."""
    from dpsample.answers.compared import Sides, compared
    from dpsample.answers.hypotheses import Hypothesis, Tested

    for privacy, sampling in ((Privacy(1, "1e-3"), KeepAll()), (Privacy(1, "1e-3"), Ppswor("0.05"))):
        grid = 1
        cells = np.arange(0, 46)
        pairs = np.array(list(itertools.product(cells, cells)))[1:]
        names = np.array([f"k{n:06d}" for n in range(len(pairs))])
        releases = []
        for n in range(2):
            seen = pairs[:, n] > 0
            table = pa.table({"key": names[seen], "token": pairs[seen, n].astype(float)})
            releases.append(Release(table, stated_terms(privacy, sampling, ("key",), grid=grid)))
        sides = compared(Sides((releases[0],), (releases[1],)), *keys_of(releases))
        p, _ = Tested(sides, Hypothesis()).p_values()
        for i in [*range(1, 30), 35, 40, 45]:
            law = token_law(i, sampling, privacy, grid)
            one = np.zeros(len(cells))
            one[0] = law.not_reported
            one[law.cells] = law.probabilities
            weight = np.outer(one, one).ravel()[1:]
            weight /= weight.sum()
            for alpha in (0.2, 0.05, 0.01, 0.001):
                assert weight[p <= alpha].sum() <= alpha * 1.01, (sampling, i, alpha)


def test_false_discoveries_are_rare_and_changes_are_found(days: Ints) -> None:
    """Fixed coins, 3 comparisons: the share of false discoveries is at most 5 % in the mean, most changes are found.

    It finds gross errors alone, since half of the keys changed; the exact test above is that of p-values.
    """
    before = days[:, 0]
    after = before.copy()
    after[::2] = np.rint(before[::2] * np.where(np.arange(len(before[::2])) % 2, 0.4, 2.5))
    false, found = [], []
    for seed in range(3):
        answer = changes(release_of(before, 2 * seed), release_of(after, 2 * seed + 1))
        places = np.array([int(key[1:]) for key in answer.table["key"].to_pylist()])
        low, high = (answer.table[name].to_numpy() for name in ("low", "high"))
        difference = (after - before)[places]
        false.append(np.mean(np.sign(difference) != np.where(low > 0, 1, -1)))
        assert np.mean((low <= difference) & (difference <= high)) > 0.9
        clear = np.flatnonzero(np.abs(after - before) > 25)
        found.append(np.isin(clear, places).mean())
    assert np.mean(false) < 0.05
    assert np.mean(found) > 0.9


def test_new_and_vanished_keys_and_periods(days: Ints, week: Combined) -> None:
    new = days.copy()
    new[3], new[700] = 0, 400
    later = Combined([release_of(new[:, n], 50 + n) for n in range(5)])
    answer = changes(week, later, where="key IN ('k00003', 'k00700', 'k00001')")
    rows = {row["key"]: row for row in answer.table.to_pylist()}
    assert rows["k00003"]["direction"] == "vanished"
    assert rows["k00003"]["after"] is None
    assert rows["k00003"]["low"] <= -days[3].sum() <= rows["k00003"]["high"] < 0
    assert rows["k00700"]["direction"] in ("new", "rose")
    assert rows["k00700"]["low"] <= 2000 - days[700].sum() <= rows["k00700"]["high"]
    assert "k00001" not in rows
    assert any(note.startswith("new: before, probably below") for note in answer.notes)
    one_day = changes(week, later.releases[0], where="key = 'k00700'").table.to_pylist()  # means of a day
    assert one_day[0]["low"] <= 400 - days[700].mean() <= one_day[0]["high"]
    with refused("two positive numbers"):
        changes(week, later, lengths=(7, 0))
    with refused("there twice"):
        changes(week, week)
    with refused("fdr must be between 0 and 1"):
        changes(week.releases[0], later.releases[0], fdr=2)


# the command line


@pytest.mark.chance("certain: releases have public coins, and the command asks questions alone")
def test_commands_take_several_files(week: Combined, tmp_path: Path) -> None:
    names = [f"day-{n}.parquet" for n in range(2)]
    for name, release in zip(names, week.releases, strict=False):
        release.write(tmp_path / name)
    both = combine(*week.releases[:2])
    assert isinstance(both, Combined)

    def printed(*arguments: str) -> str:
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout.rstrip("\n")

    assert printed("query", *names) == repr(both.sum())
    assert printed("top", *names, "-k", "3").splitlines() == both.top(3).lines(None)
    assert printed("quantiles", *names, "0.5").splitlines() == both.quantiles([0.5]).lines(None)
    assert printed("each-key", *names, "--where", "key < 'k00003'").splitlines() == both.each_key(
        "key < 'k00003'"
    ).lines(None)
    assert printed("rank", *names, "k00004") == repr(both.rank("k00004"))
    assert float(printed("compare", *names, "k00004", "k00005")) == pytest.approx(both.compare("k00004", "k00005"))
    assert printed("info", *names) == repr(both)
    assert json.loads(printed("info", *names, "--format", "json"))["keys"] == len(both)
    shown = printed("changes", *names)
    assert shown.splitlines() == dpsample.changes(*week.releases[:2]).lines(None)
    rows = json.loads(printed("changes", *names, "--fdr", "0.2", "--format", "json"))
    assert rows["fdr"] == 0.2
    assert run("query", *names, "--per", "users", cwd=tmp_path).returncode == 2
    assert run("query", names[0], names[0], cwd=tmp_path).returncode == 2


# the report


@pytest.mark.chance("certain: releases have public coins, and a page draws nothing")
def test_a_report_shows_what_changed(days: Ints, tmp_path: Path) -> None:
    after = days[:, 0].copy()
    after[3], after[900] = 0, 300
    release_of(days[:, 0], 1).write(tmp_path / "before.parquet")
    release_of(after, 2).write(tmp_path / "after.parquet")
    done = run(
        *("report", "after.parquet", "--before", "before.parquet", "-o", "page.html", "--no-prove"), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    section = page[page.index("What changed") :]
    for text in ("vanished", "new", "k00003", "k00900", "dpsample changes before.parquet after.parquet"):
        assert text in section
    content = SimpleNamespace(changes=None)
    assert changed_section(content) is None  # type: ignore[arg-type]
