"""The engine: what every engine does, how DuckDB does it, and memory limits."""

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain, islice
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.exact import MAX_FREQUENCY
from dpsample.files.tables import check_moments
from dpsample.private.assignment import Assigned, require_cap
from dpsample.private.engine.columns import counted_schema, shaped
from dpsample.private.engine.duckdb.assignment import assigned
from dpsample.private.engine.duckdb.errors import called, is_out_of_memory, translated
from dpsample.private.engine.duckdb.opening import Tables
from dpsample.private.engine.duckdb.pairs import filled, pairs_of, read_pairs
from dpsample.private.engine.duckdb.statements import Statements
from dpsample.private.engine.duckdb.tables import Table
from dpsample.private.engine.duckdb.users import bounded, dropped
from dpsample.private.engine.errors import refusal_of_code
from dpsample.private.pairs import Kernel, Pairs
from dpsample.private.randomness import CoinSource, SecretCoins
from dpsample.private.sources.source import Source
from dpsample.scheme.sampling import Ints

_T = TypeVar("_T")

# Rows that the estimate of the number of distinct keys looks at.
_PREFIX = 1 << 16
# Rows that the estimate of the length of keys looks at.
_LENGTHS = 10_000
# The least memory limit in bytes: below it, DuckDB would have next to nothing.
_LEAST = 300 * 10**6
# Bytes that the process takes beside DuckDB's own limit, for Python, Arrow and rows on their way: about 200 MB were
# measured, with users more, so that the limit was exceeded (docs/command-line.md, Large data).
_PROCESS = 250 * 10**6
# With this memory limit in bytes, or a larger one, as much is held at once as without one.
_UNSCALED = 10**9
# Bytes that a group takes beside its key, about: it decides into how many parts keys are divided at first.
_GROUP = 48
# Bytes of memory that a thread should have: with less, DuckDB spills early.
_THREAD = 64 * 10**6
# The part of this engine's memory that a connection to a database file of DuckDB may take: it only passes rows on.
_OF_OTHERS = 4
# A part is divided at most six times more, since its groups then are not what does not fit.
_MOST_DIVISIONS = 64


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
        if threads is not None:
            _check_threads(threads)
        if temp_dir is not None:
            _check_folder(temp_dir)
        self.in_order = in_order
        super().__init__(self._config(threads), temp_dir)
        self.tables = Tables(self)

    def _config(self, threads: int | None) -> dict[str, Any]:
        """Return the settings of DuckDB."""
        config: dict[str, Any] = {
            "preserve_insertion_order": str(self.in_order).lower(),
            "autoinstall_known_extensions": "false",
        }
        if self.memory_limit is not None:
            share = share_of(self.memory_limit)
            config["memory_limit"] = f"{share}B"
            most_threads = max(1, share // _THREAD)
            threads = threads or min(os.cpu_count() or 1, most_threads)
        if threads is not None:
            config["threads"] = threads
        return config

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

    @property
    def limits(self) -> dict[str, str]:
        """The settings of another connection of DuckDB whose rows this engine reads."""
        if self.memory_limit is None:
            return {}
        return {"memory_limit": f"{share_of(self.memory_limit) // _OF_OTHERS}B"}

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
            return self._read(source, self._aggregated, counted_schema)

        def produce(table: Table) -> Iterator[pa.RecordBatch]:
            self.fill(table)
            objects = {**table.objects, "listed": lambda: _listed(known, table)}
            return self._aggregated(replace(table, objects=objects), table.with_known, only)

        return self._read(source, produce, lambda keys: counted_schema(keys, known=True))

    def restricted(self, source: Source, keys: pa.Table, outside: bool) -> Source:
        """Return the rows of just these keys, or of those outside of them, as a source; NULL keys are in both."""

        def restrict(table: Table) -> Source:
            self.fill(table)
            listed = self.name()
            nulls = " OR ".join(f"{key} IS NULL" for key in table.keys)
            is_in = "NOT IN" if outside else "IN"
            chosen = f"({', '.join(table.keys)}) {is_in} (SELECT {table.names} FROM {listed})"
            objects = {**table.objects, listed: lambda: _listed(keys, table)}
            restricted = replace(
                table, objects=objects, chosen=f"{nulls} OR {chosen}", size=lambda: None
            )
            made = copy(source)
            self.tables.add(made, restricted)
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
        return self._read(source, self._elements, lambda keys: keys)

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

        return self._read(source, produce, counted_schema)

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

        schema = counted_schema(self.check(source))
        rows = self.sort(weigh_keys(), schema, source.key)
        first = list(islice(rows, 1))  # once there is a row, all were read, and the total is known
        return chain(first, rows), total

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
        table: Table,
        join: Callable[[str, bool, str], str] | None = None,
        only: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield each key once, with its frequency.

        `join` makes SQL that adds the listed keys to counted ones, with `only` to leave out all others.
        """

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
        yield from self._aggregated_in_parts(table, parts, grouped)

    def _aggregated_in_parts(
        self, table: Table, parts: int, grouped: Callable[[str, str], str]
    ) -> Iterator[pa.RecordBatch]:
        """Yield each key once, with its frequency, part by part; a part that does not fit into memory is divided.

        `grouped` makes SQL that counts the keys of some rows; its second argument is a condition on keys.
        """
        left = [(parts, part) for part in range(parts)]
        while left:
            modulus, part = left.pop()
            # the hash of a hash: rows that share bits of the first would crowd the table that groups them
            own = f"hash(hash({table.names})) % {modulus} = {part}"
            counted = grouped(f"SELECT * FROM ({table.rows}) WHERE {own}", own)
            name = self.name()
            try:
                self.run(f"CREATE TABLE {name} AS {counted}", table.objects)
            except duckdb.OutOfMemoryException as error:
                if modulus >= _MOST_DIVISIONS * parts or not is_out_of_memory(error):
                    raise
                left += [(2 * modulus, part), (2 * modulus, part + modulus)]
            else:
                yield from self.stream(f"SELECT * FROM {name}")
            finally:
                self.drop(name)

    def _parts(self, table: Table) -> int:
        """Return into how many parts to divide keys at first, so that the groups of one about fit into memory."""
        if self.memory_limit is None:
            return 1
        length = " + ".join(table.lengths) or "0"
        first = f"SELECT {length} AS n FROM {table.item} LIMIT {_LENGTHS}"
        [(size,)] = self.run(f"SELECT coalesce(avg(n), 0) FROM ({first})", table.objects)
        most_rows = None
        if table.text is not None:  # a row has its key and a line end, at least
            most_rows = int(table.text / (size + 1))
        memory = self._distinct(table, most_rows) * (_GROUP + size)
        return 1 + int(memory) // (2 * share_of(self.memory_limit))

    def _refuse_overflow(self, table: Table) -> None:
        """Refuse keys whose frequencies sum to more than the largest one."""
        [(total,)] = self.run(f"SELECT sum(f) FROM ({table.rows})", table.objects)
        if total is None or total <= MAX_FREQUENCY:  # of all keys together
            return
        sums = f"SELECT 1 FROM ({table.rows}) GROUP BY {table.names}"
        if self.run(f"{sums} HAVING sum(f) > {MAX_FREQUENCY} LIMIT 1", table.objects):
            raise refusal_of_code("sum")

    def _elements(self, table: Table) -> Iterator[pa.RecordBatch]:
        """Yield the key of each row."""
        if table.elements is not None:
            return table.elements()
        self.fill(table)
        return self.stream(table.rows, table.objects)

    def _distinct(self, table: Table, most: int | None = None) -> int:
        """Estimate the number of distinct keys from the first rows, and from `most` rows where there is no number.

        With d distinct keys, of which f1 are seen once and f2 twice, Chao's estimate of how many there are to draw from
        is ``D = d + f1 (f1 - 1) / (2 (f2 + 1))``, and n rows draw ``D (1 - exp(-n / D))`` of them. It is far too low
        where rows are sorted by key; the parts are then split as needed.
        """
        first = f"SELECT {table.named_keys} FROM {table.item} LIMIT {_PREFIX}"
        frequencies = f"SELECT count(*) AS f FROM ({first}) GROUP BY {table.names}"
        rows_seen = "coalesce(sum(f), 0)::BIGINT"
        numbers = f"count(*), count(*) FILTER (f = 1), count(*) FILTER (f = 2), {rows_seen}"
        found = self.run(f"SELECT {numbers} FROM ({frequencies})", table.objects)
        [(distinct, once, twice, seen)] = found
        if seen < _PREFIX:
            return int(distinct)
        population = float(distinct + once * (once - 1) / (2 * (twice + 1)))
        size = table.size()
        rows = most if size is None else size
        if rows is None:
            return round(population)
        return round(-population * math.expm1(-rows / population))

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

    def _ask(self, source: Source, answer: Callable[[Table], _T]) -> _T:
        """Return an answer from the table of a source, with errors put into words."""

        def produce() -> Iterator[_T]:
            yield answer(self.tables.open(source))

        return next(translated(produce, source.location, source.fields))

    def _read(
        self,
        source: Source,
        produce: Callable[[Table], Iterator[pa.RecordBatch]],
        columns: Callable[[pa.Schema], pa.Schema],
    ) -> Iterator[pa.RecordBatch]:
        """Yield what is produced from the table of a source, with errors put into words.

        `columns` returns the schema of the batches from that of the key.
        """

        def batches() -> Iterator[pa.RecordBatch]:
            table = self.tables.open(source)
            schema = columns(table.schema)
            for batch in produce(table):
                keys = shaped(batch, schema)
                check_moments(keys)
                yield keys

        return translated(batches, source.location, source.fields)


def _listed(keys: pa.Table, table: Table) -> pa.Table:
    """Return keys of the types of a table, as k0, k1, ..."""
    names = [f"k{place}" for place in range(len(table.keys))]
    return keys.select(table.schema.names).rename_columns(names)


def _spent() -> Iterator[pa.RecordBatch]:
    """Take the place of batches that were read."""
    yield from ()
    raise InvalidValue("the stream was read before, and can be read only once", "make a new one")


def _check_threads(threads: int) -> None:
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        problem = f"`threads` must be a whole number from 1, not {threads!r}"
        raise InvalidValue(problem, "leave it out to use every core")


def _check_folder(temp_dir: str | os.PathLike[str]) -> None:
    if os.path.isdir(temp_dir) and os.access(temp_dir, os.W_OK | os.X_OK):
        return
    folder = os.fspath(temp_dir)
    problem = f"`temp_dir` must be a folder that can be written to, and {folder!r} is none"
    raise InvalidValue(problem, "make it, or choose another")


def _bytes(limit: str | int) -> int:
    """Return the number of bytes of a memory limit.

    >>> _bytes("1GB"), _bytes("512 MiB"), _bytes(2**30)
    (1000000000, 536870912, 1073741824)
    """
    text = str(limit).strip().lower()
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([kmgt]?)(i?)b?", text)
    if match is None or isinstance(limit, bool):
        problem = f"`memory_limit` must be a number of bytes, not {limit!r}"
        raise InvalidValue(problem, "write one such as '1GB'")
    number, prefix, is_binary = match.groups()
    power = ("", "k", "m", "g", "t").index(prefix)
    unit = (1024 if is_binary else 1000) ** power
    size = int(float(number) * unit)
    if size < _LEAST:
        least = f"{_LEAST // 10**6}MB"
        problem = f"`memory_limit` must be at least {least}, not {limit!r}"
        raise InvalidValue(problem, "choose a larger one, or none")
    return size


def share_of(limit: int) -> int:
    """Return DuckDB's share of a memory limit of the process; it takes up to a tenth more than its own limit."""
    return (limit - _PROCESS) * 9 // 10
