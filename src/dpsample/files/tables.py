"""Rows: the types that files hold, the batches in which rows are written, and a hash of their content."""

import contextlib
import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from dpsample.errors import InvalidValue, attempt
from dpsample.files.metadata import canonical, sha256_of
from dpsample.lazy import pc

ROWS: Final = 1 << 17  # in a batch and in a Parquet row group
_BYTES = 2**31 - 1  # of a batch, unless it comes as one: the offsets of strings have 32 bits

# Parquet has neither unit: it holds seconds as milliseconds of 64 bits, and these dates as days of 32 bits.
_LARGEST: Final = {"timestamp[s]": (2**63 - 1) // 1000, "date64[ms]": (2**31 - 1) * 86_400_000}


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Check that every column has a type that all formats keep; drop the metadata of the schema.

    A dictionary type is refused because it keeps the values of rows that were dropped.
    """
    for field in schema:
        t = field.type
        simple = (
            pa.types.is_integer(t)
            or pa.types.is_boolean(t)
            or pa.types.is_float64(t)
            or pa.types.is_date(t)
        )
        text = is_text(t) or pa.types.is_binary(t) or pa.types.is_large_binary(t)
        named = (pa.types.is_timestamp(t) or pa.types.is_decimal(t)) and named_type(str(t)) == t
        if not (simple or text or named):
            raise InvalidValue(
                f"the column {field.name!r} must be of string, binary, integer, bool, date, timestamp or decimal type, "
                f"not {t}",
                "cast it, for example to string",
            )
    if len({name.lower() for name in schema.names}) < len(schema.names):
        raise InvalidValue(
            "two columns have the same name, but for upper and lower case", "rename one of them"
        )
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def is_text(type: pa.DataType) -> bool:
    """Whether a column of this type holds strings."""
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type))


def without_view(type: pa.DataType) -> pa.DataType:
    """Return the large type in place of a view, which DuckDB and Arrow's own functions cannot filter.

    >>> without_view(pa.string_view()), without_view(pa.int64())
    (DataType(large_string), DataType(int64))
    """
    return {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(
        type, type
    )


def rebatch(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of `ROWS`, checked (`check_batch`, `check_moments`) and copied into own memory.

    Batches have fewer rows where these take more than `_BYTES`.

    >>> batches = [pa.record_batch({"n": [1, 2]}), pa.record_batch({"n": [3]})]
    >>> [batch.num_rows for batch in rebatch(batches, batches[0].schema)]
    [3]
    """
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        check_batch(batch, schema)
        check_moments(batch)
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, ROWS - rows)
            if held and size + part.nbytes > _BYTES:
                yield _joined(held, schema)
                held, rows, size = [], 0, 0
                continue
            held.append(part)
            start, rows, size = start + part.num_rows, rows + part.num_rows, size + part.nbytes
            if rows == ROWS:
                yield _joined(held, schema)
                held, rows, size = [], 0, 0
    if rows:
        yield _joined(held, schema)


def check_batch(batch: pa.RecordBatch, schema: pa.Schema) -> None:
    """Refuse a batch with other columns, with NULLs, or with invalid arrays."""
    columns = [(field.name, field.type) for field in batch.schema]
    if columns != [(field.name, field.type) for field in schema]:
        found = ", ".join(f"{name!r} {type}" for name, type in columns) or "no columns"
        raise InvalidValue(
            f"a batch has other columns or types than the schema: {found}", "cast the batches"
        )
    for name, column in zip(schema.names, batch.columns, strict=True):
        if column.null_count:
            raise InvalidValue(
                f"the column {name!r} has at least one NULL, and no column may",
                "drop or replace them",
            )
    refusal = InvalidValue(
        "a batch has text that is not UTF-8, or invalid arrays", "cast the column to binary"
    )
    attempt(lambda: batch.validate(full=True), refusal, pa.ArrowInvalid)


def check_moments(batch: pa.RecordBatch) -> None:
    """Refuse the few dates and timestamps that not all formats hold: a source is refused before anything is drawn.

    >>> check_moments(pa.record_batch({"day": pa.array([2**60], pa.int64()).cast(pa.timestamp("s"))}))
    Traceback (most recent call last):
      ...
    dpsample.errors.InvalidValue: timestamp[s] holds up to 9223372036854775 units before or after 1970, but ...
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        bare = str(column.type).replace(f", tz={getattr(column.type, 'tz', None)}", "")
        if largest := _LARGEST.get(bare):
            ends = pc.min_max(column.cast(pa.int64())).as_py()
            if ends["min"] is not None and not -largest <= ends["min"] <= ends["max"] <= largest:
                raise InvalidValue(
                    f"{bare} holds up to {largest} units before or after 1970, but {name!r} has a value beyond",
                    "cast it to date32 or timestamp[us], or leave such rows out",
                )


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Copy the rows: a slice would take its neighbours along into an Arrow file, or into a pickle."""
    columns = []
    for n in range(len(schema)):
        chunks = [batch.column(n) for batch in batches]
        columns.append(pa.concat_arrays([*chunks, chunks[0][:0]]))
    return pa.record_batch(columns, schema=schema)


class ContentHash:
    """SHA-256 of names, types and values; it does not depend on the format or the batches.

    Each column has one hash of the bytes of its values in Arrow's layout, and one of the lengths of its strings.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.rows, self._schema = 0, schema
        self._hashes = [(hashlib.sha256(), hashlib.sha256()) for _ in schema]

    def update(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch."""
        self.rows += batch.num_rows
        for array, (values, lengths) in zip(batch.columns, self._hashes, strict=True):
            column = array.cast(pa.uint8()) if pa.types.is_boolean(array.type) else array
            start, end = column.offset, column.offset + len(column)
            _, *offsets, data = column.buffers()
            if offsets and len(column):
                wide = column.type in (pa.large_string(), pa.large_binary())
                ends = np.frombuffer(offsets[0], np.int64 if wide else np.int32)[start : end + 1]
                lengths.update(np.diff(ends).astype("<i8").tobytes())
                start, end = int(ends[0]), int(ends[-1])
            elif not offsets:
                width = column.type.bit_width // 8
                start, end = start * width, end * width
            if end > start:
                values.update(memoryview(data)[start:end])

    def hexdigest(self) -> str:
        """Return the hash of all rows so far."""
        hashes = [[values.hexdigest(), lengths.hexdigest()] for values, lengths in self._hashes]
        return sha256_of(canonical([self.rows, written_columns(self._schema), hashes]))


def written_columns(schema: pa.Schema) -> list[list[str]]:
    """Return names and types as metadata hold them."""
    return [[field.name, str(field.type)] for field in schema]


def named_type(text: str) -> pa.DataType | None:
    """Read back the name of a type."""
    with contextlib.suppress(ValueError, AttributeError):
        if match := re.fullmatch(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]", text):
            return pa.timestamp(*match.groups())
        if match := re.fullmatch(r"decimal(32|64|128|256)\((\d+), (\d+)\)", text):
            return getattr(pa, f"decimal{match[1]}")(int(match[2]), int(match[3]))
        return pa.type_for_alias(text)
    return None
