"""Computed keys and filters: expressions of the columns of one row, in the place of columns.

A key is ``lower(query) AS query``, a filter ``country = 'DE'``. Both pass the check that questions pass
(`answers.expressions`): one scalar expression of listed functions; no aggregate, window, subquery or file, and nothing
that draws or looks at a clock. So a row's key follows from this row alone.

**No error depends on a row.** DuckDB computes an expression inside of TRY: where it fails, as a cast of 'x' to a
number, it is NULL. A NULL key is refused or dropped as that of a column is (`drop_null`), and a NULL filter is not
true. Types follow from the expression and the types of columns, never from values.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dpsample.answers.expressions import Bytes, Given, check_memory, quoted
from dpsample.answers.selection import syntax
from dpsample.errors import InvalidValue

# what follows an expression: its name, bare or in double quotes
_NAMED = re.compile(
    r'(?P<text>.*\S)\s+AS\s+(?:(?P<bare>\w+)|"(?P<quoted>[^"]+)")\s*', re.IGNORECASE | re.DOTALL
)
# begins the names by which DuckDB passes on the other columns, so that no expression can name them
PASSED = "dpsample:"
# How long the texts of a column are taken to be, and how many rows are computed at once: with these, an expression may
# hold 128 times the bytes of a column. The actual lengths are private, so that nothing follows from them.
_TEXT = 1000
_ROWS = 2048


@dataclass(frozen=True)
class Computed:
    """An expression of the columns of one row, in the place of a column.

    name     what a key is called in samples and releases; a filter has none
    text     the expression, as it was written
    sql      the same in SQL that fails for no row: it is NULL there
    columns  the columns that it names
    """

    name: str
    text: str
    sql: str
    columns: tuple[str, ...]


def is_computed(written: str) -> bool:
    """Whether an entry of a key is an expression, which has a name: else it is the name of a column."""
    return _NAMED.fullmatch(written) is not None


def computed_key(written: str) -> Computed | None:
    """Return the expression of a key, or None if it is the name of a column, which has no AS.

    >>> key = computed_key("lower(query) AS q")
    >>> key.name, key.text, key.columns
    ('q', 'lower(query)', ('query',))
    >>> computed_key("query")
    """
    found = _NAMED.fullmatch(written)
    if found is None:
        return None
    return _checked("`key`", found["bare"] or found["quoted"], found["text"].strip())


def computed_keys(columns: Iterable[str]) -> dict[str, Computed]:
    """Return the expressions among the entries of a key, by these."""
    keys = {column: computed_key(column) for column in columns}
    return {column: key for column, key in keys.items() if key is not None}


def computed_filter(text: object) -> Computed:
    """Return the expression of a filter.

    >>> computed_filter("country = 'DE' AND NOT internal").columns
    ('country', 'internal')
    >>> computed_filter("count(*) > 1")
    Traceback (most recent call last):
      ...
    dpsample.errors.InvalidValue: filter can use plain functions of one row's values, not 'count_star' in \
'count(*) > 1'; see the list of functions in dpsample.answers.expressions
    """
    if not isinstance(text, str):
        raise InvalidValue(
            f"`filter` must be an SQL expression, not of type {type(text).__name__}",
            "write one such as `filter=\"country = 'DE'\"`",
        )
    return _checked("`filter`", "", text)


def _checked(argument: str, name: str, text: str) -> Computed:
    """Check an expression on columns that are not known yet."""
    checked = Given(argument, text, None).checked(syntax)
    check_memory(argument, text, checked, lambda _: Bytes(_TEXT, _TEXT * _ROWS), _ROWS)
    columns = tuple(sorted(checked.columns))
    if not columns:
        raise InvalidValue(
            f"{argument} must name a column, and {quoted(text)} names none", "compare a column"
        )
    _check_names(argument, columns)
    return Computed(name, text, f"TRY({checked.sql})", columns)


def _check_names(argument: str, columns: tuple[str, ...]) -> None:
    lower = [column.lower() for column in columns]
    if len(set(lower)) < len(lower):
        raise InvalidValue(
            f"{argument} names two columns that differ in upper and lower case alone",
            "rename one of them in the data",
        )
    if any(column.startswith(PASSED) for column in lower):
        raise InvalidValue(
            f"{argument} names a column that begins with {PASSED}", "rename it in the data"
        )
