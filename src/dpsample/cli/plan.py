"""dpsample plan, and the options and the plan that it shares with dpsample explore."""

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import click

from dpsample.accounting.amounts import amounts_of
from dpsample.answers.release import read_release
from dpsample.cli import options
from dpsample.cli.printing import Stages, show, shown_stages
from dpsample.exact import text
from dpsample.interrupts import restart
from dpsample.planning.earlier import estimated_frequencies
from dpsample.planning.forecast import Forecast, check_selection, forecast
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.goals import Goal, smallest_epsilon
from dpsample.planning.grid import Grid
from dpsample.planning.plan import HISTOGRAM, Plan
from dpsample.planning.setting import Setting
from dpsample.planning.users import forecast_users
from dpsample.private.count import CountedUsers, count_by_bound
from dpsample.release import options as released
from dpsample.release.option_words import read_sampling, read_size, read_sums, read_total

_SCHEMES = ("all", "ppswor", "priority")  # whose forecasts are computed
EPSILONS = ("0.1", "0.25", "0.5", "1", "2")
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

# where frequencies come from: the data, a formula, or a file
_source = click.argument("source", nargs=-1)
_key = click.option(
    "--key",
    "-k",
    multiple=True,
    help="Key column of SOURCE. Repeat it for a key of several columns.",
)
_zipf = click.option(
    "--zipf",
    type=float,
    metavar="ALPHA",
    help="Use no data: frequencies proportional to rank ** -ALPHA.",
)
_keys = click.option(
    "--keys",
    callback=lambda *given: _number_of_keys(given[-1]),
    help="With --zipf: the number of keys.",
)
_elements = click.option(
    "--elements",
    type=int,
    help="With --zipf: the approximate number of elements.  [default: the last key has one element]",
)
_histogram = click.option(
    "--histogram",
    help="Use no data: a Parquet, CSV, Arrow or JSON file with the columns frequency and keys.",
)
_release = click.option(
    "--release",
    help="Use no data: an earlier release. Keys below its detection threshold are unknown.",
)
_frequencies = options.together(
    _source, _key, _zipf, _keys, _elements, _histogram, _release, options.columns
)


_share = click.option(
    "--share",
    type=float,
    default=0.01,
    show_default=True,
    help="Share of the keys that a question selects.",
)
_budgets = options.together(
    options.several(released.EPSILON, f"One or more values.  [default: {','.join(EPSILONS)}]"),
    options.several(released.ZCDP),
    options.several(released.GDP),
    options.several(
        released.DELTA, "One or more values.  [default: chosen by the number of elements]"
    ),
)
_samples = options.together(
    options.several(released.TAU),
    options.several(released.SAMPLE_SIZE),
    options.click_option(replace(released.SCHEME, choices=_SCHEMES)),
    options.of_release("sampling", without=(released.SCHEME, released.TAU, released.SEED)),
    options.of_release("size", without=(released.SAMPLE_SIZE,)),
)
_settings = options.together(
    _budgets,
    options.several(released.MAX_KEYS),
    _samples,
    options.of_release("amounts", "total"),
    _share,
)
planned = options.together(_frequencies, _settings, options.resources)


@click.command()
@planned
@click.option(
    "--goal",
    help="Find the smallest epsilon that reaches a goal: keys>=N, elements>=SHARE, nrmse<=ERROR or selection<=ERROR.",
)
@options.output_format
def plan(form: str, goal: str | None, **arguments: Any) -> None:
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
    made = plan_of(arguments, EPSILONS, goal)
    show(made.to_json(), made.lines(), form)


def plan_of(arguments: dict[str, Any], epsilons: Sequence[str], goal: str | None = None) -> Plan:
    """Return the plan that the options describe, for these epsilons by default."""
    check_input(arguments)
    share = check_selection(arguments["share"])
    aim = None if goal is None else Goal.of(goal)
    unbounded = bool(arguments["user"]) and not arguments["max_keys_per_user"]
    _check_kind(arguments, unbounded, goal)
    grid = _grid(arguments, epsilons, unbounded, goal)
    with shown_stages() as stages:
        if unbounded:
            forecasts = _forecasts_of_users(arguments, grid, stages)
        else:
            forecasts = _forecasts(arguments, grid, share, aim, stages)
    return Plan(
        forecasts,
        aim,
        default_delta=not grid.delta,
        described=_described(arguments),
        source=options.source_of(arguments) if arguments["source"] else None,
        warning=HISTOGRAM if arguments["histogram"] is not None else None,
    )


def _check_kind(arguments: dict[str, Any], unbounded: bool, goal: str | None) -> None:
    """Refuse options that do not go with the users that are planned, before anything is read."""
    stated = _stated(arguments)
    if goal is not None and stated is not None:
        raise click.UsageError(
            f"--goal finds the epsilon, so --{stated} cannot be given; leave one of them out"
        )
    if goal is not None and unbounded:
        raise click.UsageError(
            "--goal goes with --max-keys-per-user if users are protected; add it"
        )
    if unbounded and stated in ("zcdp", "gdp"):
        raise click.UsageError(
            f"users' keys are found with an --epsilon, or within a contribution bound, not with --{stated}; "
            "add --max-keys-per-user, or state --epsilon"
        )
    if not unbounded and (arguments["rows"] is not None or arguments["sums"] or arguments["clips"]):
        raise click.UsageError(
            "--rows and --sum go with users without a contribution bound; name the --user column and leave "
            "--max-keys-per-user out, or leave these out"
        )


def _stated(arguments: dict[str, Any]) -> Any:
    """Return the option by which budgets are stated: epsilon, zcdp or gdp, or None by default."""
    given = [name for name in ("epsilon", "zcdp", "gdp") if arguments[name]]
    if len(given) > 1:
        names = " and ".join(f"--{name}" for name in given)
        raise click.UsageError(f"{names} cannot be given together; state budgets by one of them")
    return given[0] if given else None


def _grid(
    arguments: dict[str, Any], epsilons: Sequence[str], unbounded: bool, goal: str | None
) -> Grid:
    """Return the settings to plan; the grid refuses bad ones before anything is read."""
    stated: Any = _stated(arguments) or "epsilon"
    values = _listed(arguments[stated]) or epsilons
    if goal is not None:
        values = ["1"]  # stands for the epsilon that the goal finds
    return Grid(
        values,
        _listed(arguments["delta"]) or _deltas_of_release(arguments),
        _samplings(arguments),
        _bounds(arguments) or [None],
        total=read_total(arguments),
        discover="ask" if unbounded else None,
        amounts=amounts_of(arguments["rows"], read_sums(arguments)),
        stated=stated,
    )


def _forecasts(
    arguments: dict[str, Any], grid: Grid, share: float, goal: Goal | None, stages: Stages
) -> list[Forecast]:
    """Return the forecasts of elements, or of users with a contribution bound."""

    def forecast_or_search(frequencies: Frequencies, setting: Setting) -> Forecast:
        if goal is None:
            return forecast(frequencies, setting, share)
        return smallest_epsilon(frequencies, setting, goal, share, stages)

    by_bound = _frequencies_by_bound(arguments, stages, grid.max_keys_per_user)
    return grid.forecasts(by_bound.__getitem__, forecast_or_search, stages)


def _forecasts_of_users(arguments: dict[str, Any], grid: Grid, stages: Stages) -> list[Forecast]:
    """Return the forecasts of users without a contribution bound."""
    source = options.source_of(arguments)
    with options.engine_of(arguments) as engine:
        engine.check(source.with_amounts(grid.amounts))
        numbers = CountedUsers(source, engine, stages)
        return grid.forecasts(
            lambda _: numbers.users, lambda _, setting: forecast_users(numbers, setting), stages
        )


def _frequencies_by_bound(
    arguments: dict[str, Any], stages: Stages, bounds: Sequence[int | None]
) -> dict[int | None, Frequencies]:
    """Return the frequencies for each number of keys per user: from a file, by a formula, or counted in the data."""
    if arguments["source"]:
        with options.engine_of(arguments) as engine:
            return count_by_bound(options.source_of(arguments), bounds, engine, stages)
    if arguments["release"] is not None:
        same = estimated_frequencies(_earlier(arguments))
    elif arguments["histogram"] is not None:
        same = Frequencies.read(
            arguments["histogram"]
        )  # counts as private, since its origin is unknown
    else:
        same = Frequencies.zipf(arguments["zipf"], arguments["keys"], arguments["elements"])
    return dict.fromkeys(bounds, same)


def _described(arguments: dict[str, Any]) -> str:
    """Return where the frequencies come from."""
    if arguments["release"] is not None:
        return f"The release {os.path.basename(arguments['release'])}"
    if arguments["histogram"] is not None:
        return f"The histogram {os.path.basename(arguments['histogram'])}"
    if arguments["zipf"] is not None:
        return f"A Zipf distribution with alpha {arguments['zipf']:g}"
    return str(options.source_of(arguments))


def check_input(arguments: dict[str, Any]) -> None:
    """Check that frequencies come from one place, and that all options belong to it."""
    places = {
        "SOURCE": "source",
        "--zipf": "zipf",
        "--histogram": "histogram",
        "--release": "release",
    }
    named = [place for place, name in places.items() if arguments[name] not in (None, ())]
    if len(named) != 1:
        given = " and ".join(named) or "none of them"
        raise click.UsageError(
            f"frequencies come from one of {', '.join(places)}, and {given} is given; "
            "give one, such as --zipf 1 --keys 100000"
        )
    if arguments["source"] and not arguments["key"]:
        raise click.UsageError("a SOURCE needs its key column; add --key COLUMN")
    if arguments["zipf"] is not None and arguments["keys"] is None:
        raise click.UsageError("--zipf needs a number of keys; add, for example, --keys 100000")
    misplaced = [] if arguments["source"] else _options_of_source(arguments)
    if arguments["zipf"] is None:
        misplaced += [name for name in ("keys", "elements") if arguments[name] is not None]
    if misplaced:
        option = f"--{misplaced[0].replace('_', '-')}"
        raise click.UsageError(f"{option} does not go with {named[0]}; leave {option} out")


def _options_of_source(arguments: dict[str, Any]) -> list[str]:
    """Return the options that were given, and describe a source."""
    names = [
        "key",
        "key_as",
        "frequency",
        "drop_null",
        "table",
        "query",
        "input_format",
        "user",
        "delimiter",
    ]
    given = [name for name in (*names, "encoding", "null") if arguments[name]]
    return given if arguments["header"] else [*given, "no_header"]


def _listed(values: Iterable[str]) -> list[str]:
    """Return the values of an option, separated by commas or repeated; each once."""
    return list(dict.fromkeys(part.strip() for value in values for part in value.split(",")))


def _bounds(arguments: dict[str, Any]) -> list[int | None]:
    """Return the numbers of keys per user; that of an earlier release is known."""
    given = _listed(arguments["max_keys_per_user"])
    bounds: list[int | None] = [_integer(value, "--max-keys-per-user") for value in given]
    if arguments["release"] is None:
        return bounds
    own = _earlier(arguments).terms.max_keys
    if bounds not in ([], [own]):
        raise click.UsageError(
            f"the frequencies of a release have its own contribution bound, {own or 'none'}; "
            "leave --max-keys-per-user out"
        )
    return [own]


def _deltas_of_release(arguments: dict[str, Any]) -> list[str]:
    """Return the delta of the earlier release, if there is one."""
    return [] if arguments["release"] is None else [text(_earlier(arguments).privacy.delta)]


def _earlier(arguments: dict[str, Any]) -> Any:

    return read_release(arguments["release"])


def _number_of_keys(value: Any) -> int | None:
    """Read the number of keys; a list of known keys is an option of a release alone."""
    if value is None:
        return None
    if str(value).isdecimal():
        return int(value)
    raise click.UsageError(
        f"--keys of a plan is the number of keys of --zipf, not {value!r}; leave a list of known keys out: a release "
        "reports all of them, and what is planned are the others"
    )


def _integer(value: str, option: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise click.UsageError(
            f"{option} takes whole numbers such as 5,20, not {value!r}"
        ) from None


def _samplings(arguments: dict[str, Any]) -> list[Any]:
    """Return the sampling schemes: one for each tau, then one for each sample size."""
    sizes = [_integer(size, "--sample-size") for size in _listed(arguments["sample_size"])]
    taus: list[str | None] = [*_listed(arguments["tau"])]
    if not taus and not sizes:
        taus = [None]
    samplings: list[Any] = [read_sampling({**arguments, "tau": tau}) for tau in taus]
    for size in sizes:
        samplings.append(read_size({**arguments, "tau": None, "sample_size": size}))
    least = arguments["at_least"]
    if least is None:
        return samplings
    return [released.kept_from(least, sampling) for sampling in samplings]


def with_one_thread() -> None:
    """Start this command anew with one thread for linear algebra, unless the environment sets a number.

    Its matrices are small, so that more threads only cost time. NumPy reads the number once, when it is imported.
    """
    if not any(name in os.environ for name in _ONE_THREAD):
        environment = {**os.environ, **dict.fromkeys(_ONE_THREAD, "1")}
        restart([sys.executable, *sys.orig_argv[1:]], environment)
