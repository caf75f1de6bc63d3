"""Charge: what a release costs is reserved in its ledger before anything is drawn, and confirmed once it is written.

An error before anything that was drawn leaves the run cancels the reservation. A run that is killed cannot: what it had
reserved stays spent.
"""

from contextlib import AbstractContextManager
from os import PathLike
from typing import Protocol

from dpsample.ledger.charges import Charge
from dpsample.ledger.ledger import reserve_budget

# what a ledger names as the output of a release that the run itself does not write
IN_MEMORY = "(in memory)"


class Payment(Protocol):
    """The payment of one release: a reservation in a ledger, or `NoLedger`."""

    @property
    def hash(self) -> str | None:
        """The hash of the ledger's entry, which the terms of the release name; None without a ledger."""

    def mark_drawn(self) -> None:
        """Note that what was drawn is about to leave the run: from now on its cost cannot be given back."""

    def confirm(self, sha256: str | None = None) -> None:
        """Enter that the release exists, with the hash of its file."""


class NoLedger:
    """The payment of a release without a ledger."""

    hash = None

    def mark_drawn(self) -> None:  # noqa: D102
        pass

    def confirm(self, sha256: str | None = None) -> None:  # noqa: D102
        pass

    def __enter__(self) -> "NoLedger":
        return self

    def __exit__(self, *error: object) -> None:
        pass


def reserve(ledger: str | PathLike[str] | None, charge: Charge) -> AbstractContextManager[Payment]:
    """Reserve the cost of a release in its ledger, if there is one, for a block that draws and writes it."""
    return NoLedger() if ledger is None else reserve_budget(ledger, charge)
