"""The Spark session of Tumult's adapters, on this machine's processors."""

import os
import sys
from typing import Any


def session() -> Any:
    """Start Spark with workers of this environment's Python."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    # 200 shuffle partitions, the default, are for clusters: on two processors they double the time of small tasks
    builder = builder.config("spark.driver.memory", "4g").config("spark.sql.shuffle.partitions", "8")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def write(frame: Any, out: str) -> None:
    """Write columns `key` and `estimate` as one file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = frame.collect()
    keys, estimates = [row["key"] for row in rows], [float(row["estimate"]) for row in rows]
    pq.write_table(pa.table({"key": pa.array(keys, pa.int64()), "estimate": pa.array(estimates)}), out)
