"""A ledger: a dataset's budget, and what each release has spent of it.

A ledger is a text file. Its first line states the dataset, the budget and whom it protects; each further line is one
release. Every line is JSON and names the SHA-256 of the line before it, so that no line can be changed, left out or
moved without all that follow it being written anew.

A line is added by writing the whole file anew beside the old one, bringing it to the disk, and giving it the old one's
name, under a lock: at every moment, whoever is killed, the file is the old ledger or the new one. So a torn line means
that somebody else damaged the file, and nothing more is spent until it is restored.

How much is spent is the sum of all epsilons and of all deltas. If the ledger says what any single release may spend at
most, so that this was fixed before anything was seen, it is that of as many releases of that size by the optimal
composition theorem, where this allows more.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from dpsample.accounting.budget import UNITS
from dpsample.accounting.composition import composed_delta, largest_count
from dpsample.errors import InvalidValue, SystemFailure
from dpsample.exact import text
from dpsample.files.atomic_file import Temporary
from dpsample.files.metadata import PathLike, canonical, failures, resolved, sha256_of
from dpsample.privacy import Privacy

_FORMAT = "dpsample ledger"
_VERSION = 1
_PATIENCE = 60.0  # seconds to wait for another process, which holds the lock for some milliseconds


@dataclass(frozen=True)
class Entry:
    """One release: what it spent, where it went, and when."""

    privacy: Privacy
    release: str
    time: str
    hash: str


@dataclass(frozen=True)
class Ledger:
    """A ledger as it was read: a checked chain of lines.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = new_ledger(f"{folder}/queries.ledger", "queries", Privacy(2, 1e-6))
    ...     entry = spend(f"{folder}/queries.ledger", Privacy(1, 1e-8), "element", "first.parquet")
    ...     print(read_ledger(f"{folder}/queries.ledger"))
    Ledger of 'queries': epsilon 2, delta 1e-06 for each element
      1  epsilon 1, delta 1e-08  first.parquet  ...
      spent: epsilon 1, delta 1e-08 (basic composition); left: epsilon 1, delta 9.9e-07
    """

    dataset: str
    budget: Privacy
    unit: str
    each: Privacy | None = None
    entries: tuple[Entry, ...] = ()
    head: str = field(default="", compare=False)
    _lines: bytes = field(default=b"", compare=False, repr=False)

    @property
    def hashes(self) -> list[str]:
        """The hashes of all lines, the head last; who keeps one elsewhere can tell that no line was cut off."""
        return [sha256_of(line) for line in self._lines.split(b"\n")[:-1]]

    @property
    def basic(self) -> tuple[Fraction, Fraction]:
        """The sums of all epsilons and of all deltas."""
        return (
            sum((entry.privacy.epsilon for entry in self.entries), Fraction(0)),
            sum((entry.privacy.delta for entry in self.entries), Fraction(0)),
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
        if self.each is not None and self.releases is not None and self.entries:
            found = _composed_epsilon(self.each, len(self.entries), self.budget)
            if found < epsilon or delta > self.budget.delta:
                return found, self.budget.delta, "optimal composition"
        return epsilon, delta, "basic composition"

    def require(self, privacy: Privacy, unit: str) -> None:
        """Refuse what the budget does not allow."""
        if unit != self.unit:
            raise InvalidValue(
                f"the ledger of {self.dataset!r} counts privacy of one {self.unit}",
                f"a release that protects one {unit}",
                "use another ledger, or protect whom this one does",
            )
        if self.each is not None and not (privacy.epsilon <= self.each.epsilon and privacy.delta <= self.each.delta):
            raise InvalidValue(
                f"a release of {self.dataset!r} may spend {_pair(self.each.epsilon, self.each.delta)} at most",
                _pair(privacy.epsilon, privacy.delta),
                "spend less",
            )
        epsilon, delta = self.basic
        if self.releases is not None:
            allowed = len(self.entries) < self.releases
            found = f"{len(self.entries)} releases of {self.releases} that it allows"
        else:
            allowed = epsilon + privacy.epsilon <= self.budget.epsilon and delta + privacy.delta <= self.budget.delta
            found = f"{_pair(epsilon, delta)} already spent, and {_pair(privacy.epsilon, privacy.delta)} asked for"
        if not allowed:
            raise InvalidValue(
                f"the releases of {self.dataset!r} may spend {_pair(self.budget.epsilon, self.budget.delta)} together",
                found,
                "spend less, or do without this release",
            )

    def to_json(self) -> dict[str, Any]:
        """Return what the ledger says, with its sums."""
        epsilon, delta, rule = self.spent
        return {
            "dataset": self.dataset,
            "budget": self.budget.to_json(),
            "unit": self.unit,
            "each": None if self.each is None else self.each.to_json(),
            "releases_allowed": self.releases,
            "entries": [
                {"privacy": e.privacy.to_json(), "release": e.release, "time": e.time, "hash": e.hash}
                for e in self.entries
            ],
            "spent": {"epsilon": text(epsilon), "delta": text(delta), "rule": rule},
            "head": self.head,
        }

    def __str__(self) -> str:
        lines = [f"Ledger of {self.dataset!r}: {_pair(self.budget.epsilon, self.budget.delta)} for each {self.unit}"]
        if self.each is not None:
            rule = f": {self.releases} releases in all" if self.releases is not None else ""
            lines.append(f"  at most {_pair(self.each.epsilon, self.each.delta)} for each release{rule}")
        lines += [
            f"  {n}  {_pair(e.privacy.epsilon, e.privacy.delta)}  {_shown(e.release)}  {_shown(e.time)}"
            for n, e in enumerate(self.entries, 1)
        ]
        epsilon, delta, rule = self.spent
        left = (
            _pair(self.budget.epsilon - epsilon, self.budget.delta - delta)
            if self.releases is None
            else f"{self.releases - len(self.entries)} releases"
        )
        return "\n".join([*lines, f"  spent: {_pair(epsilon, delta)} ({rule}); left: {left}"])


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
    said = {
        "format": _FORMAT,
        "version": _VERSION,
        "dataset": dataset,
        "budget": budget.to_json(),
        "unit": unit,
        "each": None if each is None else each.to_json(),
        "started": _now(),
    }
    target = resolved(path)
    with failures(target), Temporary(target, None) as file:
        file.write(canonical(said) + b"\n")
        file.seal()
        file.place(target, force=False)
    return read_ledger(path)


def read_ledger(path: PathLike) -> Ledger:
    """Read a ledger and check its chain; what is not as it was written is refused."""
    target = resolved(path)
    with failures(target):
        if not target.is_file():
            raise InvalidValue("a ledger must exist to be used", f"no file {str(target)!r}", "dpsample ledger new")
        return _parsed(target.read_bytes(), target)


def check_ledger(path: PathLike, privacy: Privacy, unit: str) -> None:
    """Refuse, before any work, what `spend` would refuse after it."""
    read_ledger(path).require(privacy, unit)
    folder = resolved(path).parent
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidValue("a ledger's folder must be writable", f"that {str(folder)!r} is not", "change that")


def spend(path: PathLike, privacy: Privacy, unit: str, release: str) -> Entry:
    """Add a release to a ledger, or refuse it; when this returns, it is on the disk and stays there."""
    with _locked(path) as target:
        ledger = _parsed(target.read_bytes(), target)
        ledger.require(privacy, unit)
        line = canonical({"previous": ledger.head, "spent": privacy.to_json(), "release": release, "time": _now()})
        with Temporary(target, target.stat().st_mode & 0o777) as file:
            file.write(ledger._lines + line + b"\n")
            file.seal()
            file.place(target, force=True)
    return _entry(line)


def _parsed(data: bytes, target: Path) -> Ledger:
    *lines, rest = data.split(b"\n")
    if rest or not lines:
        raise _damaged(target, len(lines) + 1, "a line that is cut off" if rest else "no line")
    number, head = 0, ""
    try:
        for line in lines:  # the chain first: what does not hold together is not even read
            number += 1
            if json.loads(line).get("previous", "") != head:
                raise ValueError
            head = sha256_of(line)
        first, number = json.loads(lines[0]), 1
        if first["format"] != _FORMAT or not isinstance(first["version"], int):
            raise ValueError
        if first["version"] > _VERSION:
            raise _Newer(first["version"])
        budget, each = Privacy.from_json(first["budget"]), first["each"]
        entries = tuple(map(_entry, lines[1:]))
        return Ledger(first["dataset"], budget, first["unit"], each and Privacy.from_json(each), entries, head, data)
    except _Newer as newer:
        raise InvalidValue(
            f"this dpsample reads version {_VERSION} of ledgers", f"version {newer}", "upgrade dpsample"
        ) from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):  # InvalidValue is a ValueError
        raise _damaged(target, number, "one that does not follow from the line before it") from None


class _Newer(Exception):  # noqa: N818
    """A ledger of a version that is not known yet."""


def _entry(line: bytes) -> Entry:
    form = json.loads(line)
    return Entry(Privacy.from_json(form["spent"]), str(form["release"]), str(form["time"]), sha256_of(line))


@contextlib.contextmanager
def _locked(path: PathLike) -> Iterator[Path]:
    """Hold the ledger's lock; a process that is killed lets go of it."""
    target = resolved(path)
    until = time.monotonic() + _PATIENCE
    while True:
        with failures(target):
            if not target.is_file():
                raise InvalidValue("a ledger must exist to be used", f"no file {str(target)!r}", "dpsample ledger new")
            file = open(target, "rb")  # noqa: SIM115 - closed below
        with file, failures(target):
            if _lock(file.fileno()) and os.path.samestat(os.stat(target), os.fstat(file.fileno())):
                yield target
                return
        if time.monotonic() > until:
            raise SystemFailure(
                "a ledger is written by one process at a time",
                f"{str(target)!r} locked by another for {_PATIENCE:g} seconds",
                "look for a process that hangs, and try again",
            )


def _lock(fd: int) -> bool:
    """Take a file's lock; False, after a moment, if somebody else has it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(0.002)
        return False
    return True


def _composed_epsilon(each: Privacy, releases: int, budget: Privacy) -> Fraction:
    """The smallest epsilon, to three figures, that is proved for so many releases with all of the budget's delta."""
    low, high = 0, 1000
    while high - low > 1:
        middle = (low + high) // 2
        if composed_delta(each, releases, budget.epsilon * middle / 1000) <= budget.delta:
            high = middle
        else:
            low = middle
    return budget.epsilon * high / 1000


def _damaged(target: Path, line: int, found: str) -> InvalidValue:
    return InvalidValue(
        f"{str(target)!r} must be a ledger as dpsample wrote it",
        f"{found}, at line {line}",
        "restore it from a copy; until then nothing is released with it",
    )


def _shown(value: str) -> str:
    """Text as it is, unless it could command a terminal."""
    return value if value.isprintable() else ascii(value)


def _pair(epsilon: Fraction, delta: Fraction) -> str:
    return f"epsilon {_short(epsilon)}, delta {_short(delta)}"


def _short(value: Fraction) -> str:
    shown = text(value)
    return shown if len(shown) < 12 else f"{float(value):.6g}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
