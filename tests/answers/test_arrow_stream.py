"""Releases and answers as tables of other libraries, by the Arrow C stream interface; private samples have none."""

from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pytest

from dpsample import KeepAll, Ppswor, Privacy, Release, Sample, changes
from dpsample.release.kinds import Tokens
from dpsample.release.terms import Terms

PRIVACY = Privacy(1, 1e-6)


def release(tokens: dict[str, float]) -> Release:
    table = pa.table({"word": list(tokens), "token": list(tokens.values())})
    return Release(table, Terms(PRIVACY, ("word",), Tokens(KeepAll(), PRIVACY, grid=8)))


BEFORE = release({"cat": 400.5, "cow": 80.25, "dog": 60.0})
AFTER = release({"cat": 900.5, "cow": 81.0, "dog": 20.0})

TABLES = {
    "release": (BEFORE, BEFORE.table),
    "each key": (BEFORE.each_key(), BEFORE.each_key().to_arrow()),
    "top": (BEFORE.top(2), BEFORE.top(2).to_arrow()),
    "groups": (BEFORE.sum(by="left(word, 1)"), BEFORE.sum(by="left(word, 1)").to_arrow()),
    "quantiles": (BEFORE.quantiles(), BEFORE.quantiles().to_arrow()),
    "changes": (changes(BEFORE, AFTER), changes(BEFORE, AFTER).to_arrow()),
}


@pytest.mark.parametrize("name", TABLES)
def test_other_libraries_read_the_same_table(name: str) -> None:
    answer: Any
    answer, table = TABLES[name]
    assert table.num_rows > 0
    assert pa.table(answer).equals(table)
    relation: Any = duckdb.sql("FROM answer")
    assert relation.to_arrow_table().to_pylist() == table.to_pylist()
    assert polars.DataFrame(answer).to_dicts() == table.to_pylist()
    assert pandas.DataFrame.from_arrow(answer).to_dict("records") == table.to_pandas().to_dict("records")


def test_a_release_is_read_by_sql_of_its_variable() -> None:
    words = BEFORE
    frequent: Any = duckdb.sql("SELECT word FROM words WHERE estimate > 50 ORDER BY 1")
    assert frequent.fetchall() == [("cat",), ("cow",), ("dog",)]
    assert len(words) == 3


def test_a_sample_is_no_table_of_other_libraries() -> None:
    """It holds private rows: they are shown to whoever asks for `table`, and a query on a variable asks for nothing."""
    sample: Any = Sample(pa.table({"word": ["cat"], "frequency": [31]}), Ppswor(tau=1), "word")
    assert not hasattr(sample, "__arrow_c_stream__")
    assert not hasattr(sample, "__arrow_c_array__")
    assert not hasattr(sample, "__dataframe__")
    with pytest.raises(duckdb.Error) as refusal:
        duckdb.sql("FROM sample")
    assert "cat" not in str(refusal.value)
