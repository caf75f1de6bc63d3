"""The `dpsample ledger` commands."""

from typing import Any

import click

from dpsample.answers.entered import verify_releases
from dpsample.cli import options
from dpsample.cli.printing import show as print_result
from dpsample.ledger.ledger import new_ledger, read_ledger
from dpsample.privacy import Privacy


@click.group("ledger")
def ledger_commands() -> None:
    """Keep account of a dataset's budget: each release reserves its part before it is drawn, or is refused.

    \b
    Examples:
      dpsample ledger new events.ledger --dataset events --epsilon 2 --delta 1e-6
      dpsample release events.parquet -k query -e 1 -d 1e-8 --ledger events.ledger -o queries.private.parquet
      dpsample ledger show events.ledger
    """


@ledger_commands.command()
@click.argument("file")
@click.option("--dataset", required=True, help="Name of the dataset, for people.")
@click.option(
    "--epsilon", "-e", required=True, help="Epsilon that all releases may spend together."
)
@click.option("--delta", "-d", required=True, help="Delta that all releases may spend together.")
@click.option(
    "--unit",
    type=click.Choice(["element", "user"]),
    default="element",
    show_default=True,
    help="Unit of privacy.",
)
@click.option(
    "--each-epsilon", help="The most that a single release may spend; then more of them fit."
)
@click.option("--each-delta", help="The same for delta; both or none.")
@click.option(
    "--account",
    type=click.Choice(["epsilon", "renyi"]),
    default="epsilon",
    show_default=True,
    help="What adds up: epsilon and delta, or Rényi divergences, which leave room for many releases.",
)
@click.option(
    "--aside",
    help="With --account renyi: share of delta for the deltas of the releases.  [default: 0.1]",
)
@click.option(
    "--parts",
    help="Name of parts that do not overlap, such as the column day. Each has all of the budget.",
)
@options.output_format
def new(file: str, form: str, **given: Any) -> None:
    """Start a ledger. A file that exists is never replaced.

    With --each-epsilon and --each-delta, the number of releases is limited by the optimal composition theorem, which
    allows more small ones than the sums do. It must be fixed now, before anything is seen.

    With --account renyi, each release enters its Rényi divergences, and releases may differ in size. One is allowed
    while the sum of at least one order stays within that order's budget.

    With --parts day, releases with --part day=VALUE cost the maximum over the days, not the sum. With --unit user, one
    user within one day is protected, and every release names its part.

    \b
    Examples:
      dpsample ledger new events.ledger --dataset events --epsilon 2 --delta 1e-6
      dpsample ledger new clicks.ledger --dataset clicks -e 3 -d 1e-6 --unit user --each-epsilon 0.1 --each-delta 1e-9
      dpsample ledger new daily.ledger --dataset events -e 3 -d 1e-6 --account renyi
      dpsample ledger new days.ledger --dataset clicks -e 1 -d 1e-6 --unit user --parts day
    """
    each_epsilon = given["each_epsilon"]
    each_delta = given["each_delta"]
    if (each_epsilon is None) != (each_delta is None):
        raise click.UsageError(
            "--each-epsilon and --each-delta must be given together; add the other one"
        )
    if given["aside"] is not None and given["account"] != "renyi":
        raise click.UsageError("--aside cannot be used without --account renyi; leave --aside out")
    stated = {name: given[name] for name in ("unit", "account", "parts")}
    if given["aside"] is not None:
        stated["aside"] = given["aside"]
    each = None if each_epsilon is None else Privacy(each_epsilon, each_delta)
    budget = Privacy(given["epsilon"], given["delta"])
    ledger = new_ledger(file, given["dataset"], budget, each=each, **stated)
    print_result(ledger.to_json(), [str(ledger)], form)


@ledger_commands.command()
@click.argument("file")
@options.output_format
def show(file: str, form: str) -> None:
    """Show a ledger: its budget, each release, what is spent and what is left.

    A release that is reserved and not confirmed is under way, or was lost in a crash. It counts as spent.

    \b
    Example:
      dpsample ledger show events.ledger
    """
    ledger = read_ledger(file)
    print_result(ledger.to_json(), [str(ledger)], form)


@ledger_commands.command()
@click.argument("file")
@click.argument("releases", nargs=-1)
@click.option("--head", help="A hash that was noted down before: the ledger must still have it.")
@options.output_format
def verify(file: str, releases: tuple[str, ...], head: str | None, form: str) -> None:
    """Check the chain of a ledger's lines, and that releases are in it, with what they spent and on what.

    Prints the entry of each release, and the entries for which no release was named.

    \b
    Example:
      dpsample ledger verify events.ledger queries.private.parquet
    """
    ledger = read_ledger(file)
    matches = verify_releases(ledger, releases, head)
    matched = {match.number for match in matches}
    not_named = []
    for number, entry in enumerate(ledger.entries, 1):
        if number not in matched:
            not_named.append((number, entry))
    count = len(ledger.entries)
    entries = "1 entry" if count == 1 else f"{count:,} entries"
    lines = [f"{file}: a complete ledger of {ledger.dataset!r}, {entries}; head {ledger.head}"]
    lines += [f"  {match}" for match in matches]
    for number, entry in not_named:
        lines.append(f"  no release was named for entry {number}: {entry}")
    result = {
        "ledger": file,
        "dataset": ledger.dataset,
        "entries": count,
        "head": ledger.head,
        "matched": [match.to_json() for match in matches],
        "not_named": [{"entry": number, **entry.to_json()} for number, entry in not_named],
    }
    print_result(result, lines, form)
