"""CSV and TSV files, whose columns are text."""

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from dpsample.errors import InvalidValue
from dpsample.private.sources.dialect import SEPARATORS, Dialect, decoded, is_recoded
from dpsample.private.sources.folders import DataFile, FolderColumns
from dpsample.private.sources.scans import (
    Scan,
    Statements,
    file_chunks,
    opener,
    require_utf8,
    text_size,
)
from dpsample.sql import quoted_paths, quoted_text

if TYPE_CHECKING:
    from dpsample.private.sources.source import Source

# Bytes of DuckDB's buffer: as fast as its own 32 MB, of which two do not fit into a small memory limit.
_BUFFER = 4 << 20
# The longest line in bytes: what DuckDB takes where the buffer is not set.
_LINE = 2_000_000
# Characters of the first row that are read at a time.
_HEADER_PIECE = 1 << 20


def scan_delimited(
    source: "Source", files: list[DataFile], statements: Statements, usual_delimiter: str
) -> Scan:
    """Return how DuckDB reads files of CSV or TSV, after a look at the first line of each."""
    dialect = Dialect.of(source.options, usual_delimiter)
    folders = FolderColumns.of(source, files)
    read = [_utf8_file(file, dialect.encoding, statements) for file in files]
    by_header = dict[tuple[str, ...], list[DataFile]]()
    checks: list[Callable[[], None]] = []
    for file in read:
        names = _column_names(file, dialect, source, folders)
        by_header.setdefault(tuple(names), []).append(file)
        checks.append(partial(_require_even_quotes, file))
    scans = list[str]()
    for header, alike in by_header.items():
        own = {name: f"h{header.index(name)}" for name in source.columns if name in header}
        scans.append(folders.selected(source, _rows(header, alike, dialect, folders), own))
    origin = f"({' UNION ALL '.join(scans)})"
    return Scan(
        origin,
        "text",
        objects=folders.objects(read),
        checks=checks,
        size=text_size(read),
        typed=folders.names,
    )


def _rows(
    header: tuple[str, ...], files: list[DataFile], dialect: Dialect, folders: FolderColumns
) -> str:
    """Return SQL of the rows of files that have the same header: h0, h1, ..., as text."""
    types = [f"h{place}: 'VARCHAR'" for place in range(len(header))]
    columns = f"columns = {{{', '.join(types)}}}"
    paths = quoted_paths(file.path for file in files)
    options = _reader_options(dialect) + folders.file_option
    return f"read_csv({paths}, {columns}, {options})"


def _reader_options(dialect: Dialect) -> str:
    """Return SQL of the options of DuckDB's reader."""
    nulls = [quoted_text(text) for text in ("", *dialect.nulls)]
    options = {
        "auto_detect": "false",
        "strict_mode": "true",
        # many threads lose or repeat rows, silently, where quoted fields have quotes and line ends
        "parallel": "false",
        "header": str(dialect.header).lower(),
        "delim": quoted_text(dialect.delimiter),
        "quote": "'\"'",
        "escape": "'\"'",
        "nullstr": f"[{', '.join(nulls)}]",
        "allow_quoted_nulls": "false",
        "buffer_size": _BUFFER,
        "max_line_size": _LINE,
    }
    return ", ".join(f"{name} = {value}" for name, value in options.items())


# ---- encodings


def _utf8_file(file: DataFile, encoding: str | None, statements: Statements) -> DataFile:
    """Return the file that DuckDB reads: the file itself, or a temporary copy of it in UTF-8.

    DuckDB reads other encodings with faults.
    """
    if encoding is not None and is_recoded(encoding):
        copy = statements.file()
        _copy_in_utf8(file, encoding, copy)
        return replace(file, path=str(copy))
    require_utf8(file, "state it, such as encoding='utf-16'")
    return file


def _copy_in_utf8(file: DataFile, encoding: str, copy: Path) -> None:
    opened = opener(file.path)
    with (
        opened(file.path, "rt", encoding=encoding, newline="") as encoded,
        open(copy, "x", encoding="utf-8", newline="") as text,
    ):
        for chunk in decoded(encoded, file.shown, encoding):
            text.write(chunk)


# ---- the first row


def _column_names(
    file: DataFile, dialect: Dialect, source: "Source", folders: FolderColumns
) -> list[str]:
    """Return the names of the columns of a file: those in its first line, or column0, column1, ..."""
    names, line_ends = _first_row(file.path, dialect.delimiter)
    if len(line_ends) > 1:  # DuckDB takes the first one for that of all rows, and may lose the rows
        raise InvalidValue(
            f"the first row of {file.shown!r} has two kinds of line ends, in quotes and after it",
            "write it with one kind, or begin with a line of plain names",
        )
    if not dialect.header:
        return _numbered_names(names, source, folders)
    if not any(names):
        raise InvalidValue(
            f"{file.shown!r} does not begin with a line of column names",
            "add one, or state `header=False`",
        )
    every_name = folders.among(names)
    if not set(source.columns) <= set(every_name):
        _require_delimiter(file, source, folders)
    source.require(every_name, shown=False)
    source.require_raw(names)
    return names


def _numbered_names(first_row: list[str], source: "Source", folders: FolderColumns) -> list[str]:
    """Return column0, column1, ... for each field of the first row.

    An empty file has as many columns as are read, so that nothing shows that it has no rows.
    """
    names = [f"column{place}" for place in range(len(first_row))]
    if not names:
        names = [name for name in source.columns if re.fullmatch(r"column\d+", name)]
    source.require(folders.among(names), shown=False)
    return names


def _require_delimiter(file: DataFile, source: "Source", folders: FolderColumns) -> None:
    """Refuse a file whose header line would have the columns, if another delimiter were stated."""
    for delimiter, word in SEPARATORS.items():
        names, _ = _first_row(file.path, delimiter)
        if set(source.columns) <= {*names, *folders.names}:
            raise InvalidValue(
                f"the columns of {file.shown!r} are separated by {word}",
                f"state them: `delimiter={delimiter!r}`",
            )


def _first_row(path: str, delimiter: str) -> tuple[list[str], set[str]]:
    """Return the fields of the first row of a file, and the kinds of line ends in it; none if it has no row."""
    line_ends = set[str]()

    def lines(file: TextIO) -> Iterator[str]:
        while line := file.readline(_HEADER_PIECE):
            line_ends.add(line[len(line.rstrip("\r\n")) :])
            yield line

    try:
        with opener(path)(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
            rows = csv.reader(lines(file), delimiter=delimiter, strict=True)
            row = next(rows, [])
    except (csv.Error, OSError, EOFError):
        return [], set()
    names = [name.strip() for name in row]
    return names, line_ends - {""}


# ---- the whole file


def _require_even_quotes(file: DataFile) -> None:
    """Refuse a file with a quoted field that does not end: DuckDB would leave out the rest of the file."""
    quotes = sum(chunk.count(b'"') for chunk in file_chunks(file.path))
    if quotes % 2:
        raise InvalidValue(
            f"{file.shown!r} has an odd number of quotes",
            "look for a quoted field that does not end, or double the quotes inside fields",
        )
