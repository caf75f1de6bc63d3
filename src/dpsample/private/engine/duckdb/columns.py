"""Columns in SQL: names, key types, and the faults of frequencies."""

import glob
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.private.engine.errors import type_refusal
from dpsample.scheme.sampling import MAX_FREQUENCY

_PLAIN = {"boolean", "decimal", "varchar", "blob", "date", "time", "time_ns", "timestamp", "timestamp with time zone"}
_PLAIN |= {"timestamp_s", "timestamp_ms", "timestamp_ns"}
_INTEGERS = {"tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger", "ubigint"}


def faults_of(column: str, family: str) -> list[tuple[str, str]]:
    """Conditions under which a frequency is refused, in SQL that all databases here understand; the first one counts.

    NaN is above every number for DuckDB and PostgreSQL, and SQLite has none.
    """
    number = f"TRY_CAST({column} AS BIGINT)"
    missing, negative = (f"{column} IS NULL", "missing"), (f"{column} < 0", "negative")
    fractional = (f"{column} <> CAST({column} AS BIGINT)", "fractional")
    above = (f"NOT {column} <= {MAX_FREQUENCY}", "large")
    above_exact = f"NOT {column} <= {2**53}"
    return {
        "text": [
            missing,
            (f"{number} < 0", "negative"),
            (f"CAST({number} AS VARCHAR) IS DISTINCT FROM {column}", "text"),
        ],
        "integer": [missing, negative, above],
        "decimal": [missing, negative, above, fractional],
        "float": [missing, negative, (above_exact, "large"), fractional],
        "stored": [
            missing,
            (f"typeof({column}) NOT IN ('integer', 'real')", "text"),
            negative,
            (f"typeof({column}) = 'real' AND {above_exact}", "large"),
            fractional,
        ],
    }[family]


def key_sql(name: str, column: str, kind: Any, form: str, role: str = "key") -> str:
    """SQL of a key column, or of the user's."""
    if form == "json":
        return f"({column} ->> '$')"
    found = str(kind.id)
    if found in ("enum", "uuid", "null") or str(kind) in ("JSON", '"NULL"'):
        return f"CAST({column} AS VARCHAR)"
    if found in _PLAIN | _INTEGERS:
        return column
    what = "floats" if found in ("float", "double") else ""
    what = "nested values" if found in ("list", "array", "struct", "map", "union", "variant") else what
    raise type_refusal(name, f"type {found}", what, role)


def family(name: str, kind: str) -> str:
    """Return which faults the numbers of a type can have."""
    if kind in _INTEGERS:
        return "integer"
    if kind in ("float", "double"):
        return "float"
    if kind == "decimal":
        return "decimal"
    raise InvalidValue(f"the frequency column {name!r} must be of numbers", f"type {kind}", "name another, or cast it")


def quoted_text(text: str) -> str:
    """Return a text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def quoted_paths(paths: Iterable[str]) -> str:
    """Return paths as SQL has them, to be taken literally."""
    return f"[{', '.join(quoted_text(glob.escape(path)) for path in paths)}]"


def numbered(table: pa.Table) -> pa.Table:
    """Call the columns c0, c1, ..."""
    return table.rename_columns([f"c{i}" for i in range(table.num_columns)])


def shaped_as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Give a batch the names and types of a schema."""
    columns = [c if c.type == f.type else c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
