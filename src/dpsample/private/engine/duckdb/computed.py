"""Computed keys and filters in DuckDB: a FROM item whose columns are computed from those of another one.

A source that is opened has the columns c0, c1, ... that it reads. Here expressions are put in the place of the columns
that they name: the result has c0, c1, ... for the fields of a row, and one more for the filter.
"""

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from dpsample.answers.expressions import one_line, quoted
from dpsample.errors import InvalidValue
from dpsample.files import is_text
from dpsample.private.engine.duckdb.statements import Statements
from dpsample.private.sources.computed import PASSED, Computed
from dpsample.private.sources.scans import Objects
from dpsample.private.sources.source import Source
from dpsample.sql import quoted_name

_MADE_UP = 24  # rows: each value of a type at least once, beside several of another type
# values at which functions fail, by the type of the column; of other types there are NULLs alone
_AWKWARD: list[tuple[Callable[[pa.DataType], bool], list[Any]]] = [
    (is_text, ["", "ab", "7", "-1", "(", "%", "\\", "2026-02-30", "nan", "é", "1e400", "%q"]),
    (pa.types.is_integer, [0, 1, 7, 100]),
    (pa.types.is_signed_integer, [-1, -100]),
    (pa.types.is_floating, [0.0, -1.5, 1e300, math.inf, math.nan]),
    (pa.types.is_decimal, [Decimal(0), Decimal(1), Decimal(-1)]),
    (pa.types.is_boolean, [True, False]),
    (pa.types.is_date, [date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31)]),
    (pa.types.is_timestamp, [datetime(1900, 1, 1), datetime(2024, 2, 29, 23, 59, 59)]),
    (pa.types.is_binary, [b"", b"\xff", b"abc"]),
]


def computation(
    source: Source, origin: str, objects: Objects, engine: Statements
) -> Callable[[str], str]:
    """Return what makes the FROM item with computed columns from one that has the columns of a source.

    Expressions that do not fit the types of the columns are refused.
    """
    if not source.computes:
        return lambda origin: origin
    named = _named(source, engine.describe(origin, objects))
    _check_types(source, f"(SELECT {named} FROM {origin})", objects, engine)
    passed = {name: quoted_name(f"{PASSED}{i}") for i, name in enumerate(source.columns)}
    values = []
    for name in source.fields:
        values.append(source.computed[name].sql if name in source.computed else passed[name])
    if source.condition is not None:
        values.append(source.condition.sql)
    columns = ", ".join(f"{value} AS c{i}" for i, value in enumerate(values))
    every = ", ".join(f"c{i} AS {name}" for i, name in enumerate(passed.values()))
    return lambda origin: f"(SELECT {columns} FROM (SELECT {every}, {named} FROM {origin}))"


def made_up_rows(schema: pa.Schema) -> pa.Table:
    """Return rows of these types at whose values functions are known to fail, and a row of NULLs.

    Values of each next column are shifted by one, so that unlike ones meet.
    """
    columns = []
    for place, field in enumerate(schema):
        values = _awkward_values(field.type)
        shifted = [values[(place + row) % len(values)] for row in range(_MADE_UP)]
        column = pa.array([*shifted, None]).cast(field.type, safe=False)
        columns.append(column)
    return pa.table(columns, schema=schema)


def _awkward_values(kind: pa.DataType) -> list[Any]:
    """Return values of a type at which functions fail; NULL alone if none are known."""
    values: list[Any] = []
    for is_kind, values_of_kind in _AWKWARD:
        if is_kind(kind):
            values += values_of_kind
    return values or [None]


def _expressions(source: Source) -> dict[str, Computed]:
    """Return all expressions of a source, by the argument that has them."""
    expressions = {f"`key` {name}": key for name, key in source.computed.items()}
    if source.condition is not None:
        expressions["`filter`"] = source.condition
    return expressions


def _named(source: Source, described: Sequence[tuple[str, Any]]) -> str:
    """Return SQL of the columns that expressions name; values of JSON are their text."""
    used = {name for expression in _expressions(source).values() for name in expression.columns}
    columns = []
    for i, name in enumerate(source.columns):
        if name in used:
            _, kind = described[i]
            value = f"TRY(c{i} ->> '$')" if str(kind) == "JSON" else f"c{i}"
            columns.append(f"{value} AS {quoted_name(name)}")
    return ", ".join(columns)


def _check_types(source: Source, rows: str, objects: Objects, engine: Statements) -> None:
    """Refuse expressions that DuckDB does not understand, and a filter that is no condition.

    They are tried on made-up rows of the same types, so that a message of DuckDB quotes nothing else. TRY does not
    catch a few errors, such as of LIKE with an ESCAPE of two characters. So an expression that fails for a made-up row
    is refused: it could fail for a private one.
    """
    made_up = made_up_rows(engine.schema(f"SELECT * FROM {rows}", objects))
    for argument, expression in _expressions(source).items():
        tried = f"(SELECT {expression.sql} AS value FROM made_up)"
        failed = ""
        try:
            [(_, kind)] = engine.describe(tried, {"made_up": lambda: made_up})
            engine.run(f"SELECT count(value) FROM {tried}", {"made_up": lambda: made_up})
        except duckdb.Error as error:
            failed = one_line(str(error))
        if failed:
            raise InvalidValue(
                f"{argument} is not an SQL expression that DuckDB understands: {failed}",
                "check the expression and the types of its columns",
            )
        if expression is source.condition and str(kind) != "BOOLEAN":
            raise InvalidValue(
                f"`filter` must be true or false for each row, but {quoted(expression.text)} is of type {kind}",
                "compare it, as in `filter=\"country = 'DE'\"`",
            )
