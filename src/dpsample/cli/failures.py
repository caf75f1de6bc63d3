"""How a command ends that did not succeed: one line without private values, or JSON, and an exit code."""

import json
import os
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import click

from dpsample.cli.exits import Exit, exit_of, meaning_of
from dpsample.cli.options import in_options, named_options
from dpsample.errors import DpsampleError
from dpsample.files import written_outputs
from dpsample.interrupts import signal_that_came

_OPTION = re.compile(r"--[a-z][a-z-]*")


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
        "meaning": meaning_of(code),
        "notes": [],
    }


def _asks_for_json() -> bool:
    """Return whether JSON was asked for; an error may come before the options are read."""
    words = sys.argv[1:]
    after_format = [after for word, after in pairwise(words) if word == "--format"]
    return "--json" in words or "--format=json" in words or "json" in after_format


def exit_code(error: Exception) -> int:
    """Report an error, and return its exit code."""
    if isinstance(error, click.Abort):
        return end_by_signal(error)
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


def end_by_signal(error: BaseException | None) -> int:
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
