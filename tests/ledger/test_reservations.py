"""A reservation is spent before it is confirmed, whenever a process is killed."""

import contextlib
from fractions import Fraction
from pathlib import Path

import pytest

from dpsample import Privacy, new_ledger, read_ledger
from dpsample.ledger.charges import Charge
from dpsample.ledger.ledger import reserve_budget
from ledgers import BUDGET, HALF, killed_at_every_step, spend
from support import refused

pytestmark = pytest.mark.chance("certain: what is spent does not depend on what is drawn")


def test_a_reservation_is_spent_before_it_is_confirmed(tmp_path: Path) -> None:
    """Whatever becomes of the process that made it: only a cancellation gives the budget back."""
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", Privacy(1, 1e-6))
    forfeited, written, cancelled = (
        reserve_budget(path, Charge(Privacy(epsilon, "1e-7"), "element", epsilon)) for epsilon in ("0.1", "0.2", "0.7")
    )
    assert read_ledger(path).basic == (Fraction(1), Fraction(3, 10**7))
    with refused("the releases of 'events' may spend"):
        reserve_budget(path, Charge(Privacy("1e-9", "1e-9"), "element", "more"))
    written.mark_drawn()
    written.confirm("ab" * 32)
    cancelled.cancel()
    ledger = read_ledger(path)
    assert [entry.status for entry in ledger.entries] == ["reserved", "confirmed", "cancelled"]
    assert [entry.hash for entry in ledger.entries] == [forfeited.hash, written.hash, cancelled.hash]
    assert [entry.sha256 for entry in ledger.entries] == [None, "ab" * 32, None]
    assert ledger.basic == (Fraction(3, 10), Fraction(2, 10**7))
    assert len(ledger.hashes) == 1 + 3 + 2
    spend(path, Privacy("0.7", "1e-7"), "element", "again")
    shown = str(read_ledger(path))
    assert "reserved, not confirmed" in shown
    assert "cancelled, not spent" in shown
    assert "left: epsilon 0," in shown


def test_a_cancelled_release_is_none_of_those_that_are_allowed(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    each = Privacy("0.05", "1e-9")
    new_ledger(path, "events", BUDGET, each=each)
    reserve_budget(path, Charge(each, "element", "x")).cancel()
    ledger = read_ledger(path)
    assert ledger.releases == 82
    assert "left: 82 releases" in str(ledger)
    assert ledger.spent[0] == 0


def test_what_is_drawn_cannot_be_given_back(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET)
    reservation = reserve_budget(path, HALF)
    reservation.mark_drawn()
    before = path.read_bytes()
    with refused("a reservation cannot be cancelled once its release is being drawn"):
        reservation.cancel()
    assert path.read_bytes() == before
    reservation.confirm()
    cancelled = reserve_budget(path, HALF)
    cancelled.cancel()
    for settle in (reservation.confirm, cancelled.confirm, cancelled.cancel):
        with refused("the reservation is missing from the ledger"):
            settle()


def test_a_reservation_is_settled_where_it_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the process has moved to another folder, which has a ledger of that name."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        new_ledger(tmp_path / name / "a.ledger", "events", BUDGET)
    monkeypatch.chdir(tmp_path / "here")
    reservation = reserve_budget("a.ledger", HALF)
    monkeypatch.chdir(tmp_path / "there")
    reservation.confirm()
    entries = [read_ledger(tmp_path / name / "a.ledger").entries for name in ("here", "there")]
    assert [[entry.status for entry in each] for each in entries] == [["confirmed"], []]


def test_a_reservation_that_was_rolled_back_is_not_confirmed(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET)
    before = path.read_bytes()
    reservation = reserve_budget(path, HALF)
    path.write_bytes(before)  # somebody restored an old copy
    with refused("the reservation is missing from the ledger"):
        reservation.confirm()
    assert path.read_bytes() == before


def test_an_error_before_drawing_cancels_and_after_it_forfeits(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET)

    def run(*steps: str) -> list[str]:
        """Reserve, go some steps, fail; return the notes of the error."""
        with pytest.raises(KeyboardInterrupt) as info, reserve_budget(path, HALF) as reservation:  # noqa: PT012
            for step in steps:
                getattr(reservation, step)()
            raise KeyboardInterrupt
        return getattr(info.value, "__notes__", [])

    assert run() == []
    assert run("mark_drawn") == ["its privacy is spent: it stays in the ledger"]
    assert run("mark_drawn", "confirm") == []
    assert [entry.status for entry in read_ledger(path).entries] == ["cancelled", "reserved", "confirmed"]


_RESERVE = """
import os
from dpsample import Privacy
from dpsample.ledger.charges import Charge
from dpsample.ledger.ledger import reserve_budget

def work(here):
    with reserve_budget(here / "a.ledger", Charge(Privacy(1, 1e-9), "element", "out")) as reservation:
        reservation.mark_drawn()
        os.close(os.open(here / "out", os.O_CREAT | os.O_WRONLY))
        reservation.confirm("0" * 64)
"""


def test_kill_9_at_every_step_of_a_reservation(tmp_path: Path) -> None:
    """What was drawn is in the ledger, what is confirmed was written, and the rest is forfeited."""
    seen = set()
    for here in killed_at_every_step(tmp_path, _RESERVE):
        statuses = [entry.status for entry in read_ledger(here / "a.ledger").entries]
        seen.add((*statuses, (here / "out").exists()))
        with refused("the releases of 'events' may spend") if statuses else contextlib.nullcontext():
            spend(here / "a.ledger", Privacy(1, 1e-9), "element", "next")
    assert seen == {(False,), ("reserved", False), ("reserved", True), ("confirmed", True)}
