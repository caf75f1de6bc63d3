"""Keys that are expressions, and filters: what is read, what is refused, and that no row makes them fail."""

import datetime
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsample import Source
from dpsample.answers import expressions
from dpsample.errors import InvalidValue
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.engine.spark import frames
from dpsample.private.sources.computed import computed_filter
from support import refused

MORNING, NIGHT = datetime.datetime(2026, 1, 1, 5), datetime.datetime(2026, 1, 2, 23)
ROWS: list[dict[str, Any]] = [
    {"query": "Cat", "country": "DE", "user": "a", "n": "5", "at": MORNING},
    {"query": "cat", "country": "DE", "user": "b", "n": "x", "at": NIGHT},
    {"query": "DOG", "country": "FR", "user": "a", "n": "7", "at": MORNING},
    {"query": "cAT", "country": None, "user": "c", "n": "7", "at": MORNING},
    {"query": "dog", "country": "DE", "user": "c", "n": None, "at": NIGHT},
]
TABLE = pa.Table.from_pylist(ROWS)


def counted(source: Source) -> dict[Any, int]:
    with DuckDB(threads=1) as engine:
        table = pa.Table.from_batches(engine.aggregated(source), engine.check(source).append(FREQUENCY))
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return {row[0] if len(row) == 2 else row[:-1]: row[-1] for row in rows}


FREQUENCY = pa.field("frequency", pa.int64())


def written(kind: str, folder: Path) -> Any:
    """The rows in some kind of source; text files have times as text."""
    if kind == "parquet":
        pq.write_table(TABLE, folder / "rows.parquet")
        return folder / "rows.parquet"
    if kind == "csv":
        texts = [[str(value) if value is not None else "" for value in row.values()] for row in ROWS]
        lines = [",".join(ROWS[0]), *map(",".join, texts)]
        (folder / "rows.csv").write_text("\n".join(lines) + "\n")
        return folder / "rows.csv"
    if kind == "json":
        (folder / "rows.jsonl").write_text("".join(json.dumps(row, default=str) + "\n" for row in ROWS))
        return folder / "rows.jsonl"
    if kind == "reader":
        return TABLE.to_reader()
    if kind == "relation":
        return duckdb.from_arrow(TABLE)
    return TABLE.to_pandas() if kind == "pandas" else TABLE


@pytest.mark.parametrize("kind", ["table", "parquet", "csv", "json", "reader", "relation", "pandas"])
def test_keys_are_computed_and_rows_filtered_in_every_kind_of_source(kind: str, tmp_path: Path) -> None:
    source = Source(written(kind, tmp_path), "lower(query) AS query", filter="country = 'DE'")
    assert counted(source) == {"cat": 2, "dog": 1}


def test_a_key_of_columns_and_expressions_has_types_by_expressions_alone() -> None:
    source = Source(
        TABLE, ["country", "date_trunc('day', \"at\") AS day", "length(query)::INTEGER AS n"], drop_null=True
    )
    with DuckDB() as engine:
        assert engine.check(source).types == [pa.string(), pa.timestamp("us"), pa.int32()]
        empty = Source(TABLE.slice(0, 0), source.key_columns)
        assert engine.check(empty).types == engine.check(source).types
    first, second = datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 2)
    assert counted(source) == {("DE", first, 3): 1, ("DE", second, 3): 2, ("FR", first, 3): 1}


def test_where_an_expression_fails_a_key_is_null() -> None:
    number = "CAST(n AS INTEGER) AS n"
    assert counted(Source(TABLE, number, drop_null=True)) == {5: 1, 7: 2}
    with refused("the key column 'CAST(n AS INTEGER) AS n' must have no NULL"):
        counted(Source(TABLE, number))


def test_where_a_filter_fails_or_is_null_a_row_is_not_read() -> None:
    assert counted(Source(TABLE, "query", filter="CAST(n AS INTEGER) > 5")) == {"DOG": 1, "cAT": 1}
    assert counted(Source(TABLE, "query", filter="country <> 'DE'")) == {"DOG": 1}


def test_rows_outside_of_the_filter_are_not_even_looked_at() -> None:
    """Their keys may be NULL, and their frequencies none."""
    table = pa.table({"k": ["a", None, "b"], "f": [2.0, 1.5, 3.0], "keep": [True, False, True]})
    assert counted(Source(table, "k", frequency="f", filter="keep")) == {"a": 2, "b": 3}
    assert counted(Source(table, "upper(k) AS k", frequency="f", filter="keep")) == {"A": 2, "B": 3}


def test_users_keep_their_own_column() -> None:
    source = Source(TABLE, "lower(query) AS query", user="user", filter="n IS NOT NULL")
    with DuckDB() as engine:
        table = engine.tables.open(source)
        pairs = engine.run(f"SELECT * FROM ({table.pairs}) ORDER BY ALL", table.objects)
    assert pairs == [("a", "cat"), ("a", "dog"), ("b", "cat"), ("c", "cat")]


def test_an_expression_has_a_name_and_a_column_needs_none() -> None:
    source = Source(TABLE, ["lower(query) AS q", 'upper(country) AS "The country"'], key_as=["query", "land"])
    assert source.key == ("query", "land")
    assert source.columns == ("query", "country")
    assert source.reading is not None
    assert source.reading.keys == {"query": "lower(query)", "land": "upper(country)"}
    assert Source(TABLE, "query").reading is None
    assert repr(Source(TABLE, "lower(query) AS q", filter="n = '5'")) == (
        "Source(<Table>, key='lower(query) AS q', filter=\"n = '5'\")"
    )
    with refused("is written like an expression with a name"):
        Source(TABLE, 'query AS "a AS b"')
    with refused("an expression needs a name"):
        counted(Source(TABLE, "lower(query)"))
    with refused("the key has the column 'query' twice"):
        Source(TABLE, ["query", "lower(query) AS query"])


@pytest.mark.parametrize(
    "text",
    [
        "count(*)",
        "sum(n)",
        "row_number() OVER ()",
        "(SELECT 1)",
        "query IN (SELECT 'a')",
        "read_text('/etc/hostname')",
        "getenv('HOME')",
        "random()",
        "gen_random_uuid()",
        "nextval('s')",
        "now()",
        "5 > 3",
        "today()",
        "get_current_timestamp()",
        "version()",
        "error('x')",
        "repeat(query, 1000000)",
        "lpad(query, 1000000, 'x')",
        "hex(hex(hex(hex(hex(hex(hex(hex(query))))))))",
        "t.query",
        "*",
        "COLUMNS(*)",
        "query, country",
        "query) FROM x; --",
        "[x FOR x IN [1]]",
        "unnest([1, 2])",
        "?",
        "",
        "query\0",
    ],
)
def test_what_is_no_expression_of_one_row_is_refused_before_anything_is_read(text: str) -> None:
    with pytest.raises(InvalidValue):
        computed_filter(text)
    if text:
        with pytest.raises(InvalidValue):
            Source(TABLE, f"{text} AS k")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"key": "lower(missing) AS k"}, "the column 'missing' must be in <Table> once"),
        ({"key": "current_date AS k"}, "the column 'current_date' must be in <Table> once"),
        ({"key": "query", "filter": "missing"}, "the column 'missing' must be in <Table> once"),
        ({"key": "query", "filter": "query"}, "filter must be true or false for each row"),
        ({"key": "query", "filter": 7}, "filter must be an SQL expression, not of type int"),
        ({"key": "sqrt(length(query)) AS k"}, "not type double: floats are not compared exactly"),
        ({"key": "date_trunc('day', query) AS k"}, "is not an SQL expression that DuckDB understands"),
        ({"key": "query", "filter": "Query = query"}, "two columns that differ in upper and lower case alone"),
        ({"key": "query", "filter": "at > 1"}, 'write a column that is a word of SQL as "at"'),
    ],
)
def test_what_does_not_fit_the_columns_is_refused(arguments: dict[str, Any], words: str) -> None:
    with refused(words):
        counted(Source(TABLE, **arguments))


@pytest.mark.parametrize(
    ("data", "remedy"),
    [({"a": 1}, "compute its keys in Python"), (["a", "b"], "compute its keys in Python")],
)
def test_python_objects_have_no_columns(data: Any, remedy: str) -> None:
    with refused(remedy):
        Source(data, filter="key = 'a'")


def test_spark_is_handed_computed_columns() -> None:
    """A DataFrame of Spark is known by its class; none is made here."""
    frame = type("DataFrame", (), {"__module__": "pyspark.sql", "mapInArrow": None})()
    given: list[dict[str, Any]] = [{"key": "lower(query) AS q"}, {"key": "query", "filter": "n = 1"}]
    for arguments in given:
        with refused("is computed by DuckDB, not by Spark; compute it in the DataFrame"):
            Source(frame, **arguments)
        with refused("is computed by DuckDB, not by Spark"):
            frames.frame(Source("events.parquet", **arguments), session=None)  # nothing is read


def test_a_database_has_sql_of_its_own() -> None:
    with refused("write it in SQL"):
        Source("sqlite:///x.db", "lower(query) AS q", table="t")


# ---- no error depends on a row

VALUES: dict[str, list[Any]] = {
    "text": ["", "x", "7", "-1", "(", "[a", "\\", "2026-02-30", "ß" * 40, "%q", "é", "day", "UTC", "1e400"],
    "integer": [0, 1, -1, 7, 2**31, 2**62, -(2**63), 2**63 - 1],
    "float": [0.0, -1.5, 1e308, float("inf"), float("nan")],
    "date": [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(2024, 2, 29)],
    "time": [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59)],
    "decimal": [Decimal("0.00"), Decimal("-9999999999999999.99")],
    "bytes": [b"", b"\xff\x00", b"abc"],
    "flag": [True, False],
}
CONSTANTS = ["'day'", "2", "'a'", "-1", "INTERVAL 3 day", "'%'"]


def test_no_function_of_the_list_fails_on_a_row() -> None:
    """Calls of all functions with arguments of all types, of values at which such functions fail.

    A call is refused by the types of its arguments, or on made-up rows, or it fails for no row. Without TRY many of
    those that pass do fail: so the values are bad enough. Calls are drawn with a fixed seed.
    """
    rng = random.Random(7)
    rows = pa.table({f"{kind}_{n}": [rng.choice(v) for _ in range(40)] for kind, v in VALUES.items() for n in (1, 2)})
    failing = set[str]()
    with DuckDB(threads=1) as engine:
        for name in sorted(expressions._ALLOWED):
            for _ in range(3):
                arguments = [rng.choice([*rows.column_names, *CONSTANTS]) for _ in range(rng.choice([1, 2, 2, 3]))]
                call = f"{name}({', '.join(arguments)})"
                if not name.isidentifier():
                    call = (
                        f"({name} {arguments[0]})" if len(arguments) == 1 else f"({arguments[0]} {name} {arguments[1]})"
                    )
                try:
                    source = Source(rows, f"({call}) IS NULL AS k", drop_null=True)
                    engine.check(source)
                except InvalidValue:
                    continue
                list(engine.aggregated(source))
                failing |= {name} if fails(call, rows) else set()
    assert len(failing) >= 4, sorted(failing)


def fails(call: str, rows: pa.Table) -> bool:
    """Whether a call fails for one of these rows by itself."""
    assert rows.num_rows
    try:
        duckdb.connect().execute(f"SELECT ({call}) IS NULL FROM rows").fetchall()
    except duckdb.Error:
        return True
    return False


@pytest.mark.parametrize(
    "text", ["query LIKE country ESCAPE n", "week(n::INTEGER * INTERVAL 1 day) = 2", "regexp_matches(query, '(')"]
)
def test_what_would_fail_nevertheless_is_refused_by_made_up_rows(text: str) -> None:
    """DuckDB catches a few errors of rows in no way: whether there is such a row is not to be seen."""
    for table in (TABLE, TABLE.slice(0, 0)):
        with refused("is not an SQL expression that DuckDB understands"), DuckDB() as engine:
            engine.check(Source(table, "query", filter=text))
    assert counted(Source(TABLE, "query", filter="query LIKE 'c_t' ESCAPE '!'")) == {"cat": 1}


@pytest.mark.parametrize("kind", ["INTEGER", "DATE", "DECIMAL(4, 2)", "BOOLEAN", "UUID", "TIMESTAMP", "BLOB", "DOUBLE"])
def test_no_cast_fails_on_a_row(kind: str) -> None:
    table = pa.table({"k": VALUES["text"]})
    source = Source(table, "k", filter=f"CAST(k AS {kind}) IS NOT NULL", drop_null=True)
    assert set(counted(source)) <= set(VALUES["text"])


def test_no_operator_fails_on_a_row() -> None:
    table = pa.table({"k": VALUES["integer"]})
    for operator in ("+", "-", "*", "//", "%", "<<", ">>", "**", "/"):
        source = Source(table, "k", filter=f"(k {operator} k) IS NOT NULL")
        assert set(counted(source)) <= set(VALUES["integer"])
