"""Amounts: sums through the engines, which hold for the true ones; and answers, by plain arithmetic.

Coins are given, and data have fixed seeds: nothing here fails by chance.
"""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import optimize

import dpsample
from dpsample import KeepAll, Privacy, Release, Source, read_release
from dpsample.accounting.amounts import LOOKED_AT, amounts_of
from dpsample.accounting.choice import capacity_cap
from dpsample.accounting.clipped import Clipped
from dpsample.accounting.counts import COUNT_SHARE, Counts, count_parts, count_share
from dpsample.accounting.discovery import Discovery
from dpsample.accounting.user_budget import UserBudget
from dpsample.accounting.user_proof import certify_users
from dpsample.accounting.vectors import VectorNoise
from dpsample.answers.amounts import Sum, fieller
from dpsample.answers.example import release as example
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.randomness import StreamCoins
from dpsample.private.users.counts import count_users
from dpsample.private.users.parts import Measured
from dpsample.private.users.put_back import Lost, ShareLost
from dpsample.private.users.sums import Parts, estimated_amount
from dpsample.release.rows import counted, summed
from pairings import Pairing, assigned
from pairings import pairing as pairing
from pairings import sorted_once as sorted_once
from stated_terms import stated_terms
from support import refused, run
from weighing import weighing_of

ROWS, PRICE = amounts_of(3, {"price": 100})


# ---- through the engines


def moments(keys: int, amounts: int) -> Any:
    """By amount and key, the sum over users, and that of squares of remainders, which shows rows not added up."""

    def kernel(batches: Any) -> np.ndarray:
        total = np.zeros((amounts, 2, keys), np.int64)
        for starts, places, marks, *values in batches:
            assert all(len({*own.tolist()}) == 1 for own in np.split(marks, starts[1:]))  # one mark each
            for own, value in zip(total, values, strict=True):
                np.add.at(own[0], places, value)
                np.add.at(own[1], places, (value % 9973) ** 2)
        return total.reshape(-1)

    return kernel


def test_amounts_are_added_up_exactly_in_every_engine(pairing: Pairing) -> None:
    """Rows of one user and key, also with values that count 0 or are cut off, against Python's integers."""
    rng, n = np.random.default_rng(5), 4000
    users, keys, count = rng.integers(0, 300, n), rng.integers(0, 40, n), rng.integers(-(2**40), 2**40, n)
    price: list[float | None] = (rng.normal(0, 40, n) * rng.choice([1e-6, 1.0, 1e3, 1e300], n)).tolist()
    price[:9] = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308, -1e308, 5e-324]
    columns = {"price": pa.array(price, pa.float64()), "count": pa.array(count), "flag": pa.array(count % 3 == 0)}
    table = pa.table({"u": [f"user {u}" for u in users], "k": keys, **columns})
    amounts = amounts_of(4, {"price": (-20, 100), "count": (0, "7e9"), "flag": 2})
    units: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0] * 4)
    for u, k, *row in zip(users.tolist(), keys.tolist(), *(c.to_pylist() for c in columns.values()), strict=True):
        units[u, k][0] += 1
        for place, (amount, value) in enumerate(zip(amounts[1:], row, strict=True), start=1):
            if value is not None and math.isfinite(value):
                nearest = math.floor(min(max(float(value) * amount.scale + 0.5, -(2.0**60)), 2.0**60))
                units[u, k][place] += min(max(nearest, -amount.most_of_row), amount.most_of_row)
    expected = np.zeros((4, 2, 20), np.int64)
    for (_, k), own in units.items():
        for place, (amount, value) in enumerate(zip(amounts, own, strict=True)):
            least, most = amount.looked_at
            seen = min(max(value, least), most)
            expected[place, :, k % 20] += (k < 20) * np.array([seen, (seen % 9973) ** 2])
    source = pairing.source(table).with_amounts(amounts)
    after = assigned(pairing.engine, source) if pairing._assigns else None
    found = pairing.engine.pairs_of(source, pa.table({"k": np.arange(20)}), after)
    assert pairing.engine.summed(found, moments(20, 4)).tolist() == expected.reshape(-1).tolist()
    pairing.engine.forget_pairs(found)
    if after is not None:
        pairing.engine.forget(after.source)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "sqlite"])
def test_amounts_of_text_and_databases(kind: str, tmp_path: Path) -> None:
    """Text that is no number counts 0, as NULL does."""
    rows = [("a", 1, "1.5"), ("a", 1, "2"), ("a", 1, None), ("b", 1, "-3e1"), ("b", 2, "4")]
    if kind == "csv":
        (tmp_path / "d.csv").write_text("u,k,x\n" + "".join(f"{u},{k},{x or ''}\n" for u, k, x in rows) + "b,1,many\n")
        source = Source(tmp_path / "d.csv", "k", user="u")
    elif kind == "jsonl":
        lines = [f'{{"u": "{u}", "k": {k}, "x": {x or "null"}}}' for u, k, x in rows]
        (tmp_path / "d.jsonl").write_text("\n".join([*lines, '{"u": "b", "k": 1, "x": "many"}']))
        source = Source(tmp_path / "d.jsonl", "k", user="u")
    else:
        pytest.importorskip("adbc_driver_sqlite")
        with sqlite3.connect(tmp_path / "d.db") as connection:
            connection.execute("CREATE TABLE d (u TEXT, k TEXT, x REAL)")
            connection.executemany("INSERT INTO d VALUES (?, ?, ?)", [*rows, ("b", "1", "many")])
        connection.close()
        source = Source(f"sqlite:///{tmp_path}/d.db", "k", user="u", table="d")
    with DuckDB(threads=1) as engine:
        found = engine.pairs_of(source.with_amounts(amounts_of(9, {"x": 100})), pa.table({"k": ["1", "2"]}))
        total = engine.summed(found, moments(2, 2)).reshape(2, 2, 2)[:, 0]
    assert total[0].tolist() == [5, 1]
    assert (total[1] / amounts_of(None, {"x": 100})[0].scale).tolist() == pytest.approx([1.5 + 2 - 30, 4], abs=1e-5)


@pytest.mark.parametrize("type", [pa.string(), pa.date32(), pa.binary()])
def test_a_column_of_no_numbers_is_refused(type: pa.DataType) -> None:
    table = pa.table({"u": [1], "k": ["a"], "x": pa.array([None], type)})
    with refused("the summed column 'x' must be of numbers"):
        dpsample.release(table, "k", user="u", privacy=Privacy(1, 1e-6), sums={"x": 1})


# ---- sums that hold


def purchases(seed: int, users: int = 20_000, keys: int = 2000) -> pa.Table:
    """Users buy some of many things, several times; prices depend on the thing, and refunds are negative."""
    rng = np.random.default_rng(seed)
    law = np.arange(1, keys + 1) ** -1.1
    user = np.repeat(np.arange(users), rng.geometric(0.25, users))
    key = rng.choice(keys, len(user), p=law / law.sum())
    times = rng.geometric(0.5, len(user))
    user, key = np.repeat(user, times), np.repeat(key, times)
    price = rng.exponential(10, len(user)) * rng.lognormal(0, 0.5, keys)[key]
    return pa.table({"user": user, "key": key, "price": price, "change": rng.normal(3, 10, len(user))})


AMOUNTS = amounts_of(6, {"price": (0, 60), "change": 40})


def true_sums(table: pa.Table, keys: int, clipped: bool) -> list[np.ndarray]:
    """The sums of rows and of both columns, for all keys, of clipped amounts or of all that is looked at."""
    pair, places = np.unique(table["user"].to_numpy() * keys + table["key"].to_numpy(), return_inverse=True)
    sums = []
    for amount in AMOUNTS:
        own = np.bincount(places, None if amount.column is None else table[amount.column].to_numpy())
        times = 1 if clipped else LOOKED_AT
        own = np.clip(own, times * float(amount.low), times * float(amount.high))
        sums.append(np.bincount(pair % keys, own, keys))
    return sums


def test_intervals_hold_true_sums_and_errors_are_as_stated() -> None:
    """Eight fixed draws of coins, all keys from 40 users on: 93 to 99 % hold, though clips take up to a tenth."""
    table, keys = purchases(3), 2000
    users = np.bincount(np.unique(table["user"].to_numpy() * keys + table["key"].to_numpy()) % keys, minlength=keys)
    wanted = np.flatnonzero(users >= 40)
    budget = UserBudget(Privacy(1, 1e-6), counts=count_share(3), amounts=AMOUNTS)
    source = Source(table, "key", user="user").with_amounts(AMOUNTS)
    held, scaled = np.zeros((3, 2)), [list[float](), list[float](), list[float]()]
    looked_at, clipped = (true_sums(table, keys, only) for only in (False, True))
    with DuckDB(threads=1) as engine:
        for n in range(8):
            coins = StreamCoins(n.to_bytes(32, "big"))
            measured = count_users(engine, source, pa.table({"key": wanted}), 40, budget, coins)
            for place, own in enumerate(measured.amounts):
                low, high, wide_low, wide_high = own.record.intervals(measured.values, own.values, own.errors)
                true, wide = clipped[place][wanted], looked_at[place][wanted]
                held[place, 0] += np.mean((low <= true) & (true <= high)) / 8
                held[place, 1] += np.mean((wide_low <= wide) & (wide <= wide_high)) / 8
                scaled[place] += ((own.values - true) / own.errors).tolist()
                if own.record.amount.low == 0:
                    assert min(low.min(), wide_low.min()) >= 0
    assert len(wanted) > 100
    assert (held > 0.93).all(), held
    assert (held < 0.99).all(), held
    assert np.abs(np.mean(scaled, axis=1)).max() < 0.3
    assert ((np.std(scaled, axis=1) > 0.8) & (np.std(scaled, axis=1) < 1.1)).all(), np.std(scaled, axis=1)
    assert looked_at[1][wanted].sum() > 1.05 * clipped[1][wanted].sum()  # the clip took something


def test_the_noise_is_that_of_the_budget_and_is_proved() -> None:
    table, amounts = purchases(4, 2000, 100), AMOUNTS[1:2]
    budget = UserBudget(Privacy(3, 1e-6), look=Fraction(1, 50), counts=count_share(1), amounts=amounts)
    source = Source(table, "key", user="user").with_amounts(amounts)
    with DuckDB(threads=1) as engine:
        found = pa.table({"key": [0, 1, 2]})
        coins = StreamCoins(bytes(32))
        measured = [count_users(engine, source, keys, 20, budget, coins) for keys in (found, found.slice(0, 0))]
    each = budget.one_key()
    discovery = Discovery("one-key", 1, capacity_cap(each))
    parts = count_parts(amounts)
    assert sum(parts.values()) == 1
    assert parts["counts"] == parts["sum_price"]
    assert count_share(0) == COUNT_SHARE
    for own in measured:
        certificate = certify_users(discovery, each, own.counts, budget.left)
        assert [float(stage.square / budget.square) for stage in certificate.stages] == pytest.approx(
            [float(share) for share in parts.values()], rel=1e-9
        )
        assert "sum_price beyond: Gaussian noise" in str(certificate)
        assert Counts.from_json(own.counts.to_json()) == own.counts
    less = UserBudget(Privacy("2.9", 1e-6), look=Fraction(1, 50), counts=count_share(1), amounts=amounts)
    with pytest.raises(dpsample.PrivacyViolation, match="together spend more"):
        certify_users(discovery, less.one_key(), measured[1].counts, less.left)


def test_users_with_more_keys_and_larger_amounts_are_put_back() -> None:
    """A fifth of the users have 12 times the keys and four times the amounts; without what is put back sums are low."""
    rng, keys = np.random.default_rng(6), 300
    each = np.where(np.arange(4000) % 5 == 0, 60, 5)
    user = np.repeat(np.arange(4000), each)
    table = pa.table({"user": user, "key": rng.integers(0, keys, len(user)), "x": np.where(user % 5 == 0, 8.0, 2.0)})
    amounts = amounts_of(None, {"x": 10})
    pair, places = np.unique(user * keys + table["key"].to_numpy(), return_inverse=True)
    own = np.minimum(np.bincount(places, table["x"].to_numpy()), 10)
    truth = np.bincount(pair % keys, own, keys)
    source = Source(table, "key", user="user").with_amounts(amounts)
    budget = UserBudget(Privacy(2, 1e-6), counts=count_share(1), amounts=amounts)
    with DuckDB(threads=1) as engine:
        coins = StreamCoins(bytes(32))
        found = count_users(engine, source, pa.table({"key": np.arange(keys)}), 20, budget, coins)
    [measured] = found.amounts
    assert measured.record.share > found.counts.clipped > 0.05
    # keys have most of the error of what is put back in common
    assert np.mean(measured.values / truth) == pytest.approx(1, abs=min(1.5 * max(measured.record.groups), 0.2))
    low, high, _, _ = measured.record.intervals(found.values, measured.values, measured.errors)
    assert np.mean((low <= truth) & (truth <= high)) > 0.9


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_of_ten_billion_pairs_are_finite(sign: int) -> None:
    """Sums of one sign: nothing is beyond the clip on the other side, whatever the number of pairs (found as NaN)."""
    weighing = weighing_of(np.random.default_rng(0), 8)
    users, groups = np.full(8, 1.25e9), weighing.clip.groups
    lost, beyond = Lost(np.full(groups, 5.0 * sign), 2.0), Lost(np.array([0.5, 0.5]), 1.0)
    share = ShareLost(*(np.full(groups, value) for value in (0.1, 0.01, 0.0, 0.0)))
    parts = Parts(Measured(sign * users / 3, np.full(8, 100.0)), lost, beyond)
    with np.errstate(all="raise", under="ignore"):
        found = estimated_amount(PRICE, weighing, parts, share, users)
        low, high, wide_low, wide_high = found.record.intervals(users, found.values, found.errors)
    for column in (found.values, found.errors, low, high, wide_low, wide_high):
        assert np.isfinite(column).all()
    assert (low < found.values).all()
    assert (found.values < high).all()
    assert (wide_low <= low).all()
    assert (high <= wide_high).all()


# ---- refusals, files, answers


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"rows": 0}, "rows must be a whole number from 1 to 1,000,000"),
        ({"rows": True}, "rows must be a whole number from 1 to 1,000,000"),
        ({"sums": ["x"]}, "sums must name columns with their clips"),
        ({"sums": {"x": 0}}, "the clip of a sum must be a number, such as 100"),
        ({"sums": {"x": "1e16"}}, "the clip of a sum must be a number, such as 100"),
        ({"sums": {"": 1}}, "a column of sums must be named by a text"),
        ({"sums": {"x": 1, "X": 1}}, "two columns of sums would have the same name"),
        ({"sums": {"x": 1, "x clipped": 1}}, "two columns of sums would have the same name"),
        ({"sums": {"u": 1}}, "cannot be summed, since it is the key or the user"),
        ({"sums": {"k": 1}}, "cannot be summed, since it is the key or the user"),
        ({"sums": {"absent": 1}}, "the column 'absent' must be in"),
        ({"rows": 2, "keys_only": True}, "rows and sums cannot be combined with keys_only"),
        ({"rows": 2, "max_keys_per_user": 3}, "rows and sums can only be used for users without a contribution bound"),
        ({"rows": 2, "user": None}, "rows and sums can only be used for users without a contribution bound"),
    ],
    ids=str,
)
def test_refusals(options: dict[str, Any], rule: str) -> None:
    table = pa.table({"u": [1], "k": ["a"], "x": [1.0], "X": [1.0]})
    with refused(rule):
        dpsample.release(table, "k", privacy=Privacy(1, 1e-6), **{"user": "u", **options})


def test_a_key_cannot_have_the_name_of_a_sum() -> None:
    for name, options in (("rows_clipped", {"rows": 1}), ("SUM_x_low", {"sums": {"X": 1}})):
        table = pa.table({"u": [1], name: ["a"], "X": [1.0]})
        with refused("a key column cannot be called"):
            dpsample.release(table, name, user="u", privacy=Privacy(1, 1e-6), **options)


BEYOND = Clipped(PRICE, 0.1, (0.02, 0.0), (0.0, 2.0), (0.25, 0.5))


def made() -> Release:
    """A release of four keys, with rows and prices."""
    amounts = (Clipped(ROWS, groups=(0.02, 0.0)), BEYOND)
    budget = UserBudget(Privacy(5, "1e-5"), counts=count_share(2), amounts=(ROWS, PRICE))
    noise = tuple(VectorNoise.of(budget.square * share, budget.aside, 1) for share in budget.parts.values())
    each = budget.one_key()
    counts = Counts(noise, 0.1, ((20.0, 0.01), (90.0, 0.0)), amounts)
    discovery = Discovery("one-key", 1, capacity_cap(each))
    terms = stated_terms(budget.privacy, KeepAll(), ("key",), discovery=discovery, counts=counts, per_key=each)
    table = counted(pa.table({"key": ["a", "b", "c", "d"]}), np.array([100.0, 50, 30, 20]), np.full(4, 3.0))
    errors, users = np.array([9.0, 6, 6, 4]), table["measured"].to_numpy()
    table = summed(table, amounts[0], np.array([150.0, 80, -4, 30]), errors, users)
    table = summed(table, amounts[1], np.array([2000.0, -300, 500, 0.5]), 33.33333 * errors, users)
    return Release(table, terms)


def test_files_have_the_columns_of_amounts(tmp_path: Path) -> None:
    release = made()
    users = ("key", "estimate", "low", "high", "measured", "standard_error")
    rows = ("rows_clipped", "rows_clipped_low", "rows_clipped_high", "rows_low", "rows_high")
    price = ("sum_price_clipped", "sum_price_clipped_low", "sum_price_clipped_high", "sum_price_low", "sum_price_high")
    assert tuple(release.table.column_names) == (
        *users,
        *rows,
        "rows_measured",
        "rows_error",
        *price,
        "sum_price_error",
    )
    assert release.table["rows_clipped"].to_pylist() == [150, 80, 1, 30]  # a reported key has a row
    assert release.table["rows_measured"].to_pylist() == [150, 80, -4, 30]
    assert release.table["sum_price_error"].to_pylist() == [300, 200, 200, 133.3]  # four figures
    for name in ("out.parquet", "out.csv"):
        release.write(tmp_path / name)
        assert read_release(tmp_path / name) == release
    assert "sums of 'price', from -100 to 100 for each user and key" in repr(release)
    assert "sum_price_low to sum_price_high includes values from -800 to 800" in repr(release)
    assert "sum_price beyond: Gaussian noise" in run("verify", "out.parquet", cwd=tmp_path).stdout
    wrong = release.table.set_column(13, "sum_price_clipped", pa.array([1e9, 0, 0, 0]))
    with refused("is not finite, has no positive error, or is not between its bounds"):
        Release(wrong, release.terms)


def tail(clipped: float) -> float:
    """What is beyond 1 of exponential numbers whose mean is `clipped` if they are clipped at 1."""
    m = optimize.brentq(lambda m: m * (1 - math.exp(-1 / m)) - clipped, 0.02, 50)
    return float(m - clipped)


def test_sums_of_amounts_by_plain_arithmetic() -> None:
    release = made()
    rows = release.sum(of="rows")
    assert rows.value == 256
    # keys of 90 users or more have nothing in common, others 2 % of what was measured
    common = 0.02 * (80 + 4 + 30)
    error = math.sqrt(81 + 36 + 36 + 16 + common**2)
    assert rows.standard_error == pytest.approx(error)
    assert (rows.low, rows.high) == pytest.approx((256 - 1.959964 * error, 256 + 1.959964 * error))
    price = release.sum("key < 'c'", of="sum_price")
    own = math.hypot(300, math.hypot(200, 0.02 * 300))
    assert price.value == 1700
    assert price.standard_error == pytest.approx(own)
    # above: 2 for each of 200 users in all, of which a and b have 150; their means are 20, -6, 16.7 and 0.025
    tails = 100 * tail(0.2), 30 * tail(500 / 30 / 100)
    up = max(150, 200 * tails[0] / sum(tails))
    # and 1.25 times as much for each key by itself: by users 100 and 50, by tails all of a; by sums it is less
    apart = max(math.hypot(100, 50), 200 * tails[0] / sum(tails))
    error = math.hypot(own, math.hypot(0.5 * up, 1.25 * 2 * apart))
    assert price.high == pytest.approx(1700 + 2 * up + 1.959964 * error, rel=1e-4)
    # below: nothing was found, but its noise is there; of the negative sums b has all
    assert price.low == pytest.approx(1700 - 1.959964 * math.hypot(own, 0.25 * 200))
    assert "those above 100 add about 2 for each user and key" in price.notes[0]
    opposite = release.sum("key < 'c'", lambda t: pa.array([-1.0] * t.num_rows), of="sum_price")
    assert (opposite.low, opposite.high) == pytest.approx((-price.high, -price.low))
    assert release.sum("key = 'z'", of="rows").keys == 0
    groups = release.sum(of="sum_price", by="key")
    assert groups["b"].value == -300
    with refused("a release of counted users cannot sum log1p"):
        release.sum(of="log1p")


def test_a_ratio_has_the_interval_of_fieller(tmp_path: Path) -> None:
    """Of a fine grid of ratios, those that a test of a = r b does not reject at this level."""
    for a, b in ((Sum(100.0, 9.0), Sum(20.0, 2.0)), (Sum(-5.0, 3.0), Sum(40.0, 6.0)), (Sum(3.0, 1.0), Sum(-9.0, 2.0))):
        grid = np.linspace(-20, 20, 400_001)
        kept = grid[np.abs(a.value - grid * b.value) <= 1.959964 * np.hypot(a.error, grid * b.error)]
        assert fieller(a, b, 0.95) == pytest.approx((kept.min(), kept.max()), abs=2e-4)
    assert fieller(Sum(1.0, 1.0), Sum(1.0, 1.0), 0.95) == (-math.inf, math.inf)
    release = made()
    release.write(tmp_path / "out.parquet")
    mean = release.ratio("sum_price", "rows")
    assert mean.value == pytest.approx(2200.5 / 256)
    assert mean.low < mean.value < mean.high
    longer = fieller(Sum(2200.5 + 2 * 200, 0.0), Sum(256.0, release.sum(of="rows").standard_error), 0.95)
    assert mean.high > longer[1]  # what is beyond the clip is in it
    by_key = release.ratio("rows", by="key")
    assert by_key["a"].value == pytest.approx(1.5)
    assert not release.ratio("sum_price", "rows", "key = 'c'").guaranteed
    for of, per in (("rows", "rows"), ("rows", "rows_clipped"), ("price", "users"), ("sum_price", "keys")):
        with refused("is not a ratio of two sums of this release, which are users, rows, rows_clipped"):
            release.ratio(of, per)
    shown = run("query", "out.parquet", "--of", "sum_price", "--per", "rows", cwd=tmp_path).stdout
    assert shown.splitlines()[0] == repr(mean).splitlines()[0]
    with refused("only a release of counted users has sums to divide"):
        example.ratio("rows")


@pytest.mark.usefixtures("fixed_coins")
def test_a_release_with_amounts_by_library_and_command_line(tmp_path: Path) -> None:
    """Both have the same columns and words; of 500 users with two rows of 3 each, sums are within 8 errors."""
    rng = np.random.default_rng(1)
    table = pa.table({"u": np.repeat(np.arange(500), 2), "k": ["a"] * 1000, "x: y": np.full(1000, 3.0)})
    table = table.take(rng.permutation(1000))
    pq.write_table(table, tmp_path / "d.parquet")
    drawn = dpsample.release(table, "k", user="u", privacy=Privacy(2, 1e-6), rows=4, sums={"x: y": 10})
    words = ["release", "d.parquet", "-k", "k", "--user", "u", "-e", "2", "-d", "1e-6", "-o", "out.parquet"]
    printed = run(*words, "--rows", "4", "--sum", "x: y:10", cwd=tmp_path).stderr
    assert (
        "Summed  sums of 'x: y', from -10 to 10 for each user and key, with Gaussian noise, are sum_x: y_clipped"
        in printed
    )
    for release in (drawn, read_release(tmp_path / "out.parquet")):
        assert release.table.num_rows == 1
        row = release.table.to_pylist()[0]
        assert row["rows_clipped"] == pytest.approx(1000, abs=8 * row["rows_error"])
        assert row["sum_x: y_clipped"] == pytest.approx(3000, abs=8 * row["sum_x: y_error"])
        assert release.terms.amounts == amounts_of(4, {"x: y": 10})
    again = ["--force", "--sum", "x: y", "--clip", "10", "--sum", "u", "--clip", "2"]
    assert "the column 'u' cannot be summed" in run(*words, *again, cwd=tmp_path).stderr
    assert run(*words, *again[:5], "--rows", "4", cwd=tmp_path).returncode == 0
    assert read_release(tmp_path / "out.parquet").terms.amounts == amounts_of(4, {"x: y": 10})
    for wrong in ("x", ":3"):
        assert "--sum must name a column and a clip" in run(*words, "--sum", wrong, cwd=tmp_path).stderr
    for wrongs, found in (("--sum x --sum y --clip 1", "not 2 and 1"), ("--clip 1", "not 0 and 1")):
        assert f"--sum and --clip must go in pairs, {found}" in run(*words, *wrongs.split(), cwd=tmp_path).stderr
