"""Releases that protect users, against the bare `count(DISTINCT user)` of the same engine.

Every line is a process of its own, in one run on one machine, each the best of `--repeat`: wall and CPU seconds, peak
memory, and the ratios to the bare query.

    python benchmarks/users.py --rows 10000000 --users 1000000
"""

import argparse
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

import dpsample
from dpsample import Privacy
from dpsample.private.engine.duckdb import DuckDB

PRIVACY = Privacy(1, 1e-6)
KEYS = (5, 10, 20, 50)


def bare(path: Path, out: Path, limit: str | None) -> None:
    connection = duckdb.connect()
    if limit:
        connection.execute(f"SET memory_limit = '{limit}'")
    query = f"SELECT key, count(DISTINCT user_id) AS n FROM '{path}' GROUP BY key"
    connection.execute(f"COPY ({query}) TO '{out}' (FORMAT parquet)")


def release(path: Path, out: Path, limit: str | None, keys: int) -> None:
    with DuckDB(memory_limit=limit) as engine:
        dpsample.release_to_file(
            out, path, "key", privacy=PRIVACY, user="user_id", max_keys_per_user=keys, engine=engine
        )


def one(keys: int, path: Path, limit: str | None) -> None:
    with contextlib.suppress(ImportError):
        import pandas  # noqa: F401 - Arrow imports it at its first array, where it is installed; imports are not timed
    with tempfile.TemporaryDirectory() as folder:
        started, before = time.perf_counter(), time.process_time()
        if keys:
            release(path, Path(folder) / "out.parquet", limit, keys)
        else:
            bare(path, Path(folder) / "out.parquet", limit)
        seconds, cpu = time.perf_counter() - started, time.process_time() - before
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"seconds": seconds, "cpu": cpu, "memory": memory}))


def measured(keys: int, path: Path, limit: str | None, repeat: int) -> dict[str, float] | None:
    command = [
        sys.executable,
        __file__,
        "--one",
        str(keys),
        "--path",
        str(path),
        *(["--limit", limit] if limit else []),
    ]
    found = list[dict[str, float]]()
    for _ in range(repeat):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return None
        found.append(json.loads(done.stdout))
    return min(found, key=lambda f: f["seconds"])


def line(name: str, found: dict[str, float] | None, floor: dict[str, float]) -> None:
    if found is None:
        print(f"  {name:<44} failed (out of memory)")
        return
    time, cpu, memory = (found[what] / floor[what] for what in ("seconds", "cpu", "memory"))
    measures = f"{found['seconds']:6.2f} s {found['cpu']:6.2f} CPU s {found['memory']:5.2f} GB"
    print(f"  {name:<40} {measures}  {time:5.2f} x time {cpu:5.2f} x CPU {memory:5.2f} x memory")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--users", type=int, default=10**6)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--memory-limit", help="also run with this limit, for example 1GB")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--limit", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        one(options.one, options.path, options.limit)
        return
    key = "least(pow(random(), -5.5), 1e17)::BIGINT"  # Zipf-like: P(key >= k) = k**-0.18
    with tempfile.TemporaryDirectory() as folder:
        for kind, text in (("integers", "{}"), ("text", "'name ' || {}")):
            path = Path(folder) / f"{kind}.parquet"
            user = text.format(f"(random() * {options.users})::BIGINT")
            chosen = f"SELECT {user} AS user_id, {text.format(key)} AS key FROM range({options.rows})"
            duckdb.sql(f"COPY ({chosen}) TO '{path}' (FORMAT parquet)")
            print(f"{kind}: {options.rows:,} rows, {options.users:,} users")
            floor = measured(0, path, None, options.repeat)
            assert floor is not None
            line("bare count(DISTINCT user) to Parquet", floor, floor)
            for keys in KEYS:
                line(f"release, {keys} keys per user", measured(keys, path, None, options.repeat), floor)
            if options.memory_limit:
                limit = options.memory_limit
                line(f"bare, limit {limit}", measured(0, path, limit, 1), floor)
                line(f"release, {KEYS[0]} keys, limit {limit}", measured(KEYS[0], path, limit, 1), floor)
            path.unlink()


if __name__ == "__main__":
    main()
