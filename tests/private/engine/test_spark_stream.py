"""A streaming query of Spark: whatever is run again, the state is that of the elements and the coins, each once."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from scipy import stats

import dpsample.spark
import faults
from clusters import Cluster
from dpsample import Privacy, SampleAndHold, read_sample, read_stream, sanitize
from dpsample.private.derived_coins import Secret
from dpsample.private.engine.spark import Spark
from dpsample.private.stream.queries import QueryStream
from spark_tasks import forms
from support import refused

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

TAU, KEYS = "0.3", 3000
ELEMENTS = (3, 5, 2)  # of each key in each batch


def secret_of_batch(secret: bytes, batch: int) -> bytes:
    return blake2b(batch.to_bytes(8, "little"), digest_size=32, key=secret, person=b"batch").digest()


def slow(batches: list[list[str]], secret: bytes) -> dict[str, int]:
    """What is held after all batches: of each key and batch the number u of its coins, in exact arithmetic."""
    held: dict[str, int] = {}
    passed = 1 - SampleAndHold(TAU).s
    for n, keys in enumerate(batches):
        counts = Counter(keys)
        new = sorted(set(counts) - set(held))
        coins = Secret(secret_of_batch(secret, n)).for_keys(pa.record_batch({"key": new}), "sample")
        for key, word in zip(new, coins.first(len(new)).tolist(), strict=True):
            picked = [g for g in range(1, counts[key] + 1) if Fraction(word, 1 << 64) < 1 - passed**g]
            if picked:
                held[key] = counts[key] - picked[0] + 1
        for key in set(counts) - set(new):
            held[key] += counts[key]
    return held


@pytest.fixture
def batches(tmp_path: Path) -> list[list[str]]:
    """The elements of each micro-batch, in files that are read one at a time."""
    (tmp_path / "elements").mkdir()
    made = []
    for n, times in enumerate(ELEMENTS):
        keys = [f"key {i * 7 % KEYS}" for i in range(times * KEYS)]
        path = tmp_path / "elements" / f"{n}.parquet"
        pq.write_table(pa.table({"k": keys}), path, row_group_size=500)
        os.utime(path, (10**9 + n, 10**9 + n))  # Spark reads the oldest first
        made.append(keys)
    return made


def elements_of(spark: Any, folder: Path, schema: str = "k string") -> Any:
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(f"file:{folder / 'elements'}")


def started(frame: Any, folder: Path, key: Any = "k", **options: Any) -> Any:
    how = {"tau": TAU, "state": folder / "s.private", "checkpoint": folder / "checkpoint", **options}
    return dpsample.spark.stream(frame, key, trigger={"availableNow": True}, **how)


def failing(query: Any, words: str) -> None:
    with pytest.raises(StreamingQueryException) as info:
        query.awaitTermination(120)
    assert words in str(info.value)


class Killed(Exception):  # noqa: N818 - no error of anybody
    """The end of a driver."""


@pytest.mark.chance("odds 3e-10: ten binomial tests at 1e-11 on both sides")
def test_a_worker_and_the_query_are_killed(
    spark: Any, cluster: Cluster, tmp_path: Path, batches: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is killed while it counts; the query ends before the state is written, and after that."""
    cluster.wait()
    jobs: list[str] = []
    named, add = Spark._named, QueryStream.add

    def noted(self: Spark, what: str, work: Callable[[], Any], rows: int | None) -> Any:
        jobs.append(what)
        (tmp_path / "phase").write_text(f"{what}, {len(jobs)}")
        return named(self, what, work, rows)

    def ending(self: QueryStream, counted: pa.Table, elements: int) -> None:
        if len(jobs) == 3:  # of the third batch, nothing is written
            raise Killed("before")
        add(self, counted, elements)
        if len(jobs) == 4:  # it is counted again, and the query does not take note of it
            raise Killed("after")

    def kill() -> None:
        end = time.monotonic() + 60
        while not (tmp_path / "here.written").exists() and time.monotonic() < end:
            time.sleep(0.02)
        cluster.kill((tmp_path / "here.written").read_text())

    monkeypatch.setattr(Spark, "_named", noted)
    monkeypatch.setattr(QueryStream, "add", ending)
    halting = faults.halting(faults.same, str(tmp_path), "counting a batch, 2", 0)
    frame = faults.rows_of(elements_of(spark, tmp_path), halting)
    killer = threading.Thread(target=kill)
    killer.start()
    failing(started(frame, tmp_path), "Killed: before")
    killer.join()
    assert (tmp_path / "here.written").exists()
    assert read_stream(tmp_path / "s.private").elements == 8 * KEYS
    failing(started(frame, tmp_path), "Killed: after")
    assert started(frame, tmp_path).awaitTermination(120)
    assert jobs == ["counting a batch"] * 4

    made = read_stream(tmp_path / "s.private")
    assert made.elements == sum(ELEMENTS) * KEYS
    assert repr(made) == "Stream (NOT private): 30,000 elements, SampleAndHold(tau='0.3')"
    held = dict(zip(*made.table.to_pydict().values(), strict=True))
    assert held == slow(batches, made._secret)
    counts, s = Counter(held.values()), float(SampleAndHold(TAU).s)
    for j in range(1, 11):  # a count of j of 10 elements has the probability s (1 - s)**(10 - j)
        law = stats.binom(KEYS, s * (1 - s) ** (10 - j))
        assert min(law.cdf(counts[j]), law.sf(counts[j] - 1)) > 1e-11

    folders = (cluster.folder, tmp_path / "checkpoint")
    texts = {path: path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}
    assert any("events" in str(path) and b"counting a batch" in text for path, text in texts.items())
    for secret in (made._secret, *(secret_of_batch(made._secret, n) for n in range(len(ELEMENTS)))):
        assert not [path for path, text in texts.items() if any(form in text for form in forms(secret))]
    assert not [path for path, text in texts.items() if "checkpoint" in str(path) and b"key 1" in text]

    release = sanitize(read_sample(tmp_path / "s.private"), privacy=Privacy(1, "1e-6"))
    assert len(release) <= len(held)
    with refused("a sample is sanitized once"):
        started(frame, tmp_path)


@pytest.mark.chance("odds 1e-12: with tau 32 an element is not picked with probability 1.3e-14")
def test_keys_of_several_columns_and_types(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "elements").mkdir()
    columns = {
        "t": pa.array(["", "é", "é"]),
        "n": pa.array([1, -1, -1], pa.int8()),
        "d": pa.array([0, 1, 1], pa.int32()).cast(pa.date32()),
        "m": pa.array([0, 1_500_000, 1_500_000], pa.timestamp("us", "UTC")),
        "x": pa.array([Decimal("1.50"), Decimal("-7.10"), Decimal("-7.10")]),
        "b": pa.array([b"", b"\xff\0", b"\xff\0"]),
    }
    for n in range(2):
        pq.write_table(pa.table(columns), tmp_path / "elements" / f"{n}.parquet")
    schema = "t string, n tinyint, d date, m timestamp, x decimal(3,2), b binary"
    assert started(elements_of(spark, tmp_path, schema), tmp_path, list(columns), tau=32).awaitTermination(120)
    table = read_stream(tmp_path / "s.private").table
    assert table.to_pylist() == pa.table({**columns, "frequency": [2, 4, 4]}).slice(0, 2).to_pylist()


@pytest.mark.chance("certain: only refusals and numbers of elements are looked at")
def test_what_is_refused(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "elements").mkdir()
    pq.write_table(pa.table({"k": ["a", None]}), tmp_path / "elements" / "0.parquet")
    frame = elements_of(spark, tmp_path)
    failing(started(frame, tmp_path), "the key column 'k' must have no NULL")
    assert read_stream(tmp_path / "s.private").elements == 0
    assert started(frame, tmp_path, drop_null=True).awaitTermination(120)
    assert read_stream(tmp_path / "s.private").elements == 1

    with refused("the state was started with"):
        started(frame, tmp_path, tau="0.2")
    with refused("these data are no streaming DataFrame"):
        started(spark.createDataFrame([("a",)], "k string"), tmp_path)
    with refused("the column 'k' must be in"):
        started(frame.withColumnRenamed("k", "other"), tmp_path)
    with refused("may be others when a batch is counted again"):
        started(frame.filter("rand() < 0.5"), tmp_path)
    with refused("a streaming DataFrame cannot be released"):
        dpsample.spark.release(frame, "k", privacy=Privacy(1, "1e-6"))
    failing(started(frame, tmp_path, checkpoint=tmp_path / "other", drop_null=True), "of another streaming query")
    pq.write_table(pa.table({"k": ["b"]}), tmp_path / "elements" / "1.parquet")
    failing(started(frame, tmp_path, state=tmp_path / "new.private"), "lacks batches of this")
