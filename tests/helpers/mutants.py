"""Try the planted bugs of `planted.py`: each in a copy of its own, where the tests that are named for it must fail.

    python tests/helpers/mutants.py                     all of them, in two processes
    python tests/helpers/mutants.py --processes 16      in as many as the machine has
    python tests/helpers/mutants.py noise spark         those whose name or file has one of these words
    python tests/helpers/mutants.py --no-cluster        without those that need Spark, which take minutes
    python tests/helpers/mutants.py --list              the list

First all these tests run on a copy without a bug, where they must pass: else nothing can be said. It prints a line for
each bug as it ends, and the survivors last; the exit status is 1 if there is one. Tests on a cluster need Java.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from places import ROOT
from planted import BUGS, Bug

COPIED = ("src", "tests", "docs", "examples", "website", "paper", "benchmarks", "proofs", "pyproject.toml", "README.md")
LIMIT = 1200  # seconds for the tests of one bug: beyond, nobody knows
PASSED, FAILED = 0, 1  # exit statuses of pytest; others say that tests could not run


@dataclass(frozen=True)
class Verdict:
    """What became of a bug: which test failed first, if one did, and how long that took."""

    bug: Bug
    status: int | None  # None beyond the limit of time
    first: str
    seconds: float

    @property
    def caught(self) -> bool:
        """Whether a test failed: not if tests could not run, or had no time."""
        return self.status == FAILED

    def __str__(self) -> str:
        words = {FAILED: "caught", PASSED: "SURVIVED", None: "NO VERDICT: beyond the limit of time"}
        word = words.get(self.status, f"NO VERDICT: pytest ended with {self.status}")
        return f"{word:9} {self.seconds:4.0f} s  {self.bug.name}  ({self.bug.file}; {self.first})"


def copy_of_product(folder: Path) -> None:
    """Copy what tests need; what is big and not source is left out."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "build", "*.jsonl"))
        elif source.exists():
            shutil.copy2(source, folder / name)


def run_tests(folder: Path, tests: Iterable[str], workers: int = 0) -> tuple[int | None, str]:
    """Run tests in a copy up to the first that fails: the exit status of pytest, and that test or the last line."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += ["-n", str(workers), "--dist", "loadgroup"]
    command += [f"tests/{name}" for name in tests]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "OPENBLAS_NUM_THREADS": "1"}
    try:
        ended = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return None, "no test failed until then"
    lines = (ended.stdout + ended.stderr).strip().splitlines() or [""]
    failed = [line.split(" - ")[0] for line in lines if line.startswith(("FAILED", "ERROR"))]
    return ended.returncode, (failed or lines[-1:])[0][:150]


def try_bug(bug: Bug) -> Verdict:
    """Plant a bug in a copy, and run the tests that are named for it."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        folder = Path(name)
        copy_of_product(folder)
        target = folder / "src" / "dpsample" / bug.file
        source = target.read_text(encoding="utf-8")
        if source.count(bug.old) != 1:
            return Verdict(bug, -1, "the place is not there, or more than once: change its entry", 0.0)
        target.write_text(source.replace(bug.old, bug.new), encoding="utf-8")
        status, first = run_tests(folder, bug.tests)
    return Verdict(bug, status, first, time.monotonic() - begun)


def passes_without_bugs(bugs: list[Bug], workers: int) -> bool:
    """Whether all tests pass where nothing is planted."""
    tests = dict.fromkeys(name for bug in bugs for name in bug.tests)
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        copy_of_product(Path(folder))
        begun = time.monotonic()
        status, first = run_tests(Path(folder), tests, workers)
    word = "pass" if status == PASSED else f"FAIL: {first}"
    print(f"without a bug, {len(tests)} tests and files of tests {word} ({time.monotonic() - begun:.0f} s)", flush=True)
    return status == PASSED


def chosen(words: list[str], cluster: bool) -> list[Bug]:
    """The bugs whose name or file has one of these words, all without words; without a cluster, not those of it."""

    def named(bug: Bug) -> bool:
        text = f"{bug.name} {bug.file}"
        return not words or any(word in text for word in words)

    def on_one_machine(bug: Bug) -> bool:
        return not any("test_spark" in name for name in bug.tests)

    return [bug for bug in BUGS if named(bug) and (cluster or on_one_machine(bug))]


def main() -> int:
    """Try the bugs; return 1 if one survives, or if there is no verdict about one."""
    parser = argparse.ArgumentParser(description="Plant bugs, and see that tests catch them.")
    parser.add_argument("words", nargs="*", help="only bugs whose name or file has one of these words")
    parser.add_argument("--processes", type=int, default=2, help="bugs that are tried at a time")
    parser.add_argument("--no-cluster", action="store_true", help="leave out bugs that need Spark")
    parser.add_argument("--list", action="store_true", help="print the list, and try nothing")
    options = parser.parse_args()
    bugs = chosen(options.words, not options.no_cluster)
    if options.list:
        for bug in bugs:
            print(f"{bug.name}  ({bug.file}; {', '.join(bug.tests)})")
        return 0
    if not passes_without_bugs(bugs, options.processes):
        return 1
    verdicts = []
    with ThreadPoolExecutor(options.processes) as pool:
        for future in as_completed([pool.submit(try_bug, bug) for bug in bugs]):
            verdicts.append(future.result())
            print(verdicts[-1], flush=True)
    survivors = [verdict for verdict in verdicts if not verdict.caught]
    print(f"{len(bugs) - len(survivors)} of {len(bugs)} planted bugs are caught")
    for verdict in survivors:
        print(verdict)
    return int(bool(survivors))


if __name__ == "__main__":
    sys.exit(main())
