"""The embedded engine: every kind of source against a Counter, every refusal, memory, temporary files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsample.errors import InvalidValue
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.sources.source import Source
from given_coins import GivenCoins
from written_sources import ELEMENTS, KEYS, KINDS, MAX, WEIRD, Rows, counted, write_csv, write_json, write_parquet
from written_sources import engine as engine

ORACLE = Counter(ELEMENTS)


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Source]:
    """Make a source of some columns, in one of many ways."""
    uri = request.getfixturevalue("server") if request.param.startswith("postgresql") else ""

    folders = (tmp_path / str(i) for i in count())

    def source(rows: Rows, key: Any, **options: Any) -> Source:
        folder = next(folders)
        folder.mkdir()
        made = KINDS[request.param](rows, folder, uri)
        data, more = made if isinstance(made, tuple) else (made, {})
        return Source(data, key, **options, **more)

    return source


class TestEveryKind:
    def test_raw_elements(self, make: Callable[..., Source], engine: DuckDB) -> None:
        source = make({"other": [5] * len(ELEMENTS), WEIRD: ELEMENTS}, WEIRD)
        assert engine.check(source) == pa.schema([(WEIRD, pa.string())])
        batches = list(engine.aggregated(source))
        assert batches[0].schema.names == [WEIRD, "frequency"]
        assert counted(batches) == ORACLE

    def test_aggregated_rows(self, make: Callable[..., Source], engine: DuckDB) -> None:
        rows = [(key, i) for key in KEYS for i in range(3)] + [("none", 0)]
        columns = {"n": [i for _, i in rows], WEIRD: [key for key, _ in rows]}
        assert counted(engine.aggregated(make(columns, WEIRD, frequency="n"))) == dict.fromkeys(KEYS, 3)

    def test_composite_keys(self, make: Callable[..., Source], engine: DuckDB) -> None:
        pairs = [(key, i % 2) for i, key in enumerate(ELEMENTS)]
        source = make({"b": [i for _, i in pairs], "a": [key for key, _ in pairs]}, ["a", "b"])
        schema = engine.check(source)
        text = schema.field("b").type == pa.string()  # text files carry no types
        assert text == (source.kind == "files" and source.listing().format in ("csv", "tsv", "jsonl"))
        assert counted(engine.aggregated(source)) == Counter((key, str(i) if text else i) for key, i in pairs)

    def test_two_passes(self, make: Callable[..., Source], engine: DuckDB) -> None:
        source = make({"k": ELEMENTS}, "k")
        batches = list(engine.elements(source))
        assert {tuple(batch.schema.names) for batch in batches} == {("k",)}
        assert Counter(key for batch in batches for key in batch["k"].to_pylist()) == ORACLE
        wanted = pa.table({"k": [*KEYS[2:9], "not there"]})
        assert counted(engine.count(source, wanted)) == {key: ORACLE[key] for key in KEYS[2:9]}
        assert counted(engine.aggregated(source)) == ORACLE

    def test_totals(self, make: Callable[..., Source], engine: DuckDB) -> None:
        source = make({"k": ELEMENTS}, "k")
        assert engine.total(source) == len(ELEMENTS)
        assert counted(engine.aggregated(source)) == ORACLE  # and it can still be read
        assert engine.total(make({"k": ["a", "b", "a"], "n": [2**60, 5, 0]}, "k", frequency="n")) == 2**60 + 5

    def test_users(self, make: Callable[..., Source], engine: DuckDB) -> None:
        """Users 'a' and 'A' differ, rows that repeat count once, and who has more than three keys keeps three."""
        light = [(user, key) for user in ("a", "A", "é", "") for key in KEYS[:3]] * 2
        heavy = [("heavy", key) for key in KEYS]
        rows = light + heavy
        source = make(
            {"k": [key for _, key in rows], WEIRD: [user for user, _ in rows], "x": [1] * len(rows)}, "k", user=WEIRD
        )
        assert engine.check(source) == pa.schema([("k", pa.string())])
        # one number for each key of the one user who has too many; equal ones are put into the order of keys
        bounded = engine.bounded(source, 3, GivenCoins(np.zeros(len(KEYS), np.uint64)))
        kept = sorted(KEYS, key=str.encode)[:3]
        oracle = Counter([*(key for key in KEYS[:3] for _ in range(4)), *kept])
        assert engine.total(bounded) == sum(oracle.values())
        assert counted(engine.aggregated(bounded)) == oracle
        assert Counter(key for batch in engine.elements(bounded) for key in batch["k"].to_pylist()) == oracle
        engine.forget(bounded)

    def test_a_missing_column(self, make: Callable[..., Source], engine: DuckDB) -> None:
        for key, frequency in (("missing", None), ("k", "missing"), ("K", None)):
            with pytest.raises(InvalidValue, match=f"the column '{frequency or key}' must be in"):
                engine.check(make({"k": ["a"], "n": [1]}, key, frequency=frequency))


class TestObjects:
    def test_mappings_and_iterables(self, engine: DuckDB) -> None:
        assert counted(engine.aggregated(Source(ORACLE))) == ORACLE
        assert counted(engine.aggregated(Source(dict(ORACLE), "word"))) == ORACLE
        assert counted(engine.aggregated(Source(ELEMENTS))) == ORACLE
        assert counted(engine.aggregated(Source(iter(ELEMENTS)))) == ORACLE
        assert counted(engine.aggregated(Source({"a": 0, "b": MAX}))) == {"b": MAX}
        pairs = Counter(pairwise(ELEMENTS))
        assert counted(engine.aggregated(Source(pairs, ["first", "second"]))) == pairs

    def test_a_generator_can_be_passed_over_twice(self, engine: DuckDB) -> None:
        source = Source(iter(ELEMENTS), "k")
        assert sum(batch.num_rows for batch in engine.elements(source)) == len(ELEMENTS)
        assert counted(engine.count(source, pa.table({"k": ["é"]}))) == {"é": ORACLE["é"]}
        assert counted(engine.aggregated(source)) == ORACLE

    def test_a_generator_that_fails_is_not_taken_for_a_short_one(self, engine: DuckDB) -> None:
        def broken() -> Iterator[str]:
            yield from ["a"] * 200_000
            raise ZeroDivisionError

        source = Source(broken())
        with pytest.raises(ZeroDivisionError):
            list(engine.aggregated(source))
        with pytest.raises(InvalidValue, match="can be read only once"):
            list(engine.aggregated(source))

    def test_many_elements(self, engine: DuckDB) -> None:
        keys = [i * i % 1009 for i in range(300_000)]
        assert counted(engine.aggregated(Source(keys, key_type="int64"))) == Counter(keys)

    @pytest.mark.parametrize(
        ("array", "expected"),
        [
            (pa.array([1, 1, 2], pa.int8()), pa.int8()),
            (pa.array([1, 1, 2], pa.uint64()), pa.uint64()),
            (pa.array([b"x", b"x", b"\xff"], pa.binary()), pa.binary()),
            (pa.array(["x", "x", "y"], pa.large_string()), pa.string()),
            (pa.array(["x", "x", "y"], pa.string_view()), pa.string()),
            (pa.array([True, True, False]), pa.bool_()),
            (pa.array([1, 1, 2], pa.date32()), pa.date32()),
            (pa.array([1, 1, 2], pa.timestamp("us")), pa.timestamp("us")),
            (pa.array([1, 1, 2], pa.timestamp("us", "UTC")), pa.timestamp("us", "UTC")),
            (pa.array([Decimal("1.10"), Decimal("1.10"), Decimal("2.00")]), pa.decimal128(3, 2)),
        ],
    )
    def test_types_of_keys_are_kept(self, array: pa.Array, expected: pa.DataType, engine: DuckDB) -> None:
        source = Source(pa.table({"k": array}), "k")
        assert engine.check(source) == pa.schema([("k", expected)])
        first, _, other = array.to_pylist()
        assert counted(engine.aggregated(source)) == {first: 2, other: 1}
        wanted = pa.table({"k": pa.array([first], expected)})
        assert counted(engine.count(source, wanted)) == {first: 2}

    @pytest.mark.parametrize(
        "array",
        [
            pa.array([1, 2, 3, 0], pa.int8()),
            pa.array([1, 2, 3, 0], pa.uint64()),
            pa.array([1.0, 2.0, 3.0, 0.0], pa.float32()),
            pa.array([1.0, 2.0, 3.0, -0.0], pa.float64()),
            pa.array([Decimal("1.00"), Decimal("2.00"), Decimal("3.00"), Decimal("0.00")]),
        ],
    )
    def test_types_of_frequencies(self, array: pa.Array, engine: DuckDB) -> None:
        source = Source(pa.table({"k": ["a", "b", "a", "c"], "n": array}), "k", "n")
        assert counted(engine.aggregated(source)) == {"a": 4, "b": 2}

    def test_large_frequencies_are_exact(self, engine: DuckDB) -> None:
        table = pa.table({"k": ["a", "b", "b", "c"], "n": pa.array([MAX, MAX - 1, 1, 2**53 + 1], pa.int64())})
        assert counted(engine.aggregated(Source(table, "k", "n"))) == {"a": MAX, "b": MAX, "c": 2**53 + 1}
        floats = pa.table({"k": ["a", "a"], "n": [2.0**53, 1.0]})
        assert counted(engine.aggregated(Source(floats, "k", "n"))) == {"a": 2**53 + 1}

    def test_an_empty_source_gives_nothing(self, engine: DuckDB, tmp_path: Path) -> None:
        empty = pa.table({"k": pa.array([], pa.string()), "n": pa.array([], pa.int64())})
        pq.write_table(empty, tmp_path / "a.parquet")
        (tmp_path / "a.csv").write_text("k,n\n")
        (tmp_path / "b.csv").write_text("k,n")
        (tmp_path / "a.jsonl").write_text("")
        for data in (tmp_path / "a.parquet", tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "a.jsonl", empty):
            for frequency in (None, "n"):
                source = Source(data, "k", frequency)
                assert engine.check(source) == pa.schema([("k", pa.string())])
                assert list(engine.aggregated(source)) == []
        assert list(engine.aggregated(Source([]))) == []
        assert list(engine.aggregated(Source({}))) == []


class TestTextFiles:
    def test_csv_as_other_programs_write_it(self, engine: DuckDB, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        path.write_bytes('\ufeffn, k\r\n5,a b\r\n3,""\r\n\r\n2,"a b"\r\n'.encode())
        assert counted(engine.aggregated(Source(path, "k", "n"))) == {"a b": 7, "": 3}
        pyarrow.csv.write_csv(pa.table({"k": ELEMENTS}), path)
        assert counted(engine.aggregated(Source(path, "k"))) == ORACLE

    def test_json_values_are_text(self, engine: DuckDB, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        path.write_text('{"k": 7}\n{"k": "7"}\n{"k": "007"}\n{"x": 1, "k": true}\n{"k": "{}"}\n{"k": 1.5}\n')
        assert counted(engine.aggregated(Source(path, "k"))) == {"7": 2, "007": 1, "true": 1, "{}": 1, "1.5": 1}
        path.write_text('{"k": "a", "n": 5}\n{"k": "a", "n": "6"}\n')
        assert counted(engine.aggregated(Source(path, "k", "n"))) == {"a": 11}

    def test_quoted_lines_over_which_many_threads_stumble(self, engine: DuckDB, tmp_path: Path) -> None:
        # wherever a thread begins, the text inside quotes looks like rows; DuckDB's parallel reader loses a quarter
        rows = ['a\n"b",1\nc', "x,y\n1,2", '"\n"', ","] * 200_000
        path = write_csv({"k": rows, "n": [1] * len(rows)}, tmp_path / "a.csv")
        assert counted(engine.aggregated(Source(path, "k"))) == Counter(rows)
        assert counted(engine.aggregated(Source(path, "k", "n"))) == Counter(rows)

    def test_many_lines(self, engine: DuckDB, tmp_path: Path) -> None:
        rows = [f'a\n"b" {i % 1001}' for i in range(300_000)]
        for path in (
            write_json({"other": rows, "k": rows}, tmp_path / "a.jsonl"),
            write_csv({"other": rows, "k": rows}, tmp_path / "a.csv"),
        ):
            assert path.stat().st_size > 8 * 2**20
            assert counted(engine.aggregated(Source(path, "k"))) == Counter(rows)

    @settings(max_examples=40)
    @given(keys=st.lists(st.text(st.characters(codec="utf-8"), max_size=6), min_size=1, max_size=12))
    def test_any_text(self, keys: list[str], engine: DuckDB, tmp_path_factory: pytest.TempPathFactory) -> None:
        folder = tmp_path_factory.mktemp("any")
        sources: list[Any] = [
            write_csv({"k": keys}, folder / "a.csv"),
            write_csv({"o": keys, "k": keys}, folder / "b.tsv", "\t"),
            write_json({"k": keys}, folder / "a.jsonl"),
            write_parquet({"k": keys}, folder / "a.parquet"),
            pa.table({"k": keys}),
            iter(keys),
        ]
        for data in sources:
            assert counted(engine.aggregated(Source(data, "k"))) == Counter(keys)

    @settings(max_examples=40)
    @given(rows=st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.integers(0, 2**40)), max_size=20))
    def test_any_numbers(self, rows: list[tuple[int, bool, int]], engine: DuckDB) -> None:
        expected: Counter[tuple[int, bool]] = Counter()
        for i, flag, n in rows:
            expected[i, flag] += n
        schema = pa.schema([("i", pa.int64()), ("flag", pa.bool_()), ("n", pa.int64())])
        table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
        found = counted(engine.aggregated(Source(table, ["i", "flag"], "n")))
        assert found == {key: n for key, n in expected.items() if n > 0}
