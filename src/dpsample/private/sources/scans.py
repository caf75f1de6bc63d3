"""How DuckDB reads files: what a format returns, what it may ask DuckDB, and what several formats need."""

import codecs
import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from dpsample.errors import InvalidValue
from dpsample.private.sources.folders import DataFile

# Columns have types of their own, or are text, or are JSON values.
Form = Literal["typed", "text", "json"]
# Names in a statement, each with a function that returns the Arrow object behind it.
Objects = Mapping[str, Callable[[], Any]]

# How many times its size a compressed text file has when it is unpacked: typical for logs. It only decides into how
# many parts work is divided at first.
_UNPACKED = 10
_CHUNK = 1 << 20  # bytes that are read at a time
# A file that begins with one of these is in that encoding. UTF-32 is first, since its mark begins like that of UTF-16.
_MARKS = [
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
]


class Statements(Protocol):
    """What a format may ask DuckDB about its files."""

    def describe(self, origin: str) -> list[tuple[str, Any]]:
        """Return the names and DuckDB types of the columns of a FROM item."""

    def run(self, sql: str) -> list[Any]:
        """Run a statement to its end."""

    def file(self) -> Path:
        """Return a path for a temporary file that no other has."""


@dataclass(frozen=True)
class Scan:
    """How DuckDB reads some files: a FROM item with the columns of the source, in order, as c0, c1, ...

    objects  what `origin` names
    checks   checks of entire files, made before the first row is read
    rows     a statement that returns the number of rows without reading them
    size     the bytes of text, unpacked; an estimate for compressed files
    typed    columns that have types of their own in any form: those of folders' names
    """

    origin: str
    form: Form = "typed"
    objects: Objects = field(default_factory=dict)
    checks: list[Callable[[], None]] = field(default_factory=list)
    rows: str | None = None
    size: int | None = None
    typed: tuple[str, ...] = ()


def require_agreement(types: Sequence[Mapping[str, str]]) -> None:
    """Refuse files of one source if a column differs in type: DuckDB would convert one of them.

    `types` has the types of the columns to read of each file, by name.
    """
    for name in types[0]:
        found = sorted({of_file[name] for of_file in types})
        if len(found) > 1:
            raise InvalidValue(
                f"the column {name!r} has different types in several files: {' and '.join(found)}",
                "write the files alike, or hand in a DuckDB relation that casts it",
            )


def require_utf8(file: DataFile, remedy: str) -> None:
    """Refuse a file of text that begins with the mark of another encoding."""
    try:
        beginning = next(file_chunks(file.path), b"")
    except (OSError, EOFError, zlib.error):  # the file is refused when it is read
        return
    for mark, encoding in _MARKS:
        if beginning.startswith(mark):
            raise InvalidValue(f"{file.shown!r} is in {encoding}, not in UTF-8", remedy)


def opener(path: str) -> Callable[..., Any]:
    """Return the function that opens a file, and unpacks it if it is compressed."""
    return gzip.open if path.endswith(".gz") else open


def file_chunks(path: str) -> Iterator[bytes]:
    """Yield the bytes of a file, unpacked."""
    with opener(path)(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def text_size(files: Sequence[DataFile]) -> int:
    """Return the number of bytes of text files, unpacked; an estimate for compressed files."""
    total = 0
    for file in files:
        factor = _UNPACKED if file.path.endswith(".gz") else 1
        total += os.path.getsize(file.path) * factor
    return total
