"""Ctrl-C ends a run, whatever DuckDB or another thread does at that moment. `tests/helpers/interrupts.py` has more."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsample import interrupts
from places import ROOT

pytestmark = pytest.mark.chance("certain: an interrupt may come at any moment, and each end is checked")

# Raises a signal before the n-th step of Python's code while DuckDB works in another thread, for each n in turn. With a
# plain wait for the thread, one in some hundred steps left a lock of Python's taken, and the run never ended.
SCRIPT = """
import faulthandler, signal, sys, time
from dpsample.private.engine.duckdb.statements import _waited

class Cursor:
    def interrupt(self):
        pass

def steps_until_end(wanted):
    steps = 0
    def trace(frame, event, argument):
        nonlocal steps
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        if steps == wanted:
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)
        return trace
    sys.settrace(trace)
    try:
        _waited(Cursor(), lambda: time.sleep(0.001))
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return steps

last = steps_until_end(-1)
assert last > 500, last
for wanted in range(1, last, 5):
    faulthandler.dump_traceback_later(60, exit=True)
    steps_until_end(wanted)
faulthandler.cancel_dump_traceback_later()
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
print("ended")
"""


@pytest.fixture
def came() -> Iterator[list[int]]:
    """The signals that reach their handler, which raises nothing."""
    signals: list[int] = []
    before = signal.signal(signal.SIGINT, lambda signum, frame: signals.append(signum))
    yield signals
    signal.signal(signal.SIGINT, before)


def test_a_wait_for_duckdb_ends_at_whichever_step_a_signal_comes() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr


def test_signals_are_handled_after_the_block_that_holds_them(came: list[int]) -> None:
    with interrupts.held() as outer:
        with interrupts.held() as inner:
            signal.raise_signal(signal.SIGINT)
            assert inner == [signal.SIGINT]
        assert (outer, came) == ([signal.SIGINT], [])
    assert came == [signal.SIGINT]


def test_a_signal_that_python_does_not_handle_is_not_held() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with interrupts.held():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


LOST = """
import signal, sys, time
from dpsample.cli import main
import click

class Deleted:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

@click.command()
def command():
    deleted = Deleted()
    del deleted
    for _ in range(600):
        time.sleep(0.1)

main(command)
"""


def test_an_interrupt_that_python_ignores_is_raised_again() -> None:
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr.lstrip()) == (130, "dpsample: interrupted; no output was written\n")


def test_commands_that_are_interrupted_at_random() -> None:
    script = [sys.executable, str(ROOT / "tests" / "helpers" / "interrupts.py"), "--runs", "6"]
    done = subprocess.run([*script, "--commands", "elements", "csv"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 wrong ends" in done.stdout


IMPORTING = """
import signal, sys, time
from dpsample.cli import main
import click

@click.command()
def command():
    sys.path.insert(0, FOLDER)
    import interrupted_module
    for _ in range(600):
        time.sleep(0.1)

main(command)
"""


def test_a_module_that_is_imported_is_imported_to_its_end(tmp_path: Path) -> None:
    module = "import signal\nsignal.raise_signal(signal.SIGINT)\nprint('imported', flush=True)\n"
    (tmp_path / "interrupted_module.py").write_text(module)
    script = IMPORTING.replace("FOLDER", repr(str(tmp_path)))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, "imported\n")


RESTARTING = """
import os, signal, sys
from dpsample.interrupts import restart, watch

watch()
signal.setitimer(signal.ITIMER_REAL, 0.2)
restart([sys.executable, "-c", "import time; time.sleep(1); print('ended')"], os.environ)
"""


def test_no_alarm_kills_a_program_that_takes_the_place_of_this_one() -> None:
    """As `plan` starts anew with one thread: an interrupt that waits for the end of an import has set an alarm."""
    done = subprocess.run([sys.executable, "-c", RESTARTING], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "ended\n")
