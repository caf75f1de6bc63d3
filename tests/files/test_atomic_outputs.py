"""An output appears complete or not at all, and costs nothing where it cannot be."""

import fcntl
import hashlib
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dpsample.files
from dpsample.errors import InvalidValue, SystemFailure
from dpsample.files import ROWS, Rows, check_not_input, check_output, write_table
from written_tables import FORMATS, METADATA, read_table, write

pytestmark = pytest.mark.chance("certain: the processes that are started write given rows")


def test_outputs_that_cannot_be_are_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder.parquet").mkdir()
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe.parquet")
    refused = {
        "none/x.parquet": "for the output",
        "file/x.parquet": "for the output",
        "folder.parquet": "the output must be a file",
        "pipe.parquet": "the output must be a regular file",
        "x\0.parquet": "the path cannot name a file",
        "x" * 300 + ".parquet": "must be accessible, but there was an error: File name too long",
    }
    before = sorted(tmp_path.iterdir())
    for name, message in refused.items():
        for force in (False, True):
            with pytest.raises(InvalidValue, match=message):
                check_output(f"{tmp_path}/{name}", force)
            with pytest.raises(InvalidValue, match=message):
                write_table(f"{tmp_path}/{name}", Rows(explode(), pa.schema({"n": pa.int64()})), METADATA, force=force)
    with pytest.raises(InvalidValue, match="regular file"):
        check_output("/dev/null", True, "parquet")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InvalidValue, match="cannot be written to"):
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
    with pytest.raises(InvalidValue, match=r"exists already.*force"):
        check_output(path)
    with pytest.raises(InvalidValue, match=r"exists already.*force"):
        write_table(path, Rows(explode(), old.schema), METADATA)
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

    with pytest.raises(InvalidValue, match="exists already"):
        write_table(path, Rows(batches(), pa.schema({"n": pa.int64()})), METADATA)
    assert path.read_text() == "somebody else's"
    assert list(tmp_path.iterdir()) == [path]


def test_somebody_elses_json_beside_is_not_overwritten(tmp_path: Path) -> None:
    beside = tmp_path / "x.csv.json"
    for foreign in ("mine", "[]", '{"format": "other"}', '{"format": 1}', "[" * 100_000):
        beside.write_text(foreign)
        with pytest.raises(InvalidValue, match=r"x\.csv\.json' exists already"):
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
                write_table(path, Rows(rows, table.schema), metadata, force=force)
            assert {p: p.read_bytes() for p in tmp_path.iterdir()} == contents
        write(path, table, force=force)


def test_every_row_is_checked_and_copied_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpsample.answers.example import release
    from dpsample.answers.release import write_release

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
            Rows(batches(), pa.schema({"n": pa.int64()})),
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

    with pytest.raises(InvalidValue, match="exists already"):
        write_table(path, Rows(batches(), table.schema), METADATA)
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
    with pytest.raises(InvalidValue, match="exists already"):
        write(path, table)
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    path.unlink()
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(InvalidValue, match="must be accessible, but there was an error: Operation not permitted"):
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
    with pytest.raises(InvalidValue, match="exists already"):
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
