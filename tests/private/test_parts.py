"""Parts that do not overlap: what they cost, and that a release of one reads its rows alone."""

import csv
import datetime
import json
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsample
import servers
import support
from dpsample import KeepAll, Ledger, Ppswor, Privacy, Source, new_ledger, read_ledger, read_release
from dpsample.accounting.charges import Charge, Entry, Status
from dpsample.accounting.ledger import reserve_budget, verify_releases
from dpsample.accounting.parts import Part
from dpsample.accounting.renyi import RenyiCurve
from dpsample.private.engine import Engine
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.request import Request
from neighbours import command, differences, observe
from support import refused

PRIVACY = Privacy("0.5", "1e-8")
DAYS = ("2026-11-13", "2026-11-14", "2026-11-15")


def charge(epsilon: str = "0.5", part: Part | None = None, unit: str = "element") -> Charge:
    return Charge(Privacy(epsilon, "1e-9"), unit, "x.parquet", part=part)


def day(value: str, vouched: bool = False) -> Part:
    return Part("day", value, vouched)


# ---- what they cost


def test_parts_cost_the_maximum(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", Privacy(1, "1e-6"), parts="day")
    reserve_budget(path, charge("0.5", day("13")))
    reserve_budget(path, charge("0.75", day("14")))
    reserve_budget(path, charge("0.25", day("13", vouched=True)))  # the same part, whoever says so
    ledger = read_ledger(path)
    assert ledger.spent == (Fraction(3, 4), Fraction(2, 10**9), "basic composition")
    assert ledger.largest_part == "13"  # two spent 0.75: the first of them
    assert "of day = 13, the part that spent most; left: epsilon 0.25" in str(ledger)
    reserve_budget(path, charge("0.25"))  # of no part: it counts for all
    reserve_budget(path, charge("0.75", day("15")))
    for more in (charge("0.001", day("13")), charge("0.001", day("14")), charge("0.001", day("15")), charge("0.001")):
        with refused("the releases of 'events', day = 1" if more.part else "the releases of 'events'"):
            reserve_budget(path, more)
    with refused("the releases of 'events', day = 16, may spend"):
        reserve_budget(path, charge("0.8", day("16")))
    reserve_budget(path, charge("0.75", day("16")))


def test_a_part_of_another_name_counts_for_all(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", Privacy(1, "1e-6"), parts="day")
    reserve_budget(path, charge("0.6", Part("country", "13")))
    with refused("the releases of 'events'"):
        reserve_budget(path, charge("0.6", day("13")))
    with refused("the releases of 'events'"):
        reserve_budget(path, charge("0.6", Part("country", "14")))


def test_a_part_in_a_ledger_without_parts_costs_the_sum(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", Privacy(1, "1e-6"))
    for value in ("13", "14"):
        reserve_budget(path, charge("0.5", day(value)))
    assert read_ledger(path).basic[0] == 1
    with refused("the releases of 'events' may spend"):
        reserve_budget(path, charge("0.5", day("15")))


def test_users_are_protected_within_one_part(tmp_path: Path) -> None:
    """A release of several parts is refused: without a user's rows of one day, keys of other days take their place."""
    path = tmp_path / "a.ledger"
    ledger = new_ledger(path, "clicks", Privacy(1, "1e-6"), "user", parts="day")
    assert ledger.protects == "user, in one day"
    assert str(ledger).startswith("Ledger of 'clicks': epsilon 1, delta 1e-06 for each user, in one day\n")
    for other in (charge(unit="user"), charge(unit="user", part=Part("country", "FR"))):
        with refused("the ledger of 'clicks' counts privacy of one user, in one day") as info:
            reserve_budget(path, other)
        assert "--part day=VALUE" in str(info.value)
    reserve_budget(path, charge(unit="user", part=day("14")))


def oracle(entries: Iterable[tuple[Charge, bool]], new: Charge, cost: Callable[[list[Charge]], bool]) -> bool:
    """Whether a release is allowed: for each value of the column there might be, by all that its elements are in."""
    live = [charge for charge, cancelled in entries if not cancelled] + [new]
    values = {c.part.value for c in live if c.part is not None} | {"of which nothing was released"}
    for value in values:
        touching = [c for c in live if c.part is None or c.part.name != "day" or c.part.value == value]
        if new in touching and not cost(touching):
            return False
    return True


@pytest.mark.parametrize("account", ["epsilon", "each", "renyi"])
def test_the_accounts_of_parts_against_an_oracle(account: str, tmp_path: Path) -> None:
    budget = Privacy(2, "1e-6")
    each = Privacy("0.25", "1e-9") if account == "each" else None
    empty = new_ledger(
        tmp_path / "a", "events", budget, each=each, parts="day", account="renyi" if account == "renyi" else "epsilon"
    )

    def within(charges: list[Charge]) -> bool:
        if account == "renyi":
            assert empty.account is not None
            total = RenyiCurve.none()
            for c in charges:
                total = total + RenyiCurve.of_privacy(c.privacy)
            return empty.account.allows(total)
        if empty.releases is not None:
            return len(charges) <= empty.releases
        return sum(c.privacy.epsilon for c in charges) <= 2 and sum(c.privacy.delta for c in charges) <= budget.delta

    for seed in range(20):
        rng = random.Random(seed)
        known: list[tuple[Charge, bool]] = []
        ledger: Ledger = empty
        outcomes = Counter[bool]()
        for n in range(60):
            part = rng.choice([None, Part("country", "FR"), *(day(value) for value in "1234")])
            spent = charge(rng.choice(["0.05", "0.1", "0.25"]), part if rng.random() < 0.9 else None)
            spent = replace(spent, release=str(n))
            allowed = oracle(known, spent, within)
            outcomes[allowed] += 1
            if not allowed:
                with refused("the releases of 'events'"):
                    ledger.require(spent)
                continue
            ledger.require(spent)
            cancelled = rng.random() < 0.2
            known.append((spent, cancelled))
            status: Status = "cancelled" if cancelled else "reserved"
            ledger = replace(ledger, entries=(*ledger.entries, Entry(spent, "then", str(n), status)))
            live = [c for c, gone in known if not gone]
            most = max(
                sum(c.privacy.epsilon for c in live if c.part is None or c.part.name != "day" or c.part.value == value)
                for value in "1234"
            )
            if account == "epsilon":
                assert ledger.spent[0] == most
        if account == "epsilon":
            assert min(outcomes[True], outcomes[False]) > 1


@pytest.mark.parametrize("parts", ["", 5, "a\nb"])
def test_parts_have_a_name(parts: Any, tmp_path: Path) -> None:
    with refused("parts have a name"):
        new_ledger(tmp_path / "a", "events", PRIVACY, parts=parts)


# ---- what is read

WEIRD = ["a'b", '"', "'; DROP TABLE t; --", "' OR '1'='1", "\\", "\\' OR 1=1 --", "%", "é", "", " a", "A", "a", "NULL"]


def _spark(*values: str) -> Any:
    return pytest.param(*values, marks=pytest.mark.xdist_group("spark"))


@pytest.fixture(params=["duckdb", _spark("spark")])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "duckdb":
        with DuckDB() as made:
            yield made
    else:
        from dpsample.private.engine.spark import Spark

        with Spark(request.getfixturevalue("spark")) as started:
            yield started


def counted(batches: Iterable[pa.RecordBatch]) -> dict[Any, int]:
    result: dict[Any, int] = {}
    for batch in batches:
        for key, frequency in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            assert key not in result
            result[key] = frequency
    return result


COLUMNS: dict[str, tuple[list[Any], pa.DataType, Callable[[Any], str]]] = {
    "text": (WEIRD, pa.string(), str),
    "integers": ([0, 1, -1, 7, 2**63 - 1, -(2**63)], pa.int64(), str),
    "small integers": ([0, 1, -1, 127], pa.int8(), str),
    "dates": ([datetime.date(2026, 11, n) for n in (13, 14, 15)] + [datetime.date(1, 1, 1)], pa.date32(), str),
    "booleans": ([True, False], pa.bool_(), lambda value: str(value).lower()),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_part_has_the_rows_of_its_value_alone(name: str, engine: Engine, tmp_path: Path) -> None:
    """As if the source had been filtered before; a NULL is in no part."""
    values, kind, text = COLUMNS[name]
    rng = random.Random(name)
    rows = [(rng.choice("xyz"), rng.choice([*values, None]), rng.randrange(50)) for _ in range(2000)]
    table = pa.table(
        {
            "k": [k for k, _, _ in rows],
            "the part": pa.array([p for _, p, _ in rows], kind),
            "n": pa.array([n for _, _, n in rows], pa.int64()),
        }
    )
    path = tmp_path / "data.parquet"
    pq.write_table(table, path, row_group_size=100)
    raw, aggregated = Source(path, "k"), Source(path, "k", "n")
    for i, value in enumerate(values):
        part = Part("the part", text(value))
        mine = [(k, n) for k, p, n in rows if p == value and type(p) is type(value)]
        assert counted(engine.aggregated(raw.of_part(part))) == Counter(k for k, _ in mine)
        if i > 1 and not isinstance(engine, DuckDB):
            continue  # each job of a cluster takes a second
        sums: Counter[str] = Counter()
        for k, n in mine:
            sums[k] += n
        assert counted(engine.aggregated(aggregated.of_part(part))) == {k: n for k, n in sums.items() if n}
        assert engine.total(aggregated.of_part(part)) == sum(sums.values())
    chosen = raw.of_part(Part("the part", text(values[0])))
    expected = Counter(k for k, p, _ in rows if p == values[0])
    assert sum(batch.num_rows for batch in engine.elements(chosen)) == sum(expected.values())
    wanted = pa.table({"k": ["x"]})
    assert counted(engine.count(chosen, wanted)) == {"x": expected["x"]}


def test_a_part_that_is_part_of_the_key(engine: Engine, tmp_path: Path) -> None:
    table = pa.table({"day": ["1", "1", "2", None], "k": ["a", "b", "a", "a"]})
    pq.write_table(table, tmp_path / "data.parquet")
    source = Source(tmp_path / "data.parquet", ["day", "k"]).of_part(day("1"))
    batches = [row for batch in engine.aggregated(source) for row in batch.to_pylist()]
    assert sorted(row["k"] for row in batches) == ["a", "b"]
    assert {row["day"] for row in batches} == {"1"}


@pytest.mark.chance("certain: each user has one key")
def test_faults_of_other_parts_are_not_seen(engine: Engine, tmp_path: Path) -> None:
    """A row that is refused changes the outcome: a release of another part must not tell of it."""
    table = pa.table(
        {
            "k": ["a", None, "a", "b", "a"],
            "n": pa.array([5, 1, -1, None, 7], pa.int64()),
            "u": pa.array([1, 2, 3, 4, None], pa.int64()),
            "day": ["1", "2", "3", "4", "5"],
        }
    )
    pq.write_table(table, tmp_path / "data.parquet")
    raw, summed = Source(tmp_path / "data.parquet", "k"), Source(tmp_path / "data.parquet", "k", "n")
    users = Source(tmp_path / "data.parquet", "k", user="u")
    for value, source, rule in (
        ("2", raw, "the key column 'k' must have no NULL"),
        ("3", summed, "frequencies must be whole numbers"),
        ("4", summed, "frequencies must be whole numbers"),
        ("5", users, "the user column 'u' must have no NULL"),
    ):
        with refused(rule):
            bad = source.of_part(day(value))
            bad = engine.bounded(bad, 1, engine.new_coins()) if source is users else bad
            list(engine.aggregated(bad))
        good = source.of_part(day("1"))
        if source is users:
            good = engine.bounded(good, 1, engine.new_coins())
        assert counted(engine.aggregated(good)) == {"a": 5 if source is summed else 1}


@pytest.mark.parametrize(
    ("kind", "values", "part", "rule"),
    [
        (pa.float64(), [1.0], "1.0", "the part column 'p' must be of text, integers, dates or booleans"),
        (pa.timestamp("us", "UTC"), [0], "1970-01-01", "the part column 'p' must be of text, integers, dates or"),
        (pa.timestamp("us"), [0], "1970-01-01", "the part column 'p' must be of text, integers, dates or booleans"),
        (pa.decimal128(9, 2), [1], "1.00", "the part column 'p' must be of text, integers, dates or booleans"),
        (pa.binary(), [b"a"], "a", "the part column 'p' must be of text, integers, dates or booleans"),
        (pa.int64(), [7], "07", "the part of the column 'p' is written as an integer, such as 7"),
        (pa.int64(), [7], "7 OR 1=1", "the part of the column 'p' is written as an integer, such as 7"),
        (pa.int64(), [7], "-0", "the part of the column 'p' is written as an integer, such as 7"),
        (pa.int64(), [7], "9223372036854775808", "the part of the column 'p' is written as an integer, such as 7"),
        (pa.int64(), [7], "٧", "the part of the column 'p' is written as an integer, such as 7"),
        (pa.date32(), [7], "2026-1-1", "the part of the column 'p' is written as a date, such as 2026-11-14"),
        (pa.date32(), [7], "2026-02-30", "the part of the column 'p' is written as a date, such as 2026-11-14"),
        (pa.bool_(), [True], "True", "the part of the column 'p' is written as a boolean, such as true"),
    ],
    ids=str,
)
def test_one_value_has_one_text(
    kind: pa.DataType, values: list[Any], part: str, rule: str, engine: Engine, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"k": ["a"], "p": pa.array(values, kind)}), tmp_path / "data.parquet")
    with refused(rule):
        engine.check(Source(tmp_path / "data.parquet", "k").of_part(Part("p", part)))


def sources(rows: list[tuple[str, str]], folder: Path) -> Iterator[Source]:
    """Rows of a key and a part, in everything that the embedded engine reads."""
    table = pa.table({"k": [k for k, _ in rows], "p": [p for _, p in rows]})
    for ending, delimiter in (("csv", ","), ("tsv", "\t")):
        with open(folder / f"data.{ending}", "w", newline="") as file:
            writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
            writer.writerows([("k", "p"), *rows])
        yield Source(folder / f"data.{ending}", "k")
    (folder / "data.jsonl").write_text("".join(json.dumps({"k": k, "p": p}) + "\n" for k, p in rows))
    yield Source(folder / "data.jsonl", "k")
    with pa.ipc.new_file(folder / "data.arrow", table.schema) as arrow:
        arrow.write_table(table)
    yield Source(folder / "data.arrow", "k")
    with sqlite3.connect(folder / "data.db") as database:
        database.execute("CREATE TABLE t (k TEXT, p TEXT COLLATE NOCASE)")
        database.executemany("INSERT INTO t VALUES (?, ?)", rows)
    database.close()
    yield Source(f"sqlite:///{folder}/data.db", "k", table="t")
    yield Source(f"sqlite:///{folder}/data.db", "k", query="SELECT * FROM t")
    yield Source(table, "k")
    yield Source(table.to_reader(), "k")
    yield Source(table.set_column(1, "p", table["p"].dictionary_encode()), "k")
    yield Source(pd.DataFrame({"k": table["k"].to_pylist(), "p": pd.Series(table["p"].to_pylist(), dtype=object)}), "k")
    yield Source(pl.DataFrame(table), "k")


@pytest.mark.parametrize("value", WEIRD)
def test_every_source_is_filtered(value: str, tmp_path: Path) -> None:
    rows = [(f"k{n % 3}", p) for n, p in enumerate(WEIRD * 2)]
    expected = Counter(k for k, p in rows if p == value)
    with DuckDB(threads=1) as engine:
        for source in sources(rows, tmp_path):
            assert counted(engine.aggregated(source.of_part(Part("p", value)))) == expected, source


def test_json_and_sqlite_values_are_compared_as_their_text(tmp_path: Path) -> None:
    lines = ['{"k": "a", "p": 7}', '{"k": "b", "p": "7"}', '{"k": "c", "p": null}', '{"k": "d", "p": true}']
    (tmp_path / "data.jsonl").write_text("\n".join(lines) + "\n")
    with sqlite3.connect(tmp_path / "data.db") as database:
        database.execute("CREATE TABLE t (k TEXT, p)")
        database.executemany("INSERT INTO t VALUES (?, ?)", [("a", 7), ("b", "7"), ("c", None), ("d", 7.5)])
    database.close()
    with DuckDB() as engine:
        for source in (Source(tmp_path / "data.jsonl", "k"), Source(f"sqlite:///{tmp_path}/data.db", "k", table="t")):
            assert counted(engine.aggregated(source.of_part(Part("p", "7")))) == {"a": 1, "b": 1}
        assert counted(engine.aggregated(Source(tmp_path / "data.jsonl", "k").of_part(Part("p", "true")))) == {"d": 1}


@pytest.mark.skipif(servers.binaries() is None, reason="no PostgreSQL server binary")
def test_postgresql_is_filtered_by_the_server() -> None:
    """Whatever its settings: with escapes in text, and dates in another style."""
    from adbc_driver_postgresql import dbapi

    with servers.postgresql() as uri, dbapi.connect(uri) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (k text, p text, n int, d date, b boolean, m numeric)")
        for i, value in enumerate(WEIRD):
            held = "convert_from(decode('" + value.encode().hex() + "', 'hex'), 'UTF8')"
            cursor.execute(f"INSERT INTO t VALUES ('k{i}', {held}, {i}, DATE '2026-11-14' + {i}, {i} = 3, 1.0)")
        cursor.execute("INSERT INTO t VALUES ('null', NULL, NULL, NULL, NULL, NULL)")
        cursor.execute("ALTER ROLE tester SET standard_conforming_strings = off")
        cursor.execute("ALTER ROLE tester SET DateStyle = 'German'")
        connection.commit()
        with DuckDB() as engine:
            source = Source(uri, "k", table="t")
            for i, value in enumerate(WEIRD):
                expected = {f"k{i}": 1}
                assert counted(engine.aggregated(source.of_part(Part("p", value)))) == expected
                assert counted(engine.aggregated(source.of_part(Part("n", str(i))))) == expected
            assert counted(engine.aggregated(source.of_part(Part("d", "2026-11-15")))) == {"k1": 1}
            assert counted(engine.aggregated(source.of_part(Part("b", "true")))) == {"k3": 1}
            assert sum(batch.num_rows for batch in engine.elements(source.of_part(Part("p", "A")))) == 1
            with refused("the part column 'm' must be of text, integers, dates or booleans"):
                engine.check(source.of_part(Part("m", "1.0")))


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
        terms = replace(back.terms, part=other)
        dpsample.Release(back.table, terms).write(tmp_path / "other.csv", force=True)
        with refused("must be in the ledger of 'clicks'"):
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
        ({"part": ("dag", "x")}, "the column 'dag' must be in", "--part-vouched"),
        ({"part": "day=2026-11-14"}, "a part is the name of a column and a value, both as text", "--part day="),
        ({"part": ("day", datetime.date(2026, 11, 14))}, "a part is the name of a column and a value", "as text"),
        ({"part": ("a\x1b[2J", "x")}, "a part is the name of a column and a value", "as text"),
        ({"part": ("", "x")}, "a part is the name of a column and a value", "as text"),
        (
            {"part": ("day", "x"), "part_vouched": ("day", "x")},
            "part cannot be combined with part_vouched",
            "leave one",
        ),
        ({"part": ("user", "1"), "user": "user", "max_keys_per_user": 1}, "the column of a part is neither", "'user'"),
        ({"part": ("user", "1"), "frequency": "user"}, "the column of a part is neither", "'user'"),
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
        with refused("a part is of a column of the source"):
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
    assert "--aside goes with --account renyi" in run.stderr


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
