"""Files: what is written comes back exactly, and depends on nothing but the rows."""

import csv
import datetime as dt
import hashlib
import itertools
import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsample.errors import InvalidValue
from dpsample.files import ROWS, Rows, rebatch, write_table
from support import refused
from written_tables import CANARY, FORMATS, METADATA, read_table, write

pytestmark = pytest.mark.chance("certain: the processes that are started write given rows")

UTC = dt.UTC
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string": (
        pa.string(),
        ["", "a", "é", "\0x\0", "a\nb", 'q"q', '"', "a\rb", "\r\n", "a,b", " ", "日本", "NULL", "NaN"],
    ),
    "formula": (
        pa.string(),
        ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "\nx", "＝1", "'", "''", "'=1", "'a", "=", "a=1"],
    ),
    "large_string": (pa.large_string(), ["", "b", "=b", "'"]),
    "binary": (pa.binary(), [b"", b"\xff\x00", b"a", b"=1"]),
    "large_binary": (pa.large_binary(), [b"x", b""]),
    "bool": (pa.bool_(), [False, True, True]),
    "date32": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "date64": (pa.date64(), [dt.date(1969, 12, 31), dt.date(2020, 1, 1)]),
    "timestamp s": (pa.timestamp("s"), [dt.datetime(1900, 1, 1), dt.datetime(2020, 1, 1)]),
    "timestamp ms": (pa.timestamp("ms"), [dt.datetime(2020, 1, 1, 0, 0, 0, 1000)]),
    "timestamp us": (pa.timestamp("us"), [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]),
    "timestamp ns": (pa.timestamp("ns"), [-1, 0, 1, 10**18 + 1]),
    "timestamp utc": (pa.timestamp("us", "UTC"), [dt.datetime(2020, 1, 1, 0, 0, 0, 1, UTC)]),
    "timestamp zone": (pa.timestamp("s", "Europe/Berlin"), [dt.datetime(2020, 7, 1, tzinfo=UTC)]),
    "decimal128": (pa.decimal128(38, 4), [Decimal("-1.5"), Decimal("9999999999999999999999999999999999.9999")]),
    "decimal256": (pa.decimal256(60, 0), [Decimal(-1), Decimal(10**59)]),
    "double": (pa.float64(), [0.1, 1e300, 5e-324, 1 / 3, 123456789.125, 1e16, -0.0, 0.0]),
}
for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()):
    low = -(2 ** (t.bit_width - 1)) if pa.types.is_signed_integer(t) else 0
    COLUMNS[str(t)] = (t, [low, 0, low + 2**t.bit_width - 1])


def bits(table: pa.Table) -> list[Any]:
    """The values, such that -0.0 and 0.0 differ; computed by Python, not by what is tested."""
    return [
        [pickle.dumps(v) for v in (c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c).to_pylist()]
        for c in table.columns
    ]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", COLUMNS)
def test_every_type_comes_back_exactly(tmp_path: Path, name: str, form: str) -> None:
    type, values = COLUMNS[name]
    table = pa.table({"key": pa.array(values, type)})
    path = tmp_path / f"x.{form}"
    write(path, table)
    found, metadata = read_table(path, "release")
    assert found.schema.equals(table.schema)
    assert bits(found) == bits(table)
    assert metadata == METADATA


@pytest.mark.parametrize("form", FORMATS)
def test_empty_tables_and_composite_keys_come_back(tmp_path: Path, form: str) -> None:
    table = pa.table({name: pa.array(values[:1], type) for name, (type, values) in COLUMNS.items()})
    for n, rows in enumerate((table, table.schema.empty_table())):
        path = tmp_path / f"{n}.{form}"
        write(path, rows)
        found, _ = read_table(path, "release")
        assert found.schema.equals(rows.schema)
        assert bits(found) == bits(rows)


texts = st.text(
    st.one_of(st.sampled_from("=+-@'\t\r\n\0\",; \\x"), st.characters(exclude_categories=["Cs"])), max_size=6
)


@given(st.lists(st.tuples(texts, st.binary(max_size=4), st.floats(allow_nan=False))), texts)
def test_any_text_bytes_and_numbers_come_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, bytes, float]], name: str
) -> None:
    texts, blobs, numbers = zip(*rows, strict=True) if rows else ((), (), ())
    table = pa.table(
        [pa.array(texts, pa.string()), pa.array(blobs, pa.binary()), pa.array(numbers, pa.float64())],
        [f"{name}1", f"{name}2", f"{name}3"],
    )
    folder = tmp_path_factory.mktemp("any")
    for form in FORMATS:
        write(folder / f"x.{form}", table)
        found, _ = read_table(folder / f"x.{form}", "release")
        assert found.schema.equals(table.schema)
        assert bits(found) == bits(table)


def test_the_extension_decides_unless_the_format_is_given(tmp_path: Path) -> None:
    table = pa.table({"key": ["a"]})
    write(tmp_path / "x.PARQUET", table)
    write(tmp_path / "x.data", table, format="arrow")
    assert (tmp_path / "x.PARQUET").read_bytes()[:4] == b"PAR1"
    assert (tmp_path / "x.data").read_bytes()[:6] == b"ARROW1"
    assert read_table(tmp_path / "x.data", "release", format="arrow")[0].equals(table)
    for path, form in (("x.data", None), ("x", None), ("x.csv", "excel")):
        with pytest.raises(InvalidValue, match="the format must be parquet, csv or arrow"):
            write(tmp_path / path, table, format=form)
    with pytest.raises(InvalidValue, match="the format must be"):
        read_table(tmp_path / "x.data", "release")


# What is written depends on the rows alone


@pytest.mark.parametrize("form", FORMATS)
def test_files_do_not_depend_on_batches_nor_on_memory(tmp_path: Path, form: str) -> None:
    n = ROWS + 1000
    rows = {
        "key": pa.array([f"{i:07d}" for i in range(n)]),
        "flag": pa.array([i % 3 == 0 for i in range(n)]),
        "token": pa.array([float(i) for i in range(n)]),
    }
    whole = pa.record_batch(rows)
    # the same rows, each third one followed by what must not be written
    noise = {"key": CANARY, "flag": True, "token": 1234567.0}
    cuts = [0, 1, 7, 1000, ROWS - 1, ROWS, n]
    pieces: list[pa.RecordBatch] = []
    for start, end in itertools.pairwise(cuts):
        part = whole.slice(start, end - start)
        around = pa.record_batch({k: pa.array([v] * 9, whole.schema.field(k).type) for k, v in noise.items()})
        both = pa.Table.from_batches([around, part, around]).combine_chunks().to_batches()[0]
        pieces += [both.slice(9, part.num_rows), both.slice(0, 0)]
    # validity bitmaps without NULLs, and metadata of a schema, are not rows either
    masked = pa.record_batch(
        [pa.concat_arrays([c, pa.array([None], c.type)])[:-1] for c in whole.columns],
        schema=whole.schema.with_metadata({CANARY: CANARY}),
    )
    written = []
    for name, batches in (("one", [whole]), ("cut", pieces), ("masked", [masked])):
        (tmp_path / name).mkdir()
        path = tmp_path / name / f"x.{form}"
        write_table(path, Rows(batches, batches[0].schema), METADATA)
        written.append({p.name: p.read_bytes() for p in sorted(path.parent.iterdir())})
    assert written[0] == written[1] == written[2]
    assert not any(CANARY.encode() in data for data in written[1].values())


def test_a_slice_would_have_leaked() -> None:
    """The test above can fail: Arrow's own writer takes a slice's neighbours along."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"key": ["a", CANARY]}).slice(0, 1)
    with ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    assert CANARY.encode() in sink.getvalue().to_pybytes()
    copies = list(rebatch([batch], batch.schema))
    assert CANARY.encode() not in pickle.dumps(copies)
    assert CANARY.encode() in pickle.dumps(batch)


def test_batches_are_of_equal_size() -> None:
    batch = pa.record_batch({"n": pa.array(range(ROWS - 1))})
    assert [b.num_rows for b in rebatch([batch, batch, batch], batch.schema)] == [ROWS, ROWS, ROWS - 3]
    assert list(rebatch([batch.slice(0, 0)], batch.schema)) == []


# CSV


def test_csv_is_harmless_and_plain(tmp_path: Path) -> None:
    formulas = COLUMNS["formula"][1]
    table = pa.table({"=key": formulas, "blob": [v.encode() for v in formulas], "token": [-1.5] * len(formulas)})
    write(tmp_path / "x.csv", table)
    with open(tmp_path / "x.csv", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == ["'=key", "blob", "token"]
    assert [row[0] for row in rows] == [
        *("'=1+1", "'+1", "'-1", "'@x", "'\tx", "'\rx", "'\nx", "'＝1", "''", "'''", "''=1", "''a", "'=", "a=1"),
    ]
    assert [bytes.fromhex(row[1]) for row in rows] == [v.encode() for v in formulas]
    assert {row[2] for row in rows} == {"-1.5"}
    beside = json.loads((tmp_path / "x.csv.json").read_text())
    assert beside["file"]["csv"] == {
        "leading apostrophe to be dropped": ["=key"],
        "hexadecimal": ["blob"],
        "integers counted from 1970-01-01": [],
    }
    assert beside["file"]["rows"] == len(formulas)
    assert beside["file"]["sha256"] == hashlib.sha256((tmp_path / "x.csv").read_bytes()).hexdigest()


MOMENTS = {  # each as it may be in the data: ordinary, far away, before Christ, infinite, the smallest integer
    pa.date32(): [0, 2_932_896, 2_932_897, -735_160, 2**31 - 1, -(2**31) + 1, -(2**31)],
    pa.date64(): [days * 86_400_000 for days in (0, 2_932_897, -735_160, 2**31 - 1, -(2**31) + 1)],
    **{
        pa.timestamp(unit, zone): [
            0,
            1_698_539_400 * units,
            -3_786_825_600 * units,
            *(m for m in more if abs(m) <= end),
        ]
        for zone in (None, "UTC", "+02:00", "Europe/Berlin", "No/Where")
        for unit, units, end in (
            ("s", 1, 2**63 // 1000),
            ("ms", 1000, 2**63),
            ("us", 10**6, 2**63),
            ("ns", 10**9, 2**63),
        )
        for more in [(253_402_300_800 * units, -63_549_360_000 * units, 2**63 - 1, -(2**63) + 1, -(2**63))]
    },
}


@pytest.mark.parametrize("type", MOMENTS, ids=str)
@pytest.mark.parametrize("form", ["csv", "parquet", "arrow"])
def test_every_date_and_timestamp_can_be_written(type: pa.DataType, form: str, tmp_path: Path) -> None:
    """What is refused by its value would be refused after it was paid for."""
    counts = pa.array(MOMENTS[type], pa.int32() if type == pa.date32() else pa.int64())
    table = pa.table({"key": counts.view(type)})
    write(tmp_path / f"x.{form}", table)
    assert read_table(tmp_path / f"x.{form}", "release")[0].equals(table)


def test_csv_counts_from_1970_where_text_would_not_read_back(tmp_path: Path) -> None:
    day = pa.array([19_000, 2_932_897, -735_160], pa.int32()).view(pa.date32())
    moment = pa.array([1, 2**63 - 1, -1], pa.int64()).view(pa.timestamp("us", "UTC"))
    table = pa.table({"day": day, "moment": moment, "token": [1.0, 2.0, 3.0]})
    write(tmp_path / "x.csv", table)
    with open(tmp_path / "x.csv", newline="") as file:
        _, *rows = csv.reader(file)
    assert rows == [
        ["2022-01-08", "1970-01-01 00:00:00.000001Z", "1"],
        ["2932897", "9223372036854775807", "2"],
        ["-735160", "1969-12-31 23:59:59.999999Z", "3"],
    ]
    rules = json.loads((tmp_path / "x.csv.json").read_text())["file"]["csv"]
    assert rules["integers counted from 1970-01-01"] == ["day", "moment"]
    assert rules["hexadecimal"] == []


@pytest.mark.parametrize(
    ("type", "last"),
    [(pa.timestamp("s"), (2**63 - 1) // 1000), (pa.timestamp("s", "UTC"), (2**63 - 1) // 1000),
     (pa.date64(), (2**31 - 1) * 86_400_000)],
    ids=str,
)  # fmt: skip
def test_what_parquet_has_no_unit_for(type: pa.DataType, last: int, tmp_path: Path) -> None:
    for sign in (1, -1):
        good, bad = (pa.table({"key": pa.array([v * sign], pa.int64()).view(type)}) for v in (last, last + 86_400_000))
        with refused(
            f"{str(type).partition(',')[0].rstrip(']')}] holds up to {last} units", hidden=[last + 86_400_000]
        ):
            write(tmp_path / "bad.parquet", bad)
        write(tmp_path / f"{sign}.parquet", good)
        assert read_table(tmp_path / f"{sign}.parquet", "release")[0].equals(good)


def test_rows_of_many_bytes_come_in_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """One batch of them would need longer offsets than its type has."""
    monkeypatch.setattr("dpsample.files.tables._BYTES", 1000)
    batches = [pa.record_batch({"key": ["x" * 300] * rows}) for rows in (2, 1, 2, 7, 1)]
    sizes = [batch.num_rows for batch in rebatch(batches, batches[0].schema)]
    assert sizes == [3, 2, 7, 1]


# Refusals before any output


@pytest.mark.parametrize(
    "type",
    [
        pa.dictionary(pa.int32(), pa.string()),
        pa.string_view(),
        pa.list_(pa.int64()),
        pa.float32(),
        pa.null(),
        pa.time32("s"),
        pa.duration("s"),
        pa.decimal128(5, -2),
        pa.binary(3),
    ],
)
def test_other_types_are_refused(tmp_path: Path, type: pa.DataType) -> None:
    with pytest.raises(InvalidValue, match="the column 'key' must be of "):
        write(tmp_path / "x.parquet", pa.table({"key": pa.array([], type)}))
    assert list(tmp_path.iterdir()) == []


def test_wrong_batches_are_refused_without_their_values(tmp_path: Path) -> None:
    good = pa.record_batch({"key": [CANARY], "n": [1]})
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")])
    bad = {
        "the column 'key' has at least one NULL": pa.record_batch({"key": [None, CANARY], "n": [1, 2]}),
        "other columns or types than the schema": pa.record_batch({"key": [CANARY], "n": [CANARY]}),
        "not UTF-8": pa.record_batch([broken, pa.array([1])], ["key", "n"]),
    }
    for form in FORMATS:
        for message, batch in bad.items():
            with pytest.raises(InvalidValue, match=message) as caught:
                write_table(tmp_path / f"x.{form}", Rows([good, batch], good.schema), METADATA)
            assert CANARY not in str(caught.value)
            assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidValue, match="same name"):
        write(tmp_path / "x.csv", pa.table({"Key": ["a"], "key": ["b"]}))
