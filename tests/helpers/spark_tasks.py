"""What tests of Spark do: release elements, kill a task, plant a fault, and compare forms of the same rows."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsample.spark
from clusters import Cluster
from dpsample import Privacy, Release, Sampling, Source
from dpsample.accounting.budget import Budget
from dpsample.private.charge import NoLedger
from dpsample.private.derived_coins import Secret
from dpsample.private.drawing import Counting
from dpsample.private.engine.spark import Spark
from dpsample.private.engine.spark.jobs import Job
from dpsample.private.tokens import terms_of
from dpsample.release.options import Strategy

PRIVACY = Privacy(0.5, 1e-3)
KEY = bytes(range(100, 132))


@pytest.fixture
def phases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that tells what Spark is doing."""
    named = Spark._named

    def noted(self: Spark, what: str, work: Callable[[], Any], rows: int | None) -> Any:
        (tmp_path / "phase").write_text(what)
        return named(self, what, work, rows)

    monkeypatch.setattr(Spark, "_named", noted)
    return tmp_path


def killed(cluster: Cluster, folder: Path, work: Callable[[], Any]) -> Any:
    """Kill the worker that has come half-way, and all that it runs."""
    cluster.wait()

    def kill() -> None:
        end = time.monotonic() + 300
        while not (folder / "here.written").exists() and time.monotonic() < end:
            time.sleep(0.02)
        cluster.kill((folder / "here.written").read_text())

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        return work()
    finally:
        killer.join()
        assert (folder / "here.written").exists()


def forms(key: bytes = KEY) -> list[bytes]:
    """A secret as it might be written, whole or cut off."""
    raw = key[:12]
    # base64 at each alignment: n bytes before the secret, and from the first sign that is the secret's alone
    bases = [base64.b64encode(bytes(n) + key)[-(-8 * n // 6) :][:14] for n in range(3)]
    numbers = ", ".join(map(str, key[:6])).encode()
    return [raw, raw.hex().encode(), raw.hex().upper().encode(), *bases, repr(raw)[2:-1].encode(), numbers]


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
