"""A signal ends a command as shells expect it, whatever another library made of it on its way."""

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.chance("certain: nothing is drawn")

SCRIPT = """
import os, signal, sys
import click
from dpsample.cli import main
from dpsample.errors import InvalidValue, SystemFailure

@click.command()
def command():
    try:
        os.kill(os.getpid(), int(sys.argv.pop()))
        signal.pause()
    except KeyboardInterrupt:
        pass
    raise {error}

main(command)
"""


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("error", ["KeyboardInterrupt", "InvalidValue('a', 'b')", "SystemFailure('a', 'b')"])
def test_the_exit_code_is_that_of_the_signal(error: str, signum: signal.Signals) -> None:
    script = SCRIPT.format(error=error).replace("sys.argv.pop()", str(int(signum)))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 128 + signum
    assert done.stderr.lstrip() == "dpsample: interrupted; no output was written\n"


def test_an_error_without_a_signal_is_itself() -> None:
    script = SCRIPT.format(error="InvalidValue('a', 'b')").replace("os.kill(os.getpid(), int(sys.argv.pop()))", "")
    done = subprocess.run(
        [sys.executable, "-c", script.replace("signal.pause()", "pass")], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (2, "dpsample: a; b\n")
