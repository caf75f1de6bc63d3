"""dpsample plan."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import click

from dpsample.cli import options
from dpsample.cli.printing import show, shown_stages
from dpsample.release import options as released
from dpsample.release.option_words import read_sampling, read_size, read_sums, read_total

PLANNED = ("all", "ppswor", "priority")
EPSILONS = ("0.1", "0.25", "0.5", "1", "2")

# where frequencies come from: the data, a formula, or a file
frequencies = options.together(
    click.argument("source", nargs=-1),
    click.option("--key", "-k", multiple=True, help="Key column of SOURCE. Repeat it for a key of several columns."),
    click.option(
        "--zipf", type=float, metavar="ALPHA", help="Use no data: frequencies proportional to rank ** -ALPHA."
    ),
    click.option("--keys", callback=lambda *given: _number_of_keys(given[-1]), help="With --zipf: the number of keys."),
    click.option(
        "--elements",
        type=int,
        help="With --zipf: the approximate number of elements.  [default: the last key has one element]",
    ),
    click.option(
        "--histogram",
        help="Use no data: a Parquet, CSV, Arrow or JSON file with the columns frequency and keys.",
    ),
    click.option("--release", help="Use no data: an earlier release. Keys below its detection threshold are unknown."),
    options.columns,
)


@click.command()
@frequencies
@options.several(released.EPSILON, f"One or more values.  [default: {','.join(EPSILONS)}]")
@options.several(released.ZCDP)
@options.several(released.GDP)
@options.several(released.DELTA, "One or more values.  [default: chosen by the number of elements]")
@options.several(released.MAX_KEYS)
@options.several(released.TAU)
@options.several(released.SAMPLE_SIZE)
@options.click_option(replace(released.SCHEME, choices=PLANNED))
@options.of_release("sampling", without=(released.SCHEME, released.TAU, released.SEED))
@options.of_release("size", without=(released.SAMPLE_SIZE,))
@options.of_release("amounts", "total")
@click.option("--share", type=float, default=0.01, show_default=True, help="Share of the keys that a question selects.")
@click.option(
    "--goal",
    help="Find the smallest epsilon that reaches a goal: keys>=N, elements>=SHARE, nrmse<=ERROR or selection<=ERROR.",
)
@options.resources
@options.output_format
def plan(form: str, **arguments: Any) -> None:
    """Forecast a release before any budget is spent. Plans a grid of settings, or the smallest epsilon for a goal.

    Frequencies come from SOURCE, --zipf, --histogram or --release. The output for a SOURCE is NOT private.
    Options with one or more values take them separated by commas, or repeated.

    \b
    Examples:
      dpsample plan --zipf 1 --keys 100000
      dpsample plan --zipf 1 --keys 100000 --delta 1e-8 --goal "nrmse<=0.25"
      dpsample plan --release queries.private.parquet --goal "elements>=0.9"
      dpsample plan events.parquet --key query --epsilon 0.5,1 --scheme ppswor --sample-size 1000,10000
      dpsample plan clicks.parquet -k page --user user_id
      dpsample plan clicks.parquet -k page --user user_id --max-keys-per-user 5,20 --goal "keys>=1000"
    """
    check_input(arguments)
    arguments["delta"] = arguments["delta"] or release_delta(arguments)
    unbounded = arguments["user"] and not arguments["max_keys_per_user"]
    if not unbounded and (arguments["rows"] is not None or arguments["sums"] or arguments["clips"]):
        raise click.UsageError(
            "--rows and --sum go with users without a contribution bound; found another plan; name the --user column "
            "and leave --max-keys-per-user out, or leave these out"
        )
    result = _plan_of_users(arguments) if unbounded else _plan(arguments)
    show(result.to_json(), result.lines(), form)


def _plan(arguments: dict[str, Any]) -> Any:
    """Plan a release of elements, or of users with a contribution bound."""
    from dpsample.planning.forecast import check_selection
    from dpsample.planning.goals import Goal
    from dpsample.planning.text import Plan

    stated, _ = _stated(arguments)
    if arguments["goal"] is not None and arguments[stated]:
        raise click.UsageError(f"--goal finds the epsilon; found --{stated} as well; leave one of them out")
    goal = None if arguments["goal"] is None else Goal.of(arguments["goal"])
    share, grid = check_selection(arguments["share"]), _grid(arguments)
    with shown_stages() as stages:
        by_bound = frequencies_of(arguments, stages, grid.max_keys_per_user)
        forecasts = grid.forecasts(by_bound.__getitem__, share, goal, stages)
    source = options.source_of(arguments) if arguments["source"] else None
    return Plan(forecasts, share, goal, not grid.delta, notice_of(arguments), source)


def _plan_of_users(arguments: dict[str, Any]) -> Any:
    """Plan a release of users without a contribution bound."""
    from dpsample.planning.goals import ANY_DELTA, default_delta
    from dpsample.planning.users import forecast_users
    from dpsample.planning.users_text import UsersPlan
    from dpsample.private.count import CountedUsers

    if arguments["goal"] is not None:
        raise click.UsageError("--goal goes with --max-keys-per-user if users are protected; found none; add it")
    stated, _ = _stated(arguments)
    if stated != "epsilon":
        raise click.UsageError(
            f"users' keys are found with an --epsilon, or within a contribution bound; found --{stated}; "
            "add --max-keys-per-user, or state --epsilon"
        )
    source, delta = options.source_of(arguments), listed(arguments["delta"])
    amounts = _users_settings(arguments, delta or [ANY_DELTA])[0].amounts  # refuses bad ones before anything is read
    with options.engine_of(arguments) as engine, shown_stages() as stages:
        engine.check(source.with_amounts(amounts))
        numbers = CountedUsers(source, engine, stages)
        todo = _users_settings(arguments, delta or [default_delta(numbers.users)])
        forecasts = []
        for done, setting in enumerate(todo, 1):
            forecasts.append(forecast_users(numbers, setting))
            stages("planning", done, len(todo))
    return UsersPlan(forecasts, not delta, source)


def _users_settings(arguments: dict[str, Any], deltas: Sequence[Any]) -> list[Any]:
    from dpsample.accounting.amounts import amounts_of
    from dpsample.planning.goals import settings

    epsilons, total = _stated(arguments)[1], read_total(arguments)
    amounts = amounts_of(arguments["rows"], read_sums(arguments))
    return list(settings(epsilons, deltas, _samplings(arguments), total=total, discover="ask", amounts=amounts))


def _grid(arguments: dict[str, Any]) -> Any:
    """The settings to plan; a grid refuses bad ones before anything is read."""
    from dpsample.planning.goals import Grid

    stated, values = _stated(arguments)
    return Grid(
        ["1"] if arguments["goal"] is not None else values,  # a goal finds its own
        listed(arguments["delta"]),
        _samplings(arguments),
        bounds_of(arguments) or [None],
        read_total(arguments),
        stated,
    )


def _stated(arguments: dict[str, Any]) -> tuple[Any, Sequence[str]]:
    """Return how budgets are stated, epsilon, zcdp or gdp, and their values."""
    given = [name for name in ("epsilon", "zcdp", "gdp") if arguments[name]]
    if len(given) > 1:
        found = " and ".join(f"--{name}" for name in given)
        raise click.UsageError(f"budgets are stated by one of --epsilon, --zcdp and --gdp; found {found}; leave one")
    return (given[0], listed(arguments[given[0]])) if given else ("epsilon", EPSILONS)


def check_input(arguments: dict[str, Any]) -> None:
    """Check that frequencies come from one place, and that all options belong to it."""
    places = {
        "SOURCE": bool(arguments["source"]),
        "--zipf": arguments["zipf"] is not None,
        "--histogram": arguments["histogram"],
        "--release": arguments["release"],
    }
    named = [name for name, present in places.items() if present]
    if len(named) != 1:
        raise click.UsageError(
            f"frequencies come from one of {', '.join(places)}; found {' and '.join(named) or 'none'}; "
            "give one, such as --zipf 1 --keys 100000"
        )
    if arguments["source"] and not arguments["key"]:
        raise click.UsageError("a SOURCE needs its key column; found none; add --key COLUMN")
    if arguments["zipf"] is not None and arguments["keys"] is None:
        raise click.UsageError("--zipf needs a number of keys; found none; add, for example, --keys 100000")
    of_source = ("frequency", "drop_null", "table", "query", "input_format", "user", "delimiter", "encoding", "null")
    others = [name for name in ("key", "key_as", *of_source) if arguments[name] and not arguments["source"]]
    others += ["no_header"] if not arguments["header"] and not arguments["source"] else []
    others += [name for name in ("keys", "elements") if arguments[name] is not None and arguments["zipf"] is None]
    if others:
        option = f"--{others[0].replace('_', '-')}"
        raise click.UsageError(f"{option} does not go with {named[0]}; found both; leave {option} out")


def listed(values: Iterable[str]) -> list[str]:
    """Return the values of an option, separated by commas or repeated; each once."""
    return list(dict.fromkeys(part.strip() for value in values for part in value.split(",")))


def bounds_of(arguments: dict[str, Any]) -> list[int | None]:
    """Return the numbers of keys per user; that of an earlier release is known."""
    bounds: list[int | None] = [
        _integer(value, "--max-keys-per-user") for value in listed(arguments["max_keys_per_user"])
    ]
    if arguments["release"] is None:
        return bounds
    own = _earlier(arguments).terms.max_keys
    if bounds not in ([], [own]):
        raise click.UsageError(
            f"the frequencies of a release are those of its own contribution bound, {own or 'none'}; found "
            "--max-keys-per-user; leave it out"
        )
    return [own]


def release_delta(arguments: dict[str, Any]) -> tuple[str, ...]:
    """Return the delta of the earlier release, if there is one."""
    from dpsample.exact import text

    return () if arguments["release"] is None else (text(_earlier(arguments).privacy.delta),)


def _earlier(arguments: dict[str, Any]) -> Any:
    from dpsample.release.release import read_release

    return read_release(arguments["release"])


def _number_of_keys(value: Any) -> int | None:
    """Read the number of keys; a list of known keys is an option of a release alone."""
    if value is None or str(value).isdecimal():
        return None if value is None else int(value)
    raise click.UsageError(
        f"--keys of a plan is the number of keys of --zipf; found {value!r}; leave a list of known keys out, since a "
        "release reports all of them, and what is planned are the others"
    )


def _integer(value: str, option: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise click.UsageError(f"{option} takes whole numbers; found {value!r}; write them as 5,20") from None


def _samplings(arguments: dict[str, Any]) -> list[Any]:
    """Return the sampling schemes: one for each tau, then one for each sample size."""
    sizes = [
        read_size({**arguments, "tau": None, "sample_size": _integer(size, "--sample-size")})
        for size in listed(arguments["sample_size"])
    ]
    taus: Sequence[str | None] = listed(arguments["tau"]) or ([] if sizes else [None])
    samplings: list[Any] = [read_sampling({**arguments, "tau": tau}) for tau in taus]
    samplings += sizes
    least = arguments["at_least"]
    return samplings if least is None else [released.kept_from(least, sampling) for sampling in samplings]


def frequencies_of(arguments: dict[str, Any], stages: Any, bounds: Sequence[int | None]) -> dict[int | None, Any]:
    """Return the frequencies for each number of keys per user: from a file, by a formula, or counted in the data."""
    from dpsample.planning.earlier import estimated_frequencies
    from dpsample.planning.frequencies import Frequencies
    from dpsample.private.count import count_by_bound

    if arguments["source"]:
        with options.engine_of(arguments) as engine:
            return count_by_bound(options.source_of(arguments), bounds, engine, stages)
    if arguments["release"] is not None:
        same = estimated_frequencies(_earlier(arguments))
    elif arguments["histogram"] is not None:
        same = Frequencies.read(arguments["histogram"])  # counts as private, since its origin is unknown
    else:
        same = Frequencies.zipf(arguments["zipf"], arguments["keys"], arguments["elements"])
    return dict.fromkeys(bounds, same)


def notice_of(arguments: dict[str, Any]) -> str | None:
    """Return the warning that goes with these frequencies, if any."""
    from dpsample.planning.text import privacy_notice

    return privacy_notice(bool(arguments["source"]), arguments["histogram"] is not None)
