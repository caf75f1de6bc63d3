"""Rows as programs have them: database files of DuckDB, connections, standard input, dicts and datasets of Arrow."""

import io
import sqlite3
import sys
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dpsample.accounting.amounts import Amount
from dpsample.accounting.parts import Part
from dpsample.cli import cli as command
from dpsample.cli.options import in_options
from dpsample.errors import InvalidValue
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.sources.source import Source

ROWS: dict[str, list[Any]] = {"k": list("aabc"), "u": [1, 2, 2, 3], "day": ["1", "1", "2", "2"]}
PRIVACY = ["-e", "1", "-d", "1e-8"]


def counted(source: Source) -> dict[Any, int]:
    with DuckDB() as engine:
        rows = [row for batch in engine.aggregated(source) for row in batch.to_pylist()]
    return {tuple(row[name] for name in source.key): row["frequency"] for row in rows}


def users(source: Source, keys: str = "abc") -> list[tuple[bool, str]]:
    """Return the pairs of users and keys, in some order of users: whether each begins a user, and the key."""
    with DuckDB() as engine:
        pairs = engine.pairs_of(source, pa.table({source.key[0]: list(keys)}))
        return [
            (bool(b), keys[c]) for begins, codes, *_ in pairs.data.read() for b, c in zip(begins, codes, strict=True)
        ]


class TestDuckDBFiles:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "shop.duckdb"
        with duckdb.connect(path) as connection:
            rows = pa.table(ROWS)
            connection.execute("CREATE TABLE clicks AS FROM rows")
            connection.execute("CREATE SCHEMA old")
            connection.execute("CREATE TABLE old.wanted AS SELECT 'z' AS k, 1 AS u")
        assert len(rows) == 4
        return path

    def test_tables_and_queries(self, path: Path) -> None:
        assert counted(Source(path, "k", table="clicks")) == {("a",): 2, ("b",): 1, ("c",): 1}
        assert counted(Source(str(path), "k", table="old.wanted")) == {("z",): 1}
        assert counted(Source(path, "u", query="SELECT u FROM clicks WHERE u > 1")) == {(2,): 2, (3,): 1}
        assert counted(Source(path, "k", table="clicks").of_part(Part("day", "2"))) == {("b",): 1, ("c",): 1}
        assert sum(begins for begins, _ in users(Source(path, "k", table="clicks", user="u"))) == 3
        frequencies = Source(path, "k", "n", query="SELECT k, 3 AS n FROM clicks")
        assert counted(frequencies) == {("a",): 6, ("b",): 3, ("c",): 3}

    def test_what_is_shown(self, path: Path) -> None:
        source = Source(path, "k", table="clicks")
        assert repr(source) == f"Source({str(path)!r}, key='k', table='clicks')"
        assert source.paths == [str(path)]
        assert source.inputs() == [str(path)]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({}, "either a table or a query"),
            ({"table": "t"}, "has no such table"),
            ({"query": "SELEC"}, "cannot answer the query"),
            ({"query": ""}, "cannot answer the query"),
            ({"table": "clicks", "key": "x"}, "'x' must be in"),
        ],
    )
    def test_refused(self, options: dict[str, Any], message: str, path: Path) -> None:
        with pytest.raises(InvalidValue, match=message):
            counted(Source(path, options.pop("key", "k"), **options))

    def test_files_that_cannot_be_opened(self, path: Path, tmp_path: Path) -> None:
        with pytest.raises(InvalidValue, match="there is no file"):
            counted(Source(tmp_path / "none.duckdb", "k", table="t"))
        (tmp_path / "no.duckdb").write_text("no database")
        with pytest.raises(InvalidValue, match="cannot be opened for reading"):
            counted(Source(tmp_path / "no.duckdb", "k", table="t"))
        with duckdb.connect(path), pytest.raises(InvalidValue, match="hand in a relation"):
            counted(Source(path, "k", table="clicks"))
        assert counted(Source(path, "k", table="clicks"))

    @pytest.mark.chance("certain: only the end of the command and its words are looked at")
    def test_at_the_command_line(self, path: Path, tmp_path: Path) -> None:
        output = str(tmp_path / "r.parquet")
        words = ["release", str(path), "--table", "clicks", "-k", "k", *PRIVACY, "-o", output]
        assert CliRunner().invoke(command, words).exit_code == 0
        assert Path(output).exists()


class TestConnections:
    def connection(self, path: str = ":memory:") -> sqlite3.Connection:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE clicks (k TEXT, u INTEGER, day TEXT)")
        connection.executemany("INSERT INTO clicks VALUES (?, ?, ?)", zip(*ROWS.values(), strict=True))
        return connection

    def test_tables_and_queries(self) -> None:
        connection = self.connection()
        connection.commit()
        assert counted(Source(connection, "k", table="clicks")) == {("a",): 2, ("b",): 1, ("c",): 1}
        assert counted(Source(connection, "u", query="SELECT u FROM clicks WHERE u > 1")) == {(2,): 2, (3,): 1}
        assert counted(Source(connection, "k", table="clicks").of_part(Part("day", "2"))) == {("b",): 1, ("c",): 1}
        assert sum(begins for begins, _ in users(Source(connection, "k", table="clicks", user="u"))) == 3

    def test_what_is_shown(self) -> None:
        connection = self.connection()
        assert repr(Source(connection, "k", table="clicks")) == "Source(<Connection>, key='k', table='clicks')"
        connection.commit()
        with pytest.raises(InvalidValue, match="<Connection> has no table of that name"):
            counted(Source(connection, "k", table="none"))
        with pytest.raises(InvalidValue, match="either a table or a query"):
            Source(connection, "k")

    def test_its_file_is_an_input(self, tmp_path: Path) -> None:
        path = str(tmp_path / "a.db")
        connection = self.connection(path)
        assert Source(connection, "k", table="clicks").inputs() == [path]
        assert Source(self.connection(), "k", table="clicks").inputs() == []

    def test_a_closed_connection(self) -> None:
        connection = self.connection()
        connection.close()
        with pytest.raises(InvalidValue, match="cannot be read through it"):
            counted(Source(connection, "k", table="clicks"))


DICTS = [dict(zip(ROWS, row, strict=True)) for row in zip(*ROWS.values(), strict=True)]


class TestDicts:
    def test_rows(self) -> None:
        assert counted(Source(DICTS, "k")) == {("a",): 2, ("b",): 1, ("c",): 1}
        assert counted(Source(DICTS, ["k", "u"], key_type={"u": "int64"}).of_part(Part("day", "2"))) == {
            ("b", 2): 1,
            ("c", 3): 1,
        }
        assert counted(Source(tuple(DICTS), "u")) == {("1",): 1, ("2",): 2, ("3",): 1}
        assert sum(begins for begins, _ in users(Source(DICTS, "k", user="u"))) == 3
        assert counted(Source([{"k": "a", "n": 2}, {"k": "a", "n": 3}], "k", "n")) == {("a",): 5}
        assert repr(Source(DICTS, "k")) == "Source(<list>, key='k')"

    def test_what_a_row_does_not_have_is_null(self) -> None:
        rows = [*DICTS, {"u": 1}, {"k": None}]
        assert counted(Source(rows, "k", drop_null=True)) == {("a",): 2, ("b",): 1, ("c",): 1}
        with pytest.raises(InvalidValue, match="'k' must have no NULL"):
            counted(Source(rows, "k"))

    @pytest.mark.parametrize(
        ("rows", "arguments", "message"),
        [
            (DICTS, {}, "key must be the name of a column"),
            (DICTS, {"key": "x"}, "'x' must be in <list> once"),
            ([*DICTS, "a"], {"key": "k"}, "is no mapping from column to value"),
            ([*DICTS, {"k": 7}], {"key": "k"}, "keys without a type are numbers and text"),
            ([*DICTS, {"k": 0.5}], {"key": "k"}, "has no standard text"),
            (DICTS, {"key": "k", "frequency": "day"}, "frequencies of its keys, whole numbers"),
            (DICTS, {"key": "k", "key_type": "int64"}, "not of the declared type int64"),
            (DICTS, {"key": "k", "table": "t"}, "can only be used with a database"),
        ],
    )
    def test_refused(self, rows: list[Any], arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidValue, match=message):
            counted(Source(rows, **arguments))

    def test_summed_columns(self) -> None:
        amount = Amount("x", Fraction(0), Fraction(100))
        rows = [{"k": "a", "u": 1, "x": x} for x in (1, 2.5, Decimal("0.5"), None, float("nan"), 10**400)]
        source = Source(rows, "k", user="u").with_amounts([amount])
        with DuckDB() as engine:
            [(_, _, _, units)] = engine.pairs_of(source, pa.table({"k": ["a"]})).data.read()
        assert units.tolist() == [round(4 * source.amounts[0].scale)]
        wrong = Source([{"k": "a", "u": 1, "x": "7"}], "k", user="u").with_amounts([amount])
        with DuckDB() as engine, pytest.raises(InvalidValue, match="summed column is no number"):
            engine.pairs_of(wrong, pa.table({"k": ["a"]}))


class TestDatasets:
    def lake(self, folder: Path) -> Path:
        for day in ("1", "2"):
            (folder / f"day={day}").mkdir(parents=True)
            keys = [key for key, own in zip(ROWS["k"], ROWS["day"], strict=True) if own == day]
            pq.write_table(pa.table({"k": keys, "u": [1, 2]}), folder / f"day={day}" / "x.parquet")
        return folder

    @pytest.mark.parametrize("typed", [True, False])
    def test_folders(self, typed: bool, tmp_path: Path) -> None:
        schema = pa.schema([("day", pa.string())])
        partitioning = pyarrow.dataset.partitioning(schema, flavor="hive") if typed else "hive"
        dataset = pyarrow.dataset.dataset(self.lake(tmp_path), partitioning=partitioning)
        source = Source(dataset, ["day", "k"])
        assert counted(source) == {("1" if typed else 1, "a"): 2, **{("2" if typed else 2, key): 1 for key in "bc"}}
        assert counted(Source(dataset, "k").of_part(Part("day", "1"))) == {("a",): 2}
        assert sum(begins for begins, _ in users(Source(dataset, "k", user="u"))) == 2
        with DuckDB() as engine:
            assert engine.total(source) == engine.total(source) == 4
        with pytest.raises(InvalidValue, match="'x' must be in <FileSystemDataset> once"):
            counted(Source(dataset, "x"))

    def test_a_dataset_in_memory(self) -> None:
        dataset = pyarrow.dataset.dataset(pa.table(ROWS))
        assert counted(Source(dataset, "k")) == {("a",): 2, ("b",): 1, ("c",): 1}

    def test_delta(self, tmp_path: Path) -> None:
        deltalake = pytest.importorskip("deltalake", reason="Delta tables are tested where deltalake is installed")
        deltalake.write_deltalake(str(tmp_path), pa.table(ROWS), partition_by=["day"])
        deltalake.write_deltalake(str(tmp_path), pa.table(ROWS), mode="append")
        table = deltalake.DeltaTable(str(tmp_path))
        table.delete("k = 'c'")
        source = Source(table.to_pyarrow_dataset(), ["day", "k"])
        assert counted(source) == {("1", "a"): 4, ("2", "b"): 2}
        assert counted(Source(table.to_pyarrow_dataset(), "k").of_part(Part("day", "2"))) == {("b",): 2}


TEXTS = {
    "csv": b"k,u\na,1\na,2\nb,2\n",
    "tsv": b"k\tu\na\t1\na\t2\nb\t2\n",
    "jsonl": b'{"k": "a"}\n{"k": "a"}\n{"k": "b"}\n',
}


class TestStandardInput:
    def text(self, format: str) -> bytes:
        if format in TEXTS:
            return TEXTS[format]
        sink = io.BytesIO()
        table = pa.table({"k": list("aab")})
        if format == "parquet":
            pq.write_table(table, sink)
        else:
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
        return sink.getvalue()

    @pytest.mark.parametrize("format", ["csv", "tsv", "jsonl", "parquet", "arrow"])
    def test_formats(self, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(self.text(format))))
        source = Source("-", "k", format=format)
        with DuckDB() as engine:
            for _ in range(2):  # read again from the copy
                rows = [tuple(row.values()) for batch in engine.aggregated(source) for row in batch.to_pylist()]
                assert Counter(dict(rows)) == {"a": 2, "b": 1}
        assert repr(source) == f"Source(<standard input>, key='k', format={format!r})"
        assert source.inputs() == []

    def test_the_format_is_stated(self) -> None:
        with pytest.raises(InvalidValue, match="standard input has no extension"):
            Source("-", "k")

    @pytest.mark.chance("certain: only the end of the command and its words are looked at")
    def test_at_the_command_line(self, tmp_path: Path) -> None:
        output = tmp_path / "r.parquet"
        words = ["release", "-", "-k", "k", *PRIVACY, "-o", str(output)]
        refused = CliRunner().invoke(command, words, input=TEXTS["csv"])
        assert isinstance(refused.exception, InvalidValue)
        assert "name the format, such as --input-format csv" in in_options(refused.exception.marked)
        assert not output.exists()
        done = CliRunner().invoke(command, [*words, "--input-format", "csv"], input=TEXTS["csv"])
        assert done.exit_code == 0, done.output
        assert output.exists()
