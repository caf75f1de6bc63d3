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
        file = "the file itself was not entered"
        if self.entry.sha256:
            file = "the very file that was confirmed"
        return f"{shown(self.file)} is entry {self.number}: {self.entry}; {file}"


def verify_releases(
    ledger: Ledger, releases: Iterable[PathLike], head: str | None = None
) -> tuple[Match, ...]:
    """Check that releases are in a ledger with what they spent, and on what; refuse the first that is not.

    `head` is a hash that was noted down before; the ledger must still have that line.
    """
    if head is not None and head not in ledger.hashes:
        raise InvalidValue(
            "no line of the ledger has the hash that was noted down, so lines were cut off",
            "restore a copy",
        )
    return tuple(_match(ledger, path) for path in releases)


def _match(ledger: Ledger, path: PathLike) -> Match:
    """Return the entry of a release; refuse one that has none, or another one than the release states."""
    release = read_release(path)
    sha256 = release_sha256(path)[1]
    of_dataset = f"the ledger of {ledger.dataset!r}"
    found = _entry_of(ledger, release)
    if found is None:
        raise _refused(f"the release {str(path)!r} has no entry in {of_dataset}")
    number, entry = found
    differing = _differences(entry, release)
    if differing:
        raise _refused(
            f"entry {number} in {of_dataset} has another {differing[0]} than the release {str(path)!r}"
        )
    if entry.status == "cancelled":
        raise _refused(
            f"entry {number} in {of_dataset}, which the release {str(path)!r} names, was cancelled"
        )
    if entry.sha256 not in (None, sha256):
        raise _refused(
            f"entry {number} in {of_dataset} has another SHA-256 than the file {str(path)!r}"
        )
    return Match(str(path), number, entry)


def _entry_of(ledger: Ledger, release: Release) -> tuple[int, Entry] | None:
    """Find the entry that a release names, and its number."""
    for number, entry in enumerate(ledger.entries, 1):
        if entry.hash == release.terms.ledger:
            return number, entry
    return None


def _refused(problem: str) -> InvalidValue:
    return InvalidValue(
        problem,
        "look for another ledger, for an earlier copy of this one, or for the file that was written then",
    )


def _differences(entry: Entry, release: Release) -> list[str]:
    """Name what an entry states otherwise than the release; what it does not state is not compared, except the part."""
    charge, terms = entry.charge, release.terms
    scheme = scheme_form(terms.sampling)
    if terms.bought.size is not None:
        # tau was found after the reservation, which states the size instead
        scheme = {name: scheme.get(name) for name in ("scheme", "power", "cap")}
        scheme["size"] = terms.bought.size.wanted
    entered_and_released = {
        "privacy": (charge.privacy, terms.privacy),
        "unit": (charge.unit, terms.unit),
        "key": (charge.keys, terms.keys),
        "contribution bound": (charge.max_keys, terms.max_keys),
        "scheme": (charge.scheme, scheme),
    }
    differing = []
    for name, (entered, released) in entered_and_released.items():
        if entered is not None and entered != released:
            differing.append(name)
    # an entry that states no part is of all of them
    if charge.part != terms.part:
        differing.append("part")
    return differing
