"""dpsample query, mean, top, each-key, rank, compare, quantiles and other."""

from typing import Any

import click

from dpsample.cli.answers import key_of, print_answer
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
_sum = together(
    click.option("--weight", help="Weight of a key in the sum: a column or an SQL expression."),
    click.option("--by", multiple=True, help="Column or SQL expression to group by. Repeat it for several."),
    click.option("--estimator", help="calibrated, mle, biased_down or unbiased.  [default: calibrated]"),
)
_at_least = click.option(
    "--at-least", type=int, help="Least frequency of the keys that count.  [default: a little above the threshold]"
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
@_sum
@_at_least
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
    for name in ("estimator", "at_least"):
        if options.pop(name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} does not go with --per; found both; leave {option} out")
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
@click.argument("shares", nargs=-1, type=float)
@_at_least
@_selection
def quantiles(release: str, shares: tuple[float, ...], form: str, **options: Any) -> None:
    """Estimate quantiles of the frequencies of keys. SHARES are numbers from 0 to 1: 0.5, 0.9 and 0.99 by default.

    \b
    Example:
      dpsample quantiles queries.private.parquet 0.5 0.9 0.99
    """
    from dpsample.release.release import read_release

    print_answer(read_release(release).quantiles(shares or (0.5, 0.9, 0.99), **options), form)


@click.command()
@click.argument("release")
@click.option("--of", default="frequency", show_default=True, help="What is averaged, as in query.")
@_sum
@_at_least
@_selection
def mean(release: str, form: str, **options: Any) -> None:
    """Estimate the mean of the frequencies of keys, or of a function of them.

    \b
    Example:
      dpsample mean queries.private.parquet --by "left(query, 1)"
    """
    from dpsample.release.release import read_release

    print_answer(read_release(release).mean(**options), form)


@click.command("each-key")
@click.argument("release")
@_selection
def each_key(release: str, form: str, **options: Any) -> None:
    """Estimate the frequency of each reported key.

    \b
    Example:
      dpsample each-key queries.private.parquet --where "query LIKE 'cat%'" --format csv
    """
    from dpsample.release.release import read_release

    print_answer(read_release(release).each_key(**options), form)


@click.command()
@click.argument("release")
@click.argument("key", nargs=-1, required=True)
@_selection
def rank(release: str, key: tuple[str, ...], form: str, **options: Any) -> None:
    """Estimate the rank of a key: 1 for the most frequent one. KEY has a value for each key column.

    \b
    Example:
      dpsample rank queries.private.parquet weather
    """
    from dpsample.release.release import read_release

    asked = read_release(release)
    print_answer(asked.rank(key_of(asked, key), **options), form)


@click.command()
@click.argument("release")
@click.argument("keys", nargs=-1, required=True)
def compare(release: str, keys: tuple[str, ...]) -> None:
    """Print the probability that one key is more frequent than another. KEYS are the two, each with all its columns.

    \b
    Example:
      dpsample compare queries.private.parquet weather news
    """
    from dpsample.release.release import read_release

    asked, half = read_release(release), (len(keys) + 1) // 2
    click.echo(f"{asked.compare(key_of(asked, keys[:half]), key_of(asked, keys[half:])):.6g}")


@click.command()
@click.argument("release")
@click.option("--level", type=float, default=0.95, show_default=True, help="Nominal coverage of the interval.")
@click.option(
    "--format", "form", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True, help="Format."
)
def other(release: str, level: float, form: str) -> None:
    """Estimate the number of elements whose keys were not reported. The release has a private total.

    \b
    Example:
      dpsample other queries.private.parquet
    """
    from dpsample.release.release import read_release

    print_answer(read_release(release).other(level), form)
