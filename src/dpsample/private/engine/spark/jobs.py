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
from typing import Any, Final
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
from dpsample.private.engine.columns import counted_schema, shaped
from dpsample.private.engine.spark import Spark  # first: it says what to install
from dpsample.private.engine.spark.engine import LARGE, MESSAGES, messages, received
from dpsample.private.engine.spark.inline import sent_inline
from dpsample.private.progress import Progress
from dpsample.private.request import Request
from dpsample.private.sample import Sample
from dpsample.private.sanitizer import Sanitizer, picked_elements, sampled_batch
from dpsample.release.rows import ascends, checked_rows, drawn_columns, release_schema
from dpsample.release.terms import Terms

Batches = Iterator[pa.RecordBatch]
Kernel = Callable[[Batches], Batches]

_DRAFTS = "name string, rows bigint"  # files of drawn tokens, as Spark describes them
_DRAWING = "counting and sanitizing keys"  # what Spark's pages call the job that draws
# Rows of a part of a folder, about.
_PART = 1 << 20
# Keys, for each part, among which the first one of a part is chosen: with more, parts are of more equal size.
_CANDIDATES = 128
_WRITTEN: Final = pa.schema([("part", pa.int32()), ("rows", pa.int64())])
_PART_METADATA: Final = {"format": "dpsample part", "version": 1}


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
        return _to_folder(output, drawn, payment)


def _to_folder(output: PathLike, drawn: DrawnRelease, payment: Payment) -> Written:
    """Write what is drawn into a folder, and confirm that it was paid for."""
    terms = replace(drawn.terms, ledger=payment.hash)
    if isinstance(drawn, DrawnByWorkers):
        keys = drawn.job.release_to_folder(output, terms, payment)
    else:
        release = drawn.unconfirmed(payment)
        keys = len(release)
        _write_folder(output, release)
    hash_of_release = None
    if payment.hash:
        _, hash_of_release = release_sha256(output)
    payment.confirm(hash_of_release)
    return Written(keys, terms, drawn.strategy)


@contextmanager
def _drawn_and_paid(
    request: Request, output: str, partitions: int | None
) -> Iterator[tuple[DrawnRelease, Payment]]:
    """Open the release that a request draws, with the reservation of its cost: workers write tokens as they draw."""
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
        counts = dict[str, int]()
        for part, start in enumerate(range(0, len(release), _PART)):
            name = _name(part)
            rows = Rows(release.table.slice(start, _PART).to_batches(), schema)
            path = target / name
            counts[name] = write_table(path, rows, _PART_METADATA, force=True)
        commit_parts(target, counts, schema, terms.to_json(len(release)))


class Job:
    """One release, or one sample: what is counted, and a secret that is used for nothing else."""

    def __init__(self, engine: Spark, counting: Counting, secret: Secret) -> None:
        self.engine = engine
        self.counting = counting
        self.secret = secret
        self.source = counting.source
        self.sampling = counting.sampling
        self.frame = engine.frame(counting.source)
        self.frequencies = counted_schema(counting.keys, known=counting.known is not None)

    def sample(self, max_keys: int | None = None) -> Sample:
        """Bring the sample to the driver; each user has kept `max_keys`, if users were bounded."""
        engine = self.engine
        schema = self.frequencies
        batches = engine.collected(self._messages(None), "sampling keys", self.source.columns)
        ordered = engine.sort(batches, schema, self.source.key)
        table = pa.Table.from_batches(ordered, schema)
        return Sample(table, self.sampling, self.source.key, max_keys)

    def release(self, terms: Terms, payment: Payment) -> Release:
        """Bring the reported keys to the driver."""
        schema = self.drawn_schema(terms)
        table = pa.Table.from_batches(self.reported(terms, schema), schema)
        payment.mark_drawn()
        return Release(table, terms)

    def drawn_schema(self, terms: Terms) -> pa.Schema:
        """Return the columns of the reported keys as they are drawn."""
        drawn, _ = release_schema(drawn_columns(self.frame.schema, terms), terms)
        return drawn

    def reported(self, terms: Terms, schema: pa.Schema) -> Batches:
        """Bring the reported keys to the driver, in the order of keys, once they are asked for."""
        batches = self.engine.collected(self._messages(terms), _DRAWING, self.source.columns)
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
                drafted = engine.job(_DRAWING, self.source.columns, drafts.collect)
            except BaseException:
                _discard(draft, payment)
                raise
            payment.mark_drawn()
            files = [(row[0], row[1]) for row in drafted]
            _require_shared(draft, files)
            rows = int(sum(count for _, count in files))
            write = _write(str(target), drawn, columns, terms)
            if rows <= _PART:  # not worth a job
                tokens = _drawn(draft, [name for name, _ in files])
                ordered = engine.sort(tokens, drawn, self.source.key)
                parts = _parts_of(write(_numbered(ordered)))
            else:
                reported = engine.session().createDataFrame(files, _DRAFTS)
                divided = reported.repartition(len(files))
                parts = self._written(divided, str(draft), rows, write, terms)
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
        """Let the workers write the parts; return the number of rows of each.

        `reported` is a DataFrame of the files in the folder `draft`, which have all `rows`.
        """
        frame = self.frame
        keys = self.source.key
        pivots = self.engine.job(
            "dividing the release", keys, lambda: self._pivots(reported, draft, rows)
        )
        more = {} if terms.keys_only else {"token": "double"}
        place = _place(pivots, draft, frame.names)
        placed = reported.mapInArrow(place, frame.fields(**more, part="integer"))
        # all of a part is in one partition
        divided = placed.repartition(pivots.num_rows + 1, "part")
        ordered = divided.sortWithinPartitions("part", *frame.names)
        written = ordered.mapInArrow(write, "part int, rows bigint")
        parts = self.engine.job("writing the release", keys, written.collect)
        return [(row[0], row[1]) for row in parts]

    def _messages(self, terms: Terms | None) -> Any:
        """Return the sample, or with `terms` the reported keys, as a DataFrame of Arrow messages."""
        return self._counted().mapInArrow(self._draw(terms), MESSAGES)

    def _draw(self, terms: Terms | None, draft: str | None = None) -> Kernel:
        """Return what draws the sample, or with `terms` the reported keys with their tokens.

        These come in Arrow messages, or go to an Arrow file of each task's own in a folder, and then its name comes.
        """
        # a job is sent to workers without this object, which has the engine
        schema = self.frequencies
        sampling = self.sampling
        secret = self.secret
        counting = self.counting
        is_sampled = counting.sampled or counting.strategy != "aggregate"
        samples = counting.known is None and not is_sampled
        names = counting.keys.names
        columns = drawn_columns(self.frame.schema, terms) if terms else schema

        def sample_and_sanitize(batches: Batches) -> Batches:
            sanitizer = _sanitizer(terms) if terms else None

            def drawn() -> Batches:
                counted = (shaped(batch, schema) for batch in batches)
                # in larger batches than Spark's: the sanitizer has a price for each
                for kept in rebatch(counted, schema):
                    if samples:
                        coins = secret.for_keys(kept.select(names), "sample")
                        kept = sampled_batch(kept, sampling, coins)
                    if sanitizer is not None:
                        coins = secret.for_keys(kept.select(names), "sanitize")
                        kept = sanitizer.batch(kept, coins)
                    yield kept

            rows = rebatch(drawn(), columns)
            return messages(rows) if draft is None else _drafted(rows, draft, columns)

        return sent_inline(sample_and_sanitize)

    def _counted(self) -> Any:
        """The keys that were counted, all or picked ones: k0, k1, ..., frequency."""
        counting = self.counting
        elements = self.frame
        if counting.counted is not None:
            return counting.counted
        if counting.known is not None:
            counted = elements.grouped(elements.rows())
            return self.engine.with_known(elements, counted, counting.known, counting.only_known)
        if counting.strategy != "two-pass":
            return elements.grouped(elements.rows(), once=counting.sampled)
        # kept on the workers, not picked for each use; what is lost with a worker is picked again by the same coins
        keys = self.engine.keep(self._picked())
        size = self.engine.job("picking elements", self.source.columns, keys.count, LARGE)
        return elements.grouped(elements.wanted(keys, size))

    def _picked(self) -> Any:
        """The keys of the elements that coins pick: k0, k1, ..., of which some may be there more than once."""
        sampling = self.sampling
        secret = self.secret
        schema = self.counting.keys

        def pick_elements(batches: Batches) -> Batches:
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            for number, batch in enumerate(batches):
                rows = shaped(batch, schema)
                coins = secret.for_elements(rows, (context.partitionId(), number))
                picked = picked_elements(rows, sampling, coins, secret)
                yield batch.take(pa.array(picked))

        elements = self.frame
        return elements.rows().mapInArrow(sent_inline(pick_elements), elements.fields())

    def _pivots(self, reported: Any, draft: str, rows: int) -> pa.Table:
        """Return the first key of each part but the first: evenly spaced among keys that a public hash chooses."""
        schema = self.frame.schema
        parts = math.ceil(rows / _PART)
        # keys with smaller hashes are candidates, about _CANDIDATES for each part
        limit = np.uint64(min(2**64 - 1, _CANDIDATES * parts * 2**64 // rows))

        def choose_candidates(batches: Batches) -> Batches:
            for batch in _reread(draft, batches):
                keys = batch.select(schema.names)
                hashes = KeyedCoins(bytes(32), keys, "part").first(keys.num_rows)
                is_candidate = pa.array(hashes < limit)
                yield from messages([keys.filter(is_candidate)])

        found = reported.mapInArrow(choose_candidates, MESSAGES).collect()
        ordered = self.engine.sort(received(found), schema, schema.names)
        candidates = pa.Table.from_batches(ordered, schema)
        number = candidates.num_rows
        evenly = np.unique(np.arange(1, parts) * number // parts)
        chosen = evenly[evenly < number]
        return candidates.take(pa.array(chosen)).combine_chunks()


def _discard(draft: Path, payment: Payment) -> None:
    """Remove what was drawn of a release that failed; what cannot be removed is paid for."""
    try:
        shutil.rmtree(draft)
    except OSError:
        payment.mark_drawn()


def _require_shared(draft: Path, files: list[tuple[str, int]]) -> None:
    """Refuse a folder that the driver and the workers do not share."""
    for name, _ in files:
        if not (draft / name).exists():
            problem = "the driver does not see what workers wrote into the folder"
            raise SystemFailure(problem, "choose a shared one")


@lru_cache(maxsize=4)
def _sanitizer(terms: Terms) -> Sanitizer:
    """Make a sanitizer once in each worker process, not for each task."""
    return Sanitizer.of(terms)


def _drafted(batches: Batches, draft: str, columns: pa.Schema) -> Batches:
    """Write batches to a new file, and yield its name and number of rows.

    What another run of the task left there is not named.
    """
    first = next(batches, None)
    if first is None:
        return
    name = f"{uuid4().hex}.arrow"
    rows = 0
    with pa.ipc.new_file(Path(draft, name), columns) as writer:
        for batch in chain([first], batches):
            writer.write_batch(batch)
            rows += batch.num_rows
    yield pa.record_batch({"name": [name], "rows": [rows]})


def _drawn(draft: PathLike, names: Iterable[str]) -> Batches:
    """Yield the rows of files of drawn tokens."""
    for name in names:
        with pa.memory_map(str(Path(draft, name))) as file:
            reader = pa.ipc.open_file(file)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


def _reread(draft: str, batches: Batches) -> Batches:
    """Yield the rows of files of drawn tokens, on a worker that got some of their names."""
    for batch in batches:
        yield from _drawn(draft, batch.column("name").to_pylist())


def _numbered(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Put all rows into the first part."""
    for batch in batches:
        part = np.zeros(batch.num_rows, np.int32)
        yield batch.append_column("part", pa.array(part))


def _parts_of(batches: Batches) -> list[tuple[int, int]]:
    """Return the parts that were written, with the number of rows of each."""
    parts = list[tuple[int, int]]()
    for batch in batches:
        for row in batch.to_pylist():
            parts.append((row["part"], row["rows"]))
    return parts


def _place(pivots: pa.Table, draft: str, names: list[str]) -> Kernel:
    """Return what appends the number of its part to each row: how many pivots are not above it.

    `names` are those of the key columns, which come first.
    """
    first_keys = list[pa.Array]()
    if pivots.num_rows:
        first_keys = [column.chunk(0) for column in pivots.columns]

    def divide(batches: Batches) -> Batches:
        for batch in _reread(draft, batches):
            part = _pivots_not_above(batch.columns[: len(names)], first_keys)
            others = batch.schema.names[len(names) :]
            columns = [*batch.columns, pa.array(part)]
            yield pa.RecordBatch.from_arrays(columns, [*names, *others, "part"])

    return divide


def _pivots_not_above(keys: list[pa.Array], pivots: list[pa.Array]) -> "np.ndarray[Any, Any]":
    """Return for each key how many pivots, which ascend, are not above it: a binary search of all keys at once."""
    number = len(pivots[0]) if pivots else 0
    low = np.zeros(len(keys[0]), np.int32)
    high = np.full(len(keys[0]), number, np.int32)
    while (low < high).any():
        middle = (low + high) // 2
        # the last pivot is also taken where the search has ended
        places = pa.array(np.minimum(middle, number - 1))
        middle_pivots = [pivot.take(places) for pivot in pivots]
        is_below = ascends(keys, middle_pivots).to_numpy(False)
        is_below |= low == high
        low = np.where(is_below, low, middle + 1)
        high = np.where(is_below, middle, high)
    return low


def _write(folder: str, drawn: pa.Schema, columns: pa.Schema, terms: Terms) -> Kernel:
    """Return what writes rows that come in the order of parts and keys, and yields the number of rows of each part.

    A part that is written twice, by a task that is run again, is the same, and replaces the first one in one step.
    """

    def write_part(part: int, rows: Batches) -> int:
        check = partial(checked_rows, terms=terms)
        to_write = Rows(rows, columns, drawn, check)
        return write_table(Path(folder, _name(part)), to_write, _PART_METADATA, force=True)

    def write_parts(batches: Batches) -> Batches:
        for part, pieces in groupby(_pieces(batches, drawn), key=itemgetter(0)):
            rows = write_part(part, (piece for _, piece in pieces))
            yield pa.record_batch([[part], [rows]], _WRITTEN)

    return write_parts


def _pieces(batches: Batches, drawn: pa.Schema) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each part in each batch, with the number of the part; rows are in the order of parts."""
    for batch in batches:
        if not batch.num_rows:
            continue
        part = batch.column("part").to_numpy()
        starts = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist()]
        rows = shaped(batch.drop_columns(["part"]), drawn)
        for start, end in pairwise([*starts, len(part)]):
            yield int(part[start]), rows.slice(start, end - start)


def _name(part: int) -> str:
    """Return the file name of a part."""
    return f"part-{part:06d}.parquet"
