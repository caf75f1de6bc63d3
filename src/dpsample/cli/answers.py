"""How answers are printed: as a table, as JSON, or as CSV."""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click
import pyarrow as pa

from dpsample.answers.estimates import Estimates
from dpsample.answers.release import read_release
from dpsample.answers.several import combine
from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import in_all_keys
from dpsample.files.csv import as_csv, csv_schema
from dpsample.lazy import arrow_csv, pc

_NOTHING_BELOW = {"kind": "", "value": math.nan, "low": math.nan, "high": math.nan}
_NOT_IN_A_ROW = (  # parts of a document that have columns of their own in CSV, or none
    "notes",
    "reported",
    "columns",
    "below",
)


def opened(files: Sequence[str]) -> Any:
    """Read a release, or several that are combined."""
    return combine(*map(read_release, files)) if len(files) > 1 else read_release(files[0])


def opened_with_keys(arguments: Sequence[str], count: int) -> tuple[Any, list[Any]]:
    """Read releases, and this number of keys after them: each has a value for each key column."""
    first = read_release(arguments[0])
    files = max(len(arguments) - count * len(first.keys), 1)
    values = list(arguments[files:])
    width = math.ceil(len(values) / count)
    keys = []
    for _ in range(count):
        keys.append(key_of(first, values[:width]))
        values = values[width:]
    return opened(arguments[:files]), keys


def key_of(release: Any, texts: Sequence[str]) -> Any:
    """Read a key from the command line: a value for each key column, in the column's type."""
    types = [release.table.schema.field(name).type for name in release.keys]
    columns = []
    try:
        for text, kind in zip(texts, types, strict=True):
            columns.append(pa.array([text]).cast(kind))
    except (ValueError, pa.ArrowException):
        names = ", ".join(release.keys)
        raise InvalidValue(
            f"a key must have one value for each of {names}, in the column's type"
        ) from None
    values = [column[0].as_py() for column in columns]
    return values[0] if len(values) == 1 else tuple(values)


def print_answer(answer: Any, form: str) -> None:
    """Print an `Estimate` or `Estimates`."""
    if isinstance(answer, Estimates):
        lines = answer.lines(limit=None)
        document = _document_of_all(answer)
        table = _table_of_all(answer)
    else:
        lines = [repr(answer)]
        document = as_document(answer)
        table = pa.Table.from_pylist([as_row(document)])
    _print(lines, document, table, form)


def print_changes(answer: Any, form: str) -> None:
    """Print `Changes`."""
    document = {"about": answer.about, "rows": answer.table.to_pylist()}
    for name in ("tested", "fdr", "level", "notes"):
        document[name] = getattr(answer, name)
    _print(answer.lines(limit=None), document, answer.table, form)


def _table_of_all(answer: Estimates) -> pa.Table:
    """Return estimates as a table, with the kind of their intervals."""
    table = answer.to_arrow()
    if not answer.intervals:
        return table
    kind = pa.array([answer.intervals] * len(table), pa.string())
    return table.append_column("intervals", kind)


def _document_of_all(answer: Estimates) -> dict[str, Any]:
    """Return estimates as JSON: their rows, and what these mean."""
    document: dict[str, Any] = {"rows": answer.to_arrow().to_pylist()}
    if answer.intervals:
        document["intervals"] = answer.intervals
    if answer.is_total:
        document["columns"] = columns_of(answer.others, answer.at_least)
    for name in ("level", "detection_threshold", "at_least", "notes"):
        document[name] = getattr(answer, name)
    return document


def columns_of(others: str, at_least: int | None) -> dict[str, str]:
    """Return what each column of a total means."""
    value = f"in all keys: {others}" if others else in_all_keys(at_least)
    return {"reported": "in reported keys", "value": value}


def as_document(answer: Any) -> dict[str, Any]:
    """Return an `Estimate` as names and values; of a total, what is in the reported keys comes first."""
    document = asdict(answer)
    reported = document.pop("reported")
    if reported is None:
        return document
    columns = columns_of(reported.pop("others"), answer.at_least)
    return {"reported": reported, "columns": columns, **document}


def as_row(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document as one row, for CSV."""
    row: dict[str, Any] = {}
    reported = document.get("reported")
    if reported is not None:
        row = {
            "reported": reported["value"],
            "reported_low": reported["low"],
            "reported_high": reported["high"],
        }
    for name, value in document.items():
        if name not in _NOT_IN_A_ROW:
            row[name] = math.nan if value is None else value
    below = document["below"] or _NOTHING_BELOW
    row["below"] = below["kind"]
    for name in ("value", "low", "high"):
        row[f"below_{name}"] = below[name]
    return row


def _print(lines: list[str], document: dict[str, Any], table: pa.Table, form: str) -> None:
    """Print an answer in one of three forms: lines for people, a JSON document, or CSV."""
    if form == "csv":
        click.echo(_csv(table), nl=False)
    elif form == "json":
        click.echo(json.dumps(_plain(document), indent=2))
    else:
        click.echo("\n".join(lines))


def _plain(value: Any) -> Any:
    """Convert to JSON: numbers that are not finite to null, binary values to hexadecimal, other types to text."""
    if isinstance(value, dict):
        return {name: _plain(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _csv(table: pa.Table) -> str:
    """Write CSV in which a spreadsheet runs nothing; numbers are finite, or empty.

    On a terminal, control characters are escaped.
    """
    columns = [_finite(column) for column in table.columns]
    finite = pa.table(columns, schema=_without_metadata(table.schema))
    batches = [as_csv(batch) for batch in finite.to_batches()]
    written = pa.Table.from_batches(batches, csv_schema(finite.schema))
    sink = pa.BufferOutputStream()
    arrow_csv.write_csv(written, sink)
    text: str = sink.getvalue().to_pybytes().decode("utf-8")
    if not sys.stdout.isatty():
        return text
    return "".join(map(_printable, text))


def _finite(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with NULL in place of numbers that are not finite."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))


def _without_metadata(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def _printable(character: str) -> str:
    """Return a character, or its escape sequence if a terminal might obey it."""
    if character.isprintable() or character == "\n":
        return character
    return repr(character)[1:-1]
