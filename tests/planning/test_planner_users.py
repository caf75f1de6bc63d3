"""Plans of users: what any method could report, and ways to find keys without a contribution bound."""

import json
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import support
from dpsample import KeepAll, Privacy, Source
from dpsample.accounting.amounts import amounts_of
from dpsample.accounting.choice import FULL, promising_keys
from dpsample.accounting.counts import COUNT_PARTS, COUNT_SHARE
from dpsample.accounting.discovery import Discovery
from dpsample.accounting.filled import FILLED_SHARE
from dpsample.accounting.look import Look, TrueLook
from dpsample.accounting.user_budget import LOOK_SHARE, UserBudget
from dpsample.cli import cli
from dpsample.planning.command import command, python
from dpsample.planning.forecast import most_possible
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.setting import Setting
from dpsample.planning.users import forecast_users
from dpsample.private.count import CountedUsers
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.users.counts import Stage, released
from dpsample.private.users.parts import Exact
from dpsample.scheme.reporting import reporting_probabilities
from explorers import NUMBERS, one_key_each
from references import true_pi
from support import refused

EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)
PRIVACY = Privacy(EPSILON, DELTA)

drawn_once = pytest.mark.chance(
    "certain: users with one key give it in any order, and so do those who keep all of theirs"
)


def exact_sum(numbers: list[int], privacy: Privacy) -> float:
    pi = true_pi(KeepAll(), privacy, max(numbers))  # 120 digits
    return float(sum((pi[n] for n in numbers), Decimal(0)))


def two_keys_each(users: int = 400) -> pa.Table:
    """All users have the key "all", and one of ten others."""
    rows = [row for n in range(users) for row in ((n, "all"), (n, f"key {n % 10}"))]
    return pa.table({"u": [u for u, _ in rows], "k": [k for _, k in rows]})


def planned(table: pa.Table, **options: Any) -> tuple[Any, dict[tuple[bool, str], Any]]:
    with DuckDB(threads=1) as engine:
        numbers = CountedUsers(Source(table, "k", user="u"), engine)
        assert repr(numbers) == "CountedUsers()"
        with pytest.MonkeyPatch.context() as patch:  # pairs are sorted for an assignment, and not again for counts
            patch.setattr("dpsample.private.engine.duckdb.pairs._sort_pairs", None)
            made = forecast_users(numbers, Setting(PRIVACY, discover="ask", **options))
    return made, {(each.way.counted, each.way.discovery): each for each in made.methods if each.way}


@cache
def planned_plainly() -> tuple[Any, dict[tuple[bool, str], Any]]:
    return planned(one_key_each())


@pytest.mark.parametrize("privacy", [Privacy("0.3", "1e-3"), Privacy("2", "1e-9")], ids=str)
def test_what_is_possible_is_the_sum_of_exact_probabilities(privacy: Privacy) -> None:
    numbers = [1, 1, 1, 8, 13, 20, 20, 300]
    assert most_possible(Frequencies.of(numbers), privacy).keys == pytest.approx(exact_sum(numbers, privacy), rel=1e-11)


@drawn_once
def test_users_with_one_key_give_it_up_to_a_full_key() -> None:
    made, ways = planned_plainly()
    assert made.possible.keys == pytest.approx(exact_sum(list(NUMBERS.values()), PRIVACY), rel=1e-11)
    assert (made.frequencies.total, made.frequencies.elements) == (4, 1115)
    assert "NOT private" in repr(made)
    assert "1000" not in repr(made)
    left = Privacy(EPSILON * (1 - LOOK_SHARE), DELTA)
    pi = true_pi(KeepAll(), left, 1000)
    full = next(n for n, p in enumerate(pi) if p >= Decimal(FULL))
    expected = sum(pi[min(n, full)] for n in NUMBERS.values())
    assert ways[False, "one-key"].keys == pytest.approx(float(expected), rel=1e-11)
    assert ways[False, "one-key"].detection_threshold == next(n for n, p in enumerate(pi) if p >= Decimal("0.5"))
    # who has one key cannot give more
    assert all(each.way.chosen == (each.way.discovery == "one-key") for each in made.methods)
    assert ways[True, "one-key"].keys < ways[False, "one-key"].keys


@drawn_once
def test_users_who_keep_all_keys_give_all() -> None:
    made, ways = planned(two_keys_each())
    numbers = [400, *[40] * 10]
    assert made.possible.keys == pytest.approx(exact_sum(numbers, PRIVACY), rel=1e-11)
    for counted in (False, True):
        budget = UserBudget(PRIVACY, LOOK_SHARE, counts=COUNT_SHARE if counted else Fraction(0))
        look = Look((0, 400, *[0] * (len(Look.EDGES) - 2)), EPSILON * (LOOK_SHARE - FILLED_SHARE))
        keys = promising_keys(budget, look)
        way, each = ways[counted, "many-keys"], budget.many_keys(keys)
        assert each is not None
        expected = float(sum(reporting_probabilities(numbers, KeepAll(), each)))
        assert way.way.keys_each == keys
        assert way.keys == pytest.approx(expected, rel=1e-12)
        # ten keys of 40 users fill less, where full keys have more users than that, than they do as units of one key
        found = [method.way for method in made.methods]
        fullest = max((w.filled, w.discovery) for w in found if w.counted == counted)
        assert [w.discovery for w in found if w.chosen and w.counted == counted] == [fullest[1]]


@drawn_once
def test_a_total_is_paid_for_first() -> None:
    _, ways = planned(one_key_each(), total="1/5")
    pi = true_pi(KeepAll(), Privacy(EPSILON * (1 - LOOK_SHARE - Fraction(1, 5)), DELTA), 1000)
    full = next(n for n, p in enumerate(pi) if p >= Decimal(FULL))
    expected = float(sum(pi[min(n, full)] for n in NUMBERS.values()))
    assert ways[False, "one-key"].keys == pytest.approx(expected, rel=1e-11)


@drawn_once
def test_the_error_of_a_single_count_is_its_noise() -> None:
    """One key is found: its users have the same length, nothing is clipped, and one user changes the count by one."""
    table = pa.table({"u": list(range(1000)), "k": ["many"] * 1000})
    _, ways = planned(table)
    budget = UserBudget(PRIVACY, LOOK_SHARE, counts=COUNT_SHARE)
    deviation = 1 / math.sqrt(budget.square * COUNT_PARTS["counts"])
    few, many = ways[True, "one-key"].way.count_errors
    assert few is None
    assert many == pytest.approx(deviation / 1000, rel=1e-12)
    assert ways[False, "one-key"].way.count_errors == (None, None)


def test_what_has_no_noise_cannot_be_released() -> None:
    """Counts without noise are of a type that no release accepts: mypy would find the comment below unused."""
    budget = UserBudget(PRIVACY, counts=COUNT_SHARE)
    found = pa.table({"k": ["many", "some"]})
    with DuckDB(threads=1) as engine:
        pairs = engine.pairs_of(Source(one_key_each(), "k", user="u"), found)
        counted, _ = Stage(engine, pairs, 2, 20.0, budget, Exact()).counted()
        # each user has one key, so nothing is clipped; that no user is too long to be seen cannot be told from noise
        assert counted.users.values.tolist() == pytest.approx([1000, 100], rel=0.01)
        assert 0 <= counted.clipped < 0.01
        assert (counted.users.errors > 0).all()
        with pytest.raises(AttributeError, match="tables"):
            released(counted, (), budget)  # type: ignore[arg-type]
    look = TrueLook((1000, 0, 0, 0, 0, 0, 0), Fraction(1))
    assert repr(Discovery("many-keys", 2, look=look)).count("TrueLook()") == 1  # type: ignore[arg-type]


@drawn_once
def test_a_plan_of_users_in_words_and_as_json(tmp_path: Path) -> None:
    path = str(tmp_path / "clicks.parquet")
    pq.write_table(one_key_each(), path)
    arguments = ["plan", path, "-k", "k", "--user", "u", "-e", "0.5,1", "--threads", "1"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0] == lines[-1]
    assert lines[0].startswith("NOT PRIVATE")
    assert (
        lines[2] == "delta 1e-05, for each user (all rows of one user identifier), with all of their keys"
    )  # of 1,115 pairs
    assert lines[3] == "4 keys; users have 1,115 keys in all; all keys are kept"
    assert sum("  any method, at most" in line for line in lines) == 2
    assert sum("keys only, one key each *" in line for line in lines) == 2
    assert max(map(len, lines[:-3])) <= 120
    assert lines[-2] == (
        f"Next: dpsample release {path} --key k --user u --epsilon 0.5 --delta 1e-05 -o OUTPUT.private.parquet"
    )
    told = json.loads(CliRunner().invoke(cli, [*arguments, "-d", "1e-6", "--format", "json"]).output)
    assert next(iter(told)) == "NOT private"
    assert told["delta_by_number_of_elements"] is False
    last = told["forecasts"][1]
    assert last["possible_keys"] == pytest.approx(exact_sum(list(NUMBERS.values()), PRIVACY), rel=1e-11)
    assert len(last["methods"][0]["way"]["count_errors"]) == 2


@drawn_once
def test_a_plan_with_a_bound_says_what_was_possible(tmp_path: Path) -> None:
    path = str(tmp_path / "clicks.parquet")
    pq.write_table(two_keys_each(), path)
    arguments = ["plan", path, "-k", "k", "--user", "u", "--max-keys-per-user", "1,2", "-e", "1", "-d", "1e-6"]
    told = json.loads(CliRunner().invoke(cli, [*arguments, "--format", "json"]).output)
    possible = exact_sum([400, *[40] * 10], PRIVACY)
    assert [made["possible_keys"] for made in told["forecasts"]] == [pytest.approx(possible, rel=1e-11)] * 2
    lines = CliRunner().invoke(cli, arguments).output.splitlines()
    assert sum(line.endswith("of possible") for line in lines) == 2
    share = told["forecasts"][1]["methods"][0]["keys"] / possible
    assert next(line for line in lines if " PWS " in line and "of possible" not in line).endswith("%")
    assert any(line.endswith(f"{100 * share:#.3g} %".replace(". %", " %")) for line in lines if " PWS " in line)
    none = CliRunner().invoke(cli, ["plan", "--zipf", "1", "--keys", "100", "--max-keys-per-user", "2", "-e", "1"])
    assert "of possible" not in none.output


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--goal", "keys>=5"], "--goal goes with --max-keys-per-user"),
        (["--scheme", "ppswor", "--tau", "0.1"], "needs a contribution bound"),
        (["--scheme", "ppswor", "--sample-size", "10"], "needs a contribution bound"),
        (["-e", "0"], "epsilon"),
        (["--zcdp", "1"], "not with --zcdp; add --max-keys-per-user"),
        (["--with-total", "--total-share", "0.99"], "nothing is left for the keys"),
        (["--max-keys-per-user", "2", "--rows", "3"], "--rows and --sum go with users without a contribution bound"),
        (["--sum", "price"], "write --sum price:100"),
        (["--keys", "list.csv"], "--keys of a plan is the number of keys of --zipf, not 'list.csv'; leave"),
        (["--at-least", "0"], "must be a whole number from 1"),
    ],
    ids=str,
)
@pytest.mark.chance("certain: plans are refused before anything is drawn")
def test_bad_plans_of_users_are_refused_before_anything_is_read(
    options: list[str], reason: str, tmp_path: Path
) -> None:
    done = support.run("plan", "missing.parquet", "-k", "k", "--user", "u", *options, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr


@drawn_once
def test_a_least_number_and_rows_are_planned() -> None:
    """Users with one key each: the same law, cut at 30 users; rows take their share, so that counts find fewer keys."""
    _, plain = planned_plainly()
    found, least = planned(one_key_each(), sampling=KeepAll(30))
    pi = true_pi(KeepAll(30), Privacy(EPSILON * (1 - LOOK_SHARE), DELTA), 1000)
    full = next(n for n, p in enumerate(pi) if p >= Decimal(FULL))
    expected = float(sum(pi[min(n, full)] for n in NUMBERS.values()))
    assert least[False, "one-key"].keys == pytest.approx(expected, rel=1e-11)
    assert pi[29] == 0
    rows, with_rows = planned(one_key_each(), amounts=amounts_of(3, None))
    assert with_rows[False, "one-key"] == plain[False, "one-key"]
    assert with_rows[True, "one-key"].keys < plain[True, "one-key"].keys
    price, tip = (
        replace(rows.setting, amounts=amounts_of(None, sums)) for sums in ({"price": "2.5"}, {"tip": (0, 20)})
    )
    for setting, words, code in (
        (found.setting, "--at-least 30", "at_least=30,"),
        (rows.setting, "--rows 3", "rows=3,"),
        (price, "--sum price:2.5", "sums={'price': '2.5'},"),
        (tip, "--sum tip:0:20", "sums={'tip': '0:20'},"),
    ):
        assert f" {words} " in command(setting)
        assert f"    {code}\n" in python(setting)


def test_users_are_planned_where_there_are_users() -> None:
    with DuckDB(threads=1) as engine, refused("a plan for users needs"):
        CountedUsers(Source(one_key_each(), "k"), engine)
