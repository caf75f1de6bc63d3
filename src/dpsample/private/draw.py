"""Draw: keys are counted, sampled and sanitized, with the coins of one release, on one machine.

Plan -> key, frequency -> (sample) -> key, token -> in the order of keys; the release has what follows from tokens
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from os import PathLike

import numpy as np
import pyarrow as pa

from dpsample.accounting.discovery import UserBudget
from dpsample.accounting.known import Known
from dpsample.answers.release import Release, write_release
from dpsample.files.metadata import release_sha256
from dpsample.private.assignment import Assigned
from dpsample.private.charge import Payment
from dpsample.private.derived_coins import Secret
from dpsample.private.engine import Engine
from dpsample.private.prepare import Counting, Plan, Written, prepare
from dpsample.private.progress import Progress
from dpsample.private.randomness import CoinSource
from dpsample.private.request import Request, Strategy
from dpsample.private.sanitizer import Sanitizer, picked_elements, sampled_batch
from dpsample.private.sources.source import Source
from dpsample.private.users.counts import count_users
from dpsample.release.kinds import KeysOnly
from dpsample.release.rows import counted, drawn_columns, summed
from dpsample.release.terms import Terms
from dpsample.scheme.reporting import frequency_reaching

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class DrawnRelease:
    """A release that is being drawn: its terms, its columns, and its rows in the order of keys."""

    terms: Terms
    schema: pa.Schema
    batches: Batches  # key, token; of counted users, key and all numbers
    strategy: Strategy = "aggregate"

    def in_memory(self, payment: Payment) -> Release:
        """Return all of it, paid for."""
        paid = self._paid(payment)
        release = Release(pa.Table.from_batches(paid.batches, paid.schema), paid.terms)
        payment.confirm()
        return release

    def to_file(
        self, output: str | PathLike[str], payment: Payment, force: bool = False, format: str | None = None
    ) -> Written:
        """Write all of it, paid for, to an atomic file."""
        paid = self._paid(payment)
        keys = write_release(output, paid.batches, paid.schema, paid.terms, force=force, format=format)
        payment.confirm(release_sha256(output)[1] if payment.hash else None)
        return Written(keys, paid.terms, self.strategy)

    def _paid(self, payment: Payment) -> "DrawnRelease":
        """Name the entry in the terms, when all was drawn: what comes now leaves the run."""
        first = next(self.batches, None)
        payment.mark_drawn()
        batches = self.batches if first is None else chain([first], self.batches)
        return replace(self, terms=replace(self.terms, ledger=payment.hash), batches=batches)


def draw_release(engine: Engine, request: Request, coins: CoinSource, progress: Progress | None = None) -> DrawnRelease:
    """Draw a release with these coins; nothing of it leaves the run yet."""
    progress = progress or Progress()
    plan = prepare(engine, request, coins, progress)
    try:
        return _draw_plan(engine, request, plan, coins, progress)
    finally:
        if plan.assigned is not None:  # its pairs are counted last
            engine.forget(plan.assigned.source)


def _draw_plan(engine: Engine, request: Request, plan: Plan, coins: CoinSource, progress: Progress) -> DrawnRelease:
    source, assigned = plan.counting.source, plan.assigned
    if plan.users is not None and plan.counting.only_known:
        nothing = plan.counting.keys.empty_table()
        progress.begin("counting users")
        return count_found(nothing, plan.terms, engine, request.source, plan.users, coins, known=plan.known)
    sampled = draw_sample(plan.counting, engine, coins, progress)
    if source is not request.source and (assigned is None or source is not assigned.source):
        sampled = then_forget(sampled, source, engine)
    drawn = sanitize_batches(sampled, plan.counting.keys, plan.terms, engine, coins)
    if plan.users is not None:
        found = pa.Table.from_batches(drawn.batches, drawn.schema)
        progress.begin("counting users")
        return count_found(found, plan.terms, engine, request.source, plan.users, coins, assigned, plan.known)
    return replace(drawn, strategy=plan.counting.strategy)


def count_found(
    found: pa.Table,
    terms: Terms,
    engine: Engine,
    source: Source,
    budget: UserBudget,
    coins: CoinSource,
    after: Assigned | None = None,
    known: pa.Table | None = None,
) -> DrawnRelease:
    """Count the users of keys that were discovered, which come in the order of keys, and of known ones; sum amounts."""
    least = frequency_reaching(0.5, terms.sampling, terms.per_key) or 1
    fewest, record = np.full(len(found), terms.sampling.least), None
    if known is not None:
        record = Known(known.num_rows, only=terms.discovery is not None and terms.discovery.method == "none")
        together = pa.concat_tables([found, known])
        together = together.append_column("known", pa.array(np.arange(len(together)) >= len(found)))
        found = pa.Table.from_batches(engine.sort(together.to_batches(), together.schema, terms.keys), together.schema)
        least, fewest = 1, np.where(found["known"].to_numpy(), 0, terms.sampling.least)
    measured = count_users(engine, source, found.select(list(terms.keys)), least, budget, coins, after)
    rows = counted(found, measured.values, measured.errors, fewest)
    for sums in measured.amounts:
        rows = summed(rows, sums.record, sums.values, sums.errors, measured.values, np.minimum(fewest, 1))
    assert isinstance(terms.kind, KeysOnly)
    terms = replace(terms, kind=terms.kind.counted(measured.counts), known=record)
    rows = rows.select(list(terms.columns))
    return DrawnRelease(terms, rows.schema, iter(rows.to_batches()))


def draw_sample(counting: Counting, engine: Engine, coins: CoinSource, progress: Progress) -> Batches:
    """A weighted sample: key, frequency."""
    source, sampling = counting.source, counting.sampling
    if counting.known is not None:
        joined = engine.aggregated(source, counting.known, counting.only_known)
        yield from progress.through("counting keys", joined)
        return
    if counting.strategy == "aggregate":
        counted = engine.aggregated(source) if counting.counted is None else counting.counted
        for batch in progress.through("counting keys", counted):
            yield sampled_batch(batch, sampling, coins.for_keys(batch.select(source.key), "sample"))
        return
    elements = progress.through("picking elements", engine.elements(source))
    gate = coins if isinstance(coins, Secret) else Secret()
    parts = [
        batch.take(pa.array(picked_elements(batch, sampling, coins.for_elements(batch, (0, n)), gate)))
        for n, batch in enumerate(elements)
    ]
    keys = pa.Table.from_batches(parts, counting.keys).group_by(list(source.key)).aggregate([])
    yield from progress.through("counting picked keys", engine.count(source, keys))


def then_forget(batches: Batches, bounded: Source, engine: Engine) -> Batches:
    """Let go of what users kept when it was read for the last time: an engine may go on to other releases."""
    yield from batches
    engine.forget(bounded)


def sanitize_batches(
    sampled: Batches, keys: pa.Schema, terms: Terms, engine: Engine, coins: CoinSource
) -> DrawnRelease:
    """Sanitize a sample, and put what is reported into the order of keys."""
    sanitizer, drawn = Sanitizer.of(terms), drawn_columns(keys, terms)
    reported = (sanitizer.batch(batch, coins.for_keys(batch.select(keys.names), "sanitize")) for batch in sampled)
    return DrawnRelease(terms, drawn, engine.sort(reported, drawn, terms.keys))
