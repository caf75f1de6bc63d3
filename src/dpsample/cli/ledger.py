"""The `dpsample ledger` commands."""

import json

import click

from dpsample.cli import options
from dpsample.errors import InvalidValue
from dpsample.privacy import Privacy


@click.group("ledger")
def ledger_commands() -> None:
    """Keep account of a dataset's budget: each release is entered before it appears, or refused.

    \b
    Examples:
      dpsample ledger new events.ledger --dataset events --epsilon 2 --delta 1e-6
      dpsample release events.parquet -k query -e 1 -d 1e-8 --ledger events.ledger -o queries.private.parquet
      dpsample ledger show events.ledger
    """


@ledger_commands.command()
@click.argument("file")
@click.option("--dataset", required=True, help="Name of the dataset, for people.")
@click.option("--epsilon", "-e", required=True, help="Epsilon that all releases may spend together.")
@click.option("--delta", "-d", required=True, help="Delta that all releases may spend together.")
@click.option(
    "--unit",
    type=click.Choice(["element", "user"]),
    default="element",
    show_default=True,
    help="Whom the budget protects.",
)
@click.option("--each-epsilon", help="The most that a single release may spend; then more of them fit.")
@click.option("--each-delta", help="The same for delta; both or none.")
@options.output_format
def new(
    file: str,
    dataset: str,
    epsilon: str,
    delta: str,
    unit: str,
    each_epsilon: str | None,
    each_delta: str | None,
    form: str,
) -> None:
    """Start a ledger. A file that exists is never replaced.

    With --each-epsilon and --each-delta, the number of releases is limited by the optimal composition theorem, which
    allows more small ones than the sums do. It must be fixed now, before anything is seen.

    \b
    Examples:
      dpsample ledger new events.ledger --dataset events --epsilon 2 --delta 1e-6
      dpsample ledger new clicks.ledger --dataset clicks -e 3 -d 1e-6 --unit user --each-epsilon 0.1 --each-delta 1e-9
    """
    from dpsample.accounting.ledger import new_ledger

    if (each_epsilon is None) != (each_delta is None):
        raise click.UsageError("--each-epsilon and --each-delta go together; found one; add the other")
    each = None if each_epsilon is None or each_delta is None else Privacy(each_epsilon, each_delta)
    made = new_ledger(file, dataset, Privacy(epsilon, delta), unit, each)
    click.echo(json.dumps(made.to_json(), indent=2, ensure_ascii=False) if form == "json" else str(made))


@ledger_commands.command()
@click.argument("file")
@options.output_format
def show(file: str, form: str) -> None:
    """Show a ledger: its budget, each release, what is spent and what is left.

    \b
    Example:
      dpsample ledger show events.ledger
    """
    from dpsample.accounting.ledger import read_ledger

    found = read_ledger(file)
    click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False) if form == "json" else str(found))


@ledger_commands.command()
@click.argument("file")
@click.argument("releases", nargs=-1)
@click.option("--head", help="A hash that was noted down before: the ledger must still have it.")
def verify(file: str, releases: tuple[str, ...], head: str | None) -> None:
    """Check that a ledger's lines follow from one another, and that releases are entered in it.

    \b
    Example:
      dpsample ledger verify events.ledger queries.private.parquet
    """
    from dpsample.accounting.ledger import read_ledger
    from dpsample.release.release import read_release

    found = read_ledger(file)
    if head is not None and head not in found.hashes:
        raise InvalidValue(
            "the ledger must have the line that was noted down", "no such line", "lines were cut off: restore a copy"
        )
    entries = {entry.hash: entry for entry in found.entries}
    for name in releases:
        release = read_release(name)
        entry = entries.get(release.terms.ledger or "")
        if entry is None or entry.privacy != release.privacy or found.unit != release.unit:
            raise InvalidValue(
                f"the release {name!r} must be entered in the ledger, with what it spent",
                "no such line" if entry is None else "a line that says something else",
                "look for another ledger, or for a copy of this one from before",
            )
    lines = f"{len(found.entries):,} release{'' if len(found.entries) == 1 else 's'}"
    click.echo(f"{file}: a whole ledger of {found.dataset!r}, {lines}; head {found.head}")
