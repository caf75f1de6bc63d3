"""What could be read as something that it is not: read rightly, or refused with what to write instead.

Elements are one key each. Where an object has keys and frequencies, or columns, in a form that looks like a list of
keys, a release of it would be of nonsense, and its unit would not be an element.
"""

import csv
import io
import sqlite3
from collections import Counter, OrderedDict, namedtuple
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsample
from dpsample import InvalidValue, KeepAll, Privacy, Source, Stream
from dpsample.private.count import count_frequencies
from dpsample.private.engine.duckdb import DuckDB

pytestmark = pytest.mark.chance("certain: what is refused is never drawn, and 10^6 elements are always reported")

PRIVACY = Privacy(1, "1e-6")
WORDS = ["a", "a", "b"]
COUNTS = {"a": 10**6, "b": 10**6 + 1}
FRAME = pandas.DataFrame({"word": WORDS})
PAIRS = list(COUNTS.items())
PAIR = namedtuple("PAIR", ["word", "n"])
STRUCTURED = np.array(PAIRS, dtype=[("word", "U9"), ("n", "i8")])


class Disguised:
    """Has keys and items, and is no Mapping."""

    def keys(self) -> list[str]:
        return list(COUNTS)

    def items(self) -> list[tuple[str, int]]:
        return PAIRS

    def __iter__(self) -> Any:
        return iter(COUNTS)


class OtherFrame:
    """A data frame of a library that has no Arrow stream: iterating gives the names of its columns."""

    columns = ("word", "other")

    def __iter__(self) -> Any:
        return iter(self.columns)


# what is handed in -> what the refusal tells to write instead
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "value_counts": (lambda: FRAME["word"].value_counts(), "write .to_dict()"),
    "shares": (lambda: FRAME["word"].value_counts(normalize=True), "write .to_dict()"),
    "value_counts of integers": (lambda: pandas.Series([7, 7, 9]).value_counts(), "write .to_dict()"),
    "value_counts of two columns": (lambda: pandas.DataFrame({"a": [1], "b": [2]}).value_counts(), "write .to_dict()"),
    "sizes of groups": (lambda: FRAME.groupby("word").size(), "write .to_dict()"),
    "a Series with labels": (lambda: pandas.Series([5, 7], index=["a", "b"]), "or .tolist() if its values are keys"),
    "a Series that was filtered": (lambda: FRAME["word"][[2, 0]], ".tolist()"),
    "the end of a Series": (lambda: FRAME["word"][1:], ".tolist()"),
    "a Series with a named index": (lambda: FRAME["word"].rename_axis("row"), "write .to_dict()"),
    "groups of pandas": (lambda: FRAME.groupby("word"), "hand in"),
    "structs of polars": (lambda: polars.DataFrame({"a": ["x"], "n": [3]}).to_struct(), "hand in a table"),
    "value_counts of Arrow": (lambda: pa.array(WORDS).value_counts(), "pyarrow.table({'key': array})"),
    "an Arrow array": (lambda: pa.array(WORDS), "pyarrow.table({'key': array})"),
    "items of a mapping": (lambda: Counter(WORDS).items(), "hand in the mapping"),
    "pairs": (lambda: PAIRS, "hand in dict(pairs)"),
    "pairs of most_common": (lambda: Counter(WORDS).most_common(), "hand in dict(pairs)"),
    "named pairs": (lambda: [PAIR("a", 5)], "hand in dict(pairs)"),
    "pairs as lists": (lambda: [["a", 5]], "hand in a table"),
    "rows of sqlite3": (lambda: sqlite3.connect(":memory:").execute("SELECT 'a'"), "name a key column for each place"),
    "dicts": (lambda: iter([{"word": "a"}, {"word": "b"}]), "pyarrow.Table.from_pylist"),
    "rows of csv": (lambda: csv.reader(["a,1"]), "hand in a table"),
    "dicts of csv": (lambda: csv.DictReader(["word", "a"]), "pyarrow.Table.from_pylist"),
    "a dict of lists": (lambda: {"word": ["a"], "n": [5]}, "hand in pyarrow.table(columns)"),
    "a dict of arrays": (lambda: {"n": np.array([5])}, "hand in pyarrow.table(columns)"),
    "a dict of columns": (lambda: {"n": pandas.Series([5])}, "hand in pyarrow.table(columns)"),
    "a dict of dicts": (lambda: {"a": {"x": 1}}, "hand in pyarrow.table(columns)"),
    "a dict of texts": (lambda: {"a": "5"}, "count the elements of each key"),
    "a dict of flags": (lambda: {"a": True}, "count the elements of each key"),
    "a structured array": (lambda: STRUCTURED, "data.dtype.names"),
    "a record array": (lambda: STRUCTURED.view(np.recarray), "data.dtype.names"),
    "a matrix": (lambda: np.array([["a", "b"]]), "hand in one dimension"),
    "a scalar array": (lambda: np.array("a"), "hand in one dimension"),
    "unique values and counts": (lambda: np.unique(WORDS, return_counts=True), "hand in a table"),
    "an open file": (lambda: io.StringIO("a\nb\n"), "name its path"),
    "an open binary file": (lambda: io.BytesIO(b"a\nb\n"), "name its path"),
    "bytes": (lambda: b"ab", "hand in a list of keys"),
    "a memoryview": (lambda: memoryview(b"ab"), "hand in a list of keys"),
    "a mapping in disguise": (Disguised, "dict(data.items())"),
    "another data frame": (OtherFrame, "hand in an Arrow table"),
    "numbers and texts": (lambda: [1, "1"], "convert them all to text"),
    "texts and numbers far apart": (lambda: ["a"] * 70_000 + [1], "convert them all to text"),
    "flags and numbers": (lambda: [True, 1], "convert them all to text"),
    "keys of a mapping of two kinds": (lambda: {"1": 5, 1: 7}, "convert them all to text"),
}

READERS: dict[str, Callable[[Any], Any]] = {
    "release": lambda data: dpsample.release(data, privacy=PRIVACY),
    "sample": lambda data: dpsample.sample(data, sampling=KeepAll()),
    "count_frequencies": count_frequencies,
    "Stream": lambda data: Stream(tau=1).add(data),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_the_remedy(name: str, reader: str) -> None:
    make, remedy = REFUSED[name]
    if reader == "Stream" and isinstance(make(), dict | pa.Array | polars.Series | bytes):
        pytest.skip("a stream refuses mappings and paths, and reads arrays and Series of polars as a column")
    with pytest.raises(InvalidValue) as caught:
        READERS[reader](make())
    assert remedy in str(caught.value)


def counted(data: Any, *columns: str, **options: Any) -> dict[Any, int]:
    """Keys with their frequencies, as the engine reads a source."""
    with DuckDB() as engine:
        batches = list(engine.aggregated(Source(data, list(columns) or None, **options)))
    found: dict[Any, int] = {}
    for batch in batches:
        *keys, frequencies = (column.to_pylist() for column in batch.columns)
        found |= dict(zip(keys[0] if len(keys) == 1 else zip(*keys, strict=True), frequencies, strict=True))
    return found


READ: dict[str, tuple[Callable[[], Any], dict[str, int]]] = {
    "a Series": (lambda: pandas.Series(WORDS), {"a": 2, "b": 1}),
    "a categorical Series": (lambda: pandas.Series(WORDS, dtype="category"), {"a": 2, "b": 1}),
    "the remedy of value_counts": (lambda: FRAME["word"].value_counts().to_dict(), {"a": 2, "b": 1}),
    "the other remedy": (lambda: pandas.Series(WORDS, index=[5, 6, 7]).tolist(), {"a": 2, "b": 1}),
    "an index": (lambda: pandas.Index(WORDS), {"a": 2, "b": 1}),
    "a column of polars": (lambda: polars.Series(WORDS), {"a": 2, "b": 1}),
    "a NumPy array": (lambda: np.array(WORDS), {"a": 2, "b": 1}),
    "keys of a mapping": (lambda: Counter(WORDS).keys(), {"a": 1, "b": 1}),
    "an ordered mapping": (lambda: OrderedDict(a=3), {"a": 3}),
    "frequencies of NumPy": (lambda: {"a": np.int64(3), "b": np.float32(4)}, {"a": 3, "b": 4}),
    "integers and decimals": (lambda: [1, Decimal("1.0"), Decimal("1.5")], {"1": 2, "1.5": 1}),
    "a generator": (lambda: (word for word in WORDS), {"a": 2, "b": 1}),
}


@pytest.mark.parametrize("name", READ)
def test_it_is_read(name: str) -> None:
    make, expected = READ[name]
    assert counted(make()) == expected


def test_tuples_are_keys_where_columns_are_named() -> None:
    assert counted([("a", 1), ("a", 1), ("b", 2)], "word", "n") == {("a", "1"): 2, ("b", "2"): 1}


# ---- tables


AGGREGATED: dict[str, Callable[[Path], Any]] = {
    "polars": lambda folder: polars.DataFrame({"word": WORDS})["word"].value_counts(),
    "shares of polars": lambda folder: polars.DataFrame({"word": WORDS})["word"].value_counts(normalize=True),
    "groups of polars": lambda folder: polars.DataFrame({"word": WORDS}).group_by("word").len(),
    "pandas": lambda folder: FRAME["word"].value_counts().reset_index(),
    "groups of pandas": lambda folder: FRAME.groupby("word", as_index=False).size(),
    "a relation": lambda folder: duckdb.connect().sql("SELECT 'a' AS word, count(*) FROM range(9)"),
    "an Arrow table": lambda folder: pa.table({"word": ["a"], "count": [9]}),
    "an Arrow reader": lambda folder: pa.table({"word": ["a"], "Count": [9]}).to_reader(),
    "Parquet": lambda folder: written(folder / "a.parquet"),
    "CSV": lambda folder: written(folder / "a.csv"),
    "an Arrow file": lambda folder: written(folder / "a.arrow"),
}


def written(path: Path) -> Path:
    table = pa.table({"word": ["a"], "count": [9]})
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".csv":
        path.write_text("word,count\na,9\n")
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    return path


@pytest.mark.parametrize("name", AGGREGATED)
def test_a_table_of_counts_is_not_one_of_elements(name: str, tmp_path: Path) -> None:
    data = AGGREGATED[name](tmp_path)
    with pytest.raises(InvalidValue, match="name it: frequency="):
        dpsample.release(data, "word", privacy=PRIVACY)


def test_what_makes_a_table_of_counts_readable() -> None:
    table = pa.table({"word": ["a"], "count": [9]})
    assert counted(table, "word", frequency="count") == {"a": 9}
    assert counted(table.select(["word"]), "word") == {"a": 1}
    assert counted(table, "word", "count") == {("a", 9): 1}
    assert counted(table.append_column("day", pa.array([1])), "word") == {"a": 1}
    released = dpsample.release(table.append_column("who", pa.array([1])), "word", user="who", privacy=PRIVACY)
    assert released.unit == "user"


def test_a_level_of_an_index_is_no_column() -> None:
    frame = pandas.DataFrame({"word": WORDS, "user": [1, 2, 3]}).set_index("word")
    with pytest.raises(InvalidValue, match=r"data\.reset_index\(\)"):
        dpsample.release(frame, "word", privacy=PRIVACY)
    assert counted(frame.reset_index(), "word") == {"a": 2, "b": 1}
    assert counted(pandas.DataFrame({"word": WORDS}, index=[7, 7, 8]), "word") == {"a": 2, "b": 1}


def test_known_keys_are_no_counts() -> None:
    with pytest.raises(InvalidValue, match=r"write \.to_dict\(\)"):
        dpsample.release(COUNTS, privacy=PRIVACY, keys=FRAME["word"].value_counts())
    listed = dpsample.release(COUNTS, privacy=PRIVACY, keys=pandas.Series(["b", "c"]))
    assert sorted(listed.table["key"].to_pylist()) == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["struct", "list"])
def test_nested_columns_are_no_keys(kind: str) -> None:
    nested = {"struct": [{"word": "a", "n": 1}], "list": [["a", "b"]]}[kind]
    for table in (pa.table({"key": nested}), polars.DataFrame({"key": nested})):
        with pytest.raises(InvalidValue, match="the key column 'key' must be of"):
            dpsample.release(table, "key", privacy=PRIVACY)


# ---- encodings


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_the_encoding_of_a_file_is_named(ending: str, encoding: str, tmp_path: Path) -> None:
    text = "\ufeff" if encoding.startswith("utf-16-") else ""
    text += '{"word": "a"}\n' if ending == "jsonl" else "word\na\n"
    path = tmp_path / f"a.{ending}"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(InvalidValue, match=f"is in UTF-{encoding[4:6]}"):
        dpsample.release(path, "word", privacy=PRIVACY)
    if ending != "jsonl":
        assert counted(path, "word", encoding=encoding.removesuffix("-le").removesuffix("-be")) == {"a": 1}
