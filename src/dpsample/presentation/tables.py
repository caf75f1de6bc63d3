"""Rows as text: aligned, and unable to command a terminal or a page."""

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from dpsample.files.tables import is_text

_ROWS = 10
_WIDTH = 40  # characters of a value in a terminal: four columns of them fit on a wide screen
_LONGEST = 200  # characters of a key in a page: one that is longer is cut

Write = Callable[[Any], str]
Formats = Mapping[str, Write]  # column -> how its values are written; by default, as Python does


def table_lines(
    table: pa.Table, formats: Formats | None = None, limit: int | None = _ROWS
) -> list[str]:
    """Return the first rows of a table as aligned text below the names of its columns, and the number of further rows.

    >>> table_lines(pa.table({"query": ["cat", "a\\x1b[31m"], "n": [31.5, 2.0]}), {"n": "{:.0f}".format})
    ['query       n', "'cat'       32", "'a\\\\x1b[31m'  2"]
    """
    first = table.slice(0, limit)
    columns = []
    for name in table.column_names:
        write = (formats or {}).get(name)
        columns.append(_aligned_column(name, first[name], write))
    lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    return [*lines, *_rest(table, limit)]


def _aligned_column(name: str, column: pa.ChunkedArray, write: Write | None) -> list[str]:
    """Return the name and the values of a column, cut and of equal width; texts are as Python writes them."""
    if write is None:
        texts = _texts(column)
    else:
        texts = [write(value) for value in column.to_pylist()]
    head = _cut(repr(name))[1:-1]
    cells = [head, *map(_cut, texts)]
    width = max(map(len, cells))
    return [cell.ljust(width) for cell in cells]


def html_table(table: pa.Table, formats: Formats | None = None, caption: str = "") -> str:
    """Return the same as HTML for a notebook: texts without quotes, numbers aligned to the right.

    >>> html_table(pa.table({"query": ["cat"]}))
    '<table><thead><tr><th scope="col" style="text-align:left">query</th></tr></thead><tbody><tr><td style=...
    """
    first = table.slice(0, _ROWS)
    columns = []
    for name in table.column_names:
        write = (formats or {}).get(name)
        columns.append(_html_column(name, first[name], write))
    head, *rows = ("".join(row) for row in zip(*columns, strict=True))
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    shown = f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    rest = [f"<p>{html.escape(line)}</p>" for line in _rest(table, _ROWS)]
    return shown + "".join(rest)


def _html_column(name: str, column: pa.ChunkedArray, write: Write | None) -> list[str]:
    """Return the cells of a column, with its name first."""
    if write is None:
        values = readable(column)
    else:
        values = [write(value) for value in column.to_pylist()]
    is_number = write is not None or pa.types.is_integer(column.type)
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
        kept = printable(text[:longest])
        return f"{kept}… ({len(text):,} characters)"
    if not text:
        return "''"
    if text.isprintable() and "\\" not in text and text == text.strip():
        return text
    body = text.rstrip(" ")
    trailing_spaces = len(text) - len(body)
    escaped = "".join(map(_escaped, body)) + "\\x20" * trailing_spaces
    if escaped.startswith(" "):
        return "\\x20" + escaped[1:]
    return escaped


def _escaped(character: str) -> str:
    """Escape a character that is invisible, and the backslash, which begins an escape."""
    if character.isprintable() and character != "\\":
        return character
    return repr(character)[1:-1]


def readable(column: pa.ChunkedArray) -> list[str]:
    """Return the values of a column as texts for a page: without quotes, escaped and cut by `printable`."""
    if is_text(column.type):
        return [printable(value) for value in column.to_pylist()]
    return [_cut_for_page(text) for text in _texts(column)]


def _cut_for_page(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def key_texts(keys: pa.Table) -> list[str]:
    """Return each key as one text for a page, its columns joined by commas."""
    columns = [readable(column) for column in keys.columns]
    return [", ".join(texts) for texts in zip(*columns, strict=True)]


def _rest(table: pa.Table, limit: int | None) -> Iterator[str]:
    """Yield a line with the number of rows beyond the limit, if there are any."""
    if limit is not None and table.num_rows > limit:
        yield f"... and {table.num_rows - limit:,} more"


def _texts(column: pa.ChunkedArray) -> Sequence[str]:
    """Return the values of a column as Python writes them, without invisible characters."""
    # some times and decimals are beyond the range of Python's types: so Arrow writes them
    if pa.types.is_temporal(column.type) or pa.types.is_decimal(column.type):
        try:
            return list(map(str, column.cast(pa.string()).to_pylist()))
        except pa.ArrowInvalid:  # for example, a time zone that is unknown here
            column = column.cast(pa.int64())
    return [repr(value) for value in column.to_pylist()]


def _cut(value: str) -> str:
    """Cut a value that is too wide, and keep its last character: a quotation mark."""
    if len(value) <= _WIDTH:
        return value
    kept = value[: _WIDTH - 4]
    return f"{kept}...{value[-1]}"
