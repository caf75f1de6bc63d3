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
        if not _is_kept(field.type):
            raise InvalidValue(
                f"the column {field.name!r} must be of string, binary, integer, bool, date, timestamp or decimal type, "
                f"not {field.type}",
                "cast it, for example to string",
            )
    if len({name.lower() for name in schema.names}) < len(schema.names):
        raise InvalidValue(
            "two columns have the same name, but for upper and lower case", "rename one of them"
        )
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def _is_kept(type: pa.DataType) -> bool:
    """Return whether all formats keep the values of this type exactly."""
    types = pa.types
    if types.is_integer(type) or types.is_boolean(type) or types.is_float64(type):
        return True
    if is_text(type) or types.is_binary(type) or types.is_large_binary(type):
        return True
    if types.is_timestamp(type) or types.is_decimal(type):
        read_back = named_type(str(type))  # from the metadata of a file
        return bool(read_back == type)
    return bool(types.is_date(type))


def is_text(type: pa.DataType) -> bool:
    """Whether a column of this type holds strings."""
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type))


def without_view(type: pa.DataType) -> pa.DataType:
    """Return the large type in place of a view, which DuckDB and Arrow's own functions cannot filter.

    >>> without_view(pa.string_view()), without_view(pa.int64())
    (DataType(large_string), DataType(int64))
    """
    if type == pa.string_view():
        return pa.large_string()
    if type == pa.binary_view():
        return pa.large_binary()
    return type


def rebatch(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of `ROWS`, checked (`check_batch`, `check_moments`) and copied into own memory.

    Batches have fewer rows where these take more than `_BYTES`.

    >>> batches = [pa.record_batch({"n": [1, 2]}), pa.record_batch({"n": [3]})]
    >>> [batch.num_rows for batch in rebatch(batches, batches[0].schema)]
    [3]
    """
    held = _Held(schema)
    for batch in batches:
        check_batch(batch, schema)
        check_moments(batch)
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, ROWS - held.rows)
            if held.batches and held.size + part.nbytes > _BYTES:
                yield held.taken()
                continue
            held.add(part)
            start += part.num_rows
            if held.rows == ROWS:
                yield held.taken()
    if held.rows:
        yield held.taken()


class _Held:
    """Rows that wait to become one batch."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._clear()

    def _clear(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.rows = 0
        self.size = 0  # bytes

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.size += batch.nbytes

    def taken(self) -> pa.RecordBatch:
        """Return all rows as one batch, and hold none of them any more."""
        joined = _joined(self.batches, self._schema)
        self._clear()
        return joined


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
    """Refuse the few dates and timestamps that Parquet cannot hold (`_LARGEST`).

    So a source with such keys is refused before anything is drawn from it.

    >>> check_moments(pa.record_batch({"day": pa.array([2**60], pa.int64()).cast(pa.timestamp("s"))}))
    Traceback (most recent call last):
      ...
    dpsample.errors.InvalidValue: timestamp[s] holds up to 9223372036854775 units before or after 1970, but ...
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        zone = getattr(column.type, "tz", None)
        plain = str(column.type).replace(f", tz={zone}", "")
        largest = _LARGEST.get(plain)
        if largest is not None and _exceeds(column, largest):
            raise InvalidValue(
                f"{plain} holds up to {largest} units before or after 1970, but {name!r} has a value beyond",
                "cast it to date32 or timestamp[us], or leave such rows out",
            )


def _exceeds(column: pa.Array, largest: int) -> bool:
    """Return whether a value is more units before or after 1970 than this."""
    ends = pc.min_max(column.cast(pa.int64())).as_py()
    if ends["min"] is None:  # no rows
        return False
    return bool(ends["min"] < -largest or ends["max"] > largest)


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
        self.rows = 0
        self._schema = schema
        self._hashes = [_ColumnHash() for _ in schema]

    def update(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch."""
        self.rows += batch.num_rows
        for column, hashes in zip(batch.columns, self._hashes, strict=True):
            hashes.update(column)

    def hexdigest(self) -> str:
        """Return the hash of all rows so far."""
        hashes = [[each.values.hexdigest(), each.lengths.hexdigest()] for each in self._hashes]
        return sha256_of(canonical([self.rows, written_columns(self._schema), hashes]))


class _ColumnHash:
    """The hashes of a column: of the bytes of its values, and of the lengths of its strings."""

    def __init__(self) -> None:
        self.values = hashlib.sha256()
        self.lengths = hashlib.sha256()

    def update(self, array: pa.Array) -> None:
        """Add values. A slice of an array shares the array's buffers, and begins at its `offset` there."""
        column = array.cast(pa.uint8()) if pa.types.is_boolean(array.type) else array
        if not len(column):
            return
        first = column.offset
        _, *offsets, data = column.buffers()
        if offsets:
            is_large = column.type in (pa.large_string(), pa.large_binary())
            all_ends = np.frombuffer(offsets[0], np.int64 if is_large else np.int32)
            ends = all_ends[first : first + len(column) + 1]
            self.lengths.update(np.diff(ends).astype("<i8").tobytes())
            start, end = int(ends[0]), int(ends[-1])
        else:
            width = column.type.bit_width // 8
            start = first * width
            end = start + len(column) * width
        if end > start:
            self.values.update(memoryview(data)[start:end])


def written_columns(schema: pa.Schema) -> list[list[str]]:
    """Return names and types as metadata hold them."""
    return [[field.name, str(field.type)] for field in schema]


def named_type(text: str) -> pa.DataType | None:
    """Return the type that has this name in metadata; None if there is no such type."""
    with contextlib.suppress(ValueError, AttributeError):
        if match := re.fullmatch(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]", text):
            return pa.timestamp(*match.groups())
        if match := re.fullmatch(r"decimal(32|64|128|256)\((\d+), (\d+)\)", text):
            return getattr(pa, f"decimal{match[1]}")(int(match[2]), int(match[3]))
        return pa.type_for_alias(text)
    return None
