"""Databases that aggregate their own rows."""

from collections.abc import Iterator

import pyarrow as pa

from dpsample.accounting.parts import Part
from dpsample.private.engine.columns import part_family, require_plain, shaped
from dpsample.private.engine.duckdb import adbc
from dpsample.private.engine.duckdb.columns import frequency_faults
from dpsample.private.engine.duckdb.declared import (
    Declared,
    declared_postgres,
    declared_sqlite,
    postgres_number_family,
    postgres_sum,
    require_stored_as_declared,
    role_of,
)
from dpsample.private.engine.errors import FREQUENCY_FAULTS
from dpsample.private.sources.source import Source
from dpsample.sql import quoted_name, quoted_text


class Database:
    """A source in a database, which aggregates its own rows.

    `types` are those of the key columns, and then of the user's.
    """

    def __init__(self, source: Source, place: adbc.Place) -> None:
        self._source = source
        self._place = place
        self._is_sqlite = place.is_sqlite
        self._query = _query_of(source)
        self._item = _item_of(source)  # a FROM item
        [schema, *_] = adbc.run(place, f"SELECT * FROM {self._item} LIMIT 0")
        source.require(schema.names)
        self._family = self._frequency_family(schema)
        self._names = [*source.key_columns]
        if source.user is not None:
            self._names.append(source.user)
        declared = self._declared(schema)
        for name, column in zip(self._names, declared, strict=True):
            require_plain(name, column.kind, role_of(name, source))
        self.types = [column.kind for column in declared]
        self._keys = [column.sql for column in declared]
        self._sums = [self._summed(a.column, schema) for a in source.amounts if a.column]
        if source.part is not None:
            condition = self._in_part(source.part, schema)
            self._item = f"(SELECT * FROM {self._item} WHERE {condition}) AS part_rows"
        if self._is_sqlite:
            require_stored_as_declared(place, source, self._item, self._names, self.types)

    def elements(self) -> Iterator[pa.RecordBatch]:
        """Return the key of each row."""
        schema = pa.schema(list(zip(self._source.key, self.types, strict=True)))
        return self._batches(f"SELECT {', '.join(self._keys)} FROM {self._item}", schema)

    def grouped(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return each key, its frequency as text, and the number of the worst fault of its rows."""
        value, fault = self._value_and_fault()
        chosen = [*self._keys, f"CAST({value} AS TEXT)", fault]
        places = [str(place + 1) for place in range(len(self._keys))]
        groups = f"{self._item} GROUP BY {', '.join(places)}"
        fields = list(zip(self._source.key, self.types, strict=True))
        fields.append(("frequency", pa.string()))
        fields.append(("fault", pa.int64()))
        schema = pa.schema(fields)
        return schema, self._batches(f"SELECT {', '.join(chosen)} FROM {groups}", schema)

    def pairs(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return each pair of a key and a user once; with amounts, that of each row, and summed columns as floats."""
        fields = list(zip(self._names, self.types, strict=True))
        for place in range(len(self._sums)):
            fields.append((f"amount {place}", pa.float64()))
        schema = pa.schema(fields)
        chosen = ", ".join([*self._keys, *self._sums])
        distinct = "" if self._source.amounts else "DISTINCT "
        return schema, self._batches(f"SELECT {distinct}{chosen} FROM {self._item}", schema)

    def _value_and_fault(self) -> tuple[str, str]:
        """SQL of the frequency of a key, and of the number of the worst fault of its rows."""
        if self._source.frequency is None:
            return "count(*)", "-1"
        column = quoted_name(self._source.frequency)
        codes = list(FREQUENCY_FAULTS)
        number_of_fault = ""
        zero_if_fault = ""
        for condition, code in frequency_faults(column, self._family):
            number_of_fault += f"WHEN {condition} THEN {codes.index(code)} "
            zero_if_fault += f"WHEN {condition} THEN 0 "
        value = f"sum(CASE {zero_if_fault}ELSE CAST({column} AS BIGINT) END)"
        return value, f"max(CASE {number_of_fault}ELSE -1 END)"

    def _frequency_family(self, schema: pa.Schema) -> str:
        """Return which faults frequencies can have; columns of SQLite hold values of any type."""
        name = self._source.frequency
        if self._is_sqlite or name is None:
            return "stored"
        return postgres_number_family(schema.field(name))

    def _declared(self, schema: pa.Schema) -> list[Declared]:
        """Return the key columns and the user's as they are declared."""
        if self._is_sqlite:
            return declared_sqlite(self._place, self._source, self._query, self._names)
        columns = list[Declared]()
        for name in self._names:
            role = role_of(name, self._source)
            columns.append(declared_postgres(schema.field(name), role))
        return columns

    def _summed(self, name: str, schema: pa.Schema) -> str:
        """SQL of a column that is summed, as a float."""
        if self._is_sqlite:
            return f"CAST({quoted_name(name)} AS DOUBLE PRECISION)"
        return postgres_sum(schema.field(name))

    def _in_part(self, part: Part, schema: pa.Schema) -> str:
        """SQL of the condition that a row is in a part.

        Text is written by its bytes: a server may read escapes in text.
        """
        column = quoted_name(part.name)
        digits = part.value.encode("utf-8", "surrogatepass").hex()
        if self._is_sqlite:  # its values have types of their own, and each of them one text
            return f"CAST({column} AS TEXT) COLLATE BINARY = CAST(x'{digits}' AS TEXT)"
        declared = declared_postgres(schema.field(part.name), "part")
        family = part_family(part, declared.kind)
        if family == "text":
            text = f"convert_from(decode('{digits}', 'hex'), 'UTF8')"
            return f'CAST({column} AS text) COLLATE "C" = {text}'
        value = quoted_text(part.value) if family == "date" else part.value
        return f"{column} = {value}"

    def _batches(self, sql: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a statement with the names and types of a schema."""
        results = adbc.run(self._place, sql)
        next(results)  # the schema that the database gives
        for batch in results:
            yield shaped(batch, schema)


def _query_of(source: Source) -> str | None:
    """Return the stated query, or None if a table was stated."""
    query = source.options.get("query")
    return None if query is None else query.strip().rstrip(";")


def _item_of(source: Source) -> str:
    """Return SQL of the stated table or query as a FROM item."""
    query = _query_of(source)
    if query is not None:
        return f"({query}\n) AS source_rows"
    schema_and_table = str(source.options.get("table")).split(".", 1)
    return ".".join(quoted_name(name) for name in schema_and_table)
