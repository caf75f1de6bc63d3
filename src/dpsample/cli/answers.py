"""How answers are printed: as a table, as JSON, or as CSV."""

import json
import math
import sys
from dataclasses import asdict
from typing import Any

import click


def opened(files: tuple[str, ...]) -> Any:
    """Read a release, or several that are combined."""
    from dpsample.answers.release import read_release
    from dpsample.answers.several import combine

    return combine(*map(read_release, files)) if len(files) > 1 else read_release(files[0])


def opened_with_keys(arguments: tuple[str, ...], keys: int) -> tuple[Any, list[Any]]:
    """Read releases, and so many keys after them: each has a value for each key column."""
    from dpsample.answers.release import read_release

    first = read_release(arguments[0])
    values = keys * len(first.keys)
    asked = opened(arguments[: max(len(arguments) - values, 1)])
    texts = arguments[-values:] if len(arguments) > values else arguments[1:]
    step = -(-len(texts) // keys)
    return asked, [key_of(first, texts[n * step : (n + 1) * step]) for n in range(keys)]


def key_of(release: Any, texts: tuple[str, ...]) -> Any:
    """Read a key from the command line: a value for each key column, in the column's type."""
    import pyarrow as pa

    from dpsample.errors import InvalidValue

    types = [release.table.schema.field(name).type for name in release.keys]
    try:
        values = [pa.array([t]).cast(type)[0].as_py() for t, type in zip(texts, types, strict=True)]
    except (ValueError, pa.ArrowException):
        names = ", ".join(release.keys)
        raise InvalidValue(f"a key has a value for each of {names}", f"{len(texts)} values", "give these") from None
    return values[0] if len(values) == 1 else tuple(values)


def print_answer(answer: Any, form: str) -> None:
    """Print an `Estimate` or `Estimates`."""
    import pyarrow as pa

    from dpsample.answers.estimates import Estimates

    if isinstance(answer, Estimates):
        lines, table = answer.lines(limit=None), answer.to_arrow()
        rows = table.to_pylist()
        if answer.intervals:
            table = table.append_column("intervals", pa.array([answer.intervals] * len(table), pa.string()))
        document = {
            "rows": rows,
            **({"intervals": answer.intervals} if answer.intervals else {}),
            **({"columns": columns_of(answer.others, answer.at_least)} if answer.is_total else {}),
            "level": answer.level,
            "detection_threshold": answer.detection_threshold,
            "at_least": answer.at_least,
            "notes": answer.notes,
        }
    else:
        lines, document = [repr(answer)], as_document(answer)
        table = pa.Table.from_pylist([as_row(document)])
    _print(lines, document, table, form)


def columns_of(others: str, at_least: int | None) -> dict[str, str]:
    """Say what the columns of a total are about."""
    from dpsample.estimators.estimate import in_all_keys

    return {"reported": "in reported keys", "value": f"in all keys: {others}" if others else in_all_keys(at_least)}


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
    reported = document.get("reported")
    row: dict[str, Any] = {}
    if reported is not None:
        row = {"reported": reported["value"], "reported_low": reported["low"], "reported_high": reported["high"]}
    for name, value in document.items():
        if name not in ("notes", "reported", "columns", "below"):
            row[name] = math.nan if value is None else value
    below = document["below"] or {"kind": "", "value": math.nan, "low": math.nan, "high": math.nan}
    row["below"] = below["kind"]
    for name in ("value", "low", "high"):
        row[f"below_{name}"] = below[name]
    return row


def print_changes(answer: Any, form: str) -> None:
    """Print `Changes`."""
    names = ("tested", "fdr", "level", "notes")
    stated = {name: getattr(answer, name) for name in names}
    document = {"about": answer.about, "rows": answer.table.to_pylist(), **stated}
    _print(answer.lines(limit=None), document, answer.table, form)


def _print(lines: list[str], document: dict[str, Any], table: Any, form: str) -> None:
    if form == "csv":
        click.echo(_csv(table), nl=False)
    else:
        click.echo(json.dumps(_plain(document), indent=2) if form == "json" else "\n".join(lines))


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


def _csv(table: Any) -> str:
    """Write CSV that no spreadsheet runs, and on a terminal no control characters; numbers are finite, or empty."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv

    from dpsample.files.csv import as_csv, csv_schema

    columns = [
        pc.if_else(pc.is_finite(c), c, pa.scalar(None, c.type)) if pa.types.is_floating(c.type) else c
        for c in table.columns
    ]
    schema = pa.schema([pa.field(field.name, field.type) for field in table.schema])
    batches = [as_csv(batch) for batch in pa.table(columns, schema=schema).to_batches()]
    sink = pa.BufferOutputStream()
    pa.csv.write_csv(pa.Table.from_batches(batches, csv_schema(schema)), sink)
    text = str(sink.getvalue().to_pybytes(), "utf-8")
    if sys.stdout.isatty():
        text = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
    return text
