"""Source: what it accepts, what it refuses, and what it shows of itself."""

import os
import traceback
from collections import Counter
from dataclasses import FrozenInstanceError
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas
import pyarrow as pa
import pytest

from dpsample import KeepAll
from dpsample.errors import InvalidValue
from dpsample.files import check_not_input
from dpsample.files.tables import named_type
from dpsample.private.sample import Sample
from dpsample.private.sources.arrow import source_batches, source_table
from dpsample.private.sources.source import Source
from support import refused

CANARY = "SECRET-canary"


def keys_of(source: Source) -> list[Any]:
    schema, batches = source_batches(source)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert all(list(row) == schema.names for row in rows)
    return [tuple(row.values()) for row in rows]


def test_it_is_frozen() -> None:
    source = Source("events.parquet", key="query")
    with pytest.raises(FrozenInstanceError):
        source.key = ("other",)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("data", "key", "kind"),
    [
        ("a.parquet", "k", "files"),
        (Path("a.parquet"), "k", "files"),
        (["a.parquet", Path("b.parquet")], "k", "files"),
        ([Path("a.parquet")], None, "files"),
        ("postgresql://localhost/db", "k", "database"),
        ("sqlite:///a.db", "k", "database"),
        (pa.table({"k": [1]}), "k", "table"),
        (pa.record_batch({"k": [1]}), "k", "table"),
        (pa.table({"k": [1]}).to_reader(), "k", "stream"),
        ({"a": 1}, None, "mapping"),
        (Counter("abca"), "letter", "mapping"),
        (["a", "b"], None, "keys"),
        ([1, 2], "k", "keys"),
        ([("a", 1)], ["k", "n"], "keys"),
        ({"a", "b"}, "k", "keys"),
        ([], None, "keys"),
        ((k for k in "ab"), "k", "keys"),
        (np.array(["a", "b"]), "k", "keys"),
    ],
)
def test_kinds(data: Any, key: Any, kind: str) -> None:
    files = kind in ("files", "database")
    options: dict[str, Any] = {"table": "t"} if kind == "database" else {}
    if key is None and files:
        with pytest.raises(InvalidValue, match="key must be the name of a column"):
            Source(data, **options)
    else:
        assert Source(data, key, **options).kind == kind


def test_repr_shows_where_and_which_columns_only() -> None:
    assert repr(Source("a.csv", ["k", "l"], frequency="n")) == "Source('a.csv', key=['k', 'l'], frequency='n')"
    assert repr(Source([CANARY], drop_null=True)) == "Source(<list>, key='key', drop_null=True)"
    assert repr(Source({CANARY: 1})) == "Source(<dict>, key='key')"
    assert repr(Source(pa.table({"k": [CANARY]}), "k")) == "Source(<Table>, key='k')"
    assert repr(Source([CANARY, CANARY], "k")) == "Source(<2 paths>, key='k')"
    query = Source("sqlite:///a.db", "k", query=f"SELECT k FROM t WHERE k <> '{CANARY}'")
    assert repr(query) == "Source('sqlite:///a.db', key='k', query=...)"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("postgresql://ada:PW@db.example:5433/shop", "postgresql://db.example:5433/shop"),
        ("postgres://ada:PW@db.example/shop?sslmode=require", "postgresql://db.example/shop"),
        ("postgresql://db.example/shop?user=ada&password=PW", "postgresql://db.example/shop"),
        ("postgresql:///shop?host=/run/pg&password=PW", "postgresql:///shop"),
        ("postgresql://ada:P@W@db.example/shop", "postgresql://db.example/shop"),
        ("postgresql://ada:PW@db.example:PW/shop", "postgresql://..."),
        ("postgresql://ada:PW@[half/shop", "postgresql://..."),
    ],
)
def test_passwords_are_not_shown(uri: str, shown: str) -> None:
    source = Source(uri, "k", table="t")
    assert repr(source) == f"Source({shown!r}, key='k', table='t')"


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"data": "a.csv", "key": []}, "key must be the name of a column"),
        ({"data": "a.csv", "key": ""}, "key must be the name of a column"),
        ({"data": "a.csv", "key": [1]}, "key must be the name of a column"),
        ({"data": "a.csv", "key": ["k", "K"]}, "the key has the column"),
        ({"data": "a.csv", "key": "frequency"}, "is called like a column that samples and releases have"),
        ({"data": "a.csv", "key": ["k", "Token"]}, "is called like a column that samples and releases have"),
        ({"data": "a.csv", "key": "estimate"}, "is called like a column that samples and releases have"),
        ({"data": "a.csv", "key": "k", "frequency": "k"}, "is both key and frequency"),
        ({"data": "a.csv", "key": "k", "frequency": 1}, "frequency must be the name of a column"),
        ({"data": "a.csv", "key": "k", "format": "xls"}, "format can only be used with files"),
        ({"data": [1], "format": "csv"}, "format can only be used with files"),
        ({"data": {"a": 1}, "frequency": "n"}, "frequency cannot be used with a mapping or an iterable of keys"),
        ({"data": "a.csv", "key": "k", "table": "t"}, "table and query can only be used with a database"),
        ({"data": "sqlite:///a.db", "key": "k"}, "either a table or a query"),
        ({"data": "sqlite:///a.db", "key": "k", "table": "t", "query": "SELECT 1"}, "either a table or a query"),
        ({"data": "hdfs://node/a.parquet", "key": "k"}, "is not read, only postgresql://.*read it with Spark"),
        ({"data": "mysql://host/shop", "key": "k"}, "is not read, only postgresql://.*write the rows to Parquet files"),
        ({"data": "sqlite:///a.db", "key": "k", "table": "t", "key_type": "int64"}, "key_type is for key columns"),
        ({"data": [1], "key_type": {"k": "int64"}}, "a column that is not in the key"),
        ({"data": [1], "key_type": "double"}, "key_type must be an Arrow type"),
        ({"data": [1], "key_type": "list<int64>"}, "key_type must be an Arrow type"),
        ({"data": [1], "key_type": "nonsense"}, "key_type must be an Arrow type"),
        ({"data": 5, "key": "k"}, "is no source"),
        ({"data": b"abc", "key": "k"}, "bytes are no iterable of keys"),
        ({"data": None, "key": "k"}, "is no source"),
    ],
)
def test_refused_when_made(arguments: dict[str, Any], rule: str) -> None:
    with pytest.raises(InvalidValue, match=rule):
        Source(**arguments)


def test_of_takes_a_source_or_makes_one() -> None:
    source = Source("a.csv", "k")
    assert Source.of(source) is source
    assert Source.of(source, frequency=None, drop_null=False) is source
    assert repr(Source.of("a.csv", "k", frequency="n")) == "Source('a.csv', key='k', frequency='n')"
    with pytest.raises(InvalidValue, match="combined with key"):
        Source.of(source, "k")


class TestFiles:
    def make(self, folder: Path, *names: str) -> None:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("")

    def found(self, source: Source, folder: Path) -> list[str]:
        return [os.path.relpath(path, folder) for path in source.listing().paths]

    def test_folder(self, tmp_path: Path) -> None:
        self.make(tmp_path, "b.csv", "a.csv.gz", "deep/er/c.CSV", "_SUCCESS", ".a.csv.crc", "notes.txt")
        self.make(tmp_path, "_delta/d.csv", ".hidden/e.csv")
        source = Source(tmp_path, "k")
        assert source.listing().format == "csv"
        assert self.found(source, tmp_path) == ["a.csv.gz", "b.csv", "deep/er/c.CSV"]

    def test_glob_and_list(self, tmp_path: Path) -> None:
        self.make(tmp_path, "a1.parquet", "a2.parquet", "b.parquet", "deep/a3.parquet")
        assert self.found(Source(f"{tmp_path}/a*.parquet", "k"), tmp_path) == ["a1.parquet", "a2.parquet"]
        assert len(self.found(Source(f"{tmp_path}/**/a*.parquet", "k"), tmp_path)) == 3
        paths = [tmp_path / "b.parquet", f"{tmp_path}/a*.parquet"]
        assert self.found(Source(paths, "k"), tmp_path) == ["b.parquet", "a1.parquet", "a2.parquet"]

    def test_a_file_is_taken_by_its_name_before_a_glob(self, tmp_path: Path) -> None:
        self.make(tmp_path, "a[1].csv", "a1.csv")
        assert self.found(Source(tmp_path / "a[1].csv", "k"), tmp_path) == ["a[1].csv"]

    @pytest.mark.parametrize(
        ("name", "format"),
        [
            ("a.parquet", "parquet"),
            ("a.csv.gz", "csv"),
            ("a.tsv", "tsv"),
            ("a.jsonl.gz", "jsonl"),
            ("a.ndjson", "jsonl"),
            ("a.ARROW", "arrow"),
            ("a.feather", "arrow"),
            ("a.ipc", "arrow"),
        ],
    )
    def test_formats(self, tmp_path: Path, name: str, format: str) -> None:
        self.make(tmp_path, name)
        assert Source(tmp_path / name, "k").listing().format == format
        assert Source(tmp_path / name, "k", format="csv").listing().format == "csv"

    def test_refusals(self, tmp_path: Path) -> None:
        self.make(tmp_path, "a.csv", "b.parquet", "c.dat", "empty/x.txt")
        (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
        (tmp_path / "hard.csv").hardlink_to(tmp_path / "a.csv")
        for data, rule in [
            (tmp_path / "missing.csv", "there is no file or folder at '.*missing.csv'"),
            (f"{tmp_path}/x*.csv", "no file matches"),
            (tmp_path / "empty", "there is no data file in the folder"),
            (tmp_path / "c.dat", "has none of the extensions"),
            (
                [tmp_path / "a.csv", tmp_path / "b.parquet"],
                "the files are of several formats: csv and parquet",
            ),
            ([tmp_path / "a.csv", f"{tmp_path}/a*"], "a file is named twice"),
            ([tmp_path / "a.csv", tmp_path / "link.csv"], "a file is named twice"),
            ([tmp_path / "a.csv", tmp_path / "hard.csv"], "a file is named twice"),
            (f"{tmp_path}/*.csv", "a file is named twice"),
        ]:
            with pytest.raises(InvalidValue, match=rule):
                Source(data, "k").listing()

    def test_keys_taken_for_paths_are_not_shown(self) -> None:
        with pytest.raises(InvalidValue, match=r"no file or folder at entry 1 of the list; .* leave out key") as caught:
            Source([CANARY, "b"], "k").listing()
        assert CANARY not in "".join(traceback.format_exception(caught.value))


class TestFilesOnThisMachine:
    """What an output must not be: by real file, whatever the name."""

    def named(self, folder: Path) -> list[Path]:
        """The same file under many names."""
        (folder / "link.csv").symlink_to("deep/a.csv")
        (folder / "hard.csv").hardlink_to(folder / "deep" / "a.csv")
        (folder / "folder").symlink_to("deep")
        relative = Path(os.path.relpath(folder / "deep" / "a.csv"))
        names = ["deep/a.csv", "link.csv", "hard.csv", "folder/a.csv", "deep/../link.csv"]
        return [*(folder / name for name in names), relative]

    @pytest.mark.parametrize("name", ["deep/a.csv", "deep", "deep/*.csv"])
    def test_files_globs_and_folders(self, name: str, tmp_path: Path) -> None:
        (tmp_path / "deep").mkdir()
        (tmp_path / "deep" / "a.csv").write_text("k")
        (tmp_path / "other.csv").write_text("k")
        source = Source(f"{tmp_path}/{name}", "k")
        assert source.files() == [str(tmp_path / "deep" / "a.csv")]
        for path in self.named(tmp_path):
            with refused("must not overlap with the input"):
                check_not_input(path, source.inputs())
        check_not_input(tmp_path / "other.csv", source.inputs())
        check_not_input(tmp_path / "new.csv", source.inputs())

    def test_a_database(self, tmp_path: Path) -> None:
        (tmp_path / "deep").mkdir()
        (tmp_path / "deep" / "a.csv").write_text("")
        (tmp_path / "deep" / "a.csv-wal").write_text("")
        source = Source(f"sqlite:///{tmp_path}/deep/a.csv", "k", table="t")
        for path in [*self.named(tmp_path), tmp_path / "deep" / "a.csv-wal"]:
            with refused("must not overlap with the input"):
                check_not_input(path, source.inputs())
        check_not_input(tmp_path / "deep" / "a.csv-journal", source.inputs())
        assert Source("postgresql://db.example/shop", "k", table="t").files() == []

    def test_what_is_in_memory(self) -> None:
        for data in ({"a": 1}, iter("a"), pa.table({"key": ["a"]}), pa.table({"key": ["a"]}).to_reader()):
            assert Source(data, "key").files() == []


ZONE = timezone(timedelta(hours=5, minutes=45))


class TestKeys:
    @pytest.mark.parametrize("keys", [["b", "a", "b", ""], [], ["é\n'\"", "日本"]])
    def test_iterables(self, keys: list[Any]) -> None:
        expected = [(key,) for key in keys]
        assert keys_of(Source(keys)) == expected
        assert keys_of(Source(iter(keys), "k")) == expected

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (7, "7"),
            (-(2**70), str(-(2**70))),
            (np.int8(7), "7"),
            (True, "true"),
            (np.bool_(False), "false"),
            (np.str_("a"), "a"),
            (Decimal("1.50"), "1.5"),
            (Decimal("-1E+3"), "-1000"),
            (Decimal("-0.00"), "0"),
            (date(2020, 2, 29), "2020-02-29"),
            (datetime(2020, 2, 29, 1, 2, 3), "2020-02-29T01:02:03"),
            (datetime(2020, 2, 29, 5, 45, tzinfo=ZONE), "2020-02-29T00:00:00+00:00"),
            (UUID(int=15), "00000000-0000-0000-0000-00000000000f"),
        ],
    )
    def test_keys_without_a_type_are_text(self, value: Any, text: str) -> None:
        assert keys_of(Source([value, None], drop_null=True)) == [(text,)]
        assert keys_of(Source({value: 3})) == [(text, 3)]

    @pytest.mark.parametrize(
        ("keys", "kind"),
        [
            ([3, -1, 2**63 - 1], "int64"),
            ([b"\xff", b""], "binary"),
            ([True, False], "bool"),
            ([date(2020, 2, 29)], "date32"),
            ([datetime(2020, 2, 29, 1, 2, 3)], "timestamp[us]"),
            ([Decimal("1.50"), Decimal("123456.78")], "decimal128(9, 2)"),
            (["a"], "string"),
            ([], "uint8"),
        ],
    )
    def test_declared_types(self, keys: list[Any], kind: str) -> None:
        source = Source(keys, key_type=kind)
        assert keys_of(source) == [(key,) for key in keys]
        assert source_batches(source)[0].field("key").type == named_type(kind)

    def test_numpy_values(self) -> None:
        assert keys_of(Source(np.array([3, 1]), "k", key_type="int64")) == [(3,), (1,)]
        assert keys_of(Source(np.array(["a", "b"]), "k")) == [("a",), ("b",)]

    def test_composite_keys_and_mappings(self) -> None:
        typed = {"n": "int64"}
        assert keys_of(Source([("a", 1), ("b", 2)], ["k", "n"], key_type=typed)) == [("a", 1), ("b", 2)]
        assert keys_of(Source({"a": 2, "b": np.int64(3), "c": 4.0})) == [("a", 2), ("b", 3), ("c", 4)]
        assert keys_of(Source({("a", 1): 2}, ["k", "l"])) == [("a", "1", 2)]

    def test_more_than_one_chunk(self) -> None:
        keys = [f"k{i % 1000}" for i in range(200_000)]
        assert keys_of(Source(iter(keys))) == [(key,) for key in keys]

    def test_null_keys(self) -> None:
        assert keys_of(Source(["a", None, "b"], drop_null=True)) == [("a",), ("b",)]
        assert keys_of(Source([None, None], drop_null=True)) == []
        assert keys_of(Source([("a", None), ("b", "1")], ["k", "l"], drop_null=True)) == [("b", "1")]
        assert keys_of(Source({None: 5, "a": 1}, drop_null=True)) == [("a", 1)]
        with pytest.raises(InvalidValue, match="the key column 'l' must have no NULL, but at least one row"):
            keys_of(Source([("a", None)], ["k", "l"]))

    @pytest.mark.parametrize(
        ("data", "options", "rule"),
        [
            ([1.5], {}, "of type float has no standard text"),
            ([(CANARY, "b")], {}, "a key is a tuple"),
            ([b"SECRET-canary"], {}, "of type bytes has no standard text"),
            ([Decimal("NaN")], {}, "of type Decimal has no standard text"),
            ([Decimal("1e9999")], {}, "of type Decimal has no standard text"),
            ([(CANARY,), (CANARY, "b")], {"key": ["k", "l"]}, "at least one key is no tuple of 2"),
            ([CANARY + "\ud800"], {}, "cannot be written as text in UTF-8"),
            ([1, CANARY], {"key_type": "int64"}, "at least one value is not of the declared type int64"),
            ([1, 1.5], {"key_type": "int64"}, "at least one value is not of the declared type int64"),
            ([1, True], {"key_type": "int64"}, "at least one value is not of the declared type int64"),
            ([2**63], {"key_type": "int64"}, "at least one value cannot be written as int64"),
            ([300], {"key_type": "int8"}, "at least one value cannot be written as int8"),
            ([Decimal("1.234")], {"key_type": "decimal128(9, 2)"}, "cannot be written as decimal128"),
            ([datetime(2020, 1, 1)], {"key_type": "date32"}, "at least one value is not of the declared type date32"),
            ([CANARY], {"key_type": "binary"}, "at least one value is not of the declared type binary"),
            ({CANARY: 1.5}, {}, "at least one frequency is no whole number"),
            ({CANARY: float("nan")}, {}, "at least one frequency is no whole number"),
            ({CANARY: float("inf")}, {}, "at least one frequency is no whole number"),
            ({CANARY: None}, {}, "must be the frequencies of its keys"),
            ({CANARY: "5"}, {}, "must be the frequencies of its keys"),
            ({CANARY: 2**63}, {}, "at least one value cannot be written as int64"),
        ],
    )
    def test_refused_without_showing_any(self, data: Any, options: dict[str, Any], rule: str) -> None:
        with pytest.raises(InvalidValue, match=rule) as caught:
            keys_of(Source(data, **options))
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        assert CANARY not in repr(caught.value)

    def test_a_stream_is_read_once(self) -> None:
        for data in (iter("ab"), pa.table({"key": ["a"]}).to_reader()):
            source = Source(data, "key")
            list(source_batches(source)[1])
            with pytest.raises(InvalidValue, match="can be read only once"):
                source_batches(source)
        source = Source(["a"])
        assert keys_of(source) == keys_of(source)


class TestPandas:
    """Columns of objects have no type of their own: they are text, or of the type that is declared."""

    def types(self, values: list[Any], **options: Any) -> tuple[pa.DataType, list[Any]]:
        frame = pandas.DataFrame({"k": pandas.Series(values, dtype=object)})
        table = source_table(Source(frame, "k", **options))
        return table.schema.field("k").type, table.column("k").to_pylist()

    def test_text_unless_declared(self) -> None:
        assert self.types([Decimal("1.50"), 7, "a"]) == (pa.string(), ["1.5", "7", "a"])
        assert self.types([None, float("nan"), pandas.NA, pandas.NaT]) == (pa.string(), [None] * 4)
        kind = pa.decimal128(9, 2)
        assert self.types([Decimal("1.50"), None], key_type="decimal128(9, 2)") == (kind, [Decimal("1.50"), None])

    def test_categories(self) -> None:
        frame = pandas.DataFrame({"k": pandas.Categorical([Decimal("1.50"), Decimal("2.25"), None])})
        assert source_table(Source(frame, "k")).column("k").to_pylist() == ["1.5", "2.25", None]

    def test_typed_columns_keep_their_type(self) -> None:
        frame = pandas.DataFrame({"k": [1, 2], "n": pandas.Series([5, 6], dtype=object), "o": ["a", b"x"]})
        assert source_table(Source(frame, "k", "n")).schema.types == [pa.int64(), pa.int64()]
        with pytest.raises(InvalidValue, match="has a type of its own; cast the column"):
            source_table(Source(frame, "k", key_type="int64"))
        with pytest.raises(InvalidValue, match="of type bytes has no standard text"):
            source_table(Source(frame, "o"))
        with pytest.raises(InvalidValue, match="key_type cannot be used with an Arrow table"):
            source_table(Source(pa.table({"k": [1]}), "k", key_type="int64"))

    def test_samples_of_other_systems(self) -> None:
        frame = pandas.DataFrame({"k": pandas.Series([Decimal("1.50")], dtype=object), "n": [5]})
        sample = Sample.from_table(frame, key="k", frequency="n", sampling=KeepAll())
        assert sample.table.to_pydict() == {"k": ["1.5"], "frequency": [5]}
