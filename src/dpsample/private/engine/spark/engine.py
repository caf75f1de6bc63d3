"""The engine: its methods, then its jobs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from dpsample.errors import InvalidValue
from dpsample.private.assignment import Assigned, require_cap, salts
from dpsample.private.derived_coins import Secret
from dpsample.private.engine.columns import counted_schema, positioned, shaped
from dpsample.private.engine.spark.errors import missing, translated
from dpsample.private.pairs import Kernel, Pairs
from dpsample.private.randomness import CoinSource
from dpsample.private.sources.source import Source
from dpsample.scheme.sampling import Ints

try:
    from pyspark.sql import SparkSession
except ImportError:
    raise missing() from None

from dpsample.private.engine.spark.assignment import all_pairs, assigned, sizes_of, units_of
from dpsample.private.engine.spark.frames import Frame, frame
from dpsample.private.engine.spark.pairs import KeptPairs, filled, pairs_of, selected, vectors_of
from dpsample.private.engine.spark.sorting import AllPairs
from dpsample.private.engine.spark.users import bounded, dropped, require_users

_T = TypeVar("_T")

MESSAGES: Final = "message binary, rows bigint"
_DESCRIPTION = "spark.job.description"  # the property of a job that Spark's pages show
_SHUFFLE = "spark.sql.shuffle.partitions"
_COALESCE = "spark.sql.adaptive.coalescePartitions.enabled"
_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_DEFAULT_BATCH = "10000"  # Spark's own setting of rows that go to Python at once
# Rows that go to Python at once, to a kernel that lets few of them through.
LARGE: Final = 1 << 16
# The same where a row is a packed batch: 10,000 of them would not fit into memory.
_PACKED = 16
# Spark's setting: whether what is kept on the workers is in fewer partitions too, where they are small. 200 would take
# 20 CPU seconds for each kernel, however few the rows.
_KEPT = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"


class Spark:
    """The distributed engine, to be used in a `with` block.

    session     a Spark session; by default the active one, or that of the DataFrame that is read
    partitions  into how many keys are divided when they are counted; by default as many as the session says
                (spark.sql.shuffle.partitions), less where Spark's adaptive execution finds them small

    `aggregated`, `elements` and `count` bring rows to the driver, as every engine's do. `dpsample.spark` leaves rows
    where they are, with the same frames and jobs.
    """

    def __init__(self, session: Any = None, partitions: int | None = None) -> None:
        if partitions is not None:
            _check_partitions(partitions)
        self._session = session
        self._partitions = partitions
        self._open = True
        # by the id of the source, which is kept so that no other source gets its id
        self._frames: dict[int, tuple[Source, Frame]] = {}
        self._kept: list[Any] = []
        self._pairs: dict[int, Any] = {}  # all pairs of a source, by the `id` of what was assigned

    def __enter__(self) -> "Spark":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of everything that was kept on the workers; the session stays."""
        self._open = False
        self._frames.clear()
        while self._kept:
            with suppress(Exception):  # a session that has ended keeps nothing
                self._kept.pop().unpersist()

    # ---- what an engine does

    def new_coins(self) -> Secret:
        """Return coins for one release, which decide the same when a task is run again."""
        return Secret()

    def check(self, source: Source) -> pa.Schema:
        """Refuse, before any work, what can be refused from names, types and file endings; return the key's schema."""
        if source.kind == "frame" and source.data.isStreaming:
            raise InvalidValue(
                "a streaming DataFrame cannot be released", "count it with dpsample.spark.stream"
            )
        return self.frame(source).schema

    def repeatable(self, source: Source) -> bool:
        """Whether rows are the same whenever they are read: not if a column or a filter is random."""
        return self.frame(source).repeatable

    def aggregated(
        self, source: Source, known: pa.Table | None = None, only: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield each key once, with its frequency; keys of frequency 0 are left out.

        NULL keys and frequencies that are no whole numbers from 0 to 2**63 - 1 are refused before the first batch.
        With `known`, a column `known` follows, and these keys come with frequency 0 as well; with `only`, no others.
        """
        made = self.frame(source)
        counted = made.grouped(made.rows())
        if known is not None:
            counted = self.with_known(made, counted, known, only)
        schema = counted_schema(made.schema, known is not None)
        return self._received(counted, schema, "counting keys", source)

    def with_known(self, made: Frame, counted: Any, known: pa.Table, only: bool) -> Any:
        """Join counted keys with known ones: k0, k1, ..., frequency, known."""
        return made.with_known(counted, self.sent_keys(known, made), known.num_rows, only)

    def restricted(self, source: Source, keys: pa.Table, outside: bool) -> Source:
        """Return the rows of just these keys, or of those outside of them, as a source; NULL keys are in both."""
        made = self.frame(source)
        sent = self.sent_keys(keys, made)
        return self._known_as(copy(source), made.restricted(sent, keys.num_rows, outside))

    def elements(self, source: Source) -> Iterator[pa.RecordBatch]:
        """Yield the key column(s) only, a row for each element, in any order; for raw sources.

        A NULL key is refused when it is met.
        """
        if source.aggregated:
            raise InvalidValue(
                "a source with frequencies has no rows of single elements", "read it aggregated"
            )
        made = self.frame(source)
        return self._received(made.rows(), made.schema, "reading elements", source)

    def count(self, source: Source, keys: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the frequencies of just these distinct keys; those that are not in the source are left out.

        It is the second pass over a source: what `elements` refuses, it passes over.
        """
        made = self.frame(source)
        sent = self.sent_keys(keys.select(list(source.key)), made)
        counted = made.grouped(made.wanted(sent, keys.num_rows))
        return self._received(counted, counted_schema(made.schema), "counting picked keys", source)

    def total(self, source: Source) -> int:
        """Return the number of elements; what `aggregated` refuses is refused."""
        [row] = self.job("counting elements", source.columns, self.frame(source).total().collect)
        return int(row[0] or 0)

    def weighed(self, source: Source, weigh: Callable[[Ints], int]) -> tuple[Any, int]:
        """Aggregate, and keep the keys on the workers; return their DataFrame, and the sum of their weights."""
        elements = self.frame(source)

        def weigh_keys(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            total = 0
            for batch in batches:
                total += weigh(batch.column("frequency").to_numpy())
            yield pa.record_batch({"total": [str(total)]})  # as text, since it may be of any size

        def aggregate() -> tuple[Any, int]:
            counted = self.keep(elements.grouped(elements.rows()))
            totals = counted.mapInArrow(weigh_keys, "total string").collect()
            return counted, sum(int(row[0]) for row in totals)

        return self.job("weighing keys", source.columns, aggregate)

    def bounded(
        self, source: Source, limit: int, coins: CoinSource, rereads: bool = True
    ) -> Source:
        """Let each user keep at most `limit` distinct keys, and return what is kept: a key for each user who kept it.

        It is kept on the workers if it is read more than once.
        """
        if not isinstance(coins, Secret):  # others would be drawn anew by a task that is run again
            raise TypeError("users are bounded on a cluster with coins of a Secret")
        kept = bounded(self.frame(source), limit, coins)
        if rereads:
            kept = replace(
                kept, data=self.job("bounding users", source.columns, lambda: self.keep(kept.data))
            )
        # errors name the columns that are read
        bounded_source = Source(kept.data, source.key_columns, user=source.user, key_as=source.key)
        self._frames[id(bounded_source)] = bounded_source, kept
        return bounded_source

    def dropped(self, source: Source, limit: int, most: int) -> int:
        """Return how many distinct keys users have beyond `limit`, of each user up to `most`."""
        found = dropped(self.frame(source), limit, most)
        [row] = self.job("counting keys of users", source.columns, found.collect)
        return int(row[0] or 0)

    def assigned(
        self,
        source: Source,
        cap: int,
        coins: CoinSource,
        prior: pa.Table | None = None,
        keep_pairs: bool = False,
    ) -> Assigned:
        """Let each user in turn give one unit to the first of their keys that has fewer than `cap`; return the units.

        Many tasks sort the pairs, and one places the units. Both are kept on the workers: the pairs until the units are
        placed, or with `keep_pairs` until they are forgotten.
        """
        require_cap(cap)
        if not isinstance(coins, Secret):  # others would be drawn anew by a task that is run again
            raise TypeError("users give units on a cluster with coins of a Secret")
        made = self.frame(source)
        require_users(made)
        sent, first_keys = self._sent_prior(prior, made)
        if not keep_pairs:
            made = replace(made, amounts=())  # amounts are read only with pairs that are kept
        ordered = all_pairs(made, salts(coins), sent, first_keys)
        pairs = self.job("sorting users", source.columns, lambda: self._computed(ordered), LARGE)

        def place() -> tuple[Any, Ints, int]:
            kept = self.keep(assigned(made, pairs, cap))
            sizes, units = sizes_of(kept)
            return kept, sizes, units

        kept, sizes, units = self.job("assigning users", source.columns, place, _PACKED)
        given = self._known_as(Source(kept, source.key, "frequency"), units_of(made, kept))
        if not keep_pairs:
            self._release(pairs, source.columns)
            return Assigned(given, sizes[0], sizes[1], units, None)
        self._pairs[id(given)] = pairs
        return Assigned(given, sizes[0], sizes[1], units, AllPairs(made, pairs))

    def _sent_prior(self, prior: pa.Table | None, made: Frame) -> tuple[Any | None, int]:
        """Send keys that come first, with their positions, to the workers; return their DataFrame and their number."""
        if prior is None:
            return None, 0
        first = positioned(prior, made.schema)
        return self.sent(first, made.fields(position="long")), first.num_rows

    def filled(self, given: Assigned, most: int, full: int, coins: CoinSource) -> int:
        """Return the sum over keys of min(`full`, users who keep the key): one job over the pairs on the workers."""
        # what users keep follows from the salts of the pairs, and these from the secret
        total = filled(given.pairs, most, full)
        [row] = self.job("comparing ways to find keys", (), total.collect, _PACKED)
        return int(row[0] or 0)

    def pairs_of(self, source: Source, keys: pa.Table, after: Assigned | None = None) -> Pairs:
        """Put the users of just these distinct keys aside: they are kept on the workers, divided by user."""
        made = self.frame(source)
        require_users(made)
        wanted = positioned(keys, made.schema)
        every = None if after is None else after.pairs
        if every is not None and every.frame is made and self._keeps(every.data):
            rows_at_once = _PACKED
            pairs = selected(every.data, wanted, made.more)
        else:
            rows_at_once = LARGE
            sent = self.sent(wanted, made.fields(position="long"))
            pairs = pairs_of(made, sent, wanted)
        what = "finding users of keys"
        kept = self.job(what, source.columns, lambda: self._computed(pairs), rows_at_once)
        return Pairs(KeptPairs(kept, wanted.num_rows, made.more))

    def _computed(self, data: Any) -> Any:
        """Compute a DataFrame, and keep it on the workers; what is refused is refused."""
        kept = self.keep(data)
        kept.count()
        return kept

    def summed(self, pairs: Pairs, kernel: Kernel) -> Ints:
        """Return the sum of what a kernel makes of each partition's pairs; it is sent to the workers."""
        what = "summing over users"
        vectors = self.job(what, (), lambda: vectors_of(pairs.data, kernel), _PACKED)
        if not vectors:
            return kernel(iter(()))
        return sum(vectors[1:], start=vectors[0])

    def forget_pairs(self, pairs: Pairs) -> None:
        """Let go of what the workers keep of some pairs."""
        self._release(pairs.data.data, ())

    def forget(self, source: Source) -> None:
        """Let go of a source that `bounded` or `assigned` returned, and of what the workers keep of it."""
        self._frames.pop(id(source))
        self._release(source.data, source.key)
        self._release(self._pairs.pop(id(source), None), source.key)

    def _keeps(self, data: Any) -> bool:
        """Whether a DataFrame is kept on the workers."""
        return any(data is kept for kept in self._kept)

    def _release(self, data: Any, columns: Sequence[str]) -> None:
        """Let go of a DataFrame, if it is kept on the workers."""
        if self._keeps(data):
            self._kept = [kept for kept in self._kept if kept is not data]
            translated(data.unpersist, columns)

    def sort(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, by: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows in ascending order of some columns; text in the order of its bytes."""
        table = pa.Table.from_batches(batches, schema)
        order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in by])
        return iter(table.take(order).combine_chunks().to_batches())

    # ---- jobs

    def session(self) -> Any:
        """Return the session, or refuse if there is none."""
        session = self._session or SparkSession.getActiveSession()
        if session is None:
            raise InvalidValue("no session of Spark is active", "start one, or hand one in")
        return session

    def frame(self, source: Source) -> Frame:
        """Return a source as Spark has it, made and checked the first time."""
        if not self._open:
            raise InvalidValue("the engine is closed", "use it inside its `with` block")
        if id(source) not in self._frames:
            if source.kind == "frame" and self._session is None:
                self._session = source.data.sparkSession
            session = None if source.kind == "frame" else self.session()
            self._known_as(source, translated(lambda: frame(source, session), source.columns))
        _, made = self._frames[id(source)]
        return made

    def _known_as(self, source: Source, made: Frame) -> Source:
        """Let a source stand for a frame that is there already, and return it."""
        self._frames[id(source)] = source, made
        return source

    def keep(self, data: Any) -> Any:
        """Keep a DataFrame on the workers once it is computed, until the engine is closed."""
        self._kept.append(data.persist())
        return self._kept[-1]

    @property
    def partitions(self) -> str:
        """Into how many partitions keys are divided, in words."""
        settings = self.session().conf
        if self._partitions is not None:
            return str(self._partitions)
        is_adaptive = settings.get("spark.sql.adaptive.enabled") == "true"
        if is_adaptive and settings.get(_COALESCE) == "true":
            return f"{settings.get(_SHUFFLE)}, fewer where they are small"
        return str(settings.get(_SHUFFLE))

    def job(
        self, what: str, keys: Sequence[str], work: Callable[[], _T], rows: int | None = None
    ) -> _T:
        """Return what some work computes, with the engine's partitions, and errors put into words.

        what  what Spark's pages call the work
        keys  names of columns, for refusals
        rows  the number of rows that go to Python at once, if the session has no setting of its own; packed batches
              come so in any case
        """
        return translated(lambda: self._named(what, work, rows), keys)

    def _named(self, what: str, work: Callable[[], _T], rows: int | None) -> _T:
        """Do work of this name with the engine's settings; afterwards the session has its own again."""
        session = self.session()
        settings = self._settings(rows)
        before = {name: session.conf.get(name) for name in settings}
        try:
            for name, value in settings.items():
                session.conf.set(name, value)
            with _described(session, what):
                return work()
        finally:
            for name, value in before.items():
                session.conf.set(name, value)

    def _settings(self, rows: int | None) -> dict[str, str]:
        """Return the settings of a job that sends a number of rows to Python at once, or Spark's own number."""
        settings = {_KEPT: "true"}
        if self._partitions is not None:
            settings[_SHUFFLE] = str(self._partitions)
            settings[_COALESCE] = "false"
        if rows == _PACKED or (
            rows is not None and self.session().conf.get(_BATCH) == _DEFAULT_BATCH
        ):
            settings[_BATCH] = str(rows)
        return settings

    def collected(self, data: Any, what: str, keys: Sequence[str]) -> list[pa.RecordBatch]:
        """Bring rows in Arrow messages to the driver."""
        return self.job(what, keys, lambda: received(data.collect()))

    def _received(
        self, data: Any, schema: pa.Schema, what: str, source: Source
    ) -> Iterator[pa.RecordBatch]:
        """Bring the rows of a DataFrame to the driver, with the names and types of a schema."""

        def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return messages(shaped(batch, schema) for batch in batches)

        packed = data.mapInArrow(pack, MESSAGES)
        return iter(self.collected(packed, what, source.columns))

    def sent_keys(self, table: pa.Table, made: Frame) -> Any:
        """Send keys from the driver to the workers: a DataFrame of k0, k1, ..."""
        schema = pa.schema(list(zip(made.names, made.schema.types, strict=True)))
        batches = [shaped(batch, schema) for batch in table.combine_chunks().to_batches()]
        return self.sent(pa.Table.from_batches(batches, schema), made.fields())

    def sent(self, table: pa.Table, fields: Any) -> Any:
        """Send rows from the driver to the workers: a DataFrame with these fields."""
        rows = list[tuple[bytearray, int]]()
        for batch in messages(table.combine_chunks().to_batches()):
            for row in batch.to_pylist():
                rows.append((bytearray(row["message"]), row["rows"]))
        sent = self.session().createDataFrame(rows, MESSAGES)
        return sent.mapInArrow(unpacked, fields)


def _check_partitions(partitions: int) -> None:
    if isinstance(partitions, bool) or not isinstance(partitions, int) or partitions < 1:
        problem = f"`partitions` must be a whole number from 1, not {partitions!r}"
        raise InvalidValue(problem, "leave it out to let Spark choose")


def messages(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn each batch that has rows into an Arrow message: a binary value, and the number of its rows."""
    for batch in batches:
        if not batch.num_rows:
            continue
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        message = sink.getvalue().to_pybytes()
        yield pa.record_batch({"message": [message], "rows": [batch.num_rows]})


def unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn Arrow messages back into batches."""
    for batch in batches:
        for message in batch.column(0):
            yield from pa.ipc.open_stream(message.as_buffer())


def received(rows: Iterable[Any]) -> list[pa.RecordBatch]:
    """Turn Arrow messages that have come to the driver back into batches."""
    batches = list[pa.RecordBatch]()
    for row in rows:
        message = pa.py_buffer(bytes(row[0]))
        batches += pa.ipc.open_stream(message)
    return batches


@contextmanager
def _described(session: Any, what: str) -> Iterator[None]:
    """Show what a job is on Spark's pages, for the time of a block."""
    before = _description(session)
    if before is None:  # Spark Connect
        tag = "dpsample-" + what.replace(" ", "-")
        session.addTag(tag)
        try:
            yield
        finally:
            session.removeTag(tag)
    else:
        context = session.sparkContext
        context.setJobDescription(f"dpsample: {what}")
        try:
            yield
        finally:
            context.setLocalProperty(_DESCRIPTION, before or None)


def _description(session: Any) -> str | None:
    """Return the description that jobs have now, or None where the session knows none: over Spark Connect."""
    try:
        return session.sparkContext.getLocalProperty(_DESCRIPTION) or ""
    except Exception:  # Spark Connect says so in several ways
        return None
