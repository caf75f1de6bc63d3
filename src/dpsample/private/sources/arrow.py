"""Objects of a source as Arrow: the columns to read of a DataFrame, an Arrow or DuckDB object, a mapping or keys."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dpsample.errors import InvalidValue
from dpsample.files import without_view
from dpsample.private.engine.errors import type_refusal
from dpsample.private.sources.frames import frame_table
from dpsample.private.sources.key_types import declared_types
from dpsample.private.sources.python_objects import CHUNK, batches
from dpsample.private.sources.records import record_batches
from dpsample.private.sources.source import Source
from dpsample.sql import quoted_name

if TYPE_CHECKING:
    import pyarrow as pa

    Rows = tuple["pa.Schema", Iterator["pa.RecordBatch"]]


def source_table(source: Source) -> "pa.Table":
    """Return the columns to read of a DataFrame or an Arrow table, as an Arrow table."""
    import pyarrow as pa

    data = source.data
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    types = declared_types(source)
    is_arrow = isinstance(data, pa.Table)
    if is_arrow and types:
        raise InvalidValue(
            "`key_type` cannot be used with an Arrow table", "cast the column instead"
        )
    names = data.column_names if is_arrow else [str(name) for name in data.columns]
    _require_no_index(source, data, names)
    source.require(names)
    if not is_arrow:
        data = frame_table(data, source.columns, types, _number_columns(source))
    table = data.select(source.columns)
    fields = [field.with_type(without_view(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def source_batches(source: Source) -> "Rows":
    """Return an Arrow schema of the columns to read of any other object, and its batches; these may come once."""
    if source.kind in ("mapping", "keys"):
        return _key_batches(source)
    if source.kind == "rows":
        return record_batches(source)
    if hasattr(source.data, "project"):
        return _relation_batches(source)
    return _stream_batches(source)


def _key_batches(source: Source) -> "Rows":
    """Return the keys of a mapping, with their frequencies, or of an iterable."""
    import pyarrow as pa

    _take(source)
    types = declared_types(source)
    fields = [(name, types.get(name, pa.string())) for name in source.key]
    if not source.aggregated:
        schema = pa.schema(fields)
        return schema, batches(source.data, schema, counted=False, drop_null=source.drop_null)
    schema = pa.schema([*fields, ("frequency", pa.int64())])
    items = source.data.items()
    return schema, batches(items, schema, counted=True, drop_null=source.drop_null)


def _relation_batches(source: Source) -> "Rows":
    """Return the columns to read of a DuckDB relation, whose C stream would hold everything at once."""
    return relation_batches(source, source.data)


def relation_batches(source: Source, relation: Any) -> "Rows":
    """Return the columns to read of a relation, as Arrow."""
    source.require(relation.columns)
    types = dict(zip(relation.columns, relation.types, strict=True))
    # Arrow gets JSON as text, in which 1 and 1.0 would be two users
    if source.user is not None and str(types[source.user]) == "JSON":
        raise type_refusal(source.user, "type json", "", "user")
    chosen = ", ".join(quoted_name(name) for name in source.columns)
    return _selected(source, relation.project(chosen).to_arrow_reader(CHUNK))


def _stream_batches(source: Source) -> "Rows":
    """Return the columns to read of an object with the Arrow C stream interface."""
    import pyarrow as pa

    _take(source)
    if isinstance(source.data, pa.RecordBatchReader):
        # a reader as it is: Ctrl-C in a generator behind it would not come through another stream
        reader = source.data
    else:
        reader = pa.RecordBatchReader.from_stream(source.data)
    source.require(reader.schema.names)
    return _selected(source, reader)


def _selected(source: Source, reader: "pa.RecordBatchReader") -> "Rows":
    """Return the columns to read of an Arrow reader, in order."""
    import pyarrow as pa

    places = [reader.schema.get_field_index(name) for name in source.columns]
    schema = pa.schema([reader.schema.field(place) for place in places])
    return schema, (batch.select(places) for batch in reader)


def _require_no_index(source: Source, data: Any, names: Sequence[str]) -> None:
    """Refuse to look for a column of a pandas DataFrame that is a level of its index."""
    levels = getattr(getattr(data, "index", None), "names", [])
    for name in source.columns:
        if name not in names and name in levels:
            raise InvalidValue(
                f"{name!r} is a level of the index of {source.location}, not a column",
                "make it a column: hand in data.reset_index()",
            )


def _number_columns(source: Source) -> tuple[str, ...]:
    """Return the columns of numbers, whose types are not published."""
    columns = (source.frequency, *(amount.column for amount in source.amounts))
    return tuple(column for column in columns if column is not None)


def _take(source: Source) -> None:
    """Refuse to read again what can be read once, and would now seem to be empty."""
    if not isinstance(source.data, Iterator):
        return
    if source.taken:
        problem = "the stream was read before, and can be read only once"
        raise InvalidValue(problem, "make a new source of it")
    source.taken.append(True)
