"""The command that looks ahead: plan."""

from collections.abc import Iterable, Sequence
from itertools import chain, groupby
from typing import Any

import click

from dpsample.cli import options
from dpsample.cli.printing import progress_bar, show
from dpsample.exact import text

EPSILONS = ("0.1", "0.25", "0.5", "1", "2")

# where frequencies come from: the data, a formula, or a file
frequencies = options.together(
    click.argument("source", nargs=-1),
    click.option("--key", "-k", multiple=True, help="Key column of SOURCE; repeat it for a key of several."),
    click.option("--zipf", type=float, metavar="ALPHA", help="No data: frequencies proportional to rank ** -ALPHA."),
    click.option("--keys", type=int, help="With --zipf: how many keys."),
    click.option("--elements", type=int, help="With --zipf: about how many elements; else the last key has one."),
    click.option(
        "--histogram", help="No data: a file with the columns frequency and keys (Parquet, CSV, Arrow, JSON)."
    ),
    options.columns,
)


@click.command()
@frequencies
@click.option("--epsilon", "-e", multiple=True, help=f"One or several, as 0.1,0.5,1.  [default: {','.join(EPSILONS)}]")
@click.option("--delta", "-d", multiple=True, help="One or several; by the number of elements unless told.")
@click.option("--max-keys-per-user", multiple=True, help="One or several; frequencies are then numbers of users.")
@click.option("--tau", multiple=True, help="Sampling threshold of ppswor and priority, one or several.")
@click.option("--sample-size", multiple=True, help="Sample about so many keys instead, one or several sizes.")
@click.option("--size-share", default="0.05", show_default=True, help="Share of epsilon that --sample-size costs.")
@click.option(
    "--scheme",
    type=click.Choice(["all", "ppswor", "priority"]),
    default="all",
    show_default=True,
    help="Keep all keys, or sample them with probability 1 - exp(-tau w) or min(1, tau w).",
)
@click.option("--power", default="1", show_default=True, help="Weight w of a key: its frequency to this power.")
@click.option("--cap", type=int, help="Weight w of a key: min(frequency, cap) to the power.")
@click.option("--with-total", is_flag=True, help="The release is to have a private total, for a share of epsilon.")
@click.option("--total-share", default="0.05", show_default=True, help="Share of epsilon that --with-total costs.")
@click.option("--share", type=float, default=0.01, show_default=True, help="Share of the keys that a question selects.")
@click.option("--goal", help="Find the smallest epsilon with keys>=N, elements>=SHARE, nrmse<=ERROR, selection<=ERROR.")
@options.resources
@options.output_format
def plan(form: str, **given: Any) -> None:
    """Say what a release would bring, before any budget is spent: for a grid of settings, or for a goal.

    Frequencies come from SOURCE, which makes the output private, from --zipf or from --histogram.

    \b
    Examples:
      dpsample plan --zipf 1 --keys 100000
      dpsample plan --zipf 1 --keys 100000 --delta 1e-8 --goal "nrmse<=0.25"
      dpsample plan events.parquet --key query --epsilon 0.5,1 --scheme ppswor --sample-size 1000,10000
      dpsample plan clicks.parquet -k page --user user_id --max-keys-per-user 5,20 --goal "keys>=1000"
    """
    check_input(given)
    lists = {name: listed(given[name]) for name in ("epsilon", "delta", "max_keys_per_user", "tau", "sample_size")}
    if given["goal"] is not None and lists["epsilon"]:
        raise click.UsageError("--goal finds the epsilon; found --epsilon as well; leave one of them out")
    from dpsample.planning.forecast import Outlook, check_selection, outlook
    from dpsample.planning.goals import Goal, default_delta, settings, smallest_epsilon
    from dpsample.planning.setting import Setting
    from dpsample.planning.text import command

    goal = None if given["goal"] is None else Goal.of(given["goal"])
    share = check_selection(given["share"])
    users: list[int | None] = [whole(k, "--max-keys-per-user") for k in lists["max_keys_per_user"]]
    users = users or [None]
    epsilons = ["1"] if goal else lists["epsilon"] or EPSILONS
    ways = _samplings(given, lists)
    total = given["total_share"] if given["with_total"] else False

    def of(k: Any, deltas: Sequence[Any]) -> list[Setting]:
        return list(settings(epsilons, deltas, ways, [k], total))

    for k in users:
        of(k, lists["delta"] or ["1e-9"])  # bad ones are refused before anything is read
    found: list[Outlook] = []
    with progress_bar() as progress:
        for k in users:
            counted = frequencies_of(given, k, progress)
            todo = of(k, lists["delta"] or [default_delta(counted)])
            for n, setting in enumerate(todo):
                found.append(
                    smallest_epsilon(counted, setting, goal, share) if goal else outlook(counted, setting, share)
                )
                progress("planning", n + 1, len(todo))
    notice = notice_of(given)
    release = command(found[0].setting, options.source_of(given) if given["source"] else None)
    result: dict[str, Any] = {
        **({"NOT private": notice} if notice else {}),
        "goal": None if goal is None else str(goal),
        "delta_by_number_of_elements": not lists["delta"],
        "outlooks": [each.to_json() for each in found],
        "release": release,
    }
    lines = [
        *([notice, ""] if notice else []),
        *_tables(found),
        *_legend(found, share, goal, chosen=not lists["delta"], private=bool(notice)),
        "",
        f"Next: {release}",
        *([notice] if notice else []),
    ]
    show(result, lines, form)


def check_input(given: dict[str, Any]) -> None:
    """Refuse anything but one way to get frequencies."""
    ways = {"SOURCE": bool(given["source"]), "--zipf": given["zipf"] is not None, "--histogram": given["histogram"]}
    named = [name for name, there in ways.items() if there]
    if len(named) != 1:
        raise click.UsageError(
            f"frequencies come from one of SOURCE, --zipf and --histogram; found {' and '.join(named) or 'none'}; "
            "give one, such as --zipf 1 --keys 100000"
        )
    if given["source"] and not given["key"]:
        raise click.UsageError("a SOURCE needs its key column; found none; add --key COLUMN")
    if given["zipf"] is not None and given["keys"] is None:
        raise click.UsageError("--zipf needs a number of keys; found none; add, for example, --keys 100000")
    of_source = ("key", "frequency", "drop_null", "table", "query", "input_format", "user")
    others = [name for name in of_source if given[name] and not given["source"]]
    others += [name for name in ("keys", "elements") if given[name] is not None and given["zipf"] is None]
    if others:
        option = f"--{others[0].replace('_', '-')}"
        raise click.UsageError(f"{option} does not go with {named[0]}; leave {option} out")


def listed(values: Iterable[str]) -> list[str]:
    """What an option lists, by commas or by repeating it; each once."""
    return list(dict.fromkeys(part.strip() for value in values for part in value.split(",")))


def whole(value: str, option: str) -> int:
    """Read a whole number."""
    try:
        return int(value)
    except ValueError:
        raise click.UsageError(f"{option} takes whole numbers; found {value!r}; write them as 5,20") from None


def _samplings(given: dict[str, Any], lists: dict[str, list[str]]) -> list[Any]:
    """How keys are sampled: all of the taus, then all of the sizes."""
    single = {"scheme": given["scheme"], "power": given["power"], "cap": given["cap"]}
    sizes = [
        options.size_of(
            {**single, "tau": None, "size_share": given["size_share"], "sample_size": whole(n, "--sample-size")}
        )
        for n in lists["sample_size"]
    ]
    taus: Sequence[str | None] = lists["tau"] or ([] if sizes else [None])
    return [options.sampling_of({**single, "tau": tau}) for tau in taus] + sizes


def frequencies_of(given: dict[str, Any], max_keys: int | None, progress: Any) -> Any:
    """Read, count or make up the frequencies."""
    from dpsample.planning.frequencies import Frequencies
    from dpsample.private.count import count_frequencies

    if given["histogram"] is not None:
        return Frequencies.read(given["histogram"])  # as if private, since nobody says
    if given["zipf"] is not None:
        return Frequencies.zipf(given["zipf"], given["keys"], given["elements"])
    with options.engine_of(given) as engine:
        return count_frequencies(options.source_of(given), max_keys_per_user=max_keys, engine=engine, progress=progress)


def notice_of(given: dict[str, Any]) -> str | None:
    """What must be said of how private the frequencies are."""
    from dpsample.planning.text import HISTOGRAM, PRIVATE

    return PRIVATE if given["source"] else HISTOGRAM if given["histogram"] is not None else None


def _tables(found: list[Any]) -> list[str]:
    """One table for all settings that differ in epsilon only."""
    from dpsample.planning.text import COLUMNS

    tables = {title: [("epsilon", *COLUMNS), *chain(*map(_rows, group))] for title, group in groupby(found, _title)}
    widths = [max(map(len, column)) for column in zip(*chain(*tables.values()), strict=True)]
    lines = chain(*([title, *(_aligned(row, widths) for row in table), ""] for title, table in tables.items()))
    notes = dict.fromkeys(note for each in found for note in each.notes)
    return [*lines, *(f"Note: {note}." for note in notes), *([""] if notes else [])]


def _title(each: Any) -> str:
    """What all rows of a table have in common."""
    from dpsample.presentation.explain import explain_protected

    setting, how = each.setting, "all keys are kept"
    if each.sampling.name != "keep all":
        form = each.sampling.to_json()
        weight = [f"{name} {form[name]}" for name in ("power", "cap") if form.get(name) not in (None, "1")]
        how = ", ".join([f"{form['scheme']} with tau {form['tau']}", *weight])
    sized = f" (for a sample of {setting.size.size:,} keys)" if setting.size else ""
    return (
        f"delta {text(setting.privacy.delta)}, for {explain_protected(setting.max_keys_per_user)}\n"
        f"{each.frequencies.total:,} keys with {each.frequencies.elements:,} elements; {how}{sized}"
    )


def _rows(each: Any) -> list[tuple[str, ...]]:
    from dpsample.planning.text import cells

    return [(text(each.setting.privacy.epsilon) if m is each.pws else "", *cells(m)) for m in each.methods]


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """The method to the left, numbers to the right."""
    cells = [cell.ljust(w) if n == 1 else cell.rjust(w) for n, (cell, w) in enumerate(zip(row, widths, strict=True))]
    return "  ".join(cells).rstrip()


def _legend(found: list[Any], share: float, goal: Any, chosen: bool, private: bool) -> list[str]:
    """A sentence for each column, and for each method that is there."""
    from dpsample.planning.text import METHODS, UNCOVERED, columns

    there = {method.method for each in found for method in each.methods}
    told = columns(share) | {name: words for name, words in METHODS.items() if name in there}
    lines = [f"{name:<20}  {words}" for name, words in told.items()]
    if goal is not None:
        lines.append(f"Each epsilon is the smallest, to 3 figures, with which PWS reaches {goal}.")
    if chosen:
        lines.append("delta was chosen by the number of elements: a power of ten, at most a tenth of 1 / that number.")
    return [*lines, UNCOVERED] if private else lines
