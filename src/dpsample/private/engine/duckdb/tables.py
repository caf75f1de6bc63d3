"""How sources look from inside DuckDB."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from dpsample.accounting.amounts import Amount
from dpsample.errors import InvalidValue
from dpsample.private.engine.columns import require_plain
from dpsample.private.engine.duckdb.columns import (
    amount_sql,
    frequency_faults,
    is_json,
    json_faults,
    key_sql,
    number_family,
    numbered,
    part_sql,
)
from dpsample.private.engine.duckdb.computed import computation
from dpsample.private.engine.duckdb.databases import Database
from dpsample.private.engine.duckdb.errors import called, raise_sql
from dpsample.private.engine.errors import FREQUENCY_FAULTS
from dpsample.private.sources.arrow import source_batches, source_table
from dpsample.private.sources.formats import FORMATS, Form, Objects
from dpsample.private.sources.python_objects import null_refusal
from dpsample.private.sources.source import Source

if TYPE_CHECKING:
    from dpsample.private.engine.duckdb.engine import DuckDB


@dataclass
class Table:
    """How a source looks from inside DuckDB: a FROM item, and SQL for its key and frequency."""

    origin: str
    schema: pa.Schema  # of the key, under its own names
    keys: list[str]
    frequency: str | None = None  # a whole number, or NULL where a fault is
    user: str | None = None
    faults: list[tuple[str, str]] = field(
        default_factory=list
    )  # condition on a row -> why it is refused
    drop_null: bool = False
    objects: Objects = field(default_factory=dict)  # what `origin` names
    pending: tuple[pa.Schema, Iterator[pa.RecordBatch]] | None = (
        None  # what is still to be put into `origin`
    )
    unseen: list[Callable[[], None]] = field(
        default_factory=list
    )  # looks to be taken before the first row
    elements: Callable[[], Iterator[pa.RecordBatch]] | None = (
        None  # a way of its own to the elements
    )
    size: Callable[[], int | None] = lambda: None
    text: int | None = None  # bytes of text files, whose number of rows is not known
    part: str | None = (
        None  # condition that a row is in the part that is read, and passes the filter
    )
    chosen: str | None = (
        None  # condition that a row is one of those that are read, in a part or not
    )
    forget_more: Callable[[], None] = lambda: None  # lets go of what was put aside with it
    amounts: tuple[Amount, ...] = ()
    units: list[str] = field(default_factory=list)  # of a row's amounts: SQL of whole numbers
    # the FROM item whose columns are computed from those of `origin`
    computed: Callable[[str], str] = lambda origin: origin

    @property
    def item(self) -> str:
        """The rows as a FROM item: all of `origin`, or those of the part."""
        conditions = [
            f"({condition})" for condition in (self.part, self.chosen) if condition is not None
        ]
        rows = self.computed(self.origin)
        return f"(SELECT * FROM {rows} WHERE {' AND '.join(conditions)})" if conditions else rows

    @property
    def names(self) -> str:
        """The names of the key columns in `rows`."""
        return ", ".join(f"k{i}" for i in range(len(self.keys)))

    @property
    def named_keys(self) -> str:
        """SQL of the key columns, with their names in `rows`."""
        return _aliased(self.keys, "k")

    @property
    def lengths(self) -> list[str]:
        """SQL of the lengths of the key columns that have any, in bytes."""
        functions = {pa.string(): "strlen", pa.binary(): "octet_length"}
        kinds = zip(self.keys, self.schema.types, strict=True)
        return [f"{functions[kind]}({sql})" for sql, kind in kinds if kind in functions]

    @property
    def rows(self) -> str:
        """The checked rows: k0, k1, ... and, unless they are raw, f."""
        return self._checked(
            self.named_keys
            if self.frequency is None
            else f"{self.named_keys}, {self.frequency} AS f"
        )

    @property
    def pairs(self) -> str:
        """The distinct pairs of checked rows: u, then k0, k1, ..."""
        return self._checked(f"DISTINCT {self.user} AS u, {self.named_keys}")

    @property
    def all_pairs(self) -> str:
        """The pairs of checked rows, with repetitions: u, then k0, k1, ..., and the units of amounts, a0, a1, ..."""
        units = f", {_aliased(self.units, 'a')}" if self.units else ""
        return self._checked(f"{self.user} AS u, {self.named_keys}{units}")

    @property
    def amount_names(self) -> list[str]:
        """The names of the units in `all_pairs`."""
        return [f"a{i}" for i in range(len(self.units))]

    def _checked(self, chosen: str) -> str:
        """SQL of the rows without NULL and faults; others are refused, or left out."""
        cases = list[str]()
        if (
            self.part is not None
        ):  # once more: DuckDB may check rows before it leaves other parts out
            cases.append(f"WHEN ({self.part}) IS NOT TRUE THEN false")
        needed = [(sql, f"null:{i}") for i, sql in enumerate(self.keys)]
        if self.user is not None:
            needed.append((self.user, f"nobody:{len(self.keys)}"))
        for sql, code in needed:
            cases.append(
                f"WHEN {sql} IS NULL THEN {'false' if self.drop_null else raise_sql(code)}"
            )
        for condition, code in self.faults:
            cases.append(f"WHEN {condition} THEN {raise_sql(code)}")
        return f"SELECT {chosen} FROM {self.item} WHERE CASE {' '.join(cases)} ELSE true END"

    def with_known(self, counted: str, only: bool, condition: str = "true") -> str:
        """All of some counted keys, or only the `listed` ones, and those of the listed that were not counted."""
        listed = f"SELECT {self.names}, true AS listed FROM listed WHERE {condition}"
        numbers = "coalesce(frequency, 0) AS frequency, coalesce(listed, false) AS known"
        join = "RIGHT" if only else "FULL"
        return f"SELECT {self.names}, {numbers} FROM ({counted}) {join} JOIN ({listed}) USING ({self.names})"

    def grouped(self, rows: str) -> str:
        """Each key of some rows once, with its frequency."""
        if self.frequency is None:
            return f"SELECT {self.names}, count(*) AS frequency FROM ({rows}) GROUP BY {self.names}"
        total = "CAST(sum(f) AS BIGINT) AS frequency"
        return f"SELECT {self.names}, {total} FROM ({rows}) GROUP BY {self.names} HAVING sum(f) > 0"


def _aliased(columns: list[str], name: str) -> str:
    """SQL of columns that are called by a name and their number."""
    return ", ".join(f"{sql} AS {name}{i}" for i, sql in enumerate(columns))


def _called(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches, with errors of classes that may be those of the caller."""
    while (batch := called(lambda: next(batches, None))) is not None:
        yield batch


class Tables:
    """The tables of an engine's sources, each opened and checked once."""

    def __init__(self, engine: "DuckDB") -> None:
        self._engine = engine
        self._known: dict[int, tuple[Source, Table]] = {}

    def forget(self) -> None:
        """Let go of all sources."""
        self._known.clear()

    def open(self, source: Source) -> Table:
        """Return a source's table, opened and checked the first time."""
        if id(source) not in self._known:
            self._known[id(source)] = (
                source,
                self._make(source),
            )  # the source is kept, so that its id is
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
                "DuckDB cannot read a DataFrame of Spark", "use dpsample.spark instead"
            )
        if source.kind == "database":
            return self._database(source)
        if source.kind == "table":
            rows = source_table(source)
            table = self._table(source, "source", {"source": lambda: numbered(rows)})
            if source.reads_all_rows:
                table.size = lambda: rows.num_rows
            return table
        if source.kind != "files":
            if source.kind == "stream":
                schema, batches = called(lambda: source_batches(source))
                table = self._pending(source, schema, _called(batches))
            else:  # what is left runs code of the caller
                table = self._pending(source, *source_batches(source))
            if hasattr(source.data, "__len__") and source.kind != "stream":
                table.size = lambda: len(source.data)
            return table
        return self._files(source)

    def _files(self, source: Source) -> Table:
        format, paths = source.listing()
        for path in paths:
            if not os.access(path, os.R_OK):
                raise InvalidValue(
                    f"there is no permission to read {path!r}", "check who may read it"
                )
        scan = called(lambda: FORMATS[format].scan(source, paths, self._engine))
        table = self._table(source, scan.origin, scan.objects, scan.form)
        table = replace(table, unseen=list(scan.checks), text=scan.size)
        rows = scan.rows
        if rows is not None and source.reads_all_rows:
            table.size = lambda: int(self._engine.run(rows)[0][0])
        return table

    def _table(
        self, source: Source, origin: str, objects: Objects | None = None, form: Form = "typed"
    ) -> Table:
        """Make the table of a FROM item with the columns of the source, in order, as c0, c1, ..."""
        computed = computation(source, origin, objects, form, self._engine)
        rows = computed(origin)
        types = [kind for _, kind in self._engine.describe(rows, objects)]
        keys, faults = list[str](), list[tuple[str, str]]()
        for i, name in enumerate(source.key_columns):
            key_form: Form = "typed" if name in source.computed else form
            keys.append(key_sql(name, f"c{i}", types[i], key_form))
            faults += json_faults(f"c{i}", i) if key_form == "json" else []
        place = len(keys)  # of what follows the key: the user, or the frequency
        column = f"c{place}"
        user = frequency = part = None
        if source.user is not None:
            user = key_sql(source.user, column, types[place], form, "user")
            faults += json_faults(column, place, "user") if is_json(types[place], form) else []
        if source.aggregated:
            frequency = f"TRY_CAST({column} AS BIGINT)"
            name = source.frequency or "frequency"
            family = number_family(name, str(types[place].id)) if form == "typed" else "text"
            faults += frequency_faults(column, family)
            # a comparison alone would be judged by a Parquet file's statistics, which leave NaN out
            faults += [(f"isnan({column})", "large")] if family == "float" else []
        if source.part is not None:
            place = source.fields.index(source.part.name)
            part = part_sql(source.part, f"c{place}", types[place], form)
        if source.condition is not None:
            condition = f"c{len(source.fields)}"  # it follows the fields
            part = condition if part is None else f"({part}) AND {condition}"
        units = list[str]()
        for amount in source.amounts:
            place = -1 if amount.column is None else source.fields.index(amount.column)
            units.append(
                "1::BIGINT" if place < 0 else amount_sql(amount, f"c{place}", types[place], form)
            )
        return Table(
            origin=origin,
            schema=self._schema(source, keys, rows, objects),
            keys=keys,
            computed=computed,
            frequency=frequency,
            user=user,
            faults=faults,
            drop_null=source.drop_null,
            objects=objects or {},
            part=part,
            amounts=source.amounts,
            units=units,
        )

    def _schema(
        self, source: Source, keys: list[str], origin: str, objects: Objects | None
    ) -> pa.Schema:
        chosen = f"SELECT {_aliased(keys, 'k')} FROM {origin}"
        types = self._engine.schema(chosen, objects).types
        for name, kind in zip(source.key_columns, types, strict=True):
            require_plain(name, kind)
        fields = zip(source.key, types, strict=True)
        return pa.schema(list(fields))

    def _pending(
        self, source: Source, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
    ) -> Table:
        table = self._table(source, "empty", {"empty": lambda: numbered(schema.empty_table())})
        return replace(table, origin=self._engine.name(), objects={}, pending=(schema, batches))

    def _database(self, source: Source) -> Table:
        database = Database(source)
        keys = [f"c{i}" for i in range(len(source.key))]
        empty = pa.schema(list(zip(keys, database.types, strict=False))).empty_table()
        if source.user is not None:
            units, place = list[str](), len(keys) + 1  # columns that are summed follow the user
            for amount in source.amounts:
                if amount.column is None:
                    units.append("1::BIGINT")
                else:
                    units.append(amount_sql(amount, f"c{place}", duckdb.sqltypes.DOUBLE, "typed"))
                    place += 1
            return Table(
                origin=self._engine.name(),
                schema=self._schema(source, keys, "empty", {"empty": lambda: empty}),
                keys=keys,
                user=f"c{len(keys)}",
                drop_null=source.drop_null,
                pending=database.pairs(),
                amounts=source.amounts,
                units=units,
            )
        frequency, fault = f"c{len(keys)}", f"c{len(keys) + 1}"
        checked = f"TRY_CAST({frequency} AS BIGINT)"
        faults = [(f"{fault} = {i}", code) for i, code in enumerate(FREQUENCY_FAULTS)]
        faults.append((f"{checked} IS NULL", "sum"))

        def elements() -> Iterator[pa.RecordBatch]:
            for batch in database.elements():
                columns = zip(source.key_columns, batch.columns, strict=True)
                gaps = [name for name, column in columns if column.null_count]
                if gaps and not source.drop_null:
                    raise null_refusal(gaps[0])
                yield batch.drop_null() if gaps else batch

        return Table(
            origin=self._engine.name(),
            schema=self._schema(source, keys, "empty", {"empty": lambda: empty}),
            keys=keys,
            frequency=checked,
            faults=faults,
            drop_null=source.drop_null,
            pending=database.grouped(),
            elements=elements,
        )
