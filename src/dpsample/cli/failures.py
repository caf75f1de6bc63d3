"""How a command ends that did not succeed: one line without private values, and an exit code."""

import os
import signal
import sys

import click

from dpsample.cli.options import in_options
from dpsample.errors import DpsampleError, InvalidValue
from dpsample.files import written_outputs


def failed(error: BaseException) -> int:
    """Print the line of an error; return the exit code."""
    if isinstance(error, DpsampleError):
        message = getattr(error, "marked", str(error))
        return _fail(message, 2 if isinstance(error, InvalidValue) else 1)
    if isinstance(error, OSError):
        problem = os.strerror(error.errno) if error.errno else "a system call failed"
        return _fail(f"{problem}; {_written()}", 1)
    # an error of another library may quote the data: only its kind is shown
    remedy = "set DPSAMPLE_TRACEBACK=1 to see more, which may show private data"
    return _fail(f"unexpected {type(error).__name__}; {_written()}; {remedy}", 1)


def ended_by(signum: signal.Signals) -> int:
    """Report the signal that ended a command; return the exit code that shells use for it."""
    return _fail(f"interrupted; {_written()}", 128 + signum)


def _written() -> str:
    """State which outputs this process has written; a failure may come after them, as of the device for the summary."""
    names = ", ".join(repr(str(output)) for output in written_outputs())
    return f"an output was written: {names}" if names else "no output was written"


def _fail(message: str, code: int) -> int:
    notes = getattr(sys.exception(), "__notes__", [])  # such as that its privacy is spent
    click.echo(f"dpsample: {in_options('; '.join([message, *notes]))}", err=True)
    return code
