"""Stream: one pass over elements. Its state is a sample file that can be added to. NOT private."""

import html
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
import pyarrow as pa

from dpsample.answers.release import Release
from dpsample.errors import InvalidValue, attempt
from dpsample.exact import Number
from dpsample.files import PathLike, read_table, write_table
from dpsample.files.atomic_file import locked
from dpsample.files.metadata import format_of, resolved
from dpsample.files.reading import metadata_of
from dpsample.privacy import StatedPrivacy
from dpsample.private.randomness import secret_key
from dpsample.private.run import sanitize
from dpsample.private.sample import MODE, VERSION, Sample, sample_of_file, used_refusal
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
_CHUNK: Final = (
    1 << 16
)  # elements that are counted at once, at least: more of them take memory, and no less time
EVERY: Final = 10.0  # seconds between two states that are written


class Stream:
    """Keys of a stream, sampled and counted in one pass: sample and hold. NOT private.

    tau     an element whose key is not held is picked with probability 1 - exp(-tau); about tau times the number of
            elements are held at most. Choose it without looking at the data.
    key     the name of the key column, or several
    shard   (r, n) if this stream has the r-th of n disjoint sets of keys, r from 0 on, and all elements of these keys:
            such streams can be merged. Nothing is checked but what is held.

    The memory that it takes is that of the held keys. `sanitize` makes a release of it, once.

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
        self._sampling, self._keys, self._shard = (
            SampleAndHold(tau),
            check_keys(key, RESERVED),
            checked_shard(shard),
        )
        self._secret = secret_key()
        self._held: HeldKeys | None = None  # until the types of keys are known
        self._pending: list[pa.RecordBatch] = []
        self._waiting = 0  # elements that are pending
        self._elements = 0  # elements that are counted, or are being counted
        self._counting: Future[None] | None = None
        self._files: dict[str, int] = {}  # how many elements of each file are counted
        self._pipe = 0  # and of a pipe that has not come to its end
        self._query: tuple[str, int] | None = (
            None  # the streaming query that it follows, and its last batch
        )
        self._sample = Sample(_empty(self._keys), self._sampling, self._keys)
        self._saved: tuple[PathLike, int] | None = (
            None  # where it was written last, after how many elements
        )

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
        """Which of how many sets of keys it has, as stated; None if all."""
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
        return self._current().table

    def __repr__(self) -> str:
        used = ", sanitized already" if self.used else ""
        shard = "" if self._shard is None else f", shard {self._shard[0]} of {self._shard[1]}"
        return f"Stream (NOT private): {self.elements:,} elements, {self._sampling!r}{shard}{used}"

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
        for part in list(batches) if source.kind == "table" else batches:
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
        columns = list(self._keys) if key is None else key
        source = Source(paths, columns, key_as=None if key is None else list(self._keys), **options)
        if source.kind != "files" or source.aggregated:
            raise InvalidValue(
                "add_files takes only files with one row for each element", "use add"
            )
        if engine is not None and not engine.in_order:
            raise InvalidValue(
                "the engine does not keep the order of the rows of files", "leave `engine` out"
            )
        with engine or DuckDB(
            threads=1, in_order=True
        ) as used:  # more take memory, and no less time
            for path in source.listing().paths:
                one = Source(
                    path, columns, key_as=None if key is None else list(self._keys), **options
                )
                schema, batches = elements(one, used)
                self._require_types(schema)

                def count(rows: int, path: str = path) -> None:
                    self._files[path] = rows

                self._add_from(batches, self._files.get(path, 0), count, state, every)

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
        elif format in ("csv", "tsv"):
            schema, batches = csv(
                pipe, self._keys, delimiter or {"csv": ",", "tsv": "\t"}[format], drop_null
            )
        else:
            raise InvalidValue(
                f"a pipe must have lines, csv or tsv, not {format!r}",
                "write a file, and use add_files",
            )
        self._require_types(schema)

        def count(rows: int) -> None:
            self._pipe = rows

        self._add_from(batches, self._pipe, count, None, every, state)
        self._pipe = 0  # the next pipe is another one
        if state is not None:
            self.write(state)

    def _add_from(
        self,
        batches: Batches,
        done: int,
        count: Callable[[int], None],
        last: PathLike | None,
        every: float,
        state: PathLike | None = None,
    ) -> None:
        """Add what comes after the first `done` rows of an input; write the state now and then, and to `last` then."""
        state = state or last
        rows, written = 0, time.monotonic()
        for batch in batches:
            new = batch.slice(max(done - rows, 0))
            rows += batch.num_rows
            if new.num_rows:
                self._take(new)
                count(rows)
            if state is not None and time.monotonic() - written >= every:
                self.write(state)
                written = time.monotonic()
        if rows < done:
            raise InvalidValue(
                "an input has fewer elements than when it was counted before",
                "name the same input, or start a new state",
            )
        if last is not None:
            self.write(last)

    def _take(self, batch: pa.RecordBatch) -> None:
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
        assert self._held is not None
        chunk, held, start = pa.Table.from_batches(self._pending), self._held, self._elements
        self._elements, self._pending, self._waiting = start + chunk.num_rows, [], 0

        def count() -> None:
            held.count(
                chunk, words_of(self._secret, start, chunk.num_rows), self._sampling.picked_words
            )

        worker = ThreadPoolExecutor(
            1
        )  # of this process: one that was kept would not survive a fork
        self._counting = worker.submit(count)
        worker.shutdown(wait=False)

    def _wait(self) -> None:
        if self._counting is not None:
            self._counting.result()
            self._counting = None

    def _current(self) -> HeldKeys:
        """Count what is pending; return what is held."""
        self._count_pending()
        self._wait()
        return (
            HeldKeys(_empty(self._keys).drop_columns(["frequency"]).schema)
            if self._held is None
            else self._held
        )

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
        if self.used:
            raise InvalidValue(
                "the stream ended when it was sanitized or merged",
                "start another one for what comes next",
            )

    # ---- the state

    def write(self, path: PathLike, force: bool = False) -> None:
        """Write the state, atomically, to a file that only its owner can read; it goes on there from now on.

        The file that the stream was read from, or written to before, is replaced, unless somebody else changed it.
        """
        self._require_unused()
        sample = self._as_sample()
        state = {
            "elements": self._elements,
            "secret": self._secret.hex(),
            "files": self._files,
            "pipe": self._pipe,
            **({} if self._query is None else {"query": list(self._query)}),
            **({} if self._shard is None else {"shard": list(self._shard)}),
        }
        form, table = format_of(path, None), sample.table
        own = self._saved is not None and os.path.realpath(path) == os.path.realpath(self._saved[0])

        def put(replaces: bool) -> None:
            metadata = {**sample.metadata, "stream": state}
            write_table(
                path,
                table.to_batches(),
                table.schema,
                metadata,
                force=replaces,
                format=form,
                mode=MODE,
            )

        if own and self._saved is not None and Path(path).exists():
            with locked(resolved(path)):
                there = _state_of(path)
                if (
                    there.get("identity") != sample.identity
                    or there["stream"]["elements"] != self._saved[1]
                ):
                    raise InvalidValue(
                        "another process has changed the state in the file", "read it again"
                    )
                put(True)
        else:
            put(force)
        self._saved = path, self._elements

    def _as_sample(self) -> Sample:
        """What is held now, as the sample that is sanitized."""
        return Sample(self.table, self._sampling, self._keys, identity=self._sample.identity)

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
        self._sample = self._as_sample()
        if self._saved is not None:
            sample_of_file(self._sample, self._saved[0])
        return sanitize(self._sample, privacy=privacy, ledger=ledger, keys_only=keys_only)

    @staticmethod
    def merge(streams: Iterable["Stream"]) -> Sample:
        """Put the streams of disjoint sets of keys together, as one sample, which is sanitized as others are.

        Each states its shard. The law of the sample is that of one stream of all keys. The streams end.
        """
        parts = list(streams)
        check_shards(parts)
        tables = [part._as_sample().table for part in parts]
        together = pa.concat_tables(tables).sort_by([(name, "ascending") for name in parts[0].keys])
        distinct = together.group_by(list(parts[0].keys)).aggregate([]).num_rows
        if distinct < together.num_rows:
            raise InvalidValue("two shards hold the same key", "divide the stream by key")
        merged = Sample(together, parts[0].sampling, parts[0].keys)
        for part in parts:
            part._sample = part._as_sample()
            if part._saved is not None:
                sample_of_file(part._sample, part._saved[0])
            part._sample.mark_used()
        return merged


def read_stream(path: PathLike) -> Stream:
    """Read the state of a stream, to add more to it, or to sanitize it."""
    table, metadata = read_table(path, "sample", VERSION)
    if metadata.get("used"):
        raise used_refusal()
    refusal = InvalidValue("the file has no whole state of a stream", "use dpsample.read_sample")

    def made() -> Stream:
        state = checked_state(metadata["stream"])
        stream = Stream(metadata["sampling"]["tau"], metadata["keys"], shard=state.get("shard"))
        stream._secret, stream._elements = bytes.fromhex(state["secret"]), state["elements"]
        stream._files, stream._pipe = dict(state["files"]), state["pipe"]
        stream._query = tuple(state["query"]) if "query" in state else None
        stream._sample = Sample(table, stream.sampling, stream.keys, identity=metadata["identity"])
        return stream

    stream = attempt(made, refusal, LookupError, TypeError, ValueError, AttributeError)
    keys = table.drop_columns(["frequency"])
    counts = np.array(table.column("frequency").to_numpy(), np.int64)
    typed = stream.elements > 0
    stream._held = HeldKeys(keys.schema, keys, counts) if typed else None
    stream._saved = path, stream._elements
    return stream


def checked_state(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Refuse a state whose numbers of elements are none, or whose secret is not one of ours."""
    id, batch = state.get("query", ("", 0))
    elements = state["elements"]
    offsets = [state["pipe"], *state["files"].values()]
    numbers = [elements, batch, *offsets]
    if not all(type(number) is int and 0 <= number < 2**63 for number in numbers):
        raise ValueError
    secret = bytes.fromhex(state["secret"])
    if max(offsets) > elements or not isinstance(id, str) or len(secret) != _SECRET_BYTES:
        raise ValueError
    return state


def _state_of(path: PathLike) -> dict[str, Any]:
    metadata = metadata_of(path) or {}
    if metadata.get("used"):
        raise used_refusal()
    return {"stream": {"elements": None}, **metadata}


def _empty(keys: Sequence[str]) -> pa.Table:
    return pa.table(
        {
            **{name: pa.array([], pa.string()) for name in keys},
            "frequency": pa.array([], pa.int64()),
        }
    )
