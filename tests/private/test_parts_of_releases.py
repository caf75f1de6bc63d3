"""Releases and samples of a part say so, in Python and on the command line."""

import datetime
import json
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsample
import support
from days import PRIVACY, charge, day
from days import engine as engine
from dpsample import KeepAll, Ppswor, Privacy, Source, new_ledger, read_ledger, read_release
from dpsample.answers.entered import verify_releases
from dpsample.ledger.ledger import reserve_budget
from dpsample.private.engine import Engine
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.request import Request
from neighbours import command, differences, observe
from stated_terms import restated
from support import refused

DAYS = ("2026-11-13", "2026-11-14", "2026-11-15")


# ---- releases


def clicks() -> pa.Table:
    """Three days; each with a key of its own and one of all days."""
    days = [datetime.date.fromisoformat(text) for text in DAYS]
    rows = [(d, key, user) for d in days for key in ("all", str(d)) for user in range(300)]
    return pa.table({"day": [d for d, _, _ in rows], "page": [k for _, k, _ in rows], "user": [u for _, _, u in rows]})


@pytest.mark.chance("odds 1e-20: a key of 300 elements or users is not reported")
def test_a_release_of_a_part_says_so(engine: Engine, tmp_path: Path) -> None:
    path, ledger = tmp_path / "clicks.parquet", tmp_path / "a.ledger"
    pq.write_table(clicks(), path)
    new_ledger(ledger, "clicks", Privacy(1, "1e-6"), "user", parts="day")
    users: dict[str, Any] = {"user": "user", "max_keys_per_user": 2, "privacy": Privacy(1, "1e-8")}
    do = dpsample.release
    if not isinstance(engine, DuckDB):
        from dpsample import spark

        do = spark.release  # type: ignore[assignment]
    for value in DAYS:
        made = do(path, "page", ledger=ledger, part=("day", value), **users)
        assert made.table["page"].to_pylist() == [value, "all"]
        assert made.terms.part == day(value)
        assert made.terms.protects == "user with up to 2 keys, in one day"
        assert f"  part      day = {value}\n" in repr(made)
        made.write(tmp_path / f"{value}.csv")
    balance = read_ledger(ledger)
    assert balance.spent[0] == 1
    assert [entry.charge.part for entry in balance.entries] == [day(value) for value in DAYS]
    assert len(verify_releases(balance, [tmp_path / f"{value}.csv" for value in DAYS])) == 3
    back = read_release(tmp_path / f"{DAYS[0]}.csv")
    assert back.metadata["part"] == {"name": "day", "value": DAYS[0], "vouched": False}
    for other in (None, day(DAYS[1]), day(DAYS[0], vouched=True)):
        terms = restated(back.terms, part=other)
        dpsample.Release(back.table, terms).write(tmp_path / "other.csv", force=True)
        with refused("in the ledger of 'clicks' has another part"):
            verify_releases(balance, [tmp_path / "other.csv"])
    with refused("the releases of 'clicks', day = 2026-11-13, may spend"):
        do(path, "page", ledger=ledger, part=("day", DAYS[0]), **users)
    with refused("the ledger of 'clicks' counts privacy of one user, in one day"):
        do(path, "page", ledger=ledger, **users)


@pytest.mark.chance("odds 2e-9: noise beyond its interval; keys of 300 are picked and reported")
def test_two_passes_read_one_part(tmp_path: Path) -> None:
    pq.write_table(clicks(), tmp_path / "clicks.parquet")
    options: dict[str, Any] = {"privacy": PRIVACY, "sampling": Ppswor("0.9"), "strategy": "two-pass", "total": True}
    made = dpsample.release(tmp_path / "clicks.parquet", "page", part=("day", DAYS[1]), **options)
    assert made.table["page"].to_pylist() == [DAYS[1], "all"]
    low, high = made.total.interval(1 - 1e-9) if made.total else (0, 0)
    assert low <= 600 <= high


@pytest.mark.chance("odds 1e-20: a key of 300 elements is not reported")
def test_a_caller_who_vouches_is_named(tmp_path: Path) -> None:
    ledger = tmp_path / "a.ledger"
    new_ledger(ledger, "clicks", Privacy(1, "1e-6"), parts="day")
    made = dpsample.release({"a": 300}, privacy=PRIVACY, ledger=ledger, part_vouched=("day", "2026-11-14"))
    assert made.terms.part == day("2026-11-14", vouched=True)
    assert "part: day = 2026-11-14 (vouched for by the caller, not checked)" in str(read_ledger(ledger))


@pytest.mark.chance("odds 1e-20: a key of 300 users is not reported")
def test_a_sample_of_a_part_carries_it_to_its_release(engine: Engine, tmp_path: Path) -> None:
    path, ledger = tmp_path / "clicks.parquet", tmp_path / "a.ledger"
    pq.write_table(clicks(), path)
    new_ledger(ledger, "clicks", Privacy(1, "1e-6"), "user", parts="day")
    users: dict[str, Any] = {"user": "user", "max_keys_per_user": 2, "sampling": KeepAll()}
    do = dpsample.sample
    if not isinstance(engine, DuckDB):
        from dpsample import spark

        do = spark.sample  # type: ignore[assignment]
    for value, form in zip(DAYS, ("parquet", "arrow", "csv"), strict=True):
        drawn = do(path, "page", part=("day", value), **users)
        assert dict(zip(*drawn.table.sort_by("page").to_pydict().values(), strict=True)) == {value: 300, "all": 300}
        assert drawn.part == day(value)
        assert f"day = {value}" in repr(drawn)
        assert drawn.metadata["part"] == day(value).to_json()
        drawn.write(tmp_path / f"sample.{form}")
        back = dpsample.read_sample(tmp_path / f"sample.{form}")
        made = dpsample.sanitize(back, privacy=Privacy(1, "1e-8"), ledger=ledger)
        assert made.terms.part == day(value)
        made.write(tmp_path / f"{value}.csv")
        marked = dpsample.read_sample(tmp_path / f"sample.{form}")
        assert (marked.used, marked.part) == (True, day(value))
    balance = read_ledger(ledger)
    assert balance.spent[0] == 1  # the maximum of the parts
    assert [entry.charge.part for entry in balance.entries] == [day(value) for value in DAYS]
    assert len(verify_releases(balance, [tmp_path / f"{value}.csv" for value in DAYS])) == 3
    whole = dpsample.sample(path, "page", **users)
    assert whole.part is None
    with refused("the ledger of 'clicks' counts privacy of one user, in one day"):
        dpsample.sanitize(whole, privacy=Privacy(1, "1e-8"), ledger=ledger)


@pytest.mark.chance("odds 1e-20: a key of 300 elements is not reported")
def test_the_part_of_a_sample_can_be_vouched_for() -> None:
    vouched = day("2026-11-14", vouched=True)
    pair = ("day", "2026-11-14")
    drawn = dpsample.sample({"a": 300}, sampling=KeepAll(), part_vouched=pair)
    theirs = pa.table({"k": ["a"], "n": [300]})
    foreign = dpsample.Sample.from_table(theirs, key="k", frequency="n", sampling=KeepAll(), part_vouched=pair)
    for sample in (drawn, foreign):
        assert sample.part == vouched
        assert dpsample.sanitize(sample, privacy=PRIVACY).terms.part == vouched
    with refused("part cannot be combined with part_vouched"):
        dpsample.sample({"a": 300}, sampling=KeepAll(), part=pair, part_vouched=pair)
    with refused("the column 'dag' must be in"):
        dpsample.sample(clicks(), "page", sampling=KeepAll(), part=("dag", "x"))


@pytest.mark.parametrize(
    ("options", "rule", "found"),
    [
        ({"part": ("dag", "x")}, "the column 'dag' must be in", "part_vouched="),
        ({"part": "day=2026-11-14"}, "a part must be the name of a column and a value, both as text", "write part=("),
        ({"part": ("day", datetime.date(2026, 11, 14))}, "a part must be the name of a column and a value", "as text"),
        ({"part": ("a\x1b[2J", "x")}, "a part must be the name of a column and a value", "as text"),
        ({"part": ("", "x")}, "a part must be the name of a column and a value", "as text"),
        ({"part": ("day", "x"), "part_vouched": ("day", "x")}, "part cannot be combined with part_vouched", "leave"),
        ({"part": ("user", "1"), "user": "user", "max_keys_per_user": 1}, "the part is of ", "'user'"),
        ({"part": ("user", "1"), "frequency": "user"}, "the part is of ", "'user'"),
    ],
    ids=str,
)
def test_bad_parts_are_refused(options: dict[str, Any], rule: str, found: str) -> None:
    with refused(rule) as info:
        dpsample.release(clicks(), "page", privacy=PRIVACY, **options)
    assert found in str(info.value)


def test_a_source_that_is_a_part_is_released_as_one(tmp_path: Path) -> None:
    source = Source(clicks(), "page").of_part(day(DAYS[0]))
    request = Request.of(source, privacy=PRIVACY)
    assert request.charge("x").part == day(DAYS[0])
    mores: list[dict[str, Any]] = [{"part": ("day", DAYS[1])}, {"part_vouched": ("day", DAYS[1])}]
    for more in mores:
        with refused("the source is a part already"):
            Request.of(source, privacy=PRIVACY, **more)


def test_what_is_left_is_told_of_the_part_of_the_last(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", Privacy("0.5", "1e-6"), parts="day", account="renyi")
    for value in ("13", "13", "14"):
        reserve_budget(path, charge("0.13", day(value)))
    ledger = read_ledger(path)
    assert ledger.largest_part == "13"
    assert ledger.more == 2
    assert "the part that spent most; left: about 2 more releases like the last, of day = 14" in str(ledger)
    reserve_budget(path, charge("0.13"))
    assert read_ledger(path).more == 0  # those of 13 have no room


def test_what_has_no_columns_has_no_part() -> None:
    for data in ({"a": 5}, ["a"]):
        with refused("has no column that a part could be of"):
            dpsample.release(data, privacy=PRIVACY, part=("day", "x"))


# ---- neighbours


@pytest.mark.parametrize("users", [False, True], ids=["elements", "users"])
@pytest.mark.parametrize("options", [{}, {"total": True}, {"size": 2}], ids=str)
def test_rows_of_other_parts_change_nothing_at_all(users: bool, options: dict[str, Any], tmp_path: Path) -> None:
    """Not even what is drawn, with the same coins: a row of another part, or of none, is not read."""
    table = clicks()
    given: dict[str, Any] = {"part": ("day", DAYS[0]), **options}
    given |= {"user": "user", "max_keys_per_user": 1} if users else {}
    more = {
        "another part": (datetime.date(2026, 11, 14), "all", 1),
        "no part": (None, "all", 1),
        "a NULL key": (datetime.date(2026, 11, 14), None, 1),
    }

    def work(output: Path, data: pa.Table) -> None:
        ledger = output / "ledger"
        dpsample.release_to_file(output / "out.parquet", data, "page", privacy=PRIVACY, ledger=ledger, **given)

    unit = "user" if users else "element"
    seen = observe(partial(work, data=table), tmp_path / "output", unit)
    assert not seen.refused, seen.outcome
    assert seen.drawn
    for d, key, user in more.values():
        extra = pa.table({"day": pa.array([d], pa.date32()), "page": pa.array([key], pa.string()), "user": [user]})
        neighbour = pa.concat_tables([extra, table])
        other = observe(partial(work, data=neighbour), tmp_path / "output", unit)
        assert not differences(seen, other), differences(seen, other)
        assert (seen.drawn, seen.total) == (other.drawn, other.total)


# ---- the command line


@pytest.mark.chance("odds 1e-20: a key of 300 elements is not reported")
def test_the_command_line(tmp_path: Path) -> None:
    pq.write_table(clicks(), tmp_path / "clicks.parquet")
    book = str(tmp_path / "days.ledger")
    run = command("ledger", "new", book, "--dataset", "clicks", "-e", "1", "-d", "1e-6", "--parts", "day")
    assert run.exit_code == 0, run.output
    assert "parts that do not overlap: day; each has all of the budget" in run.output
    base = ["release", str(tmp_path / "clicks.parquet"), "-k", "page", "-e", "1", "-d", "1e-8", "--ledger", book]
    for value in DAYS[:2]:
        run = command(*base, "--part", f"day={value}", "-o", str(tmp_path / f"{value}.csv"))
        assert run.exit_code == 0, run.output
        assert f"Part    rows with day = {value} alone" in run.output
    run = command(*base, "--part-vouched", "day=1=2", "-o", str(tmp_path / "v.csv"), "--format", "json")
    assert json.loads(run.output)["part"] == {"name": "day", "value": "1=2", "vouched": True}
    for bad, said in (
        (["--part", "2026-11-14"], "--part must be a name and a value, not '2026-11-14'; write --part day=2026-11-14"),
        (["--part-vouched", "=x"], "--part-vouched must be a name and a value"),
    ):
        refusal = support.run(*base, *bad, "-o", str(tmp_path / "bad.csv"), cwd=tmp_path)
        assert refusal.returncode == 2
        assert said in refusal.stderr
    run = command("ledger", "show", book, "--format", "json")
    assert json.loads(run.output)["spent"] == {
        "epsilon": "1",
        "delta": "1e-08",
        "rule": "basic composition",
        "part": DAYS[0],
    }
    users = str(tmp_path / "users.ledger")
    run = command(
        *("ledger", "new", users, "--dataset", "clicks", "-e", "1", "-d", "1e-6", "--unit", "user"),
        *("--parts", "day", "--account", "renyi", "--aside", "0.2"),
    )
    assert "for each user, in one day" in run.output
    assert "delta 2e-07 is set aside" in run.output
    run = command("ledger", "new", f"{users}2", "--dataset", "c", "-e", "1", "-d", "1e-6", "--aside", "0.2")
    assert "--aside cannot be used without --account renyi" in run.stderr


@pytest.mark.chance("odds 1e-20: a key of 300 elements is not reported")
def test_samples_of_a_part_on_the_command_line(tmp_path: Path) -> None:
    pq.write_table(clicks(), tmp_path / "clicks.parquet")
    drawn, made = str(tmp_path / "sample.parquet"), str(tmp_path / "made.csv")
    run = command("sample", str(tmp_path / "clicks.parquet"), "-k", "page", "--part", f"day={DAYS[0]}", "-o", drawn)
    assert run.exit_code == 0, run.output
    base = ["sanitize", drawn, "-e", "1", "-d", "1e-8"]
    run = command(*base, "--part-vouched", "day=x", "-o", made)
    assert (run.exit_code, "carries its scheme and its part" in run.stderr) == (2, True)
    assert command(*base, "-o", made).exit_code == 0
    assert read_release(made).terms.part == day(DAYS[0])
    pq.write_table(pa.table({"k": ["a"], "n": [300]}), tmp_path / "theirs.parquet")
    theirs = ["sanitize", str(tmp_path / "theirs.parquet"), "-k", "k", "--frequency", "n", "-e", "1", "-d", "1e-8"]
    run = command(*theirs, "--part-vouched", "day=x", "-o", str(tmp_path / "theirs.csv"))
    assert run.exit_code == 0, run.output
    assert read_release(tmp_path / "theirs.csv").terms.part == day("x", vouched=True)
