"""The engine: its methods, then its jobs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from dpsample.errors import InvalidValue
from dpsample.private.assignment import Assigned, require_cap, salts
from dpsample.private.derived_coins import Secret
from dpsample.private.engine.columns import positioned
from dpsample.private.engine.columns import shaped as shaped
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
_SHUFFLE = "spark.sql.shuffle.partitions"
_COALESCE = "spark.sql.adaptive.coalescePartitions.enabled"
_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
LARGE: Final = 1 << 16  # rows that go to Python at once, to a kernel that lets few of them through
_PACKED = (
    16  # the same where a row is a packed batch: Spark's 10,000 of them would not fit into memory
)
# whether what is kept on the workers is in fewer partitions too, where they are small: 200 would take 20 CPU seconds
# for each kernel, however few the rows
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
        if partitions is not None and (
            isinstance(partitions, bool) or not isinstance(partitions, int) or partitions < 1
        ):
            raise InvalidValue(
                f"`partitions` must be a whole number from 1, not {partitions!r}",
                "leave it out to let Spark choose",
            )
        self._session, self._partitions, self._open = session, partitions, True
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

        def rows(made: Frame) -> Any:
            counted = made.grouped(made.rows())
            return counted if known is None else self.with_known(made, counted, known, only)

        return self._read(source, rows, "counting keys", frequency=True, known=known is not None)

    def with_known(self, made: Frame, counted: Any, known: pa.Table, only: bool) -> Any:
        """Join counted keys with known ones: k0, k1, ..., frequency, known."""
        return made.with_known(counted, self.sent_keys(known, made), known.num_rows, only)

    def restricted(self, source: Source, keys: pa.Table, outside: bool) -> Source:
        """Return the rows of just these keys, or of those outside of them, as a source; NULL keys are in both."""
        made, chosen = self.frame(source), copy(source)
        self._frames[id(chosen)] = (
            chosen,
            made.restricted(self.sent_keys(keys, made), keys.num_rows, outside),
        )
        return chosen

    def elements(self, source: Source) -> Iterator[pa.RecordBatch]:
        """Yield the key column(s) only, a row for each element, in any order; for raw sources.

        A NULL key is refused when it is met.
        """
        if source.aggregated:
            raise InvalidValue(
                "a source with frequencies has no rows of single elements", "read it aggregated"
            )
        return self._read(source, lambda made: made.rows(), "reading elements", frequency=False)

    def count(self, source: Source, keys: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the frequencies of just these distinct keys; those that are not in the source are left out.

        It is the second pass over a source: what `elements` refuses, it passes over.
        """

        def rows(made: Frame) -> Any:
            return made.grouped(
                made.wanted(self.sent_keys(keys.select(list(source.key)), made), keys.num_rows)
            )

        return self._read(source, rows, "counting picked keys", frequency=True)

    def total(self, source: Source) -> int:
        """Return the number of elements; what `aggregated` refuses is refused."""
        [row] = self.job("counting elements", source.columns, self.frame(source).total().collect)
        return int(row[0] or 0)

    def weighed(self, source: Source, weigh: Callable[[Ints], int]) -> tuple[Any, int]:
        """Aggregate, and keep the keys on the workers; return their DataFrame, and the sum of their weights."""
        elements = self.frame(source)

        def weigh_keys(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            total = sum(weigh(batch.column("frequency").to_numpy()) for batch in batches)
            yield pa.record_batch({"total": [str(total)]})  # of any size

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
        first = None if prior is None else positioned(prior, made.schema)
        sent = None if first is None else self.sent(first, made.fields(position="long"))
        if not keep_pairs:
            made = replace(made, amounts=())  # they are for the pairs
        found = all_pairs(made, salts(coins), sent, 0 if first is None else first.num_rows)
        pairs = self.job("sorting users", source.columns, lambda: self._computed(found), LARGE)

        def place() -> tuple[Any, Ints, int]:
            kept = self.keep(assigned(made, pairs, cap))
            return kept, *sizes_of(kept)

        kept, sizes, units = self.job("assigning users", source.columns, place, _PACKED)
        assigned_source = Source(kept, source.key, "frequency")
        if keep_pairs:
            self._pairs[id(assigned_source)] = pairs
        else:
            self._release(pairs, source.columns)
        self._frames[id(assigned_source)] = assigned_source, units_of(made, kept)
        return Assigned(
            assigned_source,
            sizes[0],
            sizes[1],
            units,
            AllPairs(made, pairs) if keep_pairs else None,
        )

    def filled(self, given: Assigned, most: int, full: int, coins: CoinSource) -> int:
        """Return the sum over keys of min(`full`, users who keep the key): one job over the pairs on the workers."""
        found = filled(
            given.pairs, most, full
        )  # by the salts of the pairs, which follow from the secret
        [row] = self.job("comparing ways to find keys", (), found.collect, _PACKED)
        return int(row[0] or 0)

    def pairs_of(self, source: Source, keys: pa.Table, after: Assigned | None = None) -> Pairs:
        """Put the users of just these distinct keys aside: they are kept on the workers, divided by user."""
        made = self.frame(source)
        require_users(made)
        wanted = positioned(keys, made.schema)
        every = None if after is None else after.pairs
        if every is not None and every.frame is made and self._keeps(every.data):
            rows = _PACKED
            found = selected(every.data, wanted, made.more)
        else:
            rows = LARGE
            sent = self.sent(wanted, made.fields(position="long"))
            found = pairs_of(made, sent, wanted)
        kept = self.job(
            "finding users of keys", source.columns, lambda: self._computed(found), rows
        )
        return Pairs(KeptPairs(kept, wanted.num_rows, made.more))

    def _computed(self, data: Any) -> Any:
        """Compute a DataFrame, and keep it on the workers; what is refused is refused."""
        kept = self.keep(data)
        kept.count()
        return kept

    def summed(self, pairs: Pairs, kernel: Kernel) -> Ints:
        """Return the sum of what a kernel makes of each partition's pairs; it is sent to the workers."""
        vectors = self.job(
            "summing over users", (), lambda: vectors_of(pairs.data, kernel), _PACKED
        )
        return sum(vectors[1:], start=vectors[0]) if vectors else kernel(iter(()))

    def forget_pairs(self, pairs: Pairs) -> None:
        """Let go of what the workers keep of some pairs."""
        self._release(pairs.data.data, ())

    def forget(self, source: Source) -> None:
        """Let go of a source that `bounded` or `assigned` returned, and of what the workers keep of it."""
        self._frames.pop(id(source))
        self._release(source.data, source.key)
        self._release(self._pairs.pop(id(source), None), source.key)

    def _keeps(self, data: Any) -> bool:
        return any(data is kept for kept in self._kept)

    def _release(self, data: Any, columns: Sequence[str]) -> None:
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
            self._frames[id(source)] = (
                source,
                translated(lambda: frame(source, session), source.columns),
            )
        return self._frames[id(source)][1]

    def keep(self, data: Any) -> Any:
        """Keep a DataFrame on the workers once it is computed, until the engine is closed."""
        self._kept.append(data.persist())
        return self._kept[-1]

    @property
    def partitions(self) -> str:
        """Into how many partitions keys are divided, in words."""
        session = self.session()
        if self._partitions is not None:
            return str(self._partitions)
        adaptive = (
            session.conf.get("spark.sql.adaptive.enabled") == "true"
            and session.conf.get(_COALESCE) == "true"
        )
        return f"{session.conf.get(_SHUFFLE)}{', fewer where they are small' if adaptive else ''}"

    def job(
        self, what: str, keys: Sequence[str], work: Callable[[], _T], rows: int | None = None
    ) -> _T:
        """Do what computes something, named on Spark's pages, with keys divided as told, and errors put into words.

        `rows` go to Python at once, if the session has no setting of its own; packed batches always.
        """
        return translated(lambda: self._named(what, work, rows), keys)

    def _named(self, what: str, work: Callable[[], _T], rows: int | None) -> _T:
        session = self.session()
        settings = {_KEPT: "true"}
        settings |= (
            {}
            if self._partitions is None
            else {_SHUFFLE: str(self._partitions), _COALESCE: "false"}
        )
        if rows is not None and (
            rows == _PACKED or session.conf.get(_BATCH) == "10000"
        ):  # the default of Spark
            settings[_BATCH] = str(rows)
        before = {name: session.conf.get(name) for name in settings}
        described = _description(session)
        tag = "dpsample-" + what.replace(" ", "-")
        try:
            for name, value in settings.items():
                session.conf.set(name, value)
            if described is None:  # Spark Connect
                session.addTag(tag)
            else:
                session.sparkContext.setJobDescription(f"dpsample: {what}")
            return work()
        finally:
            for name, value in before.items():
                session.conf.set(name, value)
            if described is None:
                session.removeTag(tag)
            else:
                session.sparkContext.setLocalProperty("spark.job.description", described or None)

    def collected(self, data: Any, what: str, keys: Sequence[str]) -> list[pa.RecordBatch]:
        """Bring rows in Arrow messages to the driver."""
        return self.job(what, keys, lambda: received(data.collect()))

    def _read(
        self,
        source: Source,
        rows: Callable[[Frame], Any],
        what: str,
        *,
        frequency: bool,
        known: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        made = self.frame(source)
        schema = made.schema.append(pa.field("frequency", pa.int64())) if frequency else made.schema
        schema = schema.append(pa.field("known", pa.bool_())) if known else schema

        def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return messages(shaped(batch, schema) for batch in batches)

        return iter(self.collected(rows(made).mapInArrow(pack, MESSAGES), what, source.columns))

    def sent_keys(self, table: pa.Table, made: Frame) -> Any:
        """Send keys from the driver to the workers: a DataFrame of k0, k1, ..."""
        schema = pa.schema(
            [pa.field(n, f.type) for n, f in zip(made.names, made.schema, strict=True)]
        )
        batches = [shaped(batch, schema) for batch in table.combine_chunks().to_batches()]
        return self.sent(pa.Table.from_batches(batches, schema), made.fields())

    def sent(self, table: pa.Table, fields: Any) -> Any:
        """Send rows from the driver to the workers: a DataFrame with these fields."""
        rows = [
            (bytearray(m), n)
            for batch in messages(table.combine_chunks().to_batches())
            for m, n in zip(*batch.to_pydict().values(), strict=True)
        ]
        return self.session().createDataFrame(rows, MESSAGES).mapInArrow(unpacked, fields)


def messages(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn each batch that has rows into an Arrow message: a binary value, and the number of its rows."""
    for batch in batches:
        if batch.num_rows:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield pa.record_batch(
                {"message": [sink.getvalue().to_pybytes()], "rows": [batch.num_rows]}
            )


def unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn Arrow messages back into batches."""
    for batch in batches:
        for message in batch.column(0):
            yield from pa.ipc.open_stream(message.as_buffer())


def received(rows: Iterable[Any]) -> list[pa.RecordBatch]:
    """Turn Arrow messages that have come to the driver back into batches."""
    return [batch for row in rows for batch in pa.ipc.open_stream(pa.py_buffer(bytes(row[0])))]


def _description(session: Any) -> str | None:
    """Return the description that jobs have now, or None where the session knows none: over Spark Connect."""
    try:
        return session.sparkContext.getLocalProperty("spark.job.description") or ""
    except Exception:  # Spark Connect says so in several ways
        return None
