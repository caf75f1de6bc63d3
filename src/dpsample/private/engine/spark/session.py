"""The session: the active one, or one for the time of a block."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from dpsample.private.engine.spark.errors import translated


@contextmanager
def session(master: str | None = None) -> Iterator[Any]:
    """Give the active session, or start one for the time of a block: at `master`, or where spark-submit says."""
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    started = translated(_builder(master).getOrCreate, ())
    try:
        yield started
    finally:
        started.stop()


def _builder(master: str | None) -> Any:
    """Return what makes a session at `master`, or where spark-submit says."""
    builder: Any = SparkSession.builder.appName("dpsample")
    if master is not None and master.startswith("sc://"):  # Spark Connect
        return builder.remote(master)
    # a bar of progress would show how many tasks there are, which may follow from the data
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    if master is None:
        return builder
    if master.startswith("local"):  # else Spark would take the first python3 of the PATH
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return builder.master(master)
