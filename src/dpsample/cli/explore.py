"""The command that shows a plan as a page: explore."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from dpsample.cli import options
from dpsample.cli.plan import check_input, frequencies, frequencies_of, listed, notice_of, whole
from dpsample.cli.printing import progress_bar

_UNITS = {"s": 1, "m": 60, "h": 3600}
_EXAMPLE = {"zipf": 1.0, "keys": 100_000}
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@click.command()
@frequencies
@click.option("--epsilon", "-e", default="1", show_default=True, help="Where the slider stands at first.")
@click.option("--delta", "-d", help="The same; by the number of elements unless told.")
@click.option(
    "--scheme",
    type=click.Choice(["all", "ppswor", "priority"]),
    default="all",
    show_default=True,
    help="How keys are sampled at first.",
)
@click.option("--tau", help="Where its slider stands at first.")
@click.option("--sample-size", type=int, help="Set samples by their size at first, instead of tau.")
@click.option("--max-keys-per-user", multiple=True, help="With --user: one or several, each of which is counted.")
@click.option("--share", type=float, default=0.01, show_default=True, help="Share of the keys that a question selects.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="To serve on; any free one unless told.")
@click.option("--idle", default="30m", show_default=True, help="Stop when nobody has asked for so long: 90s, 30m, 2h.")
@click.option("--browser/--no-browser", default=None, help="Open it in a browser; by default, if there is a display.")
@options.resources
def explore(**given: Any) -> None:
    """Try settings with sliders, on a page that this machine serves to itself. No budget is spent.

    Frequencies come from SOURCE, which makes the page private, from --zipf or from --histogram; without any, from an
    example.

    \b
    Examples:
      dpsample explore
      dpsample explore --zipf 1.2 --keys 1000000 --epsilon 0.5
      dpsample explore events.parquet --key query --delta 1e-8
      dpsample explore clicks.parquet -k page --user user_id --max-keys-per-user 5,20,50
    """
    if not given["source"] and given["zipf"] is None and given["histogram"] is None:
        given |= {name: value for name, value in _EXAMPLE.items() if given[name] is None}
    check_input(given)
    idle = _seconds(given["idle"])
    if given["tau"] is not None and given["sample_size"] is not None:
        raise click.UsageError("--tau and --sample-size exclude each other; found both; leave one out")
    if given["scheme"] == "all" and (given["tau"] is not None or given["sample_size"] is not None):
        raise click.UsageError("--tau and --sample-size go with --scheme ppswor or priority; found --scheme all")
    from dpsample.planning.explore import Choices, Explorer, Server
    from dpsample.planning.explore.choices import USERS
    from dpsample.planning.explore.page import page
    from dpsample.planning.explore.state import PARTS
    from dpsample.planning.forecast import check_selection
    from dpsample.planning.frequencies import Frequencies
    from dpsample.planning.goals import default_delta
    from dpsample.presentation.charts import check_drawing

    check_drawing()
    check_selection(given["share"])
    source = options.source_of(given) if given["source"] else None
    users: list[int | None] = [whole(k, "--max-keys-per-user") for k in listed(given["max_keys_per_user"])]
    users = users or list(USERS if source is None else [None])

    def choices(found: Any, delta: Any) -> Any:
        how = {"scheme": given["scheme"], "tau": given["tau"], "size": given["sample_size"], "users": users}
        return Choices.of(found, epsilon=given["epsilon"], delta=delta, **how)

    choices(Frequencies.zipf(0, 1), given["delta"] or "1e-9")  # bad ones are refused before anything is read
    with progress_bar() as progress:
        first = frequencies_of(given, users[0], progress)
        counted = {k: first if source is None or k == users[0] else frequencies_of(given, k, progress) for k in users}
    explorer = Explorer(counted, choices(first, given["delta"] or default_delta(first)), given["share"], source)
    notice = notice_of(given)
    server = Server(explorer, page(explorer, _origin(given, source), notice), given["port"], idle)
    for part in PARTS:  # so that what is slow once is done before anybody waits
        explorer.answer(part, explorer.choices.start)
    if notice:
        click.echo(notice)
    click.echo(f"Open {server.address}")
    click.echo(f"Only this machine can. Ctrl-C stops it, and so does {given['idle']} without a question.")
    try:
        with explorer.ahead(), server, _opened(server.address, given["browser"]):
            server.serve()
        click.echo(f"Stopped: nobody has asked for {given['idle']}.")
    except KeyboardInterrupt:
        click.echo("Stopped.")


def with_one_thread() -> None:
    """Start this command anew with one thread for linear algebra, unless told how many.

    Its matrices are small: many threads make it wait for them. NumPy asks once, when it is imported.
    """
    if not any(name in os.environ for name in ONE_THREAD):
        os.execve(
            sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
        )


def _seconds(duration: str) -> float:
    found = re.fullmatch(r"([0-9]{1,6})([smh])", duration.strip())
    if not found or not int(found[1]):
        raise click.UsageError(f"--idle is a number of seconds, minutes or hours; found {duration!r}; write it as 30m")
    return int(found[1]) * _UNITS[found[2]]


def _origin(given: dict[str, Any], source: Any) -> str:
    if source is not None:
        return str(source)
    if given["histogram"] is not None:
        return f"The histogram {os.path.basename(given['histogram'])}"
    return f"Made up, by a Zipf distribution with alpha {given['zipf']:g}"


@contextmanager
def _opened(address: str, wanted: bool | None) -> Iterator[None]:
    """Open a browser, by a file that only this user can read: others could see the address among its arguments."""
    display = sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if not (display if wanted is None else wanted):
        yield
        return
    import tempfile
    import webbrowser

    with tempfile.TemporaryDirectory(prefix="dpsample-") as folder:
        file = Path(folder, "explore.html")
        file.write_text(f'<!DOCTYPE html><title>dpsample</title><meta http-equiv="refresh" content="0; url={address}">')
        webbrowser.open(file.as_uri())
        yield
