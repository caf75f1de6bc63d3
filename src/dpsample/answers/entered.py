"""Whether releases are entered in a ledger: with what they spent, and on what."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dpsample.answers.release import Release, read_release
from dpsample.errors import InvalidValue
from dpsample.files.metadata import PathLike, release_sha256
from dpsample.ledger.balance import Ledger
from dpsample.ledger.charges import Entry, scheme_form, shown


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
        file = (
            "the very file that was confirmed"
            if self.entry.sha256
            else "the file itself was not entered"
        )
        return f"{shown(self.file)} is entry {self.number}: {self.entry}; {file}"


def verify_releases(
    ledger: Ledger, releases: Iterable[PathLike], head: str | None = None
) -> tuple[Match, ...]:
    """Check that releases are in a ledger with what they spent, and on what; refuse the first that is not.

    `head` is a hash that was noted down before; the ledger must still have that line.
    """
    if head is not None and head not in ledger.hashes:
        raise InvalidValue(
            "the ledger must have the line that was noted down, and does not: lines were cut off",
            "restore a copy",
        )
    return tuple(_match(ledger, path) for path in releases)


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
        f"the release {str(path)!r} must be in the ledger of {ledger.dataset!r}, with what it spent; there is "
        f"{finding}",
        "look for another ledger, for a copy of this one from before, or for the file that was written then",
    )


def _differences(entry: Entry, release: Release) -> list[str]:
    """Name what an entry states otherwise than the release; what it does not state is not compared."""
    charge, terms = entry.charge, release.terms
    scheme = scheme_form(terms.sampling)
    if terms.bought.size is not None:  # tau was found after the reservation
        scheme = {name: scheme.get(name) for name in ("scheme", "power", "cap")} | {
            "size": terms.bought.size.wanted
        }
    pairs = {
        "privacy": (charge.privacy, terms.privacy),
        "unit": (charge.unit, terms.unit),
        "key": (charge.keys, terms.keys),
        "contribution bound": (charge.max_keys, terms.max_keys),
        "scheme": (charge.scheme, scheme),
    }
    differing = [
        name for name, (entered, released) in pairs.items() if entered not in (None, released)
    ]
    return [
        *differing,
        *(["part"] if charge.part != terms.part else []),
    ]  # what states no part is of all of them
