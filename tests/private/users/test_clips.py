"""Clips with two ends, and what is said of amounts beyond them.

Coins are given, and data have fixed seeds: nothing here fails by chance.
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsample
from dpsample import Privacy, Release, Source, read_release
from dpsample.accounting.amounts import LOOKED_AT, Amount, amounts_of, clip_ends
from dpsample.accounting.clipped import Clipped
from dpsample.accounting.counts import count_share
from dpsample.accounting.user_budget import UserBudget
from dpsample.presentation.label import label_of
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.randomness import StreamCoins
from dpsample.private.users.counts import MeasuredUsers, count_users
from dpsample.private.users.keys_each import FewKeys
from dpsample.release.explain import explain_amount
from support import refused, run

PRIVACY = Privacy(1, 1e-6)


# ---- how clips are written


@pytest.mark.parametrize(
    ("clip", "low", "high"),
    [
        (100, -100, 100),
        ("0:100", 0, 100),
        ((0, 100), 0, 100),
        ([-5, "2.5"], -5, Fraction(5, 2)),
        ("-7:0", -7, 0),
        (np.float64(0.5), Fraction(-1, 2), Fraction(1, 2)),
    ],
    ids=str,
)
def test_a_clip_has_one_number_or_two_ends(clip: Any, low: Fraction, high: Fraction) -> None:
    assert clip_ends(clip) == (low, high)
    [amount] = amounts_of(None, {"x": clip})
    assert (amount.low, amount.high) == (low, high)
    assert clip_ends(amount.written) == (low, high)
    record = Clipped(amount, 0.1, (0.02,), (0.0, 1.0), (0.0, 0.5))
    assert Clipped.from_json(record.to_json()) == record


@pytest.mark.parametrize(
    "clip", [(5, 100), (-100, -5), (0, 0), "0:1e16", "0:1e-13", (-1, 10**7), (0, 1, 2), "1:2:3", -5, "5:-5"], ids=str
)
def test_a_clip_is_refused(clip: Any) -> None:
    with refused("the clip of a sum must be a number, such as 100, or two ends with 0 between them, such as 0:100"):
        amounts_of(None, {"x": clip})


def test_units_are_within_the_clip() -> None:
    """Rounded toward 0: no clipped amount exceeds its end, also where it is not a whole number of units."""
    for amount in amounts_of(3, {"a": (-1, 3), "b": (0, "0.1"), "c": ("-1e-3", "1/3")}):
        unit = amount.reach / amount.whole
        low, high = amount.ends
        assert amount.low <= low * unit <= amount.low + unit
        assert amount.high - unit <= high * unit <= amount.high
        assert max(-low, high) == amount.whole
        assert amount.looked_at == (8 * low, 8 * high)


@pytest.fixture
def spent(tmp_path: Path) -> Path:
    """300 users with one row each of a size of 2, and of a change of -1."""
    columns = {"u": range(300), "k": ["a"] * 300, "size": [2.0] * 300, "in:out": [-1.0] * 300}
    pq.write_table(pa.table(columns), tmp_path / "d.parquet")
    return tmp_path


@pytest.mark.usefixtures("fixed_coins")
@pytest.mark.parametrize(
    "words",
    [
        ["--sum", "size:0:20", "--sum", "in:out:-5:8"],
        ["--sum", "size", "--clip", "0:20", "--sum", "in:out", "--clip", "-5:8"],
    ],
    ids=["in one", "apart"],
)
def test_clips_on_the_command_line(words: list[str], spent: Path) -> None:
    common = ["d.parquet", "-k", "k", "--user", "u", "-e", "3", "-d", "1e-6"]
    printed = run("release", *common, *words, "-o", "out.parquet", cwd=spent)
    assert printed.returncode == 0, printed.stderr
    assert "sums of 'size', from 0 to 20 for each user and key" in printed.stderr
    assert read_release(spent / "out.parquet").terms.amounts == amounts_of(None, {"size": (0, 20), "in:out": (-5, 8)})


@pytest.mark.usefixtures("fixed_coins")
def test_clips_in_a_settings_file(spent: Path) -> None:
    settings = 'source = "d.parquet"\nkey = "k"\nuser = "u"\nepsilon = 3\ndelta = 1e-6\noutput = "out.parquet"\n'
    for lines in ('sum = ["size:0:20"]', 'sum = "size"\nclip = "0:20"'):
        (spent / "release.toml").write_text(settings + lines)
        assert run("run", "release.toml", cwd=spent).returncode == 0
        assert read_release(spent / "out.parquet").terms.amounts == amounts_of(None, {"size": (0, 20)})
        (spent / "out.parquet").unlink()
    (spent / "release.toml").write_text(settings + 'sum = "in:out"\nclip = "-5:8"')
    shown = run("run", "release.toml", "--dry-run", cwd=spent).stdout
    assert "--clip -5:8" in shown


def test_wrong_clips_on_the_command_line(spent: Path) -> None:
    common = ["release", "d.parquet", "-k", "k", "--user", "u", "-e", "3", "-d", "1e-6", "-o", "out.parquet"]
    assert "two ends with 0 between them" in run(*common, "--sum", "size:5:20", cwd=spent).stderr
    assert "two ends with 0 between them" in run(*common, "--sum", "size", "--clip", "1:2:3", cwd=spent).stderr
    assert "--sum must name a column and a clip" in run(*common, "--sum", "size", cwd=spent).stderr


# ---- amounts that are never negative


def measured(
    table: pa.Table, keys: int, amounts: tuple[Amount, ...], coins: int, privacy: Privacy = PRIVACY
) -> MeasuredUsers:
    """What one release measures of keys 0, 1, ..., which are taken for discovered, with given coins."""
    budget = UserBudget(privacy, counts=count_share(len(amounts)), amounts=amounts)
    source = Source(table, "key", user="user").with_amounts(amounts)
    with DuckDB(threads=1) as engine:
        drawn = StreamCoins(coins.to_bytes(32, "big"))
        return count_users(engine, source, pa.table({"key": np.arange(keys)}), 40, budget, drawn)


def pairs_of(seed: int, users: int, keys: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Users with a geometric number of keys, each pair once."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(users), rng.geometric(0.3, users))
    pairs = np.unique(user * keys + rng.integers(0, keys, len(user)))
    return pairs // keys, pairs % keys, rng


@pytest.mark.usefixtures("fixed_coins")
@pytest.mark.parametrize("sign", [1, -1])
def test_no_number_has_a_sign_that_no_amount_has(sign: int) -> None:
    """Amounts are so small that noise exceeds all sums: half of what is measured has the wrong sign, no answer has."""
    user, key, _ = pairs_of(1, 3000, 30)
    table = pa.table({"user": user, "key": key, "x": np.full(len(user), sign * 1e-3)})
    clip = (0, 1000) if sign > 0 else (-1000, 0)
    release = dpsample.release(table, "key", user="user", privacy=Privacy(4, 1e-6), sums={"x": clip})
    columns = {name: release.table[name].to_numpy() * sign for name in release.terms.amounts[0].columns}
    assert len(release) > 20
    assert columns["sum_x_measured"].min() < 0
    for name, values in columns.items():
        if name not in ("sum_x_measured", "sum_x_error"):
            assert values.min() >= 0, name
    for of in ("sum_x", "sum_x_clipped"):
        for answer in (release.sum(of=of), release.ratio(of), *dict(release.sum(of=of, by="key")).values()):
            assert min(sign * answer.value, sign * answer.low, sign * answer.high) >= 0
    opposite = release.sum(lambda t: pa.array([key % 2 for key in t["key"].to_pylist()]), of="sum_x")
    assert min(sign * opposite.low, sign * opposite.high) >= 0
    mixed = release.sum(weight=lambda t: pa.array([(-1.0) ** key for key in t["key"].to_pylist()]), of="sum_x_clipped")
    assert mixed.low < 0 < mixed.high  # weights of both signs: the sum may have either


# ---- what is beyond a clip


def test_what_could_not_be_seen_is_said_as_that() -> None:
    """Two errors or less are noise: that is no finding of few; the upper bound is the end of a 95 % interval."""
    for name, amount in (("rows", amounts_of(5, None)[0]), ("values", amounts_of(None, {"x": (0, 5)})[0])):
        for each, error in ((0.0, 1.0), (1.9, 1.0), (-3.0, 2.0)):
            said = explain_amount(Clipped(amount, beyond=(0.0, each), beyond_errors=(0.0, error)))
            most = max(each, 0.0) + 1.959964 * error
            assert most < 7 * 5  # no more is looked at
            assert re.search(
                rf"{name} (up|from 0) to 40: how much those (beyond|above) 5 add could not be measured", said
            )
            assert f"at most about {most:.4g} for each user and key" in said
            assert "few" not in said
        unknown = explain_amount(Clipped(amount, beyond=(0.0, 1.0), beyond_errors=(0.0, 50.0)))
        assert "at most about 35 for each user and key" in unknown
        seen = explain_amount(Clipped(amount, beyond=(0.0, 2.1), beyond_errors=(0.0, 1.0)))
        assert "5 add about 2.1 for each user and key, at most about 4.06" in seen


def test_the_first_words_are_what_the_interval_is_about() -> None:
    rows, change = amounts_of(5, {"change": (-2, 30)})
    said = [explain_amount(Clipped(amount, beyond=(0.5, 1), beyond_errors=(1, 1))) for amount in (rows, change)]
    assert said[0].startswith("rows, up to 5 of each user and key, with Gaussian noise, are rows_clipped and its")
    assert "rows_low to rows_high includes rows up to 40: " in said[0]
    assert said[1].startswith(
        "sums of 'change', from -2 to 30 for each user and key, with Gaussian noise, are sum_change_"
    )
    assert "values from -16 to 240: how much those below -2 add could not be measured" in said[1]
    assert all(one.endswith("what is beyond this range is in no interval") for one in said)


@pytest.fixture(scope="module")
def heavy() -> tuple[pa.Table, np.ndarray, list[np.ndarray]]:
    """Rows of users and keys by a power law of exponent 1.1: a clip of 5 takes more than half of all."""
    keys = 60
    user, key, rng = pairs_of(2, 6000, keys)
    rows = np.minimum(np.floor(rng.random(len(user)) ** (-1 / 1.1)), 20_000)
    table = pa.table({"user": user, "key": key, "x": rows})
    sums = [np.bincount(key, np.minimum(rows, 5 * times), keys) for times in (1, LOOKED_AT, np.inf)]
    return table, np.bincount(key, minlength=keys), sums


def test_intervals_hold_what_they_are_about_on_heavy_tails(heavy: Any) -> None:
    """Of 10 fixed draws: intervals hold clipped sums, and wide ones sums within 40."""
    table, _, truths = heavy
    amounts = amounts_of(None, {"x": (0, 5)})
    held = np.zeros(2)
    for n in range(10):
        found = measured(table, 60, amounts, n)
        own = found.amounts[0]
        low, high, wide_low, wide_high = own.record.intervals(found.values, own.values, own.errors)
        clipped, looked_at, _ = truths
        held += np.array(
            [
                np.mean((low <= clipped) & (clipped <= high)),
                np.mean((wide_low <= looked_at) & (looked_at <= wide_high)),
            ]
        )
    assert held[0] / 10 > 0.93
    assert held[1] / 10 > 0.94
    assert truths[2].sum() > 2 * truths[0].sum()


def test_the_upper_bound_of_what_is_beyond_holds(heavy: Any) -> None:
    """In nine of ten fixed draws or more, also where noise hides it: the first budget is too small to show it."""
    table, users, truths = heavy
    beyond = (truths[1] - truths[0]).sum() / users.sum()
    amounts = amounts_of(None, {"x": (0, 5)})
    seen = list[bool]()
    held = list[bool]()
    for epsilon in ("0.3", "1"):
        for n in range(7):
            above = measured(table, 60, amounts, n, Privacy(epsilon, 1e-6)).amounts[0].record.above
            seen.append(above.seen)
            held.append(beyond <= above.most)
    assert sum(held) >= 13
    assert 3 < sum(seen) < 11


def test_what_users_with_many_keys_may_have_more() -> None:
    """100 users with one key and 10 with 16, who have eight times as much beyond the clip of each and count with 4."""
    users, sizes = np.array([100.0, 10.0]), np.array([1.0, 16.0])
    whole = 100 * 1 + 10 * 16 * 8
    counted = 100 * 1 + 10 * 4 * 8
    assert FewKeys.of(users, sizes, 4.0).uncounted(260.0) == pytest.approx(1 - counted / whole)
    assert FewKeys.of(users, sizes, 16.0).uncounted(260.0) == 0
    # 40 more pairs were counted than the histogram shows: they are of users with many keys, and none of them counts
    assert FewKeys.of(users, sizes, 4.0).uncounted(300.0) == pytest.approx(1 - counted / (whole + 40 * 8))


# ---- answers


@pytest.fixture
def release(heavy: Any, fixed_coins: None) -> Release:
    return dpsample.release(heavy[0], "key", user="user", privacy=Privacy(2, 1e-6), sums={"x": (0, 5)})


def test_both_names_of_an_amount_have_one_estimate_and_their_own_intervals(release: Release, heavy: Any) -> None:
    keys = release.table["key"].to_numpy()
    clipped, looked_at, _ = (float(truth[keys].sum()) for truth in heavy[2])
    tight, wide = release.sum(of="sum_x_clipped"), release.sum(of="sum_x")
    assert tight.value == wide.value == pytest.approx(clipped, rel=0.1)
    assert wide.low <= tight.low < clipped < tight.high < wide.high
    assert tight.high < looked_at < wide.high
    assert tight.notes[0].startswith("sums of 'x', from 0 to 5 for each user and key, and nothing beyond")
    assert wide.notes[0].startswith("the estimate is of sums of 'x', from 0 to 5 for each user and key; the interval")
    assert "values beyond this range are in neither" in wide.notes[0]
    means = [release.ratio(name) for name in ("sum_x_clipped", "sum_x")]
    assert means[1].low <= means[0].low < means[0].value < means[0].high < means[1].high


def test_labels_say_what_columns_are_about(release: Release) -> None:
    assert release.terms.counts is not None
    said = explain_amount(release.terms.counts.amounts[0])
    assert said[1:] in " ".join(label_of(release).values())  # where a sentence begins with a capital
    assert said in repr(release)
