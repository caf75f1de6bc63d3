"""Known keys: a public list, read and checked before any work. What is in it must not depend on the private data."""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dpsample.errors import InvalidValue, attempt
from dpsample.files import read_foreign
from dpsample.private.sources.inputs import identity
from dpsample.private.sources.iterables import check_iterable
from dpsample.private.sources.source import Source

MOST_KEYS = 10**8  # beyond, positions in Arrow's arrays of text no longer fit
_NAMED = 20  # columns of a list that a refusal names


@dataclass(frozen=True, eq=False, repr=False)
class KnownKeys:
    """A list of known keys as it was handed in: a path, an Arrow table, or values; with `only`, there are no others."""

    data: Any
    only: bool

    @classmethod
    def of(cls, keys: Any, only: bool, source: Source) -> "KnownKeys | None":
        """Take a list, if there is one; a file of the source itself is refused."""
        if keys is not None:
            return cls(_taken(keys, source), only)
        if only:
            raise InvalidValue("`only_known` goes with a list of keys", "give `keys`")
        return None

    def inputs(self) -> list[str]:
        """List the file that is read, if it is one."""
        return [self.data] if isinstance(self.data, str) else []

    def table(self, schema: pa.Schema) -> pa.Table:
        """Return the keys with the types of the source's; each is there once, and none is NULL."""
        listed = self._table(schema).select(schema.names)
        with suppress(pa.ArrowException, ValueError, TypeError):
            listed = listed.cast(schema)
        if listed.schema.types != schema.types:
            raise _wrong_types(schema, f", not {', '.join(map(str, listed.schema.types))}")
        if any(column.null_count for column in listed.columns):
            raise InvalidValue("a list of known keys must not have NULL", "leave it out")
        if not 1 <= listed.num_rows <= MOST_KEYS:
            raise InvalidValue(
                f"a list of known keys must have 1 to {MOST_KEYS:,} keys, not {listed.num_rows:,}"
            )
        if listed.group_by(schema.names).aggregate([]).num_rows < listed.num_rows:
            raise InvalidValue(
                "a list of known keys must have each key once", "leave repetitions out"
            )
        return listed.combine_chunks()

    def _table(self, schema: pa.Schema) -> pa.Table:
        """The list with all key columns, of any types."""
        if isinstance(self.data, list):
            return _of_values(self.data, schema)
        table = _of_file(self.data, schema) if isinstance(self.data, str) else self.data
        missing = [name for name in schema.names if table.column_names.count(name) != 1]
        if missing:
            names = ", ".join(map(repr, table.column_names[:_NAMED])) or "none"
            raise InvalidValue(
                f"a list of known keys must have the column {missing[0]!r} once; its columns are {names}",
                "rename its columns",
            )
        return table


def _taken(keys: Any, source: Source) -> Any:
    """Return the path of a list, its table, or its values."""
    if isinstance(keys, str | os.PathLike):
        if identity(keys) in {identity(file) for file in source.inputs()}:
            raise InvalidValue(
                "a list of known keys is public, so it cannot be a file of the private data",
                "name a file that was made without looking at the data",
            )
        return os.fspath(keys)
    if isinstance(keys, pa.RecordBatch):
        return pa.Table.from_batches([keys])
    is_series = type(keys).__name__ == "Series"
    if not is_series and (isinstance(keys, pa.Table) or hasattr(keys, "__arrow_c_stream__")):
        return pa.table(keys)
    if not is_series and not isinstance(keys, Iterable):
        raise InvalidValue(
            f"known keys cannot be of type {type(keys).__name__}",
            "give a list, an Arrow table, a data frame, or the path of a Parquet, CSV or Arrow file",
        )
    check_iterable(keys)
    return keys.to_pylist() if isinstance(keys, pa.Array | pa.ChunkedArray) else list(keys)


def _of_file(path: str, schema: pa.Schema) -> pa.Table:
    types = {field.name: field.type for field in schema}
    unread = InvalidValue(
        f"a list of known keys cannot be read from {path!r}", "check the path and the file"
    )
    table = attempt(lambda: read_foreign(path, types), unread, OSError, pa.ArrowException)
    if table is None:
        raise InvalidValue(
            f"a list of known keys must be in a .parquet, .csv or .arrow file, not {path!r}"
        )
    return table


def _of_values(values: Sequence[Any], schema: pa.Schema) -> pa.Table:
    """Keys as values, or, if they have several columns, as tuples."""
    width = len(schema)
    rows = [(value,) for value in values] if width == 1 else values
    if not all(isinstance(row, tuple | list) and len(row) == width for row in rows):
        raise InvalidValue(
            f"a list of known keys must have a tuple of {width} for each key",
            "write [('Oslo', 1), ...]",
        )
    with suppress(pa.ArrowException, ValueError, TypeError, OverflowError):
        columns = [pa.array([row[n] for row in rows], kind) for n, kind in enumerate(schema.types)]
        return pa.table(columns, schema.names)
    raise _wrong_types(schema)


def _wrong_types(schema: pa.Schema, instead: str = "") -> InvalidValue:
    wanted = ", ".join(map(str, schema.types))
    return InvalidValue(
        f"a list of known keys must have keys of type {wanted}{instead}", "convert it"
    )
