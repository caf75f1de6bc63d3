"""Memory, temporary files and an end at any moment."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pytest

from dpsample.errors import InvalidValue, SystemFailure
from dpsample.private.engine import Engine
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.sources.source import Source
from written_sources import CANARY, ELEMENTS, KEYS, Rows, counted, drain, refused, write_csv, write_parquet
from written_sources import engine as engine

# ---- the engine itself


class TestEstimates:
    def test_rows(self, engine: DuckDB, tmp_path: Path) -> None:
        table = {"k": ["a", "b", "a"]}
        for data, rows in [
            (write_parquet(table, tmp_path / "a.parquet"), 3),
            (write_csv(table, tmp_path / "a.csv"), None),
            (pa.table(table), 3),
            (iter("aba"), None),
        ]:
            assert engine.tables.open(Source(data, "k")).size() == rows
        write_parquet(table, tmp_path / "b.parquet")
        assert engine.tables.open(Source(f"{tmp_path}/*.parquet", "k")).size() == 6
        assert engine.tables.open(Source(["a", "b"])).size() == 2
        assert engine.tables.open(Source({"a": 5})).size() == 1

    @pytest.mark.parametrize("distinct", [1, 100, 50_000, 1_000_000])
    def test_distinct_keys(self, distinct: int, engine: DuckDB, tmp_path: Path) -> None:
        query = f"SELECT (hash(range) % {distinct})::BIGINT AS k FROM range(1000000)"
        duckdb.connect().sql(query).write_parquet(str(tmp_path / "a.parquet"))
        [(true,)] = duckdb.connect().sql(f"SELECT count(DISTINCT k) FROM ({query})").fetchall()
        estimate = engine._ask(Source(tmp_path / "a.parquet", "k"), engine._distinct)
        assert true / 1.5 < estimate < true * 1.5

    def test_exact_when_small(self, engine: DuckDB) -> None:
        assert engine._ask(Source(pa.table({"k": ELEMENTS}), "k"), engine._distinct) == len(KEYS)


MEASURE = """
import re, sys
from dpsample import Privacy, Source, release
from dpsample.private.engine.duckdb import DuckDB
keys = total = 0
with DuckDB(memory_limit=sys.argv[2]) as engine:
    for batch in engine.aggregated(Source(sys.argv[1], "k")):
        keys += batch.num_rows
        total += sum(batch["frequency"].to_pylist())
    release(Source(sys.argv[1], "k", user="u"), privacy=Privacy(1, "1e-6"), max_keys_per_user=3, engine=engine)
peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
print(keys, total, peak[1])
"""


class TestMemory:
    @pytest.mark.chance("certain: frequencies are counted, nothing is drawn")
    def test_the_limit_holds(self, tmp_path: Path) -> None:
        """Of the whole process, within a tenth: the limit is a target. Without one it takes about 600 MB."""
        path = str(tmp_path / "a.parquet")
        query = "SELECT 'user-' || hash(range % 2000000) AS k, hash(range) % 100000 AS u FROM range(3000000)"
        duckdb.connect().sql(query).write_parquet(path)
        command = [sys.executable, "-c", MEASURE, path, "300MB"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        keys, total, peak = map(int, done.stdout.split())
        assert (keys, total) == (2_000_000, 3_000_000)
        assert peak * 1024 < 330 * 10**6

    def test_text_is_not_read_in_more_parts_than_its_size_needs(self, tmp_path: Path) -> None:
        """Its number of rows is not known, and 65,536 distinct first keys would stand for billions."""
        path = tmp_path / "a.csv"
        duckdb.connect().sql("SELECT 'user-' || range AS k FROM range(200000)").write_csv(str(path))
        with DuckDB(memory_limit="300MB") as small:  # of which DuckDB has 45 MB, less than two of its usual buffers
            assert small._ask(Source(path, "k"), small._parts) == 1
            assert sum(batch.num_rows for batch in small.aggregated(Source(path, "k"))) == 200_000

    def test_in_parts(self, tmp_path: Path) -> None:
        duckdb.connect().sql("SELECT range % 30011 AS k FROM range(100000)").write_parquet(str(tmp_path / "a.parquet"))
        expected = Counter(i % 30011 for i in range(100_000))
        for parts in (1, 3, 8):
            with DuckDB(memory_limit="300MB") as small:
                small._parts = lambda table, parts=parts: parts  # type: ignore[method-assign,misc]
                assert counted(small.aggregated(Source(tmp_path / "a.parquet", "k"))) == expected

    @pytest.mark.parametrize("limit", [None, "300MB"])
    def test_parts_are_split_when_memory_runs_out(self, limit: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
        rows: Rows = {"k": [i % 30011 for i in range(100_000)], "l": ["x"] * 100_000}
        refusals = []
        with DuckDB(memory_limit=limit) as small:
            run, stream = small.run, small.stream

            def failing(sql: str, *rest: Any) -> Any:
                # the whole, then the first half, then a quarter
                part = re.search(r"% (\d+) = (\d+)", sql)
                if "CREATE TABLE" in sql and part and part.groups() in {("1", "0"), ("2", "0"), ("4", "2")}:
                    refusals.append(part.groups())
                    raise duckdb.OutOfMemoryException("Out of Memory Error: failed to allocate")
                return run(sql, *rest)

            def failing_stream(sql: str, *rest: Any) -> Any:
                if "GROUP BY" in sql:
                    raise duckdb.OutOfMemoryException("Out of Memory Error: failed to allocate")
                return stream(sql, *rest)

            monkeypatch.setattr(small, "run", failing)
            monkeypatch.setattr(small, "stream", failing_stream)
            found = counted(small.aggregated(Source(pa.table(rows), ["k", "l"])))
        assert found == {(k, "x"): n for k, n in Counter(rows["k"]).items()}
        assert refusals == ([] if limit is None else [("1", "0")]) + [("2", "0"), ("4", "2")]

    def test_it_gives_up_in_words(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with DuckDB(memory_limit="300MB") as small:
            run = small.run

            def failing(sql: str, *rest: Any) -> Any:
                if "CREATE TABLE" in sql:
                    raise duckdb.OutOfMemoryException(f"Out of Memory Error: {CANARY}")
                return run(sql, *rest)

            monkeypatch.setattr(small, "run", failing)
            with pytest.raises(SystemFailure, match="the work does not fit into the memory limit") as caught:
                drain(small, Source(pa.table({"k": [1]}), "k"))
            assert CANARY not in str(caught.value)
            assert caught.value.__context__ is None

    @pytest.mark.parametrize(
        ("arguments", "rule"),
        [
            ({"memory_limit": "lots"}, "memory_limit must be a number of bytes"),
            ({"memory_limit": "299MB"}, "memory_limit must be at least 300MB"),
            ({"memory_limit": -5}, "memory_limit must be a number of bytes"),
            ({"threads": 0}, "threads must be a whole number from 1"),
            ({"threads": 1.5}, "threads must be a whole number from 1"),
            ({"temp_dir": "/nowhere/at/all"}, "temp_dir must be a folder that can be written to"),
        ],
    )
    def test_refused_settings(self, arguments: dict[str, Any], rule: str) -> None:
        refused(lambda: DuckDB(**arguments), rule)


class TestSort:
    def test_order_of_bytes(self, engine: DuckDB) -> None:
        keys = [*KEYS, "Z", "z", "ä", "\U0001f600", "\uffff"]
        schema = pa.schema([("k", pa.large_string()), ("token", pa.float64())])
        batches = [pa.record_batch({"k": [key], "token": [1.5]}).cast(schema) for key in keys]
        result = pa.Table.from_batches(engine.sort(iter(batches), schema, ["k"]))
        assert result.schema == schema
        assert result["k"].to_pylist() == sorted(keys, key=str.encode)
        assert list(engine.sort([], schema, ["k"])) == []

    def test_several_columns(self, engine: DuckDB) -> None:
        rows = [(a, b, c) for a in (3, 1, 2) for b in (b"\xff", b"", b"a") for c in (0.5, 0.25)]
        batch = pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*rows, strict=True)], ["A", "b c", "k"])
        [result] = engine.sort([batch], batch.schema, ["b c", "A"])
        found = list(zip(*(column.to_pylist() for column in result.columns), strict=True))
        assert [row[:2] for row in found] == [row[:2] for row in sorted(rows, key=lambda row: (row[1], row[0]))]
        assert sorted(found) == sorted(rows)

    def test_more_than_fits(self, tmp_path: Path) -> None:
        step = 7_368_787  # prime: i * step % n are all of 0, ..., n - 1
        n, size = 3_000_000, 100_000
        schema = pa.schema([("k", pa.string()), ("token", pa.int64())])

        def batches() -> Iterator[pa.RecordBatch]:
            for start in range(0, n, size):
                numbers = [i * step % n for i in range(start, start + size)]
                keys = [f"some-key-{number:012d}" for number in numbers]
                yield pa.RecordBatch.from_arrays([pa.array(keys), pa.array(numbers)], schema=schema)

        position = 0
        with DuckDB(memory_limit="300MB", temp_dir=tmp_path) as small:
            for batch in small.sort(batches(), schema, ["k"]):
                if position == 0:
                    [private] = tmp_path.iterdir()
                    assert stat.S_IMODE(private.stat().st_mode) == 0o700
                    assert sum(file.stat().st_size for file in private.iterdir()) > 10**6
                assert batch["token"].equals(pa.array(range(position, position + batch.num_rows)))
                position += batch.num_rows
        assert position == n
        assert list(tmp_path.iterdir()) == []

    def test_an_error_of_the_caller_is_its_own(self, engine: DuckDB) -> None:
        schema = pa.schema([("k", pa.string())])

        def broken() -> Iterator[pa.RecordBatch]:
            yield pa.record_batch({"k": ["a"]})
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            list(engine.sort(broken(), schema, ["k"]))

    def test_what_the_engine_itself_yields(self, engine: DuckDB) -> None:
        source = Source(pa.table({"k": ELEMENTS}), "k")
        schema = engine.check(source).append(pa.field("frequency", pa.int64()))
        result = pa.Table.from_batches(engine.sort(engine.aggregated(source), schema, ["k"]))
        assert result["k"].to_pylist() == sorted(KEYS, key=str.encode)


@pytest.mark.chance("certain: nothing is drawn")
class TestClosing:
    def spilled(self, engine: DuckDB) -> Iterator[pa.RecordBatch]:
        """Start work that leaves files in the temporary folder."""
        query = "SELECT range * 7919 % 6000000 AS k, hash(range) AS h FROM range(6000000)"
        connection = duckdb.connect()
        batches = connection.sql(query).to_arrow_reader(100_000)
        result = engine.sort(batches, batches.schema, ["k"])
        assert next(result)["k"][0].as_py() == 0
        return result

    def test_files_are_removed(self, tmp_path: Path) -> None:
        with DuckDB(memory_limit="300MB", temp_dir=tmp_path) as engine:
            batches = self.spilled(engine)
            assert [file for file in tmp_path.rglob("*") if file.is_file()]
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(InvalidValue, match="the engine is closed"):
            list(batches)

    @pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
    def test_files_are_removed_after_an_error(self, error: type[BaseException], tmp_path: Path) -> None:
        def work() -> None:
            with DuckDB(memory_limit="300MB", temp_dir=tmp_path) as engine:
                self.spilled(engine)
                raise error

        with pytest.raises(error):
            work()
        assert list(tmp_path.iterdir()) == []

    KILLED = """
import os, signal, sys
from dpsample.private.engine.duckdb import DuckDB
engine = DuckDB(temp_dir=sys.argv[1])
open(os.path.join(engine._temp.path, "spilled"), "w").write("private")
print(engine._temp.path, flush=True)
sys.stdin.read()
"""

    def start(self, folder: Path) -> tuple[subprocess.Popen[str], Path]:
        """Start a process with an engine; return it, and its temporary folder."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", self.KILLED, str(folder)]
        process = subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=environment)
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    def test_what_a_killed_process_left_is_removed_by_the_next(self, tmp_path: Path) -> None:
        dead, left = self.start(tmp_path)
        alive, kept = self.start(tmp_path)
        try:
            dead.kill()
            dead.communicate()
            assert (left / "spilled").exists()
            (tmp_path / "dpsample-elsewhere").symlink_to(kept)
            (tmp_path / "dpsample-mine").mkdir()  # not one of ours: it has no lock
            (tmp_path / "dpsample-mine" / "notes").write_text("mine")
            with DuckDB(temp_dir=tmp_path) as engine:
                assert not left.exists()
                assert (kept / "spilled").read_text() == "private"
                assert (tmp_path / "dpsample-mine" / "notes").exists()
                own = Path(engine._temp.path)
                with DuckDB(temp_dir=tmp_path):
                    assert own.exists()
                assert own.exists()
        finally:
            alive.communicate("")
        assert not own.exists()
        DuckDB(temp_dir=tmp_path).close()
        assert {path.name for path in tmp_path.iterdir()} <= {"dpsample-elsewhere", "dpsample-mine"}

    def test_a_folder_without_a_lock_is_removed_if_it_is_empty(self, tmp_path: Path) -> None:
        """A process that dies before it makes its lock leaves one."""
        left = Path(tempfile.mkdtemp(prefix="dpsample-", dir=tmp_path))
        others = [Path(tempfile.mkdtemp(prefix=f"dpsample-{name}", dir=tmp_path)) for name in ("", "explore-", "s-")]
        (others[0] / "notes").write_text("mine")
        others.append(tmp_path / "dpsample-my_files")  # as `mkdtemp` would name it, but made by somebody else
        others[-1].mkdir(mode=0o755)
        DuckDB(temp_dir=tmp_path).close()
        assert not left.exists()
        assert sorted(tmp_path.iterdir()) == sorted(others)

    def test_a_folder_that_is_removed_before_it_has_its_lock(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another engine starts between the two steps, three times: the first one makes another folder."""
        made: list[str] = []

        def slow(**options: Any) -> str:
            made.append(mkdtemp(**options))
            if len(made) <= 3:
                monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
                DuckDB(temp_dir=tmp_path).close()
                monkeypatch.setattr(tempfile, "mkdtemp", slow)
            return made[-1]

        mkdtemp = tempfile.mkdtemp
        monkeypatch.setattr(tempfile, "mkdtemp", slow)
        with DuckDB(temp_dir=tmp_path) as engine:
            assert len(made) == 4
            assert [str(path) for path in tmp_path.iterdir()] == [engine._temp.path] == made[-1:]
            assert [path.name for path in Path(engine._temp.path).iterdir()] == ["dpsample.lock"]
        assert list(tmp_path.iterdir()) == []

    def test_an_interrupt_ends_a_long_statement(self, tmp_path: Path) -> None:
        # 10**11 pairs would take minutes
        rows = pa.table({"k": range(300_000)})

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with pytest.raises(KeyboardInterrupt), DuckDB(temp_dir=tmp_path) as engine:
                engine.run("SELECT sum(a.k * b.k % 7) FROM r a, r b", {"r": lambda: rows})
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert list(tmp_path.iterdir()) == []

    def test_it_is_used_open_and_closed_once_or_more(self) -> None:
        engine = DuckDB()
        assert isinstance(engine, Engine)
        engine.close()
        engine.close()
        refused(lambda: engine.check(Source(pa.table({"k": [1]}), "k")), "the engine is closed")

    def test_readers_do_not_get_in_each_others_way(self, engine: DuckDB) -> None:
        source = Source(pa.table({"k": range(400_000)}), "k")
        first, second = engine.aggregated(source), engine.elements(source)
        rows = [0, 0]
        for a, b in zip(first, second, strict=False):
            rows[0] += a.num_rows
            rows[1] += b.num_rows
            assert engine.check(source).names == ["k"]
        assert rows[0] + sum(batch.num_rows for batch in first) == 400_000
        assert rows[1] + sum(batch.num_rows for batch in second) > 0
