"""Nights of the guide's job, under a supervisor that kills each at a random moment and repeats it until it ends well.

    python tests/helpers/nights.py --nights 14 --signal KILL

The script and the settings are those of docs/guides/daily-pipeline.md, as they stand there. At the end there must be
one release for each night, confirmed once in the ledger, which is verified. A run that is killed after it reserved its
budget, and before its release was complete, leaves an entry that stays spent; it is counted.
"""

import argparse
import contextlib
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import dpsample
from dpsample.answers.entered import verify_releases
from places import ROOT

GUIDE = (ROOT / "docs/guides/daily-pipeline.md").read_text(encoding="utf-8")
_ROWS = 6000
# The command; with DIES_IN=module:name it is killed, as by the system, when that function is called.
_SHIM = """#!{python}
import importlib, os, signal, sys
import dpsample.cli
module, _, name = os.environ.get("DIES_IN", "").partition(":")
if module:
    *path, last = name.split(".")
    owner = importlib.import_module(module)
    for part in path:
        owner = getattr(owner, part)
    setattr(owner, last, lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGKILL))
dpsample.cli.main()
"""
DEATHS = {  # where a night is killed, and by which function
    "before the budget is reserved": "dpsample.private.run:check_release_to",
    "once the budget is reserved": "dpsample.private.run:drawn_release",
    "while the release is written": "dpsample.private.drawing:release_sha256",
    "while it is verified": "dpsample.cli.inspect:proof_page",
    "while the ledger is verified": "dpsample.cli.ledger:verify_releases",
    "while the report is written": "dpsample.cli.report:make_report",
}


def days(count: int) -> list[str]:
    """The days of November 2026, from the first."""
    return [f"2026-11-{day:02d}" for day in range(1, count + 1)]


def guide_file(name: str) -> str:
    """A file of the guide: the block of code whose first comment names it."""
    blocks = re.findall(r"```\w+\n(.*?)```", GUIDE, re.DOTALL)
    [block] = [block for block in blocks if re.search(rf"^# {re.escape(name)}", block, re.MULTILINE)]
    return str(block)


def new_ledger_command() -> list[str]:
    """The command of the guide that starts the ledger."""
    [line] = re.findall(r"^    dpsample (ledger new .*)$", GUIDE, re.MULTILINE)
    return shlex.split(line)


def prepare(folder: Path, listed: list[str], python: str = sys.executable) -> None:
    """Put the guide's files into a folder, with clicks of these days, a ledger, and the command of this Python."""
    (folder / "clicks").mkdir()
    for day in listed:
        users = [n % 900 for n in range(_ROWS)]
        pages = [f"/page/{n % 7}" for n in range(_ROWS)]
        pq.write_table(
            pa.table({"day": [day] * _ROWS, "user_id": users, "page": pages}), folder / "clicks" / f"{day}.parquet"
        )
    for name in ("nightly.sh", "release.toml"):
        (folder / name).write_text(guide_file(name))
    (folder / "bin").mkdir()
    shim = folder / "bin" / "dpsample"
    shim.write_text(_SHIM.format(python=python))
    shim.chmod(0o755)
    subprocess.run([str(shim), *new_ledger_command()], cwd=folder, check=True, capture_output=True)


def environment(folder: Path, **more: str) -> dict[str, str]:
    """The environment of a night: the command of the test's Python comes first on the path."""
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, **more}


def night(folder: Path, day: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the job once, to its end."""
    return subprocess.run(
        ["sh", "nightly.sh", day],
        cwd=folder,
        env=environment(folder, **more),
        capture_output=True,
        text=True,
    )


def killed_night(folder: Path, day: str, after: float, signum: signal.Signals) -> int:
    """Run the job, and send a signal to all of its processes after some seconds; return its exit code."""
    job = subprocess.Popen(
        ["sh", "nightly.sh", day],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        return job.wait(after)
    os.killpg(job.pid, signum)
    code = job.wait()
    while _runs(job.pid):  # the shell has ended; its command may still be ending, as after SIGTERM
        time.sleep(0.01)
    return code


def _runs(group: int) -> bool:
    """Whether a process of this group runs; one that has ended and that nobody waits for does not."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, own_group = stat.read_text().rpartition(") ")[2].split()[:3]
            if int(own_group) == group and state != "Z":
                return True
    return False


@dataclass(frozen=True)
class Nights:
    """What some nights left: entries of the ledger by day and status."""

    entries: Counter[tuple[str, str]]
    days: list[str]

    @property
    def lost(self) -> int:
        """The number of entries that are spent without a release."""
        return sum(self.entries[day, "reserved"] for day in self.days)


def checked(folder: Path, listed: list[str]) -> Nights:
    """Check that each day has its release, confirmed once, and that the ledger is complete."""
    ledger = dpsample.read_ledger(folder / "clicks.ledger")
    releases = [folder / f"day-{day}.private.parquet" for day in listed]
    matches = verify_releases(ledger, releases)
    assert [match.entry.status for match in matches] == ["confirmed"] * len(listed)
    assert all(match.entry.sha256 for match in matches)
    entries: Counter[tuple[str, str]] = Counter()
    for entry in ledger.entries:
        assert entry.charge.part is not None
        entries[entry.charge.part.value, entry.status] += 1
    assert all(entries[day, "confirmed"] == 1 for day in listed)
    hidden = [path.name for path in folder.iterdir() if path.name.startswith(".dpsample")]
    assert not hidden, hidden
    return Nights(entries, listed)


def _seconds(folder: Path, day: str) -> float:
    """How long a night takes that nobody kills."""
    started = time.monotonic()
    done = night(folder, day)
    assert done.returncode == 0, done.stderr
    return time.monotonic() - started


def main() -> None:
    """Run the nights, and print what they left."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nights", type=int, default=14)
    options.add_argument("--signal", default="KILL", help="KILL or TERM")
    options.add_argument("--seed", type=int, default=1, help="of the moments")
    chosen = options.parse_args()
    moments = random.Random(chosen.seed)
    signum = signal.Signals[f"SIG{chosen.signal}"]
    listed = days(chosen.nights)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        calm = ["2026-12-01", "2026-12-02"]
        prepare(folder, [*listed, *calm])
        whole = min(_seconds(folder, day) for day in calm)
        attempts = 0
        ended_before = 0
        for day in listed:
            code = killed_night(folder, day, moments.uniform(0, whole), signum)
            attempts += 1
            ended_before += code == 0
            while code != 0:
                done = night(folder, day)
                code = done.returncode
                attempts += 1
                if attempts > 5 * len(listed):
                    sys.exit(f"{day} does not end: {done.stderr}")
        nights = checked(folder, listed)
    print(f"{len(listed)} nights, {attempts} attempts, each night killed once by SIG{chosen.signal}")
    print(f"{ended_before} had ended before they were killed")
    print(f"{len(listed)} releases, each confirmed once; the ledger is complete")
    print(f"{nights.lost} reservations stay spent without a release: runs that were killed between both")


if __name__ == "__main__":
    main()
