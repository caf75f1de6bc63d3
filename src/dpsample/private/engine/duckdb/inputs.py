"""Files looked at before DuckDB reads them: what it would pass over in silence."""

import csv
import gzip
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.private.source import Source


def require_agreement(source: Source, found: list[tuple[str, ...]]) -> None:
    """Refuse files of one source whose columns have different types, of which one would be converted."""
    for name, types in zip(source.columns, zip(*found, strict=True), strict=True):
        if len(set(types)) > 1:
            raise InvalidValue(
                f"all files must have the same type of column {name!r}",
                " and ".join(sorted(set(types))),
                "write the files alike, or hand in a DuckDB relation that casts it",
            )


def header_of(path: str, separator: str) -> list[str]:
    """Read the names in the first line of a CSV file."""
    opened = gzip.open if path.endswith(".gz") else open
    names: list[str] = []
    try:
        with opened(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
            lines = iter(lambda: file.readline(1 << 20), "")
            names = [name.strip() for name in next(csv.reader(lines, delimiter=separator, strict=True), [])]
    except (csv.Error, OSError, EOFError):
        pass
    if not any(names):
        raise InvalidValue("a CSV file begins with a line of column names", f"none in {path!r}", "add one, in UTF-8")
    return names


def _chunks(path: str) -> Iterator[bytes]:
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        yield from iter(lambda: file.read(1 << 20), b"")


def require_even_quotes(path: str) -> None:
    """Refuse a CSV file with a quoted field that does not end: DuckDB would leave out the rest of the file."""
    if sum(chunk.count(b'"') for chunk in _chunks(path)) % 2:
        raise InvalidValue(
            "quotes in a CSV file come in pairs",
            f"an odd number in {path!r}",
            "look for a quoted field that does not end, or double the quotes inside fields",
        )


def require_whole(path: str) -> None:
    """Refuse a compressed file that was cut off: DuckDB 1 would read what is left of it."""
    for _ in _chunks(path):
        pass


def ipc_batches(file: pa.NativeFile) -> Any:
    """Open an Arrow file or stream."""
    is_file = file.read(6) == b"ARROW1"
    file.seek(0)
    return pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
