"""Peers side by side, on the same data: each in an environment of its own, one process for each release.

Results are appended to a file of JSON lines. What is in it is not run again, failures included: remove a line, or name
another file, to run it again. `--lock FILE` holds a lock while a release that takes more than a minute is
measured, where others measure too.

    python benchmarks/peers/run.py --peers opendp pydp
"""

import argparse
import contextlib
import fcntl
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from laws import certificate
from registry import OWN, PEERS, Peer
from score import scores
from tasks import TASKS, frequencies, generate

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENVIRONMENTS = ROOT / ".venv-peers"
LIMIT = 100.0  # CPU seconds of one release: with it, all peers take less than an hour on two processors
INSTALL_LIMIT = 900.0  # seconds
FEATURE_LIMIT = 200.0
LIGHT = 60.0  # CPU seconds: what is likely to take less does not wait for the lock

Line = dict[str, Any]


class Results:
    """The file of results."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[Line] = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def find(self, **wanted: Any) -> Line | None:
        """The last line with these values."""
        matching = [line for line in self.lines if all(line.get(name) == value for name, value in wanted.items())]
        return matching[-1] if matching else None

    def add(self, line: Line) -> None:
        """Append a line, with the date and the machine."""
        line |= {"date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"), "machine": machine()}
        self.lines.append(line)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


@cache
def machine() -> str:
    """Processors, memory and system, in words."""
    model = "unknown processor"
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} processors ({model}), {memory:.0f} GB, {platform.system()}"


@cache
def true_frequencies(task: str) -> NDArray[np.int64]:
    return frequencies(TASKS[task])


def install(environment: str, results: Results) -> Path | None:
    """Return the Python of an environment, set up if need be; None if that fails."""
    if environment == OWN:
        return Path(sys.executable)
    folder = ENVIRONMENTS / environment
    requirements = HERE / "requirements" / f"{environment}.txt"
    ready = folder / "ready"
    if ready.exists() and ready.read_text() == requirements.read_text():
        return folder / "bin" / "python"
    print(f"  installing {environment}", flush=True)
    started = time.perf_counter()
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(requirements)]
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True, capture_output=True, text=True)
        subprocess.run(pip, check=True, capture_output=True, text=True, timeout=INSTALL_LIMIT)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        results.add(
            {"kind": "install", "environment": environment, "status": "failed", "error": last_line(error.stderr)}
        )
        return None
    ready.write_text(requirements.read_text())
    seconds = time.perf_counter() - started
    results.add({"kind": "install", "environment": environment, "status": "done", "wall": seconds})
    return python


def last_line(text: str | bytes | None) -> str:
    """The last line that is not empty, which tells what went wrong."""
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "Exception" in line]
    return (errors or lines or ["no message"])[-1][:300]


@contextlib.contextmanager
def locked(file: Path | None) -> Iterator[None]:
    """Hold a lock that others hold while they measure."""
    if file is None:
        yield
        return
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def measure(python: Path, script: Path, arguments: list[str], limit: float, lock: Path | None) -> Line:
    """Run a script of a peer in its environment, as a tree of processes that is measured."""
    own = [str(ROOT / "src")] if python == Path(sys.executable) else []
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent), *own]),
        "PYTHONSAFEPATH": "1",
    }
    command = [sys.executable, str(HERE / "measure.py"), str(limit), str(python), str(script), *arguments]
    with locked(lock):
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    measured: Line = json.loads(done.stdout)
    return measured


def likely_seconds(peer: str, task: str, bound: int | None, results: Results) -> float | None:
    """CPU seconds that a task would take, by the one of a tenth of its size; None if there is none. Starting counts."""
    smaller = TASKS[task].after
    if smaller is None:
        return None
    before = results.find(kind="run", peer=peer, task=smaller, bound=bound)
    if before is None or before["status"] != "done":
        return float("inf")
    start = results.find(kind="run", peer=peer, task="start")
    fixed = min(start["cpu"], before["cpu"]) if start and start["status"] == "done" else 0.0
    seconds: float = fixed + 10 * (before["cpu"] - fixed)
    return seconds


def run_one(
    name: str, peer: Peer, task: str, bound: int | None, python: Path | None, results: Results, options: Any
) -> None:
    """Make one release, or say why not, and add the line."""
    line: Line = {"kind": "run", "peer": name, "task": task, "bound": bound}
    likely = likely_seconds(name, task, bound, results)
    if python is None:
        results.add(line | {"status": "not installed"})
        return
    if likely is not None and likely > options.limit:
        results.add(line | {"status": "not run", "likely": likely if likely < float("inf") else None})
        return
    work, path = TASKS[task], generate(task, options.data)
    with tempfile.TemporaryDirectory(dir=options.data) as folder:
        out = Path(folder) / "out.parquet"
        described = {
            "kind": work.kind,
            "path": str(path),
            "out": str(out),
            "epsilon": work.epsilon,
            "delta": work.delta,
            "bound": bound,
        }
        script = HERE / "adapters" / f"{peer.adapter}.py"
        lock = options.lock if (likely or 0) > LIGHT else None
        measured = measure(python, script, [json.dumps(described), *peer.arguments], options.limit, lock)
        errors, output = measured.pop("err"), measured.pop("out")
        if measured["status"] == "done":
            said = json.loads(output.splitlines()[-1])
            line |= measured | said | scores(out, true_frequencies(task))
        else:
            line |= measured | {"error": last_line(errors) if measured["status"] == "failed" else None}
    results.add(line)
    what = f"{line['keys']:,} keys" if "keys" in line else line["error"] or line["status"]
    print(f"  {task:<13} bound {bound!s:<5} {line['cpu']:7.1f} CPU s {line['memory']:6.2f} GB  {what}", flush=True)


def run_features(name: str, python: Path | None, results: Results, options: Any) -> None:
    """Run the snippets of a peer: each line says whether a snippet ran."""
    script = HERE / "features" / f"{name}.py"
    if not script.exists() or results.find(kind="features", peer=name) or python is None:
        return
    measured = measure(python, script, [], FEATURE_LIMIT, None)
    outcome = {}
    with contextlib.suppress(ValueError, IndexError):
        outcome = json.loads(measured["out"].splitlines()[-1])
    error = None if outcome else last_line(measured["err"])
    results.add({"kind": "features", "peer": name, "status": measured["status"], "outcome": outcome, "error": error})
    works = sum(one == "yes" for one in outcome.values())
    print(f"  features: {works} of {len(outcome)} snippets ran {error or ''}", flush=True)


def certify(name: str, results: Results) -> None:
    """Check the law that a peer publishes, with the parameters that it stated."""
    if results.find(kind="certificate", peer=name):
        return
    for task in ("aggregated-6", "raw-6", "start"):
        line = results.find(kind="run", peer=name, task=task, status="done")
        found = certificate(name, line["stated"]) if line else None
        if found:
            results.add({"kind": "certificate", "peer": name, "task": task} | found)
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS), metavar="PEER")
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS), metavar="TASK")
    parser.add_argument("--results", type=Path, default=HERE / "results.jsonl")
    parser.add_argument("--data", type=Path, default=ENVIRONMENTS / "data", help="the folder of generated data")
    parser.add_argument("--limit", type=float, default=LIMIT, help="CPU seconds of one release")
    parser.add_argument("--lock", type=Path, help="a file to lock while a long release is measured")
    options = parser.parse_args()
    results = Results(options.results)
    for name in options.peers:
        peer = PEERS[name]
        wanted = [
            (task, bound)
            for task in peer.tasks
            if task in options.tasks
            for bound in peer.bounds_of(task)
            if not results.find(kind="run", peer=name, task=task, bound=bound)
        ]
        print(peer.title, flush=True)
        python = install(peer.environment, results)
        for task, bound in wanted:
            run_one(name, peer, task, bound, python, results, options)
        run_features(name, python, results, options)
        certify(name, results)


if __name__ == "__main__":
    main()
