"""Releases of data on a cluster: the stages of `run`, done by Spark where the data are.

    elements -> frequencies -> sample -> sanitize -> release

Counting is Spark's; sampling and sanitizing are the same kernel as everywhere (`sanitizer`), sent to the rows. All
coins are a function of one secret, drawn for this release, and of the keys (`keyed`), so that a task that is run again
decides the same. The secret travels inside the function that is sent, and dies with the job. To protect users, each
keeps so many keys first, by coins of the same kind. Only the noise of totals is drawn elsewhere: on the driver, once.

Two passes (raw elements, ppswor): the picked elements' keys are kept on the workers once they are picked, and their
frequencies are counted by a second pass, which never holds the other keys. If some of the picked keys are lost, with
a worker, they are picked again, by the same coins.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from typing import Any

import pyarrow as pa

from dpsample.accounting.totals import RealizedSize, SampleSize
from dpsample.exact import Number
from dpsample.files import PathLike, check_folder
from dpsample.privacy import Privacy
from dpsample.private.derived_coins import Secret
from dpsample.private.engine.spark import Spark  # first: it says what to install
from dpsample.private.engine.spark.errors import translated
from dpsample.private.engine.spark.frames import read_parquet
from dpsample.private.engine.spark.jobs import Batches, Job, random_rows
from dpsample.private.randomness import SecretCoins
from dpsample.private.request import Request, check_users
from dpsample.private.run import Way, noisy, terms_of, way_of
from dpsample.private.sample import Sample
from dpsample.private.source import Source
from dpsample.release.release import Release
from dpsample.release.terms import Terms
from dpsample.scheme.sampling import Sampling

__all__ = ["Spark", "read_parquet", "release", "release_to_folder", "sample", "sanitize", "session"]


def release(
    data: Any,
    key: str | Sequence[str] | None = None,
    frequency: str | None = None,
    *,
    privacy: Privacy,
    sampling: Sampling | None = None,
    size: int | SampleSize | None = None,
    user: str | None = None,
    max_keys_per_user: int | None = None,
    total: bool | Number = False,
    ledger: PathLike | None = None,
    keys_only: bool = False,
    grid: int | None = None,
    drop_null: bool = False,
    way: Way = "auto",
    partitions: int | None = None,
) -> Release:
    """Do what `dpsample.release` does with a DataFrame of Spark; the release itself is brought to the driver.

    `data` is a DataFrame, or a `Source` of one or of Parquet files that all workers see; `partitions` says into how
    many keys are divided when they are counted, unless Spark is to choose.
    """
    source = Source.of(data, key, frequency=frequency, drop_null=drop_null, user=user)
    request = Request.of(source, privacy, sampling, size, max_keys_per_user, None, total, ledger)
    return released(request, keys_only, grid, way, partitions)


def released(
    request: Request,
    keys_only: bool = False,
    grid: int | None = None,
    way: Way = "auto",
    partitions: int | None = None,
    output: str = "(in memory)",
) -> Release:
    """Carry out a request, for a release that is to be written."""
    with Spark(partitions=partitions) as engine:
        job, terms = prepared(engine, request, keys_only, grid, way, Secret())
        return job.release(terms, request.ledger, output)


def release_to_folder(
    folder: PathLike,
    data: Any,
    key: str | Sequence[str] | None = None,
    frequency: str | None = None,
    *,
    privacy: Privacy,
    sampling: Sampling | None = None,
    size: int | SampleSize | None = None,
    user: str | None = None,
    max_keys_per_user: int | None = None,
    total: bool | Number = False,
    ledger: PathLike | None = None,
    keys_only: bool = False,
    grid: int | None = None,
    drop_null: bool = False,
    way: Way = "auto",
    partitions: int | None = None,
) -> int:
    """Do what `release` does, but let the workers write it, as a folder of Parquet files; return its number of keys.

    The folder must be new, and on a file system that the driver and all workers see under this name. It appears whole
    or not at all; `dpsample.read_release` and everything else opens it like any other release.
    """
    source = Source.of(data, key, frequency=frequency, drop_null=drop_null, user=user)
    request = Request.of(source, privacy, sampling, size, max_keys_per_user, None, total, ledger)
    return written(folder, request, keys_only, grid, way, partitions)[0]


def written(
    folder: PathLike,
    request: Request,
    keys_only: bool = False,
    grid: int | None = None,
    way: Way = "auto",
    partitions: int | None = None,
) -> tuple[int, Terms]:
    """Carry out a request into a folder; return the number of keys in it, and its terms."""
    check_folder(folder)
    with Spark(partitions=partitions) as engine:
        job, terms = prepared(engine, request, keys_only, grid, way, Secret())
        return job.release_to_folder(folder, terms, request.ledger)


def sample(
    data: Any,
    key: str | Sequence[str] | None = None,
    frequency: str | None = None,
    *,
    sampling: Sampling,
    user: str | None = None,
    max_keys_per_user: int | None = None,
    drop_null: bool = False,
    way: Way = "auto",
    partitions: int | None = None,
) -> Sample:
    """Draw a weighted sample of keys, and bring it to the driver. It is NOT private: `dpsample.sanitize` it."""
    source = Source.of(data, key, frequency=frequency, drop_null=drop_null, user=user)
    max_keys, secret = check_users(source, max_keys_per_user), Secret()
    with Spark(partitions=partitions) as engine:
        source, way = _bounded(engine, source, max_keys, sampling, way, secret)
        return Job(engine, source, sampling, way, secret).sample(max_keys)


def sanitize(
    data: Any,
    key: str | Sequence[str] | None = None,
    frequency: str | None = None,
    *,
    privacy: Privacy,
    sampling: Sampling,
    ledger: PathLike | None = None,
    keys_only: bool = False,
    grid: int | None = None,
    partitions: int | None = None,
) -> Release:
    """Turn a sample that another job drew, a DataFrame with a row for each sampled key, into a release.

    State how it was drawn: a wrong scheme breaks privacy, and nobody can tell.
    """
    source = Source.of(data, key, frequency=frequency or "frequency")
    request = Request.of(source, privacy, sampling, ledger=ledger)
    with Spark(partitions=partitions) as engine:
        job = Job(engine, source, sampling, "aggregate", Secret(), drawn=True)
        return job.release(terms_of(request.budget, sampling, source.key, keys_only, grid), ledger)


@contextmanager
def session(master: str | None = None) -> Iterator[Any]:
    """Give the active session, or start one for the time of a block: at `master`, or where spark-submit says."""
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    builder: Any = SparkSession.builder.appName("dpsample")
    if master is not None:
        if master.startswith("local"):  # else Spark would take the first python3 of the PATH
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    started = translated(builder.getOrCreate, ())
    try:
        yield started
    finally:
        started.stop()


def prepared(
    engine: Spark, request: Request, keys_only: bool, grid: int | None, way: Way, secret: Secret
) -> tuple[Job, Terms]:
    """Bound users and buy totals; return what is left to do, and its terms."""
    budget, asked = request.budget, request.size
    other = SecretCoins()  # for totals: they are drawn on the driver, once
    again = asked is not None or budget.total > 0
    if again and not engine.frame(request.source).repeatable:
        raise random_rows("write it to files first, or leave totals and sizes out")
    first = asked.with_tau(Fraction(1)) if asked else request.sampling
    source, way = _bounded(engine, request.source, budget.max_keys, first, way, secret, again)
    elements = lru_cache(engine.total)  # two totals of elements need one count
    held, sampling, sized, total = None, request.sampling, None, None
    if asked is not None:
        if asked.by_frequency:
            truth = elements(source)
        else:
            held, truth = _weighed(engine, source, asked)
        weights = noisy(truth, budget, asked.share, asked.sensitivity, asked.unit, other)
        sampling, sized = asked.sampling(weights), RealizedSize(asked.size, weights)
    if budget.total:
        total = noisy(elements(source), budget, budget.total, Fraction(1), Fraction(1), other)
    terms = terms_of(budget, sampling, source.key, keys_only, grid, sized, total)
    return Job(engine, source, sampling, way, secret, held=held), terms


def _bounded(
    engine: Spark,
    source: Source,
    max_keys: int | None,
    sampling: Sampling,
    way: Way,
    secret: Secret,
    again: bool = False,
) -> tuple[Source, Way]:
    """What is counted, and how: to protect users, a key for each user who keeps it; `again` if also for a total."""
    way_of(source, sampling, way)  # refuses what is not possible
    if max_keys is None:
        return source, way
    # bounding has brought all keys together anyway
    way = "aggregate" if way == "auto" else way
    return engine.bound(source, max_keys, secret, often=again or way == "two-pass"), way


def _weighed(engine: Spark, source: Source, size: SampleSize) -> tuple[Any, int]:
    """All keys with their frequencies, kept on the workers, and the total of their weights."""
    made = engine.frame(source)

    def weigh_keys(batches: Batches) -> Batches:
        total = sum(size.total(batch.column("frequency").to_numpy()) for batch in batches)
        yield pa.record_batch({"total": [str(total)]})  # of any size

    def total() -> tuple[Any, int]:
        held = engine.keep(made.grouped(made.rows()))
        return held, sum(int(row[0]) for row in held.mapInArrow(weigh_keys, "total string").collect())

    return engine.job("weighing keys", source.columns, total)
