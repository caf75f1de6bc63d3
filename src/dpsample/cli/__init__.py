"""The `dpsample` command. Each command parses its options, calls the library, and prints.

Results go to standard output. Errors (one line each), progress, and what a command did go to standard error. `exits`
has the exit codes.

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
    machine   the engine of this machine
    cluster   what is done on a Spark cluster
    printing  what they print
    answers   how answers are printed
    exits     the exit codes
    log       the log of a command
"""

import json
import os
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import click

from dpsample import __version__
from dpsample.cli.demo import demo_command
from dpsample.cli.exits import Exit, exit_of
from dpsample.cli.explore import explore
from dpsample.cli.inspect import certify_command, info, verify
from dpsample.cli.ledger import ledger_commands
from dpsample.cli.log import end_log
from dpsample.cli.options import in_options, named_options
from dpsample.cli.plan import plan, with_one_thread
from dpsample.cli.query import changes, compare, each_key, mean, other, quantiles, query, rank, top
from dpsample.cli.release import release, sample, sanitize
from dpsample.cli.report import plot, report
from dpsample.cli.run import run
from dpsample.cli.stream import stream
from dpsample.errors import DpsampleError, DpsampleWarning
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


_COMMANDS = (
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
)
for _command in _COMMANDS:
    cli.add_command(_command)


_OPTION = re.compile(r"--[a-z][a-z-]*")


def main(command: click.Command = cli) -> None:
    """Run a command. An error becomes one line without private values, and an exit code."""
    _show_warnings_plainly()
    if sys.argv[1:2] in (["explore"], ["plan"]):
        with_one_thread()
    code = watched(lambda: _run(command), _end_by_signal)
    end_log(code, _meaning(code))
    sys.exit(code)


def _meaning(code: int) -> str:
    """Return what an exit code says; a signal that has none in the table is named by its number."""
    if code in list(Exit):
        return Exit(code).meaning
    return f"exit code {code}"


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
        return _exit_code(error)


def _exit_code(error: Exception) -> int:
    """Report an error, and return its exit code."""
    if isinstance(error, click.Abort):
        return _end_by_signal(error)
    if isinstance(error, click.ClickException):
        return _fail_usage(error)
    if isinstance(error, DpsampleError):
        return _fail(_Failure.of(error), error)
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    if isinstance(error, OSError):
        problem = os.strerror(error.errno) if error.errno else "a system call failed"
        return _fail(_Failure(Exit.FAILED, f"{problem}; {_written()}"), error)
    # an error of another library may quote the data: only its kind is shown
    if os.environ.get("DPSAMPLE_TRACEBACK"):
        raise error
    problem = f"unexpected {type(error).__name__}; {_written()}"
    remedy = "set DPSAMPLE_TRACEBACK=1 to see more, which may show private data"
    return _fail(_Failure(Exit.FAILED, problem, remedy), error)


@dataclass(frozen=True)
class _Failure:
    """How a command fails: its exit code, what is wrong, and what to do about it, with arguments in backticks."""

    code: int
    problem: str
    remedy: str = ""

    @classmethod
    def of(cls, error: DpsampleError) -> "_Failure":
        problem = getattr(error, "problem", str(error))
        return cls(exit_of(error), problem, getattr(error, "remedy", ""))

    def line(self) -> str:
        """Return the failure as one line, with options in place of arguments."""
        return in_options(f"{self.problem}; {self.remedy}" if self.remedy else self.problem)

    def to_json(self) -> dict[str, Any]:
        """Return the failure as JSON, with options in place of arguments."""
        flags = named_options(f"{self.problem} {self.remedy}")
        return _error_form(in_options(self.problem), in_options(self.remedy), flags, self.code)


def _fail_usage(error: click.ClickException) -> int:
    """Report bad usage, as click does, or as JSON."""
    if not _asks_for_json():
        error.show()
        return error.exit_code
    message = error.format_message()
    rule, _, remedy = message.partition("; ")
    flags = _OPTION.findall(message)
    form = _error_form(rule, remedy, flags, error.exit_code)
    click.echo(json.dumps({"error": form}, ensure_ascii=False), err=True)
    return error.exit_code


def _error_form(rule: str, remedy: str, flags: Sequence[str], code: int) -> dict[str, Any]:
    """Return an error as JSON: the rule that was broken, the remedy, the options that both name, and the exit code."""
    return {
        "rule": rule,
        "remedy": remedy,
        "option": list(dict.fromkeys(flags)),
        "exit": int(code),
        "meaning": _meaning(code),
        "notes": [],
    }


def _asks_for_json() -> bool:
    """Return whether JSON was asked for; an error may come before the options are read."""
    words = sys.argv[1:]
    after_format = [after for word, after in pairwise(words) if word == "--format"]
    return "--json" in words or "--format=json" in words or "json" in after_format


def _end_by_signal(error: BaseException | None) -> int:
    """Report the signal that came last; return the exit code that shells use for it."""
    last = signal_that_came() or signal.SIGINT  # an engine raises a KeyboardInterrupt of its own
    if isinstance(error, click.Abort):  # what click makes of a KeyboardInterrupt
        error = error.__cause__
    return _fail(_Failure(128 + last, f"interrupted; {_written()}"), error)


def _written() -> str:
    """State which outputs this process has written; a failure may come after them, as of the device for the summary."""
    names = ", ".join(repr(str(output)) for output in written_outputs())
    return f"an output was written: {names}" if names else "no output was written"


def _fail(failure: _Failure, error: BaseException | None) -> int:
    """Report a failure, and notes of its error, such as that its privacy is spent; return its exit code."""
    notes = getattr(error, "__notes__", [])
    if _asks_for_json():
        form = failure.to_json()
        form["notes"] = list(notes)
        click.echo(json.dumps({"error": form}, ensure_ascii=False), err=True)
    else:
        line = "; ".join([failure.line(), *map(in_options, notes)])
        click.echo(f"dpsample: {line}", err=True)
    return failure.code
