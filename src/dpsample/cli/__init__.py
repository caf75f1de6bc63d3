"""The `dpsample` command. Each command parses its options, calls the library, and prints.

Results go to standard output. Errors (one line each) and progress go to standard error. Exit codes: 0 for success, 1
for a failure, 2 for bad usage or bad input, 3 for an incomplete proof (`verify --require-complete`), 130 after Ctrl-C
and 143 after SIGTERM.

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
    options   options that commands share
    printing  what they print
    answers   how answers are printed
"""

import os
import signal
import sys
import warnings
from typing import Any

import click

from dpsample import __version__
from dpsample.cli.demo import demo_command
from dpsample.cli.explore import explore
from dpsample.cli.inspect import certify_command, info, verify
from dpsample.cli.ledger import ledger_commands
from dpsample.cli.options import in_options
from dpsample.cli.plan import plan, with_one_thread
from dpsample.cli.query import changes, compare, each_key, mean, other, quantiles, query, rank, top
from dpsample.cli.release import release, sample, sanitize
from dpsample.cli.report import plot, report
from dpsample.cli.run import run
from dpsample.cli.stream import stream
from dpsample.errors import DpsampleError, InvalidValue, PrivacyWarning
from dpsample.files import written_outputs
from dpsample.interrupts import signal_that_came, watched

__all__ = ["cli", "main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__)
def cli() -> None:
    """Publish which keys are in your data, and about how often, with differential privacy.

    \b
    Example:
      dpsample release events.parquet --key query --epsilon 1 --delta 1e-8 -o queries.private.parquet
    """


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Example:
      eval "$(dpsample completion bash)"
    """
    from click.shell_completion import get_completion_class

    completions = get_completion_class(shell)
    assert completions is not None
    click.echo(completions(cli, {}, "dpsample", "_DPSAMPLE_COMPLETE").source())


for _command in (
    release,
    run,
    sample,
    stream,
    sanitize,
    info,
    verify,
    certify_command,
    query,
    mean,
    top,
    each_key,
    rank,
    compare,
    quantiles,
    other,
    changes,
    report,
    plot,
    ledger_commands,
    plan,
    explore,
    demo_command,
):
    cli.add_command(_command)


def main(command: click.Command = cli) -> None:
    """Run a command. An error becomes one line without private values, and an exit code."""
    _show_warnings_plainly()
    if sys.argv[1:2] in (["explore"], ["plan"]):
        with_one_thread()
    sys.exit(watched(lambda: _run(command), _end_by_signal))


def _show_warnings_plainly() -> None:
    """Show a warning about privacy as one line, and others as usual."""
    usual = warnings.showwarning

    def show(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, PrivacyWarning):
            click.echo(f"dpsample: warning: {message}", err=True)
        else:
            usual(message, category, *where, **more)

    warnings.showwarning = show


def _run(command: click.Command) -> int:
    """Run a command and return its exit code; after a signal, raise what became of it, which is not shown."""
    try:
        code = command(prog_name="dpsample", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except Exception as error:
        if (
            signal_that_came() is not None
        ):  # another library may have made an error of its own of it
            raise
        return _exit_code(error)


def _exit_code(error: Exception) -> int:
    """Show an error, and return its exit code."""
    if isinstance(error, click.Abort):
        return _end_by_signal(error)
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, DpsampleError):
        code = 2 if isinstance(error, InvalidValue) else 1
        return _fail(getattr(error, "marked", str(error)), code, error)
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if isinstance(error, OSError):
        problem = os.strerror(error.errno) if error.errno else "a system call failed"
        return _fail(f"{problem}; {_written()}", 1, error)
    # an error of another library may quote the data: only its kind is shown
    if os.environ.get("DPSAMPLE_TRACEBACK"):
        raise error
    remedy = "set DPSAMPLE_TRACEBACK=1 to see more, which may show private data"
    return _fail(f"unexpected {type(error).__name__}; {_written()}; {remedy}", 1, error)


def _end_by_signal(error: BaseException | None) -> int:
    """Report the signal that came last; return the exit code that shells use for it."""
    last = signal_that_came() or signal.SIGINT  # an engine raises a KeyboardInterrupt of its own
    if isinstance(error, click.Abort):  # what click makes of a KeyboardInterrupt
        error = error.__cause__
    return _fail(f"interrupted; {_written()}", 128 + last, error)


def _written() -> str:
    """State which outputs this process has written; a failure may come after them, as of the device for the summary."""
    names = ", ".join(repr(str(output)) for output in written_outputs())
    return f"an output was written: {names}" if names else "no output was written"


def _fail(message: str, code: int, error: BaseException | None) -> int:
    """Print a message and the notes of an error, such as that its privacy is spent; return the exit code."""
    notes = getattr(error, "__notes__", [])
    line = "; ".join([message, *notes])
    click.echo(f"dpsample: {in_options(line)}", err=True)
    return code
