"""Spark's daemon of Python workers, which imports what workers need: one that fails or is killed starts again soon."""

import pandas  # noqa: F401
import pyarrow.compute  # noqa: F401
from pyspark.daemon import manager

import dpsample.private.engine.spark.jobs  # noqa: F401
import faults  # noqa: F401

if __name__ == "__main__":
    manager()
