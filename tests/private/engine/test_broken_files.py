"""Broken files are refused as what they are, whatever their rows say."""

from __future__ import annotations

import contextlib
import gzip
import os
import traceback
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, ClassVar
from unittest import mock

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from dpsample.errors import InvalidValue, SystemFailure
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.sources.source import Source
from written_sources import (
    CANARY,
    KINDS,
    WEIRD,
    Rows,
    counted,
    drain,
    refused,
    write_csv,
    write_feather,
    write_ipc,
    write_parquet,
)
from written_sources import engine as engine


class TestBrokenFiles:
    """At check where the ending tells, else before the first batch."""

    def broken(self, engine: DuckDB, path: Path, content: bytes, rule: str = "is not whole and readable") -> None:
        path.write_bytes(content)
        refused(lambda: drain(engine, Source(path, "k")), rule)

    @pytest.mark.parametrize("ending", ["parquet", "arrow", "feather"])
    def test_binary_files(self, ending: str, engine: DuckDB, tmp_path: Path) -> None:
        write = {"parquet": write_parquet, "arrow": write_ipc, "feather": write_feather}[ending]
        path = tmp_path / f"a.{ending}"
        whole = write({"k": [CANARY] * 1000}, path).read_bytes()
        for content in (b"", b"PAR1", CANARY.encode() * 10, whole[:-10], whole[: len(whole) // 2]):
            path.write_bytes(content)
            refused(lambda: engine.check(Source(path, "k")), "is not whole and readable")
        if ending == "parquet":  # what is left of an Arrow file is an Arrow stream
            self.broken(engine, path, whole[8:])

    def test_damage_inside(self, engine: DuckDB, tmp_path: Path) -> None:
        table = pa.table({"k": [f"{CANARY}-{i}" for i in range(1000)]})
        pq.write_table(table, tmp_path / "a.parquet", compression="zstd")
        content = bytearray((tmp_path / "a.parquet").read_bytes())
        content[100:200] = bytes(100)
        self.broken(engine, tmp_path / "a.parquet", bytes(content))

    def test_a_name_that_is_not_utf_8(self, engine: DuckDB, tmp_path: Path) -> None:
        """DuckDB answers with a RuntimeError, which is none of its own classes."""
        for row in ({"k": [CANARY], "name": ["a"]}, {"name": ["a"], "k": [CANARY]}):
            content = write_parquet(row, tmp_path / "a.parquet").read_bytes()
            assert b"name" in content
            self.broken(engine, tmp_path / "a.parquet", content.replace(b"name", b"na\xede"))

    def test_any_error_of_a_statement(self, engine: DuckDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of whatever class, at each statement: it is refused, and its text is dropped."""
        path, cursor, left = write_parquet({"k": ["a", "b"]}, tmp_path / "a.parquet"), engine._cursor, count()

        class Failing:
            def __init__(self, inner: Any) -> None:
                self._inner = inner

            def __getattr__(self, name: str) -> Any:
                if name in ("sql", "execute") and next(left) == 0:
                    raise LookupError(CANARY)
                return getattr(self._inner, name)

        @contextlib.contextmanager
        def failing(*arguments: Any) -> Iterator[Any]:
            with cursor(*arguments) as inner:
                yield Failing(inner)

        monkeypatch.setattr(engine, "_cursor", failing)
        for before in range(4):  # three statements describe, and one reads
            left = count(-before)
            refused(lambda: drain(engine, Source(path, "k")), "is not whole and readable")
        left = count(-4)
        assert counted(engine.aggregated(Source(path, "k"))) == {"a": 1, "b": 1}
        assert next(left) == 0

    def test_an_engine_that_duckdb_stopped(self, tmp_path: Path) -> None:
        """After an error inside DuckDB it answers nothing more: a file without fault is not blamed for it."""
        path = write_parquet({"k": ["a"]}, tmp_path / "a.parquet")
        with DuckDB() as stopped:
            duckdb_error = duckdb.FatalException(f"FATAL Error: database has been invalidated: {CANARY}")
            stopped.run = mock.Mock(side_effect=duckdb_error)  # type: ignore[method-assign]
            with pytest.raises(SystemFailure, match="DuckDB stopped at a fault of") as info:
                stopped.total(Source(path, "k"))
            assert CANARY not in str(info.value)

    def test_a_stream_that_is_cut_off(self, engine: DuckDB, tmp_path: Path) -> None:
        content = write_ipc({"k": [CANARY] * 1000}, tmp_path / "a.ipc", stream=True).read_bytes()
        self.broken(engine, tmp_path / "a.ipc", content[:-700])

    @pytest.mark.parametrize(
        ("content", "rule"),
        [
            (f"k,n\na,1\n{CANARY}\n", "a broken row of CSV near line 3"),
            (f"k,n\na,1\n{CANARY},2,3\n", "a broken row of CSV near line 3"),
            (f'k,n\na,1\n"{CANARY}"x,2\n', "a broken row of CSV near line 3"),
            (f'k,n\na,1\n"{CANARY},2\n', "has an odd number of quotes"),
            (f'k,n\na,1\n{CANARY},"2', "has an odd number of quotes"),
            (f'k,n\n"{CANARY},1\nb,2\n"c",3\n', "has an odd number of quotes"),
            (f'k,n\n"{CANARY},1\nb,2\n"c,3\n', "a broken row of CSV near line 2"),
            (f"k,n\na,1\r\n{CANARY},2\n", "a broken row of CSV;"),
            ("k,n\na,1\n" * 3000 + f"{CANARY},1,1\n", "a broken row of CSV near line 6001"),
            (f"k,n\n{CANARY * 300_000},1\n", "a broken row of CSV"),
            (f"{CANARY},1\nb,2\n", "the column 'k' must be in .* it has 2 other columns"),
            (f"k;n\n{CANARY};1\n", "separated by semicolons; state them: delimiter=';'"),
            ("", "does not begin with a line of column names"),
            (f"\nk,n\n{CANARY},1\n", "does not begin with a line of column names"),
        ],
    )
    def test_csv(self, content: str, rule: str, engine: DuckDB, tmp_path: Path) -> None:
        self.broken(engine, tmp_path / "a.csv", content.encode(), rule)

    def test_other_encodings(self, engine: DuckDB, tmp_path: Path) -> None:
        self.broken(engine, tmp_path / "a.csv", f"k,n\n{CANARY}é,1\n".encode("latin-1"), "a broken row of CSV")
        self.broken(engine, tmp_path / "a.csv", f"k,n\n{CANARY},1\n".encode("utf-16"), "is in UTF-16")
        self.broken(engine, tmp_path / "a.jsonl", f'{{"k": "{CANARY}é"}}\n'.encode("latin-1"), "a broken line of JSON")

    @pytest.mark.parametrize(
        ("content", "rule"),
        [
            (f'{{"k": "a"}}\n{{"k": "{CANARY}"\n', "a broken line of JSON near line"),
            (f'[{{"k": "{CANARY}"}}]\n', "a broken line of JSON near line 1"),
            (f'"{CANARY}"\n', "a broken line of JSON near line 1"),
            (f'{{"k": "{CANARY}", "k": "b"}}\n', "a broken line of JSON near line 1"),
            (f'{{"{CANARY}": 1, "b": 2}}\n', "the column 'k' must be in .* it has 2 other columns"),
            (CANARY, "broken line"),
        ],
    )
    def test_json(self, content: str, rule: str, engine: DuckDB, tmp_path: Path) -> None:
        self.broken(engine, tmp_path / "a.jsonl", content.encode(), rule)

    def test_compressed_files(self, engine: DuckDB, tmp_path: Path) -> None:
        rows = "".join(f"{CANARY}-{i * i}\n" for i in range(100_000))
        whole = gzip.compress(b"k\n" + rows.encode())
        self.broken(engine, tmp_path / "a.csv.gz", whole[: len(whole) // 2])
        self.broken(engine, tmp_path / "a.csv.gz", whole[:-8])
        self.broken(engine, tmp_path / "b.csv.gz", rows.encode(), "does not begin with a line of column names")
        whole = gzip.compress("".join(f'{{"k": "{CANARY}-{i}"}}\n' for i in range(100_000)).encode())
        self.broken(engine, tmp_path / "a.jsonl.gz", whole[: len(whole) // 2])
        self.broken(engine, tmp_path / "b.jsonl.gz", rows.encode())

    @pytest.mark.parametrize(
        "file", ["a.parquet", "a.csv", "a.tsv", "a.csv.gz", "a.jsonl", "a.jsonl.gz", "a.arrow", "a.ipc", "a.feather"]
    )
    def test_damage_anywhere_is_refused_or_harmless(self, file: str, engine: DuckDB, tmp_path: Path) -> None:
        path = tmp_path / file
        rows: Rows = {"k": [f"{CANARY}-{i}" for i in range(99)], "n": list(range(99))}
        kind = {"parquet": "parquet", "arrow": "arrow file", "ipc": "arrow stream"}.get(file[2:], file[2:])
        KINDS["ndjson.gz" if kind == "jsonl.gz" else kind](rows, tmp_path, "")
        whole = next(tmp_path.iterdir()).read_bytes()
        random, refusals = Random(file), []
        for _ in range(30):
            content = bytearray(whole)
            for _ in range(random.choice([1, 3, 9])):
                place = random.randrange(len(content))
                content[place : place + random.randrange(4)] = random.choice([b"", b'"', b"\n", b"\x00\xff", b"{"])
            path.write_bytes(content)
            try:
                found = counted(engine.aggregated(Source(path, "k", "n")))
                assert len(found) <= 200
            except InvalidValue as error:
                refusals.append(error)
        assert len(refusals) > 3
        assert CANARY not in "".join("".join(traceback.format_exception(error)) for error in refusals)
        assert {(error.__cause__, error.__context__) for error in refusals} == {(None, None)}

    def test_missing_and_forbidden(self, engine: DuckDB, tmp_path: Path) -> None:
        refused(lambda: engine.check(Source(tmp_path / "a.csv", "k")), "there is no file or folder at")
        if os.geteuid() != 0:
            path = write_csv({"k": ["a"]}, tmp_path / "b.csv")
            path.chmod(0)
            refused(lambda: engine.check(Source(path, "k")), "there is no permission to read")

    def test_names_that_break_what_does_not_quote(self, engine: DuckDB, tmp_path: Path) -> None:
        folder = tmp_path / "x'; DROP TABLE t; --"
        folder.mkdir()
        for file in ("a'b.parquet", "a*b.parquet", "a[b].parquet", "a?b.parquet", "{a,b}.parquet", "é 日.parquet"):
            write_parquet({WEIRD: [file], 'a"b': [1]}, folder / file)
            assert counted(engine.aggregated(Source(folder / file, WEIRD, 'a"b'))) == {file: 1}
        assert len(counted(engine.aggregated(Source(folder, WEIRD)))) == 6

    def test_a_relation_that_fails(self, engine: DuckDB) -> None:
        broken = duckdb.connect().sql(f"SELECT CAST('{CANARY}' || range AS INTEGER) AS k FROM range(9)")
        refused(lambda: drain(engine, Source(broken, "k")), "<DuckDBPyRelation> is not whole and readable")


class TestImitations:
    """Data that look like an error of ours get one of our own sentences at worst: nothing of them is passed on."""

    MESSAGES: ClassVar[list[str]] = [
        f"dpsample-refused:{CANARY.replace('-', '_')}",
        f"dpsample-refused:{CANARY.replace('-', '_')}:0",
        f"dpsample-refused:null:77 {CANARY}",
        f"dpsample-refused:null:0 {CANARY}",
        f"dpsample-refused:text {CANARY}",
        f"dpsample.errors.InvalidValue: {CANARY}; found {CANARY}; {CANARY}",
        f"dpsample.errors.SystemFailure: {CANARY}; found {CANARY}; {CANARY}",
        f"dpsample.errors.InvalidValue: q must {CANARY}; found {CANARY}; {CANARY}",
        f"'{CANARY}' must be accessible; found {CANARY}; {CANARY}",
        f"Cannot cast 'No module named 'dpsample {CANARY}' to BIGINT",
        f"CSV Error on Line: 5 {CANARY}",
    ]

    @pytest.mark.parametrize("message", MESSAGES)
    def test_of_both_engines(self, message: str) -> None:
        from dpsample.private.engine.duckdb.errors import refusal as by_duckdb
        from dpsample.private.engine.spark.errors import refusal as by_spark

        refusals = [by_duckdb(duckdb.Error(message), "<Table>", ["k"]), by_spark(RuntimeError(message), ["k"])]
        for refusal in refusals:
            assert isinstance(refusal, InvalidValue | SystemFailure)
            assert CANARY.partition("-")[2] not in str(refusal)

    def test_a_key_that_looks_like_a_mark(self, engine: DuckDB) -> None:
        key = f"dpsample-refused:null:0 {CANARY}"
        assert counted(engine.aggregated(Source([key]))) == {key: 1}
        broken = duckdb.connect().sql(f"SELECT CAST('{key}' || range AS INTEGER) AS k FROM range(9)")
        with pytest.raises(InvalidValue) as caught:
            drain(engine, Source(broken, "k"))
        assert CANARY not in str(caught.value)
