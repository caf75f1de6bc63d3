"""Columns in SQL: key types, users in canonical form, the faults of frequencies, and amounts in whole units."""

from typing import Any

import pyarrow as pa

from dpsample.accounting.amounts import Amount
from dpsample.accounting.parts import Part
from dpsample.exact import MAX_FREQUENCY
from dpsample.private.engine.columns import part_family
from dpsample.private.engine.errors import amount_refusal, frequency_refusal, type_refusal
from dpsample.private.sources.scans import Form
from dpsample.sql import quoted_text

_PLAIN = {"boolean", "decimal", "varchar", "blob", "date", "timestamp", "timestamp with time zone"}
_PLAIN |= {"timestamp_s", "timestamp_ms", "timestamp_ns"}
_INTEGERS = {
    "tinyint",
    "smallint",
    "integer",
    "bigint",
    "utinyint",
    "usmallint",
    "uinteger",
    "ubigint",
}
_PART_TYPES = {  # the types that the column of a part can have
    **dict.fromkeys(_INTEGERS, pa.int64()),
    "ubigint": pa.uint64(),
    "varchar": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
}


def frequency_faults(column: str, family: str) -> list[tuple[str, str]]:
    """Conditions under which a frequency is refused, in SQL that all databases here understand; the first one counts.

    NaN is above every number for DuckDB and PostgreSQL, and SQLite has none.
    """
    number = f"TRY_CAST({column} AS BIGINT)"
    missing = (f"{column} IS NULL", "missing")
    negative = (f"{column} < 0", "negative")
    large = (f"NOT {column} <= {MAX_FREQUENCY}", "large")
    inexact = f"NOT {column} <= {2**53}"
    fractional = (f"{column} <> CAST({column} AS BIGINT)", "fractional")
    if family == "text":
        not_plain = f"CAST({number} AS VARCHAR) IS DISTINCT FROM {column}"
        return [missing, (f"{number} < 0", "negative"), (not_plain, "text")]
    if family == "stored":
        no_number = f"typeof({column}) NOT IN ('integer', 'real')"
        inexact_real = f"typeof({column}) = 'real' AND {inexact}"
        return [missing, (no_number, "text"), negative, (inexact_real, "large"), fractional]
    return {
        "integer": [missing, negative, large],
        "decimal": [missing, negative, large, fractional],
        "float": [missing, negative, (inexact, "large"), fractional],
    }[family]


def key_sql(name: str, column: str, kind: Any, form: Form, role: str = "key") -> str:
    """SQL of a key column, or of the user's, from its DuckDB type."""
    if role == "user" and is_json(kind, form):
        text = f"{column} ->> '$'"  # a number that is written as 1.0 or 1e0 is 1
        number = f"CASE {text} WHEN '-0.0' THEN '0' ELSE regexp_replace({text}, '\\.0$', '') END"
        return f"(CASE json_type({column}) WHEN 'DOUBLE' THEN {number} ELSE {text} END)"
    if form == "json":
        return f"({column} ->> '$')"
    family = str(kind.id)
    if family in ("enum", "uuid", "null") or str(kind) in ("JSON", '"NULL"'):
        return f"CAST({column} AS VARCHAR)"
    if family in _PLAIN | _INTEGERS:
        return column
    what = "floats" if family in ("float", "double") else ""
    what = (
        "nested values"
        if family in ("list", "array", "struct", "map", "union", "variant")
        else what
    )
    raise type_refusal(name, f"type {family}", what, role)


def part_sql(part: Part, column: str, kind: Any, form: Form) -> str:
    """SQL of the condition that a row is in a part, from the DuckDB type of the part's column."""
    family = str(kind.id)
    if form == "json" or family in ("enum", "uuid", "null") or str(kind) in ("JSON", '"NULL"'):
        column = f"({column} ->> '$')" if form == "json" else f"CAST({column} AS VARCHAR)"
        return f"{column} = {quoted_text(part.value)}"
    if family not in _PART_TYPES:
        raise type_refusal(part.name, f"type {family}", "", "part")
    quoted = quoted_text(part.value)
    written = {"text": quoted, "date": f"DATE {quoted}"}
    own = part_family(part, _PART_TYPES[family])
    return f"{column} = {written.get(own, part.value)}"


def is_json(kind: Any, form: Form) -> bool:
    """Whether a column holds JSON values."""
    return form == "json" or str(kind) == "JSON"


def json_faults(column: str, place: int, role: str = "key") -> list[tuple[str, str]]:
    """Conditions under which a JSON value is refused: as a user also a number that a float does not hold exactly."""
    user = "_user" if role == "user" else ""
    faults = [(f"json_type({column}) IN ('OBJECT', 'ARRAY')", f"nested{user}:{place}")]
    if user:
        number = f"json_type({column}) = 'DOUBLE' AND NOT regexp_full_match({column} ->> '$', '-?[0-9]+')"
        exact = (
            f"({column} ->> '$') LIKE '%.0' AND abs(TRY_CAST({column} ->> '$' AS DOUBLE)) < {2**53}"
        )
        faults.append((f"{number} AND NOT ({exact})", f"inexact{user}:{place}"))
    return faults


def number_family(name: str, kind: str) -> str:
    """Return which faults the numbers of a type can have."""
    if kind in _INTEGERS:
        return "integer"
    if kind in ("float", "double"):
        return "float"
    if kind == "decimal":
        return "decimal"
    raise frequency_refusal(name, f"type {kind}")


def amount_sql(amount: Amount, column: str, kind: Any, form: Form) -> str:
    """SQL of a row's amount in whole units, so that sums do not depend on the order of rows.

    NULL, NaN, infinite values and text that is no number count 0: an error would tell of them.
    """
    family = str(kind.id)
    if form == "typed" and family not in _INTEGERS | {
        "hugeint",
        "uhugeint",
        "float",
        "double",
        "decimal",
        "boolean",
    }:
        raise amount_refusal(str(amount.column), f"type {family}")
    value = f"{column} ->> '$'" if form == "json" else column
    number = f"TRY_CAST({value} AS DOUBLE)"
    most = amount.most_of_row
    units = f"least(greatest(floor({number} * '{amount.scale!r}'::DOUBLE + 0.5), -{most}), {most})::BIGINT"
    return f"CASE WHEN isfinite({number}) THEN {units} ELSE 0 END"


def numbered(table: pa.Table) -> pa.Table:
    """Call the columns c0, c1, ..."""
    return table.rename_columns([f"c{i}" for i in range(table.num_columns)])
