"""From data to a release, against the bare DuckDB `GROUP BY` of the same data written to Parquet.

Every line is a process of its own, in one run on one machine: wall seconds, CPU seconds, peak memory, and the ratios to
the bare aggregation. `--rows 100000000` is the large setting; it needs about 3 GB of disk and ten minutes.

    python benchmarks/release.py --rows 10000000
"""

import argparse
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import dpsample
from dpsample import KeepAll, Ppswor, Privacy, Sampling
from dpsample.private.engine.duckdb import DuckDB
from dpsample.release.options import Strategy

PRIVACY = Privacy(0.5, 1e-6)
DATA = {
    "skewed": "least(pow(random(), -5.5), 1e17)::BIGINT",  # Zipf-like: P(key >= k) = k**-0.18
    "distinct": "(random() * {rows})::BIGINT",  # 63 % of the elements have a key of their own
    "text": "'query ' || least(pow(random(), -5.5), 1e17)::BIGINT",
}


def generate(path: Path, kind: str, rows: int) -> None:
    key = DATA[kind].format(rows=rows)
    duckdb.sql(f"COPY (SELECT {key} AS key FROM range({rows})) TO '{path}' (FORMAT parquet)")


def bare(path: Path, out: Path, limit: str | None) -> int:
    connection = duckdb.connect()
    if limit:
        connection.execute(f"SET memory_limit = '{limit}'")
    connection.execute(f"COPY (SELECT key, count(*) AS n FROM '{path}' GROUP BY key) TO '{out}' (FORMAT parquet)")
    return 0


def release(sampling: Sampling, strategy: Strategy) -> Callable[[Path, Path, str | None], int]:
    def run(path: Path, out: Path, limit: str | None) -> int:
        with DuckDB(memory_limit=limit) as engine:
            return dpsample.release_to_file(
                out,
                path,
                "key",
                privacy=PRIVACY,
                sampling=sampling,
                strategy=strategy,
                engine=engine,
            )

    return run


def in_memory(path: Path, out: Path, limit: str | None) -> int:
    """A million aggregated keys, as an Arrow table, to a release object."""
    weight = np.arange(1, 10**6 + 1) ** -1.1
    frequency = 1 + np.random.default_rng(0).poisson(9 * 10**6 * weight / weight.sum())
    table = pa.table({"key": np.arange(10**6), "frequency": frequency})
    _restart()
    return len(dpsample.release(table, "key", "frequency", privacy=PRIVACY))


TASKS: dict[str, Callable[[Path, Path, str | None], int]] = {
    "bare GROUP BY": bare,
    "release, all keys": release(KeepAll(), "aggregate"),
    "release, ppswor, aggregated": release(Ppswor(1e-3), "aggregate"),
    "release, ppswor, two passes": release(Ppswor(1e-3), "two-pass"),
    "a million keys in memory": in_memory,
}
_started = 0.0
_cpu = 0.0


def _restart() -> None:
    global _started, _cpu
    usage = resource.getrusage(resource.RUSAGE_SELF)
    _started, _cpu = time.perf_counter(), usage.ru_utime + usage.ru_stime


def one(task: str, path: Path, limit: str | None) -> None:
    with contextlib.suppress(ImportError):
        import pandas  # noqa: F401 - Arrow imports it at its first array, where it is installed; imports are not timed
    with tempfile.TemporaryDirectory() as folder:
        _restart()
        keys = TASKS[task](path, Path(folder) / "out.parquet", limit)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds, cpu = time.perf_counter() - _started, usage.ru_utime + usage.ru_stime - _cpu
    print(json.dumps({"seconds": seconds, "cpu": cpu, "memory": usage.ru_maxrss / 2**20, "keys": keys}))


def measured(task: str, path: Path, limit: str | None = None) -> dict[str, float] | None:
    command = [sys.executable, __file__, "--one", task, "--path", str(path), *(["--limit", limit] if limit else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[str, float] | None = json.loads(done.stdout) if done.returncode == 0 else None
    return found


def line(name: str, found: dict[str, float] | None, floor: dict[str, float] | None) -> None:
    if found is None:
        print(f"  {name:<42} failed (out of memory)")
        return
    ratio = (
        ""
        if floor is None
        else f"{found['seconds'] / floor['seconds']:6.2f} x time {found['memory'] / floor['memory']:5.2f} x memory"
    )
    print(f"  {name:<42} {found['seconds']:6.2f} s {found['cpu']:6.2f} CPU s {found['memory']:6.2f} GB {ratio}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--kinds", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--memory-limit", help="also run with this limit, for example 1GB")
    parser.add_argument("--one", choices=list(TASKS), help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--limit", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one, options.path, options.limit)
        return
    found = measured("a million keys in memory", Path())
    print(f"privacy {PRIVACY}")
    line("a million keys in memory", found, None)
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.kinds:
            path = Path(folder) / f"{kind}.parquet"
            generate(path, kind, options.rows)
            [(distinct,)] = duckdb.connect().execute(f"SELECT approx_count_distinct(key) FROM '{path}'").fetchall()
            print(f"{kind}: {options.rows:,} rows, about {distinct:,} keys")
            floor = measured("bare GROUP BY", path)
            line("bare GROUP BY to Parquet", floor, floor)
            for task in list(TASKS)[1:4]:
                line(task, measured(task, path), floor)
            if options.memory_limit:
                limit = options.memory_limit
                line(f"bare GROUP BY, limit {limit}", measured("bare GROUP BY", path, limit), floor)
                line(f"release, all keys, limit {limit}", measured("release, all keys", path, limit), floor)
            path.unlink()


if __name__ == "__main__":
    main()
