"""Spark, on a real cluster: what is re-run decides the same, nothing leaks, and a release is whole or not there."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import textwrap
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from scipy import stats

import dpsample.spark
import faults
from clusters import Cluster, heard
from connected import prepared_for_users
from dpsample import (
    CustomSampling,
    InvalidValue,
    KeepAll,
    Ppswor,
    Priority,
    Privacy,
    Release,
    Sampling,
    SoftCap,
    Source,
    SystemFailure,
)
from dpsample.accounting.budget import Budget
from dpsample.cli import cli
from dpsample.private.charge import NoLedger
from dpsample.private.checks import usable_strategy
from dpsample.private.derived_coins import Secret
from dpsample.private.engine.spark import Spark, jobs
from dpsample.private.engine.spark.engine import received
from dpsample.private.engine.spark.jobs import Job
from dpsample.private.prepare import Counting, terms_of
from dpsample.release.options import Strategy
from places import HELPERS, ROOT
from release_laws import FREQUENCIES, assert_law, elements
from spark_tasks import KEY, PRIVACY, forms, killed

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("spark"),
    pytest.mark.chance("odds 4e-9: the laws of test_run; elsewhere a given secret, or keys that are surely reported"),
]


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
        with pytest.raises(InvalidValue, match="is sent to the workers together with the secret, and must be small"):
            dpsample.spark.release(Source(events, "k"), privacy=PRIVACY, sampling=sampling)

    def test_each_release_has_its_own(self, events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[Secret] = []

        monkeypatch.setattr(Spark, "new_coins", lambda self: made.append(Secret()) or made[-1])  # type: ignore[func-returns-value]
        for _ in range(2):
            dpsample.spark.release(Source(events, "k"), privacy=PRIVACY)
        assert len({secret._key for secret in made}) == 2


class TestConnect:
    def test_a_release_over_spark_connect(self, spark: Any, events: Path, tmp_path: Path) -> None:
        if find_spec("grpc") is None and not os.environ.get("CI"):
            pytest.skip("no grpcio for Spark Connect")
        log = tmp_path / "events"
        ours, here = [str(ROOT / "src"), str(HELPERS)], os.environ.get("PYTHONPATH", "")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*ours, here]), "PYSPARK_PYTHON": sys.executable}
        arguments = [str(HELPERS / "connected.py"), str(events), f"{tmp_path}/out", str(log), KEY.hex()]
        done = subprocess.run(
            [sys.executable, "-W", "ignore", *arguments], capture_output=True, check=False, env=environment, timeout=900
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert dpsample.read_release(tmp_path / "out") == drawn(Source(events, "k"), Ppswor(0.01), "aggregate")
        written = b"".join(path.read_bytes() for path in log.rglob("*") if path.is_file())
        with Spark() as engine:
            job, terms = prepared_for_users(engine, spark.read.parquet(f"file:{events}"), KEY)
            made = job.release(terms, NoLedger())
        assert dpsample.read_release(tmp_path / "out.users") == made
        assert len(made) > 10
        assert b"dpsample-picking-elements" in written  # the name of the work, as a tag
        for form in forms():
            assert form not in written + done.stderr + done.stdout


class TestExample:
    def test_the_one_in_the_docs(self, spark: Any, tmp_path: Path) -> None:
        page = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
        start = page.index("    import dpsample.spark")
        code = textwrap.dedent(page[start : page.index("\nThe folder opens", start)])
        pq.write_table(pa.table({"query": ["weather"] * 200_000}), tmp_path / "events.parquet")
        code = code.replace("hdfs:///events", f"file:{tmp_path}/events.parquet").replace("/shared", str(tmp_path))
        names = {"spark": spark}
        exec(code, names)
        made = names["release"]
        assert isinstance(made, Release)
        for found in (made, dpsample.read_release(tmp_path / "queries.private")):
            assert found.table["query"].to_pylist() == ["weather"]


class TestPages:
    def test_jobs_and_stages_have_names_for_people(
        self, spark: Any, events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = Source(events, "k")
        monkeypatch.setattr("dpsample.private.engine.spark.jobs._PART", 200)
        written(tmp_path / "out", source, Ppswor(0.01), "two-pass")
        spark.sparkContext.setJobDescription("mine")
        try:
            drawn(source, KeepAll(), "aggregate")
            assert spark.sparkContext.getLocalProperty("spark.job.description") == "mine"
        finally:
            spark.sparkContext.setLocalProperty("spark.job.description", None)
        heard(spark)
        page = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"
        for what in ("jobs", "stages"):
            with urlopen(f"{page}/{what}", timeout=300) as answer:
                names = {item.get("description") for item in json.load(answer)}
            for name in (
                "picking elements",
                "counting and sanitizing keys",
                "dividing the release",
                "writing the release",
            ):
                assert f"dpsample: {name}" in names

    def test_partitions_are_set_and_shown(self, spark: Any, events: Path) -> None:
        assert Spark(spark).partitions == "4, fewer where they are small"
        assert Spark(spark, partitions=3).partitions == "3"
        before = spark.sparkContext.statusTracker().getJobIdsForGroup(None)
        drawn(Source(events, "k"), KeepAll(), "aggregate", partitions=3)
        heard(spark)
        assert spark.conf.get("spark.sql.shuffle.partitions") == "4"
        tracker = spark.sparkContext.statusTracker()
        jobs = [job for job in tracker.getJobIdsForGroup(None) if job not in before]
        stages = [stage for job in jobs for stage in tracker.getJobInfo(job).stageIds]
        assert 3 in [info.numTasks for stage in stages if (info := tracker.getStageInfo(stage)) is not None]
        for bad in (0, -1, 1.5, True, "4"):
            with pytest.raises(InvalidValue, match="partitions is a whole number from 1"):
                Spark(spark, partitions=bad)  # type: ignore[arg-type]


class TestFolder:
    @pytest.mark.parametrize("keys_only", [False, True], ids=["tokens", "keys only"])
    def test_it_is_the_same_release(self, keys_only: bool, spark: Any, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr("dpsample.private.engine.spark.jobs._PART", 100)
        counts = [(f"k{i % 7}", i, 5 * i) for i in range(1000)]
        frame = spark.createDataFrame(counts, "a string, b int, n bigint")
        source = Source(frame, ["a", "b"], "n")
        with Spark() as engine:
            job = job_of(engine, source, KeepAll(), "aggregate", Secret(KEY))
            terms = terms_of(Budget(PRIVACY), KeepAll(), source.key, keys_only, None)
            rows = job.release_to_folder(tmp_path / "out", terms, NoLedger())
            assert dpsample.read_release(tmp_path / "out") == job.release(terms, NoLedger())
        parts = sorted(tmp_path.glob("out/*.parquet"))
        assert len(parts) == -(-rows // 100)
        sizes = [pq.read_metadata(part).num_rows for part in parts]
        assert sum(sizes) == rows
        assert max(sizes) < 200
        assert {path.name for path in tmp_path.iterdir()} == {"out"}
        for part in parts:  # one part is not a release
            with pytest.raises(InvalidValue):
                dpsample.read_release(part)

    def test_what_is_in_a_part_depends_on_the_release_alone(self, spark: Any, tmp_path: Path, monkeypatch: Any) -> None:
        # the same reported keys out of other data, in other partitions: rare keys that are surely not reported
        monkeypatch.setattr("dpsample.private.engine.spark.jobs._PART", 100)
        keys = [(f"key {i}", 10_000) for i in range(500)]
        more = [(f"rare {i}", 0) for i in range(3000)]
        for name, rows, partitions in (("a", keys, 1), ("b", more + keys[::-1], 7)):
            frame = spark.createDataFrame(rows, "k string, n bigint").repartition(partitions)
            written(tmp_path / name, Source(frame, "k", "n"), KeepAll(), "aggregate")
        names = sorted(path.name for path in (tmp_path / "a").iterdir())
        assert len(names) == 6
        assert names == sorted(path.name for path in (tmp_path / "b").iterdir())
        for name in names:
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()

    def test_an_empty_one(self, spark: Any, tmp_path: Path) -> None:
        frame = spark.createDataFrame([], "k string")
        assert dpsample.spark.release_to_folder(tmp_path / "out", frame, "k", privacy=PRIVACY) == 0
        assert len(dpsample.read_release(tmp_path / "out")) == 0

    def test_a_folder_that_is_not_shared(self, events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # what a worker wrote is not where the driver looks
        monkeypatch.setattr("dpsample.private.engine.spark.jobs._drafted", faults.elsewhere)
        with pytest.raises(SystemFailure, match="the folder must be one that the driver and all workers see"):
            dpsample.spark.release_to_folder(tmp_path / "out", Source(events, "k"), privacy=PRIVACY)
        assert list(tmp_path.iterdir()) == []

    def test_what_exists_is_kept(self, spark: Any, events: Path, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine").touch()
        for bad in (tmp_path / "out", tmp_path / "missing" / "out"):
            with pytest.raises(InvalidValue, match=r"not overwritten|in one that exists"):
                dpsample.spark.release_to_folder(bad, Source(events, "k"), privacy=PRIVACY)
        assert [path.name for path in tmp_path.rglob("*")] == ["out", "mine"]

    def test_a_disk_without_room_costs_nothing(self, events: Path, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr("dpsample.files.outputs.ROOM", 1 << 60)
        dpsample.new_ledger(tmp_path / "l", "data", Privacy(9, 1e-2))
        options: dict[str, Any] = {"privacy": PRIVACY, "ledger": tmp_path / "l"}
        with pytest.raises(SystemFailure, match="space left"):
            dpsample.spark.release_to_folder(tmp_path / "out", Source(events, "k"), **options)
        assert dpsample.read_ledger(tmp_path / "l").charged == ()
        assert [path.name for path in tmp_path.iterdir()] == ["l"]

    @pytest.mark.parametrize("phase", ["sanitizing", "writing"])
    def test_a_failed_job_leaves_nothing(
        self, phase: str, spark: Any, events: Path, tmp_path: Path, monkeypatch: Any
    ) -> None:
        frame = spark.read.parquet(f"file:{events}")
        if phase == "writing":
            monkeypatch.setattr("dpsample.private.engine.spark.jobs._PART", 200)
            monkeypatch.setattr("dpsample.private.engine.spark.jobs._write", lambda *_: faults.failing)
        else:
            frame = faults.rows_of(frame, faults.failing)
        with pytest.raises(SystemFailure, match="the Spark job must come to its end") as caught:
            dpsample.spark.release_to_folder(tmp_path / "out", frame, "k", privacy=PRIVACY)
        assert list(tmp_path.iterdir()) == []
        error: BaseException | None = caught.value
        while error is not None:
            assert "key " not in "".join(traceback.format_exception(error)).replace("key column", "")
            error = error.__cause__ or error.__context__


class TestSkew:
    def test_one_key_with_half_of_all_elements_and_very_many_keys(self, spark: Any) -> None:
        # 2 million elements, a million keys, in executors of 700 MB; the number of reports is binomial with
        # p = delta = 1e-3, since every other key has frequency 1: odds of a false alarm 2e-12
        n = 1_000_000
        frame = spark.range(2 * n).selectExpr("if(id % 2 = 0, -1, id) AS k")
        made = dpsample.spark.release(frame, "k", privacy=PRIVACY)
        keys = made.table["k"].to_numpy()
        assert keys[0] == -1
        assert abs(made.table["estimate"][0].as_py() - n) < 100
        count = len(keys) - 1
        assert min(stats.binom.cdf(count, n, 1e-3), stats.binom.sf(count - 1, n, 1e-3)) > 1e-12


class TestFunctions:
    def test_sanitize_a_sample_of_another_job(self, spark: Any) -> None:
        frame = spark.createDataFrame([("a", 900), ("b", 800), ("c", 1)], "word string, frequency int")
        made = dpsample.spark.sanitize(frame, "word", privacy=Privacy(1, 1e-10), sampling=Ppswor(1))
        assert made.table["word"].to_pylist() == ["a", "b"]
        assert made.sampling == Ppswor(1)
        with pytest.raises(InvalidValue, match="a sample has each key once"):
            dpsample.spark.sanitize(frame.union(frame), "word", privacy=Privacy(1, 1e-10), sampling=Ppswor(1))

    def test_a_ledger_refuses_a_second_release_of_a_sample(self, spark: Any, tmp_path: Path) -> None:
        dpsample.new_ledger(tmp_path / "l", "data", Privacy(9, 1e-3))
        frame = spark.createDataFrame([("a", 900)], "word string, frequency int")

        def sanitized(identity: str | None) -> Release:
            options: dict[str, Any] = {"privacy": Privacy(1, 1e-10), "sampling": Ppswor(1), "ledger": tmp_path / "l"}
            return dpsample.spark.sanitize(frame, "word", identity=identity, **options)

        for missing in (None, ""):
            with pytest.raises(InvalidValue, match="a ledger refuses a second release of a sample"):
                sanitized(missing)
        assert len(sanitized("first")) == 1
        with pytest.raises(InvalidValue, match="a sample is released once"):
            sanitized("first")
        assert len(sanitized("second")) == 1
        assert [entry.charge.sample for entry in dpsample.read_ledger(tmp_path / "l").charged] == ["first", "second"]

    def test_other_engines_say_where_to_go(self, spark: Any) -> None:
        frame = spark.createDataFrame([("a",)], "word string")
        with pytest.raises(InvalidValue, match=r"use dpsample\.spark instead"):
            dpsample.release(frame, "word", privacy=PRIVACY)
        with pytest.raises(InvalidValue, match=r"use dpsample\.release, which reads it on this machine"):
            dpsample.spark.release({"a": 5}, privacy=PRIVACY)

    def test_random_rows_are_not_read_twice(self, spark: Any) -> None:
        source = Source(spark.range(1000).selectExpr("if(rand() < 0.5, 1, 2) AS k"), "k")
        with pytest.raises(InvalidValue, match="what is read twice must be the same each time"):
            dpsample.spark.release(source, privacy=PRIVACY, sampling=Ppswor(0.01), strategy="two-pass")
        with Spark() as engine:
            assert usable_strategy(engine, source, Ppswor(0.01), "auto") == "aggregate"
            steady = Source(spark.range(1000).toDF("k"), "k")
            assert usable_strategy(engine, steady, Ppswor(0.01), "auto") == "two-pass"

    def test_a_collation_does_not_merge_keys(self, spark: Any) -> None:
        if int(spark.version.split(".")[0]) < 4:
            pytest.skip("Spark 3.5 has no collations")
        frame = spark.sql("SELECT explode(array_repeat(k, 500)) AS k FROM VALUES ('a'), ('A') AS t(k)")
        made = dpsample.spark.release(frame.selectExpr("k COLLATE UTF8_LCASE AS k"), "k", privacy=Privacy(1, 1e-10))
        assert made.table["k"].to_pylist() == ["A", "a"]


class TestCommand:
    def run(self, *arguments: str) -> Any:
        return CliRunner().invoke(cli, [*arguments], catch_exceptions=False)

    def test_release(self, cluster: Cluster, events: Path, tmp_path: Path) -> None:
        common = ["-k", "k", "-e", "1", "-d", "1e-8", "--engine", "spark", "--master", cluster.address]
        for output, partitions in ((f"{tmp_path}/out/", []), (f"{tmp_path}/out.parquet", ["--partitions", "2"])):
            done = self.run("release", f"file:{events}", *common, *partitions, "-o", output)
            assert done.exit_code == 0, done.output
            shown = partitions[1] if partitions else "4, fewer where they are small"
            assert f"strategy: aggregate, partitions: {shown}" in done.output
            made = dpsample.read_release(output.rstrip("/"))
            assert made.privacy == Privacy(1, 1e-8)
            assert len(made) > 0

    def test_sample(self, cluster: Cluster, events: Path, tmp_path: Path) -> None:
        scheme = ["--scheme", "ppswor", "--tau", "1e-3", "--engine", "spark", "--master", cluster.address]
        done = self.run("sample", f"file:{events}", "-k", "k", *scheme, "-o", f"{tmp_path}/sample.parquet")
        assert done.exit_code == 0, done.output
        assert len(dpsample.read_sample(tmp_path / "sample.parquet")) > 0

    def test_options_of_the_other_engine_are_refused(self, events: Path, tmp_path: Path) -> None:
        common = ["release", str(events), "-k", "k", "-e", "1", "-d", "1e-8", "-o", f"{tmp_path}/x.parquet"]
        for more in (["--engine", "spark", "--memory-limit", "1GB"], ["--partitions", "3"], ["--master", "local"]):
            assert self.run(*common, *more).exit_code == 2
        assert list(tmp_path.iterdir()) == []
