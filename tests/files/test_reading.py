"""What is read is what was written: other kinds, versions and rows are refused."""

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsample.errors import InvalidValue
from dpsample.files import Rows, commit_parts, kind_of, write_table
from written_tables import CANARY, FORMATS, METADATA, read_table, write

pytestmark = pytest.mark.chance("certain: the processes that are started write given rows")


@pytest.mark.parametrize("form", FORMATS)
def test_wrong_kind_version_and_place(tmp_path: Path, form: str) -> None:
    table = pa.table({"n": [1]})

    def put(name: str, **changes: Any) -> Path:
        path = tmp_path / f"{name}.{form}"
        write_table(path, Rows(table.to_batches(), table.schema), METADATA | changes)
        return path

    with pytest.raises(InvalidValue, match="must be a release, not a dpsample sample; it is NOT private"):
        read_table(put("a", format="dpsample sample"), "release")
    with pytest.raises(InvalidValue, match="must be a sample, not a dpsample release; it is private already"):
        read_table(put("b"), "sample")
    with pytest.raises(InvalidValue, match="up to 2 of the file format, not 3; upgrade dpsample"):
        read_table(put("c", version=3), "release")
    for n, version in enumerate((0, "1", None)):
        with pytest.raises(InvalidValue, match="it has no version"):
            read_table(put(f"d{n}", version=version), "release")
    with pytest.raises(InvalidValue, match="there is no "):
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
        "x.parquet": "this is a plain Parquet file",
        "x.csv": r"x\.csv\.json' is missing",
        "y.parquet": "it has content that cannot be read",
        "folder": r"_dpsample\.json' is missing",
        "pipe.parquet": "neither a file nor a folder",
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
    with pytest.raises(InvalidValue, match="must be accessible, but there was an error: Permission denied") as caught:
        read_table(path, "release")
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("changed", [["ab", "d"], ["a", "bc"], ["ab"], ["ab", "c", ""]])
def test_other_rows_under_the_same_metadata_are_refused(tmp_path: Path, changed: list[str]) -> None:
    write(tmp_path / "x.parquet", pa.table({"key": ["ab", "c"]}))
    said = {b"dpsample": pq.read_metadata(tmp_path / "x.parquet").metadata[b"dpsample"]}
    pq.write_table(pa.table({"key": changed}).replace_schema_metadata(said), tmp_path / "y.parquet")
    with pytest.raises(InvalidValue, match="it has rows that were changed"):
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
    with pytest.raises(InvalidValue, match="exists already"):
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
