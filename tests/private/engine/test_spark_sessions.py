"""Sessions, pages, folders and functions of Spark: nothing leaks, and a release is whole or not there."""

from __future__ import annotations

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

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from scipy import stats

import dpsample.spark
import faults
from clusters import Cluster, heard
from connected import drawn_for_users
from dpsample import InvalidValue, KeepAll, Ppswor, Privacy, Release, Source, SystemFailure
from dpsample.accounting.budget import Budget
from dpsample.cli import cli
from dpsample.private.charge import NoLedger
from dpsample.private.checks import usable_strategy
from dpsample.private.derived_coins import Secret
from dpsample.private.engine.spark import Spark
from dpsample.private.tokens import terms_of
from places import HELPERS, ROOT
from spark_tasks import KEY, PRIVACY, drawn, forms, job_of, written
from spark_tasks import events as events

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("spark"),
    pytest.mark.chance("odds 4e-9: the laws of test_run; elsewhere a given secret, or keys that are surely reported"),
]


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
            made = drawn_for_users(engine, spark.read.parquet(f"file:{events}"), KEY).in_memory(NoLedger())
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
            with pytest.raises(InvalidValue, match="partitions must be a whole number from 1"):
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
        with pytest.raises(SystemFailure, match="the driver does not see what workers wrote"):
            dpsample.spark.release_to_folder(tmp_path / "out", Source(events, "k"), privacy=PRIVACY)
        assert list(tmp_path.iterdir()) == []

    def test_what_exists_is_kept(self, spark: Any, events: Path, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine").touch()
        for bad in (tmp_path / "out", tmp_path / "missing" / "out"):
            with pytest.raises(InvalidValue, match=r"exists already|there is no folder"):
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
        with pytest.raises(SystemFailure, match="the Spark job failed") as caught:
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
        with pytest.raises(InvalidValue, match="at least one key of the sample is in several rows"):
            dpsample.spark.sanitize(frame.union(frame), "word", privacy=Privacy(1, 1e-10), sampling=Ppswor(1))

    def test_a_ledger_refuses_a_second_release_of_a_sample(self, spark: Any, tmp_path: Path) -> None:
        dpsample.new_ledger(tmp_path / "l", "data", Privacy(9, 1e-3))
        frame = spark.createDataFrame([("a", 900)], "word string, frequency int")

        def sanitized(identity: str | None) -> Release:
            options: dict[str, Any] = {"privacy": Privacy(1, 1e-10), "sampling": Ppswor(1), "ledger": tmp_path / "l"}
            return dpsample.spark.sanitize(frame, "word", identity=identity, **options)

        for missing in (None, ""):
            with pytest.raises(InvalidValue, match="a sample needs an identity to be entered in a ledger"):
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
        with pytest.raises(InvalidValue, match="reads its source twice"):
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
