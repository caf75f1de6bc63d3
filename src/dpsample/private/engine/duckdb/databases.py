"""Databases that aggregate their own rows, over ADBC."""

import contextlib
import importlib
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from dpsample.accounting.parts import Part
from dpsample.errors import DpsampleError, InvalidValue
from dpsample.extras import not_installed, packages_of
from dpsample.private.engine.columns import part_family, require_plain, shaped
from dpsample.private.engine.duckdb.columns import frequency_faults, number_family
from dpsample.private.engine.errors import (
    FREQUENCY_FAULTS,
    amount_refusal,
    refusal_of_code,
    type_refusal,
)
from dpsample.private.sources.source import Source
from dpsample.sql import quoted_name, quoted_text

_VIEW = "dpsample_source"
_STORED = {  # what a column of SQLite may store, by its type here, and what that is called
    pa.string(): (("text", "integer"), "text or integers"),
    pa.int64(): (("integer",), "integers"),
    pa.binary(): (("blob",), "bytes"),
}


class Database:
    """A source in a database, which aggregates its own rows; read over ADBC."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._sqlite = source.data.startswith("sqlite")
        if "query" in source.options:
            self._query = str(source.options["query"]).strip().rstrip(";")
            self._item = f"({self._query}\n) AS source_rows"
        else:
            self._item = ".".join(
                quoted_name(part) for part in str(source.options.get("table")).split(".", 1)
            )
        [schema, *_] = self._run(f"SELECT * FROM {self._item} LIMIT 0")
        source.require(schema.names)
        self._family = "stored"  # SQLite's columns hold values of any type
        if not self._sqlite and source.frequency is not None:
            self._family = self._number(schema.field(source.frequency))
        self._names = [*source.key_columns, *([] if source.user is None else [source.user])]
        kinds = (
            self._declared_sqlite()
            if self._sqlite
            else [self._declared(schema.field(n)) for n in self._names]
        )
        for name, (kind, _) in zip(self._names, kinds, strict=True):
            require_plain(name, kind, self._role(name))
        self.types = [kind for kind, _ in kinds]
        self._keys = [
            sql for _, sql in kinds
        ]  # compared byte by byte, whatever the column's own collation
        self._sums = [
            self._summed(schema.field(a.column)) for a in source.amounts if a.column is not None
        ]
        if source.part is not None:
            self._item = f"(SELECT * FROM {self._item} WHERE {self._in_part(source.part, schema)}) AS part_rows"
        if self._sqlite:
            self._require_declared()

    def elements(self) -> Iterator[pa.RecordBatch]:
        """Return the key of each row."""
        schema = pa.schema(list(zip(self._source.key, self.types, strict=True)))
        return self._batches(f"SELECT {', '.join(self._keys)} FROM {self._item}", schema)

    def grouped(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return each key, its frequency as text, and the number of the worst fault of its rows."""
        value, fault = self._value_and_fault()
        places = ", ".join(str(i + 1) for i in range(len(self._keys)))
        chosen = ", ".join([*self._keys, f"CAST({value} AS TEXT)", fault])
        grouped = f"SELECT {chosen} FROM {self._item} GROUP BY {places}"
        keys = zip(self._source.key, self.types, strict=True)
        numbers = [("frequency", pa.string()), ("fault", pa.int64())]
        schema = pa.schema([*keys, *numbers])
        return schema, self._batches(grouped, schema)

    def _value_and_fault(self) -> tuple[str, str]:
        """SQL of the frequency of a key, and of the number of the worst fault of its rows."""
        if self._source.frequency is None:
            return "count(*)", "-1"
        column = quoted_name(self._source.frequency)
        codes = list(FREQUENCY_FAULTS)
        number_of_fault, zero_if_fault = "", ""
        for condition, code in frequency_faults(column, self._family):
            number_of_fault += f"WHEN {condition} THEN {codes.index(code)} "
            zero_if_fault += f"WHEN {condition} THEN 0 "
        value = f"sum(CASE {zero_if_fault}ELSE CAST({column} AS BIGINT) END)"
        return value, f"max(CASE {number_of_fault}ELSE -1 END)"

    def pairs(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return each pair of a key and a user once; with amounts, that of each row, and columns as floats."""
        fields = [
            *zip(self._names, self.types, strict=True),
            *((f"amount {i}", pa.float64()) for i in range(len(self._sums))),
        ]
        schema = pa.schema(fields)
        chosen = ", ".join([*self._keys, *self._sums])
        distinct = "" if self._source.amounts else "DISTINCT "
        return schema, self._batches(f"SELECT {distinct}{chosen} FROM {self._item}", schema)

    def _summed(self, column: pa.Field) -> str:
        """SQL of a column that is summed, as a float; NULL where a number is none, which a cast would refuse."""
        declared = _postgres_type(column)
        plain = (
            pa.types.is_integer(column.type)
            or pa.types.is_floating(column.type)
            or declared == "numeric"
        )
        if not self._sqlite and not plain:
            raise amount_refusal(column.name, f"type {column.type}")
        name = quoted_name(column.name)
        if declared == "numeric":
            return f"CASE WHEN abs({name}) < 1e300 THEN CAST(round({name}, 300) AS DOUBLE PRECISION) END"
        return f"CAST({name} AS DOUBLE PRECISION)"

    def _in_part(self, part: Part, schema: pa.Schema) -> str:
        """The condition that a row is in a part. Text is written by its bytes: a server may read escapes in text."""
        column, digits = quoted_name(part.name), part.value.encode("utf-8", "surrogatepass").hex()
        if self._sqlite:  # its values have types of their own, and each of them one text
            return f"CAST({column} AS TEXT) COLLATE BINARY = CAST(x'{digits}' AS TEXT)"
        family = part_family(part, self._declared(schema.field(part.name), "part")[0])
        if family == "text":
            return f"CAST({column} AS text) COLLATE \"C\" = convert_from(decode('{digits}', 'hex'), 'UTF8')"
        return f"{column} = {quoted_text(part.value) if family == 'date' else part.value}"

    def _role(self, name: str) -> str:
        return "user" if name == self._source.user else "key"

    def _declared_sqlite(self) -> list[tuple[pa.DataType, str]]:
        """The type that a column of SQLite is declared with, by its rules of affinity; or text.

        A column of a query has the type of the column or the CAST that it is; one without a declared type is "BLOB".
        """
        if "query" in self._source.options:
            columns = f"SELECT name, type FROM pragma_table_info('{_VIEW}')"
            [_, *batches] = self._run(columns, f"CREATE TEMP VIEW {_VIEW} AS {self._query}")
        else:
            *schema, table = str(self._source.options.get("table")).split(".", 1)
            named = ", ".join(map(quoted_text, [table, *schema]))
            [_, *batches] = self._run(f"SELECT name, type FROM pragma_table_xinfo({named})")
        declared = dict[str, str]()
        for batch in batches:
            declared |= {row["name"]: str(row["type"]).upper() for row in batch.to_pylist()}
        return [self._affinity(name, declared.get(name, "")) for name in self._names]

    def _affinity(self, name: str, declared: str) -> tuple[pa.DataType, str]:
        column = quoted_name(name)
        if "INT" in declared:
            return pa.int64(), column
        if not any(part in declared for part in ("CHAR", "CLOB", "TEXT")):
            if "BLOB" in declared:
                return pa.binary(), column
            if any(part in declared for part in ("REAL", "FLOA", "DOUB")):
                raise type_refusal(name, "type real", "floats", self._role(name))
        return pa.string(), f"CAST({column} AS TEXT) COLLATE BINARY"

    def _require_declared(self) -> None:
        """SQLite gives every value a type of its own: refuse columns with others than the declared one."""
        chosen = []
        for name, kind in zip(self._names, self.types, strict=True):
            column = quoted_name(name)
            stored = ", ".join(f"'{word}'" for word in ("null", *_STORED[kind][0]))
            chosen += [
                f"max(typeof({column}) = 'real')",
                f"max(typeof({column}) NOT IN ({stored}))",
            ]
        [_, batch, *_] = self._run(f"SELECT {', '.join(chosen)} FROM {self._item}")
        present = [bool(column[0].as_py()) for column in batch.columns]
        for i, (name, kind) in enumerate(zip(self._names, self.types, strict=True)):
            if present[2 * i]:
                raise type_refusal(name, "a value of type real", "floats", self._role(name))
            if present[2 * i + 1]:
                raise InvalidValue(
                    f"the {self._role(name)} column {name!r} must have only {_STORED[kind][1]}, as it is declared",
                    f"write `query='SELECT CAST({name} AS TEXT) AS {name} ...'` instead, or hex({name}) for bytes",
                )

    def _declared(self, column: pa.Field, role: str | None = None) -> tuple[pa.DataType, str]:
        kind, sql = column.type, quoted_name(column.name)
        role = role or self._role(column.name)
        declared = _postgres_type(column)
        is_extension = isinstance(kind, pa.BaseExtensionType)
        if declared == "numeric" and role == "user":  # 1.0 and 1.00 are one user
            return pa.string(), f"CAST(trim_scale({sql}) AS text)"
        if declared == "numeric" or (is_extension and str(kind) != "extension<arrow.uuid>"):
            raise type_refusal(column.name, f"type {declared}", "", role)
        if pa.types.is_string(kind) or is_extension:
            return pa.string(), f'CAST({sql} AS text) COLLATE "C"'
        return kind, sql

    def _number(self, column: pa.Field) -> str:
        if pa.types.is_integer(column.type):
            return "integer"
        if pa.types.is_floating(column.type):
            return "float"
        kind = _postgres_type(column)
        return number_family(column.name, "decimal" if kind == "numeric" else kind)

    def _batches(self, sql: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        results = self._run(sql)
        next(results)
        for batch in results:
            yield shaped(batch, schema)

    def _run(self, sql: str, before: str | None = None) -> Iterator[Any]:
        """Yield the schema of a result, then its batches; another statement may be run `before`."""
        problem: DpsampleError
        try:
            with self._connect() as connection, connection.cursor() as cursor:
                if self._sqlite:
                    cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": "65536"})
                if before is not None:
                    cursor.execute(before)
                cursor.execute(sql)
                reader = cursor.fetch_record_batch()
                yield reader.schema
                yield from reader
            return
        except DpsampleError:
            raise
        except (
            Exception
        ) as error:  # of ADBC, Arrow or the system: their messages quote statements and values
            problem = self._refusal(error)
        raise problem

    def _connect(self) -> Any:
        name = "sqlite" if self._sqlite else "postgresql"
        driver = None
        with contextlib.suppress(ImportError):
            driver = importlib.import_module(f"adbc_driver_{name}.dbapi")
        if driver is None:
            raise not_installed(f"the ADBC driver of {name} is not installed", *packages_of(name))
        if not self._sqlite:
            return driver.connect(self._source.data)
        path = self._source.data.partition(":///")[2]
        if not os.path.isfile(path):
            raise InvalidValue(
                f"there is no SQLite file at {path!r}",
                "write sqlite:///relative/path or, with four slashes, sqlite:////absolute/path",
            )
        return driver.connect(f"file:{quote(os.path.abspath(path))}?mode=ro")

    def _refusal(self, error: Exception) -> DpsampleError:
        # of SQLite's and libpq's messages only the beginning: the rest may quote rows
        state, message = getattr(error, "sqlstate", None) or "", str(error)
        unprepared = (
            message.partition("[SQLite] Failed to prepare query: ")[2] if self._sqlite else ""
        )
        where = self._source.location
        if self._sqlite and message == "IO: Failed to step query: integer overflow":
            return refusal_of_code("sum")
        if state == "42P01" or unprepared.startswith("no such table"):
            return InvalidValue(
                f"{where} has no table of that name", "check the table's name and schema"
            )
        if state == "42703" or unprepared.startswith("no such column"):
            return InvalidValue(f"{where} has no column of a name in the query", "check the query")
        if state == "42501":
            return InvalidValue(f"{where} does not permit reading the table", "ask for permission")
        if message.startswith("IO: [libpq] Failed to connect") or state.startswith(("08", "28")):
            return InvalidValue(
                f"{where} did not accept a connection",
                "check the server, the database, the user and the password",
            )
        code = f" (SQLSTATE {state})" if state else ""
        return InvalidValue(
            f"{where} could not answer the query{code}", "try it in the database's own shell"
        )


def _postgres_type(column: pa.Field) -> str:
    """Return the name of a column's type in PostgreSQL."""
    return (column.metadata or {}).get(b"POSTGRESQL:type", b"other").decode()  # type: ignore[no-any-return]
