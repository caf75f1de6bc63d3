"""Hive folders: columns that the names of folders have."""

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import dpsample
from dpsample import KeepAll, Privacy
from dpsample.accounting.parts import Part
from dpsample.cli import cli
from dpsample.errors import InvalidValue
from dpsample.planning.command import command
from dpsample.planning.setting import Setting
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.sources.source import Source

DAYS = {"2026-11-01": "aab", "007": "b", "K%C3%B6ln%2F%3D x": "c", "__HIVE_DEFAULT_PARTITION__": "aa"}
NAMES = {"2026-11-01": "2026-11-01", "007": "007", "K%C3%B6ln%2F%3D x": "Köln/= x", "__HIVE_DEFAULT_PARTITION__": None}


def write_parquet(path: Path, keys: str) -> None:
    pq.write_table(pa.table({"k": list(keys), "u": list(range(len(keys)))}), path.with_suffix(".parquet"))


def write_csv(path: Path, keys: str) -> None:
    rows = [f"{key},{user}" for user, key in enumerate(keys)]
    path.with_suffix(".csv").write_text("\n".join(["k,u", *rows]))


def write_gz(path: Path, keys: str) -> None:
    rows = [f"{key}\t{user}" for user, key in enumerate(keys)]
    with gzip.open(path.with_suffix(".tsv.gz"), "wt") as file:
        file.write("\n".join(["k\tu", *rows]))


def write_json(path: Path, keys: str) -> None:
    rows = [json.dumps({"k": key, "u": user}) for user, key in enumerate(keys)]
    path.with_suffix(".jsonl").write_text("\n".join(rows))


def write_arrow(path: Path, keys: str) -> None:
    table = pa.table({"k": list(keys), "u": list(range(len(keys)))})
    with pa.ipc.new_file(path.with_suffix(".arrow"), table.schema) as writer:
        writer.write_table(table)


WRITERS: dict[str, Callable[[Path, str], None]] = {
    "parquet": write_parquet,
    "csv": write_csv,
    "tsv": write_gz,
    "jsonl": write_json,
    "arrow": write_arrow,
}


def lake(folder: Path, write: Callable[[Path, str], None] = write_parquet, column: str = "day") -> Path:
    for name, keys in DAYS.items():
        inside = folder / f"{column}={name}"
        inside.mkdir(parents=True)
        write(inside / "x", keys)
    return folder


def counted(source: Source) -> dict[Any, int]:
    with DuckDB() as engine:
        rows = [row for batch in engine.aggregated(source) for row in batch.to_pylist()]
    found = {tuple(row[name] for name in source.key): row["frequency"] for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("format", WRITERS)
def test_the_column_is_text_in_every_format(format: str, tmp_path: Path) -> None:
    expected = Counter((NAMES[day], key) for day, keys in DAYS.items() for key in keys if NAMES[day] is not None)
    source = Source(lake(tmp_path, WRITERS[format]), ["day", "k"], drop_null=True)
    assert counted(source) == expected


@pytest.mark.parametrize("format", WRITERS)
def test_null_is_refused(format: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="'day' must have no NULL"):
        counted(Source(lake(tmp_path, WRITERS[format]), "day"))


@pytest.mark.parametrize("format", WRITERS)
@pytest.mark.parametrize(("day", "keys"), [("007", "b"), ("Köln/= x", "c"), ("7", ""), ("2026-12-31", "")])
def test_a_part_is_its_folder(format: str, day: str, keys: str, tmp_path: Path) -> None:
    source = Source(lake(tmp_path, WRITERS[format]), "k").of_part(Part("day", day))
    assert counted(source) == Counter((key,) for key in keys)


def test_a_part_reads_no_other_folder(tmp_path: Path) -> None:
    lake(tmp_path)
    (tmp_path / "day=2026-11-01" / "x.parquet").write_bytes(b"PAR1 broken PAR1")
    assert counted(Source(tmp_path, "k").of_part(Part("day", "007"))) == {("b",): 1}
    with pytest.raises(InvalidValue, match="not whole and readable"):
        counted(Source(tmp_path, "k").of_part(Part("day", "2026-11-01")))


@pytest.mark.parametrize("format", WRITERS)
def test_types_are_stated_and_never_inferred(format: str, tmp_path: Path) -> None:
    for name in ("1", "01", "2"):
        (tmp_path / f"n={name}").mkdir()
        WRITERS[format](tmp_path / f"n={name}" / "x", "ab")
    assert counted(Source(tmp_path, "n")) == {("1",): 2, ("01",): 2, ("2",): 2}
    assert counted(Source(tmp_path, "n", key_type="int64")) == {(1,): 4, (2,): 2}
    typed = Source(tmp_path, ["n", "k"], key_type={"n": "int64"})
    assert counted(typed) == {(1, "a"): 2, (1, "b"): 2, (2, "a"): 1, (2, "b"): 1}
    assert counted(typed.of_part(Part("n", "1"))) == {(1, "a"): 2, (1, "b"): 2}


def test_a_name_that_is_no_value_of_the_type(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="no value of type date32") as refusal:
        counted(Source(lake(tmp_path), "day", key_type="date32", drop_null=True))
    assert "007" not in str(refusal.value)


def test_a_column_of_a_file_has_no_stated_type(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="no column that folders are named by"):
        counted(Source(lake(tmp_path), ["day", "k"], key_type={"k": "int64"}))


@pytest.mark.parametrize("format", WRITERS)
def test_a_column_of_the_same_name_is_refused_if_it_is_read(format: str, tmp_path: Path) -> None:
    lake(tmp_path, WRITERS[format], column="k")
    assert sum(counted(Source(tmp_path, "u")).values()) == 7
    with pytest.raises(InvalidValue, match="'k' is in the files and also in the names of their folders"):
        counted(Source(tmp_path, "k"))


def test_a_column_of_some_folders_is_refused(tmp_path: Path) -> None:
    lake(tmp_path)
    write_parquet(tmp_path / "y", "a")
    with pytest.raises(InvalidValue, match="to some files, but not to all"):
        counted(Source(tmp_path, "day"))
    assert counted(Source(tmp_path, "k")) == {("a",): 5, ("b",): 2, ("c",): 1}


def test_folders_count_from_where_the_path_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "project=secret" / "day=1"
    inside.mkdir(parents=True)
    write_parquet(inside / "x", "a")
    monkeypatch.chdir(inside.parent)
    assert counted(Source("day=1/x.parquet", "day")) == {("1",): 1}
    assert counted(Source("*/*.parquet", "day")) == {("1",): 1}
    assert counted(Source(".", "day")) == {("1",): 1}
    with pytest.raises(InvalidValue, match="'project' must be in"):
        counted(Source(".", "project"))


@pytest.mark.chance("odds 1e-8: delta, that a key of two users is reported")
def test_a_folder_can_name_users_and_no_value_is_shown(tmp_path: Path) -> None:
    for user in ("ada", "bob"):
        (tmp_path / f"user={user}").mkdir()
        write_csv(tmp_path / f"user={user}" / "x", "ab")
    release = dpsample.release(tmp_path, "k", user="user", privacy=Privacy(1, "1e-8"))
    assert len(release) == 0  # two users are too few
    assert "ada" not in repr(release.terms)
    (tmp_path / "user=ada" / "x.csv").write_bytes("k,u\nä,1".encode("utf-16"))
    with pytest.raises(InvalidValue, match="UTF-16") as refusal:
        dpsample.release(tmp_path, "k", user="user", privacy=Privacy(1, "1e-8"))
    assert "ada" not in str(refusal.value)


def test_folders_in_other_encodings(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "x.csv").write_bytes("k;u\nä;1".encode("latin-1"))
    source = Source(tmp_path, ["day", "k"], delimiter=";", encoding="latin-1")
    assert counted(source) == {("1", "ä"): 1}


def test_two_folders_with_one_name(tmp_path: Path) -> None:
    inside = tmp_path / "day=1" / "day=2"
    inside.mkdir(parents=True)
    write_parquet(inside / "x", "a")
    with pytest.raises(InvalidValue, match="two folders on the way"):
        counted(Source(tmp_path, "k"))


@pytest.mark.chance("certain: only the end of commands, their words and the type of a column are looked at")
class TestAtTheCommandLine:
    WORDS = ("-e", "1", "-d", "1e-8")

    def folders(self, folder: Path) -> str:
        for day in ("2026-11-01", "2026-11-02"):
            (folder / f"day={day}").mkdir(parents=True)
            write_parquet(folder / f"day={day}" / "x", "ab" * 500)
        return str(folder)

    def test_a_part_and_a_type(self, tmp_path: Path) -> None:
        lake, output = self.folders(tmp_path / "lake"), str(tmp_path / "o.parquet")
        words = ["release", lake, "-k", "k", "-k", "day", *self.WORDS, "-o", output, "--force"]
        for stated, kind in [([], pa.string()), (["--key-type", "day=date32"], pa.date32())]:
            done = CliRunner().invoke(cli, [*words, *stated, "--part", "day=2026-11-01"])
            assert done.exit_code == 0, done.output
            assert dpsample.read_release(output).table.schema.field("day").type == kind

    def test_a_settings_file(self, tmp_path: Path) -> None:
        settings = tmp_path / "s.toml"
        settings.write_text(
            f"source = {self.folders(tmp_path / 'lake')!r}\nkey = ['day']\nkey-type = ['day=date32']\n"
            f"epsilon = 1\ndelta = 1e-8\noutput = {str(tmp_path / 'o.parquet')!r}\n"
        )
        done = CliRunner().invoke(cli, ["run", str(settings)])
        assert done.exit_code == 0, (done.output, done.exception)

    @pytest.mark.parametrize("stated", [["date32"], ["day=date32", "day=int64"]])
    def test_types_that_are_not_stated_so(self, stated: list[str], tmp_path: Path) -> None:
        words = [word for one in stated for word in ("--key-type", one)]
        output = str(tmp_path / "o.parquet")
        done = CliRunner().invoke(cli, ["release", str(tmp_path), "-k", "day", *words, *self.WORDS, "-o", output])
        assert done.exit_code == 2
        assert "--key-type is NAME=TYPE" in done.output

    def test_a_plan_writes_the_command(self) -> None:
        source = Source("lake", "day", key_type={"day": "date32"})
        assert "--key-type day=date32" in command(Setting(Privacy(1, "1e-8"), KeepAll()), source)
