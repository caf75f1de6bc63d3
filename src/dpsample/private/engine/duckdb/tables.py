"""How sources look from inside DuckDB."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.private.engine.duckdb.columns import (
    family,
    faults_of,
    key_sql,
    numbered,
    quoted_paths,
    quoted_text,
)
from dpsample.private.engine.duckdb.databases import Database
from dpsample.private.engine.duckdb.errors import raise_sql
from dpsample.private.engine.duckdb.inputs import (
    header_of,
    ipc_batches,
    require_agreement,
    require_even_quotes,
    require_whole,
)
from dpsample.private.engine.errors import WORDS
from dpsample.private.python_objects import null_refusal
from dpsample.private.source import Source
from dpsample.sql import quoted_name

if TYPE_CHECKING:
    from dpsample.private.engine.duckdb.engine import DuckDB

Objects = Mapping[str, Callable[[], Any]]  # names in a statement -> what makes the Arrow object behind it


@dataclass
class Table:
    """How a source looks from inside DuckDB: a FROM item, and SQL for its key and frequency."""

    origin: str
    schema: pa.Schema  # of the key, under its own names
    keys: list[str]
    frequency: str | None = None  # a whole number, or NULL where a fault is
    user: str | None = None
    faults: list[tuple[str, str]] = field(default_factory=list)  # condition on a row -> why it is refused
    drop_null: bool = False
    objects: Objects = field(default_factory=dict)  # what `origin` names
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
        return self._checked(chosen)

    @property
    def pairs(self) -> str:
        """The distinct pairs of checked rows: u, then k0, k1, ..."""
        return self._checked([f"DISTINCT {self.user} AS u", *(f"{sql} AS k{i}" for i, sql in enumerate(self.keys))])

    def _checked(self, chosen: list[str]) -> str:
        cases = [
            f"WHEN {sql} IS NULL THEN {'false' if self.drop_null else raise_sql(f'null:{i}')}"
            for i, sql in enumerate(self.keys)
        ]
        if self.user is not None:
            nobody = "false" if self.drop_null else raise_sql(f"nobody:{len(self.keys)}")
            cases.append(f"WHEN {self.user} IS NULL THEN {nobody}")
        cases += [f"WHEN {condition} THEN {raise_sql(code)}" for condition, code in self.faults]
        return f"SELECT {', '.join(chosen)} FROM {self.origin} WHERE CASE {' '.join(cases)} ELSE true END"

    def grouped(self, rows: str) -> str:
        """Each key of some rows once, with its frequency."""
        if self.frequency is None:
            return f"SELECT {self.names}, count(*) AS frequency FROM ({rows}) GROUP BY {self.names}"
        total = "CAST(sum(f) AS BIGINT) AS frequency"
        return f"SELECT {self.names}, {total} FROM ({rows}) GROUP BY {self.names} HAVING sum(f) > 0"


class Tables:
    """The tables of an engine's sources, each made and checked once."""

    def __init__(self, engine: "DuckDB") -> None:
        self._engine = engine
        self._known: dict[int, tuple[Source, Table]] = {}

    def forget(self) -> None:
        """Let go of all sources."""
        self._known.clear()

    def open(self, source: Source) -> Table:
        """Return a source's table, made and checked the first time."""
        if id(source) not in self._known:
            self._known[id(source)] = source, self._make(source)  # the source is kept, so that its id is
        return self._known[id(source)][1]

    def add(self, source: Source, table: Table) -> None:
        """Let a source stand for a table that is there already."""
        self._known[id(source)] = source, table

    def remove(self, source: Source) -> Table:
        """Take back what was added."""
        return self._known.pop(id(source))[1]

    def _make(self, source: Source) -> Table:
        if source.kind == "frame":
            raise InvalidValue(
                "DuckDB reads what is on this machine", "a DataFrame of Spark", "use dpsample.spark instead"
            )
        if source.kind == "database":
            return self._database(source)
        if source.kind == "table":
            table = source.as_table()
            made = self._table(source, "source", {"source": lambda: numbered(table)})
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

    def _table(self, source: Source, origin: str, objects: Objects | None = None, form: str = "typed") -> Table:
        """Make the table of a FROM item with the columns of the source, in order, as c0, c1, ..."""
        types = [kind for _, kind in self._engine.describe(origin, objects)]
        keys = [key_sql(name, f"c{i}", types[i], form) for i, name in enumerate(source.key)]
        faults = [
            (f"json_type(c{i}) IN ('OBJECT', 'ARRAY')", f"nested:{i}")
            for i in range(len(keys) + (source.user is not None))
            if form == "json"
        ]
        user = None
        if source.user is not None:
            user = key_sql(source.user, f"c{len(keys)}", types[-1], form, "user")
        frequency = None
        if source.aggregated:
            column, name = f"c{len(keys)}", source.frequency or "frequency"
            frequency = f"TRY_CAST({column} AS BIGINT)"
            kind = family(name, str(types[-1].id)) if form == "typed" else "text"
            faults += faults_of(column, kind)
            # a comparison alone would be judged by a Parquet file's statistics, which leave NaN out
            faults += [(f"isnan({column})", "large")] if kind == "float" else []
        schema = self._schema(source, keys, origin, objects)
        return Table(origin, schema, keys, frequency, user, faults, source.drop_null, objects or {})

    def _schema(self, source: Source, keys: list[str], origin: str, objects: Objects | None) -> pa.Schema:
        chosen = ", ".join(f"{sql} AS k{i}" for i, sql in enumerate(keys))
        found = self._engine.schema(f"SELECT {chosen} FROM {origin}", objects)
        return pa.schema([pa.field(name, f.type) for name, f in zip(source.key, found, strict=True)])

    def _pending(self, source: Source, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Table:
        table = self._table(source, "empty", {"empty": lambda: numbered(schema.empty_table())})
        return replace(table, origin=self._engine.name(), objects={}, pending=(schema, batches))

    def _parquet(self, source: Source, paths: list[str]) -> Table:
        found: list[tuple[str, ...]] = []
        for path in paths:
            columns = dict(self._engine.describe(f"read_parquet({quoted_paths([path])}, hive_partitioning = false)"))
            source.require(list(columns))
            found.append(tuple(str(columns[name]) for name in source.columns))
        require_agreement(source, found)
        chosen = ", ".join(f"{quoted_name(name)} AS c{i}" for i, name in enumerate(source.columns))
        table = self._table(
            source, f"(SELECT {chosen} FROM read_parquet({quoted_paths(paths)}, hive_partitioning = false))"
        )
        counted = f"SELECT sum(num_rows)::BIGINT FROM parquet_file_metadata({quoted_paths(paths)})"
        table.size = lambda: int(self._engine.run(counted)[0][0])
        return table

    def _csv(self, source: Source, paths: list[str], separator: str) -> Table:
        headers: dict[tuple[str, ...], list[str]] = {}
        for path in paths:
            header = header_of(path, separator)
            source.require(header, shown=False)
            headers.setdefault(tuple(header), []).append(path)

        # not in parallel: many threads lose or repeat rows, silently, where quoted fields have quotes and line ends
        options = "auto_detect = false, header = true, strict_mode = true, parallel = false, "
        options += f"delim = {quoted_text(separator)}, "
        options += "quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = false"
        scans = []
        for names, alike in headers.items():
            types = ", ".join(f"h{i}: 'VARCHAR'" for i in range(len(names)))
            chosen = ", ".join(f"h{names.index(name)} AS c{i}" for i, name in enumerate(source.columns))
            scans.append(f"SELECT {chosen} FROM read_csv({quoted_paths(alike)}, columns = {{{types}}}, {options})")
        table = self._table(source, f"({' UNION ALL '.join(scans)})", form="csv")
        return replace(table, unseen=[partial(require_even_quotes, path) for path in paths])

    def _json(self, source: Source, paths: list[str]) -> Table:
        options = f"{quoted_paths(paths)}, format = 'newline_delimited'"
        first = f"SELECT json FROM read_json_objects({options}) LIMIT 1000"
        names = [name for (name,) in self._engine.run(f"SELECT DISTINCT unnest(json_keys(json)) FROM ({first})")]
        if names:
            source.require(names, shown=False)
        kinds = ["VARCHAR" if name == source.frequency else "JSON" for name in source.columns]
        types = ", ".join(f"{quoted_text(name)}: '{kind}'" for name, kind in zip(source.columns, kinds, strict=True))
        chosen = ", ".join(f"{quoted_name(name)} AS c{i}" for i, name in enumerate(source.columns))
        scan = f"SELECT {chosen} FROM read_json({options}, records = true, columns = {{{types}}})"
        unseen: list[Callable[[], None]] = [partial(require_whole, path) for path in paths if path.endswith(".gz")]
        return replace(self._table(source, f"({scan})", form="json"), unseen=unseen)

    def _arrow(self, source: Source, paths: list[str]) -> Table:
        schemas = []
        for path in paths:
            with pa.memory_map(path) as file:
                schemas.append(ipc_batches(file).schema)
            source.require(schemas[-1].names)
        require_agreement(source, [tuple(str(schema.field(c).type) for c in source.columns) for schema in schemas])
        fields = [schemas[0].field(name) for name in source.columns]
        schema = pa.schema([pa.field(f"c{i}", f.type) for i, f in enumerate(fields)])

        def batches() -> Iterator[pa.RecordBatch]:
            for path in paths:
                with pa.memory_map(path) as file:
                    reader = ipc_batches(file)
                    many = isinstance(reader, pa.ipc.RecordBatchFileReader)
                    for batch in map(reader.get_batch, range(reader.num_record_batches)) if many else reader:
                        chosen = pa.RecordBatch.from_arrays([batch.column(c) for c in source.columns], schema=schema)
                        chosen.validate(full=True)  # a damaged file would be read out of bounds
                        yield chosen

        return self._table(source, "source", {"source": lambda: pa.RecordBatchReader.from_batches(schema, batches())})

    def _database(self, source: Source) -> Table:
        database = Database(source)
        keys = [f"c{i}" for i in range(len(source.key))]
        if source.user is not None:
            schema, batches = database.pairs()
            empty = pa.schema(list(zip(keys, database.types, strict=False))).empty_table()
            return Table(
                origin=self._engine.name(),
                schema=self._schema(source, keys, "empty", {"empty": lambda: empty}),
                keys=keys,
                user=f"c{len(keys)}",
                drop_null=source.drop_null,
                pending=(schema, batches),
            )
        frequency, fault = f"c{len(keys)}", f"c{len(keys) + 1}"
        empty = pa.schema(list(zip(keys, database.types, strict=True))).empty_table()

        def elements() -> Iterator[pa.RecordBatch]:
            for batch in database.elements():
                gaps = [name for name, column in zip(source.key, batch.columns, strict=True) if column.null_count]
                if gaps and not source.drop_null:
                    raise null_refusal(gaps[0])
                yield batch.drop_null() if gaps else batch

        return Table(
            origin=self._engine.name(),
            schema=self._schema(source, keys, "empty", {"empty": lambda: empty}),
            keys=keys,
            frequency=f"TRY_CAST({frequency} AS BIGINT)",
            faults=[
                *((f"{fault} = {i}", code) for i, code in enumerate(WORDS)),
                (f"TRY_CAST({frequency} AS BIGINT) IS NULL", "sum"),
            ],
            drop_null=source.drop_null,
            pending=database.grouped(),
            elements=elements,
        )
