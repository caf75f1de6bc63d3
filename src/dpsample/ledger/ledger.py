"""A ledger: a dataset's budget, and the record of what each release has spent.

A ledger is a text file. Its first line states the dataset, the budget and the unit of privacy. A release takes two more
lines: it reserves its part of the budget before anything is drawn, and confirms this once it is written.

    reserved     spent; the release is under way, or was lost in a crash: then its part is forfeited
    confirmed    spent; the release was written
    cancelled    not spent: nothing had been drawn

Every line is JSON and names the SHA-256 of the line before it. So no line can be changed, left out or moved unless all
lines after it are written anew (`file`). The line of a release also states its purpose.

The first line also says by which of the `rules` releases add up, and whether parts that do not overlap are accounted
for one by one (`balance`).
"""

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypedDict, Unpack

from dpsample.accounting.budget import UNITS
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


class LedgerKeywords(TypedDict, total=False):
    """The keyword arguments of `new_ledger` that are rarely needed; its docstring explains them."""

    account: str
    aside: Number
    parts: str | None


def new_ledger(
    path: PathLike,
    dataset: str,
    budget: StatedPrivacy,
    unit: str = "element",
    each: StatedPrivacy | None = None,
    **options: Unpack[LedgerKeywords],
) -> Ledger:
    """Begin a ledger; a file that exists is never replaced. What is stated here cannot be changed later.

    each     the most that any single release may spend: fixed now, it lets many small releases be counted by the
             optimal composition theorem, whatever is decided after looking at the first ones
    account  what adds up: "epsilon", or "renyi" for the Rényi curves of releases, which may be of any size
    aside    with account="renyi": the share of delta that the deltas of releases may add up to
    parts    the name of parts of the dataset that do not overlap, such as "day": each part has all of the budget, and a
             user is protected within one part
    """
    first_line = ledger_terms(dataset, budget, unit, each, **options)
    data, _ = with_line(b"", first_line)
    write_lines(resolved(path), data, new=True)
    return read_ledger(path)


def ledger_terms(
    dataset: str,
    budget: StatedPrivacy,
    unit: str = "element",
    each: StatedPrivacy | None = None,
    account: str = "epsilon",
    aside: Number = ASIDE,
    parts: str | None = None,
) -> dict[str, Any]:
    """Return the fields of a ledger's first line, after checking them; `new_ledger` explains them."""
    _check_name(dataset, "dataset", "queries")
    _check_choice(unit, UNITS, "unit")
    _check_choice(account, ACCOUNTS, "account")
    if parts is not None:
        _check_name(parts, "parts", "day")
    whole = _plain(budget, "the budget of a ledger")
    form = {"dataset": dataset, "budget": whole.to_json(), "unit": unit, "each": None}
    if each is not None:
        if account == "renyi":
            raise InvalidValue(
                "a Rényi ledger cannot limit what each release may spend",
                "leave the limit out, or `account`",
            )
        most = _plain(each, "the most that each release may spend")
        if most.epsilon > whole.epsilon or most.delta > whole.delta:
            raise InvalidValue(
                f"each release may spend at most what all may spend together, not {most!r}",
                "choose a smaller limit",
            )
        form["each"] = most.to_json()
    if account == "renyi":
        form["account"] = RenyiBudget.of(whole, aside).to_json()
    if parts is not None:
        form["parts"] = parts
    return form


def _check_name(name: Any, argument: str, example: str) -> None:
    """Refuse a name that is empty, or that a terminal could not show."""
    is_name = isinstance(name, str) and name and name.isprintable()
    if not is_name:
        raise InvalidValue(
            f"`{argument}` must be a name of printable characters, not {name!r}",
            f"write one, such as {example!r}",
        )


def _check_choice(value: Any, choices: tuple[str, ...], argument: str) -> None:
    if value not in choices:
        raise InvalidValue(f"`{argument}` must be {' or '.join(choices)}, not {value!r}")


def _plain(stated: StatedPrivacy, what: str) -> Privacy:
    """Return a privacy, after refusing zCDP and GDP: a ledger proves an epsilon and a delta of all its releases."""
    privacy = Privacy.of(stated)
    if privacy.definition is not None:
        epsilon = text(privacy.epsilon)
        delta = text(privacy.delta)
        raise InvalidValue(
            f"{what} must be an epsilon and a delta, not {privacy.definition}",
            f"state Privacy({epsilon!r}, {delta!r}), which follows; with `account='renyi'` releases add up as in zCDP",
        )
    return privacy


def read_ledger(path: PathLike) -> Ledger:
    """Read a ledger, after checking its chain; a ledger that was changed since it was written is refused."""
    _, ledger = _read(existing_ledger(path))
    return ledger


def check_ledger(path: PathLike, charge: Charge) -> None:
    """Refuse a charge that `reserve_budget` would refuse, before any work. The lock is taken, and writing is tried."""
    with locked_ledger(path) as target:
        _, ledger = _read(target)
        ledger.require(charge)
        check_room(target)


class Reservation:
    """A part of the budget that is reserved, and so spent, for one release.

    `hash` is that of its line, which the terms of the release name. As a context: an error before `mark_drawn` cancels
    the reservation. After that it stays spent, which a note on the error says.
    """

    def __init__(self, target: Path, hash: str) -> None:
        self.hash = hash
        self._target = target
        self._drawn = False
        self._settled = False

    def mark_drawn(self) -> None:
        """Note that drawing begins: from now on the reservation cannot be cancelled."""
        self._drawn = True

    def confirm(self, sha256: str | None = None) -> None:
        """Enter into the ledger that the release was written; `sha256` is that of its file, by `release_sha256`."""
        self._settle({"kind": "confirm", "entry": self.hash, "sha256": sha256})

    def cancel(self) -> None:
        """Give the budget back; refused once drawing has begun."""
        if self._drawn:
            raise InvalidValue(
                "a reservation cannot be cancelled once its release is being drawn",
                "leave it: it stays spent",
            )
        self._settle({"kind": "cancel", "entry": self.hash})

    def _settle(self, form: Mapping[str, Any]) -> None:
        """Add the line that ends the reservation, which must be open."""
        with held(), locked_ledger(self._target) as target:
            data, ledger = _read(target)
            open_hashes = [entry.hash for entry in ledger.entries if entry.status == "reserved"]
            if self.hash not in open_hashes:
                raise InvalidValue(
                    f"the reservation is missing from the ledger of {ledger.dataset!r}, or was settled before",
                    "restore the ledger from its newest copy",
                )
            longer, _ = with_line(data, form)
            write_lines(target, longer)
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
            # the first error is the one that is raised; a reservation that cannot be cancelled is spent
            with contextlib.suppress(DpsampleError):
                self.cancel()
        if not self._settled:
            error.add_note("its privacy is spent: it stays in the ledger")


def reserve_budget(path: PathLike, charge: Charge) -> Reservation:
    """Reserve the cost of a release in a ledger, or refuse it; when this returns, it is on the disk, and spent."""
    with locked_ledger(path) as target:
        data, hash = _reserved(target, charge)
        write_lines(target, data)
        return Reservation(target, hash)


def _read(target: Path) -> tuple[bytes, Ledger]:
    """Return the bytes of a ledger and what they state, after checking them."""
    with failures(target):
        data = target.read_bytes()
    lines = parse_lines(data, target)
    number = 1
    try:
        ledger = _begun(lines[0].form)
        entries: dict[str, Entry] = {}
        for line in lines[1:]:
            number += 1
            add_line(entries, line)
    except (ValueError, LookupError, TypeError, AttributeError):  # InvalidValue is a ValueError
        pass
    else:
        hashes = tuple(line.hash for line in lines)
        releases = tuple(entries.values())
        return data, replace(ledger, entries=releases, head=hashes[-1], hashes=hashes)
    raise damaged(target, number)


def _begun(form: Mapping[str, Any]) -> Ledger:
    """Return the ledger that a first line begins, without entries."""
    budget = Privacy.from_json(form["budget"])
    each = Privacy.from_json(form["each"]) if form["each"] else None
    account = None
    if "account" in form:
        account = RenyiBudget.from_json(form["account"], budget)
    parts = form.get("parts")
    if parts is not None:
        _check_name(parts, "parts", "day")
    ledger = Ledger(form["dataset"], budget, form["unit"], each)
    return replace(ledger, account=account, parts=parts)


def _reserved(target: Path, charge: Charge) -> tuple[bytes, str]:
    """Return the bytes of a ledger with one more reservation, and the hash of its line; refuse what is not allowed."""
    data, ledger = _read(target)
    ledger.require(charge)
    # a ledger with an account adds up curves of Rényi divergence, so each of its lines states its own
    curve = None
    if ledger.account is not None:
        curve = curve_of([charge])
    reserved = replace(charge, curve=curve)
    return with_line(data, {"kind": "reserve", **reserved.to_json()})
