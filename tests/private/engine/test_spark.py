"""Spark, on a real cluster: what is re-run decides the same, nothing leaks, and a release is whole or not there."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import dpsample.spark
import faults
from clusters import Cluster, heard
from dpsample import CustomSampling, InvalidValue, KeepAll, Ppswor, Priority, Release, Sampling, SoftCap, Source
from dpsample.accounting.budget import Budget
from dpsample.private.derived_coins import Secret
from dpsample.private.engine.spark import Spark, jobs
from dpsample.private.engine.spark.engine import received
from dpsample.private.tokens import terms_of
from dpsample.release.options import Strategy
from release_laws import FREQUENCIES, assert_law, elements
from spark_tasks import KEY, PRIVACY, drawn, forms, job_of, killed, written
from spark_tasks import events as events
from spark_tasks import phases as phases

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("spark"),
    pytest.mark.chance("odds 4e-9: the laws of test_run; elsewhere a given secret, or keys that are surely reported"),
]


@pytest.fixture(scope="module")
def calm(spark: Any, events: Path) -> Release:
    """A release in two passes when nothing happens."""
    frame = spark.read.parquet(f"file:{events}")
    return drawn(Source(faults.rows_of(frame, faults.same), "k"), Ppswor(0.01), "two-pass")


class TestFaults:
    """With the same secret, the same release as when nothing happens."""

    @pytest.mark.parametrize("phase", ["picking elements", "counting and sanitizing keys"])
    def test_a_worker_is_killed_in_a_pass(
        self, phase: str, spark: Any, cluster: Cluster, events: Path, calm: Release, phases: Path
    ) -> None:
        frame = spark.read.parquet(f"file:{events}")
        halting = faults.rows_of(frame, faults.halting(faults.same, str(phases), phase, 1))
        found = killed(cluster, phases, lambda: drawn(Source(halting, "k"), Ppswor(0.01), "two-pass"))
        assert found == calm
        assert 300 < len(found) < 3000

    def test_a_worker_is_killed_while_it_writes(
        self, cluster: Cluster, events: Path, phases: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dpsample.private.engine.spark.jobs._PART", 200)
        calm = written(phases / "calm", Source(events, "k"), KeepAll(), "aggregate")
        write = jobs._write

        def halting(folder: str, drawn: pa.Schema, columns: pa.Schema, terms: Any) -> faults.Kernel:
            return faults.halting(write(folder, drawn, columns, terms), str(phases), "writing the release", 1)

        monkeypatch.setattr("dpsample.private.engine.spark.jobs._write", halting)
        found = killed(cluster, phases, lambda: written(phases / "out", Source(events, "k"), KeepAll(), "aggregate"))
        assert found == calm == drawn(Source(events, "k"), KeepAll(), "aggregate")
        names = {path.name for path in (phases / "out").iterdir()}
        assert len(names) > 5
        for name in names:  # also byte by byte
            assert (phases / "out" / name).read_bytes() == (phases / "calm" / name).read_bytes()

    def test_tasks_that_run_twice_at_a_time(
        self, spark: Any, cluster: Cluster, events: Path, calm: Release, tmp_path: Path
    ) -> None:
        cluster.wait()
        frame = spark.read.parquet(f"file:{events}")
        lagging = faults.rows_of(frame, faults.lagging(str(tmp_path), 1))
        assert drawn(Source(lagging, "k"), Ppswor(0.01), "two-pass") == calm
        # a second attempt ran beside the first, which may have been ended before it came to say that it is there
        assert {path.name.rsplit("-", 1)[1] for path in tmp_path.glob("attempt-*")} >= {"1"}

    @pytest.mark.parametrize("sampling", [KeepAll(), Priority(0.01)], ids=str)
    def test_rows_in_any_order_and_any_partitions(self, sampling: Sampling, spark: Any, events: Path) -> None:
        frame = spark.read.parquet(f"file:{events}")
        first = drawn(Source(frame, "k"), sampling, "aggregate")
        assert drawn(Source(frame.orderBy("k").repartition(7), "k"), sampling, "aggregate", partitions=3) == first
        assert drawn(Source(frame, "k"), sampling, "aggregate", bytes(32)) != first

    def test_a_frame_that_is_evaluated_twice(self, spark: Any, events: Path) -> None:

        source = Source(spark.read.parquet(f"file:{events}"), "k")
        for sampling, strategy in ((Priority(0.01), "aggregate"), (Ppswor(0.01), "two-pass")):
            with Spark() as engine:
                job = job_of(engine, source, sampling, strategy, Secret(KEY))  # type: ignore[arg-type]
                reported = job._messages(terms_of(Budget(PRIVACY), sampling, ("k",), False, None))
                runs = [pa.Table.from_batches(received(reported.collect())).sort_by("k") for _ in range(2)]
                # another secret in the same session: nothing that Spark keeps is taken for its own
                job.secret = Secret(bytes(32))
                other = job._messages(terms_of(Budget(PRIVACY), sampling, ("k",), False, None))
                runs.append(pa.Table.from_batches(received(other.collect())).sort_by("k"))
            assert runs[0].equals(runs[1])
            assert runs[0].num_rows > 100
            assert not runs[0]["k"].equals(runs[2]["k"])


class TestLaw:
    @pytest.mark.parametrize(
        ("sampling", "strategy"),
        [
            (KeepAll(), "aggregate"),
            (Ppswor(0.02), "aggregate"),
            (Ppswor(0.02), "two-pass"),
            (Priority(0.01), "aggregate"),
        ],
        ids=str,
    )
    def test_reports_and_tokens_follow_the_law_end_to_end(
        self, sampling: Sampling, strategy: Strategy, tmp_path: Path
    ) -> None:
        # as in test_run, with the same odds of a false alarm: 4e-9
        n = 20_000
        duckdb.from_arrow(elements(n)).write_parquet(str(tmp_path / "events.parquet"))
        source = Source(tmp_path / "events.parquet", "key")
        assert_law(dpsample.spark.release(source, privacy=PRIVACY, sampling=sampling, strategy=strategy), n)

    def test_two_passes_draw_threshold_ppswor(self, tmp_path: Path) -> None:
        # the sampled number of n keys of frequency i is binomial(n, 1 - exp(-tau i)); odds of a false alarm 6 * 2e-11
        n, tau = 20_000, 0.015
        duckdb.from_arrow(elements(n)).write_parquet(str(tmp_path / "events.parquet"))
        made = dpsample.spark.sample(
            Source(tmp_path / "events.parquet", "key"), sampling=Ppswor(tau), strategy="two-pass"
        )
        frequency = made.table["frequency"].to_numpy()
        assert (made.table["key"].to_numpy() // 10**6 == frequency).all()
        for i in FREQUENCIES:
            count, p = int((frequency == i).sum()), float(-np.expm1(-tau * i))
            assert min(stats.binom.cdf(count, n, p), stats.binom.sf(count - 1, n, p)) > 1e-11

    def test_a_public_hash_chooses_the_same_keys_as_on_one_machine(self, tmp_path: Path) -> None:
        n = np.arange(600)
        keys = {
            "t": pa.array([f"Zürich {i % 97}" for i in n]),
            "d": pa.array(n % 5, pa.int32()).cast(pa.date32()),
            "s": pa.array(n % 2 * 1_500_000, pa.timestamp("us")),
            "n": pa.array(n % 3, pa.int64()).cast(pa.decimal128(20, 0)).cast(pa.decimal128(22, 2)),
        }
        pq.write_table(pa.table({**keys, "frequency": 1 + n}), tmp_path / "events.parquet")
        source, sampling = Source(tmp_path / "events.parquet", [*keys], "frequency"), Ppswor(0.01, seed="public")
        there, here = (draw(source, sampling=sampling) for draw in (dpsample.spark.sample, dpsample.sample))
        order = [(name, "ascending") for name in keys]
        assert there.table.sort_by(order).to_pylist() == here.table.sort_by(order).to_pylist()
        assert 100 < len(here) < 580

    def test_a_soft_cap_is_drawn_in_two_passes(self, tmp_path: Path) -> None:
        # the sampled number of keys is binomial; odds of a false alarm 6 * 2e-11. A gate for each element, instead of
        # one for each key, would sample twice as many of those of frequency 80
        n, sampling = 3_000, SoftCap("0.02", 20)
        duckdb.from_arrow(elements(n)).write_parquet(str(tmp_path / "events.parquet"))
        source = Source(tmp_path / "events.parquet", "key")
        frequency = dpsample.spark.sample(source, sampling=sampling, strategy="two-pass").table["frequency"].to_numpy()
        for i in FREQUENCIES:
            count, p = int((frequency == i).sum()), float(sampling.q([i])[0])
            assert min(stats.binom.cdf(count, n, p), stats.binom.sf(count - 1, n, p)) > 1e-11


class TestSecret:
    def test_it_is_nowhere_to_be_found(self, spark: Any, cluster: Cluster, events: Path, tmp_path: Path) -> None:
        frame = spark.read.parquet(f"file:{events}")
        drawn(Source(frame, "k"), Ppswor(0.01), "two-pass")
        written(tmp_path / "out", Source(frame, "k"), KeepAll(), "aggregate")
        with Spark() as engine:
            users = Source(frame.selectExpr("k", "hash(k) % 100 AS u"), "k", user="u")
            assert engine.total(engine.bounded(users, 2, Secret(KEY))) > 100

        texts: dict[str, bytes] = {}
        with Spark() as engine:
            job = job_of(engine, Source(frame, "k"), KeepAll(), "aggregate", Secret(KEY))
            reported = job._messages(terms_of(Budget(PRIVACY), KeepAll(), ("k",), False, None))
            plan = reported._jdf.queryExecution()
            texts["plan"] = f"{plan}{plan.logical()}{plan.executedPlan()}{plan.logical().toJSON()}".encode()
            texts["columns"] = f"{reported.schema} {reported}".encode()
        assert b"sample_and_sanitize" in texts["plan"]
        heard(spark)
        texts["settings"] = repr(spark.sparkContext.getConf().getAll()).encode()
        texts["settings of the session"] = repr(spark.sql("SET -v").collect()).encode()
        page = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"
        for name in (
            "jobs",
            "stages",
            "sql?details=true&planDescription=true&length=1000",
            "environment",
            "storage/rdd",
        ):
            with urlopen(f"{page}/{name}", timeout=300) as answer:
                texts[name] = answer.read()
        assert b"counting and sanitizing keys" in texts["jobs"]
        files = [
            path for path in [*cluster.folder.rglob("*"), *tmp_path.rglob("*"), *events.rglob("*")] if path.is_file()
        ]
        for path in files:
            texts[str(path)] = path.read_bytes()
        kinds = {path.suffix or path.name for path in files}
        assert {".log", "stderr", ".parquet", ".json"} <= kinds
        assert any("events/" in name and b"SparkListenerSQLExecutionStart" in text for name, text in texts.items())
        for name, text in texts.items():
            for form in forms():
                assert form not in text, name

    def test_the_search_would_find_it(self) -> None:
        for written_as in (
            KEY,
            KEY.hex().encode(),
            *(base64.b64encode(before + KEY + b"after") for before in (b"", b"?", b"??", b"???")),
            repr(KEY).encode(),
            repr(list(KEY)).encode(),
        ):
            assert any(form in b"x" + written_as + b"x" for form in forms())

    def test_what_is_sent_is_too_small_for_a_file(self, events: Path) -> None:
        # Spark writes functions of more than a megabyte to disk on their way
        from pyspark.cloudpickle import dumps

        sent: list[Any] = []

        class Noted:
            def mapInArrow(self, kernel: Any, schema: Any) -> None:
                sent.append(kernel)

        with Spark() as engine:
            job = job_of(engine, Source(events, "k"), Ppswor(0.01), "aggregate", Secret(KEY))
            job._counted = lambda: Noted()  # type: ignore[method-assign]
            job._messages(terms_of(Budget(PRIVACY), Ppswor(0.01), ("k",), False, None))
        pickled: bytes = dumps(sent[0])  # type: ignore[no-untyped-call]
        assert KEY in pickled
        assert len(pickled) < 100_000

    def test_a_scheme_that_would_take_it_to_a_file_is_refused(self, events: Path) -> None:
        sampling = CustomSampling([f"{0.5 + i / 10**7:.7f}" for i in range(131_072)])
        with pytest.raises(InvalidValue, match="too many to be sent to workers"):
            dpsample.spark.release(Source(events, "k"), privacy=PRIVACY, sampling=sampling)

    def test_each_release_has_its_own(self, events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[Secret] = []

        monkeypatch.setattr(Spark, "new_coins", lambda self: made.append(Secret()) or made[-1])  # type: ignore[func-returns-value]
        for _ in range(2):
            dpsample.spark.release(Source(events, "k"), privacy=PRIVACY)
        assert len({secret._key for secret in made}) == 2
