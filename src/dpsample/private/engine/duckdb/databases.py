"""Databases that aggregate their own rows, over ADBC."""

import importlib
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from dpsample.errors import DpsampleError, InvalidValue
from dpsample.private.engine.duckdb.columns import family, faults_of, shaped_as
from dpsample.private.engine.errors import WORDS, marked, type_refusal
from dpsample.private.source import Source
from dpsample.sql import quoted_name


class Database:
    """A source in a database, which aggregates its own rows; read over ADBC."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._sqlite = source.data.startswith("sqlite")
        if source.query is not None:
            self._item = f"({source.query.strip().rstrip(';')}\n) AS source_rows"
        else:
            self._item = ".".join(quoted_name(part) for part in str(source.table).split(".", 1))
        [found, *_] = self._run(f"SELECT * FROM {self._item} LIMIT 0")
        source.require(found.names)
        self._family = "stored"  # SQLite's columns hold what they are given
        if not self._sqlite and source.frequency is not None:
            self._family = self._number(found.field(source.frequency))
        self._names = [name for name in source.columns if name != source.frequency]  # the key, and the user if any
        kinds = self._stored() if self._sqlite else [self._declared(found.field(name)) for name in self._names]
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
            column = quoted_name(self._source.frequency)
            faults = faults_of(column, self._family)
            numbers = [(condition, list(WORDS).index(code)) for condition, code in faults]
            fault = f"max(CASE {' '.join(f'WHEN {condition} THEN {n}' for condition, n in numbers)} ELSE -1 END)"
            no_fault = f"CASE {' '.join(f'WHEN {condition} THEN 0' for condition, _ in numbers)} "
            value = f"sum({no_fault} ELSE CAST({column} AS BIGINT) END)"
        places = ", ".join(str(i + 1) for i in range(len(self._keys)))
        chosen = f"{', '.join(self._keys)}, CAST({value} AS TEXT), {fault}"
        names = [*self._source.key, "frequency", "fault"]
        schema = pa.schema(list(zip(names, [*self.types, pa.string(), pa.int64()], strict=True)))
        return schema, self._batches(f"SELECT {chosen} FROM {self._item} GROUP BY {places}", schema)

    def pairs(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return each pair of a key and a user once."""
        schema = pa.schema(list(zip(self._names, self.types, strict=True)))
        return schema, self._batches(f"SELECT DISTINCT {', '.join(self._keys)} FROM {self._item}", schema)

    def _stored(self) -> list[tuple[pa.DataType, str]]:
        """SQLite gives every value a type of its own: look at all of them."""
        types = {"integer": pa.int64(), "text": pa.string(), "blob": pa.binary()}
        chosen = [f"max(typeof({quoted_name(name)}) = '{kind}')" for name in self._names for kind in (*types, "real")]
        [_, batch, *_] = self._run(f"SELECT {', '.join(chosen)} FROM {self._item}")
        present = [bool(column[0].as_py()) for column in batch.columns]
        result = []
        for i, name in enumerate(self._names):
            kinds = [kind for kind, found in zip((*types, "real"), present[4 * i : 4 * i + 4], strict=True) if found]
            if "real" in kinds:
                raise type_refusal(name, "real", "floats")
            if len(kinds) > 1:
                raise InvalidValue(
                    f"the key column {name!r} must have values of one type",
                    " and ".join(kinds),
                    f"write query='SELECT CAST({name} AS TEXT) ...' instead of table=",
                )
            kind = kinds[0] if kinds else "text"
            result.append((types[kind], f"{quoted_name(name)} COLLATE BINARY" if kind == "text" else quoted_name(name)))
        return result

    def _declared(self, column: pa.Field) -> tuple[pa.DataType, str]:
        kind, sql = column.type, quoted_name(column.name)
        if pa.types.is_string(kind) or str(kind) == "extension<arrow.uuid>":
            return pa.string(), f'CAST({sql} AS text) COLLATE "C"'
        if pa.types.is_floating(kind):
            raise type_refusal(column.name, str(kind), "floats")
        if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
            raise type_refusal(column.name, (column.metadata or {}).get(b"POSTGRESQL:type", b"other").decode(), "")
        return kind, sql

    def _number(self, column: pa.Field) -> str:
        if pa.types.is_integer(column.type):
            return "integer"
        if pa.types.is_floating(column.type):
            return "float"
        kind = (column.metadata or {}).get(b"POSTGRESQL:type", b"other").decode()
        return family(column.name, "decimal" if kind == "numeric" else kind)

    def _batches(self, sql: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        results = self._run(sql)
        next(results)
        for batch in results:
            yield shaped_as(batch, schema)

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
            return marked("sum", "")
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
