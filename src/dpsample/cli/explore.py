"""dpsample explore."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from dpsample.cli import options
from dpsample.cli.plan import bounds_of, check_input, frequencies, frequencies_of, notice_of, release_delta
from dpsample.cli.printing import shown_stages

_UNITS = {"s": 1, "m": 60, "h": 3600}
_EXAMPLE = {"zipf": 1.0, "keys": 100_000}
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@click.command()
@frequencies
@click.option("--epsilon", "-e", default="1", show_default=True, help="First position of its slider.")
@click.option("--zcdp", hidden=True, help="Refused: the sliders are of epsilon and delta.")
@click.option("--gdp", hidden=True, help="Refused: the sliders are of epsilon and delta.")
@click.option("--delta", "-d", help="First position of its slider.  [default: chosen by the number of elements]")
@click.option(
    "--scheme",
    type=click.Choice(["all", "ppswor", "priority"]),
    default="all",
    show_default=True,
    help="First choice of the sampling scheme.",
)
@click.option("--tau", help="First position of its slider.")
@click.option("--sample-size", type=int, help="First position of its slider; samples are then set by size, not tau.")
@click.option(
    "--max-keys-per-user",
    multiple=True,
    help="With --user: the positions of its slider. The data are counted once for each of them. Without it, keys are "
    "discovered and counted, at a few epsilons that are computed while the page is open.",
)
@click.option("--share", type=float, default=0.01, show_default=True, help="Share of the keys that a question selects.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of 127.0.0.1 to serve on.  [default: any free port]",
)
@click.option("--idle", default="30m", show_default=True, help="Stop after this time without a request: 90s, 30m, 2h.")
@click.option(
    "--browser/--no-browser", default=None, help="Open the page in a browser.  [default: if there is a display]"
)
@options.resources
def explore(**arguments: Any) -> None:
    """Try settings with sliders, in a browser. This machine serves the page to itself, and no budget is spent.

    Frequencies come from SOURCE, from --zipf or from --histogram, or else from an example. The page of a SOURCE is NOT
    private.

    \b
    Examples:
      dpsample explore
      dpsample explore --zipf 1.2 --keys 1000000 --epsilon 0.5
      dpsample explore events.parquet --key query --delta 1e-8
      dpsample explore clicks.parquet -k page --user user_id
      dpsample explore clicks.parquet -k page --user user_id --max-keys-per-user 5,20,50
    """
    if not (arguments["source"] or arguments["zipf"] is not None or arguments["histogram"] or arguments["release"]):
        arguments |= {name: value for name, value in _EXAMPLE.items() if arguments[name] is None}
    check_input(arguments)
    _check_stated(arguments)
    arguments["delta"] = arguments["delta"] or next(iter(release_delta(arguments)), None)
    idle = _seconds(arguments["idle"])
    from dpsample.planning.explore import Server

    _check_sampling(arguments)
    notice, unbounded = notice_of(arguments), arguments["user"] and not arguments["max_keys_per_user"]
    with (_users_explorer if unbounded else _explorer)(arguments, notice) as (explorer, page):
        server = Server(explorer, page, arguments["port"], idle)
        for line in [
            *([notice] if notice else []),
            f"Open {server.address}",
            f"Only this machine can open it. It stops with Ctrl-C, or after {arguments['idle']} without a request.",
        ]:
            click.echo(line)
        try:
            with explorer.ahead(), server, _opened(server.address, arguments["browser"]):
                server.serve()
            click.echo(f"Stopped after {arguments['idle']} without a request.")
        except KeyboardInterrupt:
            click.echo("Stopped.")


@contextmanager
def _explorer(arguments: dict[str, Any], notice: str | None) -> Iterator[tuple[Any, Any]]:
    """Check the options, count the frequencies, and return what answers the page, and the page."""
    from dpsample.planning.explore import Choices, Explorer
    from dpsample.planning.explore.choices import USERS
    from dpsample.planning.explore.page import page
    from dpsample.planning.forecast import check_selection
    from dpsample.planning.frequencies import Frequencies
    from dpsample.planning.goals import ANY_DELTA, default_delta
    from dpsample.planning.text import origin
    from dpsample.presentation.charts import converter

    converter()
    check_selection(arguments["share"])
    source = options.source_of(arguments) if arguments["source"] else None
    bounds = bounds_of(arguments) or list(USERS if source is None else [None])
    choices = partial(
        Choices.of,
        epsilon=arguments["epsilon"],
        scheme=arguments["scheme"],
        tau=arguments["tau"],
        size=arguments["sample_size"],
        users=bounds,
    )
    # refuses bad options before anything is read
    choices(Frequencies.zipf(0, 1), delta=arguments["delta"] or ANY_DELTA)
    with shown_stages() as stages:
        by_bound = frequencies_of(arguments, stages, bounds)
    first = by_bound[bounds[0]]
    delta = arguments["delta"] or default_delta(first.base)
    explorer = Explorer(by_bound, choices(first, delta=delta), arguments["share"], source)
    explorer.prepare()
    described = origin(source, arguments["histogram"], arguments["zipf"], arguments["release"])
    yield explorer, page(explorer, described, notice)


@contextmanager
def _users_explorer(arguments: dict[str, Any], notice: str | None) -> Iterator[tuple[Any, Any]]:
    """The same for users without a contribution bound, whose data are read while the page is open."""
    from dpsample.planning.explore import UsersExplorer
    from dpsample.planning.explore.users import EPSILONS
    from dpsample.planning.explore.users_page import users_page
    from dpsample.planning.goals import ANY_DELTA, default_delta
    from dpsample.planning.setting import Setting
    from dpsample.planning.text import origin
    from dpsample.presentation.charts import converter
    from dpsample.privacy import Privacy
    from dpsample.private.count import CountedUsers

    if arguments["scheme"] != "all":
        raise click.UsageError(
            "a sample of users' keys needs a contribution bound; found none; add --max-keys-per-user, or omit --scheme"
        )
    converter()
    source = options.source_of(arguments)

    def setting(delta: Any, epsilon: Any) -> Setting:
        return Setting(Privacy(epsilon, delta), discover="ask")

    for epsilon in (arguments["epsilon"], *EPSILONS):  # refuses bad ones before anything is read
        setting(arguments["delta"] or ANY_DELTA, epsilon)
    with options.engine_of(arguments) as engine:
        with shown_stages() as stages:
            numbers = CountedUsers(source, engine, stages)
            delta = arguments["delta"] or default_delta(numbers.users)
        explorer = UsersExplorer(numbers, partial(setting, delta), arguments["epsilon"], source)
        yield explorer, users_page(explorer, origin(source, None, None), str(notice))


def _check_stated(arguments: dict[str, Any]) -> None:
    """Refuse a budget that is stated otherwise: the slider of epsilon would not be the one that is spent."""
    for name in ("zcdp", "gdp"):
        if arguments[name] is not None:
            raise click.UsageError(
                f"the sliders are of epsilon and delta; found --{name}; use dpsample plan --{name} {arguments[name]}"
            )


def _check_sampling(arguments: dict[str, Any]) -> None:
    if arguments["tau"] is not None and arguments["sample_size"] is not None:
        raise click.UsageError("--tau and --sample-size exclude each other; found both; leave one out")
    if arguments["scheme"] == "all" and (arguments["tau"] is not None or arguments["sample_size"] is not None):
        raise click.UsageError(
            "--tau and --sample-size go with --scheme ppswor or priority; found --scheme all; add --scheme ppswor"
        )


def with_one_thread() -> None:
    """Start this command anew with one thread for linear algebra, unless the environment sets a number.

    Its matrices are small, so that more threads only cost time. NumPy reads the number once, when it is imported.
    """
    if not any(name in os.environ for name in ONE_THREAD):
        os.execve(
            sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
        )


def _seconds(duration: str) -> float:
    parsed = re.fullmatch(r"([0-9]{1,6})([smh])", duration.strip())
    if not parsed or not int(parsed[1]):
        raise click.UsageError(f"--idle is a number of seconds, minutes or hours; found {duration!r}; write it as 30m")
    return int(parsed[1]) * _UNITS[parsed[2]]


@contextmanager
def _opened(address: str, wanted: bool | None) -> Iterator[None]:
    """Open a browser with a file that only this user can read; others could see an address in its arguments."""
    display = sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if not (display if wanted is None else wanted):
        yield
        return
    import tempfile
    import webbrowser

    with tempfile.TemporaryDirectory(prefix="dpsample-explore-") as folder:
        file = Path(folder, "explore.html")
        file.write_text(f'<!DOCTYPE html><title>dpsample</title><meta http-equiv="refresh" content="0; url={address}">')
        webbrowser.open(file.as_uri())
        yield
