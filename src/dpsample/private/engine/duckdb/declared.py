"""The types that columns of a database are declared with, and the SQL by which they are read."""

from dataclasses import dataclass

import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.private.engine.duckdb import adbc
from dpsample.private.engine.duckdb.columns import number_family
from dpsample.private.engine.errors import amount_refusal, type_refusal
from dpsample.private.sources.source import Source
from dpsample.sql import quoted_name, quoted_text

# The name of a view in SQLite that lives as long as a connection.
_VIEW = "dpsample_source"
# What a column of SQLite may store, by its type here: SQLite's names of types, and these in words.
_STORED = {
    pa.string(): (("text", "integer"), "text or integers"),
    pa.int64(): (("integer",), "integers"),
    pa.binary(): (("blob",), "bytes"),
}
# How SQLite tells types apart: by words that are part of the declared name.
_TEXT_WORDS = ("CHAR", "CLOB", "TEXT")
_FLOAT_WORDS = ("REAL", "FLOA", "DOUB")


@dataclass(frozen=True)
class Declared:
    """A key column or the user's: its type, and SQL that compares it byte by byte, whatever its own collation."""

    kind: pa.DataType
    sql: str


def role_of(name: str, source: Source) -> str:
    """Return what a column is for: user or key."""
    return "user" if name == source.user else "key"


# ---- PostgreSQL


def declared_postgres(column: pa.Field, role: str) -> Declared:
    """Return the type of a column of PostgreSQL, in the role of key, user or part."""
    kind = column.type
    name = quoted_name(column.name)
    declared = _postgres_type(column)
    is_extension = isinstance(kind, pa.BaseExtensionType)
    is_uuid = str(kind) == "extension<arrow.uuid>"
    if declared == "numeric" and role == "user":  # 1.0 and 1.00 are one user
        return Declared(pa.string(), f"CAST(trim_scale({name}) AS text)")
    if declared == "numeric" or (is_extension and not is_uuid):
        raise type_refusal(column.name, f"type {declared}", "", role)
    if pa.types.is_string(kind) or is_extension:
        return Declared(pa.string(), f'CAST({name} AS text) COLLATE "C"')
    return Declared(kind, name)


def postgres_number_family(column: pa.Field) -> str:
    """Return which faults the frequencies of a column of PostgreSQL can have."""
    if pa.types.is_integer(column.type):
        return "integer"
    if pa.types.is_floating(column.type):
        return "float"
    declared = _postgres_type(column)
    return number_family(column.name, "decimal" if declared == "numeric" else declared)


def postgres_sum(column: pa.Field) -> str:
    """SQL of a summed column of PostgreSQL as a float; NULL where a number is too large, which a cast would refuse."""
    name = quoted_name(column.name)
    if _postgres_type(column) == "numeric":
        rounded = f"CAST(round({name}, 300) AS DOUBLE PRECISION)"
        return f"CASE WHEN abs({name}) < 1e300 THEN {rounded} END"
    if not pa.types.is_integer(column.type) and not pa.types.is_floating(column.type):
        raise amount_refusal(column.name, f"type {column.type}")
    return f"CAST({name} AS DOUBLE PRECISION)"


def _postgres_type(column: pa.Field) -> str:
    """Return the name of a column's type in PostgreSQL."""
    metadata = column.metadata or {}
    name: bytes = metadata.get(b"POSTGRESQL:type", b"other")
    return name.decode()


# ---- SQLite


def declared_sqlite(
    place: adbc.Place, source: Source, query: str | None, names: list[str]
) -> list[Declared]:
    """Return the types that columns of SQLite are declared with, by its rules of affinity; or text.

    A column of a query has the type of the column or the CAST that it is; one without a declared type is "BLOB".
    """
    if query is not None:
        columns = f"SELECT name, type FROM pragma_table_info('{_VIEW}')"
        results = adbc.run(place, columns, f"CREATE TEMP VIEW {_VIEW} AS {query}")
    else:
        *schema, table = str(source.options.get("table")).split(".", 1)
        arguments = ", ".join(quoted_text(name) for name in (table, *schema))
        results = adbc.run(place, f"SELECT name, type FROM pragma_table_xinfo({arguments})")
    next(results)  # the schema of the result
    declared = dict[str, str]()
    for batch in results:
        for row in batch.to_pylist():
            declared[row["name"]] = str(row["type"]).upper()
    return [_by_affinity(name, declared.get(name, ""), role_of(name, source)) for name in names]


def _by_affinity(name: str, declared: str, role: str) -> Declared:
    """Return the type of a column of SQLite by the words in its declared type."""
    column = quoted_name(name)
    if "INT" in declared:
        return Declared(pa.int64(), column)
    is_text = any(word in declared for word in _TEXT_WORDS)
    if not is_text:
        if "BLOB" in declared:
            return Declared(pa.binary(), column)
        if any(word in declared for word in _FLOAT_WORDS):
            raise type_refusal(name, "type real", "floats", role)
    return Declared(pa.string(), f"CAST({column} AS TEXT) COLLATE BINARY")


def require_stored_as_declared(
    place: adbc.Place, source: Source, item: str, names: list[str], kinds: list[pa.DataType]
) -> None:
    """Refuse columns that store values of other types than the declared ones: SQLite gives every value its own.

    `item` is a FROM item with these columns.
    """
    chosen = list[str]()
    for name, kind in zip(names, kinds, strict=True):
        column = quoted_name(name)
        stored, _ = _STORED[kind]
        permitted = ", ".join(quoted_text(word) for word in ("null", *stored))
        chosen.append(f"max(typeof({column}) = 'real')")
        chosen.append(f"max(typeof({column}) NOT IN ({permitted}))")
    [_, batch, *_] = adbc.run(place, f"SELECT {', '.join(chosen)} FROM {item}")
    is_present = [bool(column[0].as_py()) for column in batch.columns]
    has_floats = is_present[0::2]
    has_others = is_present[1::2]
    for number, name in enumerate(names):
        role = role_of(name, source)
        if has_floats[number]:
            raise type_refusal(name, "a value of type real", "floats", role)
        if has_others[number]:
            _, words = _STORED[kinds[number]]
            raise InvalidValue(
                f"the {role} column {name!r} must have only {words}, as it is declared",
                f"write `query='SELECT CAST({name} AS TEXT) AS {name} ...'` instead, or hex({name}) for bytes",
            )
