"""The embedded engine: DuckDB reads, aggregates and sorts, on one machine and within a memory limit.

Every statement runs on a cursor of its own, since a connection with an open result takes no other statement. Rows are
checked where they are read, by a filter that raises a marked error; the marks are turned into refusals here, and
DuckDB's own messages, which may quote the data, go no further.

    DuckDB                     the engine: its methods, then its statements
    _Table, _Tables            how sources look from inside DuckDB
    _Database                  how databases aggregate their own rows
    _fault ... _refusal        what is refused, and in which words
"""

import csv
import glob
import gzip
import importlib
import math
import os
import re
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, TypeVar
from urllib.parse import quote

import duckdb
import pyarrow as pa

from dpsample.errors import DpsampleError, InvalidValue
from dpsample.scheme.sampling import MAX_FREQUENCY
from dpsample.source import Source, null_refusal

_BATCH = 122_880  # rows: one of DuckDB's row groups
_PREFIX = 1 << 16  # rows that an estimate looks at
_MARK = "dpsample-refused"
_LEAST = 200 * 10**6  # bytes of memory to work in
_THREAD = 64 * 10**6  # bytes of memory that a thread should have
_PLAIN = {"boolean", "decimal", "varchar", "blob", "date", "time", "time_ns", "timestamp", "timestamp with time zone"}
_PLAIN |= {"timestamp_s", "timestamp_ms", "timestamp_ns"}
_INTEGERS = {"tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger", "ubigint"}
_SETTINGS = "SET enable_progress_bar = false; SET TimeZone = 'UTC'"

_T = TypeVar("_T")
_Objects = Mapping[str, Callable[[], Any]]  # names in a statement -> what makes the Arrow object behind it


class DuckDB:
    """The embedded engine, to be used in a `with` block.

    memory_limit    for the whole process, such as "1GB"; data that needs more is aggregated in parts and spilled to
                    temporary files; without it, DuckDB takes what it needs up to four fifths of the machine
    threads         as many as there are cores unless told
    temp_dir        where temporary files go, in a private folder that is removed at the end; they hold private data

    A source is opened and checked once, and remembered until the engine is closed. What can be read only once is put
    into a temporary table first, so that it can be passed over again.

    >>> from dpsample.source import Source
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
    ) -> None:
        self.memory_limit = None if memory_limit is None else _bytes(memory_limit)
        if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
            raise InvalidValue("threads is a whole number from 1", f"{threads!r}", "leave it out to use every core")
        if temp_dir is not None and not (os.path.isdir(temp_dir) and os.access(temp_dir, os.W_OK | os.X_OK)):
            raise InvalidValue(
                "temp_dir is a folder that can be written to", f"{os.fspath(temp_dir)!r}", "make it, or choose another"
            )
        self._temp = tempfile.TemporaryDirectory(prefix="dpsample-", dir=temp_dir)  # mode 0700
        config: dict[str, Any] = {
            "temp_directory": self._temp.name,
            "preserve_insertion_order": "false",
            "autoinstall_known_extensions": "false",
        }
        if self.memory_limit is not None:
            share = _share(self.memory_limit)
            config["memory_limit"] = f"{share}B"
            threads = threads or max(1, min(os.cpu_count() or 1, share // _THREAD))
        if threads is not None:
            config["threads"] = threads
        self._connection: duckdb.DuckDBPyConnection | None = None
        try:
            self._connection = duckdb.connect(":memory:", config=config)
        finally:
            if self._connection is None:
                self._temp.cleanup()
        self._cursors: list[duckdb.DuckDBPyConnection] = []
        self._names = (f"spool_{i}" for i in count())
        self._tables = _Tables(self)

    def __enter__(self) -> "DuckDB":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and remove all temporary files; batches that are still open end with an error."""
        if self._connection is None:
            return
        connection, self._connection = self._connection, None
        self._tables.forget()
        try:
            for cursor in self._cursors:
                cursor.close()
            connection.close()
        finally:
            self._temp.cleanup()

    # ---- what an engine does

    def check(self, source: Source) -> pa.Schema:
        """Refuse, before any work, what can be refused from names, types and file endings; return the key's schema."""
        return self._ask(source, lambda table: table.schema)

    def aggregated(self, source: Source) -> Iterator[pa.RecordBatch]:
        """Yield each key once, with its frequency; keys of frequency 0 are left out.

        NULL keys and frequencies that are no whole numbers from 0 to 2**63 - 1 are refused before the first batch.
        """
        return self._read(source, self._aggregated, frequency=True)

    def elements(self, source: Source) -> Iterator[pa.RecordBatch]:
        """Yield the key column(s) only, a row for each element, in any order; for raw sources.

        A NULL key is refused when it is met.
        """
        if source.aggregated:
            raise InvalidValue(
                "elements are read one by one from raw rows", "a source with frequencies", "read it aggregated"
            )
        return self._read(source, self._elements, frequency=False)

    def count(self, source: Source, keys: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the frequencies of just these distinct keys; those that are not in the source are left out.

        It is the second pass over a source: what `elements` refuses, it passes over.
        """
        wanted = keys.select(list(source.key)).rename_columns([f"k{i}" for i in range(len(source.key))])

        def produce(table: _Table) -> Iterator[pa.RecordBatch]:
            self._fill(table)
            match = " AND ".join(f"r.k{i} = w.k{i}" for i in range(len(table.keys)))
            rows = f"SELECT r.* FROM ({replace(table, drop_null=True).rows}) r SEMI JOIN wanted w ON {match}"
            return self.stream(table.grouped(rows), {**table.objects, "wanted": lambda: wanted})

        return self._read(source, produce, frequency=True)

    def rows(self, source: Source) -> int | None:
        """Return the number of rows, NULL keys included, if it is known without reading them."""
        return self._ask(source, lambda table: table.size())

    def distinct_estimate(self, source: Source) -> int | None:
        """Return a cheap, rough estimate of the number of distinct keys, for planning only.

        From the first rows, d distinct keys of which f1 are seen once and f2 twice, Chao's estimate of how many there
        are to draw from, ``D = d + f1 (f1 - 1) / (2 (f2 + 1))``, and how many of these n rows draw,
        ``D (1 - exp(-n / D))``. Far too low where rows are sorted by key. None where rows are not at hand.
        """
        if source.kind == "mapping":
            return len(source.data)
        return self._ask(source, lambda table: None if table.pending else self._distinct(table))

    def sort(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, by: Sequence[str]) -> Iterator[pa.RecordBatch]:
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
                self._spool(name, schema, batches)
                for batch in self.stream(f"SELECT * FROM {name} ORDER BY {order}"):
                    yield _shaped(batch, schema)
            finally:
                self._drop(name)

        return _translated(produce, "the rows to sort", ())

    # ---- how it is done

    def _aggregated(self, table: "_Table") -> Iterator[pa.RecordBatch]:
        self._fill(table)
        if table.frequency is not None:
            self._refuse_overflow(table)
        parts = self._parts(table)
        if self.memory_limit is None:
            started = False
            try:
                for batch in self.stream(table.grouped(table.rows), table.objects):
                    started = True
                    yield batch
                return
            except (duckdb.Error, OSError) as error:
                if started or not _is_out_of_memory(error):
                    raise
            parts = 2
        if table.frequency is None:  # a part may find the faults of its own rows only
            self.run(f"SELECT count(*) FROM ({table.rows})", table.objects)
        stack = [(parts, part) for part in range(parts)]
        while stack:
            modulus, part = stack.pop()
            # the hash of a hash: rows that share bits of the first would crowd the table that groups them
            rows = f"SELECT * FROM ({table.rows}) WHERE hash(hash({table.names})) % {modulus} = {part}"
            name = self.name()
            try:
                self.run(f"CREATE TABLE {name} AS {table.grouped(rows)}", table.objects)
            except duckdb.OutOfMemoryException as error:
                if modulus >= 64 * parts or not _is_out_of_memory(error):
                    raise
                stack += [(2 * modulus, part), (2 * modulus, part + modulus)]
            else:
                yield from self.stream(f"SELECT * FROM {name}")
            finally:
                self._drop(name)

    def _parts(self, table: "_Table") -> int:
        """How many parts to begin with, so that the groups of one come near to fitting into memory."""
        if self.memory_limit is None:
            return 1
        lengths = {pa.string(): "strlen", pa.binary(): "octet_length"}
        columns = [(sql, lengths.get(f.type)) for sql, f in zip(table.keys, table.schema, strict=True)]
        length = " + ".join(f"{function}({sql})" for sql, function in columns if function) or "0"
        first = f"SELECT {length} AS n FROM {table.origin} LIMIT 10000"
        [(size,)] = self.run(f"SELECT coalesce(avg(n), 0) FROM ({first})", table.objects)
        return 1 + int(self._distinct(table) * (48 + size)) // (2 * _share(self.memory_limit))

    def _refuse_overflow(self, table: "_Table") -> None:
        [(total,)] = self.run(f"SELECT sum(f) FROM ({table.rows})", table.objects)
        if total is not None and total > MAX_FREQUENCY:  # of all keys together; look at each
            above = f"SELECT 1 FROM ({table.rows}) GROUP BY {table.names} HAVING sum(f) > {MAX_FREQUENCY} LIMIT 1"
            if self.run(above, table.objects):
                raise _marked("sum", "")

    def _elements(self, table: "_Table") -> Iterator[pa.RecordBatch]:
        if table.elements is not None:
            return table.elements()
        self._fill(table)
        return self.stream(table.rows, table.objects)

    def _distinct(self, table: "_Table") -> int:
        chosen = ", ".join(f"{sql} AS k{i}" for i, sql in enumerate(table.keys))
        first = f"SELECT {chosen} FROM {table.origin} LIMIT {_PREFIX}"
        frequencies = f"SELECT count(*) AS f FROM ({first}) GROUP BY {table.names}"
        numbers = "count(*), count(*) FILTER (f = 1), count(*) FILTER (f = 2), coalesce(sum(f), 0)::BIGINT"
        [(distinct, once, twice, seen)] = self.run(f"SELECT {numbers} FROM ({frequencies})", table.objects)
        if seen < _PREFIX:
            return int(distinct)
        population, rows = float(distinct + once * (once - 1) / (2 * (twice + 1))), table.size()
        return round(population if rows is None else -population * math.expm1(-rows / population))

    # ---- statements

    def run(self, sql: str, objects: _Objects | None = None) -> list[Any]:
        """Run a statement to its end."""
        with self._cursor(objects) as cursor:
            rows: list[Any] = _waited(cursor, lambda: cursor.execute(sql).fetchall())
            return rows

    def stream(self, sql: str, objects: _Objects | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the result of a query, as it is made."""
        with self._cursor(objects) as cursor:
            for batch in _waited(cursor, lambda: cursor.sql(sql).to_arrow_reader(_BATCH)):
                if batch.num_rows:
                    yield batch
                self._require_open()  # or the result of a closed cursor just seems to have come to its end

    def describe(self, origin: str, objects: _Objects | None = None) -> list[tuple[str, Any]]:
        """Return the names and DuckDB types of the columns of a FROM item."""
        with self._cursor(objects) as cursor:
            relation = cursor.sql(f"SELECT * FROM {origin} LIMIT 0")
            return list(zip(relation.columns, relation.types, strict=True))

    def schema(self, sql: str, objects: _Objects | None = None) -> pa.Schema:
        """Return the Arrow schema of a query's result."""
        with self._cursor(objects) as cursor:
            return cursor.sql(f"{sql} LIMIT 0").to_arrow_reader(1).schema

    def name(self) -> str:
        """Return a name for a table that no other has."""
        return next(self._names)

    @contextmanager
    def _cursor(self, objects: _Objects | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        cursor = self._require_open().cursor()
        self._cursors.append(cursor)
        try:
            cursor.execute(_SETTINGS).fetchall()
            for name, make in (objects or {}).items():
                cursor.register(name, make())
            yield cursor
        finally:
            self._cursors.remove(cursor)
            cursor.close()

    def _require_open(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            raise InvalidValue("an engine must be open", "a closed one", "use it inside its `with` block")
        return self._connection

    def _spool(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Put batches into a new table, which may spill, with columns c0, c1, ...; return the number of rows."""
        rows = 0
        with self._cursor({"empty": lambda: _numbered(schema.empty_table())}) as cursor:
            cursor.execute(f"CREATE TABLE {name} AS SELECT * FROM empty").fetchall()
            for table in _gathered(batches):
                cursor.register("batch", _numbered(table))
                cursor.execute(f"INSERT INTO {name} SELECT * FROM batch").fetchall()
                cursor.unregister("batch")
                rows += table.num_rows
        return rows

    def _fill(self, table: "_Table") -> None:
        """Look through files that need it; put what is pending into its table, whole or not at all."""
        while table.unseen:
            table.unseen[-1]()
            table.unseen.pop()
        if table.pending is None:
            return
        schema, batches = table.pending
        table.pending = schema, _spent()
        try:
            rows = self._spool(table.origin, schema, batches)
        except BaseException:
            self._drop(table.origin)
            raise
        table.pending = None
        if table.elements is None:
            table.size = lambda: rows

    def _drop(self, name: str) -> None:
        if self._connection is not None:
            self.run(f"DROP TABLE IF EXISTS {name}")

    def _ask(self, source: Source, answer: "Callable[[_Table], _T]") -> _T:
        def produce() -> Iterator[_T]:
            yield answer(self._tables.open(source))

        return next(_translated(produce, source.where, source.key))

    def _read(
        self, source: Source, produce: "Callable[[_Table], Iterator[pa.RecordBatch]]", *, frequency: bool
    ) -> Iterator[pa.RecordBatch]:
        def shaped() -> Iterator[pa.RecordBatch]:
            table = self._tables.open(source)
            schema = table.schema.append(pa.field("frequency", pa.int64())) if frequency else table.schema
            for batch in produce(table):
                yield _shaped(batch, schema)

        return _translated(shaped, source.where, source.key)


@dataclass
class _Table:
    """How a source looks from inside DuckDB: a FROM item, and SQL for its key and frequency."""

    origin: str
    schema: pa.Schema  # of the key, under its own names
    keys: list[str]
    frequency: str | None = None  # a whole number, or NULL where a fault is
    faults: list[tuple[str, str]] = field(default_factory=list)  # condition on a row -> why it is refused
    drop_null: bool = False
    objects: _Objects = field(default_factory=dict)  # what `origin` names
    pending: tuple[pa.Schema, Iterator[pa.RecordBatch]] | None = None  # what is still to be put into `origin`
    unseen: list[Callable[[], None]] = field(default_factory=list)  # looks to be taken before the first row
    elements: Callable[[], Iterator[pa.RecordBatch]] | None = None  # a way of its own to the elements
    size: Callable[[], int | None] = lambda: None

    @property
    def names(self) -> str:
        """The names of the key columns in `rows`."""
        return ", ".join(f"k{i}" for i in range(len(self.keys)))

    @property
    def rows(self) -> str:
        """The checked rows: k0, k1, ... and, unless they are raw, f."""
        chosen = [f"{sql} AS k{i}" for i, sql in enumerate(self.keys)]
        chosen += [] if self.frequency is None else [f"{self.frequency} AS f"]
        cases = [
            f"WHEN {sql} IS NULL THEN {'false' if self.drop_null else _raise(f'null:{i}')}"
            for i, sql in enumerate(self.keys)
        ]
        cases += [f"WHEN {condition} THEN {_raise(code)}" for condition, code in self.faults]
        return f"SELECT {', '.join(chosen)} FROM {self.origin} WHERE CASE {' '.join(cases)} ELSE true END"

    def grouped(self, rows: str) -> str:
        """Each key of some rows once, with its frequency."""
        if self.frequency is None:
            return f"SELECT {self.names}, count(*) AS frequency FROM ({rows}) GROUP BY {self.names}"
        total = "CAST(sum(f) AS BIGINT) AS frequency"
        return f"SELECT {self.names}, {total} FROM ({rows}) GROUP BY {self.names} HAVING sum(f) > 0"


class _Tables:
    """The tables of an engine's sources, each made and checked once."""

    def __init__(self, engine: DuckDB) -> None:
        self._engine = engine
        self._known: dict[int, tuple[Source, _Table]] = {}

    def forget(self) -> None:
        self._known.clear()

    def open(self, source: Source) -> _Table:
        if id(source) not in self._known:
            self._known[id(source)] = source, self._make(source)  # the source is kept, so that its id is
        return self._known[id(source)][1]

    def _make(self, source: Source) -> _Table:
        if source.kind == "database":
            return self._database(source)
        if source.kind == "table":
            table = source.as_table()
            made = self._table(source, "source", {"source": lambda: _numbered(table)})
            made.size = lambda: table.num_rows
            return made
        if source.kind != "files":
            made = self._pending(source, *source.as_batches())
            if hasattr(source.data, "__len__") and source.kind != "stream":
                made.size = lambda: len(source.data)
            return made
        format, paths = source.files()
        for path in paths:
            if not os.access(path, os.R_OK):
                raise InvalidValue("a file must be readable", f"no permission for {path!r}", "check who may read it")
        if format == "parquet":
            return self._parquet(source, paths)
        if format == "jsonl":
            return self._json(source, paths)
        if format == "arrow":
            return self._arrow(source, paths)
        return self._csv(source, paths, "," if format == "csv" else "\t")

    def _table(self, source: Source, origin: str, objects: _Objects | None = None, form: str = "typed") -> _Table:
        """Make the table of a FROM item with the columns of the source, in order, as c0, c1, ..."""
        types = [kind for _, kind in self._engine.describe(origin, objects)]
        keys = [_key(name, f"c{i}", types[i], form) for i, name in enumerate(source.key)]
        faults = [
            (f"json_type(c{i}) IN ('OBJECT', 'ARRAY')", f"nested:{i}") for i in range(len(keys)) if form == "json"
        ]
        frequency = None
        if source.aggregated:
            column, name = f"c{len(keys)}", source.frequency or "frequency"
            frequency = f"TRY_CAST({column} AS BIGINT)"
            faults += _faults(column, _family(name, str(types[-1].id)) if form == "typed" else "text")
        schema = self._schema(source, keys, origin, objects)
        return _Table(origin, schema, keys, frequency, faults, source.drop_null, objects or {})

    def _schema(self, source: Source, keys: list[str], origin: str, objects: _Objects | None) -> pa.Schema:
        chosen = ", ".join(f"{sql} AS k{i}" for i, sql in enumerate(keys))
        found = self._engine.schema(f"SELECT {chosen} FROM {origin}", objects)
        return pa.schema([pa.field(name, f.type) for name, f in zip(source.key, found, strict=True)])

    def _pending(self, source: Source, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> _Table:
        table = self._table(source, "empty", {"empty": lambda: _numbered(schema.empty_table())})
        return replace(table, origin=self._engine.name(), objects={}, pending=(schema, batches))

    def _parquet(self, source: Source, paths: list[str]) -> _Table:
        found: list[tuple[str, ...]] = []
        for path in paths:
            columns = dict(self._engine.describe(f"read_parquet({_paths([path])}, hive_partitioning = false)"))
            source.require(list(columns))
            found.append(tuple(str(columns[name]) for name in source.columns))
        _require_agreement(source, found)
        chosen = ", ".join(f"{_name(name)} AS c{i}" for i, name in enumerate(source.columns))
        table = self._table(source, f"(SELECT {chosen} FROM read_parquet({_paths(paths)}, hive_partitioning = false))")
        counted = f"SELECT sum(num_rows)::BIGINT FROM parquet_file_metadata({_paths(paths)})"
        table.size = lambda: int(self._engine.run(counted)[0][0])
        return table

    def _csv(self, source: Source, paths: list[str], separator: str) -> _Table:
        headers: dict[tuple[str, ...], list[str]] = {}
        for path in paths:
            header = _header(path, separator)
            source.require(header, shown=False)
            headers.setdefault(tuple(header), []).append(path)

        # not in parallel: many threads lose or repeat rows, silently, where quoted fields have quotes and line ends
        options = (
            f"auto_detect = false, header = true, strict_mode = true, parallel = false, delim = {_text(separator)}, "
        )
        options += "quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = false"
        scans = []
        for names, alike in headers.items():
            types = ", ".join(f"h{i}: 'VARCHAR'" for i in range(len(names)))
            chosen = ", ".join(f"h{names.index(name)} AS c{i}" for i, name in enumerate(source.columns))
            scans.append(f"SELECT {chosen} FROM read_csv({_paths(alike)}, columns = {{{types}}}, {options})")
        table = self._table(source, f"({' UNION ALL '.join(scans)})", form="csv")
        return replace(table, unseen=[partial(_require_even_quotes, path) for path in paths])

    def _json(self, source: Source, paths: list[str]) -> _Table:
        options = f"{_paths(paths)}, format = 'newline_delimited'"
        first = f"SELECT json FROM read_json_objects({options}) LIMIT 1000"
        names = [name for (name,) in self._engine.run(f"SELECT DISTINCT unnest(json_keys(json)) FROM ({first})")]
        if names:
            source.require(names, shown=False)
        kinds = ["JSON"] * len(source.key) + ["VARCHAR"] * source.aggregated
        types = ", ".join(f"{_text(name)}: '{kind}'" for name, kind in zip(source.columns, kinds, strict=True))
        chosen = ", ".join(f"{_name(name)} AS c{i}" for i, name in enumerate(source.columns))
        scan = f"SELECT {chosen} FROM read_json({options}, records = true, columns = {{{types}}})"
        unseen: list[Callable[[], None]] = [partial(_require_whole, path) for path in paths if path.endswith(".gz")]
        return replace(self._table(source, f"({scan})", form="json"), unseen=unseen)

    def _arrow(self, source: Source, paths: list[str]) -> _Table:
        schemas = []
        for path in paths:
            with pa.memory_map(path) as file:
                schemas.append(_ipc(file).schema)
            source.require(schemas[-1].names)
        _require_agreement(source, [tuple(str(schema.field(c).type) for c in source.columns) for schema in schemas])
        fields = [schemas[0].field(name) for name in source.columns]
        schema = pa.schema([pa.field(f"c{i}", f.type) for i, f in enumerate(fields)])

        def batches() -> Iterator[pa.RecordBatch]:
            for path in paths:
                with pa.memory_map(path) as file:
                    reader = _ipc(file)
                    many = isinstance(reader, pa.ipc.RecordBatchFileReader)
                    for batch in map(reader.get_batch, range(reader.num_record_batches)) if many else reader:
                        chosen = pa.RecordBatch.from_arrays([batch.column(c) for c in source.columns], schema=schema)
                        chosen.validate(full=True)  # a damaged file would be read out of bounds
                        yield chosen

        return self._table(source, "source", {"source": lambda: pa.RecordBatchReader.from_batches(schema, batches())})

    def _database(self, source: Source) -> _Table:
        database = _Database(source)
        keys = [f"c{i}" for i in range(len(source.key))]
        frequency, fault = f"c{len(keys)}", f"c{len(keys) + 1}"
        empty = pa.schema(list(zip(keys, database.types, strict=True))).empty_table()

        def elements() -> Iterator[pa.RecordBatch]:
            for batch in database.elements():
                gaps = [name for name, column in zip(source.key, batch.columns, strict=True) if column.null_count]
                if gaps and not source.drop_null:
                    raise null_refusal(gaps[0])
                yield batch.drop_null() if gaps else batch

        return _Table(
            origin=self._engine.name(),
            schema=self._schema(source, keys, "empty", {"empty": lambda: empty}),
            keys=keys,
            frequency=f"TRY_CAST({frequency} AS BIGINT)",
            faults=[
                *((f"{fault} = {i}", code) for i, code in enumerate(_WORDS)),
                (f"TRY_CAST({frequency} AS BIGINT) IS NULL", "sum"),
            ],
            drop_null=source.drop_null,
            pending=database.grouped(),
            elements=elements,
        )


class _Database:
    """A source in a database, which aggregates its own rows; read over ADBC."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._sqlite = source.data.startswith("sqlite")
        if source.query is not None:
            self._item = f"({source.query.strip().rstrip(';')}\n) AS source_rows"
        else:
            self._item = ".".join(_name(part) for part in str(source.table).split(".", 1))
        [found, *_] = self._run(f"SELECT * FROM {self._item} LIMIT 0")
        source.require(found.names)
        self._family = "stored"  # SQLite's columns hold what they are given
        if not self._sqlite and source.frequency is not None:
            self._family = self._number(found.field(source.frequency))
        kinds = self._stored() if self._sqlite else [self._declared(found.field(name)) for name in source.key]
        self.types = [kind for kind, _ in kinds]
        self._keys = [sql for _, sql in kinds]  # compared byte by byte, whatever the column's own collation

    def elements(self) -> Iterator[pa.RecordBatch]:
        """Return the key of each row."""
        schema = pa.schema(list(zip(self._source.key, self.types, strict=True)))
        return self._batches(f"SELECT {', '.join(self._keys)} FROM {self._item}", schema)

    def grouped(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return each key, its frequency as text, and the number of the worst fault of its rows."""
        value, fault = "count(*)", "-1"
        if self._source.frequency is not None:
            column = _name(self._source.frequency)
            faults = _faults(column, self._family)
            numbers = [(condition, list(_WORDS).index(code)) for condition, code in faults]
            fault = f"max(CASE {' '.join(f'WHEN {condition} THEN {n}' for condition, n in numbers)} ELSE -1 END)"
            no_fault = f"CASE {' '.join(f'WHEN {condition} THEN 0' for condition, _ in numbers)} "
            value = f"sum({no_fault} ELSE CAST({column} AS BIGINT) END)"
        places = ", ".join(str(i + 1) for i in range(len(self._keys)))
        chosen = f"{', '.join(self._keys)}, CAST({value} AS TEXT), {fault}"
        names = [*self._source.key, "frequency", "fault"]
        schema = pa.schema(list(zip(names, [*self.types, pa.string(), pa.int64()], strict=True)))
        return schema, self._batches(f"SELECT {chosen} FROM {self._item} GROUP BY {places}", schema)

    def _stored(self) -> list[tuple[pa.DataType, str]]:
        """SQLite gives every value a type of its own: look at all of them."""
        types = {"integer": pa.int64(), "text": pa.string(), "blob": pa.binary()}
        chosen = [f"max(typeof({_name(name)}) = '{kind}')" for name in self._source.key for kind in (*types, "real")]
        [_, batch, *_] = self._run(f"SELECT {', '.join(chosen)} FROM {self._item}")
        present = [bool(column[0].as_py()) for column in batch.columns]
        result = []
        for i, name in enumerate(self._source.key):
            kinds = [kind for kind, found in zip((*types, "real"), present[4 * i : 4 * i + 4], strict=True) if found]
            if "real" in kinds:
                raise _type_refusal(name, "real", "floats")
            if len(kinds) > 1:
                raise InvalidValue(
                    f"the key column {name!r} must have values of one type",
                    " and ".join(kinds),
                    f"write query='SELECT CAST({name} AS TEXT) ...' instead of table=",
                )
            kind = kinds[0] if kinds else "text"
            result.append((types[kind], f"{_name(name)} COLLATE BINARY" if kind == "text" else _name(name)))
        return result

    def _declared(self, column: pa.Field) -> tuple[pa.DataType, str]:
        kind, sql = column.type, _name(column.name)
        if pa.types.is_string(kind) or str(kind) == "extension<arrow.uuid>":
            return pa.string(), f'CAST({sql} AS text) COLLATE "C"'
        if pa.types.is_floating(kind):
            raise _type_refusal(column.name, str(kind), "floats")
        if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
            raise _type_refusal(column.name, (column.metadata or {}).get(b"POSTGRESQL:type", b"other").decode(), "")
        return kind, sql

    def _number(self, column: pa.Field) -> str:
        if pa.types.is_integer(column.type):
            return "integer"
        if pa.types.is_floating(column.type):
            return "float"
        kind = (column.metadata or {}).get(b"POSTGRESQL:type", b"other").decode()
        return _family(column.name, "decimal" if kind == "numeric" else kind)

    def _batches(self, sql: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        results = self._run(sql)
        next(results)
        for batch in results:
            yield _shaped(batch, schema)

    def _run(self, sql: str) -> Iterator[Any]:
        """Yield the schema of a result, then its batches."""
        problem: DpsampleError
        try:
            with self._connect() as connection, connection.cursor() as cursor:
                if self._sqlite:
                    cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": "65536"})
                cursor.execute(sql)
                reader = cursor.fetch_record_batch()
                yield reader.schema
                yield from reader
            return
        except DpsampleError:
            raise
        except Exception as error:  # of ADBC, Arrow or the system: their messages quote statements and values
            problem = self._refusal(error)
        raise problem

    def _connect(self) -> Any:
        name = "sqlite" if self._sqlite else "postgresql"
        try:
            driver = importlib.import_module(f"adbc_driver_{name}.dbapi")
        except ImportError:
            raise InvalidValue(
                f"a {name} source needs its ADBC driver", "none installed", f"run: pip install 'dpsample[{name}]'"
            ) from None
        if not self._sqlite:
            return driver.connect(self._source.data)
        path = self._source.data.partition(":///")[2]
        if not os.path.isfile(path):
            raise InvalidValue(
                "a sqlite URI must name a file",
                f"nothing at {path!r}",
                "write sqlite:///relative/path or, with four slashes, sqlite:////absolute/path",
            )
        return driver.connect(f"file:{quote(os.path.abspath(path))}?mode=ro")

    def _refusal(self, error: Exception) -> DpsampleError:
        state, message = getattr(error, "sqlstate", None) or "", str(error)
        rule = f"{self._source.where} must answer the query"
        if "integer overflow" in message:
            return _marked("sum", "")
        if state == "42P01" or "no such table" in message:
            return InvalidValue(rule, "no table of that name", "check the table's name and schema")
        if state == "42703" or "no such column" in message:
            return InvalidValue(rule, "a column that is not there", "check the query")
        if state == "42501":
            return InvalidValue(rule, "no permission to read the table", "ask for it")
        if "Failed to connect" in message or state.startswith(("08", "28")):
            return InvalidValue(
                f"{self._source.where} must accept a connection", "none", "check server, database, user and password"
            )
        remedy = "try the query in the database's own shell"
        return InvalidValue(rule, f"a failure{f' of SQLSTATE {state}' if state else ''}", remedy)


# ---- what is refused, and in which words

_WORDS = {
    "missing": "at least one row without a frequency (NULL)",
    "negative": "at least one negative frequency",
    "large": "at least one that is too large, infinite or NaN (floats are exact up to 2**53)",
    "fractional": "at least one frequency with a fraction",
    "text": "at least one that is not written as a plain whole number up to 2**63 - 1",
    "sum": "at least one key whose frequencies sum to more",
}


def _faults(column: str, family: str) -> list[tuple[str, str]]:
    """Conditions under which a frequency is refused, in SQL that all databases here understand; the first one counts.

    NaN is above every number for DuckDB and PostgreSQL, and SQLite has none.
    """
    number = f"TRY_CAST({column} AS BIGINT)"
    missing, negative = (f"{column} IS NULL", "missing"), (f"{column} < 0", "negative")
    fractional = (f"{column} <> CAST({column} AS BIGINT)", "fractional")
    above = (f"NOT {column} <= {MAX_FREQUENCY}", "large")
    above_exact = f"NOT {column} <= {2**53}"
    return {
        "text": [
            missing,
            (f"{number} < 0", "negative"),
            (f"CAST({number} AS VARCHAR) IS DISTINCT FROM {column}", "text"),
        ],
        "integer": [missing, negative, above],
        "decimal": [missing, negative, above, fractional],
        "float": [missing, negative, (above_exact, "large"), fractional],
        "stored": [
            missing,
            (f"typeof({column}) NOT IN ('integer', 'real')", "text"),
            negative,
            (f"typeof({column}) = 'real' AND {above_exact}", "large"),
            fractional,
        ],
    }[family]


def _raise(code: str) -> str:
    return f"error('{_MARK}:{code}')"


def _marked(code: str, column: str) -> DpsampleError:
    """Put a mark into words."""
    if code == "null":
        return null_refusal(column)
    if code == "nested":
        return _type_refusal(column, "an object or array", "nested values")
    return InvalidValue(
        "frequencies must be whole numbers from 0 to 2**63 - 1", _WORDS[code], "count the elements of each key"
    )


def _type_refusal(name: str, found: str, what: str) -> DpsampleError:
    why = {
        "floats": "; floats are not compared exactly (0.1 + 0.2, -0.0, NaN)",
        "nested values": "; it may be made of several columns instead",
    }
    return InvalidValue(
        f"the key column {name!r} must be of integers, decimals, text, bytes, booleans, dates or times"
        + why.get(what, ""),
        found,
        "cast it to text or to an integer first",
    )


def _key(name: str, column: str, kind: Any, form: str) -> str:
    """SQL of a key column."""
    if form == "json":
        return f"({column} ->> '$')"
    found = str(kind.id)
    if found in ("enum", "uuid", "null") or str(kind) in ("JSON", '"NULL"'):
        return f"CAST({column} AS VARCHAR)"
    if found in _PLAIN | _INTEGERS:
        return column
    what = "floats" if found in ("float", "double") else ""
    what = "nested values" if found in ("list", "array", "struct", "map", "union", "variant") else what
    raise _type_refusal(name, f"type {found}", what)


def _family(name: str, kind: str) -> str:
    if kind in _INTEGERS:
        return "integer"
    if kind in ("float", "double"):
        return "float"
    if kind == "decimal":
        return "decimal"
    raise InvalidValue(f"the frequency column {name!r} must be of numbers", f"type {kind}", "name another, or cast it")


def _require_agreement(source: Source, found: list[tuple[str, ...]]) -> None:
    """Refuse files of one source whose columns have different types, of which one would be converted."""
    for name, types in zip(source.columns, zip(*found, strict=True), strict=True):
        if len(set(types)) > 1:
            raise InvalidValue(
                f"all files must have the same type of column {name!r}",
                " and ".join(sorted(set(types))),
                "write the files alike, or hand in a DuckDB relation that casts it",
            )


def _is_out_of_memory(error: Exception) -> bool:
    return "Out of Memory Error" in str(error)[:40] and "temp_directory_size" not in str(error)


def _refusal(error: Exception, where: str, keys: Sequence[str]) -> BaseException:
    """Put an error of DuckDB or Arrow into words that show nothing of the data."""
    message = str(error)
    if mark := re.search(rf"{_MARK}:(\w+)(?::(\d+))?", message):
        return _marked(mark[1], keys[int(mark[2])] if mark[2] else "")
    if isinstance(error, duckdb.InterruptException):
        return KeyboardInterrupt()
    if "No space left" in message or "temp_directory_size" in message:
        return InvalidValue(
            "temporary files need room on the disk", "none left", "free some, or choose another temp_dir"
        )
    if _is_out_of_memory(error) or isinstance(error, MemoryError):
        return InvalidValue(
            "the work must fit into the memory limit", "too little", "raise or set memory_limit, or use fewer threads"
        )
    rule, remedy = f"{where} must be whole and readable", "check the file, or write it anew"
    if line := re.search(r"CSV (Error on Line: (\d+)|Parser)", message):
        where_in = f" near line {line[2]}" if line[2] else ""
        return InvalidValue(
            rule, f"a broken row of CSV{where_in}", "check its quotes, separators, line ends and encoding"
        )
    if line := re.search(r"JSON.* in line (\d+)", message):
        return InvalidValue(rule, f"a broken line of JSON near line {line[1]}", "write one object on each line")
    return InvalidValue(rule, f"one that is not ({type(error).__name__})", remedy)


def _translated(produce: Callable[[], Iterator[_T]], where: str, keys: Sequence[str]) -> Iterator[_T]:
    """Yield from an iterator; an error of DuckDB or Arrow is replaced, and not even kept as a context."""
    iterator = produce()
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        except (duckdb.Error, pa.ArrowException, OSError, EOFError, zlib.error, UnicodeError) as error:
            problem = _refusal(error, where, keys)
        else:
            yield item
            continue
        raise problem


# ---- small parts


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _paths(paths: Iterable[str]) -> str:
    return f"[{', '.join(_text(glob.escape(path)) for path in paths)}]"


def _waited(cursor: duckdb.DuckDBPyConnection, work: Callable[[], _T]) -> _T:
    """Wait for work on a cursor in another thread: DuckDB itself would look for Ctrl-C only when it is done."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        try:
            return future.result()
        except BaseException:
            while not future.done():
                cursor.interrupt()
                wait([future], 0.05)
            raise


def _spent() -> Iterator[pa.RecordBatch]:
    yield from ()
    raise InvalidValue("a stream can be read once", "one that was read before", "make a new one")


def _numbered(table: pa.Table) -> pa.Table:
    return table.rename_columns([f"c{i}" for i in range(table.num_columns)])


def _shaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [c if c.type == f.type else c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Gather small batches, since each statement has its price."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(b.num_rows for b in held) >= _BATCH:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _header(path: str, separator: str) -> list[str]:
    """Read the names in the first line of a CSV file."""
    opened = gzip.open if path.endswith(".gz") else open
    names: list[str] = []
    try:
        with opened(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
            lines = iter(lambda: file.readline(1 << 20), "")
            names = [name.strip() for name in next(csv.reader(lines, delimiter=separator, strict=True), [])]
    except (csv.Error, OSError, EOFError):
        pass
    if not any(names):
        raise InvalidValue("a CSV file begins with a line of column names", f"none in {path!r}", "add one, in UTF-8")
    return names


def _chunks(path: str) -> Iterator[bytes]:
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        yield from iter(lambda: file.read(1 << 20), b"")


def _require_even_quotes(path: str) -> None:
    """Refuse a CSV file with a quoted field that does not end: DuckDB would leave out the rest of the file."""
    if sum(chunk.count(b'"') for chunk in _chunks(path)) % 2:
        raise InvalidValue(
            "quotes in a CSV file come in pairs",
            f"an odd number in {path!r}",
            "look for a quoted field that does not end, or double the quotes inside fields",
        )


def _require_whole(path: str) -> None:
    """Refuse a compressed file that was cut off: DuckDB 1 would read what is left of it."""
    for _ in _chunks(path):
        pass


def _ipc(file: pa.NativeFile) -> Any:
    """Open an Arrow file or stream."""
    is_file = file.read(6) == b"ARROW1"
    file.seek(0)
    return pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)


def _bytes(limit: str | int) -> int:
    """Read a memory limit.

    >>> _bytes("1GB"), _bytes("512 MiB"), _bytes(2**30)
    (1000000000, 536870912, 1073741824)
    """
    powers = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([kmgt]?)(i?)b?", str(limit).strip().lower())
    if match is None or isinstance(limit, bool):
        raise InvalidValue("memory_limit is a number of bytes, such as '1GB'", repr(limit), "write a number and a unit")
    size = int(float(match[1]) * (1024 if match[3] else 1000) ** powers[match[2]])
    if size < _LEAST:
        raise InvalidValue(f"memory_limit is at least {_LEAST // 10**6}MB", repr(limit), "choose a larger one, or none")
    return size


def _share(limit: int) -> int:
    """DuckDB's share of the memory of the process; the rest is for Python, Arrow, and what DuckDB does not count."""
    return (limit - 150 * 10**6) * 3 // 4
