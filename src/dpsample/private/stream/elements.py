"""Elements of a stream: batches of their keys, in an order that is the same each time that an input is read."""

import os
from collections.abc import Iterable, Iterator
from typing import IO, Any

import numpy as np
import pyarrow as pa

from dpsample.errors import InvalidValue, attempt
from dpsample.files import is_text, without_view
from dpsample.lazy import arrow_csv, pc
from dpsample.private.engine import Engine
from dpsample.private.engine.columns import require_plain
from dpsample.private.sources.arrow import source_batches, source_table
from dpsample.private.sources.iterables import check_iterable
from dpsample.private.sources.python_objects import null_refusal
from dpsample.private.sources.source import Source

Batches = Iterator[pa.RecordBatch]
_BLOCK = 4 << 20  # bytes of a pipe that are read at once: more take memory, fewer take time


def object_source(data: Any, keys: tuple[str, ...], **options: Any) -> Source:
    """Return the source of an object that a program hands over: a table, a column, or an iterable of keys."""
    if isinstance(data, str | bytes | os.PathLike):
        raise InvalidValue(
            "a batch must be a table, a column or an iterable of keys, not a path", "use add_files"
        )
    if isinstance(data, pa.Array | pa.ChunkedArray):
        data = pa.table({keys[0]: data})
    elif type(data).__name__ == "Series" and hasattr(data, "to_frame"):
        check_iterable(data)
        data = data.to_frame(keys[0])
    elif isinstance(data, list | tuple):
        data = iter(data)  # its texts are keys, not paths
    source = Source(data, list(keys), **options)
    if source.kind not in ("table", "stream", "keys"):
        raise InvalidValue(
            "a stream has one row for each element, and these are no elements",
            "hand over the elements themselves, or release frequencies with dpsample.release",
        )
    return source


def elements(source: Source, engine: Engine | None = None) -> tuple[pa.Schema, Batches]:
    """Return the key columns of a source, and batches of them; files need an engine that keeps the order of rows."""
    if source.computes:
        raise InvalidValue(
            "a stream computes no keys, and filters no rows", "hand over rows that have the keys"
        )
    if engine is not None:
        keys = _plain(engine.check(source))
        return keys, (batch.cast(keys) for batch in engine.elements(source))
    if source.kind == "table":
        table = source_table(source)
        schema = table.schema
        batches = iter(table.to_batches())
    else:
        schema, batches = source_batches(source)
    for field in schema:
        require_plain(field.name, _plain_type(field.type))
    types = _plain(schema.with_metadata(None))
    fields = [field.with_name(name) for field, name in zip(types, source.key, strict=True)]
    keys = pa.schema(fields)
    return keys, (_checked(batch, keys, source.drop_null) for batch in batches)


def lines(
    pipe: IO[bytes], keys: tuple[str, ...], delimiter: str | None = None
) -> tuple[pa.Schema, Batches]:
    """Return the keys of a pipe of text in UTF-8, one in each line; the fields of several are divided by a delimiter.

    >>> import io
    >>> schema, batches = lines(io.BytesIO(b"cat 3\\ndog 1\\n"), ("animal", "n"), " ")
    >>> [batch.to_pydict() for batch in batches]
    [{'animal': ['cat', 'dog'], 'n': ['3', '1']}]
    """
    if len(keys) > 1 and (delimiter is None or len(delimiter) != 1):
        raise InvalidValue(
            f"lines of several key columns must be divided by one character, not {delimiter!r}",
            "give one, such as a tab",
        )
    schema = _text_columns(keys)

    def batches() -> Batches:
        for text in _texts(pipe):
            fields = _fields(text, keys, delimiter)
            yield pa.RecordBatch.from_arrays(fields, schema=schema)

    return schema, batches()


def _text_columns(keys: tuple[str, ...]) -> pa.Schema:
    """Return the schema of keys of text."""
    return pa.schema([(name, pa.string()) for name in keys])


def csv(
    pipe: IO[bytes], keys: tuple[str, ...], delimiter: str = ",", drop_null: bool = False
) -> tuple[Any, Batches]:
    """Return the keys of a pipe of CSV with a header line; they are text, as in files."""
    refusal = InvalidValue(
        "a pipe of CSV must be text in UTF-8 with a header line that names the key columns, and as many fields in each "
        "line",
        "check the names and the delimiter",
    )
    schema = _text_columns(keys)
    convert = arrow_csv.ConvertOptions(
        include_columns=list(keys),
        column_types=schema,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    read = arrow_csv.ReadOptions(block_size=_BLOCK)

    def batches() -> Batches:
        reader = attempt(
            lambda: arrow_csv.open_csv(pipe, read, parse, convert),
            refusal,
            pa.ArrowException,
            KeyError,
        )
        while True:
            batch = attempt(lambda: next(reader, None), refusal, pa.ArrowException)
            if batch is None:
                return
            yield _checked(batch, schema, drop_null)

    return schema, batches()


def _texts(pipe: IO[bytes]) -> Iterator[pa.Array]:
    """Yield the lines of a pipe, without their ends, many at once."""
    rest = b""  # the beginning of a line that goes on in the next block
    while block := pipe.read(_BLOCK):
        complete, end, begun = block.rpartition(b"\n")
        if end:
            yield _lines(rest + complete + end)
            rest = begun
        else:
            rest += block
    if rest:
        yield _lines(rest + b"\n")


def _lines(text: bytes) -> pa.Array:
    """Return the lines of a text, each of which ends with a line feed, as an array without copies of each line."""
    data = np.frombuffer(text, np.uint8)
    is_end = data == ord("\n")
    ends = np.flatnonzero(is_end)
    # Arrow's array of texts has all bytes without line feeds, and the offset at which each text begins
    offsets = np.append(0, ends - np.arange(len(ends))).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data[~is_end])]
    array = pa.Array.from_buffers(pa.string(), len(ends), buffers)
    refusal = InvalidValue(
        "the text of the pipe is not in UTF-8", "convert it first, such as with iconv"
    )
    attempt(lambda: array.validate(full=True), refusal, pa.ArrowException)
    return array


def _fields(text: pa.Array, keys: tuple[str, ...], delimiter: str | None) -> list[pa.Array]:
    """Return an array for each key column, from lines of text whose fields a delimiter separates."""
    if len(keys) == 1:
        return [text]
    width = len(keys)
    lines = pc.split_pattern(text, delimiter)
    other_lengths = pc.not_equal(pc.list_value_length(lines), width)
    if pc.any(other_lengths, min_count=0).as_py():
        raise InvalidValue(
            f"each line must have {width} fields, one for each key column", "check the delimiter"
        )
    fields = lines.flatten()  # of one line after another
    columns = []
    for column in range(width):
        places = np.arange(column, len(fields), width)
        columns.append(fields.take(pa.array(places)))
    return columns


def _checked(batch: pa.RecordBatch, schema: pa.Schema, drop_null: bool) -> pa.RecordBatch:
    """Return a batch of keys with the names and types of a schema; NULL is dropped or refused."""
    columns = []
    with_null = []
    for column, field in zip(batch.columns, schema, strict=True):
        columns.append(column.cast(field.type))
        if column.null_count:
            with_null.append(field.name)
    keys = pa.RecordBatch.from_arrays(columns, schema=schema)
    if with_null and not drop_null:
        raise null_refusal(with_null[0])
    refusal = InvalidValue(
        "a key is text that is not in UTF-8, or invalid", "cast the column to binary"
    )
    attempt(lambda: keys.validate(full=True), refusal, pa.ArrowException)
    return keys.drop_null() if with_null else keys


def _plain(schema: Iterable[pa.Field]) -> pa.Schema:
    """Return the schema of keys as a stream keeps them."""
    fields = [pa.field(field.name, _plain_type(field.type)) for field in schema]
    return pa.schema(fields)


def _plain_type(type_: pa.DataType) -> pa.DataType:
    """Return the type that a stream keeps: one for all texts, and one for all bytes."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    plain = without_view(type_)
    if is_text(plain):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(plain) else plain
