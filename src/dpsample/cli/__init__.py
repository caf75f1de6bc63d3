"""The `dpsample` command. Each command parses its options, calls the library, and prints.

Results go to standard output. Errors (one line each), progress, and what a command did go to standard error. `exits`
has the exit codes.

    commands  all commands by their names
    release   release, sample, sanitize
    stream    stream
    run       run
    inspect   info, verify, certify
    query     query, top, quantiles, ..., changes
    report    report, plot
    ledger    ledger new, show, ...
    plan      plan
    explore   explore
    demo      demo
    standard_library   the data of the demo
    completion         completion
    failures  how a command ends that did not succeed
    one_thread         a new start, with one thread for linear algebra
    options   options that commands share
    machine   the engine of this machine
    cluster   what is done on a Spark cluster
    printing  what they print
    answers   how answers are printed
    exits     the exit codes
    log       the log of a command
"""

import sys
import warnings
from importlib import import_module
from typing import Any

import click

from dpsample import __version__
from dpsample.cli.commands import LateCommands, LateGroup
from dpsample.cli.exits import meaning_of
from dpsample.cli.one_thread import with_one_thread
from dpsample.errors import DpsampleWarning
from dpsample.interrupts import signal_that_came, watched

__all__ = ["cli", "main"]


@click.group(
    cls=LateGroup,
    commands=LateCommands(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__)
def cli() -> None:
    """Publish which keys are in your data, and about how often, with differential privacy.

    \b
    Example:
      dpsample release events.parquet --key query --epsilon 1 --delta 1e-8 -o queries.private.parquet
    """


def main(command: click.Command = cli) -> None:
    """Run a command. An error becomes one line without private values, and an exit code."""
    _show_warnings_plainly()
    if sys.argv[1:2] in (["explore"], ["plan"]):
        # they compute many small matrices, for which more threads take longer
        with_one_thread()
    code = watched(lambda: _run(command), lambda error: _failures().end_by_signal(error))
    log = sys.modules.get("dpsample.cli.log")
    if log is not None:  # a command that has no log has not loaded it
        log.end_log(code, meaning_of(code))
    sys.exit(code)


def _show_warnings_plainly() -> None:
    """Show a warning of ours as one line without a place in the source, and others as usual."""
    usual = warnings.showwarning

    def show(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, DpsampleWarning):
            click.echo(f"dpsample: warning: {message}", err=True)
        else:
            usual(message, category, *where, **more)

    warnings.showwarning = show


def _run(command: click.Command) -> int:
    """Run a command and return its exit code; after a signal, raise what became of it, which is not shown."""
    try:
        returned = command(prog_name="dpsample", standalone_mode=False)
        return returned if isinstance(returned, int) else 0
    except Exception as error:
        # after a signal, another library may have made an error of its own of it
        if signal_that_came() is not None:
            raise
        code: int = _failures().exit_code(error)
        return code


def _failures() -> Any:
    """Return the module that reports failures. It loads Arrow, for which `dpsample --help` should not wait."""
    return import_module("dpsample.cli.failures")
