"""An output never replaces what it is made from, whatever its name and however hard it is forced."""

import hashlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import dpsample
from dpsample import InvalidValue, Privacy, Source
from dpsample.cli import cli
from support import refused

pytestmark = pytest.mark.chance("certain: everything is refused, before anything is drawn but a sample of one key")
PRIVACY = Privacy(1, "1e-9")
RULE = "must not overlap with the input"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table({"k": ["a"] * 5000}), path)
    return path


def linked(kind: str) -> Callable[[Path], Path]:
    def name(data: Path) -> Path:
        other = data.with_name("other.parquet")
        if kind == "same":
            return data
        if kind == "dots":
            return data.parent / "." / ".." / data.parent.name / data.name
        (os.link if kind == "hard link" else os.symlink)(data, other)
        return other

    return name


@pytest.mark.parametrize("kind", ["same", "dots", "link", "hard link"])
@pytest.mark.parametrize("glob", [False, True], ids=["path", "glob"])
def test_a_release_does_not_replace_its_source(kind: str, glob: bool, data: Path) -> None:
    source = Source(str(data.parent / "ev*.parquet") if glob else data, "k")
    output = linked(kind)(data)
    before = hashlib.sha256(data.read_bytes()).digest()
    with refused(RULE):
        dpsample.release_to_file(output, source, privacy=PRIVACY, force=True)
    assert hashlib.sha256(data.read_bytes()).digest() == before
    assert set(os.listdir(data.parent)) <= {data.name, "other.parquet"}


def test_nor_goes_into_the_folder_that_it_reads(data: Path) -> None:
    with refused(RULE):
        dpsample.release_to_file(data.parent / "new.parquet", Source(data.parent, "k"), privacy=PRIVACY)
    assert os.listdir(data.parent) == [data.name]


def test_nor_a_database(tmp_path: Path) -> None:
    path = tmp_path / "shop.parquet"  # whatever it is called
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (k TEXT)")
    connection.close()
    before = path.read_bytes()
    with refused(RULE):
        dpsample.release_to_file(path, Source(f"sqlite:///{path}", "k", table="t"), privacy=PRIVACY, force=True)
    assert path.read_bytes() == before


def test_nor_its_ledger(data: Path) -> None:
    ledger = data.with_name("ledger.parquet")
    dpsample.new_ledger(ledger, "events", PRIVACY)
    with refused(RULE):
        dpsample.release_to_file(ledger, data, "k", privacy=PRIVACY, ledger=ledger, force=True)
    assert dpsample.read_ledger(ledger).entries == ()


@pytest.mark.parametrize("foreign", [False, True], ids=["ours", "theirs"])
def test_nor_the_sample_that_is_sanitized(foreign: bool, tmp_path: Path) -> None:
    path = tmp_path / "sample.parquet"
    if foreign:
        pq.write_table(pa.table({"k": ["a"], "n": [5000]}), path)
    else:
        dpsample.sample({"a": 5000}, sampling=dpsample.KeepAll()).write(path)
    columns = ["--key", "k", "--frequency", "n"] if foreign else []
    before = path.read_bytes()
    command = ["sanitize", str(path), *columns, "-e", "1", "-d", "1e-9", "-o", str(path), "--force"]
    error = CliRunner().invoke(cli, command).exception
    assert isinstance(error, InvalidValue)
    assert RULE in str(error)
    assert path.read_bytes() == before


def test_nor_does_a_sample_replace_its_source(data: Path) -> None:
    before = data.read_bytes()
    command = ["sample", str(data), "-k", "k", "--scheme", "ppswor", "--tau", "1", "-o", str(data), "--force"]
    assert isinstance(CliRunner().invoke(cli, command).exception, InvalidValue)
    assert data.read_bytes() == before


@pytest.mark.chance("odds 1e-9: a key of 5,000 elements is reported, and one of one element is not")
@pytest.mark.parametrize("form", ["csv", "parquet", "arrow"])
def test_a_release_that_was_paid_for_can_be_written(form: str, tmp_path: Path) -> None:
    """Dates that are far away, before Christ or infinite, as databases have them."""
    days = ("20000-01-01", "0044-03-15 (BC)", "infinity", "-infinity")
    with duckdb.connect() as connection:
        rows = ", ".join(f"('{day}'::DATE, '{day}'::TIMESTAMP, 5000)" for day in days)
        relation = connection.sql(f"SELECT * FROM (VALUES {rows}) AS t(day, moment, n)")
        release = dpsample.release_to_file
        options: dict[str, Any] = {"privacy": Privacy(1, "1e-10")}
        assert release(tmp_path / f"out.{form}", relation, ["day", "moment"], "n", **options) == len(days)
    assert len(dpsample.read_release(tmp_path / f"out.{form}")) == len(days)


@pytest.mark.chance("certain: refused before anything is drawn")
def test_a_key_that_no_file_holds_is_refused_unpaid(tmp_path: Path) -> None:
    dpsample.new_ledger(tmp_path / "ledger", "data", Privacy(5, "0.01"))
    options: dict[str, Any] = {"privacy": Privacy(1, "1e-10"), "ledger": tmp_path / "ledger"}
    with duckdb.connect() as connection:
        relation = connection.sql("SELECT 'infinity'::TIMESTAMP_S AS k, 5000 AS n")
        with refused("timestamp[s] holds up to"):
            dpsample.release_to_file(tmp_path / "out.parquet", relation, "k", "n", **options)
    assert dpsample.read_ledger(tmp_path / "ledger").charged == ()
    assert [path.name for path in tmp_path.iterdir()] == ["ledger"]
