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

# DuckDB's names of types, in lower case. Columns of plain types and of integers can be keys as they are.
_TIMES = {"date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"}
_PLAIN = {"boolean", "decimal", "varchar", "blob", "timestamp with time zone"} | _TIMES
_SIGNED = {"tinyint", "smallint", "integer", "bigint"}
_INTEGERS = {*_SIGNED, "utinyint", "usmallint", "uinteger", "ubigint"}
_FLOATS = {"float", "double"}
_NESTED = {"list", "array", "struct", "map", "union", "variant"}
# Types without an order or a text of their own in a release: keys of these are text.
_AS_TEXT = {"enum", "uuid", "null"}
# The types of columns that can be summed.
_SUMMED = {*_INTEGERS, *_FLOATS, "hugeint", "uhugeint", "decimal", "boolean"}
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
    fractional = (f"{column} <> CAST({column} AS BIGINT)", "fractional")
    is_inexact = f"NOT {column} <= {2**53}"  # above it, floats leave integers out
    if family == "text":
        not_plain = f"CAST({number} AS VARCHAR) IS DISTINCT FROM {column}"
        return [missing, (f"{number} < 0", "negative"), (not_plain, "text")]
    if family == "stored":
        no_number = (f"typeof({column}) NOT IN ('integer', 'real')", "text")
        large_real = (f"typeof({column}) = 'real' AND {is_inexact}", "large")
        return [missing, no_number, negative, large_real, fractional]
    if family == "integer":
        return [missing, negative, large]
    if family == "decimal":
        return [missing, negative, large, fractional]
    if family == "float":
        return [missing, negative, (is_inexact, "large"), fractional]
    raise KeyError(family)


def key_sql(name: str, column: str, kind: Any, form: Form, role: str = "key") -> str:
    """SQL of a key column, or of the user's, from its DuckDB type."""
    if role == "user" and is_json(kind, form):
        return _json_user_sql(column)
    if form == "json":
        return f"({column} ->> '$')"
    if _is_text(kind):
        return f"CAST({column} AS VARCHAR)"
    family = str(kind.id)
    if family in _PLAIN | _INTEGERS:
        return column
    what = "floats" if family in _FLOATS else ""
    if family in _NESTED:
        what = "nested values"
    raise type_refusal(name, f"type {family}", what, role)


def _json_user_sql(column: str) -> str:
    """SQL of a user that is a JSON value, as text: a number that is written as 1.0 or 1e0 is 1."""
    text = f"{column} ->> '$'"
    number = f"CASE {text} WHEN '-0.0' THEN '0' ELSE regexp_replace({text}, '\\.0$', '') END"
    return f"(CASE json_type({column}) WHEN 'DOUBLE' THEN {number} ELSE {text} END)"


def part_sql(part: Part, column: str, kind: Any, form: Form) -> str:
    """SQL of the condition that a row is in a part, from the DuckDB type of the part's column."""
    quoted = quoted_text(part.value)
    if form == "json":
        return f"({column} ->> '$') = {quoted}"
    if _is_text(kind):
        return f"CAST({column} AS VARCHAR) = {quoted}"
    name = str(kind.id)
    if name not in _PART_TYPES:
        raise type_refusal(part.name, f"type {name}", "", "part")
    family = part_family(part, _PART_TYPES[name])
    if family == "text":
        return f"{column} = {quoted}"
    if family == "date":
        return f"{column} = DATE {quoted}"
    return f"{column} = {part.value}"


def _is_text(kind: Any) -> bool:
    """Whether the values of a type are compared as text."""
    return str(kind.id) in _AS_TEXT or str(kind) in ("JSON", '"NULL"')


def is_json(kind: Any, form: Form) -> bool:
    """Whether a column holds JSON values."""
    return form == "json" or str(kind) == "JSON"


def json_faults(column: str, place: int, role: str = "key") -> list[tuple[str, str]]:
    """Conditions under which a JSON value is refused: as a user also a number that a float does not hold exactly."""
    is_nested = f"json_type({column}) IN ('OBJECT', 'ARRAY')"
    if role != "user":
        return [(is_nested, f"nested:{place}")]
    text = f"{column} ->> '$'"
    is_float = f"json_type({column}) = 'DOUBLE' AND NOT regexp_full_match({text}, '-?[0-9]+')"
    is_exact = f"({text}) LIKE '%.0' AND abs(TRY_CAST({text} AS DOUBLE)) < {2**53}"
    is_inexact = f"{is_float} AND NOT ({is_exact})"
    return [(is_nested, f"nested_user:{place}"), (is_inexact, f"inexact_user:{place}")]


def number_family(name: str, kind: str) -> str:
    """Return which faults the numbers of a type can have."""
    if kind in _INTEGERS:
        return "integer"
    if kind in _FLOATS:
        return "float"
    if kind == "decimal":
        return "decimal"
    raise frequency_refusal(name, f"type {kind}")


def amount_sql(amount: Amount, column: str, kind: Any, form: Form) -> str:
    """SQL of a row's amount in whole units, so that sums do not depend on the order of rows.

    NULL, NaN, infinite values and text that is no number count 0: an error would tell of them.
    """
    family = str(kind.id)
    if form == "typed" and family not in _SUMMED:
        raise amount_refusal(str(amount.column), f"type {family}")
    value = f"{column} ->> '$'" if form == "json" else column
    number = f"TRY_CAST({value} AS DOUBLE)"
    most = amount.most_of_row
    rounded = f"floor({number} * '{amount.scale!r}'::DOUBLE + 0.5)"
    units = f"least(greatest({rounded}, -{most}), {most})::BIGINT"
    return f"CASE WHEN isfinite({number}) THEN {units} ELSE 0 END"


def numbered(table: pa.Table) -> pa.Table:
    """Call the columns c0, c1, ..."""
    return table.rename_columns([f"c{i}" for i in range(table.num_columns)])
