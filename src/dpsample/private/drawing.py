"""Drawing: a release while it is drawn, and what has been drawn of it.

Each way to make a release is a function from a `Drawing` to a `DrawnRelease`: `elements`, `bounded`, `users.walk`. How
keys are sampled and sanitized is the same for all of them, and differs by where it happens: `draw.draw_keys` does it in
this process, and `engine.spark.jobs` where the rows are.
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
    """What is counted, and how keys are sampled from it."""

    source: Source  # the elements, or a key for each user who keeps it
    keys: pa.Schema
    sampling: Sampling
    strategy: Strategy = "aggregate"
    counted: Any = None  # all keys with their frequencies, where the engine has put them aside
    sampled: bool = False  # whether the rows are a sample already
    known: pa.Table | None = None  # keys of a public list, each of which is drawn
    only_known: bool = False


@dataclass(frozen=True)
class Written:
    """What a run has written: the number of keys, their terms, and how the sample was drawn."""

    keys: int
    terms: Terms
    strategy: Strategy


@dataclass(frozen=True)
class DrawnRelease:
    """A release that is being drawn: its terms, its columns, and its rows in the order of keys."""

    terms: Terms
    schema: pa.Schema
    batches: Batches  # key, token; of counted users, key and all numbers
    strategy: Strategy = "aggregate"

    def table(self) -> pa.Table:
        """Draw all rows."""
        return pa.Table.from_batches(self.batches, self.schema)

    def unconfirmed(self, payment: Payment) -> Release:
        """Return all of it, of which the ledger does not know yet that it exists."""
        paid = self._paid(payment)
        return Release(paid.table(), paid.terms)

    def in_memory(self, payment: Payment) -> Release:
        """Return all of it, paid for."""
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
        """Write all of it, paid for, to an atomic file."""
        paid = self._paid(payment)
        keys = write_release(
            output, paid.batches, paid.schema, paid.terms, force=force, format=format
        )
        payment.confirm(release_sha256(output)[1] if payment.hash else None)
        return Written(keys, paid.terms, self.strategy)

    def _paid(self, payment: Payment) -> "DrawnRelease":
        """Name the entry in the terms, when all was drawn: what comes now leaves the run."""
        first = next(self.batches, None)
        payment.mark_drawn()
        batches = self.batches if first is None else chain([first], self.batches)
        return replace(self, terms=replace(self.terms, ledger=payment.hash), batches=batches)


DrawKeys = Callable[["Drawing", Counting, Terms], DrawnRelease]


@dataclass(frozen=True)
class Drawing:
    """A release while it is drawn: what was requested, and with which engine and coins it is made.

    What the engine keeps aside for it, `kept`, is forgotten after the release was written.
    """

    engine: Engine
    request: Request
    keys: pa.Schema  # names and types of the key columns
    coins: CoinSource
    progress: Progress
    draw_keys: DrawKeys  # samples and sanitizes keys, in this process or where the rows are
    kept: list[Source] = field(default_factory=list)

    @cached_property
    def known(self) -> pa.Table | None:
        """The keys of a public list, if there is one."""
        return None if self.request.known is None else self.request.known.table(self.keys)

    @property
    def only_known(self) -> bool:
        """Whether there are no keys outside of the list."""
        return self.request.known is not None and self.request.known.only

    def keep(self, source: Source) -> Source:
        """Let the engine keep a source, such as the keys that users kept, until the release was written."""
        self.kept.append(source)
        return source

    def forget(self, source: Source) -> None:
        """Let the engine forget a source, with its temporary files, which is not read again."""
        self.kept.remove(source)
        self.engine.forget(source)
