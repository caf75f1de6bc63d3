"""Neighbouring datasets, replayed with the same coins: nothing but drawn rows may tell them apart.

All coins are replayed, so nothing here can fail by chance. Neighbours are generated, with fixed seeds.
"""

import csv
import datetime
import json
import os
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
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
from clusters import Cluster
from dpsample import CustomSampling, Ppswor, Priority, Privacy, SampleSize, Source
from dpsample.accounting.parts import Part
from dpsample.private.engine.duckdb import DuckDB
from neighbours import Observation, command, differences, observe

PRIVACY = Privacy(1, 1e-3)
Rows = list[tuple[Any, Any]]  # a user and a key each

TEXTS = ["a", "b", "B", "é", "日本", "", " ", "007", "12", "=1", '"', "line\nbreak", "a,b", "NULL", "x" * 300, "rare"]
NUMBERS = [0, 1, 2, -1, 7, 200, 2**31, 2**40, -(2**63), 2**63 - 1]
DAYS = [datetime.date(2020, 1, n) for n in range(1, 9)] + [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]
MOMENTS = [datetime.datetime(2020, 1, n, 3, tzinfo=datetime.UTC) for n in range(1, 9)]
AMOUNTS = [Decimal(text) for text in ("1.50", "2.25", "0.00", "-7.10", "12345.67", "-99999.99")]
BYTES = [text.encode() for text in TEXTS] + [b"\xff", b"\0"]


@dataclass(frozen=True)
class Kind:
    """A kind of source: which keys it has, and how rows become a source, in a folder."""

    keys: Sequence[Any]
    source: Callable[[Rows, Path, dict[str, Any]], Source]
    users: bool = True


def columns(rows: Rows, type: pa.DataType) -> pa.Table:
    return pa.table({"u": pa.array([u for u, _ in rows], pa.int64()), "k": pa.array([k for _, k in rows], type)})


def parquet(type: pa.DataType) -> Callable[..., Source]:
    def source(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
        pq.write_table(columns(rows, type), folder / "data.parquet")
        return Source(folder / "data.parquet", "k", **options)

    return source


def arrow_file(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
    table = columns(rows, pa.string())
    with pa.ipc.new_file(folder / "data.arrow", table.schema) as file:
        file.write_table(table)
    return Source(folder / "data.arrow", "k", **options)


def delimited(ending: str, delimiter: str) -> Callable[..., Source]:
    def source(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
        with open(folder / f"data.{ending}", "w", newline="") as file:
            writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
            writer.writerow(["u", "k"])
            writer.writerows(rows)
        return Source(folder / f"data.{ending}", "k", **options)

    return source


def stated_csv(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
    """Text in another encoding, without names."""
    with open(folder / "data.csv", "w", newline="", encoding="utf-16") as file:
        csv.writer(file, delimiter=";", quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    more = {"user": "column0"} if "user" in options else {}
    stated = {"header": False, "delimiter": ";", "encoding": "utf-16", "null": "NA", "key_as": "k"}
    return Source(folder / "data.csv", "column1", **{**options, **more, **stated})


def json_lines(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
    (folder / "data.jsonl").write_text("".join(json.dumps({"u": u, "k": k}) + "\n" for u, k in rows))
    return Source(folder / "data.jsonl", "k", **options)


def sqlite_table(declared: str) -> Callable[..., Source]:
    def source(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
        path = folder / "data.db"
        path.unlink(missing_ok=True)
        with sqlite3.connect(path) as database:
            database.execute(f"CREATE TABLE t (u INTEGER, k {declared})")
            database.executemany("INSERT INTO t VALUES (?, ?)", rows)
        database.close()
        return Source(f"sqlite:///{path}", "k", table="t", **options)

    return source


def stream(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
    return Source(columns(rows, pa.string()).to_reader(), "k", **options)


def pandas_column(dtype: Any) -> Callable[..., Source]:
    def source(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
        frame = pd.DataFrame({"u": [u for u, _ in rows], "k": pd.Series([k for _, k in rows], dtype=dtype)})
        return Source(frame, "k", **options)

    return source


def polars_frame(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
    frame = pl.DataFrame({"u": [u for u, _ in rows], "k": [k for _, k in rows]}, schema={"u": pl.Int64, "k": pl.String})
    return Source(frame, "k", **options)


def python_keys(collect: Callable[[Iterable[Any]], Any]) -> Callable[..., Source]:
    def source(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
        return Source(collect(k for _, k in rows), **options)

    return source


def table(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
    return Source(columns(rows, pa.large_string()), "k", **options)


def one_part(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
    """Of two parts, by the user; one of the rest has no key."""
    table = columns(rows, pa.string())
    parts = pa.array(["in" if u % 2 == 0 else "out" for u, _ in rows], pa.string())
    table = table.append_column("p", parts)
    other = pa.table({"u": pa.array([1]), "k": pa.array([None], pa.string()), "p": ["out"]})
    pq.write_table(pa.concat_tables([table, other]), folder / "data.parquet")
    return Source(folder / "data.parquet", "k", **options).of_part(Part("p", "in"))


KINDS = {
    "parquet text": Kind(TEXTS, parquet(pa.string())),
    "parquet integers": Kind(NUMBERS, parquet(pa.int64())),
    "parquet decimals": Kind(AMOUNTS, parquet(pa.decimal128(9, 2))),
    "parquet days": Kind(DAYS, parquet(pa.date32())),
    "parquet moments": Kind(MOMENTS, parquet(pa.timestamp("us", "UTC"))),
    "parquet bytes": Kind(BYTES, parquet(pa.binary())),
    "parquet flags": Kind([True, False], parquet(pa.bool_())),
    "parquet part": Kind(TEXTS, one_part),
    "arrow file": Kind(TEXTS, arrow_file),
    "csv": Kind(TEXTS, delimited("csv", ",")),
    "tsv": Kind(TEXTS, delimited("tsv", "\t")),
    "csv stated": Kind(TEXTS, stated_csv),
    "json lines": Kind([*TEXTS, 5, -1, True, 2**70], json_lines),
    "sqlite text": Kind(TEXTS, sqlite_table("TEXT")),
    "sqlite integers": Kind(NUMBERS, sqlite_table("INTEGER")),
    "arrow table": Kind(TEXTS, table),
    "arrow stream": Kind(TEXTS, stream),
    "pandas text": Kind(TEXTS, pandas_column("string")),
    "pandas integers": Kind(NUMBERS, pandas_column("int64")),
    "polars": Kind(TEXTS, polars_frame),
    "list": Kind(TEXTS, python_keys(list), users=False),
    "generator": Kind(TEXTS, python_keys(iter), users=False),
    "Counter": Kind(TEXTS, python_keys(Counter), users=False),
}
FILES = [
    name
    for name in KINDS
    if KINDS[name].source.__qualname__.split(".")[0] in ("parquet", "delimited", "json_lines", "arrow_file")
]

ELEMENTS: list[dict[str, Any]] = [
    {},
    {"keys_only": True},
    {"sampling": Ppswor("0.05")},
    {"sampling": Ppswor("0.01")},  # of raw elements in files and tables: in two passes
    {"sampling": Priority("0.1", power="0.5"), "grid": 2},
    {"sampling": Ppswor("0.05", seed="public")},
    {"total": True},
    {"size": 4},
    {"size": SampleSize(4, "priority", power="0.5"), "total": "0.1"},
    {"ledger": True},
    {"ledger": True, "total": True, "drop_null": True},
    {"ledger": True, "part_vouched": ("day", "2026-11-14")},
    {"at_least": 8},
    {"listed": True},
    {"listed": True, "only_known": True, "total": True},
]
USERS: list[dict[str, Any]] = [
    {"max_keys_per_user": 1},
    {"max_keys_per_user": 2, "sampling": Priority("0.1")},
    {"max_keys_per_user": 3, "total": True, "ledger": True},
    {"max_keys_per_user": 2, "size": 4, "keys_only": True},
    {"max_keys_per_user": 2, "ledger": True, "part_vouched": ("day", "2026-11-14")},
    {"discover": "one-key", "keys_only": True},
    {"discover": "one-key", "ledger": True},
    {"discover": "one-key", "rows": 2},
    {"discover": "ask", "total": True},
    {"discover": "many-keys", "keys_only": True},
    {"max_keys_per_user": 2, "listed": True, "only_known": True},
    {"discover": "one-key", "listed": True},
]


def options_for(name: str, options: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All options, but one part alone: a source that is a part cannot be vouched for as another.

    Discovery reads pairs in one way, and a list of keys is joined in one; a few kinds of sources are enough for these.
    What is done once keys are counted does not know their source: the other kinds share it out, one half each.
    """
    options = [one for one in options if name != "parquet part" or "part_vouched" not in one]
    if name in ("parquet text", "csv", "sqlite text"):
        return options
    few, half = {"discover", "listed", "at_least"}, list(KINDS).index(name) % 2
    reads = [one for one in options if one in ({}, {"max_keys_per_user": 1}) or one.keys() & {"total", "drop_null"}]
    reads += [one for one in options if one == {"sampling": Ppswor("0.01")}]
    others = [one for one in options if one not in reads and not few & one.keys()]
    return [one for one in options if one in reads + others[half::2] and not few & one.keys()]


def dataset(keys: Sequence[Any], rng: random.Random) -> Rows:
    """Six keys of frequencies from 1 to 60; a user for each element, or nearly so."""
    chosen = rng.sample(list(keys), min(6, len(keys)))
    rows = [key for key in chosen for _ in range(rng.choice([1, 2, 8, 15, 60]))]
    rng.shuffle(rows)
    return [(rng.randrange(2 * len(rows)), key) for key in rows]


def with_one_element(rows: Rows, keys: Sequence[Any], rng: random.Random) -> tuple[Rows, set[Any]]:
    """A neighbour: one element more or less, anywhere; and the key that has another frequency."""
    at = rng.randrange(len(rows))
    if rng.random() < 0.4:
        return rows[:at] + rows[at + 1 :], {rows[at][1]}
    key = rng.choice(keys)
    return [*rows[:at], (0, key), *rows[at:]], {key}


def with_one_user(rows: Rows, keys: Sequence[Any], rng: random.Random) -> tuple[Rows, set[Any]]:
    """A neighbour: one user more or less, with all rows; and the keys that may have another frequency."""
    if rng.random() < 0.4:
        user = rng.choice(rows)[0]
        return [row for row in rows if row[0] != user], {key for u, key in rows if u == user}
    chosen = {rng.choice(keys) for _ in range(rng.randint(1, 5))}
    more = [(10**6, key) for key in chosen for _ in range(rng.randint(1, 3))]
    at = rng.randrange(len(rows))
    return [*rows[:at], *more, *rows[at:]], chosen


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDB]:
    with DuckDB(threads=1) as made:
        yield made


def released(
    kind: Kind, rows: Rows, folder: Path, options: dict[str, Any], engine: DuckDB, form: str, seed: int
) -> Observation:
    """What is seen of a release to a file."""
    given = dict(options)
    columns = {"user": "u"} if given.keys() & {"max_keys_per_user", "discover"} else {}
    columns |= {"drop_null": given.pop("drop_null")} if "drop_null" in given else {}
    ledger = ("user" if "user" in columns else "element") if given.pop("ledger", False) else None
    if given.pop("listed", False):
        given["keys"] = list(kind.keys)[:3]

    def work(output: Path) -> None:
        paid: dict[str, Any] = {"ledger": output / "ledger"} if ledger else {}
        source = kind.source(rows, folder, columns)
        dpsample.release_to_file(output / f"out.{form}", source, privacy=PRIVACY, engine=engine, **given, **paid)

    return observe(work, folder / "output", ledger, seed)


def compare(one: Observation, other: Observation, changed: set[Any], options: dict[str, Any], moves: int) -> None:
    """Nothing differs but what was drawn, and of that only what may."""
    assert not differences(one, other), differences(one, other)
    assert not one.refused, one.outcome
    tau = options.get("sampling")
    two_pass = isinstance(tau, Ppswor) and tau.q([1])[0] < 0.02  # coins go by the batch, which differs
    if "size" not in options and not two_pass:
        texts = {json.dumps(key) if isinstance(key, bool) else str(key) for key in changed}  # as JSON has them
        same = [
            {k: v for k, v in o.drawn.items() if str(k[0]) not in texts and k[0] not in changed} for o in (one, other)
        ]
        assert same[0] == same[1]
    if one.total is not None and other.total is not None:
        assert abs(one.total - other.total) <= moves


def compare_discovered(one: Observation, other: Observation, options: dict[str, Any]) -> None:
    """Nothing differs but what was drawn; with one key of each user, one key of what is reported at most.

    Where `ask` chose another way by its noisy numbers, which are drawn, all that follows from the way differs as well.
    That the choice follows from these numbers alone is proved by `prove_release`.
    """
    assert not one.refused, one.outcome
    assert not other.refused, other.outcome
    if options["discover"] == "ask" and one.metadata["discovery"]["method"] != other.metadata["discovery"]["method"]:
        return
    assert not differences(one, other), differences(one, other)
    if options["discover"] == "one-key":
        assert len(one.drawn.keys() ^ other.drawn.keys()) <= 1
    if one.total is not None and other.total is not None:
        assert abs(one.total - other.total) <= 4096  # the most that a user may count for


@pytest.mark.parametrize("name", KINDS)
def test_one_element_more_or_less(name: str, engine: DuckDB, tmp_path: Path) -> None:
    kind = KINDS[name]
    for seed, options in enumerate(options_for(name, ELEMENTS)):
        rng = random.Random(f"{name} {seed}")
        rows = dataset(kind.keys, rng)
        neighbour, changed = with_one_element(rows, kind.keys, rng)
        form = ("parquet", "csv", "arrow")[seed % 3]
        both = [released(kind, data, tmp_path, options, engine, form, seed) for data in (rows, neighbour)]
        compare(both[0], both[1], changed, options, 1)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.users])
def test_one_user_more_or_less(name: str, engine: DuckDB, tmp_path: Path) -> None:
    kind = KINDS[name]
    for seed, options in enumerate(options_for(name, USERS)):
        rng = random.Random(f"{name} {seed}")
        rows = dataset(kind.keys, rng)
        neighbour, changed = with_one_user(rows, kind.keys, rng)
        both = [released(kind, data, tmp_path, options, engine, "parquet", seed) for data in (rows, neighbour)]
        if "discover" in options:
            compare_discovered(both[0], both[1], options)
        else:
            compare(both[0], both[1], changed, options, options["max_keys_per_user"])


@pytest.mark.parametrize(
    "name",
    ["list", "Counter", "pandas text", "arrow table", "parquet text", "csv", "csv stated", "json lines", "sqlite text"],
)
def test_the_first_and_only_element(name: str, engine: DuckDB, tmp_path: Path) -> None:
    """An empty dataset and one element."""
    kind = KINDS[name]
    for options in ({}, {"total": True, "ledger": True}):
        both = [released(kind, rows, tmp_path, options, engine, "parquet", 0) for rows in ([], [(0, "rare")])]
        compare(both[0], both[1], {"rare"}, options, 1)


# ---- the command line


COMMANDS: list[list[str]] = [
    [],
    ["--format", "json", "--with-total"],
    ["--scheme", "ppswor", "--tau", "0.05", "--keys-only"],
    ["--scheme", "priority", "--sample-size", "4", "--with-total"],
    ["--user", "u", "--max-keys-per-user", "2"],
]


@pytest.mark.parametrize("name", [*FILES, "sqlite text", "sqlite integers"])
def test_the_command_line(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    for seed, options in enumerate(COMMANDS):
        rng = random.Random(f"{name} {seed}")
        rows = dataset(kind.keys, rng)
        neighbour, _ = (with_one_user if "--user" in options else with_one_element)(rows, kind.keys, rng)
        ledger: Any = "user" if "--user" in options else "element"

        def work(output: Path, data: Rows, options: list[str] = options) -> Any:
            source = kind.source(data, tmp_path, {})
            place = ["--table", "t"] if source.table else []
            to = [f"{output}/out.csv", "--ledger", f"{output}/ledger", "-e", "1", "-d", "0.001"]
            return command("release", str(source.data), *place, "-k", "k", *options, "-o", *to)

        both = [observe(partial(work, data=data), tmp_path / "output", ledger, seed) for data in (rows, neighbour)]
        assert both[0].code == 0, both[0].printed
        assert not differences(both[0], both[1]), differences(both[0], both[1])


@pytest.mark.parametrize("options", [[], ["--format", "json"]], ids=["text", "json"])
def test_sample_then_sanitize(options: list[str], tmp_path: Path) -> None:
    kind = KINDS["parquet text"]
    for seed in range(4):
        rng = random.Random(seed)
        rows = dataset(kind.keys, rng)
        neighbour, _ = with_one_element(rows, kind.keys, rng)

        def work(output: Path, data: Rows) -> Any:
            source = kind.source(data, tmp_path, {})
            sample = f"{output}/sample.parquet"
            drawn = command("sample", str(source.data), "-k", "k", "--scheme", "ppswor", "--tau", "0.3", "-o", sample)
            assert drawn.exit_code == 0
            done = command("sanitize", sample, "-e", "1", "-d", "0.001", *options, "-o", f"{output}/out.parquet")
            os.remove(sample)  # it is not private
            return done

        both = [observe(partial(work, data=data), tmp_path / "output", seed=seed) for data in (rows, neighbour)]
        assert both[0].code == 0, both[0].printed
        assert not differences(both[0], both[1]), differences(both[0], both[1])


# ---- types are declared, not read off values

UTC5 = datetime.timezone(datetime.timedelta(hours=5, minutes=45))
COMMON = [Decimal("1.50")] * 60 + [Decimal("2.25")] * 60
MOMENT = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
INFERRED: dict[str, tuple[Callable[..., Source], list[Any], list[Any], dict[str, Any]]] = {
    "longer decimals": (pandas_column(object), COMMON, [*COMMON, Decimal("123456.789")], {}),
    "larger integers": (pandas_column(object), [1] * 60 + [2] * 60, [1] * 60 + [2] * 60 + [2**63 + 5], {}),
    "another time zone": (pandas_column(object), [MOMENT] * 60, [MOMENT.replace(tzinfo=UTC5)] + [MOMENT] * 60, {}),
    "days and moments": (
        pandas_column(object),
        [DAYS[0]] * 60,
        [DAYS[0]] * 60 + [datetime.datetime(2020, 1, 1, 3)],
        {},
    ),
    "nothing but NULL": (pandas_column(object), [None] * 60, [None] * 60 + [7], {"drop_null": True}),
    "text and bytes": (pandas_column(object), [None] * 60 + ["a"], [None] * 60 + [b"a"], {"drop_null": True}),
    "an empty frame": (pandas_column(object), [], [7], {}),
    "an empty mapping": (python_keys(Counter), [], [5], {}),
    "an empty list": (python_keys(list), [], [b"x"], {}),
    "an empty list, integers": (python_keys(list), [], [5], {}),
    "an empty list, flags": (python_keys(list), [], [True], {}),
    "an empty iterator": (python_keys(iter), [], [5], {}),
    "a list of NULL": (python_keys(list), [None] * 60, [None] * 60 + [5], {"drop_null": True}),
    "an empty column of SQLite": (sqlite_table(""), [], [7], {}),
    "NULL in SQLite": (sqlite_table(""), [None] * 60, [None] * 60 + [7], {"drop_null": True}),
    "bytes in SQLite": (sqlite_table(""), [None] * 60, [None] * 60 + [b"7"], {"drop_null": True}),
    "an integer among SQLite's text": (sqlite_table("TEXT"), ["7"] * 60, ["7"] * 60 + [8], {}),
}

OF_ANOTHER_KIND = ("text and bytes", "an empty list", "bytes in SQLite")  # bytes, where keys are text: may be refused


@pytest.mark.parametrize("name", INFERRED)
def test_the_type_of_a_key_does_not_depend_on_values(name: str, engine: DuckDB, tmp_path: Path) -> None:
    source, one, other, options = INFERRED[name]
    kind = Kind([], source)
    both = [
        released(kind, [(0, key) for key in keys], tmp_path, {"ledger": True, **options}, engine, "parquet", 0)
        for keys in (one, other)
    ]
    if name in OF_ANOTHER_KIND and both[1].refused:  # as NULL is, without a value in the message, and before it is paid
        assert not both[1].ledger
        assert both[1].outcome[0].startswith("InvalidValue: ")
        return
    assert not differences(both[0], both[1]), differences(both[0], both[1])


# ---- what is refused is refused before it is paid for

TYPES = [
    pa.time32("s"), pa.time64("us"), pa.float64(), pa.float32(), pa.float16(), pa.duration("us"), pa.null(),
    pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.dictionary(pa.int32(), pa.string()), pa.decimal256(50, 2),
    pa.timestamp("ns"), pa.date64(), pa.uint64(), pa.binary(4), pa.large_binary(), pa.string_view(),
    pa.month_day_nano_interval(),
]  # fmt: skip


@pytest.mark.parametrize("type", TYPES, ids=str)
@pytest.mark.parametrize("form", ["parquet", "csv", "memory"])
def test_what_is_refused_costs_nothing(type: pa.DataType, form: str, engine: DuckDB, tmp_path: Path) -> None:
    """Any type of key, of an empty table and of one element: the same outcome; and a refusal is not in the ledger."""
    filled = pa.array([None], type) if type == pa.null() else _one(type)

    def work(output: Path, keys: pa.Array) -> Any:
        source = Source(pa.table({"k": keys}), "k", drop_null=True)
        options: dict[str, Any] = {"privacy": PRIVACY, "ledger": output / "ledger", "engine": engine}
        if form == "memory":
            return dpsample.release(source, **options)
        return dpsample.release_to_file(output / f"out.{form}", source, **options)

    both = [observe(partial(work, keys=keys), tmp_path / "output", "element") for keys in (filled[:0], filled)]
    assert not differences(both[0], both[1]), differences(both[0], both[1])
    assert len(both[0].ledger) == (0 if both[0].refused else 1)


def _one(type: pa.DataType) -> pa.Array:
    """One value of a type."""
    values: list[Any] = [1, datetime.time(1, 2), Decimal("1.00"), [1], {"a": 1}, "text", b"four"]
    values += [datetime.timedelta(1)]
    values += [
        datetime.date(2020, 1, 1),
        datetime.datetime(2020, 1, 1, 3),
        pa.scalar((1, 2, 3), pa.month_day_nano_interval()).as_py(),
    ]
    for value in values:
        try:
            return pa.array([value], type)
        except (pa.ArrowException, TypeError, ValueError):
            continue
    raise AssertionError(f"no value of type {type}")


# ---- the stated unit is the true one


@pytest.mark.parametrize("source", [{"common": 900}, "rows.csv"], ids=["mapping", "file"])
def test_the_stated_unit_is_protected(source: Any, tmp_path: Path) -> None:
    """Where a row is said to be protected, one row more must not show; an aggregated row may be 5,000 elements."""
    seen, texts = [], []
    for more in ([], [("alice", 5000)]):

        def work(output: Path, more: list[Any] = more) -> Any:
            (tmp_path / "rows.csv").write_text(
                "".join(f"{word},{n}\n" for word, n in [("word", "n"), ("common", 900), *more])
            )
            if source == "rows.csv":
                arguments = [f"{tmp_path}/rows.csv", "-k", "word", "--frequency", "n", "-e", "1", "-d", "1e-9"]
                return command("release", *arguments, "-o", f"{output}/out.csv")
            dpsample.release_to_file(output / "out.csv", {**source, **dict(more)}, privacy=Privacy(1, 1e-9))
            return None

        seen.append(observe(work, tmp_path / "output"))
        release = dpsample.read_release(tmp_path / "output" / "out.csv")
        verified = command("verify", f"{tmp_path}/output/out.csv").output
        texts.append([*seen[-1].printed, verified, repr(release), json.dumps(release.metadata)])
    assert not differences(seen[0], seen[1]), differences(seen[0], seen[1])
    if seen[0].drawn.keys() != seen[1].drawn.keys():  # a row more is seen, so nobody may say that it is protected
        assert not [text for printed in texts for text in printed if "row of the data" in text]


# ---- what a process did before does not matter

_least = 1


def _from_least(i: int) -> float:
    """A q that depends on a global, as in a notebook."""
    return 1.0 if i >= _least else 0.0


def test_a_changed_function_is_another_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are reported by what q says now, not with the pi of the q that the function had before."""
    module = __name__
    privacy = Privacy(1, 1e-6)
    before = partial(dpsample.release, {"warm up": 100}, privacy=privacy, sampling=CustomSampling(_from_least))
    observe(lambda _: before(), tmp_path / "output")
    monkeypatch.setattr(f"{module}._least", 30)
    for frequency in (29, 30):
        data = {f"key {n}": frequency for n in range(40)}

        def work(output: Path, sampling: Any, data: dict[str, int] = data) -> Any:
            return dpsample.release(data, privacy=privacy, sampling=sampling, keys_only=True)

        fresh = CustomSampling([0] * 29 + [1] * 100)
        old, new = (
            observe(partial(work, sampling=q), tmp_path / "output") for q in (CustomSampling(_from_least), fresh)
        )
        assert old.drawn == new.drawn == {}  # pi is at most 1e-6 at frequency 30


# ---- a file is read once, however it is named


def named_twice(folder: Path) -> Iterator[Source]:
    """One file, under two names."""
    path = folder / "data.parquet"
    pq.write_table(pa.table({"k": ["a"] * 40}), path)
    os.link(path, folder / "linked.parquet")
    (folder / "also.parquet").symlink_to(path)
    for other in ("data.parquet", "d*.parquet", "linked.parquet", "also.parquet"):
        yield Source([str(path), f"{folder}/{other}"], "k")


def test_a_file_is_read_once(tmp_path: Path) -> None:
    for source in named_twice(tmp_path):
        work = partial(dpsample.release, source, privacy=PRIVACY, total=True)
        seen = observe(lambda _, work=work: work(), tmp_path / "output")  # type: ignore[misc]
        assert "InvalidValue: each file is read once" in str(seen.outcome), source.paths


# ---- on Spark


def by_spark(source: Source, **options: Any) -> Callable[[Path], Any]:
    import dpsample.spark

    return lambda output: dpsample.spark.release(source, privacy=PRIVACY, **options)


@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("spark")
class TestSpark:
    @pytest.mark.parametrize("options", [{"ledger": True, "total": True}, {"max_keys_per_user": 2}], ids=str)
    def test_neighbours(self, options: dict[str, Any], tmp_path: Path) -> None:
        kind, rng = KINDS["parquet text"], random.Random(str(options))
        rows = dataset([text for text in TEXTS if text], rng)
        users = "max_keys_per_user" in options
        neighbour, changed = (with_one_user if users else with_one_element)(rows, TEXTS, rng)
        both = []
        for data in (rows, neighbour):
            source = kind.source(data, tmp_path, {"user": "u"} if users else {})
            given = {k: v for k, v in options.items() if k != "ledger"}
            paid = {"ledger": tmp_path / "output" / "ledger"} if "ledger" in options else {}
            both.append(observe(by_spark(source, **given, **paid), tmp_path / "output", "element" if paid else None))
        compare(both[0], both[1], changed, options, 1)

    def test_a_file_is_read_once(self, cluster: Cluster, tmp_path: Path) -> None:
        for source in named_twice(tmp_path):
            seen = observe(by_spark(source, total=True), tmp_path / "output")
            assert "InvalidValue: each file is read once" in str(seen.outcome)
            seen = observe(partial(self.release, cluster, source.paths), tmp_path / "output")
            assert "InvalidValue: each file is read once" in str(seen.outcome)

    def test_the_type_of_a_partition_is_not_inferred(self, cluster: Cluster, tmp_path: Path) -> None:
        both = []
        for more in ([], ["rare"]):
            for key in ["007", "12", *more]:
                (tmp_path / f"data/k={key}").mkdir(parents=True, exist_ok=True)
                rows = pa.table({"x": [0] * (60 if key != "rare" else 1)})
                pq.write_table(rows, tmp_path / f"data/k={key}/a.parquet")
            both.append(observe(partial(self.release, cluster, [f"{tmp_path}/data"]), tmp_path / "output"))
        assert not differences(both[0], both[1]), differences(both[0], both[1])

    @staticmethod
    def release(cluster: Cluster, paths: list[str], output: Path) -> Any:
        engine = ["--engine", "spark", "--master", cluster.address]
        return command("release", *paths, "-k", "k", *engine, "-e", "1", "-d", "0.001", "-o", f"{output}/out.parquet")


# ---- PostgreSQL


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    if servers.binaries() is None and not os.environ.get("CI"):
        pytest.skip("no PostgreSQL server binary")
    with servers.postgresql() as uri:
        yield uri


@pytest.mark.parametrize(
    ("declared", "keys"), [("text", TEXTS), ("bigint", NUMBERS), ("boolean", [True, False]), ("date", DAYS)]
)
def test_postgresql(declared: str, keys: list[Any], server: str, engine: DuckDB, tmp_path: Path) -> None:
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")

    def source(rows: Rows, folder: Path, options: dict[str, Any]) -> Source:
        def value(key: Any) -> str:
            return str(key) if isinstance(key, int | Decimal) else "'" + str(key).replace("'", "''") + "'"

        with dbapi.connect(server, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS t")
            cursor.execute(f"CREATE TABLE t (u bigint, k {declared})")
            cursor.execute("INSERT INTO t VALUES " + ", ".join(f"({u}, {value(key)})" for u, key in rows))
        return Source(server, "k", table="t", **options)

    kind = Kind(keys, source)
    varied: list[dict[str, Any]] = [{}, {"total": True, "ledger": True}, {"max_keys_per_user": 2}]
    for seed, options in enumerate(varied):
        rng = random.Random(f"{declared} {seed}")
        rows = dataset(keys, rng)
        users = "max_keys_per_user" in options
        neighbour, changed = (with_one_user if users else with_one_element)(rows, keys, rng)
        both = [released(kind, data, tmp_path, options, engine, "parquet", seed) for data in (rows, neighbour)]
        compare(both[0], both[1], changed, options, 2)


# ---- the harness finds what is planted


@pytest.mark.parametrize("leak", ["a message", "an error", "a file", "the type", "an order", "another key"])
def test_planted_leaks_are_found(leak: str, engine: DuckDB, tmp_path: Path) -> None:
    """One defect of each kind, in a release that is right otherwise."""
    both = []
    for rows in ([(0, "a")] * 60, [(0, "a")] * 60 + [(0, "rare")]):

        def work(output: Path, rows: Rows = rows) -> Any:
            rare = rows[-1][1] == "rare"
            data = columns(rows, pa.binary() if leak == "the type" and rare else pa.string())
            if leak == "an error":
                raise ValueError(f"{len(rows)} rows are too many")
            if leak == "a file" and rare:
                (output / "draft").touch()
            if leak == "another key" and rare:
                data = data.slice(0, 20)
            done = (
                command("ledger", "new", f"{output}/l", "--dataset", "x" * len(rows), "-e", "1", "-d", "0.1")
                if leak == "a message"
                else None
            )
            dpsample.release_to_file(
                output / f"out.{'csv' if leak == 'an order' and rare else 'parquet'}", data, "k", privacy=PRIVACY
            )
            return done

        both.append(observe(work, tmp_path / "output"))
    if leak == "another key":
        with pytest.raises(AssertionError):
            compare(both[0], both[1], {"rare"}, {}, 1)
    else:
        assert differences(both[0], both[1])
