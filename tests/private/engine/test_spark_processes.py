"""Spark in processes of their own, without the cluster: other tests use it at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

import dpsample
from clusters import QUICK, java
from places import ROOT

pytestmark = pytest.mark.chance("certain: a key of 20,000 elements is reported, and nothing else is drawn")


def test_the_job_for_spark_submit(tmp_path: Path) -> None:
    if java() is None and not os.environ.get("CI"):
        pytest.skip("no Java to run Spark with")
    pq.write_table(pa.table({"query": ["weather"] * 20_000 + [""] * 20_000}), tmp_path / "a.parquet")
    program = os.path.join(os.path.dirname(pyspark.__file__), "bin", "spark-submit")
    settings = ["--master", "local[1]", "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false"]
    job = [str(ROOT / "examples" / "spark_release.py"), f"file:{tmp_path}/a.parquet", f"{tmp_path}/out"]
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {
        **os.environ,
        **QUICK,
        "PYTHONPATH": path,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [program, *settings, *job], capture_output=True, text=True, check=False, env=environment, timeout=900
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == f"1 keys in {tmp_path}/out"
    assert dpsample.read_release(tmp_path / "out").table["query"].to_pylist() == ["weather"]


def test_without_pyspark() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import dpsample.spark"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert "pip install 'pyspark>=" in done.stderr.splitlines()[-1]
