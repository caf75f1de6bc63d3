"""A ledger: a dataset's budget, and what each release has spent of it.

A ledger is a text file. Its first line states the dataset, the budget and the unit of privacy. A release takes two more
lines: it reserves its part of the budget before anything is drawn, and confirms this once it is written.

    reserved     spent; the release is under way, or was lost in a crash: then its part is forfeited
    confirmed    spent; the release was written
    cancelled    not spent: nothing had been drawn
    entered      spent; a line of version 1, which was not confirmed

Every line is JSON and names the SHA-256 of the line before it, so that no line can be changed, left out or moved
without all that follow it being written anew (`ledger_file`). It also states what the budget is spent on.

How much is spent is the sum of all epsilons and of all deltas. If the ledger states what any single release may spend
at most, so that this was fixed before anything was seen, it is that of as many releases of that size by the optimal
composition theorem, where this allows more.
"""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dpsample.accounting.budget import UNITS
from dpsample.accounting.charges import Charge, Entry, add_line, amount, scheme_form, shown
from dpsample.accounting.composition import composed_delta, largest_count
from dpsample.accounting.ledger_file import (
    check_room,
    damaged,
    existing_ledger,
    locked_ledger,
    parse_lines,
    with_line,
    write_lines,
)
from dpsample.errors import DpsampleError, InvalidValue
from dpsample.exact import text
from dpsample.files.metadata import PARTS, PathLike, failures, resolved, sha256_of, sidecar_of
from dpsample.privacy import Privacy
from dpsample.release.release import Release, read_release


@dataclass(frozen=True)
class Ledger:
    """A ledger as it was read: a checked chain of lines.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = new_ledger(f"{folder}/queries.ledger", "queries", Privacy(2, 1e-6))
    ...     charge = Charge(Privacy(1, 1e-8), "element", "first.parquet", source="events", keys=("query",))
    ...     with reserve_budget(f"{folder}/queries.ledger", charge) as reservation:
    ...         reservation.mark_drawn()
    ...         reservation.confirm()
    ...     print(read_ledger(f"{folder}/queries.ledger"))
    Ledger of 'queries': epsilon 2, delta 1e-06 for each element
      1  epsilon 1, delta 1e-08  first.parquet  ...  confirmed
         of events; key: query
      spent: epsilon 1, delta 1e-08 (basic composition); left: epsilon 1, delta 9.9e-07
    """

    dataset: str
    budget: Privacy
    unit: str
    each: Privacy | None = None
    entries: tuple[Entry, ...] = ()
    head: str = field(default="", compare=False)
    hashes: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """The hashes of all lines, the head last. One that is noted elsewhere shows that no line before it was cut off."""

    @property
    def charged(self) -> tuple[Entry, ...]:
        """The entries that are spent: all but those that were cancelled."""
        return tuple(entry for entry in self.entries if entry.status != "cancelled")

    @property
    def basic(self) -> tuple[Fraction, Fraction]:
        """The sums of all epsilons and of all deltas."""
        return (
            sum((entry.privacy.epsilon for entry in self.charged), Fraction(0)),
            sum((entry.privacy.delta for entry in self.charged), Fraction(0)),
        )

    @cached_property
    def releases(self) -> int | None:
        """How many releases the ledger allows; None if it is their sums that count.

        It follows from the first line alone: a rule that is chosen later might be chosen by what was seen.
        """
        if self.each is None:
            return None
        sums = min(int(self.budget.epsilon / self.each.epsilon), int(self.budget.delta / self.each.delta))
        most = largest_count(self.each, self.budget)
        return most if most > sums else None

    @property
    def spent(self) -> tuple[Fraction, Fraction, str]:
        """Epsilon and delta that are spent so far, and by which rule."""
        epsilon, delta = self.basic
        if self.each is not None and self.releases is not None and self.charged:
            composed = _composed_epsilon(self.each, len(self.charged), self.budget)
            if composed < epsilon or delta > self.budget.delta:
                return composed, self.budget.delta, "optimal composition"
        return epsilon, delta, "basic composition"

    def require(self, privacy: Privacy, unit: str, sample: str | None = None) -> None:
        """Refuse what the budget does not allow, and a sample that was released before."""
        if unit != self.unit:
            raise InvalidValue(
                f"the ledger of {self.dataset!r} counts privacy of one {self.unit}",
                f"a release that protects one {unit}",
                f"use another ledger, or protect each {self.unit}",
            )
        if self.each is not None and not (privacy.epsilon <= self.each.epsilon and privacy.delta <= self.each.delta):
            raise InvalidValue(
                f"a release of {self.dataset!r} may spend {amount(self.each.epsilon, self.each.delta)} at most",
                amount(privacy.epsilon, privacy.delta),
                "spend less",
            )
        epsilon, delta = self.basic
        if self.releases is not None:
            allowed = len(self.charged) < self.releases
            finding = f"{len(self.charged)} releases of {self.releases} that it allows"
        else:
            allowed = epsilon + privacy.epsilon <= self.budget.epsilon and delta + privacy.delta <= self.budget.delta
            finding = f"{amount(epsilon, delta)} already spent, and {amount(privacy.epsilon, privacy.delta)} requested"
        if not allowed:
            raise InvalidValue(
                f"the releases of {self.dataset!r} may spend {amount(self.budget.epsilon, self.budget.delta)} together",
                finding,
                "spend less, or do without this release",
            )
        for number, entry in enumerate(self.entries, 1):
            if sample is not None and entry.charge.sample == sample and entry.status != "cancelled":
                raise InvalidValue(
                    "a sample is released once: two releases of one sample spend more than their sum",
                    f"entry {number} of the ledger of {self.dataset!r}, which released this sample",
                    "use that release, or draw another sample",
                )

    def to_json(self) -> dict[str, Any]:
        """Return what the ledger states, with its sums."""
        epsilon, delta, rule = self.spent
        return {
            "dataset": self.dataset,
            "budget": self.budget.to_json(),
            "unit": self.unit,
            "each": None if self.each is None else self.each.to_json(),
            "releases_allowed": self.releases,
            "entries": [entry.to_json() for entry in self.entries],
            "spent": {"epsilon": text(epsilon), "delta": text(delta), "rule": rule},
            "head": self.head,
        }

    def __str__(self) -> str:
        lines = [f"Ledger of {self.dataset!r}: {amount(self.budget.epsilon, self.budget.delta)} for each {self.unit}"]
        if self.each is not None:
            rule = f": {self.releases} releases in all" if self.releases is not None else ""
            lines.append(f"  at most {amount(self.each.epsilon, self.each.delta)} for each release{rule}")
        for number, entry in enumerate(self.entries, 1):
            lines += [f"  {number}  {entry}", *([f"     {entry.charge}"] if str(entry.charge) else [])]
        epsilon, delta, rule = self.spent
        left = (
            amount(self.budget.epsilon - epsilon, self.budget.delta - delta)
            if self.releases is None
            else f"{self.releases - len(self.charged)} releases"
        )
        return "\n".join([*lines, f"  spent: {amount(epsilon, delta)} ({rule}); left: {left}"])


def new_ledger(
    path: PathLike, dataset: str, budget: Privacy, unit: str = "element", each: Privacy | None = None
) -> Ledger:
    """Start a ledger; a file that exists is never replaced.

    `each` is the most that any single release may spend: fixed now, it lets many small releases be counted by the
    optimal composition theorem, whatever is decided after looking at the first ones.
    """
    if not isinstance(dataset, str) or not dataset or not dataset.isprintable():
        raise InvalidValue("a dataset has a name", repr(dataset), "give it one")
    if unit not in UNITS:
        raise InvalidValue(f"the unit of privacy is one of {', '.join(UNITS)}", repr(unit), "choose one")
    if each is not None and not (each.epsilon <= budget.epsilon and each.delta <= budget.delta):
        raise InvalidValue("a single release spends no more than all", repr(each), "choose a smaller one")
    form = {
        "dataset": dataset,
        "budget": budget.to_json(),
        "unit": unit,
        "each": None if each is None else each.to_json(),
    }
    write_lines(resolved(path), with_line(b"", form)[0], new=True)
    return read_ledger(path)


def read_ledger(path: PathLike) -> Ledger:
    """Read a ledger and check its chain; what is not as it was written is refused."""
    return _read(existing_ledger(path))[1]


def check_ledger(path: PathLike, privacy: Privacy, unit: str, sample: str | None = None) -> None:
    """Refuse, before any work, what `reserve_budget` would refuse: it takes the lock, and tries to write."""
    with locked_ledger(path) as target:
        _read(target)[1].require(privacy, unit, sample)
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
        with locked_ledger(self._target) as target:
            data, ledger = _read(target)
            if not any(entry.hash == self.hash and entry.status == "reserved" for entry in ledger.entries):
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
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or self._settled:
            return
        if not self._drawn:
            with contextlib.suppress(DpsampleError):  # the first error counts; what cannot be cancelled is spent
                self.cancel()
        if not self._settled:
            error.add_note("its privacy is spent: it stays in the ledger")


def reserve_budget(path: PathLike, charge: Charge) -> Reservation:
    """Enter a release into a ledger, or refuse it; when this returns, it is on the disk, and spent."""
    with locked_ledger(path) as target:
        data, hash = _reserved(target, charge)
        write_lines(target, data)
        return Reservation(target, hash)


@dataclass(frozen=True)
class Match:
    """A release that is in a ledger: its file, and the number of its entry."""

    file: str
    number: int
    entry: Entry

    def to_json(self) -> dict[str, Any]:
        """Return the file, and what the ledger states of it."""
        return {"file": self.file, "entry": self.number, **self.entry.to_json()}

    def __str__(self) -> str:
        file = "the very file that was confirmed" if self.entry.sha256 else "the file itself was not entered"
        return f"{shown(self.file)} is entry {self.number}: {self.entry}; {file}"


def verify_releases(ledger: Ledger, releases: Iterable[PathLike], head: str | None = None) -> tuple[Match, ...]:
    """Check that releases are in a ledger with what they spent, and on what; refuse the first that is not.

    `head` is a hash that was noted down before; the ledger must still have that line.
    """
    if head is not None and head not in ledger.hashes:
        raise InvalidValue(
            "the ledger must have the line that was noted down", "no such line", "lines were cut off: restore a copy"
        )
    return tuple(_match(ledger, path) for path in releases)


def release_sha256(path: PathLike) -> tuple[Path, str]:
    """Return the file that carries a release's metadata, and its SHA-256, which covers the rows.

    This is the Parquet file itself, the .json beside a CSV or Arrow file, or the _dpsample.json of a folder; the latter
    two hold the SHA-256 of the files with the rows.
    """
    target = resolved(path)
    if target.is_dir():
        target = target / PARTS
    elif sidecar_of(target).is_file() and target.suffix.lower() != ".parquet":
        target = sidecar_of(target)
    with failures(target):
        return target, sha256_of(target)


def _match(ledger: Ledger, path: PathLike) -> Match:
    release = read_release(path)
    entries = {entry.hash: (number, entry) for number, entry in enumerate(ledger.entries, 1)}
    number, entry = entries.get(release.terms.ledger or "", (0, None))
    sha256 = release_sha256(path)[1]
    if entry is None:
        finding = "no such entry"
    elif differing := _differences(entry, release):
        finding = f"entry {number} with another {differing[0]}"
    elif entry.status == "cancelled":
        finding = f"entry {number}, which was cancelled"
    elif entry.sha256 not in (None, sha256):
        finding = f"entry {number} with another SHA-256 of the file"
    else:
        return Match(str(path), number, entry)
    raise InvalidValue(
        f"the release {str(path)!r} must be in the ledger of {ledger.dataset!r}, with what it spent",
        finding,
        "look for another ledger, for a copy of this one from before, or for the file that was written then",
    )


def _differences(entry: Entry, release: Release) -> list[str]:
    """Name what an entry states otherwise than the release; what it does not state is not compared."""
    charge, terms = entry.charge, release.terms
    scheme = scheme_form(terms.sampling)
    if terms.size is not None:  # tau was found after the reservation
        scheme = {name: scheme.get(name) for name in ("scheme", "power", "cap")} | {"size": terms.size.wanted}
    pairs = {
        "privacy": (charge.privacy, terms.privacy),
        "unit": (charge.unit, terms.unit),
        "key": (charge.keys, terms.keys),
        "contribution bound": (charge.max_keys, terms.max_keys),
        "scheme": (charge.scheme, scheme),
    }
    return [name for name, (entered, released) in pairs.items() if entered not in (None, released)]


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
            add_line(entries, line, unit)
        hashes = tuple(line.hash for line in lines)
        return data, Ledger(
            first["dataset"],
            budget,
            unit,
            each and Privacy.from_json(each),
            tuple(entries.values()),
            hashes[-1],
            hashes,
        )
    except (ValueError, LookupError, TypeError, AttributeError):  # InvalidValue is a ValueError
        pass
    raise damaged(target, number)


def _reserved(target: Path, charge: Charge) -> tuple[bytes, str]:
    """The lines of a ledger and one that reserves, and its hash; what the ledger does not allow is refused."""
    data, ledger = _read(target)
    ledger.require(charge.privacy, charge.unit, charge.sample)
    return with_line(data, {"kind": "reserve", **charge.to_json()})


def _composed_epsilon(each: Privacy, releases: int, budget: Privacy) -> Fraction:
    """The smallest epsilon, to three figures, proved for this number of releases with all of the budget's delta."""
    low, high = 0, 1000
    while high - low > 1:
        middle = (low + high) // 2
        if composed_delta(each, releases, budget.epsilon * middle / 1000) <= budget.delta:
            high = middle
        else:
            low = middle
    return budget.epsilon * high / 1000
