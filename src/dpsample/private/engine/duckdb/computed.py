"""Computed keys and filters in DuckDB: a FROM item whose columns are computed from those of another one.

A source that is opened has the columns c0, c1, ... that it reads. Here expressions are put in the place of the columns
that they name: the result has c0, c1, ... for the fields of a row, and one more for the filter.
"""

from collections.abc import Callable

import duckdb

from dpsample.answers.expressions import one_line, quoted
from dpsample.errors import InvalidValue
from dpsample.private.engine.duckdb.statements import Statements
from dpsample.private.sources.computed import PASSED, Computed
from dpsample.private.sources.formats import Form, Objects
from dpsample.private.sources.source import Source
from dpsample.sql import quoted_name


def computation(
    source: Source, origin: str, objects: Objects | None, form: Form, engine: Statements
) -> Callable[[str], str]:
    """Return what makes the FROM item with computed columns from one that has the columns of a source.

    Expressions that do not fit the types of the columns are refused.
    """
    if not source.computes:
        return lambda origin: origin
    named = _named(source, form)
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


def _expressions(source: Source) -> dict[str, Computed]:
    """Return all expressions of a source, by the argument that has them."""
    expressions = {f"`key` {name}": key for name, key in source.computed.items()}
    if source.condition is not None:
        expressions["`filter`"] = source.condition
    return expressions


def _named(source: Source, form: Form) -> str:
    """Return SQL of the columns that expressions name; values of JSON are their text."""
    used = {name for expression in _expressions(source).values() for name in expression.columns}
    columns = []
    for i, name in enumerate(source.columns):
        if name in used:
            value = f"(c{i} ->> '$')" if form == "json" else f"c{i}"
            columns.append(f"{value} AS {quoted_name(name)}")
    return ", ".join(columns)


def _check_types(source: Source, rows: str, objects: Objects | None, engine: Statements) -> None:
    """Refuse expressions that DuckDB does not understand, and a filter that is no condition.

    They are tried on a table of the same types without rows, so that a message of DuckDB quotes the expression alone.
    """
    empty = engine.schema(f"SELECT * FROM {rows}", objects).empty_table()
    for argument, expression in _expressions(source).items():
        tried = f"(SELECT {expression.sql} FROM no_rows)"
        try:
            [(_, kind)] = engine.describe(tried, {"no_rows": lambda: empty})
        except duckdb.Error as error:
            raise InvalidValue(
                f"{argument} is not an SQL expression that DuckDB understands: {one_line(str(error))}",
                "check the expression and the types of its columns",
            ) from None
        if expression is source.condition and str(kind) != "BOOLEAN":
            raise InvalidValue(
                f"`filter` must be true or false for each row, but {quoted(expression.text)} is of type {kind}",
                "compare it, as in `filter=\"country = 'DE'\"`",
            )
