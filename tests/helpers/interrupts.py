"""Ctrl-C at random moments of sorting, counting, reading and writing: commands end with 130, and leave nothing behind.

    python tests/helpers/interrupts.py --runs 2000 --processes 4

Each run makes a new folder, starts a command, sends SIGINT to it after a random time, and looks at what is left. A run
is wrong if the command does not end, also on a machine that is busy with other work; if its exit code is neither 130
nor, where it was complete before the signal, 0; if it shows a traceback; if an output is there that is not complete; if
a temporary file is left; or if the ledger has a reservation that is open, or spends on a release that is not there.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

ROWS = 300_000  # enough for a second of sorting and counting
PATIENCE = 60.0  # seconds of a processor, or of a sleep, in which an interrupted command must end
PRIVACY = ["--epsilon", "1", "--delta", "1e-6"]
COMMANDS: dict[str, list[str]] = {
    "elements": ["release", "data.parquet", "-k", "key", *PRIVACY, "-o", "out.parquet", "--ledger", "ledger.jsonl"],
    "csv": ["release", "data.csv", "-k", "key", *PRIVACY, "-o", "out.csv", "--ledger", "ledger.jsonl"],
    "bounded users": [
        *["release", "data.parquet", "-k", "key", "--user", "user", "--max-keys-per-user", "3", "--with-total"],
        *[*PRIVACY, "-o", "out.parquet"],
    ],
    "users": ["release", "data.parquet", "-k", "key", "--user", "user", *PRIVACY, "-o", "out.parquet"],
    "sample": [
        *["sample", "data.parquet", "-k", "key", "--scheme", "ppswor", "--tau", "0.5", "--strategy", "two-pass"],
        *["-o", "out.parquet"],
    ],
    "stream": ["stream", "data.csv", "-k", "key", "--tau", "0.1", "--state", "out.parquet"],
    "plan": ["plan", "data.parquet", "-k", "key", "--delta", "1e-6"],
}


@dataclass(frozen=True)
class End:
    """How a run ended: the command, when it was interrupted, its exit code, and what is wrong with it, if anything."""

    command: str
    after: float
    code: int | None
    problem: str | None


def make_data(folder: Path) -> None:
    """Write the data that all runs read: keys by a power law, each user with some of them."""
    random_numbers = np.random.default_rng(1)
    keys = random_numbers.zipf(1.3, ROWS).clip(max=100_000)
    users = random_numbers.integers(0, ROWS // 5, ROWS)
    table = pa.table({"key": [f"key {key}" for key in keys], "user": users})
    pq.write_table(table, folder / "data.parquet")
    pa.csv.write_csv(table, folder / "data.csv")


def started(arguments: Sequence[str], folder: Path) -> subprocess.Popen[str]:
    """Start a command in a folder, with temporary files of its own."""
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONFAULTHANDLER": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "dpsample", *arguments],
        cwd=folder,
        env=environment,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def prepare(folder: Path, data: Path) -> None:
    """Link the data into the folder of a run, and begin its ledger."""
    for source in data.glob("data.*"):
        os.link(source, folder / source.name)
    shutil.copy(data / "ledger.jsonl", folder / "ledger.jsonl")


def seconds_of(name: str, data: Path) -> float:
    """Return how long a command takes that is not interrupted."""
    with tempfile.TemporaryDirectory(dir=data) as made:
        folder = Path(made)
        prepare(folder, data)
        begin = time.monotonic()
        with started(COMMANDS[name], folder) as process:
            _, shown = process.communicate()
        if process.returncode != 0 or problem_of(folder, 0, shown) is not None:
            raise SystemExit(f"{name} failed: {shown}")
        return time.monotonic() - begin


def interrupted(name: str, data: Path, after: float) -> End:
    """Run a command, interrupt it after this many seconds, and look at what is left."""
    with tempfile.TemporaryDirectory(dir=data) as made:
        folder = Path(made)
        prepare(folder, data)
        with started(COMMANDS[name], folder) as process:
            try:
                process.wait(after)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
            else:
                process.communicate()
                return End(name, after, None, None)  # it had ended before
            if is_stuck(process):
                process.send_signal(signal.SIGABRT)  # shows where each thread is
                _, shown = process.communicate()
                return End(name, after, None, f"it did not end: {shown}")
            _, shown = process.communicate()
        if process.returncode == -signal.SIGINT and "dpsample/cli" not in shown:
            return End(name, after, None, None)  # Python was starting: a shell says 130 here too
        return End(name, after, process.returncode, problem_of(folder, process.returncode, shown))


def is_stuck(process: subprocess.Popen[str]) -> bool:
    """Wait for the end of a process; return True if it sleeps, or works, for too long instead.

    Time in which it was ready, and others had the processors, does not count.
    """
    asleep = 0.0
    while asleep < PATIENCE:
        try:
            process.wait(1.0)
        except subprocess.TimeoutExpired:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            worked = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            if worked > PATIENCE:
                return True
            asleep = asleep + 1.0 if fields[0] == "S" else 0.0
        else:
            return False
    return True


def problem_of(folder: Path, code: int, shown: str) -> str | None:
    """Return what is wrong with the end of a run; None if nothing is."""
    if code not in (0, 130):
        return f"exit code {code}: {shown}"
    if "Traceback" in shown or "Exception ignored" in shown:
        return f"a traceback: {shown}"
    left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    left += [path.name for path in (folder / "temporary").iterdir()]
    if left:
        return f"left behind: {', '.join(left)}; {shown}"
    outputs = [path for path in folder.glob("out.*") if path.suffix != ".json"]
    if code == 0 and not outputs and "-o" in shown:
        return "no output"
    for output in outputs:
        if not is_complete(output):
            return f"{output.name} is not complete"
        if code == 130 and "an output was written" not in shown:
            return f"{output.name} is there, which was not said: {shown}"
    return problem_of_ledger(folder, outputs, shown)


def is_complete(output: Path) -> bool:
    """Return whether dpsample reads an output, and all of it."""
    from dpsample import read_release, read_sample
    from dpsample.files import kind_of

    if kind_of(output) == "sample":
        return len(read_sample(output)) > 0
    return len(read_release(output)) > 0


def problem_of_ledger(folder: Path, outputs: Sequence[Path], shown: str) -> str | None:
    """Return what is wrong with the ledger, if the command has one.

    A reservation is confirmed if the release is there, and cancelled if not; it stays open only if rows had been drawn,
    and then the command says that its privacy is spent.
    """
    from dpsample.ledger.ledger import read_ledger

    for entry in read_ledger(folder / "ledger.jsonl").entries:
        if outputs and entry.status != "confirmed":
            return f"the release is there, and its entry is {entry.status}"
        if not outputs and entry.status == "confirmed":
            return "the ledger confirms a release that is not there"
        if entry.status == "reserved" and "its privacy is spent" not in shown:
            return f"the ledger has an open reservation, which was not said: {shown}"
    return None


def main() -> None:
    """Interrupt commands, and report how they ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=14)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=None, help="of the moments")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after this time")
    parser.add_argument("--commands", nargs="*", default=list(COMMANDS), choices=list(COMMANDS))
    options = parser.parse_args()
    # a shell that started this in the background lets it ignore SIGINT, and so would the commands at their beginning
    signal.signal(signal.SIGINT, signal.default_int_handler)
    moments = random.Random(options.seed)
    until = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="interrupts-") as made:
        data = Path(made)
        make_data(data)
        begin = [sys.executable, "-m", "dpsample", "ledger", "new", "ledger.jsonl", "--dataset", "interrupts"]
        subprocess.run([*begin, "--epsilon", "100", "--delta", "1e-3"], cwd=data, check=True, capture_output=True)
        seconds = {name: seconds_of(name, data) for name in options.commands}
        print("seconds without an interrupt:", {name: round(value, 2) for name, value in seconds.items()}, flush=True)

        def one(number: int) -> End | None:
            if time.monotonic() > until:
                return None
            name = options.commands[number % len(options.commands)]
            end = interrupted(name, data, moments.uniform(0.1, 1.05 * seconds[name]))
            if end.problem is not None:
                print(f"WRONG: {name} after {end.after:.3f} s: {end.problem}", flush=True)
            return end

        with ThreadPoolExecutor(options.processes) as pool:
            ends = [end for end in pool.map(one, range(options.runs)) if end is not None]
    reached = [end for end in ends if end.code is not None or end.problem is not None]
    codes = Counter((end.command, end.code) for end in reached)
    for (name, code), times in sorted(codes.items(), key=str):
        print(f"  {name}: exit code {code} {times} times")
    wrong = sum(end.problem is not None for end in ends)
    missed = len(ends) - len(reached)
    print(f"{len(reached)} interrupts, {wrong} wrong ends; {missed} commands had ended before, or not begun")
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
