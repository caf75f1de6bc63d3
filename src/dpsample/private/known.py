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


@dataclass(frozen=True, eq=False, repr=False)
class KnownKeys:
    """A list of known keys as it was handed in: a path, an Arrow table, or values; with `only`, there are no others."""

    data: Any
    only: bool

    @classmethod
    def of(cls, keys: Any, only: bool, source: Source) -> "KnownKeys | None":
        """Take a list, if there is one; a file of the source itself is refused."""
        if keys is None:
            if only:
                raise InvalidValue("only_known goes with a list of keys", "none", "give keys (--keys)")
            return None
        if isinstance(keys, str | os.PathLike):
            if identity(keys) in {identity(file) for file in source.inputs()}:
                raise InvalidValue(
                    "a list of known keys is public: it is no part of the private data",
                    "a file of the source",
                    "name a file that was made without looking at the data",
                )
            return cls(os.fspath(keys), only)
        if isinstance(keys, pa.RecordBatch):
            return cls(pa.Table.from_batches([keys]), only)
        if type(keys).__name__ == "Series":
            check_iterable(keys)
            return cls(list(keys), only)
        if isinstance(keys, pa.Table) or hasattr(keys, "__arrow_c_stream__"):
            return cls(pa.table(keys), only)
        if isinstance(keys, Iterable):
            check_iterable(keys)
            return cls(keys.to_pylist() if isinstance(keys, pa.Array | pa.ChunkedArray) else list(keys), only)
        raise InvalidValue(
            "known keys are a list, an Arrow table, a data frame, or the path of a Parquet, CSV or Arrow file",
            f"an object of type {type(keys).__name__}",
            "convert it",
        )

    def inputs(self) -> list[str]:
        """List the file that is read, if it is one."""
        return [self.data] if isinstance(self.data, str) else []

    def table(self, schema: pa.Schema) -> pa.Table:
        """Return the keys with the types of the source's; each is there once, and none is NULL."""
        listed = self._table(schema)
        cast = None
        with suppress(pa.ArrowException, ValueError, TypeError):
            cast = listed.select(schema.names).cast(schema)
        if cast is None:
            raise _refused(
                f"has keys of type {', '.join(map(str, schema.types))}",
                ", ".join(str(listed.schema.field(name).type) for name in schema.names),
                "cast its columns",
            )
        if any(column.null_count for column in cast.columns):
            raise _refused("has no NULL", "one", "leave it out")
        if not 1 <= cast.num_rows <= MOST_KEYS:
            raise _refused(f"has 1 to {MOST_KEYS:,} keys", f"{cast.num_rows:,}", "choose another list")
        if cast.group_by(schema.names).aggregate([]).num_rows < cast.num_rows:
            raise _refused("has each key once", "one that is there twice", "leave repetitions out")
        return cast.combine_chunks()

    def _table(self, schema: pa.Schema) -> pa.Table:
        """The list with all key columns, of any types."""
        if isinstance(self.data, list):
            return _of_values(self.data, schema)
        table = self.data
        if isinstance(table, str):
            types = {field.name: field.type for field in schema}
            unread = _refused("can be read", f"something else at {self.data!r}", "check the path and the file")
            table = attempt(lambda: read_foreign(self.data, types), unread, OSError, pa.ArrowException)
            if table is None:
                raise _refused("is in a .parquet, .csv or .arrow file", repr(self.data), "convert the file")
        missing = [name for name in schema.names if table.column_names.count(name) != 1]
        if missing:
            raise _refused(
                f"has the key columns {', '.join(map(repr, schema.names))}",
                f"no {missing[0]!r}, but {', '.join(map(repr, table.column_names[:20])) or 'no columns'}",
                "rename its columns",
            )
        return table


def _of_values(values: Sequence[Any], schema: pa.Schema) -> pa.Table:
    """Keys as values, or, if they have several columns, as tuples."""
    width = len(schema)
    rows = [(value,) for value in values] if width == 1 else values
    if not all(isinstance(row, tuple | list) and len(row) == width for row in rows):
        raise _refused(f"has a tuple of {width} for each key", "another one", "write [('Oslo', 1), ...]")
    with suppress(pa.ArrowException, ValueError, TypeError, OverflowError):
        columns = [pa.array([row[n] for row in rows], kind) for n, kind in enumerate(schema.types)]
        return pa.table(columns, schema.names)
    raise _refused(f"has keys of type {', '.join(map(str, schema.types))}", "others", "convert them")


def _refused(rule: str, found: str, remedy: str) -> InvalidValue:
    return InvalidValue(f"a list of known keys {rule}", found, remedy)
