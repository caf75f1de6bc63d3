"""Ledgers with a few entries, and processes that are killed at each step."""

import json
import os
import subprocess
import sys
from pathlib import Path

from dpsample import Privacy, read_ledger
from dpsample.ledger.charges import Charge, Entry
from dpsample.ledger.ledger import reserve_budget

BUDGET = Privacy(2, 1e-6)
HALF = Charge(Privacy("0.5", "1e-7"), "element", "half.parquet")


def spend(path: Path | str, privacy: Privacy, unit: str, release: str) -> Entry:
    """Reserve and confirm."""
    with reserve_budget(path, Charge(privacy, unit, release)) as reservation:
        reservation.mark_drawn()
        reservation.confirm()
    return read_ledger(path).entries[-1]


def fill(path: Path, *amounts: tuple[str, str]) -> None:
    for n, (epsilon, delta) in enumerate(amounts):
        spend(path, Privacy(epsilon, delta), "element", f"{n}.parquet")


# ---- reserve, confirm, cancel

_STEPS = """
import json, os, signal, sys, tempfile
from pathlib import Path
import portalocker.portalocker
from dpsample import Privacy, new_ledger

folder = Path(sys.argv[1])

def counted(function, at):
    def call(*arguments, **options):
        at[0] -= 1
        if at[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*arguments, **options)
        at[0] -= 1
        if at[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call

step, killed = 0, True
while killed:
    step += 1
    here = folder / str(step)
    here.mkdir()
    new_ledger(here / "a.ledger", "events", Privacy(1, 1e-9))
    child = os.fork()
    if child == 0:
        (here / "temporary").mkdir()
        tempfile.tempdir = str(here / "temporary")  # its own: what others leave, or remove, would change the steps
        at = [step]
        for name in ("open", "fsync", "replace", "link", "fchmod", "rename", "unlink"):
            setattr(os, name, counted(getattr(os, name), at))
        portalocker.portalocker.LOCKER = counted(portalocker.portalocker.LOCKER, at)  # flock
        work(here)
        os._exit(0)
    killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    print(json.dumps([step, killed]), flush=True)
"""


def killed_at_every_step(folder: Path, work: str) -> list[Path]:
    """Folders with what is left of `work`, killed before and after each call that changes a file."""
    script = folder / "steps.py"
    script.write_text(work + _STEPS)
    runs = folder / "runs"
    runs.mkdir()
    done = subprocess.run(
        [sys.executable, str(script), str(runs)], capture_output=True, text=True, check=True, env={**os.environ}
    )
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(steps) > 20
    assert not steps[-1][1]
    return [runs / str(step) for step, _ in steps]
