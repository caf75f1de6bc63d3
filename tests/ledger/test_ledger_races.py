"""Ledgers that several processes write, or that cannot be written."""

import errno
import fcntl
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

import dpsample
import dpsample.ledger.file
from dpsample import InvalidValue, Privacy, SystemFailure, new_ledger, read_ledger
from ledgers import BUDGET, HALF, fill, killed_at_every_step, spend
from support import refused

pytestmark = pytest.mark.chance("certain: what is spent does not depend on what is drawn")


# ---- before any work


def test_a_ledger_with_two_names_is_refused(tmp_path: Path) -> None:
    """A line would go to one of them, and each would have the whole budget."""
    path, other = tmp_path / "a.ledger", tmp_path / "b.ledger"
    new_ledger(path, "events", Privacy(1, 1e-6))
    os.link(path, other)
    os.symlink(path, tmp_path / "c.ledger")
    for name in (path, other, tmp_path / "c.ledger"):
        with refused("hard links, each of which would have the whole budget"):
            dpsample.release({"x": 1000}, privacy=Privacy(1, 1e-6), ledger=name)
        with refused("hard links, each of which would have the whole budget"):
            spend(name, Privacy(1, 1e-6), "element", "x")
    other.unlink()
    spend(tmp_path / "c.ledger", Privacy(1, 1e-6), "element", "x")
    assert len(read_ledger(path).entries) == 1


def test_a_new_ledger_that_was_killed_has_one_name(tmp_path: Path) -> None:
    """Its draft is a hard link to it, for a moment, or until the next one who holds the lock removes it."""
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET)
    os.link(path, tmp_path / ".dpsample-0123456789abcdef-0123456789abcdef.tmp")
    spend(path, HALF.privacy, "element", "x")
    assert [item.name for item in tmp_path.iterdir()] == ["a.ledger"]


@pytest.mark.parametrize("obstacle", ["no locks", "a read-only folder", "a read-only ledger"])
def test_a_ledger_that_cannot_be_written_is_refused_before_any_work(
    obstacle: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS without a lock service. Nothing is read: the source does not even exist."""
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET)

    def fail(code: int) -> Any:
        raise OSError(code, os.strerror(code))

    usual = os.open
    if obstacle == "no locks":
        monkeypatch.setattr("portalocker.portalocker.LOCKER", lambda fd, how: fail(errno.ENOLCK))
    elif obstacle == "a read-only folder":
        monkeypatch.setattr(
            os, "open", lambda name, how, *mode: fail(errno.EROFS) if how & os.O_CREAT else usual(name, how, *mode)
        )
    else:
        path.chmod(0o444)  # also for those whom no permission stops
    source = dpsample.Source(tmp_path / "no-such-file.parquet", "k")
    with refused("a.ledger" if obstacle == "a read-only folder" else "the ledger"):
        dpsample.release(source, privacy=HALF.privacy, ledger=path)
    assert [item.name for item in tmp_path.iterdir()] == ["a.ledger"]
    assert read_ledger(path).entries == ()


# ---- several processes

_ROUNDS = 300


def _race(folder: str, name: str, start: Any, results: Any) -> None:
    won = []
    for n in range(_ROUNDS):
        start.wait()
        try:
            spend(f"{folder}/{n}.ledger", Privacy(1, 1e-7), "element", name)
            won.append(n)
        except InvalidValue:  # that it was refused for want of budget shows in the ledger
            continue
    results.put((name, won))


def test_two_processes_race_for_the_last_of_a_budget(tmp_path: Path) -> None:
    """300 ledgers with room for one release: each is won by exactly one of two processes.

    Without locks both won 44 of 1,000 (measured): 300 rounds miss that with probability 2e-6.
    """
    first = tmp_path / "first.ledger"
    new_ledger(first, "events", BUDGET)
    fill(first, ("1", "1e-7"))
    for n in range(_ROUNDS):
        (tmp_path / f"{n}.ledger").write_bytes(first.read_bytes())
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(2), context.Queue()
    racers = [context.Process(target=_race, args=(str(tmp_path), name, start, results)) for name in ("a", "b")]
    for racer in racers:
        racer.start()
    won = dict(results.get(timeout=900) for _ in racers)
    for racer in racers:
        racer.join()
        assert racer.exitcode == 0
    assert sorted(won["a"] + won["b"]) == list(range(_ROUNDS))
    for name in ("a", "b"):
        for n in won[name]:
            entries = read_ledger(tmp_path / f"{n}.ledger").entries
            assert [entry.release for entry in entries] == ["0.parquet", name]
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".ledger"] * (_ROUNDS + 1)


def test_a_lock_that_is_never_let_go_ends_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET)
    monkeypatch.setattr(dpsample.ledger.file, "_PATIENCE", 0.05)
    with open(path, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(SystemFailure, match="locked by another"):
            spend(path, Privacy(1, 1e-9), "element", "x")
    spend(path, Privacy(1, 1e-9), "element", "x")


# ---- releases

# what a release imports is imported once, and not by each of the processes that are killed
_RELEASE = """
import duckdb, pandas, pyarrow.dataset, pyarrow.parquet
import dpsample.private.engine.duckdb.engine
from dpsample import Privacy
from dpsample.private.run import release_to_file

def work(here):
    release_to_file(here / "out.parquet", {"a": 500, "b": 400}, privacy=Privacy(1, 1e-9), ledger=here / "a.ledger")
"""


def test_kill_9_at_every_step_of_a_release(tmp_path: Path) -> None:
    """Before and after each call that changes a file: an output has its line in the ledger, and nothing blocks."""
    seen = set()
    for here in killed_at_every_step(tmp_path, _RELEASE):
        entries = read_ledger(here / "a.ledger").entries
        out = here / "out.parquet"
        seen.add((len(entries), out.exists()))
        if out.exists():
            made = dpsample.read_release(out)
            assert made.terms.ledger == entries[0].hash
        if not entries:  # nothing is spent, so that the next one goes through
            spend(here / "a.ledger", Privacy(1, 1e-9), "element", "next")
        else:
            with refused("the releases of 'events' may spend"):
                spend(here / "a.ledger", Privacy("1e-9", "1e-20"), "element", "next")
        assert len(read_ledger(here / "a.ledger").entries) == 1
    assert seen == {(0, False), (1, False), (1, True)}


def test_a_release_that_is_refused_reads_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", Privacy(1, 1e-9))
    source = dpsample.Source(tmp_path / "no-such-file.parquet", "k")
    with refused("the releases of 'events' may spend"):
        dpsample.release(source, privacy=Privacy(2, 1e-9), ledger=path)
    drawn = dpsample.sample({"a": 5}, sampling=dpsample.Ppswor(1))
    with refused("the releases of 'events' may spend"):
        dpsample.sanitize(drawn, privacy=Privacy(2, 1e-9), ledger=path)
    made = dpsample.sanitize(drawn, privacy=Privacy(1, 1e-9), ledger=path)
    assert made.terms.ledger == read_ledger(path).entries[-1].hash


def test_data_that_are_refused_cost_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", Privacy(1, 1e-9))
    for bad in ([None, "a"], {"a": -1}):
        with pytest.raises(InvalidValue):
            dpsample.release_to_file(tmp_path / "o.parquet", bad, privacy=Privacy(1, 1e-9), ledger=path)
    assert read_ledger(path).charged == ()


def test_a_release_that_fails_after_spending_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", Privacy(1, 1e-9))

    def full(*arguments: Any, **options: Any) -> int:
        raise SystemFailure("the disk is full", "free some")

    monkeypatch.setattr("dpsample.private.drawing.write_release", full)
    with pytest.raises(SystemFailure) as info:
        dpsample.release_to_file(tmp_path / "o.parquet", {"a": 50}, privacy=Privacy(1, 1e-9), ledger=path)
    assert info.value.__notes__ == ["its privacy is spent: it stays in the ledger"]
    assert len(read_ledger(path).entries) == 1
