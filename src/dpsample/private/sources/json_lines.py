"""Files with a JSON object on each line, whose values are text."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from dpsample.private.sources.folders import DataFile, FolderColumns
from dpsample.private.sources.scans import (
    Scan,
    Statements,
    file_chunks,
    require_utf8,
    text_size,
)
from dpsample.sql import quoted_paths, quoted_text

if TYPE_CHECKING:
    from dpsample.private.sources.source import Source

# Rows in which the names of columns are looked for; a column that first comes later must be spelled rightly.
_FIRST_ROWS = 1000


def scan_json(source: "Source", files: list[DataFile], statements: Statements) -> Scan:
    """Return how DuckDB reads files of JSON lines, after a look at the names in the first rows."""
    for file in files:
        require_utf8(file, "write it anew, such as with iconv -f UTF-16 -t UTF-8")
    folders = FolderColumns.of(source, files)
    names = _first_names(files, statements)
    if names:
        source.require(folders.among(names), shown=False)
    own = [name for name in source.columns if name not in folders.names]
    # DuckDB must read one column at least
    types = ", ".join(_typed(name, source) for name in own or ["no column"])
    options = f"records = true, columns = {{{types}}}{folders.file_option}"
    rows = f"read_json({_lines(files)}, {options})"
    return Scan(
        f"({folders.selected(source, rows)})",
        "json",
        objects=folders.objects(files),
        checks=_checks(files),
        size=text_size(files),
        typed=folders.names,
    )


def _first_names(files: list[DataFile], statements: Statements) -> list[str]:
    """Return the names of the fields of the first rows."""
    first = f"SELECT json FROM read_json_objects({_lines(files)}) LIMIT {_FIRST_ROWS}"
    names = statements.run(f"SELECT DISTINCT unnest(json_keys(json)) FROM ({first})")
    return [name for (name,) in names]


def _lines(files: list[DataFile]) -> str:
    """Return SQL of the arguments by which DuckDB reads some files line by line."""
    paths = quoted_paths(file.path for file in files)
    return f"{paths}, format = 'newline_delimited'"


def _typed(name: str, source: "Source") -> str:
    """Return SQL of a column's name and type: a frequency as it stands in the file, and else a JSON value."""
    kind = "VARCHAR" if name == source.frequency else "JSON"
    return f"{quoted_text(name)}: '{kind}'"


def _checks(files: list[DataFile]) -> list[Callable[[], None]]:
    """Return the checks of entire files: that compressed ones are whole."""
    compressed = [file.path for file in files if file.path.endswith(".gz")]
    return [partial(_require_whole, path) for path in compressed]


def _require_whole(path: str) -> None:
    """Unpack a file to its end, which fails if it was cut off: DuckDB 1 would read what is left of it."""
    for _ in file_chunks(path):
        pass
