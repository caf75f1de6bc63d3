"""How time and memory of a release grow: with rows, keys, 1 / epsilon and users, on DuckDB and on Spark.

Every line is a process of its own: CPU and wall seconds and peak memory of its tree, less nothing. The exponent of a
step is that of the CPU seconds beyond those of a release of ten rows: 1 is linear. 10^9 rows are ten copies of a file
of 10^8. With `--store`, lines are appended to benchmarks/scaling.jsonl, from which docs/comparison.md is made; what is
in it is not run again.

    python benchmarks/scaling.py --quick
    python benchmarks/scaling.py --store --axes rows keys
"""

import argparse
import fcntl
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

HERE = Path(__file__).resolve().parent
STORE = HERE / "scaling.jsonl"
LIMIT = 900.0  # CPU seconds
HEAVY = 10**8  # keys, which take more than a minute: such a release waits for the lock
ROWS_OF_KEYS, KEYS_OF_ROWS = 10**6, 10**5
SIZES: dict[tuple[str, str], tuple[float, ...]] = {
    ("rows", "duckdb"): (10, 10**5, 10**6, 10**7, 10**8, 10**9),
    ("keys", "duckdb"): (10, 10**3, 10**4, 10**5, 10**6, 10**7, 10**8),
    ("1/epsilon", "duckdb"): (0.125, 1, 10, 100, 1000),
    ("users", "duckdb"): (10, 10**4, 10**5, 10**6),
    ("rows", "spark"): (10, 10**6, 10**7, 10**8),
    ("keys", "spark"): (10, 10**6, 10**7),
    ("users", "spark"): (10, 10**5, 10**6),
}
QUICK = 10**6
RELEASE = """
import json, os, sys
task = json.loads(sys.argv[1])
import dpsample
privacy = dpsample.Privacy(task["epsilon"], "1e-6")
if task["engine"] == "duckdb":
    dpsample.release_to_file(task["out"], task["path"], "key", task["frequency"], privacy=privacy, user=task["user"])
else:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession
    import dpsample.spark
    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.memory", "4g").getOrCreate()
    frame = spark.read.parquet(task["path"])
    dpsample.spark.release_to_folder(
        task["out"], frame, "key", task["frequency"], privacy=privacy, user=task["user"]
    )
    spark.stop()
"""


def generate(folder: Path, axis: str, size: float) -> Path:
    """Write the data of a size: keys have frequencies of about 1 / rank."""
    share = "(hash({}) % 1000003 + 1) / 1000004.0"
    path = folder / f"{axis.replace('/', '-')}-{size:g}.parquet"
    if axis == "rows" and size > 10**8:
        copies = folder / path.stem
        copies.mkdir()
        for n in range(round(size / 10**8)):  # dpsample refuses links to one file: its elements would count twice
            shutil.copyfile(generate(folder, axis, 10**8), copies / f"{n}.parquet")
        return copies
    if path.exists():
        return path
    if axis == "rows":
        columns, rows = f"pow({KEYS_OF_ROWS}, {share.format('range')})::BIGINT AS key", size
    elif axis in ("keys", "1/epsilon"):
        rows = size if axis == "keys" else ROWS_OF_KEYS
        columns = f"range AS key, 1 + ({rows} * 10 / (range + 1))::BIGINT AS frequency"
    else:
        columns = f"range // 4 AS user, pow({KEYS_OF_ROWS}, {share.format('range')})::BIGINT AS key"
        rows = size * 4
    duckdb.sql(f"COPY (SELECT {columns} FROM range({rows:.0f})) TO '{path}' (FORMAT parquet)")
    return path


def measured(axis: str, engine: str, size: float, folder: Path, lock: Path | None) -> dict[str, Any]:
    """Make one release in a process of its own."""
    path = generate(folder, axis, size)
    epsilon = {"users": "1", "1/epsilon": f"{1 / size:g}"}.get(axis, "0.5")
    out = str(folder / "out") + (".parquet" if engine == "duckdb" else "")
    task = {
        "engine": engine,
        "path": str(path),
        "epsilon": epsilon,
        "user": "user" if axis == "users" else None,
        "frequency": "frequency" if axis in ("keys", "1/epsilon") else None,
        "out": out,
    }
    command = [
        sys.executable,
        str(HERE / "peers" / "measure.py"),
        str(LIMIT),
        sys.executable,
        "-c",
        RELEASE,
        json.dumps(task),
    ]
    with ExitStack() as stack:
        if lock is not None and axis == "keys" and size >= HEAVY:
            fcntl.flock(stack.enter_context(lock.open("a")), fcntl.LOCK_EX)
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout)
    said = found.pop("out"), found.pop("err")
    if found["status"] == "failed":
        found["error"] = said[1].strip().splitlines()[-1][:300]
    subprocess.run(["rm", "-rf", out], check=True)
    if axis == "rows" and size > 10**8:
        subprocess.run(["rm", "-rf", path], check=True)
    return found


def exponent(before: dict[str, Any], now: dict[str, Any], start: float) -> float | None:
    """Return the exponent of a step, of the CPU seconds beyond those to start; None if they are lost in them."""
    least = 0.2 * start
    if before["cpu"] - start < least or now["cpu"] - start < least:
        return None
    return math.log((now["cpu"] - start) / (before["cpu"] - start)) / math.log(now["size"] / before["size"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only sizes up to a million, on DuckDB")
    parser.add_argument("--store", action="store_true", help=f"append to {STORE.name}, and skip what it has")
    parser.add_argument("--axes", nargs="+", choices=sorted({axis for axis, _ in SIZES}))
    parser.add_argument("--engines", nargs="+", choices=["duckdb", "spark"], default=["duckdb", "spark"])
    parser.add_argument("--most", type=float, default=math.inf, help="the largest size")
    parser.add_argument("--lock", type=Path, help="a file to lock while a large release is measured")
    options = parser.parse_args()
    stored = [json.loads(line) for line in STORE.read_text().splitlines()] if options.store and STORE.exists() else []
    most = QUICK if options.quick else options.most
    for (axis, engine), sizes in SIZES.items():
        if engine not in options.engines or (options.axes and axis not in options.axes):
            continue
        if options.quick and engine == "spark":
            continue
        print(f"{axis}, {engine}")
        start = 0.0
        before: dict[str, Any] | None = None
        with tempfile.TemporaryDirectory() as folder:
            for size in sizes:
                if size > most:
                    continue
                known = [
                    line for line in stored if (line["axis"], line["engine"], line["size"]) == (axis, engine, size)
                ]
                if known:
                    line = known[-1]
                else:
                    line = {"axis": axis, "engine": engine, "size": size}
                    line |= measured(axis, engine, size, Path(folder), options.lock)
                    line |= {"date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"), "machine": platform.platform()}
                    if options.store:
                        with STORE.open("a", encoding="utf-8") as file:
                            file.write(json.dumps(line) + "\n")
                if size == 10 and axis != "1/epsilon":
                    start = line["cpu"]
                step = exponent(before, line, start) if before and line["status"] == "done" else None
                slope = "" if step is None else f"exponent {step:5.2f}"
                print(
                    f"  {size:>12g} {line['cpu']:8.1f} CPU s {line['memory']:6.2f} GB  {line['status']} {slope}",
                    flush=True,
                )
                before = line if line["status"] == "done" else None


if __name__ == "__main__":
    main()
