"""A job for spark-submit: release which queries were asked, and about how often.

    spark-submit --master yarn examples/spark_release.py hdfs:///events/2026 /shared/queries.private

The second path is a new folder that the driver and all workers see under this name.
"""

import sys

from pyspark.sql import SparkSession

import dpsample.spark
from dpsample import Ppswor, Privacy


def main(source: str, folder: str) -> None:
    """Read a column of Parquet files, keep a weighted sample of its values, and publish those that privacy allows."""
    session = SparkSession.builder.appName("release of queries").getOrCreate()
    events = session.read.parquet(source).where("query <> ''")
    keys = dpsample.spark.release_to_folder(
        folder, events, key="query", privacy=Privacy(epsilon=1, delta=1e-8), sampling=Ppswor(tau=1e-3)
    )
    print(f"{keys} keys in {folder}")
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
