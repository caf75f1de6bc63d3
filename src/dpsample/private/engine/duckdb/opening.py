"""Opening sources: each becomes a table of DuckDB, checked once."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.private.engine.columns import require_plain
from dpsample.private.engine.duckdb import adbc
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
from dpsample.private.engine.duckdb.errors import called
from dpsample.private.engine.duckdb.places import copied_connection, readable, stored_relation
from dpsample.private.engine.duckdb.tables import Table, aliased
from dpsample.private.engine.errors import FREQUENCY_FAULTS
from dpsample.private.sources.arrow import relation_batches, source_batches, source_table
from dpsample.private.sources.folders import files_of_part
from dpsample.private.sources.formats import FORMATS
from dpsample.private.sources.python_objects import null_refusal
from dpsample.private.sources.scans import Form, Objects
from dpsample.private.sources.source import Source
from dpsample.sql import quoted_name

if TYPE_CHECKING:
    from dpsample.private.engine.duckdb.engine import DuckDB

Faults = list[tuple[str, str]]  # conditions on a row, each with the code of why it is refused


class Tables:
    """The tables of an engine's sources, each opened and checked once."""

    def __init__(self, engine: "DuckDB") -> None:
        self._engine = engine
        # by the id of the source, which is kept so that no other source gets its id
        self._known: dict[int, tuple[Source, Table]] = {}

    def forget(self) -> None:
        """Let go of all sources."""
        self._known.clear()

    def open(self, source: Source) -> Table:
        """Return a source's table, opened and checked the first time."""
        if id(source) not in self._known:
            self.add(source, opened(source, self._engine))
        _, table = self._known[id(source)]
        return table

    def add(self, source: Source, table: Table) -> None:
        """Let a source stand for a table that is there already."""
        self._known[id(source)] = source, table

    def remove(self, source: Source) -> Table:
        """Take back what was added."""
        _, table = self._known.pop(id(source))
        return table


def opened(source: Source, engine: "DuckDB") -> Table:
    """Return the table of a source, whose columns, types and options were checked."""
    if source.kind == "frame":
        problem = "DuckDB cannot read a DataFrame of Spark"
        raise InvalidValue(problem, "use dpsample.spark instead")
    if source.kind == "database":
        return _opened_database(source, engine, adbc.Place.of(source))
    if source.kind == "connection":
        return _opened_database(source, engine, copied_connection(source, engine.file()))
    if source.kind == "duckdb":
        schema, batches = called(lambda: relation_batches(source, stored_relation(source, engine)))
        return _pending(source, engine, schema, _called(batches))
    if source.kind == "files":
        return _opened_files(source, engine)
    if source.kind == "dataset":
        return _opened_dataset(source, engine)
    if source.kind == "table":
        return _opened_table(source, engine)
    if source.kind == "stream":
        schema, batches = called(lambda: source_batches(source))
        return _pending(source, engine, schema, _called(batches))
    # what is left runs code of the caller, whose errors stay as they are
    schema, batches = source_batches(source)
    table = _pending(source, engine, schema, batches)
    if hasattr(source.data, "__len__"):
        table.size = lambda: len(source.data)
    return table


def _called(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches; errors of any class become errors of DuckDB."""
    while (batch := called(lambda: next(batches, None))) is not None:
        yield batch


def _opened_table(source: Source, engine: "DuckDB") -> Table:
    """Return the table of a DataFrame or an Arrow table."""
    rows = source_table(source)
    table = _table(source, engine, _Origin("source", {"source": lambda: numbered(rows)}))
    if source.reads_all_rows:
        table.size = lambda: rows.num_rows
    return table


def _opened_files(source: Source, engine: "DuckDB") -> Table:
    """Return the table of files."""
    listing = source.listing()
    files = [readable(file, listing, engine) for file in files_of_part(source, listing.files)]
    scan = called(lambda: FORMATS[listing.format].scan(source, files, engine))
    table = _table(source, engine, _Origin(scan.origin, scan.objects, scan.form, scan.typed))
    table = replace(table, unseen=list(scan.checks), text=scan.size)
    number_of_rows = scan.rows
    if number_of_rows is not None and source.reads_all_rows:
        table.size = lambda: int(engine.run(number_of_rows)[0][0])
    return table


def _opened_dataset(source: Source, engine: "DuckDB") -> Table:
    """Return the table of a dataset of Arrow, of which only the columns and the part that are read are read."""
    dataset = source.data
    source.require(dataset.schema.names)
    chosen = list[str]()
    for place, name in enumerate(source.columns):
        chosen.append(f"{quoted_name(name)} AS c{place}")
    item = f"(SELECT {', '.join(chosen)} FROM source)"
    return _table(source, engine, _Origin(item, {"source": lambda: dataset}))


def _pending(
    source: Source, engine: "DuckDB", schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Table:
    """Return the table of batches that can be read only once: they are put into a table of their own when needed."""
    empty = numbered(schema.empty_table())
    table = _table(source, engine, _Origin("empty", {"empty": lambda: empty}))
    return replace(table, origin=engine.name(), objects={}, pending=(schema, batches))


# ---- from columns to SQL


@dataclass(frozen=True)
class _Origin:
    """A FROM item with the columns of a source, in order, as c0, c1, ...; `objects` are what it names.

    Columns of `typed` have types of their own, whatever the form of the others.
    """

    item: str
    objects: Objects
    form: Form = "typed"
    typed: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Column:
    """A column of a FROM item: its name in the source, its place c0, c1, ..., and its DuckDB type."""

    name: str
    place: int
    kind: Any
    form: Form

    @property
    def sql(self) -> str:
        """The name of the column in the FROM item."""
        return f"c{self.place}"

    def faults(self, role: str = "key") -> Faults:
        """Return why values of JSON are refused; columns with a type of their own have no such faults."""
        return json_faults(self.sql, self.place, role) if is_json(self.kind, self.form) else []


def _table(source: Source, engine: "DuckDB", origin: _Origin) -> Table:
    """Return the table of a FROM item."""
    computed = computation(source, origin.item, origin.objects, engine)
    rows = replace(origin, item=computed(origin.item))
    columns = _columns(source, engine, rows)
    key_columns = [columns[name] for name in source.key_columns]
    keys = [key_sql(c.name, c.sql, c.kind, c.form) for c in key_columns]
    table = Table(
        origin=origin.item,
        schema=_schema(source, engine, keys, rows),
        keys=keys,
        drop_null=source.drop_null,
        objects=origin.objects,
        amounts=source.amounts,
        computed=computed,
    )
    for column in key_columns:
        if column.form == "json":
            table.faults += column.faults()
    if source.user is not None:
        user = columns[source.user]
        table.user = key_sql(user.name, user.sql, user.kind, user.form, "user")
        table.faults += user.faults("user")
    if source.aggregated:
        # the frequencies of a mapping have no name of their own, and follow its key
        frequency = columns[source.frequency or "frequency"]
        table.frequency = f"TRY_CAST({frequency.sql} AS BIGINT)"
        table.faults += _frequency_faults(frequency)
    if source.part is not None:
        part = columns[source.part.name]
        table.part = part_sql(source.part, part.sql, part.kind, part.form)
    if source.condition is not None:
        condition = f"c{len(source.fields)}"  # it follows the fields
        table.part = condition if table.part is None else f"({table.part}) AND {condition}"
    for amount in source.amounts:
        if amount.column is None:
            table.units.append("1::BIGINT")
        else:
            summed = columns[amount.column]
            table.units.append(amount_sql(amount, summed.sql, summed.kind, summed.form))
    return table


def _columns(source: Source, engine: "DuckDB", origin: _Origin) -> dict[str, _Column]:
    """Return the fields of a row in a FROM item, by their names in the source."""
    names = list(source.fields)
    if source.aggregated and source.frequency is None:
        names.append("frequency")
    described = engine.describe(origin.item, origin.objects)
    columns = dict[str, _Column]()
    for place, name in enumerate(names):
        _, kind = described[place]
        has_type = name in origin.typed or name in source.computed
        form = "typed" if has_type else origin.form
        columns[name] = _Column(name, place, kind, form)
    return columns


def _frequency_faults(column: _Column) -> Faults:
    """Return why frequencies of a column are refused."""
    if column.form != "typed":
        return frequency_faults(column.sql, "text")
    family = number_family(column.name, str(column.kind.id))
    faults = frequency_faults(column.sql, family)
    if family == "float":
        # a comparison alone would be judged by a Parquet file's statistics, which leave NaN out
        faults.append((f"isnan({column.sql})", "large"))
    return faults


def _schema(source: Source, engine: "DuckDB", keys: list[str], origin: _Origin) -> pa.Schema:
    """Return the key columns with the types that their SQL has, under their names in releases."""
    columns = aliased(keys, "k")
    types = engine.schema(f"SELECT {columns} FROM {origin.item}", origin.objects).types
    for name, kind in zip(source.key_columns, types, strict=True):
        require_plain(name, kind)
    fields = zip(source.key, types, strict=True)
    return pa.schema(list(fields))


# ---- databases, which aggregate their own rows


def _opened_database(source: Source, engine: "DuckDB", place: adbc.Place) -> Table:
    """Return the table of what a database is asked for."""
    database = Database(source, place)
    keys = [f"c{place}" for place in range(len(source.key))]
    empty = pa.schema(list(zip(keys, database.types, strict=False))).empty_table()
    schema = _schema(source, engine, keys, _Origin("empty", {"empty": lambda: empty}))
    table = Table(engine.name(), schema, keys, drop_null=source.drop_null)
    next_place = len(keys)  # the user or the frequency follows the key
    if source.user is None:
        return _with_frequencies(table, source, database, next_place)
    return _with_users(table, source, database, next_place)


def _with_users(table: Table, source: Source, database: Database, place: int) -> Table:
    """Return the table of pairs of users and keys; `place` is that of the users, and summed columns follow."""
    units = list[str]()
    summed = place
    for amount in source.amounts:
        if amount.column is None:
            units.append("1::BIGINT")
        else:
            summed += 1
            units.append(amount_sql(amount, f"c{summed}", duckdb.sqltypes.DOUBLE, "typed"))
    pairs = database.pairs()
    return replace(table, user=f"c{place}", pending=pairs, amounts=source.amounts, units=units)


def _with_frequencies(table: Table, source: Source, database: Database, place: int) -> Table:
    """Return the table of keys with frequencies; `place` is that of the frequencies, and numbers of faults follow."""
    frequency = f"TRY_CAST(c{place} AS BIGINT)"
    faults = [(f"c{place + 1} = {number}", code) for number, code in enumerate(FREQUENCY_FAULTS)]
    faults.append((f"{frequency} IS NULL", "sum"))

    def elements() -> Iterator[pa.RecordBatch]:
        for batch in database.elements():
            columns = zip(source.key_columns, batch.columns, strict=True)
            gaps = [name for name, column in columns if column.null_count]
            if gaps and not source.drop_null:
                raise null_refusal(gaps[0])
            yield batch.drop_null() if gaps else batch

    keys = database.grouped()
    return replace(table, frequency=frequency, faults=faults, pending=keys, elements=elements)
