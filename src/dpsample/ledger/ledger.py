"""A ledger: a dataset's budget, and what each release has spent of it.

A ledger is a text file. Its first line states the dataset, the budget and the unit of privacy. A release takes two more
lines: it reserves its part of the budget before anything is drawn, and confirms this once it is written.

    reserved     spent; the release is under way, or was lost in a crash: then its part is forfeited
    confirmed    spent; the release was written
    cancelled    not spent: nothing had been drawn

Every line is JSON and names the SHA-256 of the line before it, so that no line can be changed, left out or moved
without all that follow it being written anew (`file`). It also states what the budget is spent on.

The first line also says by which of the `rules` releases add up, and whether parts that do not overlap are accounted
for one by one (`balance`).
"""

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from dpsample.accounting.budget import UNITS
from dpsample.accounting.parts import Part
from dpsample.errors import DpsampleError, InvalidValue
from dpsample.exact import Number, text
from dpsample.files.metadata import PathLike, failures, resolved
from dpsample.interrupts import held
from dpsample.ledger.balance import Ledger
from dpsample.ledger.charges import Charge, Entry, add_line
from dpsample.ledger.file import (
    check_room,
    damaged,
    existing_ledger,
    locked_ledger,
    parse_lines,
    with_line,
    write_lines,
)
from dpsample.ledger.filters import ASIDE, RenyiBudget
from dpsample.ledger.rules import curve_of
from dpsample.privacy import Privacy, StatedPrivacy

ACCOUNTS: Final = ("epsilon", "renyi")


def new_ledger(
    path: PathLike,
    dataset: str,
    budget: StatedPrivacy,
    unit: str = "element",
    each: StatedPrivacy | None = None,
    *,
    account: str = "epsilon",
    aside: Number = ASIDE,
    parts: str | None = None,
) -> Ledger:
    """Start a ledger; a file that exists is never replaced. What is stated here cannot be changed later.

    each     the most that any single release may spend: fixed now, it lets many small releases be counted by the
             optimal composition theorem, whatever is decided after looking at the first ones
    account  what adds up: "epsilon", or with "renyi" the Rényi curves of releases, which many releases of any size may
             share
    aside    with "renyi": the share of delta that the deltas of releases may add up to
    parts    what the parts of the dataset are called that do not overlap, such as "day": each part has all of the
             budget, and a user is protected within one part
    """
    if not isinstance(dataset, str) or not dataset or not dataset.isprintable():
        raise InvalidValue("a dataset has a name", repr(dataset), "give it one")
    if unit not in UNITS:
        raise InvalidValue(
            f"the unit of privacy is one of {', '.join(UNITS)}", repr(unit), "choose one of these"
        )
    if account not in ACCOUNTS:
        raise InvalidValue(
            f"the account is one of {', '.join(ACCOUNTS)}", repr(account), "choose one of these"
        )
    if parts is not None and not (isinstance(parts, str) and parts and parts.isprintable()):
        raise InvalidValue(
            "parts have a name, such as that of a column",
            repr(parts),
            "give them one, such as 'day'",
        )
    budget, each = Privacy.of(budget), None if each is None else Privacy.of(each)
    _require_plain(budget, "the budget of a ledger")
    if each is not None:
        _require_plain(each, "the most that each release may spend")
    if each is not None and not (each.epsilon <= budget.epsilon and each.delta <= budget.delta):
        raise InvalidValue(
            "a single release spends no more than all", repr(each), "choose a smaller one"
        )
    if each is not None and account == "renyi":
        raise InvalidValue(
            "the most that each release may spend goes with the account of epsilon",
            "the Rényi account, which needs none",
            "leave one of them out",
        )
    form = {
        "dataset": dataset,
        "budget": budget.to_json(),
        "unit": unit,
        "each": None if each is None else each.to_json(),
        **({"account": RenyiBudget.of(budget, aside).to_json()} if account == "renyi" else {}),
        **({} if parts is None else {"parts": parts}),
    }
    write_lines(resolved(path), with_line(b"", form)[0], new=True)
    return read_ledger(path)


def _require_plain(privacy: Privacy, what: str) -> None:
    """Refuse zCDP and GDP: what a ledger proves of all releases together is an epsilon and a delta."""
    if privacy.definition is not None:
        epsilon, delta = text(privacy.epsilon), text(privacy.delta)
        raise InvalidValue(
            f"{what} is an epsilon and a delta",
            f"{privacy.definition}",
            f"state Privacy({epsilon!r}, {delta!r}), which follows; with `account='renyi'` releases add up as in zCDP",
        )


def read_ledger(path: PathLike) -> Ledger:
    """Read a ledger and check its chain; what is not as it was written is refused."""
    return _read(existing_ledger(path))[1]


def check_ledger(path: PathLike, charge: Charge) -> None:
    """Refuse, before any work, what `reserve_budget` would refuse: it takes the lock, and tries to write."""
    with locked_ledger(path) as target:
        _read(target)[1].require(charge)
        check_room(target)


class Reservation:
    """A part of the budget that is entered, and so spent, for one release.

    As a context: an error before `mark_drawn` cancels it; after that it stays spent, which the error then notes.
    """

    def __init__(self, target: Path, hash: str) -> None:
        self.hash = hash  # of its line; the terms of the release name it
        self._target, self._drawn, self._settled = target, False, False

    def mark_drawn(self) -> None:
        """Note that drawing begins: from now on the budget cannot be given back."""
        self._drawn = True

    def confirm(self, sha256: str | None = None) -> None:
        """Enter that the release was written, with the hash of its file (`release_sha256`) if it has one."""
        self._settle({"kind": "confirm", "entry": self.hash, "sha256": sha256})

    def cancel(self) -> None:
        """Give the budget back; refused once drawing has begun."""
        if self._drawn:
            raise InvalidValue(
                "a reservation is cancelled before anything is drawn",
                "one whose release was being drawn",
                "leave it: it stays spent",
            )
        self._settle({"kind": "cancel", "entry": self.hash})

    def _settle(self, form: Mapping[str, Any]) -> None:
        with held(), locked_ledger(self._target) as target:
            data, ledger = _read(target)
            if not any(
                entry.hash == self.hash and entry.status == "reserved" for entry in ledger.entries
            ):
                raise InvalidValue(
                    f"the ledger of {ledger.dataset!r} must have the reservation, once and open",
                    "one that is settled or missing",
                    "restore the ledger from its newest copy",
                )
            write_lines(target, with_line(data, form)[0])
            self._settled = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or self._settled:
            return
        if not self._drawn:
            with contextlib.suppress(
                DpsampleError
            ):  # the first error counts; what cannot be cancelled is spent
                self.cancel()
        if not self._settled:
            error.add_note("its privacy is spent: it stays in the ledger")


def reserve_budget(path: PathLike, charge: Charge) -> Reservation:
    """Enter a release into a ledger, or refuse it; when this returns, it is on the disk, and spent."""
    with locked_ledger(path) as target:
        data, hash = _reserved(target, charge)
        write_lines(target, data)
        return Reservation(target, hash)


def _read(target: Path) -> tuple[bytes, Ledger]:
    """Read and check a ledger: its bytes, and what they state."""
    with failures(target):
        data = target.read_bytes()
    lines = parse_lines(data, target)
    first, number = lines[0].form, 1
    try:
        budget, unit, each = Privacy.from_json(first["budget"]), first["unit"], first["each"]
        entries: dict[str, Entry] = {}
        for line in lines[1:]:
            number += 1
            add_line(entries, line)
        hashes = tuple(line.hash for line in lines)
        return data, Ledger(
            first["dataset"],
            budget,
            unit,
            each and Privacy.from_json(each),
            tuple(entries.values()),
            hashes[-1],
            hashes,
            RenyiBudget.from_json(first["account"], budget) if "account" in first else None,
            _name(first.get("parts")),
        )
    except (ValueError, LookupError, TypeError, AttributeError):  # InvalidValue is a ValueError
        pass
    raise damaged(target, number)


def _name(parts: Any) -> str | None:
    return None if parts is None else Part(parts, "").name  # refuses what is no name


def _reserved(target: Path, charge: Charge) -> tuple[bytes, str]:
    """The lines of a ledger and one that reserves, and its hash; what the ledger does not allow is refused."""
    data, ledger = _read(target)
    ledger.require(charge)
    charge = replace(charge, curve=None if ledger.account is None else curve_of([charge]))
    return with_line(data, {"kind": "reserve", **charge.to_json()})
