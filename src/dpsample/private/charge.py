"""Charge: what a release costs is reserved in its ledger before anything is drawn, and confirmed once it is written.

An error before anything that was drawn leaves the run cancels the reservation. A run that is killed cannot: what it had
reserved stays spent.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from os import PathLike
from typing import Protocol

from dpsample.interrupts import held
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


@contextmanager
def reserve(ledger: str | PathLike[str] | None, charge: Charge) -> Iterator[Payment]:
    """Reserve the cost of a release in its ledger, if there is one, for a block that draws and writes it.

    An error of the block, also Ctrl-C, gives the cost back unless rows have left the run.
    """
    if ledger is None:
        yield NoLedger()
        return
    with ExitStack() as stack:
        with held():  # what is reserved is given back, even if a signal comes just now
            reservation = stack.enter_context(reserve_budget(ledger, charge))
        yield reservation
