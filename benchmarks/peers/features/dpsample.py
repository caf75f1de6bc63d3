"""What dpsample can do, each by a snippet that runs."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import dpsample
from dpsample import Ppswor, Privacy, Source
from snippets import run

PRIVACY = Privacy(1, "1e-6")
ROWS = pa.table(
    {
        "user": [n // 2 for n in range(4000)],
        "key": [n % 4 for n in range(4000)],
        "value": [float(n % 10) for n in range(4000)],
    }
)


def release(**options: Any) -> dpsample.Release:
    return dpsample.release(ROWS, "key", privacy=PRIVACY, **options)


def finds_keys() -> None:
    assert len(release()) == 4


def known_keys() -> None:
    assert 99 in release(keys=[0, 1, 2, 3, 99]).table["key"].to_pylist()


def aggregated() -> None:
    counts = pa.table({"key": ["a", "b"], "n": [1000, 1]})
    assert len(dpsample.release(Source(counts, key="key", frequency="n"), privacy=PRIVACY)) == 1


def users() -> None:
    assert len(release(user="user", max_keys_per_user=2)) == 4


def unbounded_users() -> None:
    assert len(release(user="user")) == 4


def sums() -> None:
    assert "sum_value" in release(user="user", sums={"value": 10}).table.column_names


def means() -> None:
    assert release(user="user", rows=2, sums={"value": 10}).ratio("sum_value", per="rows").value > 0


def intervals() -> None:
    assert {"low", "high"} <= set(release().table.column_names)


def sample() -> None:
    assert release(sampling=Ppswor(tau="0.001")).sampling == Ppswor(tau="0.001")


def zcdp() -> None:
    assert len(dpsample.release(ROWS, "key", privacy=Privacy.zcdp("0.5", "1e-6"))) == 4


def ledger() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.ledger"
        dpsample.new_ledger(file, "rows", PRIVACY)
        release(ledger=file)
        try:
            release(ledger=file)
        except dpsample.DpsampleError:
            return
        raise AssertionError("a second release of the same budget was made")


def ledger_file() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.ledger"
        dpsample.new_ledger(file, "rows", PRIVACY)
        release(ledger=file)
        code = f"import dpsample; assert len(dpsample.read_ledger({str(file)!r}).entries) == 1"
        subprocess.run([sys.executable, "-c", code], check=True)


def reads_files() -> None:
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(ROWS, Path(folder) / "data.parquet")
        assert len(dpsample.release(Path(folder) / "data.parquet", "key", privacy=PRIVACY)) == 4


def spark() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import dpsample.spark

    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    frame = session.createDataFrame([(n % 4,) for n in range(4000)], ["key"])
    assert len(dpsample.spark.release(frame, key="key", privacy=PRIVACY)) == 4
    session.stop()


def stream() -> None:
    from dpsample import Stream

    counting = Stream(tau="0.01", key="key")
    counting.add([1] * 5000)
    assert counting.sanitize(privacy=PRIVACY) is not None


def certificate() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "out.parquet"
        release().write(file)
        subprocess.run([sys.executable, "-m", "dpsample", "verify", "--require-complete", file], check=True)


run(
    finds_keys,
    known_keys,
    aggregated,
    users,
    unbounded_users,
    sums,
    means,
    intervals,
    sample,
    zcdp,
    ledger,
    ledger_file,
    reads_files,
    spark,
    stream,
    certificate,
)
