"""Questions to a release of a million keys, against a bare DuckDB aggregation of the same file.

Every question is a process of its own: wall seconds of the first time, when it learns from the tokens, and of the
second, and their ratios to the bare aggregation with the same selection, measured in the same process.

    python benchmarks/answers.py --keys 1000000
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import dpsample
import dpsample.answers.token_order  # imports are not timed
from dpsample import KeepAll, Ppswor, Privacy, Release, Sampling

PRIVACY = Privacy(0.5, 1e-6)
WHERE = "query LIKE '%7'"
QUESTIONS: dict[str, Callable[[Release], Any]] = {
    "sum, all keys": lambda release: release.sum(),
    "sum, where": lambda release: release.sum(WHERE),
    "sum, where, weight": lambda release: release.sum(WHERE, "length(query)"),
    "sum, 10 groups": lambda release: release.sum(by="right(query, 1)"),
    "sum, 1,000 groups": lambda release: release.sum(by="right(query, 3)"),
    "count_keys": lambda release: release.count_keys(WHERE),
    "mean": lambda release: release.mean(WHERE),
    "quantiles": lambda release: release.quantiles([0.1, 0.5, 0.9, 0.99], WHERE, at_least=30),
    "top 10": lambda release: release.top(10),
    "top 1,000": lambda release: release.top(1000),
    "rank": lambda release: release.rank(release.table["query"][len(release) // 2].as_py()),
    "compare": lambda release: release.compare(*release.table["query"].slice(len(release) // 2, 2).to_pylist()),
}
FREQUENCIES: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "uniform, 30 to 230": lambda generator, n: generator.integers(30, 231, n),
    "heavy tail": lambda generator, n: 40 + np.floor(generator.pareto(1.0, n) * 100).astype(np.int64),
}
SAMPLINGS: dict[str, Sampling] = {"all keys": KeepAll(), "ppswor": Ppswor("0.1")}


def make(path: Path, kind: str, sampling: str, keys: int) -> int:
    names = [f"query {n:08}" for n in range(keys)]
    table = pa.table({"query": names, "n": FREQUENCIES[kind](np.random.default_rng(0), keys)})
    return dpsample.release_to_file(path, table, "query", "n", privacy=PRIVACY, sampling=SAMPLINGS[sampling])


def seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def one(question: str, path: Path) -> None:
    selected = f"WHERE {WHERE}" if "where" in question or question in ("count_keys", "mean", "quantiles") else ""
    query = f"SELECT count(*), sum(estimate) FROM '{path}' {selected}"
    connection = duckdb.connect()
    bare = min(seconds(lambda: connection.execute(query).fetchall()) for _ in range(3))
    read = seconds(lambda: dpsample.read_release(path))
    release = dpsample.read_release(path)
    first, again = (seconds(lambda: QUESTIONS[question](release)) for _ in range(2))
    print(json.dumps({"bare": bare, "read": read, "first": first, "again": again}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=10**6)
    parser.add_argument("--one", choices=list(QUESTIONS), help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one, options.path)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "release.parquet"
        for kind in FREQUENCIES:
            for sampling in SAMPLINGS:
                path.unlink(missing_ok=True)
                reported = make(path, kind, sampling, options.keys)
                print(f"{kind}, {sampling}: {reported:,} keys reported of {options.keys:,}")
                for question in QUESTIONS:
                    command = [sys.executable, __file__, "--one", question, "--path", str(path)]
                    done = subprocess.run(command, capture_output=True, text=True, check=True)
                    found = json.loads(done.stdout)
                    times = "  ".join(
                        f"{name} {found[name]:6.3f} s, {found[name] / found['bare']:6.1f} x bare"
                        for name in ("first", "again")
                    )
                    print(f"  {question:<20} {times}  (bare {found['bare']:.3f} s, reading {found['read']:.2f} s)")


if __name__ == "__main__":
    main()
