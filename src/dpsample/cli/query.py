"""dpsample query, mean, top, each-key, rank, compare, quantiles, other and changes: of a release, or of several."""

from typing import Any

import click

from dpsample.answers.changes import changes as changes_between
from dpsample.cli.answers import opened, opened_with_keys, print_answer, print_changes
from dpsample.cli.options import flag, format_of_output, output_format, together
from dpsample.cli.printing import show

_releases = click.argument("releases", nargs=-1, required=True, metavar="RELEASE...")
_where = click.option(
    "--where", help="SQL expression on the key columns and attributes. Selects keys."
)
_attributes = click.option(
    "--attributes", help="Parquet, CSV or Arrow file with the key columns and further columns."
)
_level = click.option(
    "--level",
    type=float,
    default=0.95,
    show_default=True,
    help="Nominal coverage of the intervals.",
)
_format = format_of_output("table", "json", "csv")
_selection = together(_where, _attributes, _level, _format)
_weight = click.option(
    "--weight", help="Weight of a key in the sum: a column or an SQL expression."
)
_by = click.option(
    "--by", multiple=True, help="Column or SQL expression to group by. Repeat it for several."
)
_estimator = click.option(
    "--estimator", help="calibrated, mle, biased_down or unbiased.  [default: calibrated]"
)
_sum = together(_weight, _by, _estimator)
_at_least = click.option(
    "--at-least",
    type=int,
    help="Least frequency of the keys that count.  [default: a little above the threshold]",
)


_SHARES = (0.5, 0.9, 0.99)  # of keys, whose quantiles are printed by default


@click.command()
@_releases
@click.option(
    "--extrapolate",
    is_flag=True,
    help="Guess what rarer keys hold, from the keys just above. It is often far off.",
)
@click.option(
    "--of",
    default="frequency",
    show_default=True,
    help="What is summed: frequency, keys, log1p, power:P, capped:T or at-least:T; of counted users also rows or "
    "sum_COLUMN, and rows_clipped or sum_COLUMN_clipped, of clipped amounts alone.",
)
@click.option(
    "--per",
    help="Divide by this sum: users, rows, sum_COLUMN, ... The answer is a mean, with its interval.",
)
@_sum
@_at_least
@_selection
def query(releases: tuple[str, ...], form: str, per: str | None, **options: Any) -> None:
    """Estimate a total, with its error, on two lines: of frequencies, or of a function of them.

    The first line is what the reported keys have. The second is what all keys have, reported or not, that are frequent
    enough to be estimated (it says from which frequency on). What rarer keys hold is in neither: a release with a
    private total (--with-total) tells it.

    \b
    Examples:
      dpsample query queries.private.parquet --where "query LIKE 'cat%'"
      dpsample query monday.parquet tuesday.parquet
      dpsample query queries.private.parquet --of keys --by "left(query, 1)" --format csv
      dpsample query products.private.parquet --attributes prices.csv --weight price --by category
      dpsample query orders.private.parquet --of sum_price --per rows
    """
    asked = opened(releases)
    if per is None:
        print_answer(asked.sum(**options), form)
        return
    for name in ("estimator", "at_least", "extrapolate"):
        if options.pop(name):
            option = flag(name)
            raise click.UsageError(f"{option} cannot be combined with --per; leave {option} out")
    print_answer(asked.ratio(per=per, **options), form)


@click.command()
@_releases
@click.option("-k", "--keys", "k", type=int, default=10, show_default=True, help="Number of keys.")
@_selection
def top(releases: tuple[str, ...], k: int, form: str, **options: Any) -> None:
    """List the most frequent keys. Each has the probability that it is in the true top k.

    \b
    Examples:
      dpsample top queries.private.parquet -k 20 --where "length(query) > 3"
      dpsample top day-*.parquet
    """
    print_answer(opened(releases).top(k, **options), form)


@click.command()
@click.argument("arguments", nargs=-1, required=True, metavar="RELEASE... [SHARE]...")
@_at_least
@_selection
def quantiles(arguments: tuple[str, ...], form: str, **options: Any) -> None:
    """Estimate quantiles of the frequencies of keys. SHARE is a number from 0 to 1: 0.5, 0.9 and 0.99 by default.

    \b
    Example:
      dpsample quantiles queries.private.parquet 0.5 0.9 0.99
    """
    shares = []
    releases = []
    for argument in arguments:
        share = _number(argument)
        if share is None:
            releases.append(argument)
        else:
            shares.append(share)
    if not releases:
        raise click.UsageError("quantiles need a release; name its file before the shares")
    print_answer(opened(releases).quantiles(shares or _SHARES, **options), form)


def _number(text: str) -> float | None:
    """Read a number; None if the text is none, and so the name of a file."""
    try:
        return float(text)
    except ValueError:
        return None


@click.command()
@_releases
@click.option("--of", default="frequency", show_default=True, help="What is averaged, as in query.")
@_sum
@_at_least
@_selection
def mean(releases: tuple[str, ...], form: str, **options: Any) -> None:
    """Estimate the mean of the frequencies of keys, or of a function of them.

    \b
    Example:
      dpsample mean queries.private.parquet --by "left(query, 1)"
    """
    print_answer(opened(releases).mean(**options), form)


@click.command("each-key")
@_releases
@_selection
def each_key(releases: tuple[str, ...], form: str, **options: Any) -> None:
    """Estimate the frequency of each reported key.

    \b
    Example:
      dpsample each-key queries.private.parquet --where "query LIKE 'cat%'" --format csv
    """
    print_answer(opened(releases).each_key(**options), form)


@click.command()
@click.argument("arguments", nargs=-1, required=True, metavar="RELEASE... KEY")
@_selection
def rank(arguments: tuple[str, ...], form: str, **options: Any) -> None:
    """Estimate the rank of a key: 1 for the most frequent one. KEY has a value for each key column.

    \b
    Example:
      dpsample rank queries.private.parquet weather
    """
    asked, [key] = opened_with_keys(arguments, 1)
    print_answer(asked.rank(key, **options), form)


@click.command()
@click.argument("arguments", nargs=-1, required=True, metavar="RELEASE... KEY KEY")
@output_format
def compare(arguments: tuple[str, ...], form: str) -> None:
    """Print the probability that one key is more frequent than another. Each KEY has all its columns.

    \b
    Example:
      dpsample compare queries.private.parquet weather news
    """
    asked, keys = opened_with_keys(arguments, 2)
    probability = asked.compare(*keys)
    show({"probability": probability}, [f"{probability:.6g}"], form)


@click.command()
@_releases
@click.option(
    "--level", type=float, default=0.95, show_default=True, help="Nominal coverage of the interval."
)
@_format
def other(releases: tuple[str, ...], level: float, form: str) -> None:
    """Estimate the number of elements whose keys were not reported. The release has a private total.

    \b
    Example:
      dpsample other queries.private.parquet
    """
    print_answer(opened(releases).other(level), form)


@click.command()
@click.argument("releases", nargs=-1, required=True, metavar="BEFORE... AFTER...")
@click.option(
    "--fdr",
    type=float,
    default=0.05,
    show_default=True,
    help="Rate of false discoveries among the listed keys.",
)
@click.option(
    "--beyond-chance",
    is_flag=True,
    help="Only changes beyond the variation of independent, equally likely events.",
)
@click.option(
    "--of",
    type=click.Choice(["frequency", "share"]),
    default="frequency",
    show_default=True,
    help="What may have changed: the frequency, or the share of all elements; for this, releases have a private total.",
)
@click.option(
    "--first",
    type=int,
    help="How many of the files are before; the others are after.  [default: half]",
)
@click.option(
    "--lengths",
    type=(float, float),
    help="How long before and after are, such as 7 30 days; numbers are means of one.  [default: the numbers of files]",
)
@_selection
def changes(releases: tuple[str, ...], form: str, first: int | None, **options: Any) -> None:
    """List the keys that rose or fell, at a rate of false discoveries: before is half of the files, or the --first.

    What was counted is compared: ordinary variation from day to day counts as a change, unless --beyond-chance. If one
    side has more files, means of a file are compared.

    \b
    Examples:
      dpsample changes monday.parquet tuesday.parquet --beyond-chance
      dpsample changes week1-*.parquet week2-*.parquet --fdr 0.01
      dpsample changes week-*.parquet today.parquet --first 7
    """
    if first is None:
        if len(releases) % 2:
            raise click.UsageError(
                "an odd number of files cannot be divided into halves; state how many are --first"
            )
        first = len(releases) // 2
    if not 1 <= first < len(releases):
        raise click.UsageError("--first must leave at least one file before and one after")
    before, after = opened(releases[:first]), opened(releases[first:])
    print_changes(changes_between(before, after, **options), form)
