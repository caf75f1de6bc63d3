"""Jobs: what is done where the rows are. A release or a sample is drawn by kernels that are sent to the workers."""

import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain, groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from dpsample.answers.release import Release
from dpsample.errors import SystemFailure
from dpsample.files import (
    PathLike,
    Rows,
    atomic_folder,
    check_folder,
    check_not_input,
    check_output,
    check_room,
    commit_parts,
    rebatch,
    write_table,
)
from dpsample.files.metadata import release_sha256
from dpsample.private.charge import IN_MEMORY, Payment, reserve
from dpsample.private.checks import check_source
from dpsample.private.derived_coins import KeyedCoins, Secret
from dpsample.private.draw import drawn_release
from dpsample.private.drawing import Counting, Drawing, DrawnRelease, Written
from dpsample.private.engine.spark import Spark  # first: it says what to install
from dpsample.private.engine.spark.engine import LARGE, MESSAGES, messages, received, shaped
from dpsample.private.engine.spark.inline import sent_inline
from dpsample.private.progress import Progress
from dpsample.private.request import Request
from dpsample.private.sample import Sample
from dpsample.private.sanitizer import Sanitizer, picked_elements, sampled_batch
from dpsample.release.rows import ascends, checked_rows, drawn_columns, release_schema
from dpsample.release.terms import Terms

Batches = Iterator[pa.RecordBatch]
Kernel = Callable[[Batches], Batches]

_DRAFTS = "name string, rows bigint"
_PART = 1 << 20  # rows of a part, about
_CANDIDATES = 128  # keys, for each part, among which the first one of a part is chosen


def release_to_driver(request: Request, partitions: int | None = None) -> Release:
    """Carry out a request, and bring the release to the driver."""
    with _drawn_and_paid(request, IN_MEMORY, partitions) as (drawn, payment):
        return drawn.in_memory(payment)


def write_release_to(
    output: PathLike,
    request: Request,
    force: bool = False,
    partitions: int | None = None,
    folder: bool | None = None,
) -> Written:
    """Carry out a request: into a `folder`, by default if the output's name ends with a slash; else into a file."""
    folder = os.fspath(output).endswith("/") if folder is None else folder
    check_not_input(output, request.inputs())
    if folder:
        check_folder(output)
        check_room(output)
    else:
        check_output(output, force=force)
    request.options.sampling.to_json()  # refuses a scheme that cannot be written
    with _drawn_and_paid(request, os.fspath(output), partitions) as (drawn, payment):
        if not folder:
            return drawn.to_file(output, payment, force)
        terms = replace(drawn.terms, ledger=payment.hash)
        if isinstance(drawn, DrawnByWorkers):
            keys = drawn.job.release_to_folder(output, terms, payment)
        else:
            release = drawn.unconfirmed(payment)
            keys = len(release)
            _write_folder(output, release)
        payment.confirm(release_sha256(output)[1] if payment.hash else None)
        return Written(keys, terms, drawn.strategy)


@contextmanager
def _drawn_and_paid(
    request: Request, output: str, partitions: int | None
) -> Iterator[tuple[DrawnRelease, Payment]]:
    """What is drawn, and the reservation of its cost: workers write tokens as soon as they draw."""
    with Spark(partitions=partitions) as engine:
        keys = check_source(engine, request)
        secret = engine.new_coins()
        with reserve(request.options.ledger, request.charge(output)) as payment:
            drawing = Drawing(engine, request, keys, secret, Progress(), draw_keys)
            with drawn_release(drawing) as drawn:
                yield drawn, payment


@dataclass(frozen=True)
class DrawnByWorkers(DrawnRelease):
    """A release whose keys are drawn where the rows are; its rows come to the driver if they are asked for."""

    job: "Job" = field(kw_only=True)


def draw_keys(drawing: Drawing, counting: Counting, terms: Terms) -> DrawnByWorkers:
    """Sample and sanitize keys where the rows are."""
    assert isinstance(drawing.engine, Spark)
    assert isinstance(drawing.coins, Secret)
    job = Job(drawing.engine, counting, drawing.coins)
    schema = job.drawn_schema(terms)
    return DrawnByWorkers(terms, schema, job.reported(terms, schema), counting.strategy, job=job)


def _write_folder(folder: PathLike, release: Release) -> None:
    """Write a release that is on the driver as a folder, in parts."""
    terms, schema = release.terms, release.table.schema
    with atomic_folder(folder) as target:
        counts = {}
        for part, start in enumerate(range(0, len(release), _PART)):
            rows = release.table.slice(start, _PART)
            counts[_name(part)] = write_table(
                target / _name(part),
                Rows(rows.to_batches(), schema),
                {"format": "dpsample part", "version": 1},
                force=True,
            )
        commit_parts(target, counts, schema, terms.to_json(len(release)))


class Job:
    """One release, or one sample: what is counted, and a secret that is used for nothing else."""

    def __init__(self, engine: Spark, counting: Counting, secret: Secret) -> None:
        self.engine, self.counting, self.secret = engine, counting, secret
        self.source, self.sampling = counting.source, counting.sampling
        self.frame = engine.frame(counting.source)
        self.frequencies = counting.keys.append(pa.field("frequency", pa.int64()))
        if counting.known is not None:
            self.frequencies = self.frequencies.append(pa.field("known", pa.bool_()))

    def sample(self, max_keys: int | None = None) -> Sample:
        """Bring the sample to the driver; each user has kept `max_keys`, if users were bounded."""
        batches = self.engine.collected(self._messages(None), "sampling keys", self.source.columns)
        ordered = self.engine.sort(batches, self.frequencies, self.source.key)
        return Sample(
            pa.Table.from_batches(ordered, self.frequencies),
            self.sampling,
            self.source.key,
            max_keys,
        )

    def release(self, terms: Terms, payment: Payment) -> Release:
        """Bring the reported keys to the driver."""
        schema = self.drawn_schema(terms)
        table = pa.Table.from_batches(self.reported(terms, schema), schema)
        payment.mark_drawn()
        return Release(table, terms)

    def drawn_schema(self, terms: Terms) -> pa.Schema:
        """Return the columns of the reported keys as they are drawn."""
        return release_schema(drawn_columns(self.frame.schema, terms), terms)[0]

    def reported(self, terms: Terms, schema: pa.Schema) -> Batches:
        """Bring the reported keys to the driver, in the order of keys, once they are asked for."""
        stage = "counting and sanitizing keys"
        batches = self.engine.collected(self._messages(terms), stage, self.source.columns)
        yield from self.engine.sort(batches, schema, terms.keys)

    def release_to_folder(self, folder: PathLike, terms: Terms, payment: Payment) -> int:
        """Write the reported keys, in the order of keys, in parts; return their number.

        What goes into which part depends on the reported keys alone, as everything else that is written does: neither
        on their partitions, which may tell of keys that were not reported, nor on which worker was how fast.
        """
        engine = self.engine
        drawn, columns = release_schema(drawn_columns(self.frame.schema, terms), terms)
        with atomic_folder(folder) as target:
            draft = target / "reported"  # gone before the folder has its name
            draft.mkdir(0o700)  # drawn tokens, for their owner only
            drafts = self._counted().mapInArrow(self._draw(terms, str(draft)), _DRAFTS)
            try:
                drafted = engine.job(
                    "counting and sanitizing keys", self.source.columns, drafts.collect
                )
            except BaseException:
                _discard(draft, payment)
                raise
            payment.mark_drawn()
            if not all((draft / row[0]).exists() for row in drafted):
                raise SystemFailure(
                    "the driver does not see what workers wrote into the folder",
                    "choose a shared one",
                )
            rows = int(sum(row[1] for row in drafted))
            write = _write(str(target), drawn, columns, terms)
            if rows <= _PART:  # not worth a job
                ordered = engine.sort(
                    _drawn(draft, [row[0] for row in drafted]), drawn, self.source.key
                )
                parts = [
                    tuple(row.values())
                    for batch in write(_numbered(ordered))
                    for row in batch.to_pylist()
                ]
            else:
                reported = engine.session().createDataFrame(
                    [tuple(row) for row in drafted], _DRAFTS
                )
                parts = self._written(
                    reported.repartition(len(drafted)), str(draft), rows, write, terms
                )
            counts = {_name(part): count for part, count in sorted(parts)}
            if len(counts) < len(parts) or sum(counts.values()) != rows:
                raise SystemFailure(
                    "the number of keys that were written is not that of reported keys",
                    "run it again; nothing was written",
                )
            shutil.rmtree(draft)
            commit_parts(target, counts, columns, terms.to_json(rows))
        return rows

    def _written(
        self, reported: Any, draft: str, rows: int, write: Kernel, terms: Terms
    ) -> list[tuple[int, int]]:
        """Let the workers write the parts; return the number of rows of each."""
        frame, keys = self.frame, self.source.key
        pivots = self.engine.job(
            "dividing the release", keys, lambda: self._pivots(reported, draft, rows)
        )
        more = {} if terms.keys_only else {"token": "double"}
        place = _place(pivots, draft, frame.names)
        placed = reported.mapInArrow(place, frame.fields(**more, part="integer"))
        divided = placed.repartition(
            pivots.num_rows + 1, "part"
        )  # all of a part is in one partition
        ordered = divided.sortWithinPartitions("part", *frame.names)
        written = ordered.mapInArrow(write, "part int, rows bigint")
        parts = self.engine.job("writing the release", keys, written.collect)
        return [(row[0], row[1]) for row in parts]

    def _messages(self, terms: Terms | None) -> Any:
        """What is drawn, as a DataFrame of Arrow messages."""
        return self._counted().mapInArrow(self._draw(terms), MESSAGES)

    def _draw(self, terms: Terms | None, draft: str | None = None) -> Kernel:
        """Return what draws the sample, or with `terms` the reported keys with their tokens.

        These come in Arrow messages, or go to an Arrow file of each task's own in a folder, and then its name comes.
        """
        schema, sampling, secret = self.frequencies, self.sampling, self.secret
        samples = (
            self.counting.strategy == "aggregate"
            and not self.counting.sampled
            and self.counting.known is None
        )
        names = self.counting.keys.names
        columns = drawn_columns(self.frame.schema, terms) if terms else schema

        def sample_and_sanitize(batches: Batches) -> Batches:
            sanitizer = terms and _sanitizer(terms)

            def drawn() -> Batches:
                # in larger batches than Spark's: the sanitizer has a price for each
                for kept in rebatch((shaped(batch, schema) for batch in batches), schema):
                    if samples:
                        kept = sampled_batch(
                            kept, sampling, secret.for_keys(kept.select(names), "sample")
                        )
                    if sanitizer:
                        kept = sanitizer.batch(
                            kept, secret.for_keys(kept.select(names), "sanitize")
                        )
                    yield kept

            rows = rebatch(drawn(), columns)
            return messages(rows) if draft is None else _drafted(rows, draft, columns)

        return sent_inline(sample_and_sanitize)

    def _counted(self) -> Any:
        """The keys that were counted, all or picked ones: k0, k1, ..., frequency."""
        elements, sampling, secret, schema = (
            self.frame,
            self.sampling,
            self.secret,
            self.counting.keys,
        )
        if self.counting.counted is not None:
            return self.counting.counted
        if self.counting.known is not None:
            counted = elements.grouped(elements.rows())
            return self.engine.with_known(
                elements, counted, self.counting.known, self.counting.only_known
            )
        if self.counting.strategy != "two-pass":
            return elements.grouped(elements.rows(), once=self.counting.sampled)

        def pick_elements(batches: Batches) -> Batches:
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            for n, batch in enumerate(batches):
                rows = shaped(batch, schema)
                coins = secret.for_elements(rows, (context.partitionId(), n))
                yield batch.take(pa.array(picked_elements(rows, sampling, coins, secret)))

        # kept on the workers, not picked for each use; what is lost with a worker is picked again by the same coins
        keys = self.engine.keep(
            elements.rows().mapInArrow(sent_inline(pick_elements), elements.fields())
        )
        size = self.engine.job("picking elements", self.source.columns, keys.count, LARGE)
        return elements.grouped(elements.wanted(keys, size))

    def _pivots(self, reported: Any, draft: str, rows: int) -> pa.Table:
        """The first key of each part but the first: evenly spaced among keys that a public hash names."""
        schema = self.frame.schema
        parts = math.ceil(rows / _PART)
        limit = np.uint64(min(2**64 - 1, _CANDIDATES * parts * 2**64 // rows))

        def choose_candidates(batches: Batches) -> Batches:
            for batch in _reread(draft, batches):
                keys = batch.select(schema.names)
                hashes = KeyedCoins(bytes(32), keys, "part").first(keys.num_rows)
                yield from messages([keys.filter(pa.array(hashes < limit))])

        found = reported.mapInArrow(choose_candidates, MESSAGES).collect()
        ordered = self.engine.sort(received(found), schema, schema.names)
        candidates = pa.Table.from_batches(ordered, schema)
        evenly = np.unique(np.arange(1, parts) * candidates.num_rows // parts)
        chosen = evenly[evenly < candidates.num_rows]
        return candidates.take(pa.array(chosen)).combine_chunks()


def _discard(draft: Path, payment: Payment) -> None:
    """Remove what was drawn of a release that failed; what cannot be removed is paid for."""
    try:
        shutil.rmtree(draft)
    except OSError:
        payment.mark_drawn()


@lru_cache(maxsize=4)
def _sanitizer(terms: Terms) -> Sanitizer:
    """Make a sanitizer once in each worker process, not for each task."""
    return Sanitizer.of(terms)


def _drafted(batches: Batches, draft: str, columns: pa.Schema) -> Batches:
    """Write batches to a new file, and tell its name and rows: what another run of the task left is not named."""
    first = next(batches, None)
    if first is None:
        return
    name, rows = f"{uuid4().hex}.arrow", 0
    with pa.ipc.new_file(Path(draft, name), columns) as writer:
        for batch in chain([first], batches):
            writer.write_batch(batch)
            rows += batch.num_rows
    yield pa.record_batch({"name": [name], "rows": [rows]})


def _drawn(draft: PathLike, names: Iterable[str]) -> Batches:
    """Read what was drawn."""
    for name in names:
        with pa.memory_map(str(Path(draft, name))) as file:
            reader = pa.ipc.open_file(file)
            yield from map(reader.get_batch, range(reader.num_record_batches))


def _reread(draft: str, batches: Batches) -> Batches:
    """Read what was drawn, on a worker that got some of the names."""
    for batch in batches:
        yield from _drawn(draft, batch.column("name").to_pylist())


def _numbered(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Put all rows into the first part."""
    for batch in batches:
        yield batch.append_column("part", pa.array(np.zeros(batch.num_rows, np.int32)))


def _place(pivots: pa.Table, draft: str, names: list[str]) -> Kernel:
    """Return what appends the number of its part to each row: how many pivots are not above it."""
    firsts = [column.chunk(0) for column in pivots.columns] if pivots.num_rows else []

    def divide(batches: Batches) -> Batches:
        for batch in _reread(draft, batches):
            part = _pivots_not_above(batch.columns[: len(names)], firsts)
            others = batch.schema.names[len(names) :]
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, pa.array(part)], [*names, *others, "part"]
            )

    return divide


def _pivots_not_above(keys: list[pa.Array], pivots: list[pa.Array]) -> "np.ndarray[Any, Any]":
    """Return for each key how many pivots, which ascend, are not above it: a binary search of all keys at once."""
    number = len(pivots[0]) if pivots else 0
    low = np.zeros(len(keys[0]), np.int32)
    high = np.full(len(keys[0]), number, np.int32)
    while (low < high).any():
        middle = (low + high) // 2
        at = pa.array(
            np.minimum(middle, number - 1)
        )  # the last one is also taken where the search has ended
        below = ascends(keys, [pivot.take(at) for pivot in pivots]).to_numpy(False)
        below |= low == high
        low, high = np.where(below, low, middle + 1), np.where(below, middle, high)
    return low


def _write(folder: str, drawn: pa.Schema, columns: pa.Schema, terms: Terms) -> Kernel:
    """Return what writes rows that come in the order of parts and keys, and tells how many are in which part.

    A part that is written twice, by a task that is run again, is the same, and replaces the first one in one step.
    """

    def write_parts(batches: Batches) -> Batches:
        def pieces() -> Iterator[tuple[int, pa.RecordBatch]]:
            for batch in batches:
                part = batch.column("part").to_numpy()
                edges = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(part)]
                rows = shaped(batch.drop_columns(["part"]), drawn)
                for start, end in pairwise(edges):
                    yield int(part[start]), rows.slice(start, end - start)

        check = partial(checked_rows, terms=terms)
        for part, group in groupby(
            (piece for piece in pieces() if piece[1].num_rows), key=itemgetter(0)
        ):
            count = write_table(
                Path(folder, _name(part)),
                Rows((piece for _, piece in group), columns, drawn, check),
                {"format": "dpsample part", "version": 1},
                force=True,
            )
            yield pa.record_batch(
                {"part": pa.array([part], pa.int32()), "rows": pa.array([count], pa.int64())}
            )

    return write_parts


def _name(part: int) -> str:
    return f"part-{part:06d}.parquet"
