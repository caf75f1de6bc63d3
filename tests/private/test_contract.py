"""What every engine does: one suite over all of them, and the same release from the same coins."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsample import InvalidValue, Source
from dpsample.private.engine import Engine
from dpsample.private.engine.duckdb import DuckDB
from typed_keys import KEYS, MAX, TYPES

CANARY = "SECRET-canary"
WEIRD = 'x\'; DROP TABLE "t"; -- é %s\\ `a.b` {k}'  # a column name that breaks what does not quote
ELEMENTS = [key for i, key in enumerate(KEYS) for _ in range(i + 1)]
ORACLE = Counter(ELEMENTS)

Make = Callable[..., Source]


def _spark(*values: str) -> Any:
    return pytest.param(*values, marks=pytest.mark.xdist_group("spark"))


@pytest.fixture(params=["duckdb", _spark("spark")])
def engine(request: pytest.FixtureRequest) -> Iterable[Engine]:
    if request.param == "duckdb":
        with DuckDB() as made:
            yield made
    else:
        from dpsample.private.engine.spark import Spark

        with Spark(request.getfixturevalue("spark")) as started:
            yield started


@pytest.fixture(params=["files", "object"])
def make(request: pytest.FixtureRequest, engine: Engine, tmp_path: Path) -> Make:
    """Make a source of a table: files, or what the engine reads from memory."""
    numbers = count()

    def source(table: pa.Table, key: Any, frequency: str | None = None, **options: Any) -> Source:
        path = tmp_path / f"{next(numbers)} [x]*.parquet"
        pq.write_table(table, path)
        if request.param == "files":
            return Source(path, key, frequency, **options)
        if isinstance(engine, DuckDB):
            return Source(table, key, frequency, **options)
        escaped = str(path).replace("[", "\\[").replace("]", "\\]").replace("*", "\\*")
        frame = request.getfixturevalue("spark").read.parquet(f"file:{escaped}")
        return Source(frame, key, frequency, **options)

    return source


# to Spark all is a DataFrame once it is found (TestSources): the rest need not be tested for each way to find one
READ = pytest.mark.parametrize(
    ("engine", "make"), [("duckdb", "files"), ("duckdb", "object"), _spark("spark", "files")], indirect=True
)


def counted(batches: Iterable[pa.RecordBatch]) -> dict[Any, int]:
    """The keys and frequencies of batches; each key must come once."""
    result: dict[Any, int] = {}
    for batch in batches:
        assert batch.schema.names[-1] == "frequency"
        assert batch.schema.field("frequency").type == pa.int64()
        assert batch.num_rows > 0
        for *key, frequency in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            known = key[0] if len(key) == 1 else tuple(key)
            assert known not in result
            result[known] = frequency
    return result


def refuses(work: Callable[[], Any], rule: str, found: str) -> None:
    """Work is refused, and no value of the data is anywhere near the error."""
    with pytest.raises(InvalidValue) as info:
        work()
    assert str(info.value).startswith(rule)
    assert found in str(info.value)
    error: BaseException | None = info.value
    while error is not None:
        assert CANARY not in repr(error) + "".join(traceback.format_exception(error))
        error = error.__cause__ or error.__context__


class TestSources:
    def test_raw_elements(self, engine: Engine, make: Make) -> None:
        assert isinstance(engine, Engine)
        source = make(pa.table({"other": [5] * len(ELEMENTS), WEIRD: ELEMENTS}), WEIRD)
        assert engine.check(source) == pa.schema([(WEIRD, pa.string())])
        batches = list(engine.aggregated(source))
        assert batches[0].schema.names == [WEIRD, "frequency"]
        assert counted(batches) == ORACLE

    def test_aggregated_rows(self, engine: Engine, make: Make) -> None:
        rows = [(key, i) for key in KEYS for i in range(3)] + [("none", 0)]
        table = pa.table({"n": [i for _, i in rows], WEIRD: [key for key, _ in rows]})
        assert counted(engine.aggregated(make(table, WEIRD, "n"))) == dict.fromkeys(KEYS, 3)

    @READ
    def test_composite_keys(self, engine: Engine, make: Make) -> None:
        pairs = [(key, i % 2) for i, key in enumerate(ELEMENTS)]
        table = pa.table({"b": [i for _, i in pairs], "a": [key for key, _ in pairs]})
        assert counted(engine.aggregated(make(table, ["a", "b"]))) == Counter(pairs)

    @READ
    @pytest.mark.chance("certain: each user has one key, and keeps it")
    def test_keys_by_another_name(self, engine: Engine, make: Make) -> None:
        source = make(pa.table({"token": ["a", "b", "a"], "u": [1, 2, 3]}), "token", key_as="u", user="u")
        assert engine.check(source) == pa.schema([("u", pa.string())])
        assert counted(engine.aggregated(source)) == {"a": 2, "b": 1}
        assert counted(engine.count(source, pa.table({"u": ["a", "c"]}))) == {"a": 2}
        bounded = engine.bounded(source, 1, engine.new_coins())
        assert counted(engine.aggregated(bounded)) == {"a": 2, "b": 1}
        engine.forget(bounded)
        empty = make(pa.table({"token": ["a", None]}), "token", key_as="word")
        refuses(lambda: list(engine.aggregated(empty)), "the key column 'token' must have no NULL", "NULL")

    @READ
    def test_keys_of_many_columns(self, engine: Engine, make: Make) -> None:
        # what the engine plans must not grow as 2**columns
        columns = {f"k{i}": [1, 2, 2, None] for i in range(20)}
        source = make(pa.table({**columns, "n": [1, 2, 3, -1]}), list(columns), "n", drop_null=True)
        assert counted(engine.aggregated(source)) == {(1,) * 20: 1, (2,) * 20: 5}

    def test_two_passes(self, engine: Engine, make: Make) -> None:
        source = make(pa.table({"k": ELEMENTS}), "k")
        batches = list(engine.elements(source))
        assert {tuple(batch.schema.names) for batch in batches} == {("k",)}
        assert Counter(key for batch in batches for key in batch["k"].to_pylist()) == ORACLE
        wanted = pa.table({"k": [*KEYS[2:9], "not there"]})
        assert counted(engine.count(source, wanted)) == {key: ORACLE[key] for key in KEYS[2:9]}

    @READ
    def test_known_keys(self, engine: Engine, make: Make) -> None:
        source = make(pa.table({WEIRD: ELEMENTS, "n": [2] * len(ELEMENTS)}), [WEIRD], "n")
        listed = [*KEYS[:5], CANARY, "nobody has it"]
        known = pa.table({WEIRD: listed})
        expected = {key: (2 * ORACLE[key], key in listed) for key in {*KEYS, *listed}}
        for only in (False, True):
            found = pa.Table.from_batches(engine.aggregated(source, known, only))
            assert found.schema.names == [WEIRD, "frequency", "known"]
            rows = {key: (n, is_known) for key, n, is_known in zip(*found.to_pydict().values(), strict=True)}
            assert len(rows) == found.num_rows
            assert rows == {key: row for key, row in expected.items() if key in listed or not only}
        for outside in (False, True):
            rows_of = engine.restricted(source, known, outside)
            assert counted(engine.aggregated(rows_of)) == {
                key: 2 * n for key, n in ORACLE.items() if (key in listed) != outside
            }
            nulls = engine.restricted(make(pa.table({"k": ["a", None]}), "k"), pa.table({"k": ["a"]}), outside)
            with pytest.raises(InvalidValue, match="NULL"):
                list(engine.aggregated(nulls))

    def test_no_rows(self, engine: Engine, make: Make) -> None:
        empty = pa.table({"k": pa.array([], pa.string()), "n": pa.array([], pa.int64())})
        for frequency in (None, "n"):
            source = make(empty, "k", frequency)
            assert engine.check(source) == pa.schema([("k", pa.string())])
            assert list(engine.aggregated(source)) == []

    def test_a_missing_column(self, engine: Engine, make: Make) -> None:
        for key, frequency in (("missing", None), ("k", "missing"), ("K", None)):
            with pytest.raises(InvalidValue, match=f"the column '{frequency or key}' must be in"):
                engine.check(make(pa.table({"k": ["a"], "n": [1]}), key, frequency))

    @READ
    def test_elements_of_aggregated_rows(self, engine: Engine, make: Make) -> None:
        source = make(pa.table({"k": ["a"], "n": [1]}), "k", "n")
        refuses(lambda: engine.elements(source), "a source with frequencies has no rows of single elements", "read it")

    @READ
    def test_a_closed_engine(self, engine: Engine, make: Make) -> None:
        source = make(pa.table({"k": ["a"]}), "k")
        engine.close()
        engine.close()
        refuses(lambda: engine.check(source), "the engine is closed", "with")


@READ
class TestTypes:
    def test_of_keys_are_kept(self, engine: Engine, make: Make) -> None:
        table = pa.table(TYPES)
        source = make(table, list(TYPES))
        assert engine.check(source) == pa.schema([(name, array.type) for name, array in TYPES.items()])
        [first, _, other] = zip(*(array.to_pylist() for array in TYPES.values()), strict=True)
        assert counted(engine.aggregated(source)) == {first: 2, other: 1}
        assert counted(engine.count(source, table.slice(1, 1))) == {first: 2}

    @pytest.mark.parametrize(
        "array",
        [
            pa.array([1, 2, 3, 0], pa.int8()),
            pa.array([1.0, 2.0, 3.0, 0.0], pa.float32()),
            pa.array([1.0, 2.0, 3.0, -0.0], pa.float64()),
            pa.array([Decimal("1.00"), Decimal("2.00"), Decimal("3.00"), Decimal("0.00")]),
        ],
        ids=lambda array: str(array.type),
    )
    def test_of_frequencies(self, array: pa.Array, engine: Engine, make: Make) -> None:
        source = make(pa.table({"k": ["a", "b", "a", "c"], "n": array}), "k", "n")
        assert counted(engine.aggregated(source)) == {"a": 4, "b": 2}

    def test_large_frequencies_are_exact(self, engine: Engine, make: Make) -> None:
        table = pa.table({"k": ["a", "b", "b", "c"], "n": pa.array([MAX, MAX - 1, 1, 2**53 + 1], pa.int64())})
        assert counted(engine.aggregated(make(table, "k", "n"))) == {"a": MAX, "b": MAX, "c": 2**53 + 1}

    @pytest.mark.parametrize(
        ("values", "found"),
        [
            ([1.5], "floats are not compared exactly"),
            ([["a"]], "several columns instead"),
            ([{"a": 1}], "several columns"),
        ],
        ids=["float", "list", "struct"],
    )
    def test_refused_keys(self, values: Any, found: str, engine: Engine, make: Make) -> None:
        source = make(pa.table({"k": values}), "k")
        refuses(lambda: engine.check(source), "the key column 'k' must be of integers", found)

    def test_refused_frequencies(self, engine: Engine, make: Make) -> None:
        for values in (["5"], [True], [b"5"], [[5]]):
            source = make(pa.table({"k": ["a"], "n": values}), "k", "n")
            refuses(lambda source=source: engine.check(source), "the frequency column 'n' must be of numbers", "")  # type: ignore[misc]


@READ
class TestRefusals:
    def test_null_keys(self, engine: Engine, make: Make) -> None:
        table = pa.table({"k": [CANARY, None, "b", "b"], "l": [1, 2, None, 4]})
        rule, found = "the key column 'k' must have no NULL", "at least one row has one"
        refuses(lambda: list(engine.aggregated(make(table, "k"))), rule, found)
        refuses(lambda: list(engine.elements(make(table, "k"))), rule, found)
        refuses(lambda: list(engine.aggregated(make(table, ["l", "k"]))), "the key column", found)
        dropped = make(table, "k", drop_null=True)
        assert counted(engine.aggregated(dropped)) == {CANARY: 1, "b": 2}
        assert sum(batch.num_rows for batch in engine.elements(dropped)) == 3
        assert counted(engine.count(make(table, "k"), pa.table({"k": ["b"]}))) == {"b": 2}
        assert counted(engine.aggregated(make(table, ["k", "l"], drop_null=True))) == {(CANARY, 1): 1, ("b", 4): 1}

    def test_a_dropped_row_may_have_any_frequency(self, engine: Engine, make: Make) -> None:
        table = pa.table({"k": ["a", None], "n": [1, -1]})
        assert counted(engine.aggregated(make(table, "k", "n", drop_null=True))) == {"a": 1}

    @pytest.mark.parametrize(
        ("values", "kind", "found"),
        [
            ([1, -1], pa.int64(), "negative"),
            ([1, None], pa.int64(), "row without a frequency"),
            ([1, MAX, 1], pa.int64(), "key whose frequencies sum to more"),
            ([1.0, 1.5], pa.float64(), "frequency with a fraction"),
            ([1.0, float("nan")], pa.float64(), "that is too large, infinite or NaN"),
            ([1.0, float("-inf")], pa.float32(), "negative"),
            ([1.0, 2.0**53 + 2], pa.float64(), "that is too large, infinite or NaN"),
            ([Decimal("1.0"), Decimal("1.5")], None, "frequency with a fraction"),
            ([Decimal(10**37)], pa.decimal128(38, 0), "that is too large"),
        ],
        ids=lambda value: str(value).replace("/", ""),
    )
    def test_frequencies(self, values: Any, kind: Any, found: str, engine: Engine, make: Make) -> None:
        table = pa.table({"k": [CANARY] * len(values), "n": pa.array(values, kind)})
        rule = "frequencies must be whole numbers from 0 to 2**63 - 1"
        refuses(lambda: next(iter(engine.aggregated(make(table, "k", "n")))), rule, f"at least one {found}")


@READ
@pytest.mark.chance("certain: numbers of kept keys do not depend on which")
class TestUsers:
    def kept(self, engine: Engine, source: Source, limit: int) -> dict[Any, int]:
        bounded = engine.bounded(source, limit, engine.new_coins())
        found = counted(engine.aggregated(bounded))
        assert engine.total(bounded) == sum(found.values())
        assert Counter(key for batch in engine.elements(bounded) for key in batch["k"].to_pylist()) == found
        assert counted(engine.count(bounded, pa.table({"k": KEYS}))) == found
        engine.forget(bounded)
        return found

    def test_each_keeps_so_many_keys_and_counts_once(self, engine: Engine, make: Make) -> None:
        rows = [(user, key) for user in ("ann", "Ann", "", "b\0") for key in KEYS[:3] for _ in range(3)]
        rows += 2 * [("everybody", key) for key in KEYS]
        table = pa.table({"k": [key for _, key in rows], WEIRD: [user for user, _ in rows], "x": [1] * len(rows)})
        source = make(table, "k", user=WEIRD)
        assert engine.check(source) == pa.schema([("k", pa.string())])
        found = self.kept(engine, source, 3)
        assert sum(found.values()) == 4 * 3 + 3
        beyond = len(KEYS) - 2
        assert [engine.dropped(source, 2, most) for most in (1, 100)] == [5, 4 + beyond]
        assert all(found.pop(key) in (4, 5) for key in KEYS[:3])
        assert set(found.values()) <= {1}
        assert self.kept(engine, source, 16) == {key: 5 if key in KEYS[:3] else 1 for key in KEYS}

    def test_users_of_other_types(self, engine: Engine, make: Make) -> None:
        for name in ("i8", "bytes", "moment", "large"):
            table = pa.table({"k": ["a", "a", "b"], "u": TYPES[name]})
            bounded = engine.bounded(make(table, "k", user="u"), 1, engine.new_coins())
            assert counted(engine.aggregated(bounded)) == {"a": 1, "b": 1}, name

    def test_nobody(self, engine: Engine, make: Make) -> None:
        table = pa.table({"k": ["a", CANARY, "a"], "u": ["x", None, "y"]})
        rule, found = "the user column 'u' must have no NULL", "at least one row has one"
        refuses(lambda: self.kept(engine, make(table, "k", user="u"), 2), rule, found)
        assert self.kept(engine, make(table, "k", user="u", drop_null=True), 2) == {"a": 2}
        assert self.kept(engine, make(table.slice(0, 0), "k", user="u"), 2) == {}
        refuses(lambda: engine.dropped(make(table, "k", user="u"), 2, 9), rule, found)
        assert engine.dropped(make(table.slice(0, 0), "k", user="u"), 2, 9) == 0

    def test_what_a_user_cannot_be(self, engine: Engine, make: Make) -> None:
        table = pa.table({"k": ["a"], "u": [0.5]})
        rule = "the user column 'u' must be of integers"
        refuses(lambda: self.kept(engine, make(table, "k", user="u"), 2), rule, "floats")
        rule = "the source has no user column"
        refuses(lambda: self.kept(engine, make(table, "k"), 2), rule, "no user column")


class TestSort:
    def test_order_of_bytes(self, engine: Engine) -> None:
        schema = pa.schema([("k", pa.string()), ("token", pa.float64())])
        batches = [pa.record_batch({"k": [key], "token": [1.5]}).cast(schema) for key in KEYS]
        result = pa.Table.from_batches(engine.sort(iter(batches), schema, ["k"]))
        assert result["k"].to_pylist() == sorted(KEYS, key=str.encode)
        assert list(engine.sort([], schema, ["k"])) == []

    def test_several_columns(self, engine: Engine) -> None:
        rows = [(a, b) for a in (3, 1, 2) for b in (b"\xff", b"", b"a")]
        batch = pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*rows, strict=True)], ["A", "b c"])
        [result] = engine.sort([batch], batch.schema, ["b c", "A"])
        found = list(zip(*(column.to_pylist() for column in result.columns), strict=True))
        assert found == sorted(rows, key=lambda row: (row[1], row[0]))
