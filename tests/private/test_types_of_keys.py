"""What is refused, and of which type a key is, follows from the declared schema alone."""

import datetime
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsample
from clusters import Cluster
from dpsample import CustomSampling, Privacy, Source
from dpsample.private.engine.duckdb import DuckDB
from neighbour_sources import (
    DAYS,
    KINDS,
    PRIVACY,
    TEXTS,
    Kind,
    compare,
    dataset,
    pandas_column,
    python_keys,
    released,
    sqlite_table,
    with_one_element,
    with_one_user,
)
from neighbours import command, differences, observe

# ---- types are declared, not read off values


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDB]:
    with DuckDB(threads=1) as made:
        yield made


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
        assert "InvalidValue: a file is named twice" in str(seen.outcome), source.paths


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
            assert "InvalidValue: a file is named twice" in str(seen.outcome)
            seen = observe(partial(self.release, cluster, source.paths), tmp_path / "output")
            assert "InvalidValue: a file is named twice" in str(seen.outcome)

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
