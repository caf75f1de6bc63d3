"""One pass over a stream, against bare scans by DuckDB of the same rows; killed and resumed.

Every line is a process of its own, in one run on one machine: wall seconds, CPU seconds, peak memory, and the ratios of
CPU seconds to those of the bare `GROUP BY` and of the scan. Then the stream is killed ten times while it counts, with
SIGKILL, and resumed; its state must be that of an undisturbed run with the same coins. `--rows 100000000` is the large
setting. On Linux.

    python benchmarks/stream.py --rows 10000000
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from dpsample import Stream, read_stream

KEY = "'query ' || least(pow(random(), -5.5), 1e17)::BIGINT"  # Zipf-like: P(key >= k) = k**-0.18
QUERIES = {
    "count(*)": "SELECT count(*) FROM '{path}'",  # reads no rows: the footer of Parquet has their number
    "scan": "SELECT max(length(key)) FROM '{path}'",  # reads all keys
    "GROUP BY": "SELECT count(*) FROM (SELECT key, count(*) FROM '{path}' GROUP BY key)",
}
KILLS = 10


def work(what: str, path: str, state: str) -> None:
    """What one process does."""
    if what in QUERIES:
        duckdb.execute(QUERIES[what].format(path=path)).fetchall()
    else:
        read_stream(state).add_files(path, state=state, every=float(what))


def start(what: str, path: Path, state: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, __file__, "--work", what, str(path), str(state)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def measured(what: str, path: Path, state: Path) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and megabytes of a process."""
    out, _ = start(what, path, state).communicate()
    wall, cpu, memory = json.loads(out)
    return wall, cpu, memory


def killed(path: Path, state: Path) -> int:
    """Kill the process ten times, each time once it has written its state again; return how often it was killed."""
    for kill in range(KILLS):
        before, process = state.stat().st_mtime_ns, start("0.2", path, state)
        while process.poll() is None and state.stat().st_mtime_ns == before:
            time.sleep(0.01)
        time.sleep(0.05 * kill)
        if process.poll() is not None:
            return kill
        process.kill()
        process.communicate()
    return KILLS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--held", type=int, default=100_000, help="about the number of held keys")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        started, before = time.perf_counter(), time.process_time()  # without what imports take
        work(*given.work)
        seconds = [time.perf_counter() - started, time.process_time() - before]
        peak = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())  # getrusage has the parent's too
        print(json.dumps([*seconds, int(peak[0]) / 1024]))
        return
    with tempfile.TemporaryDirectory() as folder:
        path, first, second = (Path(folder, name) for name in ("keys.parquet", "one.private", "two.private"))
        duckdb.sql(f"COPY (SELECT {KEY} AS key FROM range({given.rows})) TO '{path}' (FORMAT parquet)")
        Stream(4.8 * given.held / given.rows).write(first)
        shutil.copy(first, second)  # the same coins
        lines = {what: measured(what, path, first) for what in QUERIES} | {"stream": measured("10", path, first)}
        group, scan = lines["GROUP BY"][1], lines["scan"][1]
        print(f"{given.rows:,} rows, {len(read_stream(first).table):,} held keys")
        for what, (wall, cpu, memory) in lines.items():
            ratios = f"CPU: {cpu / group:5.2f} of GROUP BY's, {cpu / scan:5.2f} of the scan's"
            print(f"{what:10}  {wall:7.2f} s  {cpu:7.2f} s CPU  {memory:6.0f} MB  {ratios}")
        kills = killed(path, second)
        read_stream(second).add_files(path, state=second)
        same = read_stream(second).table.equals(read_stream(first).table)
        print(f"killed {kills} times and resumed: {'the same state' if same else 'ANOTHER STATE'}")
        sys.exit(not same)


if __name__ == "__main__":
    main()
