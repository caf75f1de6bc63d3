"""What a cluster could read as something that it is not: a struct as a key, a table of counts as one of elements."""

from typing import Any

import pytest

import dpsample.spark
from dpsample import InvalidValue, KeepAll, Privacy

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.chance("certain: what is refused is never drawn"),
]

PRIVACY = Privacy(1, "1e-6")


def test_a_struct_is_no_key(spark: Any) -> None:
    nested = spark.createDataFrame([(("a", 1),)], "pair struct<word: string, n: int>")
    listed = spark.createDataFrame([(["a"],)], "words array<string>")
    mapped = spark.createDataFrame([({"a": 1},)], "counts map<string, int>")
    for frame in (nested, listed, mapped):
        with pytest.raises(InvalidValue, match=r"not type (struct|array|map): it may be made of several columns"):
            dpsample.spark.release(frame, frame.columns[0], privacy=PRIVACY)
    with pytest.raises(InvalidValue, match=r"'pair\.word' must be in"):
        dpsample.spark.release(nested, "pair.word", privacy=PRIVACY)


def test_a_table_of_counts_is_not_one_of_elements(spark: Any) -> None:
    counts = spark.createDataFrame([("a",), ("a",), ("b",)], "word string").groupBy("word").count()
    for work in (
        lambda: dpsample.spark.release(counts, "word", privacy=PRIVACY),
        lambda: dpsample.spark.sample(counts, "word", sampling=KeepAll()),
    ):
        with pytest.raises(InvalidValue, match="name it: frequency='count'"):
            work()
    sample = dpsample.spark.sample(counts, "word", "count", sampling=KeepAll())
    assert sample.table.to_pylist() == [{"word": "a", "frequency": 2}, {"word": "b", "frequency": 1}]


def test_rows_of_spark_are_no_keys(spark: Any) -> None:
    rows = spark.createDataFrame([("a", 5)], "word string, n int").collect()
    with pytest.raises(InvalidValue, match=r"hand in dict\(pairs\)"):
        dpsample.release(rows, privacy=PRIVACY)
