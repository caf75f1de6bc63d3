"""Earlier runs of the same release, as its ledger knows them: for jobs that are repeated until they succeed.

A run may have been killed at any moment. What its ledger and its output then show, and what is done about it:

    the output is there, and its entry is confirmed      nothing is left to do
    the output is there, and its entry is reserved       it was complete when the run was killed: the entry is confirmed
    there is no output, and an entry is reserved         what it reserved stays spent, and the release is made anew

Nothing here reads the data: an output is recognized by the hash and the terms that the ledger has.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from os import PathLike, fspath

from dpsample.answers.release import Release, read_release
from dpsample.errors import OutputExists
from dpsample.files.metadata import release_sha256, resolved
from dpsample.ledger.charges import Charge, Entry
from dpsample.ledger.ledger import Reservation, read_ledger
from dpsample.private.request import Request

_Path = str | PathLike[str]
_COMPARED = (
    "privacy",
    "unit",
    "keys",
    "user",
    "max_keys",
    "scheme",
    "part",
    "source",
)  # of a `Charge`


@dataclass(frozen=True)
class EarlierRun:
    """An earlier run of a release, and the number of its entry in the ledger.

    `confirmed_now` says that the run was killed before it confirmed its entry, which this one did instead.
    """

    number: int
    entry: Entry
    confirmed_now: bool = False


def made_before(request: Request, ledger: _Path, output: _Path) -> EarlierRun | None:
    """Return the run that made this release, if its output is there; the request itself names no ledger.

    An output that is not this release, by its hash, its terms and the ledger, is refused.
    """
    if not os.path.lexists(output):
        return None
    release = read_release(output)
    sha256 = release_sha256(output)[1]
    charge = request.charge(fspath(output))
    for number, entry in enumerate(read_ledger(ledger).entries, 1):
        if entry.hash != release.terms.ledger:
            continue
        different = [*_other_charge(entry.charge, charge), *_other_terms(release, request)]
        if different:
            raise _another_release(output, f"it has another {different[0]}")
        if entry.status == "confirmed" and entry.sha256 == sha256:
            return EarlierRun(number, entry)
        if entry.status == "reserved":
            Reservation(resolved(ledger), entry.hash).confirm(sha256)
            confirmed = replace(entry, status="confirmed", sha256=sha256)
            return EarlierRun(number, confirmed, confirmed_now=True)
        raise _another_release(output, "its entry was cancelled, or has another hash of the file")
    raise _another_release(output, "the ledger does not have its entry")


def lost_before(request: Request, ledger: _Path, output: _Path) -> list[EarlierRun]:
    """Return runs of this release that reserved its cost, and did not confirm it: killed, or still under way."""
    charge = request.charge(fspath(output))
    runs = []
    for number, entry in enumerate(read_ledger(ledger).entries, 1):
        same_output = os.path.basename(entry.charge.release) == os.path.basename(charge.release)
        same_release = same_output and not list(_other_charge(entry.charge, charge))
        if same_release and entry.status == "reserved":
            runs.append(EarlierRun(number, entry))
    return runs


def _other_charge(entered: Charge, charge: Charge) -> Iterator[str]:
    """Name what an entry states otherwise than this charge."""
    for name in _COMPARED:
        if getattr(entered, name) != getattr(charge, name):
            yield name.replace("_", " ")


def _other_terms(release: Release, request: Request) -> Iterator[str]:
    """Name what a release states otherwise than the request, of what its entry in the ledger does not state."""
    terms = release.terms
    options = request.options
    only_known = request.known is not None and request.known.only
    pairs = {
        "choice of keys only": (terms.keys_only, options.keys_only),
        "list of sums": (terms.amounts, options.amounts),
        "total": (terms.bought.total is not None, bool(options.total_share)),
        "list of known keys": (terms.known is not None, request.known is not None),
        "choice of known keys only": (terms.known is not None and terms.known.only, only_known),
    }
    if options.grid is not None:
        pairs["grid"] = (terms.grid, options.grid)
    for name, (released, requested) in pairs.items():
        if released != requested:
            yield name


def _another_release(output: _Path, difference: str) -> OutputExists:
    return OutputExists(
        f"the output {fspath(output)!r} exists already, and is another release than was asked for: {difference}",
        "choose another name, or move it away",
    )
