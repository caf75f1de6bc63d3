"""Drawing: a release while it is drawn, and what has been drawn of it.

Each walk is a function from a `Drawing` to a `DrawnRelease`: `elements`, `bounded`, `users.walk`. Keys are sampled and
sanitized in the same way for all of them, but not in the same place: by `draw.draw_keys` in this process, and by
`engine.spark.jobs` where the rows are.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from os import PathLike
from typing import Any

import pyarrow as pa

from dpsample.answers.release import Release, write_release
from dpsample.files.metadata import release_sha256
from dpsample.files.reading import metadata_of
from dpsample.interrupts import held
from dpsample.private.charge import Payment
from dpsample.private.engine import Engine
from dpsample.private.progress import Progress
from dpsample.private.randomness import CoinSource
from dpsample.private.request import Request
from dpsample.private.sources.source import Source
from dpsample.release.options import Strategy
from dpsample.release.terms import Terms
from dpsample.scheme.sampling import Sampling

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Counting:
    """A source whose keys are to be counted, and how they are sampled.

    source      the elements, or a row for each user and key that the user keeps
    keys        names and types of the key columns
    counted     all keys with their frequencies, if the engine has put them aside already
    sampled     whether the rows are a sample already
    known       keys of a public list: none of them is left out
    only_known  whether keys outside of the list are left out
    """

    source: Source
    keys: pa.Schema
    sampling: Sampling
    strategy: Strategy = "aggregate"
    counted: Any = None
    sampled: bool = False
    known: pa.Table | None = None
    only_known: bool = False


@dataclass(frozen=True)
class Written:
    """A release that a run has written: the number of its keys, its terms, and how its sample was drawn."""

    keys: int
    terms: Terms
    strategy: Strategy


@dataclass(frozen=True)
class DrawnRelease:
    """A release that is being drawn: its terms, its columns, and its rows in the order of keys.

    `batches` have keys and tokens; for counted users, keys and all numbers. They are drawn when they are read.
    """

    terms: Terms
    schema: pa.Schema
    batches: Batches
    strategy: Strategy = "aggregate"

    def table(self) -> pa.Table:
        """Draw all rows."""
        return pa.Table.from_batches(self.batches, self.schema)

    def unconfirmed(self, payment: Payment) -> Release:
        """Return the release, paid for; the ledger is not told yet that it exists."""
        paid = self._paid(payment)
        return Release(paid.table(), paid.terms)

    def in_memory(self, payment: Payment) -> Release:
        """Return the release, paid for and confirmed in the ledger."""
        release = self.unconfirmed(payment)
        payment.confirm()
        return release

    def to_file(
        self,
        output: str | PathLike[str],
        payment: Payment,
        force: bool = False,
        format: str | None = None,
    ) -> Written:
        """Write the release to an atomic file, paid for and confirmed with the hash of that file."""
        paid = self._paid(payment)
        try:
            keys = write_release(
                output, paid.batches, paid.schema, paid.terms, force=force, format=format
            )
        except KeyboardInterrupt:
            if _is_there(output, payment):  # it got its name before the signal was handled
                _confirm_file(output, payment)
            raise
        _confirm_file(output, payment)
        return Written(keys, paid.terms, self.strategy)

    def _paid(self, payment: Payment) -> "DrawnRelease":
        """Name the ledger's entry in the terms, and note that rows leave the run: the cost cannot be given back.

        Rows are in the order of keys, so all of them have been drawn once the first batch is there. An error until
        then costs nothing.
        """
        first = next(self.batches, None)
        payment.mark_drawn()
        batches = self.batches if first is None else chain([first], self.batches)
        terms = replace(self.terms, ledger=payment.hash)
        return replace(self, terms=terms, batches=batches)


def _confirm_file(output: str | PathLike[str], payment: Payment) -> None:
    """Enter that the release was written, with the hash of its file; without a ledger nobody needs the hash."""
    with held():
        if payment.hash is None:
            payment.confirm()
        else:
            _, sha256 = release_sha256(output)
            payment.confirm(sha256)


def _is_there(output: str | PathLike[str], payment: Payment) -> bool:
    """Return whether the file has the release that this payment is for; without a ledger it need not be known."""
    if payment.hash is None:
        return False
    metadata = metadata_of(output) or {}
    return metadata.get("ledger") == payment.hash


DrawKeys = Callable[["Drawing", Counting, Terms], DrawnRelease]


@dataclass(frozen=True)
class Drawing:
    """A release while it is drawn: its request, and the engine and the coins by which it is made.

    keys       names and types of the key columns
    coins      all coins of this release: no other release draws from them
    draw_keys  samples and sanitizes keys, in this process or where the rows are
    kept       sources that the engine keeps aside until the release was written; private
    """

    engine: Engine
    request: Request
    keys: pa.Schema
    coins: CoinSource
    progress: Progress
    draw_keys: DrawKeys
    kept: list[Source] = field(default_factory=list)

    @cached_property
    def known(self) -> pa.Table | None:
        """The keys of the public list, with the types of the source's; None if there is no list."""
        listed = self.request.known
        return None if listed is None else listed.table(self.keys)

    @property
    def only_known(self) -> bool:
        """Whether keys outside of the public list are left out."""
        listed = self.request.known
        return listed is not None and listed.only

    def keep(self, source: Source) -> Source:
        """Let the engine keep a source, such as the keys that users kept, until the release was written."""
        self.kept.append(source)
        return source

    def forget(self, source: Source) -> None:
        """Let the engine forget a source that is not read again, with its temporary files."""
        self.kept.remove(source)
        self.engine.forget(source)
