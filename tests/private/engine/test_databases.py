"""SQLite and PostgreSQL count their own rows, as the same data in files are counted."""

from __future__ import annotations

import re
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pytest

import servers
from dpsample.accounting.amounts import amounts_of
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.sources.source import Source
from written_sources import CANARY, MAX, counted, drain, refused, run
from written_sources import engine as engine

# ---- databases


class TestDatabases:
    @pytest.fixture(params=["sqlite", "postgresql"])
    def uri(self, request: pytest.FixtureRequest, tmp_path: Path) -> str:
        if request.param == "sqlite":
            pytest.importorskip("adbc_driver_sqlite")
            return f"sqlite:///{tmp_path}/a.db"
        uri: str = request.getfixturevalue("server")
        run(uri, "DROP TABLE IF EXISTS t", "DROP TABLE IF EXISTS u")
        return uri

    def test_null_keys(self, uri: str, engine: DuckDB) -> None:
        run(uri, "CREATE TABLE t (k text, l bigint)", f"INSERT INTO t VALUES ('{CANARY}', 1), (NULL, 1), ('b', NULL)")
        refused(lambda: drain(engine, Source(uri, "k", table="t")), "the key column 'k' must have no NULL")
        refused(lambda: list(engine.elements(Source(uri, "k", table="t"))), "the key column 'k' must have no NULL")
        refused(lambda: drain(engine, Source(uri, ["k", "l"], table="t")), "must have no NULL")
        dropped = Source(uri, ["k", "l"], table="t", drop_null=True)
        assert counted(engine.aggregated(dropped)) == {(CANARY, 1): 1}
        assert sum(batch.num_rows for batch in engine.elements(dropped)) == 1

    @pytest.mark.parametrize(
        ("kind", "values", "found"),
        [
            ("bigint", "(3), (-1)", "at least one negative"),
            ("bigint", "(1), (NULL)", "at least one row without a frequency"),
            ("double precision", "(1), (1.5)", "with a fraction"),
            ("double precision", "(1), (1e17)", "too large"),
            ("bigint", f"({MAX}), (1)", "whose frequencies sum to more"),
        ],
    )
    def test_frequencies(self, uri: str, kind: str, values: str, found: str, engine: DuckDB) -> None:
        rows = re.sub(r"\(", f"('{CANARY}', ", values)
        run(uri, f"CREATE TABLE t (k text, n {kind})", f"INSERT INTO t VALUES {rows}")
        refused(lambda: drain(engine, Source(uri, "k", "n", table="t")), found)

    def test_frequencies_of_other_types(self, uri: str, engine: DuckDB) -> None:
        for kind in ("double precision", "numeric", "integer"):
            run(uri, "DROP TABLE IF EXISTS t", f"CREATE TABLE t (k text, n {kind})")
            run(uri, "INSERT INTO t VALUES ('a', 1), ('a', 2), ('b', 0), ('c', 2000000000), ('c', 2000000000)")
            found = counted(engine.aggregated(Source(uri, "k", "n", table="t")))
            assert found == {"a": 3, "c": 4_000_000_000}

    def test_what_the_database_refuses(self, uri: str, engine: DuckDB) -> None:
        run(uri, "CREATE TABLE t (k text)", f"INSERT INTO t VALUES ('{CANARY}')")
        refused(lambda: engine.check(Source(uri, "k", table="missing")), "has no table of that name")
        refused(
            lambda: engine.check(Source(uri, "k", query="SELECT missing FROM t")),
            "has no column of a name",
        )
        refused(lambda: engine.check(Source(uri, "k", query=f"SELEC '{CANARY}'")), "no table|could not answer")
        refused(lambda: engine.check(Source(uri, "k", query="DROP TABLE t")), "could not answer the query")
        assert counted(engine.aggregated(Source(uri, "k", table="t"))) == {CANARY: 1}

    def test_an_empty_table(self, uri: str, engine: DuckDB) -> None:
        run(uri, "CREATE TABLE t (k text, n bigint)")
        for frequency in (None, "n"):
            source = Source(uri, "k", frequency, table="t")
            assert engine.check(source) == pa.schema([("k", pa.string())])
            assert list(engine.aggregated(source)) == []

    def test_floats_are_no_keys(self, uri: str, engine: DuckDB) -> None:
        run(uri, "CREATE TABLE t (k double precision)", "INSERT INTO t VALUES (1.5)")
        refused(lambda: engine.check(Source(uri, "k", table="t")), "floats are not compared exactly")

    def test_many_rows(self, uri: str, engine: DuckDB) -> None:
        series = "WITH RECURSIVE s(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM s WHERE i < 199999)"
        run(uri, "CREATE TABLE t (k bigint)", f"INSERT INTO t {series} SELECT i % 70001 FROM s")
        source = Source(uri, "k", table="t")
        assert counted(engine.aggregated(source)) == Counter(i % 70001 for i in range(200_000))
        assert sum(batch.num_rows for batch in engine.elements(source)) == 200_000


class TestSQLite:
    @pytest.fixture
    def uri(self, tmp_path: Path) -> str:
        pytest.importorskip("adbc_driver_sqlite")
        return f"sqlite:///{tmp_path}/a.db"

    def test_values_of_several_types(self, uri: str, engine: DuckDB) -> None:
        run(uri, "CREATE TABLE t (k, n)", f"INSERT INTO t VALUES (7, 1), ('7', 'x'), ('{CANARY}', 2)")
        assert counted(engine.aggregated(Source(uri, "k", table="t"))) == {"7": 2, CANARY: 1}
        cast = Source(uri, "k", query="SELECT CAST(k AS TEXT) AS k FROM t")
        assert counted(engine.aggregated(cast)) == {"7": 2, CANARY: 1}
        text = Source(uri, "k", "n", query="SELECT 'a' AS k, n FROM t")
        refused(lambda: drain(engine, text), "not written as a plain whole number")

    @pytest.mark.parametrize(
        ("declared", "value", "found"),
        [
            ("INTEGER", f"'{CANARY}'", "must have only integers, as it is declared"),
            ("bigint", "x'00'", "must have only integers, as it is declared"),
            ("BLOB", f"'{CANARY}'", "must have only bytes, as it is declared"),
            ("TEXT", "x'00'", "must have only text or integers, as it is declared"),
            ("", "1.5", "not a value of type real"),
            ("DECIMAL(9, 2)", "1.5", "not a value of type real"),
            ("float", "1", "not type real"),
        ],
    )
    def test_values_of_another_type_than_declared(
        self, uri: str, declared: str, value: str, found: str, engine: DuckDB
    ) -> None:
        run(uri, f"CREATE TABLE t (k {declared}, u {declared})", f"INSERT INTO t VALUES ({value}, {value})")
        refused(lambda: engine.check(Source(uri, "k", table="t")), f"the key column 'k' .*{found}")
        with_user = Source(uri, "c", user="u", query="SELECT 'a' AS c, u FROM t")
        if declared:  # a query does not tell a column without a type from one of bytes
            refused(lambda: engine.check(with_user), f"the user column 'u' .*{found}")

    def test_bytes_and_upper_case(self, uri: str, engine: DuckDB) -> None:
        run(uri, "CREATE TABLE t (k TEXT COLLATE NOCASE, b BLOB)", "INSERT INTO t VALUES ('a', x'00'), ('A', x'ff')")
        assert counted(engine.aggregated(Source(uri, "k", table="t"))) == {"a": 1, "A": 1}
        assert counted(engine.aggregated(Source(uri, "b", table="t"))) == {b"\x00": 1, b"\xff": 1}

    def test_files(self, tmp_path: Path, engine: DuckDB) -> None:
        missing = Source(f"sqlite:///{tmp_path}/none.db", "k", table="t")
        refused(lambda: engine.check(missing), "there is no SQLite file at")
        assert not (tmp_path / "none.db").exists()
        (tmp_path / "a.db").write_text(CANARY * 100)
        refused(
            lambda: engine.check(Source(f"sqlite:///{tmp_path}/a.db", "k", table="t")), "could not answer the query"
        )

    def test_a_missing_driver(self, uri: str, engine: DuckDB, monkeypatch: pytest.MonkeyPatch) -> None:
        for database, address in (("sqlite", uri), ("postgresql", "postgresql://localhost/db")):
            monkeypatch.setitem(sys.modules, f"adbc_driver_{database}.dbapi", None)
            source = Source(address, "k", table="t")
            refused(partial(engine.check, source), rf"pip install 'adbc-driver-manager.*' 'adbc-driver-{database}")


class TestPostgreSQL:
    def test_types_of_keys(self, server: str, engine: DuckDB) -> None:
        columns = {
            "i": ("integer", "5", pa.int32(), 5),
            "v": ("varchar(9)", "'x'", pa.string(), "x"),
            "c": ("char(3)", "'x'", pa.string(), "x"),
            "u": (
                "uuid",
                "'00000000-0000-0000-0000-00000000000f'",
                pa.string(),
                "00000000-0000-0000-0000-00000000000f",
            ),
            "b": ("bytea", "'\\x00ff'", pa.binary(), b"\x00\xff"),
            "f": ("boolean", "true", pa.bool_(), True),
        }
        kinds = ", ".join(f"{column} {kind}" for column, (kind, *_) in columns.items())
        values = ", ".join(value for _, value, *_ in columns.values())
        run(
            server,
            "DROP TABLE IF EXISTS types",
            f"CREATE TABLE types ({kinds})",
            f"INSERT INTO types VALUES ({values})",
        )
        for column, (_, _, kind, key) in columns.items():
            source = Source(server, column, table="public.types")
            assert engine.check(source) == pa.schema([(column, kind)])
            assert counted(engine.aggregated(source)) == {key: 1}
            [batch] = engine.elements(source)
            assert batch.to_pylist() == [{column: key}]

    def test_refused_types(self, server: str, engine: DuckDB) -> None:
        run(server, "DROP TABLE IF EXISTS odd", "CREATE TABLE odd (a integer[], j jsonb, n numeric, t text)")
        for column in "ajn":
            refused(partial(engine.check, Source(server, column, table="odd")), f"the key column '{column}' must be of")
        refused(
            lambda: engine.check(Source(server, "t", "j", table="odd")), "the frequency column 'j' must be of numbers"
        )
        run(server, f"INSERT INTO odd (t, n) VALUES ('{CANARY}', 'NaN')")
        refused(lambda: drain(engine, Source(server, "t", "n", table="odd")), "infinite or NaN")

    def test_rows_and_sums(self, server: str, engine: DuckDB) -> None:
        """Of each type of numbers; what is no finite float counts 0, and nothing of it is refused."""
        values = ["NULL", "'NaN'", "'Infinity'", "-1e400", "1e-400", "2.5", "-40", "7"]
        rows = ", ".join(f"('{user}', 'a', {value}, {n})" for n, value in enumerate(values) for user in ("x", "y"))
        columns = "u text, k text, exact numeric, n bigint, f double precision, s smallint, day date"
        run(server, "DROP TABLE IF EXISTS t", f"CREATE TABLE t ({columns})")
        run(server, f"INSERT INTO t (u, k, exact, n) VALUES {rows}, ('x', 'b', 1000, -1), ('y', 'c', 1, 1)")
        run(server, "UPDATE t SET f = n / 4.0, s = n", "UPDATE t SET f = 'NaN' WHERE n = 7")
        source = Source(server, "k", user="u", table="t")

        def summed(batches: Any) -> Any:
            total = np.zeros((5, 2), np.int64)
            for _, places, _, *amounts in batches:
                for own, amount in zip(total, amounts, strict=True):
                    np.add.at(own, places, amount)
            return total.reshape(-1)

        amounts = amounts_of(20, dict.fromkeys(("exact", "n", "f", "s"), 100))
        pairs = engine.pairs_of(source.with_amounts(amounts), pa.table({"k": ["a", "b"]}))
        found = engine.summed(pairs, summed).reshape(5, 2) / [[amount.scale] for amount in amounts]
        engine.forget_pairs(pairs)
        expected = [[16, 1], [2 * (2.5 - 40 + 7), 800], [2 * 28, -1], [2 * 21 / 4, -0.25], [2 * 28, -1]]
        assert found.tolist() == [pytest.approx(own, abs=1e-5) for own in expected]  # 1000 is cut off at 8 clips
        dated = source.with_amounts(amounts_of(None, {"day": 1}))
        refused(lambda: engine.check(dated), "the summed column 'day' must be of numbers")

    def test_no_connection(self, server: str, engine: DuckDB) -> None:
        folder = server.partition("host=")[2]
        for uri in (
            f"postgresql://tester:{servers.PASSWORD}@/missing?host={folder}",
            f"postgresql://nobody:{servers.PASSWORD}@/postgres?host={folder}",
            f"postgresql://tester:{servers.PASSWORD}@/postgres?host={folder}/none",
            f"postgresql://tester:{servers.PASSWORD} x@local host/postgres",
        ):
            refused(partial(engine.check, Source(uri, "k", table="t")), "did not accept a connection")

    def test_a_failure_half_way(self, server: str, engine: DuckDB) -> None:
        value = f"CASE WHEN i = 99999 THEN CAST('{CANARY}' AS integer) ELSE i END"
        query = f"SELECT {value} AS k FROM generate_series(0, 99999) i"
        refused(lambda: drain(engine, Source(server, "k", query=query)), "could not answer the query")
        refused(lambda: list(engine.elements(Source(server, "k", query=query))), "could not answer the query")
