"""The engine: what every engine does, how DuckDB does it, and memory limits."""

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.exact import MAX_FREQUENCY
from dpsample.files.tables import check_moments
from dpsample.private.assignment import Assigned, require_cap
from dpsample.private.engine.columns import shaped
from dpsample.private.engine.duckdb.assignment import assigned
from dpsample.private.engine.duckdb.errors import called, is_out_of_memory, translated
from dpsample.private.engine.duckdb.pairs import filled, pairs_of, read_pairs
from dpsample.private.engine.duckdb.statements import Statements
from dpsample.private.engine.duckdb.tables import Table, Tables
from dpsample.private.engine.duckdb.users import bounded, dropped
from dpsample.private.engine.errors import refusal_of_code
from dpsample.private.pairs import Kernel, Pairs
from dpsample.private.randomness import CoinSource, SecretCoins
from dpsample.private.sources.source import Source
from dpsample.scheme.sampling import Ints

_T = TypeVar("_T")

_PREFIX = 1 << 16  # rows that an estimate looks at
_LEAST = 300 * 10**6  # bytes of memory to work in: below it, DuckDB would have next to nothing
# bytes that the process takes beside DuckDB's own limit, for Python, Arrow and rows on their way: about 200 MB were
# measured, with users more, so that the limit was exceeded (docs/command-line.md, Large data)
_PROCESS = 250 * 10**6
_UNSCALED = 10**9  # bytes of a memory limit from which on as much is held at once as without one
_GROUP = 48  # bytes that a group takes beside its key, about
_THREAD = 64 * 10**6  # bytes of memory that a thread should have


class DuckDB(Statements):
    """The embedded engine, to be used in a `with` block.

    memory_limit    what the process that releases is meant to take, such as "1GB", and at least 300MB; data that needs
                    more is aggregated in parts and spilled to temporary files; docs/command-line.md says what was
                    measured; without it, DuckDB takes up to four fifths of the machine
    threads         by default as many as there are cores
    temp_dir        where temporary files go, in a private folder; they hold private data, and are removed at the end,
                    or by the next run with this temp_dir if the process was killed
    in_order        whether elements come in the order of the rows of a file, which takes a little longer

    A source is opened and checked once, and remembered until the engine is closed. What can be read only once is put
    into a temporary table first, so that it can be passed over again.

    >>> from dpsample.private.sources.source import Source
    >>> with DuckDB() as engine:
    ...     table = pa.Table.from_batches(engine.aggregated(Source(["pear", "apple", "pear"])))
    >>> table.sort_by("key").to_pydict()
    {'key': ['apple', 'pear'], 'frequency': [1, 2]}
    """

    def __init__(
        self,
        memory_limit: str | int | None = None,
        threads: int | None = None,
        temp_dir: str | os.PathLike[str] | None = None,
        in_order: bool = False,
    ) -> None:
        self.memory_limit = None if memory_limit is None else _bytes(memory_limit)
        if threads is not None and (
            isinstance(threads, bool) or not isinstance(threads, int) or threads < 1
        ):
            raise InvalidValue(
                f"`threads` must be a whole number from 1, not {threads!r}",
                "leave it out to use every core",
            )
        if temp_dir is not None and not (
            os.path.isdir(temp_dir) and os.access(temp_dir, os.W_OK | os.X_OK)
        ):
            raise InvalidValue(
                f"`temp_dir` must be a folder that can be written to, and {os.fspath(temp_dir)!r} is none",
                "make it, or choose another",
            )
        self.in_order = in_order
        config: dict[str, Any] = {
            "preserve_insertion_order": str(in_order).lower(),
            "autoinstall_known_extensions": "false",
        }
        if self.memory_limit is not None:
            share = share_of(self.memory_limit)
            config["memory_limit"] = f"{share}B"
            threads = threads or max(1, min(os.cpu_count() or 1, share // _THREAD))
        if threads is not None:
            config["threads"] = threads
        super().__init__(config, temp_dir)
        self.tables = Tables(self)

    def __enter__(self) -> "DuckDB":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and remove all temporary files; batches that are still open end with an error."""
        self.tables.forget()
        super().close()

    @property
    def scale(self) -> float:
        """How much of what is held at once without a memory limit is held with this one."""
        return 1.0 if self.memory_limit is None else min(self.memory_limit / _UNSCALED, 1.0)

    # ---- what an engine does

    def new_coins(self) -> SecretCoins:
        """Return coins for one release: nothing is done twice here."""
        return SecretCoins()

    def check(self, source: Source) -> pa.Schema:
        """Refuse, before any work, what can be refused from names, types and file endings; return the key's schema."""
        return self._ask(source, lambda table: table.schema)

    def repeatable(self, source: Source) -> bool:
        """Whether rows are the same whenever they are read: what can be read only once is kept in a table."""
        return True

    def aggregated(
        self, source: Source, known: pa.Table | None = None, only: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield each key once, with its frequency; keys of frequency 0 are left out.

        NULL keys and frequencies that are no whole numbers from 0 to 2**63 - 1 are refused before the first batch.
        With `known`, a column `known` follows, and these keys come with frequency 0 as well; with `only`, no others.
        """
        if known is None:
            return self._read(source, self._aggregated, frequency=True)

        def produce(table: Table) -> Iterator[pa.RecordBatch]:
            self.fill(table)
            objects = {**table.objects, "listed": lambda: _listed(known, table)}
            return self._aggregated(replace(table, objects=objects), table.with_known, only)

        return self._read(source, produce, frequency=True, known=True)

    def restricted(self, source: Source, keys: pa.Table, outside: bool) -> Source:
        """Return the rows of just these keys, or of those outside of them, as a source; NULL keys are in both."""

        def restrict(table: Table) -> Source:
            self.fill(table)
            name = self.name()
            nulls = " OR ".join(f"{key} IS NULL" for key in table.keys)
            listed = f"({', '.join(table.keys)}) {'NOT ' if outside else ''}IN (SELECT {table.names} FROM {name})"
            made = copy(source)
            objects = {**table.objects, name: lambda: _listed(keys, table)}
            self.tables.add(
                made,
                replace(table, objects=objects, chosen=f"{nulls} OR {listed}", size=lambda: None),
            )
            return made

        return self._ask(source, restrict)

    def elements(self, source: Source) -> Iterator[pa.RecordBatch]:
        """Yield the key column(s) only, a row for each element, in any order; for raw sources.

        A NULL key is refused when it is met.
        """
        if source.aggregated:
            raise InvalidValue(
                "a source with frequencies has no rows of single elements", "read it aggregated"
            )
        return self._read(source, self._elements, frequency=False)

    def count(self, source: Source, keys: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the frequencies of just these distinct keys; those that are not in the source are left out.

        It is the second pass over a source: what `elements` refuses, it passes over.
        """

        def produce(table: Table) -> Iterator[pa.RecordBatch]:
            self.fill(table)
            checked = replace(table, drop_null=True).rows
            rows = f"SELECT r.* FROM ({checked}) r SEMI JOIN wanted USING ({table.names})"
            objects = {**table.objects, "wanted": lambda: _listed(keys, table)}
            return self.stream(table.grouped(rows), objects)

        return self._read(source, produce, frequency=True)

    def total(self, source: Source) -> int:
        """Return the number of elements; what `aggregated` refuses is refused."""

        def answer(table: Table) -> int:
            self.fill(table)
            value = "count(*)" if table.frequency is None else "coalesce(sum(f), 0)"
            [(total,)] = self.run(f"SELECT {value} FROM ({table.rows})", table.objects)
            return int(total)

        return self._ask(source, answer)

    def weighed(
        self, source: Source, weigh: Callable[[Ints], int]
    ) -> tuple[Iterator[pa.RecordBatch], int]:
        """Aggregate into a temporary table; return its rows, in the order of keys, and the sum of their weights."""
        total = 0

        def weigh_keys() -> Iterator[pa.RecordBatch]:
            nonlocal total
            for batch in self.aggregated(source):
                total += weigh(batch.column("frequency").to_numpy())
                yield batch

        schema = self.check(source).append(pa.field("frequency", pa.int64()))
        rows = self.sort(weigh_keys(), schema, source.key)
        first = next(rows, None)  # everything was read by then
        return (iter(()) if first is None else chain([first], rows)), total

    def bounded(
        self, source: Source, limit: int, coins: CoinSource, rereads: bool = True
    ) -> Source:
        """Let each user keep at most `limit` distinct keys, and return what is kept: a key for each user who kept it.

        What is kept is in a table of its own, which is read as often as needed.
        """
        return self._ask(source, lambda table: bounded(self, source, table, limit, coins))

    def dropped(self, source: Source, limit: int, most: int) -> int:
        """Return how many distinct keys users have beyond `limit`, of each user up to `most`."""
        return self._ask(source, lambda table: dropped(self, table, limit, most))

    def forget(self, source: Source) -> None:
        """Let go of a source that `bounded` or `assigned` returned, and of its temporary files."""
        if self._connection is None:  # all was let go of
            return
        table = self.tables.remove(source)
        table.forget_more()
        self.drop(table.origin)

    def assigned(
        self,
        source: Source,
        cap: int,
        coins: CoinSource,
        prior: pa.Table | None = None,
        keep_pairs: bool = False,
    ) -> Assigned:
        """Let each user in turn give one unit to the first of their keys that has fewer than `cap`; return the units.

        DuckDB sorts the pairs of users and keys, and spills what does not fit into memory. With `keep_pairs`, they are
        also written to a temporary file.
        """
        require_cap(cap)
        return self._ask(
            source, lambda table: assigned(self, source, table, cap, coins, prior, keep_pairs)
        )

    def filled(self, given: Assigned, most: int, full: int, coins: CoinSource) -> int:
        """Return the sum over keys of min(`full`, users who keep the key): one pass over the file of pairs."""
        return filled(given.pairs, most, full, coins.fresh())

    def pairs_of(self, source: Source, keys: pa.Table, after: Assigned | None = None) -> Pairs:
        """Put the users of just these distinct keys aside, in a temporary file."""
        every = None if after is None else after.pairs
        return self._ask(source, lambda table: pairs_of(self, table, keys, every))

    def summed(self, pairs: Pairs, kernel: Kernel) -> Ints:
        """Return what a kernel makes of the pairs."""
        self._require_open()
        return kernel(read_pairs(pairs.data))

    def forget_pairs(self, pairs: Pairs) -> None:
        """Remove the file of some pairs."""
        pairs.data.path.unlink(missing_ok=True)

    def sort(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, by: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows in ascending order of some columns; text in the order of its bytes.

        >>> batch = pa.record_batch({"key": ["é", "b", "B"]})
        >>> with DuckDB() as engine:
        ...     [b["key"].to_pylist() for b in engine.sort([batch], batch.schema, ["key"])]
        [['B', 'b', 'é']]
        """
        order = ", ".join(f"c{schema.get_field_index(name)}" for name in by)

        def produce() -> Iterator[pa.RecordBatch]:
            name = self.name()
            try:
                self.spool(name, schema, batches)
                for batch in self.stream(f"SELECT * FROM {name} ORDER BY {order}"):
                    yield shaped(batch, schema)
            finally:
                self.drop(name)

        return translated(produce, "the rows to sort", ())

    # ---- how it is done

    def _aggregated(
        self,
        table: "Table",
        join: "Callable[[str, bool, str], str] | None" = None,
        only: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        def grouped(rows: str, condition: str = "true") -> str:
            if join is None:
                return table.grouped(rows)
            if only:
                rows = f"SELECT r.* FROM ({rows}) r SEMI JOIN listed USING ({table.names})"
            return join(table.grouped(rows), only, condition)

        self.fill(table)
        if table.frequency is not None:
            self._refuse_overflow(table)
        parts = self._parts(table)
        if self.memory_limit is None:
            started = False
            try:
                for batch in self.stream(grouped(table.rows), table.objects):
                    started = True
                    yield batch
                return
            except (duckdb.Error, OSError) as error:
                if started or not is_out_of_memory(error):
                    raise
            parts = 2
        if table.frequency is None:  # a part may find the faults of its own rows only
            self.run(f"SELECT count(*) FROM ({table.rows})", table.objects)
        stack = [(parts, part) for part in range(parts)]
        while stack:
            modulus, part = stack.pop()
            # the hash of a hash: rows that share bits of the first would crowd the table that groups them
            own = f"hash(hash({table.names})) % {modulus} = {part}"
            name = self.name()
            try:
                counted = grouped(f"SELECT * FROM ({table.rows}) WHERE {own}", own)
                self.run(f"CREATE TABLE {name} AS {counted}", table.objects)
            except duckdb.OutOfMemoryException as error:
                if modulus >= 64 * parts or not is_out_of_memory(error):
                    raise
                stack += [(2 * modulus, part), (2 * modulus, part + modulus)]
            else:
                yield from self.stream(f"SELECT * FROM {name}")
            finally:
                self.drop(name)

    def _parts(self, table: "Table") -> int:
        """How many parts to begin with, so that the groups of one come near to fitting into memory."""
        if self.memory_limit is None:
            return 1
        length = " + ".join(table.lengths) or "0"
        first = f"SELECT {length} AS n FROM {table.item} LIMIT 10000"
        [(size,)] = self.run(f"SELECT coalesce(avg(n), 0) FROM ({first})", table.objects)
        rows = (
            None if table.text is None else int(table.text / (size + 1))
        )  # at most, unless the first keys are long
        memory = self._distinct(table, rows) * (_GROUP + size)
        return 1 + int(memory) // (2 * share_of(self.memory_limit))

    def _refuse_overflow(self, table: "Table") -> None:
        [(total,)] = self.run(f"SELECT sum(f) FROM ({table.rows})", table.objects)
        if total is not None and total > MAX_FREQUENCY:  # of all keys together; look at each
            above = f"SELECT 1 FROM ({table.rows}) GROUP BY {table.names} HAVING sum(f) > {MAX_FREQUENCY} LIMIT 1"
            if self.run(above, table.objects):
                raise refusal_of_code("sum")

    def _elements(self, table: "Table") -> Iterator[pa.RecordBatch]:
        if table.elements is not None:
            return table.elements()
        self.fill(table)
        return self.stream(table.rows, table.objects)

    def _distinct(self, table: "Table", most: int | None = None) -> int:
        """Estimate the number of distinct keys from the first rows, and from `most` rows where there is no number.

        With d distinct keys, of which f1 are seen once and f2 twice, Chao's estimate of how many there are to draw from
        is ``D = d + f1 (f1 - 1) / (2 (f2 + 1))``, and n rows draw ``D (1 - exp(-n / D))`` of them. It is far too low
        where rows are sorted by key; the parts are then split as needed.
        """
        first = f"SELECT {table.named_keys} FROM {table.item} LIMIT {_PREFIX}"
        frequencies = f"SELECT count(*) AS f FROM ({first}) GROUP BY {table.names}"
        numbers = "count(*), count(*) FILTER (f = 1), count(*) FILTER (f = 2), coalesce(sum(f), 0)::BIGINT"
        [(distinct, once, twice, seen)] = self.run(
            f"SELECT {numbers} FROM ({frequencies})", table.objects
        )
        if seen < _PREFIX:
            return int(distinct)
        population = float(distinct + once * (once - 1) / (2 * (twice + 1)))
        size = table.size()
        rows = most if size is None else size
        return round(population if rows is None else -population * math.expm1(-rows / population))

    def fill(self, table: "Table") -> None:
        """Look through files that need it; put what is pending into its table, atomically."""
        while table.unseen:
            called(table.unseen[-1])
            table.unseen.pop()
        if table.pending is None:
            return
        schema, batches = table.pending
        table.pending = schema, _spent()
        try:
            rows = self.spool(table.origin, schema, batches)
        except BaseException:
            self.drop(table.origin)
            raise
        table.pending = None
        if table.elements is None and table.part is None:
            table.size = lambda: rows

    def _ask(self, source: Source, answer: "Callable[[Table], _T]") -> _T:
        def produce() -> Iterator[_T]:
            yield answer(self.tables.open(source))

        return next(translated(produce, source.location, source.fields))

    def _read(
        self,
        source: Source,
        produce: "Callable[[Table], Iterator[pa.RecordBatch]]",
        *,
        frequency: bool,
        known: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        def batches() -> Iterator[pa.RecordBatch]:
            table = self.tables.open(source)
            schema = (
                table.schema.append(pa.field("frequency", pa.int64()))
                if frequency
                else table.schema
            )
            schema = schema.append(pa.field("known", pa.bool_())) if known else schema
            for batch in produce(table):
                keys = shaped(batch, schema)
                check_moments(keys)
                yield keys

        return translated(batches, source.location, source.fields)


def _listed(keys: pa.Table, table: Table) -> pa.Table:
    """Keys of the types of a table, as k0, k1, ..."""
    return keys.select(table.schema.names).rename_columns([f"k{i}" for i in range(len(table.keys))])


def _spent() -> Iterator[pa.RecordBatch]:
    yield from ()
    raise InvalidValue("the stream was read before, and can be read only once", "make a new one")


def _bytes(limit: str | int) -> int:
    """Read a memory limit.

    >>> _bytes("1GB"), _bytes("512 MiB"), _bytes(2**30)
    (1000000000, 536870912, 1073741824)
    """
    powers = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([kmgt]?)(i?)b?", str(limit).strip().lower())
    if match is None or isinstance(limit, bool):
        raise InvalidValue(
            f"`memory_limit` must be a number of bytes, not {limit!r}", "write one such as '1GB'"
        )
    size = int(float(match[1]) * (1024 if match[3] else 1000) ** powers[match[2]])
    if size < _LEAST:
        raise InvalidValue(
            f"`memory_limit` must be at least {_LEAST // 10**6}MB, not {limit!r}",
            "choose a larger one, or none",
        )
    return size


def share_of(limit: int) -> int:
    """DuckDB's share of the memory of the process; it takes up to a tenth more than its own limit."""
    return (limit - _PROCESS) * 9 // 10
