"""Objects of a source as Arrow: the columns to read of a DataFrame, an Arrow or DuckDB object, a mapping or keys."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dpsample.errors import InvalidValue
from dpsample.files import without_view
from dpsample.private.engine.errors import type_refusal
from dpsample.private.sources.kinds import declared_types
from dpsample.private.sources.python_objects import CHUNK, batches, frame_table
from dpsample.private.sources.source import Source
from dpsample.sql import quoted_name

if TYPE_CHECKING:
    import pyarrow as pa


def source_table(source: Source) -> "pa.Table":
    """Show a DataFrame or an Arrow table as an Arrow table of the columns to read."""
    import pyarrow as pa

    data = source.data
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    types = declared_types(source)
    if isinstance(data, pa.Table) and types:
        raise InvalidValue(
            "`key_type` cannot be used with an Arrow table", "cast the column instead"
        )
    names = [
        str(name) for name in (data.column_names if isinstance(data, pa.Table) else data.columns)
    ]
    _require_no_index(source, data, names)
    source.require(names)
    if not isinstance(data, pa.Table):
        data = frame_table(data, source.columns, types, _numbers(source))
    table = data.select(source.columns)
    return table.cast(
        pa.schema([field.with_type(without_view(field.type)) for field in table.schema])
    )


def source_batches(source: Source) -> tuple["pa.Schema", Iterator["pa.RecordBatch"]]:
    """Show any other object as an Arrow schema of the columns to read, and its batches; these may come once."""
    import pyarrow as pa

    if source.kind in ("mapping", "keys"):
        _take(source)
        items = source.data.items() if source.aggregated else source.data
        types = declared_types(source)
        columns = [(name, types.get(name, pa.string())) for name in source.key]
        schema = pa.schema(columns + [("frequency", pa.int64())] * source.aggregated)
        return schema, batches(items, schema, source.aggregated, source.drop_null)
    if hasattr(
        source.data, "project"
    ):  # a DuckDB relation; its C stream would hold everything at once
        source.require(source.data.columns)
        kinds = dict(zip(source.data.columns, map(str, source.data.types), strict=True))
        if (
            source.user is not None and kinds[source.user] == "JSON"
        ):  # text, to Arrow: 1 and 1.0 would be two users
            raise type_refusal(source.user, "type json", "", "user")
        reader = source.data.project(", ".join(map(quoted_name, source.columns))).to_arrow_reader(
            CHUNK
        )
    else:
        _take(source)
        # a reader as it is: Ctrl-C in a generator behind it would not come through another stream
        native = isinstance(source.data, pa.RecordBatchReader)
        reader = source.data if native else pa.RecordBatchReader.from_stream(source.data)
        source.require(reader.schema.names)
    indices = [reader.schema.get_field_index(name) for name in source.columns]
    schema = pa.schema([reader.schema.field(i) for i in indices])
    return schema, (batch.select(indices) for batch in reader)


def _require_no_index(source: Source, data: Any, names: Sequence[str]) -> None:
    """Refuse to look for a column of a pandas DataFrame that is a level of its index."""
    levels = getattr(getattr(data, "index", None), "names", [])
    for name in source.columns:
        if name not in names and name in levels:
            raise InvalidValue(
                f"{name!r} is a level of the index of {source.location}, not a column",
                "make it a column: hand in data.reset_index()",
            )


def _numbers(source: Source) -> tuple[str, ...]:
    """The columns of numbers, whose types are not published."""
    columns = (source.frequency, *(amount.column for amount in source.amounts))
    return tuple(column for column in columns if column is not None)


def _take(source: Source) -> None:
    """Refuse to read again what can be read once, and would now seem to be empty."""
    if isinstance(source.data, Iterator):
        if source.taken:
            raise InvalidValue(
                "the stream was read before, and can be read only once", "make a new source of it"
            )
        source.taken.append(True)
