"""Elements on a cluster, and their release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsample.spark
from dpsample import Release, Sampling, Source
from dpsample.accounting.budget import Budget
from dpsample.private.charge import NoLedger
from dpsample.private.derived_coins import Secret
from dpsample.private.engine.spark import Spark
from dpsample.private.engine.spark.jobs import Job
from dpsample.private.prepare import Counting, terms_of
from dpsample.private.request import Strategy
from spark_tasks import KEY, PRIVACY


def job_of(engine: Spark, source: Source, sampling: Sampling, strategy: Strategy, secret: Secret) -> Job:
    return Job(engine, Counting(source, engine.check(source), sampling, strategy), secret)


def drawn(source: Source, sampling: Sampling, strategy: Strategy, key: bytes = KEY, **options: Any) -> Release:
    """A release with a given secret."""
    with Spark(**options) as engine:
        job = job_of(engine, source, sampling, strategy, Secret(key))
        return job.release(terms_of(Budget(PRIVACY), sampling, source.key), NoLedger())


def written(folder: Path, source: Source, sampling: Sampling, strategy: Strategy) -> Release:
    """A release with a given secret, by way of a folder."""
    with Spark() as engine:
        job = job_of(engine, source, sampling, strategy, Secret(KEY))
        rows = job.release_to_folder(folder, terms_of(Budget(PRIVACY), sampling, source.key), NoLedger())
    found = dpsample.read_release(folder)
    assert len(found) == rows
    return found


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some 90,000 elements of 3,000 keys, in four files."""
    folder = tmp_path_factory.mktemp("events")
    for n in range(4):
        keys = [f"key {i * i % 3001}" for i in range(n, 90_000, 4)]
        pq.write_table(pa.table({"k": keys}), folder / f"{n}.parquet")
    return folder
