"""Types of keys and forms of users do not depend on values."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pytest

from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.sources.source import Source
from given_coins import GivenCoins
from written_sources import engine as engine
from written_sources import refused, run

# ---- types are public, users have one form


class TestTypesDoNotFollowFromValues:
    """The type of a key column is published: datasets that differ by an element have the same, or both are refused."""

    FEW: ClassVar[list[Any]] = [Decimal("1.50")] * 3
    PANDAS: ClassVar[list[tuple[list[Any], Any]]] = [
        (FEW, Decimal("123456.789")),
        ([1, 2], 2**63 + 5),
        ([datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)], datetime.datetime(2020, 1, 1)),
        ([datetime.date(2020, 1, 1)], datetime.datetime(2020, 1, 1, 3)),
        ([None], 7),
        (["a"], 7),
    ]

    @pytest.mark.parametrize(("values", "more"), PANDAS)
    def test_pandas(self, values: list[Any], more: Any, engine: DuckDB) -> None:
        pandas = pytest.importorskip("pandas")
        for before, after in ((values, [*values, more]), (values, [more, *values]), ([], values)):
            frames = [pandas.DataFrame({"k": pandas.Series(rows, dtype=object)}) for rows in (before, after)]
            first, second = (engine.check(Source(frame, "k", drop_null=True)) for frame in frames)
            assert first == second == pa.schema([("k", pa.string())])

    @pytest.mark.parametrize("rows", [[], [5], ["a"], [True], [Decimal("1.5")], ["a", 5]])
    def test_python_objects(self, rows: list[Any], engine: DuckDB) -> None:
        for data in (rows, iter(rows), dict.fromkeys(rows, 3), Counter(rows)):
            assert engine.check(Source(data)) == pa.schema([("key", pa.string())])
            assert engine.check(Source(data, key_type="int64")) == pa.schema([("key", pa.int64())])

    @pytest.mark.parametrize(
        ("declared", "kind"),
        [
            ("", pa.string()),
            ("TEXT", pa.string()),
            ("varchar(9)", pa.string()),
            ("NUMERIC", pa.string()),
            ("DATE", pa.string()),
            ("INTEGER", pa.int64()),
            ("unsigned big int", pa.int64()),
            ("BLOB", pa.binary()),
        ],
    )
    def test_sqlite(self, declared: str, kind: pa.DataType, engine: DuckDB, tmp_path: Path) -> None:
        pytest.importorskip("adbc_driver_sqlite")
        uri = f"sqlite:///{tmp_path}/a.db"
        run(uri, f"CREATE TABLE t (k {declared})", "CREATE VIEW v AS SELECT k FROM t")
        value = {pa.int64(): "7", pa.binary(): "x'07'"}.get(kind, "7")
        for statement in ("SELECT 1", f"INSERT INTO t VALUES ({value})", "INSERT INTO t VALUES (NULL)"):
            run(uri, statement)
            for table in ("t", "main.t", "T"):
                source = Source(uri, "k", table=table, drop_null=True)
                assert engine.check(source) == pa.schema([("k", kind)])
            if declared:
                for view, query in (("v", None), (None, "SELECT k FROM t")):
                    source = Source(uri, "k", drop_null=True, table=view, query=query)
                    assert engine.check(source) == pa.schema([("k", kind)])
        source = Source(uri, "k", query=f"SELECT CAST(k AS {'INTEGER' if kind == pa.int64() else 'TEXT'}) AS k FROM t")
        assert engine.check(source) == pa.schema([("k", pa.int64() if kind == pa.int64() else pa.string())])
        computed = Source(uri, "n", query="SELECT count(*) AS n FROM t")
        assert engine.check(computed) == pa.schema([("n", pa.string())])


class TestUsersHaveOneForm:
    """Whoever is written in two ways is one user, and no two users are taken for one."""

    SAME: ClassVar[list[tuple[str, str]]] = [  # as JSON writes them
        ("1", "1.0"),
        ("1", "1e0"),
        ("1", "10e-1"),
        ("1", "1.00"),
        ("1", '"1"'),
        ("0", "-0"),
        ("0", "-0.0"),
        ("-5", "-5.0"),
        ("100", "1E2"),
        ('"A"', '"\\u0041"'),
        ("true", '"true"'),
        ("9007199254740991", "9007199254740991.0"),
    ]
    DIFFERENT: ClassVar[list[tuple[str, str]]] = [
        ("1", "2"),
        ("1", "-1"),
        ("1", "10"),
        ("1", "true"),
        ("1", '"1.0"'),
        ("0", '"-0.0"'),
        ('"a"', '"A"'),
        ('"a"', '"a "'),
        ('"é"', '"e\\u0301"'),
        ("9007199254740992", "9007199254740993"),
        ("123456789012345678901", "123456789012345678902"),
        ("18446744073709551615", "18446744073709551614"),
    ]

    def users(self, engine: DuckDB, source: Source) -> int:
        """How many users a source has: each keeps one key, and every row has a key of its own."""
        bounded = engine.bounded(source, 1, GivenCoins(np.zeros(100, np.uint64)))
        number = engine.total(bounded)
        engine.forget(bounded)
        return number

    def json(self, folder: Path, pair: tuple[str, str]) -> Source:
        path = folder / "a.jsonl"
        path.write_text("".join(f'{{"k": "k{i}", "u": {user}}}\n' for i, user in enumerate(pair)))
        return Source(path, "k", user="u")

    def test_json(self, engine: DuckDB, tmp_path: Path) -> None:
        assert [self.users(engine, self.json(tmp_path, pair)) for pair in self.SAME] == [1] * len(self.SAME)
        assert [self.users(engine, self.json(tmp_path, pair)) for pair in self.DIFFERENT] == [2] * len(self.DIFFERENT)

    def test_json_columns_of_other_sources(self, engine: DuckDB, tmp_path: Path) -> None:
        path = tmp_path / "a.parquet"
        for pairs, number in ((self.SAME, 1), (self.DIFFERENT, 2)):
            for pair in pairs:
                rows = ", ".join(f"('k{i}', CAST('{user}' AS JSON))" for i, user in enumerate(pair))
                relation = duckdb.connect().sql(f"SELECT * FROM (VALUES {rows}) t(k, u)")
                relation.write_parquet(str(path))
                assert self.users(engine, Source(path, "k", user="u")) == number, pair
                # in Arrow they are text, in which a number may be written in many ways
                source = Source(relation, "k", user="u")
                refused(partial(self.users, engine, source), "the user column 'u' must be of .*not type json")

    @pytest.mark.parametrize("user", ["1.5", "1e22", "9007199254740993.0", "1e400", "-0.1"])
    def test_json_numbers_that_are_not_exact(self, user: str, engine: DuckDB, tmp_path: Path) -> None:
        source = self.json(tmp_path, ("1", user))
        refused(lambda: self.users(engine, source), "the user column 'u' must be of .*floats are not compared exactly")

    def test_nested_json(self, engine: DuckDB, tmp_path: Path) -> None:
        refused(lambda: self.users(engine, self.json(tmp_path, ("1", '{"a": 1}'))), "the user column 'u' must be of")

    @pytest.mark.parametrize(
        ("one", "other", "number"),
        [
            (1, "1", 1),
            (Decimal("1.0"), Decimal("1.00"), 1),
            (1, Decimal("1.0"), 1),
            (Decimal("1E+2"), 100, 1),
            (
                datetime.datetime(2020, 1, 1, 5, tzinfo=datetime.timezone(datetime.timedelta(hours=5))),
                datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
                1,
            ),
            (1, True, 2),
            (1, Decimal("1.1"), 2),
            ("a", "A", 2),
            (datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1), 2),
        ],
    )
    def test_objects_of_pandas(self, one: Any, other: Any, number: int, engine: DuckDB) -> None:
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({"k": ["a", "b"], "u": pandas.Series([one, other], dtype=object)})
        assert self.users(engine, Source(frame, "k", user="u")) == number

    @pytest.mark.parametrize(
        ("declared", "one", "other", "number"),
        [
            ("", "1", "'1'", 1),
            ("", "'a'", "'A'", 2),
            ("TEXT COLLATE NOCASE", "'a'", "'A'", 2),
            ("INTEGER", "1", "'1'", 1),
            ("INTEGER", "1", "1.0", 1),
            ("NUMERIC", "'1.0'", "1", 1),
            ("TEXT", "1", "'1'", 1),
        ],
    )
    def test_sqlite(self, declared: str, one: str, other: str, number: int, engine: DuckDB, tmp_path: Path) -> None:
        pytest.importorskip("adbc_driver_sqlite")
        uri = f"sqlite:///{tmp_path}/a.db"
        run(uri, f"CREATE TABLE t (k TEXT, u {declared})", f"INSERT INTO t VALUES ('a', {one}), ('b', {other})")
        assert self.users(engine, Source(uri, "k", table="t", user="u")) == number

    @pytest.mark.parametrize(
        ("declared", "one", "other", "number"),
        [
            ("numeric", "1.0", "1.00", 1),
            ("numeric", "100", "1e2", 1),
            ("numeric", "1.0", "1.01", 2),
            ("numeric(20, 0)", "12345678901234567890", "12345678901234567891", 2),
            ("char(3)", "'x'", "'x  '", 1),
            ("text", "'x'", "'x '", 2),
            ("timestamptz", "'2020-01-01 05:00+05'", "'2020-01-01 00:00+00'", 1),
            ("uuid", "'0000000000000000000000000000000F'", "'00000000-0000-0000-0000-00000000000f'", 1),
        ],
    )
    def test_postgresql(self, declared: str, one: str, other: str, number: int, engine: DuckDB, server: str) -> None:
        run(server, "DROP TABLE IF EXISTS who", f"CREATE TABLE who (k text, u {declared})")
        run(server, f"INSERT INTO who VALUES ('a', {one}), ('b', {other})")
        assert self.users(engine, Source(server, "k", table="who", user="u")) == number

    def test_typed_columns(self, engine: DuckDB) -> None:
        for array, number in (
            (pa.array([Decimal("1.0"), Decimal("1.00")], pa.decimal128(9, 2)), 1),
            (pa.array(["a", "A"]), 2),
            (pa.array([2**53, 2**53 + 1]), 2),
            (pa.array([b"\x00", b""]), 2),
        ):
            assert self.users(engine, Source(pa.table({"k": ["a", "b"], "u": array}), "k", user="u")) == number
