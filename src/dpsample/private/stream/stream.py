"""Stream: one pass over elements. Its state is a sample file that can be added to. NOT private."""

import html
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
import pyarrow as pa

from dpsample.answers.release import Release
from dpsample.errors import InvalidValue, attempt
from dpsample.exact import Number
from dpsample.files import PathLike, Rows, read_table, write_table
from dpsample.files.atomic_file import locked
from dpsample.files.metadata import format_of, resolved
from dpsample.files.reading import metadata_of
from dpsample.interrupts import held
from dpsample.privacy import StatedPrivacy
from dpsample.private.derived_coins import Secret
from dpsample.private.randomness import secret_key
from dpsample.private.run import sanitize
from dpsample.private.sample import MODE, VERSION, Sample, mark_file_with, used_refusal
from dpsample.private.sources.names import RESERVED
from dpsample.private.sources.source import Source
from dpsample.private.stream.elements import Batches, csv, elements, lines, object_source
from dpsample.private.stream.held import HeldKeys, words_of
from dpsample.private.stream.shards import check_shards, checked_shard
from dpsample.release.terms import check_keys
from dpsample.scheme.holding import SampleAndHold

if TYPE_CHECKING:
    from dpsample.private.engine.duckdb import DuckDB

_SECRET_BYTES: Final = 32
# elements that are counted at once, at least: more of them take memory, and no less time
_CHUNK: Final = 1 << 16
_DELIMITERS: Final = {"csv": ",", "tsv": "\t"}  # of pipes, by their format
EVERY: Final = 10.0  # seconds between two states that are written, by default


@dataclass(frozen=True)
class _Saved:
    """The file that the state was written to last, or read from, and the number of elements that it had then."""

    path: PathLike
    elements: int


class Stream:
    """Keys of a stream, sampled and counted in one pass: sample and hold. NOT private.

    tau     an element whose key is not held is picked with probability 1 - exp(-tau); about tau times the number of
            elements are held at most. Choose it without looking at the data.
    key     the name of the key column, or several
    shard   (r, n) if this stream has the r-th of n disjoint sets of keys, r from 0 on, and all elements of these keys:
            such streams can be merged. That sets are disjoint is checked for keys that are held, and for no others.

    It takes memory for the keys that are held. `sanitize` makes a release of it, once.

    >>> stream = Stream(tau=1, key="word")
    >>> for _ in range(100):
    ...     stream.add(["the", "of", "the"])
    >>> stream.add(["serendipity"])
    >>> stream
    Stream (NOT private): 301 elements, SampleAndHold(tau='1')
    >>> from dpsample import Privacy
    >>> stream.sanitize(privacy=Privacy(epsilon=1, delta=1e-10)).table["word"].to_pylist()
    ['of', 'the']
    """

    def __init__(
        self, tau: Number, key: str | Sequence[str] = "key", *, shard: tuple[int, int] | None = None
    ) -> None:
        self._sampling = SampleAndHold(tau)
        self._keys = check_keys(key, RESERVED)
        self._shard = checked_shard(shard)
        self._secret = secret_key()  # word n of its key stream decides about element n
        self._held: HeldKeys | None = None  # until the types of keys are known
        # elements are counted in chunks, in another thread
        self._pending: list[pa.RecordBatch] = []
        self._waiting = 0  # number of elements that are pending
        self._elements = 0  # number of elements that are counted, or are being counted
        self._counting: Future[None] | None = None
        # how much of each input is counted, so that what comes again is passed over
        self._files: dict[str, int] = {}  # elements of each file
        self._pipe = 0  # elements of a pipe that has not come to its end
        self._query: tuple[str, int] | None = (
            None  # a streaming query, and the number of its last batch
        )
        self._sample = Sample(_empty(self._keys), self._sampling, self._keys)
        self._saved: _Saved | None = None

    @property
    def sampling(self) -> SampleAndHold:
        """The scheme by which keys are held."""
        return self._sampling

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return self._keys

    @property
    def shard(self) -> tuple[int, int] | None:
        """The set of keys that it has, and the number of sets, as stated; None if it has all keys."""
        return self._shard

    @property
    def elements(self) -> int:
        """The number of elements that were added. NOT private."""
        return self._elements + self._waiting

    @property
    def used(self) -> bool:
        """Whether it was sanitized or merged already."""
        return self._sample.used

    @property
    def table(self) -> pa.Table:
        """Held keys, and as `frequency` their elements since they were picked. NOT private."""
        return self._held_keys().table

    def __repr__(self) -> str:
        shown = [f"{self.elements:,} elements", repr(self._sampling)]
        if self._shard is not None:
            number, shards = self._shard
            shown.append(f"shard {number} of {shards}")
        if self.used:
            shown.append("sanitized already")
        listed = ", ".join(shown)
        return f"Stream (NOT private): {listed}"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to pickle and to copy: both would have the secret, and two copies would share their coins."""
        raise InvalidValue(
            "a stream cannot be copied or pickled, since no copy may share its coins",
            "write its state, and go on in one place: stream.write(path), then dpsample.read_stream(path)",
        )

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>"

    # ---- adding

    def add(
        self, batch: Any, *, drop_null: bool = False, key_type: str | dict[str, str] | None = None
    ) -> None:
        """Add elements: an Arrow table or reader, a DataFrame or a column of one, or an iterable of keys.

        A table has the key columns by their names; of several, an iterable has tuples. `drop_null` leaves out keys with
        a NULL, and `key_type` is the type of keys that have none, both as of `Source`. A table that is refused is not
        added.
        """
        self._require_unused()
        source = object_source(batch, self._keys, drop_null=drop_null, key_type=key_type)
        schema, batches = elements(source)
        self._require_types(schema)
        if source.kind == "table":
            batches = iter(list(batches))  # all of it is checked before any of it is added
        for part in batches:
            self._take(part)

    def add_files(
        self,
        paths: Any,
        key: str | Sequence[str] | None = None,
        *,
        state: PathLike | None = None,
        every: float = EVERY,
        engine: "DuckDB | None" = None,
        **options: Any,
    ) -> None:
        """Add the rows of files that were not added before: what is appended to a file later is added later.

        `key` names the key columns of the files, if they have other names there; `options` are those of `Source`
        (format, drop_null, delimiter, ...). With `state`, the state is written there every few seconds, and at the end.
        If the process is killed, call it again on the stream that `read_stream` returns: no element counts twice.
        """
        from dpsample.private.engine.duckdb import DuckDB

        self._require_unused()
        columns = key
        if key is None:
            columns = list(self._keys)
        else:
            options["key_as"] = list(self._keys)
        source = Source(paths, columns, **options)
        if source.kind != "files" or source.aggregated:
            raise InvalidValue(
                "add_files takes only files with one row for each element", "use add"
            )
        if engine is not None and not engine.in_order:
            raise InvalidValue(
                "the engine does not keep the order of the rows of files", "leave `engine` out"
            )
        # one thread keeps the order of rows; more threads would take memory, and no less time
        with engine or DuckDB(threads=1, in_order=True) as used:
            for path in source.listing().paths:
                one = Source(path, columns, **options)
                self._add_file(path, one, used, state, every)

    def _add_file(
        self, path: str, source: Source, engine: "DuckDB", state: PathLike | None, every: float
    ) -> None:
        """Add the rows of one file that were not added before, and write the state."""
        schema, batches = elements(source, engine)
        self._require_types(schema)

        def note(rows: int) -> None:
            self._files[path] = rows

        self._add_from(batches, self._files.get(path, 0), note, state, every)
        if state is not None:
            self.write(state)

    def add_pipe(
        self,
        pipe: IO[bytes],
        *,
        format: str = "lines",
        delimiter: str | None = None,
        drop_null: bool = False,
        state: PathLike | None = None,
        every: float = EVERY,
    ) -> None:
        """Add the keys of a pipe of text in UTF-8, such as `sys.stdin.buffer`, to its end.

        format  "lines": each line is a key, or the keys that a delimiter divides; "csv" or "tsv": text with a header
                line that names the key columns

        `state` and `every` are as for `add_files`. If the process is killed before the end, call it again on the stream
        that `read_stream` returns, with a pipe that begins again from the start: what was counted is passed over.
        """
        self._require_unused()
        if format == "lines":
            schema, batches = lines(pipe, self._keys, delimiter)
        elif format in _DELIMITERS:
            schema, batches = csv(pipe, self._keys, delimiter or _DELIMITERS[format], drop_null)
        else:
            raise InvalidValue(
                f"a pipe must have lines, csv or tsv, not {format!r}",
                "write a file, and use add_files",
            )
        self._require_types(schema)

        def note(rows: int) -> None:
            self._pipe = rows

        self._add_from(batches, self._pipe, note, state, every)
        self._pipe = 0  # the next pipe is another one
        if state is not None:
            self.write(state)

    def _add_from(
        self,
        batches: Batches,
        done: int,
        note: Callable[[int], None],
        state: PathLike | None,
        every: float,
    ) -> None:
        """Add the rows of an input after the first `done`, which were added before.

        `note` takes the number of rows of this input that were added so far. The state is written to `state` every few
        seconds.
        """
        rows = 0
        written = time.monotonic()
        for batch in batches:
            new = batch.slice(max(done - rows, 0))
            rows += batch.num_rows
            if new.num_rows:
                self._take(new)
                note(rows)
            if state is not None and time.monotonic() - written >= every:
                self.write(state)
                written = time.monotonic()
        if rows < done:
            raise InvalidValue(
                "an input has fewer elements than when it was counted before",
                "name the same input, or start a new state",
            )

    def _take(self, batch: pa.RecordBatch) -> None:
        """Add a batch to the pending elements, and begin to count them if there are enough."""
        if batch.num_rows:
            self._pending.append(batch)
            self._waiting += batch.num_rows
        if self._waiting >= _CHUNK:
            self._count_pending()

    def _count_pending(self) -> None:
        """Count what is pending in another thread, while the next elements are read; wait for the chunk before."""
        self._wait()
        if not self._pending:
            return
        assert self._held is not None  # the first batch has fixed the types of keys
        held_keys = self._held
        chunk = pa.Table.from_batches(self._pending)
        start = self._elements
        self._elements = start + chunk.num_rows
        self._pending = []
        self._waiting = 0

        def count() -> None:
            words = words_of(self._secret, start, chunk.num_rows)
            held_keys.count(chunk, words, self._sampling.picked_words)

        # a new thread for each chunk: one that was kept would not survive a fork of this process
        with held():  # a signal must not leave a lock of the thread taken
            worker = ThreadPoolExecutor(1)
            self._counting = worker.submit(count)
            worker.shutdown(wait=False)

    def _wait(self) -> None:
        """Wait for the chunk that is being counted."""
        if self._counting is not None:
            with held():
                wait([self._counting])
            self._counting.result()
            self._counting = None

    def _held_keys(self) -> HeldKeys:
        """Count what is pending, and return the held keys. NOT private."""
        self._count_pending()
        self._wait()
        if self._held is None:
            no_keys = _empty(self._keys).drop_columns(["frequency"])
            return HeldKeys(no_keys.schema)
        return self._held

    def _require_types(self, schema: pa.Schema) -> None:
        """Refuse keys of other types than those before; the first ones fix them."""
        if self._held is None:
            self._held = HeldKeys(schema)
        if self._held.schema != schema:
            found = ", ".join(f"{field.name!r} {field.type}" for field in schema)
            first = ", ".join(str(field.type) for field in self._held.schema)
            raise InvalidValue(
                f"keys have other types than the first ones of the stream: {found}",
                f"cast them to {first}",
            )

    def _require_unused(self) -> None:
        """Refuse to go on with a stream that was sanitized or merged."""
        if self.used:
            raise InvalidValue(
                "the stream ended when it was sanitized or merged",
                "start another one for what comes next",
            )

    # ---- a streaming query

    def _coins_of_batch(self, batch: int) -> Secret:
        """Return the coins of a batch of a streaming query: the same each time, and others than those of elements."""
        number = batch.to_bytes(8, "little")
        key = blake2b(number, digest_size=32, key=self._secret, person=b"batch").digest()
        return Secret(key)

    def _add_counted(self, counted: pa.Table, elements: int, query: tuple[str, int]) -> None:
        """Add held keys that a batch of a streaming query has counted, with `frequency`; it had this many elements."""
        keys = counted.schema.remove(counted.schema.get_field_index("frequency"))
        self._require_types(keys)
        self._held_keys().add(counted)
        self._elements += elements
        self._query = query

    # ---- the state

    def write(self, path: PathLike, force: bool = False) -> None:
        """Write the state, atomically, to a file that only its owner can read; it goes on there from now on.

        The file that the stream was read from, or written to before, is replaced, unless somebody else changed it.
        """
        self._require_unused()
        sample = self._as_sample()
        if self._is_own_file(path):
            with locked(resolved(path)):
                self._require_unchanged(path, sample)
                self._write_state(path, sample, force=True)
        else:
            self._write_state(path, sample, force)
        self._saved = _Saved(path, self._elements)

    def _is_own_file(self, path: PathLike) -> bool:
        """Return whether the stream was read from this file, or written to it before, and the file is still there."""
        if self._saved is None or not Path(path).exists():
            return False
        return os.path.realpath(path) == os.path.realpath(self._saved.path)

    def _require_unchanged(self, path: PathLike, sample: Sample) -> None:
        """Refuse to replace a state that another process has changed, or sanitized."""
        assert self._saved is not None  # the file is our own
        there = metadata_of(path) or {}
        if there.get("used"):
            raise used_refusal()
        state = there.get("stream", {})
        same_sample = there.get("identity") == sample.identity
        if not same_sample or state.get("elements") != self._saved.elements:
            raise InvalidValue("another process has changed the state in the file", "read it again")

    def _write_state(self, path: PathLike, sample: Sample, force: bool) -> None:
        """Write the sample of what is held, with all that is needed to go on."""
        state: dict[str, Any] = {
            "elements": self._elements,
            "secret": self._secret.hex(),
            "files": self._files,
            "pipe": self._pipe,
        }
        if self._query is not None:
            state["query"] = list(self._query)
        if self._shard is not None:
            state["shard"] = list(self._shard)
        metadata = {**sample.metadata, "stream": state}
        form = format_of(path, None)
        rows = Rows(sample.table.to_batches(), sample.table.schema)
        write_table(path, rows, metadata, force=force, format=form, mode=MODE)

    def _as_sample(self) -> Sample:
        """Return what is held now as a sample, which can be sanitized."""
        return Sample(self.table, self._sampling, self._keys, identity=self._sample.identity)

    def _end(self) -> Sample:
        """Return what is held as the sample that ends the stream; its file is marked as used together with it."""
        self._sample = self._as_sample()
        if self._saved is not None:
            mark_file_with(self._sample, self._saved.path)
        return self._sample

    def sanitize(
        self,
        *,
        privacy: StatedPrivacy,
        ledger: str | os.PathLike[str] | None = None,
        keys_only: bool = False,
    ) -> Release:
        """Turn what is held into a release, once. The stream ends: it is marked as used, also in the file of its state.

        The state's file can be sanitized in its place: `dpsample.sanitize(dpsample.read_sample(path), ...)`.
        """
        self._require_unused()
        return sanitize(self._end(), privacy=privacy, ledger=ledger, keys_only=keys_only)

    @staticmethod
    def merge(streams: Iterable["Stream"]) -> Sample:
        """Put the streams of disjoint sets of keys together, as one sample, which is sanitized as others are.

        Each states its shard. The law of the sample is that of one stream of all keys. The streams end.
        """
        parts = list(streams)
        check_shards(parts)
        keys = parts[0].keys
        tables = [part.table for part in parts]
        in_order = [(name, "ascending") for name in keys]
        together = pa.concat_tables(tables).sort_by(in_order)
        distinct = together.group_by(list(keys)).aggregate([]).num_rows
        if distinct < together.num_rows:
            raise InvalidValue("two shards hold the same key", "divide the stream by key")
        merged = Sample(together, parts[0].sampling, keys)
        for part in parts:
            part._end().mark_used()
        return merged

    @classmethod
    def _from_state(cls, table: pa.Table, metadata: Mapping[str, Any]) -> "Stream":
        """Return the stream whose state a file has, without what is held."""
        state = checked_state(metadata["stream"])
        stream = cls(metadata["sampling"]["tau"], metadata["keys"], shard=state.get("shard"))
        stream._secret = bytes.fromhex(state["secret"])
        stream._elements = state["elements"]
        stream._files = dict(state["files"])
        stream._pipe = state["pipe"]
        if "query" in state:
            stream._query = tuple(state["query"])
        identity = metadata["identity"]
        stream._sample = Sample(table, stream.sampling, stream.keys, identity=identity)
        return stream

    def _hold(self, table: pa.Table) -> None:
        """Hold the keys of a state; before the first element, the types of keys are not fixed."""
        if not self._elements:
            return
        keys = table.drop_columns(["frequency"])
        counts = np.array(table.column("frequency").to_numpy(), np.int64)
        self._held = HeldKeys(keys.schema, keys, counts)


def read_stream(path: PathLike) -> Stream:
    """Read the state of a stream, to add more to it, or to sanitize it."""
    table, metadata = read_table(path, "sample", VERSION)
    if metadata.get("used"):
        raise used_refusal()
    refusal = InvalidValue("the file has no whole state of a stream", "use dpsample.read_sample")
    malformed = (LookupError, TypeError, ValueError, AttributeError)
    stream = attempt(lambda: Stream._from_state(table, metadata), refusal, *malformed)
    stream._hold(table)
    stream._saved = _Saved(path, stream._elements)
    return stream


def checked_state(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a state; one with impossible numbers of elements, or without a secret, raises ValueError."""
    query_id, batch = state.get("query", ("", 0))
    elements = state["elements"]
    of_inputs = [state["pipe"], *state["files"].values()]
    numbers = [elements, batch, *of_inputs]
    if not all(type(number) is int and 0 <= number < 2**63 for number in numbers):
        raise ValueError
    if max(of_inputs) > elements or not isinstance(query_id, str):
        raise ValueError
    if len(bytes.fromhex(state["secret"])) != _SECRET_BYTES:
        raise ValueError
    return state


def _empty(keys: Sequence[str]) -> pa.Table:
    """Return the table of a stream that holds nothing; keys without a type are text."""
    columns = {name: pa.array([], pa.string()) for name in keys}
    columns["frequency"] = pa.array([], pa.int64())
    return pa.table(columns)
