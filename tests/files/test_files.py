"""Files: what is written comes back exactly, appears atomically, and depends on nothing but the rows."""

import csv
import datetime as dt
import fcntl
import hashlib
import itertools
import json
import os
import pickle
import resource
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpsample.files
from dpsample.errors import InvalidValue, SystemFailure
from dpsample.files import ROWS, check_not_input, check_output, commit_parts, kind_of, rebatch, write_table
from support import refused

read_table = partial(dpsample.files.read_table, newest=2)
pytestmark = pytest.mark.chance("certain: the processes that are started write given rows")
FORMATS = ["parquet", "csv", "arrow"]
METADATA = {"format": "dpsample release", "version": 1, "note": ["é", 0.1, None]}
CANARY = "canary-7f3a"

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


def write(path: Path, table: pa.Table, **options: Any) -> None:
    write_table(path, table.to_batches(), table.schema, METADATA, **options)


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
        with pytest.raises(InvalidValue, match="the format is parquet, csv or arrow"):
            write(tmp_path / path, table, format=form)
    with pytest.raises(InvalidValue, match="the format is"):
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
        write_table(path, batches, batches[0].schema, METADATA)
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
    with pytest.raises(InvalidValue, match="in column 'key'; cast it"):
        write(tmp_path / "x.parquet", pa.table({"key": pa.array([], type)}))
    assert list(tmp_path.iterdir()) == []


def test_wrong_batches_are_refused_without_their_values(tmp_path: Path) -> None:
    good = pa.record_batch({"key": [CANARY], "n": [1]})
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")])
    bad = {
        "no column may hold NULL; found at least one in column 'key'": pa.record_batch(
            {"key": [None, CANARY], "n": [1, 2]}
        ),
        "columns and types of the schema": pa.record_batch({"key": [CANARY], "n": [CANARY]}),
        "valid UTF-8": pa.record_batch([broken, pa.array([1])], ["key", "n"]),
    }
    for form in FORMATS:
        for message, batch in bad.items():
            with pytest.raises(InvalidValue, match=message) as caught:
                write_table(tmp_path / f"x.{form}", [good, batch], good.schema, METADATA)
            assert CANARY not in str(caught.value)
            assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidValue, match="must differ"):
        write(tmp_path / "x.csv", pa.table({"Key": ["a"], "key": ["b"]}))


def test_outputs_that_cannot_be_are_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder.parquet").mkdir()
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe.parquet")
    refused = {
        "none/x.parquet": "the output's folder must exist",
        "file/x.parquet": "the output's folder must exist",
        "folder.parquet": "the output is a file",
        "pipe.parquet": "the output is a regular file",
        "x\0.parquet": "a path must name a file",
        "x" * 300 + ".parquet": "must be accessible; found File name too long",
    }
    before = sorted(tmp_path.iterdir())
    for name, message in refused.items():
        for force in (False, True):
            with pytest.raises(InvalidValue, match=message):
                check_output(f"{tmp_path}/{name}", force)
            with pytest.raises(InvalidValue, match=message):
                write_table(f"{tmp_path}/{name}", explode(), pa.schema({"n": pa.int64()}), METADATA, force=force)
    with pytest.raises(InvalidValue, match="regular file"):
        check_output("/dev/null", True, "parquet")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InvalidValue, match="folder must be writable"):
        check_output(tmp_path / "x.parquet")
    assert sorted(tmp_path.iterdir()) == before


def explode() -> Iterator[pa.RecordBatch]:
    for batch in [pa.record_batch({"n": [1]})]:
        assert not batch.num_rows, "work was done before the output was checked"
        yield batch


@pytest.mark.parametrize("form", FORMATS)
def test_an_output_that_exists_needs_force(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"x.{form}"
    old, new = pa.table({"key": ["old"]}), pa.table({"key": ["new"]})
    check_output(path)
    write(path, old)
    with pytest.raises(InvalidValue, match=r"exists is not overwritten.*--force"):
        check_output(path)
    with pytest.raises(InvalidValue, match=r"exists is not overwritten.*--force"):
        write_table(path, explode(), old.schema, METADATA)
    assert read_table(path, "release")[0].equals(old)
    check_output(path, force=True)
    write(path, new, force=True)
    assert read_table(path, "release")[0].equals(new)
    if form != "parquet":
        assert "before" not in json.loads((tmp_path / f"x.{form}.json").read_text())


@pytest.mark.parametrize("form", FORMATS)
def test_an_output_that_appears_meanwhile_stays(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"x.{form}"

    def batches() -> Iterator[pa.RecordBatch]:
        path.write_text("somebody else's")
        yield pa.record_batch({"n": [1]})

    with pytest.raises(InvalidValue, match="exists is not overwritten"):
        write_table(path, batches(), pa.schema({"n": pa.int64()}), METADATA)
    assert path.read_text() == "somebody else's"
    assert list(tmp_path.iterdir()) == [path]


def test_somebody_elses_json_beside_is_not_overwritten(tmp_path: Path) -> None:
    beside = tmp_path / "x.csv.json"
    for foreign in ("mine", "[]", '{"format": "other"}', '{"format": 1}', "[" * 100_000):
        beside.write_text(foreign)
        with pytest.raises(InvalidValue, match=r"not overwritten; found .*x\.csv\.json"):
            check_output(tmp_path / "x.csv")
    write(tmp_path / "x.csv", pa.table({"n": [1]}), force=True)
    (tmp_path / "x.csv").unlink()  # what is left beside is ours, and describes nothing
    write(tmp_path / "x.csv", pa.table({"n": [2]}))
    assert read_table(tmp_path / "x.csv", "release")[0].column("n").to_pylist() == [2]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "x.csv").symlink_to("real/y.csv")
    for value in (1, 2):
        write(tmp_path / "x.csv", pa.table({"n": [value]}), force=value == 2)
        assert (tmp_path / "x.csv").is_symlink()
        assert sorted(p.name for p in (tmp_path / "real").iterdir()) == ["y.csv", "y.csv.json"]
        assert read_table(tmp_path / "x.csv", "release")[0].column("n").to_pylist() == [value]


# Whole or not at all


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, OSError, pa.ArrowInvalid, GeneratorExit])
def test_what_fails_leaves_nothing(tmp_path: Path, form: str, error: type[BaseException]) -> None:
    path = tmp_path / f"x.{form}"
    table = pa.table({"n": [1]})

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": pa.array(range(3 * ROWS))})
        (hidden,) = set(tmp_path.iterdir()) - before
        assert hidden.name.startswith(".dpsample-")
        assert hidden.suffix == ".tmp"
        assert stat.S_IMODE(hidden.stat().st_mode) == 0o600
        raise error("not ours to change")

    def late(rows: int) -> dict[str, Any]:
        raise error("not ours to change")

    for force in (False, True):
        before = set(tmp_path.iterdir())
        contents = {p: p.read_bytes() for p in before}
        for rows, metadata in ((batches(), METADATA), (iter(table.to_batches()), late)):
            with pytest.raises(error, match="not ours to change"):
                write_table(path, rows, table.schema, metadata, force=force)
            assert {p: p.read_bytes() for p in tmp_path.iterdir()} == contents
        write(path, table, force=force)


def test_every_row_is_checked_and_copied_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpsample.release.example import release
    from dpsample.release.release import write_release

    checked = []
    check = dpsample.files.tables.check_batch

    def counting(batch: pa.RecordBatch, schema: pa.Schema) -> None:
        checked.append(batch.num_rows)
        check(batch, schema)

    monkeypatch.setattr(dpsample.files.tables, "check_batch", counting)
    write_release(tmp_path / "x.parquet", release.table.to_batches(), release.table.schema, release.terms)
    assert checked == [len(release)]


# What is checked before any work.


def test_an_output_is_no_input(tmp_path: Path) -> None:
    """By the file itself: through links, hard links, sidecars and folders, whatever the names."""
    inner = tmp_path / "folder" / "inner"
    inner.mkdir(parents=True)
    for name in ("a.csv", "a.csv.json", "b.csv", "folder/part.parquet"):
        (tmp_path / name).touch()
    os.symlink("a.csv", tmp_path / "soft.csv")
    os.link(tmp_path / "a.csv", tmp_path / "hard.csv")
    os.symlink("folder", tmp_path / "alias")
    os.symlink("gone", tmp_path / "dangling")
    same = [
        ("a.csv", "a.csv"),
        ("a.csv", "./folder/../a.csv"),
        ("soft.csv", "a.csv"),
        ("hard.csv", "a.csv"),
        ("a.csv", "soft.csv"),
        ("a.csv.json", "a.csv"),  # the sidecar of an input
        ("a.csv", "a.csv.json"),  # the sidecar of the output
        ("folder/new.parquet", "folder"),
        ("alias/inner/new.parquet", "folder"),
        ("folder", "folder/part.parquet"),
        ("folder", "alias"),
        ("alias", "folder/inner"),
    ]
    for output, source in same:
        for before in ([], [tmp_path / "b.csv"]):
            with pytest.raises(InvalidValue, match="name another output"):
                check_not_input(tmp_path / output, [*before, tmp_path / source])
    different = [
        ("new.csv", "a.csv"),
        ("b.csv", "a.csv"),
        ("new", "folder"),
        ("folder/new.parquet", "folder/part.parquet"),
        ("dangling", "a.csv"),
        ("new.csv", "missing.csv"),
        ("new.csv", "postgresql://host/db"),
    ]
    for output, source in different:
        check_not_input(tmp_path / output, [source if ":" in source else tmp_path / source])
    check_not_input("new.csv", [])


def test_room_for_an_output_is_checked_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_output(tmp_path / "x.parquet")
    assert not list(tmp_path.iterdir())
    dead = "import os, sys; from dpsample.files.atomic_file import Temporary; from pathlib import Path\n"
    dead += "with Temporary(Path(sys.argv[1]), None): os._exit(0)"
    subprocess.run([sys.executable, "-c", dead, tmp_path / "x.parquet"], check=True)
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(dpsample.files.outputs, "ROOM", 1 << 60)
    with pytest.raises(SystemFailure, match="space left"):
        check_output(tmp_path / "x.parquet")
    assert not list(tmp_path.iterdir())


LIMITED = """
import resource, sys
import dpsample
from dpsample.errors import SystemFailure

folder = sys.argv[1]
dpsample.new_ledger(f"{folder}/x.ledger", "x", dpsample.Privacy(10, "1e-3"))
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
frequencies = {f"a rather long key of some data, number {n}": 1000 for n in range(20_000)}
try:
    dpsample.release_to_file(
        f"{folder}/x.arrow", frequencies, privacy=dpsample.Privacy(1, "1e-6"), ledger=f"{folder}/x.ledger"
    )
except SystemFailure:
    print(len(dpsample.read_ledger(f"{folder}/x.ledger").entries))
"""


def test_an_output_without_room_costs_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path], capture_output=True, text=True, timeout=900, check=False
    )
    assert (done.stdout, done.returncode) == ("0\n", 0), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["x.ledger"]


def test_metadata_come_last(tmp_path: Path) -> None:
    seen = []

    def batches() -> Iterator[pa.RecordBatch]:
        for n in range(3):
            seen.append(n)
            yield pa.record_batch({"n": [n]})

    for form in FORMATS:
        seen.clear()
        write_table(
            tmp_path / f"x.{form}",
            batches(),
            pa.schema({"n": pa.int64()}),
            lambda rows: METADATA | {"rows": rows, "seen": len(seen)},
        )
        assert read_table(tmp_path / f"x.{form}", "release")[1] == METADATA | {"rows": 3, "seen": 3}


def test_permissions_are_the_usual_ones_or_those_given(tmp_path: Path) -> None:
    table = pa.table({"n": [1]})
    before = os.umask(0o027)
    try:
        for form in FORMATS:
            write(tmp_path / f"usual.{form}", table)
            write(tmp_path / f"given.{form}", table, mode=0o600)
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
    assert len(modes) == 10
    assert modes == {name: 0o640 if name.startswith("usual") else 0o600 for name in modes}


def test_what_dead_processes_left_is_removed_and_what_living_ones_write_is_not(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    table = pa.table({"n": [1]})
    tag = hashlib.sha256(b"x.csv").hexdigest()[:16]
    dead = tmp_path / f".dpsample-{tag}-0123456789abcdef.tmp"
    others = tmp_path / ".dpsample-0000000000000000-0123456789abcdef.tmp"
    dead.write_text("dead")
    others.write_text("of another target")

    def batches() -> Iterator[pa.RecordBatch]:
        assert not dead.exists()
        (alive,) = set(tmp_path.glob(f".dpsample-{tag}-*"))
        write(path, table)  # another writer of the same target, while this one is at work
        assert alive.exists()
        yield from table.to_batches()

    with pytest.raises(InvalidValue, match="not overwritten"):
        write_table(path, batches(), table.schema, METADATA)
    assert sorted(tmp_path.iterdir()) == sorted([others, path, tmp_path / "x.csv.json"])


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_system_without_links_or_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr("portalocker.portalocker.LOCKER", refuse)
    path, table = tmp_path / f"x.{form}", pa.table({"n": [1]})
    write(path, table)
    assert read_table(path, "release")[0].equals(table)
    with pytest.raises(InvalidValue, match="not overwritten"):
        write(path, table)
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    path.unlink()
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(InvalidValue, match="must be accessible; found Operation not permitted"):
        write(path, table)
    assert set(tmp_path.iterdir()) <= set(before) - {path}


def test_what_was_swept_before_it_was_locked_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[Path] = []
    flock = fcntl.flock

    def late(file: Any, operation: int) -> None:
        if not swept:
            (name,) = tmp_path.iterdir()
            name.unlink()
            swept.append(name)
        flock(file, operation)

    monkeypatch.setattr("portalocker.portalocker.LOCKER", late)
    write(tmp_path / "x.parquet", pa.table({"n": [1]}))
    assert len(swept) == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "x.parquet"]


def test_a_pair_is_undone_or_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, table = tmp_path / "x.csv", pa.table({"n": [1]})
    link = os.link

    def overtaken(source: Path, name: Path) -> None:
        name.write_text("somebody else's")
        link(source, name)

    monkeypatch.setattr(os, "link", overtaken)
    with pytest.raises(InvalidValue, match="not overwritten"):
        write(path, table)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "somebody else's"
    path.unlink()

    def interrupted(source: Path, name: Path) -> None:
        link(source, name)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "link", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(path, table)
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / "x.csv.json"]
    assert read_table(path, "release")[0].equals(table)


def test_threads_see_their_own_umask(tmp_path: Path) -> None:
    table = pa.table({"n": [1]})
    usual = os.umask(0o022)
    try:
        threads = [threading.Thread(target=write, args=(tmp_path / f"{n}.arrow", table)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(usual)
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o644}
    assert len(list(tmp_path.iterdir())) == 16


NURSERY = """
import os, random, signal, sys, time
import pyarrow as pa
from dpsample.errors import InvalidValue, SystemFailure
from dpsample.files import read_table, write_table

pa.set_cpu_count(1)
METADATA = {"format": "dpsample release", "version": 1}

def write(path, value, rows, force):
    batch = pa.record_batch({"n": pa.array([value] * rows)})
    write_table(path, [batch], batch.schema, METADATA | {"value": value}, force=force)

def state(path, rows):
    "Which table is there, checked to be whole; None if there is none."
    if not os.path.lexists(path):
        return None
    table, metadata = read_table(path, "release", 1)
    assert table.column("n").to_pylist() == [metadata["value"]] * rows
    return metadata["value"]

def leftovers(folder):
    return [name for name in os.listdir(folder) if name.startswith(".")]

def child(work):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except InvalidValue:
            code = 3
        finally:
            os._exit(code)
    return pid

def wait(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


# without the end of the interpreter, which a library's threads, cut off by so many forks, can abort
LEAVE = """
sys.stdout.flush()
os._exit(0)
"""


def nursery(script: str, *args: object) -> list[str]:
    """Run a script that forks and kills children of its own; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", NURSERY + script + LEAVE, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(dpsample.files.__file__).parents[2])},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


CRASH_AT_EVERY_STEP = """
folder, form, force = sys.argv[1], sys.argv[2], sys.argv[3] == "True"
path = f"{folder}/x.{form}"
REAL = {name: getattr(os, name) for name in ("open", "replace", "link", "unlink", "fsync", "fchmod", "close")}

def crashing(step):
    "Every call into the file system is counted; at the given one the process is gone, before or after doing it."
    calls = 0
    def wrap(real):
        def call(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls == step:
                os._exit(9)
            return real(*args, **kwargs)
        return call
    for name, real in REAL.items():
        setattr(os, name, wrap(real))
    write(path, 2, 10, force)

for step in range(1, 1000):
    for name in os.listdir(folder):
        os.unlink(f"{folder}/{name}")
    if force:
        write(path, 1, 10, False)
    code = wait(child(lambda: crashing(step)))
    found = state(path, 10)
    print(found)
    write(path, 3, 10, force or found is not None)  # life goes on, and sweeps
    assert state(path, 10) == 3 and not leftovers(folder), leftovers(folder)
    if code == 0:
        break
    assert code == 9, code
"""


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("force", [False, True])
def test_a_crash_at_any_step_leaves_the_old_or_the_new(tmp_path: Path, form: str, force: bool) -> None:
    """The process dies before each of its calls into the file system in turn: there is one moment of change."""
    states = nursery(CRASH_AT_EVERY_STEP, tmp_path, form, force)
    old, changed = ("1" if force else "None"), states.index("2")
    assert states == [old] * changed + ["2"] * (len(states) - changed)
    assert changed >= 3
    assert len(states) - changed >= 2


RANDOM_KILLS = """
folder = sys.argv[1]
draw = random.Random(3)
torn = 0
for n in range(32):
    form, force, stuck = ("parquet", "csv", "arrow", "parquet")[n % 4], n % 8 < 4, n % 5 == 0
    path = f"{folder}/{n}.{form}"
    rows = 100_000 if force else 1_000_000
    if force:
        write(path, 1, rows, False)
    heard, tell = os.pipe()

    def work():
        for value in range(2, 1000):
            half = pa.record_batch({"n": pa.array([value] * (rows // 2))})
            def batches():
                yield half
                os.write(tell, b".")
                time.sleep(900 * stuck)
                yield half
            write_table(path, batches(), half.schema, METADATA | {"value": value}, force=force)
            if not force:
                break

    pid = child(work)
    os.read(heard, 1)  # it is in the middle of a write
    time.sleep(0 if stuck else draw.uniform(0, 0.05))
    os.kill(pid, signal.SIGKILL)
    wait(pid)
    os.close(heard); os.close(tell)
    found = state(path, rows)
    assert found is not None or not force
    torn += bool(leftovers(folder))
    for name in leftovers(folder):
        try:
            read_table(f"{folder}/{name}", "release", 1)
        except InvalidValue:
            os.unlink(f"{folder}/{name}")
print(torn)
"""


def test_kill_9_at_random_moments(tmp_path: Path) -> None:
    (torn,) = nursery(RANDOM_KILLS, tmp_path)
    assert int(torn) >= 7  # those that were stuck in the middle, and most of the others


TWO_WRITERS = """
folder = sys.argv[1]
for n in range(24):
    path = f"{folder}/{n}.{('parquet', 'csv', 'arrow')[n % 3]}"
    gate, opened = os.pipe()
    def work(value):
        os.close(opened)
        os.read(gate, 1)  # until the parent closes its end
        write(path, value, 10, False)
    pids = [child(lambda: work(value)) for value in (1, 2, 3)]
    os.close(gate); os.close(opened)
    codes = [wait(pid) for pid in pids]
    assert sorted(codes) == [0, 3, 3], codes
    assert state(path, 10) == 1 + codes.index(0)
assert not leftovers(folder)
"""


def test_of_several_writers_exactly_one_wins(tmp_path: Path) -> None:
    nursery(TWO_WRITERS, tmp_path)


FULL = """
folder, limit = sys.argv[1], int(sys.argv[2])
if limit:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
before = sorted(os.listdir(folder))
noise = random.Random(1).randbytes
for form in ("parquet", "csv", "arrow"):
    for force in (False, True):
        path = f"{folder}/old.{form}" if force else f"{folder}/new.{form}"
        batch = pa.record_batch({"key": [noise(8) for _ in range(100_000)]})
        try:
            write_table(path, [batch, batch], batch.schema, METADATA, force=force)
        except SystemFailure as error:
            print(str(error).split("; ")[1].replace(" ", "_"))
        assert sorted(os.listdir(folder)) == before, os.listdir(folder)
        assert state(f"{folder}/old.{form}", 5) == 1
"""


def old_ones(folder: Path) -> None:
    for form in FORMATS:
        batch = pa.record_batch({"n": [1] * 5})
        metadata = {"format": "dpsample release", "version": 1, "value": 1}
        write_table(folder / f"old.{form}", [batch], batch.schema, metadata)


def test_a_file_that_may_not_grow_leaves_nothing(tmp_path: Path) -> None:
    old_ones(tmp_path)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    assert nursery(FULL, tmp_path, 100_000) == ["found_File_too_large"] * 6


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip("mounting a small disk needs privileges; RLIMIT_FSIZE is tested instead")
    try:
        old_ones(tmp_path)
        assert nursery(FULL, tmp_path, 0) == ["found_No_space_left_on_device"] * 6
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


# Reading


@pytest.mark.parametrize("form", FORMATS)
def test_wrong_kind_version_and_place(tmp_path: Path, form: str) -> None:
    table = pa.table({"n": [1]})

    def put(name: str, **changes: Any) -> Path:
        path = tmp_path / f"{name}.{form}"
        write_table(path, table.to_batches(), table.schema, METADATA | changes)
        return path

    with pytest.raises(InvalidValue, match="must be a release; found a dpsample sample; it is NOT private"):
        read_table(put("a", format="dpsample sample"), "release")
    with pytest.raises(InvalidValue, match="must be a sample; found a dpsample release; it is private already"):
        read_table(put("b"), "sample")
    with pytest.raises(InvalidValue, match="up to 2 of the file format; found version 3; upgrade dpsample"):
        read_table(put("c", version=3), "release")
    for n, version in enumerate((0, "1", None)):
        with pytest.raises(InvalidValue, match="found no version"):
            read_table(put(f"d{n}", version=version), "release")
    with pytest.raises(InvalidValue, match="must exist to be read; found nothing"):
        read_table(tmp_path / f"none.{form}", "release")
    assert [kind_of(tmp_path / f"{name}.{form}") for name in ("a", "b", "none")] == ["sample", "release", None]


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    table = pa.table({"n": [CANARY]})
    pq.write_table(table, tmp_path / "x.parquet")
    (tmp_path / "x.csv").write_text(CANARY)
    (tmp_path / "y.parquet").write_text(CANARY)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe.parquet")
    found = {
        "x.parquet": "found a plain Parquet file",
        "x.csv": r"found .*x\.csv\.json' missing",
        "y.parquet": "found one that cannot be read",
        "folder": r"found .*_dpsample\.json' missing",
        "pipe.parquet": "a file or a folder; found neither",
    }
    for name, message in found.items():
        with pytest.raises(InvalidValue, match=message) as caught:
            read_table(tmp_path / name, "release")
        assert CANARY not in str(caught.value)
        assert kind_of(tmp_path / name) is None


@pytest.mark.parametrize("form", ["csv", "arrow"])
def test_the_file_beside_must_belong(tmp_path: Path, form: str) -> None:
    for n in (1, 2):
        write(tmp_path / f"{n}.{form}", pa.table({"n": [n]}))
    one, other = tmp_path / f"1.{form}.json", tmp_path / f"2.{form}.json"
    for text, message in (
        (other.read_text(), "another SHA-256"),
        ("{}", "damaged or of another program"),
        ('{"format": "dpsample release"}', "cannot be read"),
        ('{"format": "dpsample release", "file": 3, "version": 1}', "cannot be read"),
    ):
        one.write_text(text)
        with pytest.raises(InvalidValue, match=message):
            read_table(tmp_path / f"1.{form}", "release")
    one.unlink()
    with pytest.raises(InvalidValue, match=r"missing; get it, with its \.json"):
        read_table(tmp_path / f"1.{form}", "release")


@pytest.mark.parametrize("form", FORMATS)
def test_unreadable_files_are_refused(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"x.{form}"
    write(path, pa.table({"n": [1]}))

    def denied(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, CANARY)

    monkeypatch.setattr(pq, "ParquetFile", denied)
    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(InvalidValue, match="must be accessible; found Permission denied") as caught:
        read_table(path, "release")
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("changed", [["ab", "d"], ["a", "bc"], ["ab"], ["ab", "c", ""]])
def test_other_rows_under_the_same_metadata_are_refused(tmp_path: Path, changed: list[str]) -> None:
    write(tmp_path / "x.parquet", pa.table({"key": ["ab", "c"]}))
    said = {b"dpsample": pq.read_metadata(tmp_path / "x.parquet").metadata[b"dpsample"]}
    pq.write_table(pa.table({"key": changed}).replace_schema_metadata(said), tmp_path / "y.parquet")
    with pytest.raises(InvalidValue, match="found rows that were changed"):
        read_table(tmp_path / "y.parquet", "release")
    pq.write_table(pa.table({"key": ["ab", "c"]}).replace_schema_metadata(said), tmp_path / "y.parquet")
    assert read_table(tmp_path / "y.parquet", "release")[0].column("key").to_pylist() == ["ab", "c"]


def test_parquet_pages_have_checksums(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write(path, pa.table({"key": [CANARY * 3]}))
    column = pq.read_metadata(path).row_group(0).column(0)
    data = bytearray(path.read_bytes())
    data[column.data_page_offset + column.total_compressed_size - 4] ^= 1
    path.write_bytes(data)
    with pytest.raises(OSError, match="CRC checksum"):
        pq.ParquetFile(path, page_checksum_verification=True).read()


# Folders of parts


def parts(folder: Path) -> pa.Table:
    folder.mkdir()
    tables = [pa.table({"key": ["a", "b"]}), pa.table({"key": pa.array([], pa.string())}), pa.table({"key": ["c"]})]
    for n, table in enumerate(tables):
        pq.write_table(table, folder / f"part-{n}.parquet", write_page_checksum=True)
    (folder / "_SUCCESS").write_text("")
    for ignored in (".part-0.parquet.crc", ".part-0.parquet", "_temporary.parquet"):
        (folder / ignored).write_text("")
    commit_parts(folder, {f"part-{n}.parquet": t.num_rows for n, t in enumerate(tables)}, tables[0].schema, METADATA)
    return pa.concat_tables(tables)


def test_a_folder_of_parts_is_one_table(tmp_path: Path) -> None:
    table = parts(tmp_path / "x")
    found, metadata = read_table(tmp_path / "x", "release")
    assert found.equals(table)
    assert metadata == METADATA
    assert kind_of(tmp_path / "x") == "release"
    with pytest.raises(InvalidValue, match="not overwritten"):
        commit_parts(tmp_path / "x", {}, table.schema, METADATA)
    with pytest.raises(InvalidValue, match="No such file"):
        commit_parts(tmp_path, {"none.parquet": 1}, table.schema, METADATA)
    with pytest.raises(InvalidValue, match="must be a sample"):
        read_table(tmp_path / "x", "sample")


def test_a_folder_that_was_changed_is_refused(tmp_path: Path) -> None:
    parts(tmp_path / "x")

    def refuses_after(change: Any, message: str) -> None:
        shutil.copytree(tmp_path / "x", tmp_path / "y")
        change(tmp_path / "y")
        with pytest.raises(InvalidValue, match=message):
            read_table(tmp_path / "y", "release")
        shutil.rmtree(tmp_path / "y")

    other = "other Parquet files in the folder than were written"
    refuses_after(lambda y: (y / "part-2.parquet").unlink(), other)
    refuses_after(lambda y: shutil.copy(y / "part-2.parquet", y / "part-3.parquet"), other)
    refuses_after(lambda y: shutil.copy(y / "part-2.parquet", y / "part-1.parquet"), "another SHA-256")
    refuses_after(lambda y: (y / "_dpsample.json").unlink(), "missing")
    refuses_after(lambda y: (y / "_dpsample.json").write_text("{"), "damaged")


def test_a_folder_must_have_the_rows_and_columns_that_were_stated(tmp_path: Path) -> None:
    for n, (rows, schema, message) in enumerate(
        [
            (2, pa.schema({"key": pa.string()}), "another number of rows"),
            (1, pa.schema({"other": pa.string()}), "columns other than 'other'"),
            (1, pa.schema({"key": pa.int64()}), "cannot be read"),
        ]
    ):
        folder = tmp_path / str(n)
        folder.mkdir()
        pq.write_table(pa.table({"key": [CANARY]}), folder / "a.parquet")
        commit_parts(folder, {"a.parquet": rows}, schema, METADATA)
        with pytest.raises(InvalidValue, match=message) as caught:
            read_table(folder, "release")
        assert CANARY not in str(caught.value)
