"""dpsample on Spark, on this machine's processors."""

import os
import sys
from pathlib import Path

from contract import Task, run


def release(task: Task) -> dict[str, object]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import dpsample.spark

    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.memory", "4g").getOrCreate()
    privacy = dpsample.Privacy(str(task.epsilon), str(task.delta))
    frame = spark.read.parquet(task.path)
    folder = Path(f"{task.out}.folder")
    if task.kind == "users":
        dpsample.spark.release_to_folder(
            folder, frame, "key", user="user", privacy=privacy, max_keys_per_user=task.bound
        )
    else:
        dpsample.spark.release_to_folder(folder, frame, "key", privacy=privacy)
    import duckdb

    duckdb.sql(f"COPY (SELECT key, estimate FROM '{folder}/*.parquet') TO '{task.out}' (FORMAT parquet)")
    spark.stop()
    return {"epsilon": task.epsilon, "delta": task.delta}


run(release, "dpsample", "pyspark")
