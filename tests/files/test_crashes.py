"""Writers that are killed, race or have no room leave the old file or the new one."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import dpsample.files
from dpsample.files import Rows, write_table
from written_tables import FORMATS

pytestmark = pytest.mark.chance("certain: the processes that are started write given rows")


NURSERY = """
import os, random, signal, sys, time
import pyarrow as pa
from dpsample.errors import InvalidValue, SystemFailure
from dpsample.files import Rows, read_table, write_table

pa.set_cpu_count(1)
METADATA = {"format": "dpsample release", "version": 1}

def write(path, value, rows, force):
    batch = pa.record_batch({"n": pa.array([value] * rows)})
    write_table(path, Rows([batch], batch.schema), METADATA | {"value": value}, force=force)

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
            write_table(path, Rows(batches(), half.schema), METADATA | {"value": value}, force=force)
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
            write_table(path, Rows([batch, batch], batch.schema), METADATA, force=force)
        except SystemFailure as error:
            print(str(error).split("an error: ")[1].split("; ")[0].replace(" ", "_"))
        assert sorted(os.listdir(folder)) == before, os.listdir(folder)
        assert state(f"{folder}/old.{form}", 5) == 1
"""


def old_ones(folder: Path) -> None:
    for form in FORMATS:
        batch = pa.record_batch({"n": [1] * 5})
        metadata = {"format": "dpsample release", "version": 1, "value": 1}
        write_table(folder / f"old.{form}", Rows([batch], batch.schema), metadata)


def test_a_file_that_may_not_grow_leaves_nothing(tmp_path: Path) -> None:
    old_ones(tmp_path)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    assert nursery(FULL, tmp_path, 100_000) == ["File_too_large"] * 6


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip("mounting a small disk needs privileges; RLIMIT_FSIZE is tested instead")
    try:
        old_ones(tmp_path)
        assert nursery(FULL, tmp_path, 0) == ["No_space_left_on_device"] * 6
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
