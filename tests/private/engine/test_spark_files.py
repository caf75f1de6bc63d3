"""Files that Spark reads by itself: each once, and with types that do not follow from the names of folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsample import Source
from dpsample.accounting.parts import Part
from dpsample.files import check_not_input
from dpsample.private.engine.spark import Spark
from dpsample.spark import read_parquet
from support import refused

pytestmark = pytest.mark.xdist_group("spark")


def test_a_file_that_is_named_twice_is_refused(spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "a b.parquet"
    pq.write_table(pa.table({"k": ["a"] * 40}), file)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "hard.parquet").hardlink_to(file)
    (tmp_path / "links" / "soft.parquet").symlink_to(file)
    one, link = str(file), str(tmp_path / "links" / "hard.parquet")
    assert read_parquet(spark, [one], None).count() == 40
    for paths in (
        [one, one],
        [one, f"{tmp_path}/a*.parquet"],
        [one, f"file://{one}"],
        [one, link],
        [f"{tmp_path}/links"],
    ):
        with refused("a file is named twice"):
            read_parquet(spark, paths, None)
    source = Source(read_parquet(spark, [one], None), "k")
    assert source.files() == [one]
    with refused("must not overlap with the input"):
        check_not_input(link, source.inputs())
    check_not_input(tmp_path / "new.parquet", source.inputs())


def test_columns_that_folders_are_named_by_are_text(spark: Any, tmp_path: Path) -> None:
    """k=007 and k=12 would be integers, until one more row had k=rare."""
    setting = "spark.sql.sources.partitionColumnTypeInference.enabled"
    before = spark.conf.get(setting)
    for name in ("007", "12", "rare"):
        (tmp_path / f"k={name}").mkdir()
        pq.write_table(pa.table({"n": [1]}), tmp_path / f"k={name}" / "a.parquet")
        frame = read_parquet(spark, [str(tmp_path)], None)
        assert dict(frame.dtypes) == {"n": "bigint", "k": "string"}
    assert sorted(row["k"] for row in frame.collect()) == ["007", "12", "rare"]
    assert spark.conf.get(setting) == before


def test_folders_of_null_and_of_encoded_names(spark: Any, tmp_path: Path) -> None:
    for name in ("a%2Fb%3D x", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / f"k={name}").mkdir()
        pq.write_table(pa.table({"n": [1]}), tmp_path / f"k={name}" / "a.parquet")
    frame = read_parquet(spark, [str(tmp_path)], None)
    assert {row["k"] for row in frame.collect()} == {"a/b= x", None}


def test_a_column_that_is_also_in_the_files_is_refused(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "k=1").mkdir()
    pq.write_table(pa.table({"k": ["a"], "n": [1]}), tmp_path / "k=1" / "a.parquet")
    with refused("'k' is in the files and also in the names of their folders"):
        read_parquet(spark, [str(tmp_path)], None)


def test_a_source_of_files_in_folders(spark: Any, tmp_path: Path) -> None:
    """As on one machine: columns are text, a part is its folder, and what is in both is refused."""
    for name in ("007", "12", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / "other=1" / f"k={name}").mkdir(parents=True)
        pq.write_table(pa.table({"n": ["a", name]}), tmp_path / "other=1" / f"k={name}" / "a.parquet")
    source = Source(tmp_path, ["k", "n"], drop_null=True)
    with Spark(spark) as engine:
        found = [tuple(row.values()) for batch in engine.aggregated(source) for row in batch.to_pylist()]
        assert sorted(found) == [("007", "007", 1), ("007", "a", 1), ("12", "12", 1), ("12", "a", 1)]
        part = Source(tmp_path, "n").of_part(Part("k", "12"))
        found = [tuple(row.values()) for batch in engine.aggregated(part) for row in batch.to_pylist()]
        assert sorted(found) == [("12", 1), ("a", 1)]
        (tmp_path / "other=1" / "n=1").mkdir()
        pq.write_table(pa.table({"n": ["b"]}), tmp_path / "other=1" / "n=1" / "a.parquet")
        with refused("'n' is in the names of folders on the way to some files, but not to all"):
            engine.check(Source(tmp_path, "n"))
        with refused("'n' is in the files and also in the names of their folders"):
            engine.check(Source(tmp_path / "other=1" / "n=1", "n").of_part(Part("n", "1")))
        with refused("key_type cannot be used on Spark"):
            engine.check(Source(tmp_path, "k", key_type="int64"))
