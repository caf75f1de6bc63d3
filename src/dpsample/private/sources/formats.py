"""File formats: for each its name, its endings, and how its files are checked and read. A new format is one entry.

Text files carry no types, and guessed ones would depend on private rows: keys of CSV, TSV and JSON lines are text.
"""

import codecs
import csv
import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TextIO

from dpsample.errors import InvalidValue
from dpsample.private.sources.dialect import SEPARATORS, decoded, is_recoded
from dpsample.sql import quoted_name, quoted_paths, quoted_text

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsample.private.sources.source import Source

Form = Literal[
    "typed", "text", "json"
]  # columns have types of their own, or are text, or are JSON values
Objects = Mapping[
    str, Callable[[], Any]
]  # names in a statement -> what returns the Arrow object behind it


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
    """How DuckDB reads some files: a FROM item with the columns of the source, in order, as c0, c1, ..."""

    origin: str
    form: Form = "typed"
    objects: Objects = field(default_factory=dict)  # what `origin` names
    checks: list[Callable[[], None]] = field(
        default_factory=list
    )  # of whole files, before the first row is read
    rows: str | None = None  # a statement that returns the number of rows without reading them
    size: int | None = None  # of text, in bytes; of compressed text, about


@dataclass(frozen=True)
class Format:
    """A file format: its endings, and how files of it are read."""

    endings: tuple[str, ...]
    scan: Callable[["Source", list[str], Statements], Scan]


def format_of(path: str) -> str | None:
    """Return the name of the format that a file's ending names.

    >>> format_of("events.csv.gz"), format_of("events.txt")
    ('csv', None)
    """
    name = os.path.basename(path).lower()
    return next((known for known, format in FORMATS.items() if name.endswith(format.endings)), None)


# ---- Parquet


def _parquet(source: "Source", paths: list[str], statements: Statements) -> Scan:
    types = list[tuple[str, ...]]()
    for path in paths:
        columns = dict(
            statements.describe(f"read_parquet({quoted_paths([path])}, hive_partitioning = false)")
        )
        source.require(list(columns))
        types.append(tuple(str(columns[name]) for name in source.columns))
    _require_agreement(source, types)
    chosen = ", ".join(f"{quoted_name(name)} AS c{i}" for i, name in enumerate(source.columns))
    return Scan(
        f"(SELECT {chosen} FROM read_parquet({quoted_paths(paths)}, hive_partitioning = false))",
        rows=f"SELECT sum(num_rows)::BIGINT FROM parquet_file_metadata({quoted_paths(paths)})",
    )


# ---- CSV and TSV

_BUFFER = (
    4 << 20
)  # bytes, as fast as DuckDB's 32 MB, of which two do not fit into a small memory limit
_LINE = 2_000_000  # bytes of a line, as in DuckDB where the buffer is not set


def _csv(source: "Source", paths: list[str], statements: Statements, separator: str) -> Scan:
    separator = source.options.get("delimiter") or separator
    by_header = dict[tuple[str, ...], list[str]]()
    encoding = source.options.get("encoding")
    read = {path: _utf8_file(path, encoding, statements) for path in paths}
    for shown, path in read.items():
        header = _header(path, shown, separator, source)
        by_header.setdefault(tuple(header), []).append(path)

    scans = [_csv_rows(source, header, alike, separator) for header, alike in by_header.items()]
    rows = " UNION ALL ".join(scans)
    checks: list[Callable[[], None]] = []
    for names in read.items():
        checks.append(partial(_require_even_quotes, *names))
    size = _text_size(list(read.values()))
    return Scan(f"({rows})", "text", checks=checks, size=size)


def _csv_rows(source: "Source", header: tuple[str, ...], paths: list[str], separator: str) -> str:
    """SQL that reads the columns of the source, as text, from files that have the same header."""
    names = [f"h{place}" for place in range(len(header))]
    columns = ", ".join(f"{name}: 'VARCHAR'" for name in names)
    name_of = dict(zip(reversed(header), reversed(names), strict=True))  # of equal ones the first
    chosen = [f"{name_of[name]} AS c{place}" for place, name in enumerate(source.columns)]
    selected = ", ".join(chosen)
    options = _csv_options(source, separator)
    files = quoted_paths(paths)
    return f"SELECT {selected} FROM read_csv({files}, columns = {{{columns}}}, {options})"


def _csv_options(source: "Source", separator: str) -> str:
    """SQL of the options of DuckDB's reader."""
    nulls = ["", *source.options.get("null", ())]
    options = {
        "auto_detect": "false",
        "strict_mode": "true",
        # many threads lose or repeat rows, silently, where quoted fields have quotes and line ends
        "parallel": "false",
        "header": str(source.options.get("header", True)).lower(),
        "delim": quoted_text(separator),
        "quote": "'\"'",
        "escape": "'\"'",
        "nullstr": f"[{', '.join(map(quoted_text, nulls))}]",
        "allow_quoted_nulls": "false",
        "buffer_size": _BUFFER,
        "max_line_size": _LINE,
    }
    return ", ".join(f"{name} = {value}" for name, value in options.items())


def _utf8_file(path: str, encoding: str | None, statements: Statements) -> str:
    """Return the file that DuckDB reads: the file itself, or a copy of it in UTF-8."""
    if encoding is not None and is_recoded(encoding):
        return _in_utf8(path, encoding, statements.file())
    _require_utf8(path, "state it, such as encoding='utf-16'")
    return path


def _in_utf8(path: str, encoding: str, copy: Path) -> str:
    """Write a copy in UTF-8 to a temporary file, and return its name: DuckDB reads UTF-8 alone without faults."""
    opened = gzip.open if path.endswith(".gz") else open
    with (
        opened(path, "rt", encoding=encoding, newline="") as file,
        open(copy, "x", encoding="utf-8", newline="") as text,
    ):
        for chunk in decoded(file, path, encoding):
            text.write(chunk)
    return str(copy)


def _header(path: str, shown: str, separator: str, source: "Source") -> list[str]:
    """Return the names of the columns of a CSV file: those in its first line, or column0, column1, ..."""
    names, line_ends = _first_row(path, separator)
    if len(line_ends) > 1:  # DuckDB takes the first one for that of all rows, and may lose the rows
        raise InvalidValue(
            f"the first row of {shown!r} has two kinds of line ends, in quotes and after it",
            "write it with one kind, or begin with a line of plain names",
        )
    if not source.options.get("header", True):
        # an empty file has as many columns as are read: that it has no rows must not show
        named = [name for name in source.columns if re.fullmatch(r"column\d+", name)]
        names = [f"column{i}" for i in range(len(names))] or named
        source.require(names, shown=False)
        return names
    if not any(names):
        raise InvalidValue(
            f"{shown!r} does not begin with a line of column names",
            "add one, or state `header=False`",
        )
    if not set(source.columns) <= set(names):
        _require_separator(path, shown, source)
    source.require(names, shown=False)
    source.require_raw(names)
    return names


def _require_separator(path: str, shown: str, source: "Source") -> None:
    """Refuse a file whose header line would have the columns, if another separator were stated."""
    for other, word in SEPARATORS.items():
        if set(source.columns) <= set(_first_row(path, other)[0]):
            raise InvalidValue(
                f"the columns of {shown!r} are separated by {word}",
                f"state them: `delimiter={other!r}`",
            )


def _first_row(path: str, separator: str) -> tuple[list[str], set[str]]:
    """Read the fields of the first row of a CSV file, and the kinds of line ends in it; none if it has none."""
    opened = gzip.open if path.endswith(".gz") else open
    line_ends: set[str] = set()

    def lines(file: TextIO) -> Iterator[str]:
        while line := file.readline(1 << 20):
            line_ends.add(line[len(line.rstrip("\r\n")) :])
            yield line

    try:
        with opened(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
            row = next(csv.reader(lines(file), delimiter=separator, strict=True), [])
    except (csv.Error, OSError, EOFError):
        return [], set()
    return [name.strip() for name in row], line_ends - {""}


def _require_even_quotes(shown: str, path: str) -> None:
    """Refuse a CSV file with a quoted field that does not end: DuckDB would leave out the rest of the file."""
    if sum(chunk.count(b'"') for chunk in _chunks(path)) % 2:
        raise InvalidValue(
            f"{shown!r} has an odd number of quotes",
            "look for a quoted field that does not end, or double the quotes inside fields",
        )


# ---- JSON lines


def _json(source: "Source", paths: list[str], statements: Statements) -> Scan:
    for path in paths:
        _require_utf8(path, "write it anew, such as with iconv -f UTF-16 -t UTF-8")
    options = f"{quoted_paths(paths)}, format = 'newline_delimited'"
    first = f"SELECT json FROM read_json_objects({options}) LIMIT 1000"
    names = [
        name
        for (name,) in statements.run(f"SELECT DISTINCT unnest(json_keys(json)) FROM ({first})")
    ]
    if names:
        source.require(names, shown=False)
    kinds = ["VARCHAR" if name == source.frequency else "JSON" for name in source.columns]
    types = ", ".join(
        f"{quoted_text(name)}: '{kind}'" for name, kind in zip(source.columns, kinds, strict=True)
    )
    chosen = ", ".join(f"{quoted_name(name)} AS c{i}" for i, name in enumerate(source.columns))
    origin = f"(SELECT {chosen} FROM read_json({options}, records = true, columns = {{{types}}}))"
    checks: list[Callable[[], None]] = [
        partial(_require_whole, path) for path in paths if path.endswith(".gz")
    ]
    return Scan(origin, "json", checks=checks, size=_text_size(paths))


def _text_size(paths: Sequence[str]) -> int:
    """Return the number of bytes of text; ten times the size of compressed files, which is typical."""
    return sum(os.path.getsize(path) * (10 if path.endswith(".gz") else 1) for path in paths)


def _require_whole(path: str) -> None:
    """Refuse a compressed file that was cut off: DuckDB 1 would read what is left of it."""
    for _ in _chunks(path):
        pass


# ---- Arrow


def _arrow(source: "Source", paths: list[str], statements: Statements) -> Scan:
    import pyarrow as pa

    schemas = []
    for path in paths:
        with pa.memory_map(path) as file:
            schemas.append(_ipc_reader(file).schema)
        source.require(schemas[-1].names)
    _require_agreement(
        source, [tuple(str(schema.field(c).type) for c in source.columns) for schema in schemas]
    )
    fields = [schemas[0].field(name) for name in source.columns]
    schema = pa.schema([pa.field(f"c{i}", f.type) for i, f in enumerate(fields)])

    def batches() -> Iterator["pa.RecordBatch"]:
        for path in paths:
            with pa.memory_map(path) as file:
                reader = _ipc_reader(file)
                seekable = isinstance(reader, pa.ipc.RecordBatchFileReader)
                for batch in (
                    map(reader.get_batch, range(reader.num_record_batches)) if seekable else reader
                ):
                    chosen = pa.RecordBatch.from_arrays(
                        [batch.column(c) for c in source.columns], schema=schema
                    )
                    chosen.validate(full=True)  # a damaged file would be read out of bounds
                    yield chosen

    return Scan(
        "source", objects={"source": lambda: pa.RecordBatchReader.from_batches(schema, batches())}
    )


def _ipc_reader(file: "pa.NativeFile") -> Any:
    """Open an Arrow file or stream."""
    import pyarrow as pa

    is_file = file.read(6) == b"ARROW1"
    file.seek(0)
    return pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)


# ---- what several formats need

_MARKS = [  # with which a file begins; the first two begin like the others
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
]


def _require_agreement(source: "Source", types: Sequence[tuple[str, ...]]) -> None:
    """Refuse files of one source whose columns have different types, of which one would be converted."""
    for name, kinds in zip(source.columns, zip(*types, strict=True), strict=True):
        if len(set(kinds)) > 1:
            found = " and ".join(sorted(set(kinds)))
            raise InvalidValue(
                f"the column {name!r} has different types in several files: {found}",
                "write the files alike, or hand in a DuckDB relation that casts it",
            )


def _require_utf8(path: str, remedy: str) -> None:
    """Refuse a file of text that begins with the mark of another encoding."""
    try:
        beginning = next(_chunks(path), b"")
    except (OSError, EOFError, zlib.error):  # is refused when it is read
        return
    for mark, encoding in _MARKS:
        if beginning.startswith(mark):
            raise InvalidValue(f"{path!r} is in {encoding}, not in UTF-8", remedy)


def _chunks(path: str) -> Iterator[bytes]:
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        yield from iter(lambda: file.read(1 << 20), b"")


FORMATS = {
    "parquet": Format((".parquet", ".pq"), _parquet),
    "csv": Format((".csv", ".csv.gz"), partial(_csv, separator=",")),
    "tsv": Format((".tsv", ".tsv.gz"), partial(_csv, separator="\t")),
    "jsonl": Format((".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz"), _json),
    "arrow": Format((".arrow", ".feather", ".ipc"), _arrow),
}
