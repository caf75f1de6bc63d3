"""The commands that ask a release: query, top, quantiles."""

import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def _selection(command: Command) -> Command:
    """Options that all questions share."""
    options = (
        click.option("--where", help="Select keys: an SQL expression on the key columns and attributes."),
        click.option("--attributes", help="Parquet, CSV or Arrow file with the key columns and further ones."),
        click.option("--level", type=float, default=0.95, show_default=True, help="Of the intervals."),
        click.option(
            "--format",
            "form",
            type=click.Choice(["table", "json", "csv"]),
            default="table",
            show_default=True,
            help="Of what is printed.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.argument("release")
@click.option(
    "--of", default="frequency", show_default=True, help="frequency, keys, log1p, power:P, capped:T, at-least:T."
)
@click.option("--weight", help="What each key counts for: a column or an SQL expression.")
@click.option("--by", multiple=True, help="Column or SQL expression that makes groups; repeat it for several.")
@click.option("--estimator", help="Another estimator than the default, such as mle.")
@_selection
def query(release: str, form: str, **options: Any) -> None:
    """Estimate a sum over keys, reported or not, with its error: of frequencies, or of a function of them.

    \b
    Examples:
      dpsample query queries.private.parquet --where "query LIKE 'cat%'"
      dpsample query queries.private.parquet --of keys --by "left(query, 1)" --format csv
      dpsample query products.private.parquet --attributes prices.csv --weight price --by category
    """
    from dpsample.release.release import read_release

    _print(read_release(release).sum(**options), form)


@click.command()
@click.argument("release")
@click.option("-k", "--keys", "k", type=int, default=10, show_default=True, help="How many keys.")
@_selection
def top(release: str, k: int, form: str, **options: Any) -> None:
    """List the most frequent keys, each with the probability that it is truly one of the top k.

    \b
    Example:
      dpsample top queries.private.parquet -k 20 --where "length(query) > 3"
    """
    from dpsample.release.release import read_release

    _print(read_release(release).top(k, **options), form)


@click.command()
@click.argument("release")
@click.argument("shares", nargs=-1, required=True, type=float)
@click.option(
    "--at-least", type=int, help="Of keys this frequent or more; by default, those that are likely to be seen."
)
@_selection
def quantiles(release: str, shares: tuple[float, ...], form: str, **options: Any) -> None:
    """Estimate quantiles of the frequencies of keys, as far down as keys can be seen.

    \b
    Example:
      dpsample quantiles queries.private.parquet 0.5 0.9 0.99
    """
    from dpsample.release.release import read_release

    _print(read_release(release).quantiles(shares, **options), form)


def _print(answer: Any, form: str) -> None:
    """Print an Estimate, or Estimates."""
    import pyarrow as pa

    from dpsample.questions.result import Estimates

    if isinstance(answer, Estimates):
        lines, table = answer.lines(limit=None), answer.to_arrow()
        rest = {"level": answer.level, "detection_threshold": answer.detection_threshold, "notes": answer.notes}
        document = {"rows": table.to_pylist(), **rest}
    else:
        lines, document = [repr(answer)], asdict(answer)
        table = pa.Table.from_pylist(
            [{name: math.nan if value is None else value for name, value in document.items() if name != "notes"}]
        )
    if form == "csv":
        click.echo(_csv(table), nl=False)
    else:
        click.echo(json.dumps(_plain(document), indent=2) if form == "json" else "\n".join(lines))


def _plain(value: Any) -> Any:
    """What JSON can hold: no number that is not finite, binary in hexadecimal, anything else as text."""
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
    """CSV that no spreadsheet runs, with nothing where a number is not finite; for a terminal, that commands none."""
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
