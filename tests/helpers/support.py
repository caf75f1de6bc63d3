"""What several test modules do: run the command, and require that something is refused."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import click
import pytest

from dpsample import InvalidValue
from dpsample.cli import cli, main

PROGRAM = [sys.executable, "-m", "dpsample"]
Completed = subprocess.CompletedProcess[str]


def start(*arguments: str, cwd: Path, **environment: str) -> Completed:
    """Run the command in a process of its own."""
    return subprocess.run(
        [*PROGRAM, *arguments], cwd=cwd, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def run(*arguments: str, cwd: Path, command: click.Command = cli, **environment: str) -> Completed:
    """Run a command in this process, which saves the start of Python: all of it but its signal handlers."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd),
        mock.patch.object(sys, "argv", ["dpsample", *arguments]),
        mock.patch.object(signal, "signal"),
        mock.patch.dict(os.environ, {"OPENBLAS_NUM_THREADS": "1", **environment}),  # else a plan would start anew
        warnings.catch_warnings(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        warnings.simplefilter("default")
        with pytest.raises(SystemExit) as ended:
            main(command)
    code = ended.value.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@contextmanager
def refused(problem: str, *, hidden: Iterable[object] = ()) -> Iterator[pytest.ExceptionInfo[InvalidValue]]:
    """The block raises InvalidValue: a message on one line that states the problem, and shows nothing hidden."""
    with pytest.raises(InvalidValue) as info:
        yield info
    message = str(info.value)
    assert problem in message
    assert_plain(message)
    for value in hidden:
        assert str(value) not in message


def assert_plain(message: str) -> None:
    """A message is one line, and a remedy that is announced is there."""
    assert message.strip()
    assert "\n" not in message
    assert not message.rstrip().endswith(";")


def refused_alone(work: Callable[[], Any], message: str, hidden: Iterable[object]) -> None:
    """Require that work is refused with a message that matches, and that nothing hidden is anywhere near the error.

    The error is alone: no error of another library, which may quote the data, is its cause or context.
    """
    with pytest.raises(InvalidValue) as info:
        work()
    assert re.search(message, str(info.value)), str(info.value)
    assert_plain(str(info.value))
    assert info.value.__cause__ is None
    assert info.value.__context__ is None
    shown = repr(info.value) + str(info.value.args) + "".join(traceback.format_exception(info.value))
    for value in hidden:
        assert str(value) not in shown
