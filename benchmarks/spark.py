"""From data to a release on Spark, against the bare `groupBy().count()` of the same data written to Parquet.

With users (kind `users`), releases without a contribution bound stand against the bare `count(DISTINCT user_id)`; with
sums (kind `amounts`), against the bare aggregation by user and key, then by key.

One session, one run, on this machine's cores: median wall and CPU seconds of a few rounds, taken in turns, and the
ratios of both to the bare aggregation. CPU seconds are those of this process, of the JVM and of all Python workers. A
first round, over a million rows, warms everything up. `--rows 100000000` is the large setting. The JVM has the memory
that it is given; of the Python processes beside it, the largest one's peak is shown.

    python benchmarks/spark.py --rows 10000000
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb

import dpsample.spark
from dpsample import KeepAll, Ppswor, Privacy, Sampling
from dpsample.release.options import Strategy

PRIVACY = Privacy(0.5, 1e-6)
USER_PRIVACY = Privacy(1, 1e-6)
SAMPLE = 10**5  # keys in the sample of two passes
DATA = {
    "skewed": "least(pow(random(), -5.5), 1e17)::BIGINT",  # Zipf-like: P(key >= k) = k**-0.18
    "distinct": "(random() * {rows})::BIGINT",  # 63 % of the elements have a key of their own
    "text": "'query ' || least(pow(random(), -5.5), 1e17)::BIGINT",
    "users": "least(pow(random(), -5.5), 1e5)::BIGINT AS key, (random() * {rows} / 10)::BIGINT AS user_id",
    "amounts": "least(pow(random(), -5.5), 1e5)::BIGINT AS key, (random() * {rows} / 10)::BIGINT AS user_id, "
    "round(random() * 120, 2) AS price",
    "half": "if(random() < 0.5, -1, (random() * {rows})::BIGINT)",  # one key has half of all elements
}


def generate(folder: Path, kind: str, rows: int) -> None:
    columns = DATA[kind].format(rows=rows)
    columns += "" if " AS key" in columns else " AS key"
    options = "FORMAT parquet, FILE_SIZE_BYTES '64MB'"
    duckdb.sql(f"COPY (SELECT {columns} FROM range({rows})) TO '{folder}' ({options})")


def bare(frame: Any, out: Path) -> None:
    frame.groupBy("key").count().write.parquet(f"file:{out}")


def bare_users(frame: Any, out: Path) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    frame.groupBy("key").agg(F.countDistinct("user_id").alias("users")).write.parquet(f"file:{out}")


def bare_amounts(frame: Any, out: Path) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    each = frame.groupBy("key", "user_id").agg(F.count("*").alias("rows"), F.sum("price").alias("price"))
    clipped = each.select("key", F.least("rows", F.lit(5)).alias("rows"), F.least("price", F.lit(100)).alias("price"))
    totals = clipped.groupBy("key").agg(F.count("*").alias("users"), F.sum("rows"), F.sum("price"))
    totals.toDF("key", "users", "rows", "price").write.parquet(f"file:{out}")


def user_release(**options: Any) -> Callable[[Any, Path], None]:
    def run(frame: Any, out: Path) -> None:
        dpsample.spark.release_to_folder(out, frame, "key", user="user_id", privacy=USER_PRIVACY, **options)

    return run


def release(sampling: Sampling, strategy: Strategy) -> Callable[[Any, Path], None]:
    def run(frame: Any, out: Path) -> None:
        dpsample.spark.release_to_folder(out, frame, "key", privacy=PRIVACY, sampling=sampling, strategy=strategy)

    return run


_ticks = dict[tuple[int, str], int]()  # by process, and when it started


def cpu_seconds() -> float:
    """CPU seconds of this process and of all that it started, directly or not, as long as they were seen alive.

    What the parents of dead processes know of them is not enough: Spark ends idle workers, and nobody waits for them.
    """
    stats = dict[int, list[str]]()
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            stats[int(file.parent.name)] = file.read_text().rpartition(") ")[2].split()
    family = {os.getpid(), *(pid for pid, started in _ticks if pid in stats and stats[pid][19] == started)}
    while more := {pid for pid, fields in stats.items() if int(fields[1]) in family} - family:
        family |= more
    for pid in family & stats.keys():
        _ticks[pid, stats[pid][19]] = int(stats[pid][11]) + int(stats[pid][12])
    return sum(_ticks.values()) / os.sysconf("SC_CLK_TCK")


@contextmanager
def watched(peaks: list[int]) -> Iterator[None]:
    """Note the most memory, in kB, that one of Spark's Python workers has had, and who uses CPU."""
    done, most = threading.Event(), 0

    def watch() -> None:
        nonlocal most
        while not done.wait(0.5):
            cpu_seconds()
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError, LookupError, ValueError):  # it has ended
                    if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                        status = (process / "status").read_text()
                        most = max(most, int(status.split("VmHWM:")[1].split()[0]))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        peaks.append(most)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--kinds", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="4g", help="of the JVM that does it all")
    options = parser.parse_args()

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    tau = SAMPLE / options.rows
    element_tasks = {
        "bare groupBy to Parquet": bare,
        "release, all keys": release(KeepAll(), "aggregate"),
        f"release, ppswor tau={tau:g}, aggregated": release(Ppswor(tau), "aggregate"),
        f"release, ppswor tau={tau:g}, two passes": release(Ppswor(tau), "two-pass"),
    }
    user_tasks = {
        "bare count(DISTINCT user) to Parquet": bare_users,
        "release, users discovered, keys only": user_release(keys_only=True),
        "release, users discovered and counted": user_release(),
    }
    amount_tasks = {
        "bare nested groupBy to Parquet": bare_amounts,
        "release, users counted, rows and prices summed": user_release(rows=5, sums={"price": 100}),
    }
    with tempfile.TemporaryDirectory() as home:
        settings = {
            "spark.driver.memory": options.memory,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.local.dir": f"{home}/local",
        }
        builder: Any = SparkSession.builder.master("local[*]").appName("dpsample benchmark")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        print(f"Spark {session.version}, {session.sparkContext.defaultParallelism} cores, privacy {PRIVACY}")
        for kind in options.kinds:
            data = Path(home, kind)
            generate(data, kind, options.rows)
            counted = duckdb.connect().execute(f"SELECT approx_count_distinct(key) FROM '{data}/*.parquet'")
            [(distinct,)] = counted.fetchall()
            print(f"{kind}: {options.rows:,} rows, about {distinct:,} keys", flush=True)
            frame = session.read.parquet(f"file:{data}")
            tasks = {"users": user_tasks, "amounts": amount_tasks}.get(kind, element_tasks)
            seconds: dict[str, list[float]] = {name: [] for name in tasks}
            cpu: dict[str, list[float]] = {name: [] for name in tasks}
            peaks: dict[str, list[int]] = {name: [] for name in tasks}
            for n in range(1 + options.rounds):
                for name, task in tasks.items():
                    started, before = time.perf_counter(), cpu_seconds()
                    with watched(peaks[name]):
                        task(frame if n else frame.limit(10**6), Path(home, "out"))
                    if n:
                        seconds[name].append(time.perf_counter() - started)
                        cpu[name].append(cpu_seconds() - before)
                    shutil.rmtree(Path(home, "out"))
            floors = [statistics.median(next(iter(times.values()))) for times in (seconds, cpu)]
            for name in tasks:
                wall, used = statistics.median(seconds[name]), statistics.median(cpu[name])
                memory = f"{max(peaks[name]) / 1e6:7.2f} GB" if any(peaks[name]) else ""
                ratios = f"{wall:7.2f} s {wall / floors[0]:6.2f} x {used:7.2f} CPU s {used / floors[1]:6.2f} x"
                print(f"  {name:<44} {ratios} {memory}", flush=True)
            shutil.rmtree(data)
        session.stop()


if __name__ == "__main__":
    main()
