"""Rows as text: aligned, and unable to command a terminal or a page."""

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from dpsample.files.tables import is_text

_ROWS = 10
_WIDTH = 40  # characters of a value
_LONGEST = 200  # characters of a key in a page

Formats = Mapping[
    str, Callable[[Any], str]
]  # column -> how its values are written; by default, as Python does


def table_lines(
    table: pa.Table, formats: Formats | None = None, limit: int | None = _ROWS
) -> list[str]:
    """Return the first rows of a table as aligned text below the names of its columns, and the number of further rows.

    >>> table_lines(pa.table({"query": ["cat", "a\\x1b[31m"], "n": [31.5, 2.0]}), {"n": "{:.0f}".format})
    ['query       n', "'cat'       32", "'a\\\\x1b[31m'  2"]
    """
    columns = [
        _aligned(column) for column in zip(*_first_rows(table, formats or {}, limit), strict=True)
    ]
    lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    return [*lines, *_rest(table, limit)]


def _aligned(texts: Sequence[str]) -> list[str]:
    width = max(map(len, texts))
    return [text.ljust(width) for text in texts]


def html_table(table: pa.Table, formats: Formats | None = None, caption: str = "") -> str:
    """Return the same as HTML for a notebook: texts without quotes, numbers aligned to the right.

    >>> html_table(pa.table({"query": ["cat"]}))
    '<table><thead><tr><th scope="col" style="text-align:left">query</th></tr></thead><tbody><tr><td style=...
    """
    first = table.slice(0, _ROWS)
    written = formats or {}
    columns = [_html_column(name, first[name], written.get(name)) for name in table.column_names]
    cells = zip(*columns, strict=True)
    head, *rows = ("".join(row) for row in cells)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    rest = [f"<p>{html.escape(line)}</p>" for line in _rest(table, _ROWS)]
    shown = f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return shown + "".join(rest)


def _html_column(
    name: str, column: pa.ChunkedArray, written: Callable[[Any], str] | None
) -> list[str]:
    """Return the cells of a column, with its name first."""
    if written is None:
        values = readable(column)
    else:
        values = list(map(written, column.to_pylist()))
    is_number = written is not None or pa.types.is_integer(column.type)
    side = "right" if is_number else "left"
    style = f'style="text-align:{side}"'
    title = html.escape(printable(name))
    cells = [f"<td {style}>{html.escape(value)}</td>" for value in values]
    return [f'<th scope="col" {style}>{title}</th>', *cells]


def printable(text: str, longest: int = _LONGEST) -> str:
    """Escape invisible characters as Python does: controls, marks of direction, odd spaces. Cut long texts.

    >>> print(printable("a\\u202eb\\x00 c:\\\\d "), printable("x" * 10, 4))
    a\\u202eb\\x00 c:\\\\d\\x20 xxxx… (10 characters)
    """
    if len(text) > longest:
        return f"{printable(text[:longest])}… ({len(text):,} characters)"
    if text.isprintable() and "\\" not in text and text == text.strip():
        return text or "''"
    body = text.rstrip(" ")
    escaped = "".join(c if c.isprintable() and c != "\\" else repr(c)[1:-1] for c in body)
    escaped += "\\x20" * (len(text) - len(body))
    return "\\x20" + escaped[1:] if escaped.startswith(" ") else escaped


def readable(column: pa.ChunkedArray) -> list[str]:
    """Return the values of a column as texts for a page: without quotes, escaped and cut by `printable`."""
    if is_text(column.type):
        return [printable(value) for value in column.to_pylist()]
    return [value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…" for value in _texts(column)]


def _first_rows(table: pa.Table, formats: Formats, limit: int | None) -> Iterator[list[str]]:
    """Yield the names, then the rows; texts are as Python writes them."""
    yield [_short(repr(name))[1:-1] for name in table.column_names]
    first = table.slice(0, limit)
    columns = [
        [formats[name](value) for value in column.to_pylist()]
        if name in formats
        else _texts(column)
        for name, column in zip(table.column_names, first.columns, strict=True)
    ]
    yield from ([_short(value) for value in row] for row in zip(*columns, strict=True))


def _rest(table: pa.Table, limit: int | None) -> list[str]:
    more = 0 if limit is None else table.num_rows - limit
    return [f"... and {more:,} more"] if more > 0 else []


def _texts(column: pa.ChunkedArray) -> list[str]:
    if pa.types.is_temporal(column.type) or pa.types.is_decimal(
        column.type
    ):  # some are beyond the range of Python's types
        try:
            return list(map(str, column.cast(pa.string()).to_pylist()))
        except pa.ArrowInvalid:  # for example, a time zone that is unknown here
            column = column.cast(pa.int64())
    return [repr(value) for value in column.to_pylist()]


def _short(value: str) -> str:
    return value if len(value) <= _WIDTH else f"{value[: _WIDTH - 4]}...{value[-1]}"
