"""Rows that are refused, or left out: NULL, bad frequencies, and types that are no keys."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from dpsample.errors import InvalidValue
from dpsample.files import plain_schema
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.sources.source import Source
from dpsample.release.rows import check_key_types
from written_sources import CANARY, KINDS, MAX, Rows, counted, drain, refused, write_ipc, write_json, write_parquet
from written_sources import engine as engine


class TestNull:
    ROWS: ClassVar[Rows] = {"k": [CANARY, None, "b", "b"], "l": [1, 2, None, 4]}

    @pytest.mark.parametrize("kind", ["parquet", "jsonl", "arrow table", "pandas", "polars", "relation", "arrow file"])
    def test_refused_or_dropped(self, kind: str, engine: DuckDB, tmp_path: Path) -> None:
        if kind == "pandas":
            data = pytest.importorskip("pandas").DataFrame({"k": self.ROWS["k"]})
        else:
            data = KINDS[kind](self.ROWS, tmp_path, "")
        rule = "the key column 'k' must have no NULL, but at least one row has one; .*drop_null=True"
        refused(lambda: drain(engine, Source(data, "k")), rule)
        refused(lambda: list(engine.elements(Source(data, "k"))), rule)
        source = Source(data, "k", drop_null=True)
        assert counted(engine.aggregated(source)) == {CANARY: 1, "b": 2}
        assert sum(batch.num_rows for batch in engine.elements(source)) == 3

    def test_in_any_of_several_columns(self, engine: DuckDB) -> None:
        table = pa.table(self.ROWS)
        refused(lambda: drain(engine, Source(table, ["l", "k"])), "the key column '[kl]' must have no NULL")
        dropped = Source(table, ["k", "l"], drop_null=True)
        assert counted(engine.aggregated(dropped)) == {(CANARY, 1): 1, ("b", 4): 1}

    def test_a_dropped_row_may_have_any_frequency(self, engine: DuckDB) -> None:
        table = pa.table({"k": ["a", None], "n": [1, -1]})
        assert counted(engine.aggregated(Source(table, "k", "n", drop_null=True))) == {"a": 1}

    def test_csv(self, engine: DuckDB, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text('k,n\na,1\n,2\n"",3\n')
        refused(lambda: drain(engine, Source(tmp_path / "a.csv", "k")), "must have no NULL")
        dropped = Source(tmp_path / "a.csv", "k", "n", drop_null=True)
        assert counted(engine.aggregated(dropped)) == {"a": 1, "": 3}

    @pytest.mark.parametrize("parts", [2, 3, 5, 8])  # the NULL is not always in the part that is read first
    def test_late_and_in_parts(self, parts: int, tmp_path: Path) -> None:
        pq.write_table(pa.table({"k": [*range(100_000), None]}), tmp_path / "a.parquet")
        with DuckDB(memory_limit="300MB") as small:
            small._parts = lambda table: parts  # type: ignore[method-assign]
            refused(lambda: drain(small, Source(tmp_path / "a.parquet", "k")), "must have no NULL")

    def test_columns_of_nothing_else(self, engine: DuckDB) -> None:
        table = pa.table({"k": pa.nulls(3)})
        refused(lambda: drain(engine, Source(table, "k")), "must have no NULL")
        assert counted(engine.aggregated(Source(table, "k", drop_null=True))) == {}


class TestFrequencies:
    RULE = r"frequencies must be whole numbers from 0 to 2\*\*63 - 1, but there is at least one "

    @pytest.mark.parametrize(
        ("values", "kind", "found"),
        [
            ([1, -1], pa.int64(), "negative"),
            ([3, -1, 1], pa.int8(), "negative"),
            ([1, None], pa.int64(), "row without a frequency"),
            ([1, 2**63], pa.uint64(), "that is too large"),
            ([1, MAX, 1], pa.int64(), "key whose frequencies sum to more"),
            ([2**62, 2**62], pa.uint64(), "key whose frequencies sum to more"),
            ([1.0, 1.5], pa.float64(), "frequency with a fraction"),
            ([1.0, -1.0], pa.float64(), "negative"),
            ([1.0, float("nan")], pa.float64(), "that is too large, infinite or NaN"),
            ([1.0, float("inf")], pa.float64(), "that is too large, infinite or NaN"),
            ([1.0, float("-inf")], pa.float32(), "negative"),
            ([1.0, 2.0**53 + 2], pa.float64(), "that is too large, infinite or NaN"),
            ([Decimal("1.0"), Decimal("1.5")], None, "frequency with a fraction"),
            ([Decimal(1), Decimal(-1)], None, "negative"),
            ([Decimal(1), Decimal(2**63)], None, "that is too large"),
            ([Decimal(10**37)], pa.decimal128(38, 0), "that is too large"),
        ],
    )
    def test_refused(self, values: list[Any], kind: pa.DataType | None, found: str, engine: DuckDB) -> None:
        table = pa.table({"k": [CANARY] * len(values), "n": pa.array(values, kind)})
        refused(lambda: drain(engine, Source(table, "k", "n")), self.RULE + found)

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("-1", "negative"),
            ("", "row without"),
            *((text, "that is not written as") for text in ["1.5", "1.0", "1e3", " 1", "1_000", "0x10", "nan", CANARY]),
            ("9223372036854775808", "that is not written as a plain whole number up to"),
            ("1" * 50, "that is not written as"),
        ],
    )
    def test_refused_text(self, text: str, found: str, engine: DuckDB, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text(f"k,n\n{CANARY},1\n{CANARY},{text}\n")
        refused(lambda: drain(engine, Source(tmp_path / "a.csv", "k", "n")), self.RULE + found)
        write_json({"k": [CANARY] * 2, "n": ["1", text or None]}, tmp_path / "a.jsonl")
        refused(lambda: drain(engine, Source(tmp_path / "a.jsonl", "k", "n")), self.RULE + found)

    def test_late_ones_are_found_before_the_first_batch(self, engine: DuckDB, tmp_path: Path) -> None:
        frequencies = [*[1] * 400_000, -1]
        path = write_parquet({"k": list(range(400_001)), "n": frequencies}, tmp_path / "a.parquet")
        refused(lambda: drain(engine, Source(path, "k", "n")), "negative")

    def test_a_mapping(self, engine: DuckDB) -> None:
        refused(lambda: drain(engine, Source({CANARY: -1})), "negative")

    def test_not_numeric(self, engine: DuckDB) -> None:
        for values in (["5"], [True], [b"5"], [[5]]):
            source = Source(pa.table({"k": ["a"], "n": values}), "k", "n")
            refused(partial(engine.check, source), "the frequency column 'n' must be of numbers")


class TestRefusedTypes:
    @pytest.mark.parametrize(
        ("values", "found"),
        [
            ([1.5], "floats are not compared exactly"),
            (pa.array([1.5], pa.float32()), "floats are not compared exactly"),
            ([["a"]], "not type list: it may be made of several columns"),
            ([{"a": 1}], "not type struct: it may be made of several columns"),
            (
                pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
                "not type map: it may be made of",
            ),
            (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "not type interval"),
            (pa.array([1], pa.time64("us")), "not type time"),
            (pa.array([1], pa.time32("s")), "not type time"),
            (pa.array([1], pa.duration("s")), "not type interval"),
        ],
    )
    def test_of_keys(self, values: Any, found: str, engine: DuckDB, tmp_path: Path) -> None:
        table = pa.table({"k": values})
        refused(lambda: engine.check(Source(table, "k")), f"the key column 'k' must be of integers.*{found}")
        if "interval" not in found:
            pq.write_table(table, tmp_path / "a.parquet")
            refused(lambda: engine.check(Source(tmp_path / "a.parquet", "k")), found)

    def test_what_no_file_can_hold_is_refused_before_any_work(self, engine: DuckDB) -> None:
        """Types of Arrow: the engine refuses it at once, or a release of it can be written."""
        kinds = [pa.bool_(), pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns"), pa.duration("us"), pa.null()]
        kinds += [pa.int8(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal128(38, 9)]
        kinds += [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary(4)]
        kinds += [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Asia/Tokyo")]
        kinds += [pa.dictionary(pa.int8(), pa.string()), pa.list_(pa.int8()), pa.month_day_nano_interval()]
        accepted = 0
        for kind in kinds:
            source = Source(pa.schema([("k", kind)]).empty_table(), "k")
            with contextlib.suppress(InvalidValue):
                schema = engine.check(source)
                assert plain_schema(schema) == schema
                check_key_types(schema, ["k"])
                accepted += 1
        assert accepted >= 20

    def test_nested_json(self, engine: DuckDB, tmp_path: Path) -> None:
        for value in ([CANARY], {"a": CANARY}):
            write_json({"k": ["a", value]}, tmp_path / "a.jsonl")
            refused(lambda: drain(engine, Source(tmp_path / "a.jsonl", "k")), "not an object or array")

    def test_files_that_disagree(self, engine: DuckDB, tmp_path: Path) -> None:
        write_parquet({"k": ["007"]}, tmp_path / "a.parquet")
        write_parquet({"k": [7]}, tmp_path / "b.parquet")
        refused(
            lambda: engine.check(Source(tmp_path, "k")), "'k' has different types in several files: BIGINT and VARCHAR"
        )
        write_ipc({"k": ["007"]}, tmp_path / "a.arrow")
        write_ipc({"k": [7]}, tmp_path / "b.arrow")
        refused(
            lambda: engine.check(Source(f"{tmp_path}/*.arrow", "k")),
            "'k' has different types in several files: int64 and",
        )

    def test_mixed_columns_of_pandas(self, engine: DuckDB) -> None:
        frame = pytest.importorskip("pandas").DataFrame({"k": [1, CANARY], "n": [CANARY, 1]}, dtype=object)
        refused(lambda: engine.check(Source(frame, "k", "n")), "a column of a DataFrame has values of several types")
        assert counted(engine.aggregated(Source(frame, "k"))) == {"1": 1, CANARY: 1}

    def test_a_name_twice(self, engine: DuckDB, tmp_path: Path) -> None:
        table = pa.Table.from_arrays([pa.array(["a"])] * 2, ["k", "k"])
        refused(
            lambda: engine.check(Source(table, "k")), "the column 'k' must be in <Table> once, but it is there 2 times"
        )
        (tmp_path / "a.csv").write_text("k,k\na,b\n")
        refused(lambda: engine.check(Source(tmp_path / "a.csv", "k")), "it is there 2 times")

    def test_elements_of_aggregated_rows(self, engine: DuckDB) -> None:
        refused(lambda: engine.elements(Source({"a": 1})), "a source with frequencies has no rows of single elements")
