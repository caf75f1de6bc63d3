"""Jobs: what is done where the rows are. A release or a sample is drawn by kernels that are sent to the workers."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import lru_cache
from itertools import chain, groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from dpsample.errors import InvalidValue, SystemFailure
from dpsample.files import PathLike, atomic_folder, commit_parts, rebatch, write_table
from dpsample.private.derived_coins import KeyedCoins, Secret
from dpsample.private.engine.spark import Spark  # first: it says what to install
from dpsample.private.engine.spark.engine import MESSAGES, messages, received, shaped
from dpsample.private.run import Estimates, Way, columns_of, paid, spent, way_of
from dpsample.private.sample import Sample
from dpsample.private.sanitizer import Sanitizer, picked, sampled_batch
from dpsample.private.source import Source
from dpsample.release.release import Release
from dpsample.release.rows import ascends, checked_rows, release_schema
from dpsample.release.terms import Terms
from dpsample.scheme.sampling import Sampling

Batches = Iterator[pa.RecordBatch]
Kernel = Callable[[Batches], Batches]

_DRAFTS = "name string, rows bigint"
_PART = 1 << 20  # rows of a part, about
_CANDIDATES = 128  # keys, for each part, among which the first one of a part is chosen


def random_rows(remedy: str) -> InvalidValue:
    """The refusal to read rows twice."""
    return InvalidValue(
        "what is read twice must be the same each time", "a DataFrame with random columns or filters", remedy
    )


class Job:
    """One release, or one sample: a source, a scheme, and a secret that is used for nothing else.

    Rows that were `drawn` already are not sampled; `held` are all keys with their frequencies, where they are known.
    """

    def __init__(
        self,
        engine: Spark,
        source: Source,
        sampling: Sampling,
        way: Way,
        secret: Secret,
        drawn: bool = False,
        held: Any = None,
    ) -> None:
        self.engine, self.source, self.sampling, self.secret = engine, source, sampling, secret
        self.frame, self.drawn, self.held = engine.frame(source), drawn, held
        self.way = way_of(source, sampling, way)
        if self.way == "two-pass" and not self.frame.repeatable:
            if way == "two-pass":
                raise random_rows("write it to files first, or leave the way out")
            self.way = "aggregate"
        self.frequencies = self.frame.schema.append(pa.field("frequency", pa.int64()))

    def sample(self, max_keys: int | None = None) -> Sample:
        """Bring the sample to the driver; each user has kept `max_keys`, if users were bounded."""
        batches = self.engine.collected(self._messages(None), "sampling keys", self.source.columns)
        ordered = self.engine.sort(batches, self.frequencies, self.source.key)
        return Sample(pa.Table.from_batches(ordered, self.frequencies), self.sampling, self.source.key, max_keys)

    def release(self, terms: Terms, ledger: PathLike | None = None, output: str = "(in memory)") -> Release:
        """Bring the reported keys to the driver, and enter the release into its ledger."""
        columns = release_schema(columns_of(self.frame.schema, terms), terms)
        batches = self.engine.collected(self._messages(terms), "counting and sanitizing keys", self.source.columns)
        ordered = self.engine.sort(batches, _tokens(columns), terms.keys)
        terms = paid(terms, ledger, output)
        with spent(terms):
            return Release(pa.Table.from_batches(_estimated(ordered, terms), columns), terms)

    def release_to_folder(self, folder: PathLike, terms: Terms, ledger: PathLike | None = None) -> tuple[int, Terms]:
        """Write the reported keys, in the order of keys, in parts; return their number, and the terms, now paid for.

        What goes into which part depends on the reported keys alone, as everything else that is written does: neither
        on their partitions, which may tell of keys that were not reported, nor on which worker was how fast.
        """
        engine = self.engine
        columns = release_schema(columns_of(self.frame.schema, terms), terms)
        terms.to_json(0)  # refuses a scheme that cannot be written before any work is done
        with ExitStack() as paying, atomic_folder(folder) as target:
            draft = target / "reported"  # gone before the folder has its name
            draft.mkdir()
            drafts = self._counted().mapInArrow(self._draw(terms, str(draft)), _DRAFTS)
            found = engine.job("counting and sanitizing keys", self.source.columns, drafts.collect)
            if not all((draft / row[0]).exists() for row in found):
                raise SystemFailure(
                    "the folder must be one that the driver and all workers see", "another", "choose a shared one"
                )
            rows = int(sum(row[1] for row in found))
            terms = paid(terms, ledger, os.fspath(folder))
            paying.enter_context(spent(terms))  # also what fails when the folder gets its name
            write = _write(str(target), columns, terms)
            if rows <= _PART:  # not worth a job
                ordered = engine.sort(_drawn(draft, [row[0] for row in found]), _tokens(columns), self.source.key)
                parts = [tuple(row.values()) for batch in write(_numbered(ordered)) for row in batch.to_pylist()]
            else:
                reported = engine.session().createDataFrame([tuple(row) for row in found], _DRAFTS)
                parts = self._written(reported.repartition(len(found)), str(draft), rows, write, terms)
            counts = {_name(part): count for part, count in sorted(parts)}
            if len(counts) < len(parts) or sum(counts.values()) != rows:
                raise SystemFailure(
                    "each reported key is written once", "another number", "run it again; nothing was written"
                )
            shutil.rmtree(draft)
            commit_parts(target, counts, columns, terms.to_json(rows))
        return rows, terms

    def _written(self, reported: Any, draft: str, rows: int, write: Kernel, terms: Terms) -> list[tuple[int, int]]:
        """Let the workers write the parts; return the number of rows of each."""
        frame, keys = self.frame, self.source.key
        pivots = self.engine.job("dividing the release", keys, lambda: self._pivots(reported, draft, rows))
        more = {} if terms.keys_only else {"token": "double"}
        placed = reported.mapInArrow(_place(pivots, draft, frame.names), frame.fields(**more, part="integer"))
        # all of a part is in one partition, in order
        ordered = placed.repartition(pivots.num_rows + 1, "part").sortWithinPartitions("part", *frame.names)
        written = ordered.mapInArrow(write, "part int, rows bigint")
        found = self.engine.job("writing the release", keys, written.collect)
        return [(row[0], row[1]) for row in found]

    def _messages(self, terms: Terms | None) -> Any:
        """What is drawn, as a DataFrame of Arrow messages."""
        return self._counted().mapInArrow(self._draw(terms), MESSAGES)

    def _draw(self, terms: Terms | None, draft: str | None = None) -> Kernel:
        """Return what draws the sample, or with `terms` the reported keys with their tokens.

        These come in Arrow messages, or go to an Arrow file of each task's own in a folder, and then its name comes.
        """
        schema, sampling, secret = self.frequencies, self.sampling, self.secret
        samples = self.way == "aggregate" and not self.drawn
        columns = _tokens(columns_of(self.frame.schema, terms)) if terms else schema

        def sample_and_sanitize(batches: Batches) -> Batches:
            sanitizer = terms and _sanitizer(terms)

            def drawn() -> Batches:
                # in larger batches than Spark's: the sanitizer has a price for each
                for kept in rebatch((shaped(batch, schema) for batch in batches), schema):
                    if samples:
                        kept = sampled_batch(kept, sampling, secret.about(kept.select(schema.names[:-1]), "sample"))
                    if sanitizer:
                        kept = sanitizer.batch(kept, secret.about(kept.select(schema.names[:-1]), "sanitize"))
                    yield kept

            made = rebatch(drawn(), columns)
            return messages(made) if draft is None else _drafted(made, draft, columns)

        return sample_and_sanitize

    def _counted(self) -> Any:
        """The keys that were counted, all or picked ones: k0, k1, ..., frequency."""
        made, sampling, secret, schema = self.frame, self.sampling, self.secret, self.frame.schema
        if self.held is not None:
            return self.held
        if self.way != "two-pass":
            return made.grouped(made.rows(), once=self.drawn)

        def pick_elements(batches: Batches) -> Batches:
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            for n, batch in enumerate(batches):
                coins = secret.along(shaped(batch, schema), (context.partitionId(), n))
                yield batch.take(pa.array(picked(batch.num_rows, sampling, coins)))

        # kept on the workers, not picked for each use; what is lost with a worker is picked again by the same coins
        found = self.engine.keep(made.rows().mapInArrow(pick_elements, made.fields()))
        size = self.engine.job("picking elements", self.source.columns, found.count, large=True)
        return made.grouped(made.wanted(found, size))

    def _pivots(self, reported: Any, draft: str, rows: int) -> pa.Table:
        """The first key of each part but the first: evenly spaced among keys that a public hash names."""
        schema, parts = self.frame.schema, -(-rows // _PART)
        limit = np.uint64(min(2**64 - 1, _CANDIDATES * parts * 2**64 // rows))

        def choose_parts(batches: Batches) -> Batches:
            for batch in _reread(draft, batches):
                keys = batch.select(schema.names)
                hashed = KeyedCoins(bytes(32), keys, "part").first(keys.num_rows)
                yield from messages([keys.take(pa.array(np.flatnonzero(hashed < limit)))])

        found = received(reported.mapInArrow(choose_parts, MESSAGES).collect())
        table = pa.Table.from_batches(self.engine.sort(found, schema, schema.names), schema)
        chosen = np.unique(np.arange(1, parts) * table.num_rows // parts)
        return table.take(pa.array(chosen[chosen < table.num_rows])).combine_chunks()


def _tokens(columns: pa.Schema) -> pa.Schema:
    """The columns of a release before there are estimates."""
    return pa.schema([field for field in columns if field.name != "estimate"])


def _estimated(batches: Iterable[pa.RecordBatch], terms: Terms) -> Batches:
    """Append the estimates, unless there are keys only."""
    estimates = Estimates(terms)
    for batch in batches:
        yield batch if terms.keys_only else batch.append_column("estimate", pa.array(estimates(batch.column("token"))))


@lru_cache(maxsize=4)
def _sanitizer(terms: Terms) -> Sanitizer:
    """Make a sanitizer once in each worker process, not for each task."""
    return Sanitizer(terms.sampling, terms.per_key, terms.grid or 1, keys_only=terms.keys_only)


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
            low = np.zeros(batch.num_rows, np.int32)
            high = np.full(batch.num_rows, pivots.num_rows, np.int32)
            while (low < high).any():  # a binary search, of all rows at once
                middle = (low + high) // 2
                at = pa.array(np.minimum(middle, pivots.num_rows - 1))  # beyond the last one only where it is settled
                below = ascends(batch.columns[: len(names)], [first.take(at) for first in firsts]).to_numpy(False)
                below |= low == high
                low, high = np.where(below, low, middle + 1), np.where(below, middle, high)
            columns = [*batch.columns, pa.array(low)]
            yield pa.RecordBatch.from_arrays(columns, [*names, *batch.schema.names[len(names) :], "part"])

    return divide


def _write(folder: str, columns: pa.Schema, terms: Terms) -> Kernel:
    """Return what writes rows that come in the order of parts and keys, and tells how many are in which part.

    A part that is written twice, by a task that is run again, is the same, and replaces the first one in one step.
    """

    def write_parts(batches: Batches) -> Batches:
        def pieces() -> Iterator[tuple[int, pa.RecordBatch]]:
            for batch in batches:
                part = batch.column("part").to_numpy()
                edges = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(part)]
                rows = shaped(batch.drop_columns(["part"]), _tokens(columns))
                for start, end in pairwise(edges):
                    yield int(part[start]), rows.slice(start, end - start)

        for part, group in groupby((piece for piece in pieces() if piece[1].num_rows), key=itemgetter(0)):
            count = 0

            def rows() -> Batches:
                nonlocal count
                estimated = _estimated((piece for _, piece in group), terms)  # noqa: B023 - used up at once
                for batch in checked_rows(rebatch(estimated, columns), terms):
                    count += batch.num_rows
                    yield batch

            write_table(
                Path(folder, _name(part)), rows(), columns, {"format": "dpsample part", "version": 1}, force=True
            )
            yield pa.record_batch({"part": pa.array([part], pa.int32()), "rows": pa.array([count], pa.int64())})

    return write_parts


def _name(part: int) -> str:
    return f"part-{part:06d}.parquet"
