"""dpsample query, top and quantiles."""

from typing import Any

import click

from dpsample.cli.answers import print_answer
from dpsample.cli.options import together

_selection = together(
    click.option("--where", help="SQL expression on the key columns and attributes. Selects keys."),
    click.option("--attributes", help="Parquet, CSV or Arrow file with the key columns and further columns."),
    click.option("--level", type=float, default=0.95, show_default=True, help="Nominal coverage of the intervals."),
    click.option(
        "--format",
        "form",
        type=click.Choice(["table", "json", "csv"]),
        default="table",
        show_default=True,
        help="Format of the output.",
    ),
)


@click.command()
@click.argument("release")
@click.option(
    "--of",
    default="frequency",
    show_default=True,
    help="What is summed: frequency, keys, log1p, power:P, capped:T or at-least:T; of counted users also rows, or the "
    "column of a sum, such as sum_price.",
)
@click.option(
    "--per", help="Divide by this sum: users, rows, or the column of a sum. The answer is a mean, with its interval."
)
@click.option("--weight", help="Weight of a key in the sum: a column or an SQL expression.")
@click.option("--by", multiple=True, help="Column or SQL expression to group by. Repeat it for several.")
@click.option("--estimator", help="calibrated, mle, biased_down or unbiased.  [default: calibrated]")
@_selection
def query(release: str, form: str, per: str | None, **options: Any) -> None:
    """Estimate a sum over keys, reported or not, with its error. It sums frequencies, or a function of them.

    \b
    Examples:
      dpsample query queries.private.parquet --where "query LIKE 'cat%'"
      dpsample query queries.private.parquet --of keys --by "left(query, 1)" --format csv
      dpsample query products.private.parquet --attributes prices.csv --weight price --by category
      dpsample query orders.private.parquet --of sum_price --per rows
    """
    from dpsample.release.release import read_release

    opened = read_release(release)
    if per is None:
        print_answer(opened.sum(**options), form)
        return
    if options.pop("estimator") is not None:
        raise click.UsageError("--estimator does not go with --per; leave --estimator out")
    print_answer(opened.ratio(per=per, **options), form)


@click.command()
@click.argument("release")
@click.option("-k", "--keys", "k", type=int, default=10, show_default=True, help="Number of keys.")
@_selection
def top(release: str, k: int, form: str, **options: Any) -> None:
    """List the most frequent keys. Each has the probability that it is in the true top k.

    \b
    Example:
      dpsample top queries.private.parquet -k 20 --where "length(query) > 3"
    """
    from dpsample.release.release import read_release

    print_answer(read_release(release).top(k, **options), form)


@click.command()
@click.argument("release")
@click.argument("shares", nargs=-1, required=True, type=float)
@click.option(
    "--at-least", type=int, help="Lowest frequency of the keys that count.  [default: the detection threshold]"
)
@_selection
def quantiles(release: str, shares: tuple[float, ...], form: str, **options: Any) -> None:
    """Estimate quantiles of the frequencies of keys. SHARES are numbers from 0 to 1.

    \b
    Example:
      dpsample quantiles queries.private.parquet 0.5 0.9 0.99
    """
    from dpsample.release.release import read_release

    print_answer(read_release(release).quantiles(shares, **options), form)
