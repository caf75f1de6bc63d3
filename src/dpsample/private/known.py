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

MOST_KEYS = 10**8  # of a list: beyond, positions in Arrow's arrays of text no longer fit
_NAMED = 20  # columns of a list that a refusal names, so that it stays on one line


@dataclass(frozen=True, eq=False, repr=False)
class KnownKeys:
    """A list of known keys as it was handed in: a path, an Arrow table, or values.

    With `only`, keys outside of the list are left out of the release.
    """

    data: Any
    only: bool

    @classmethod
    def of(cls, keys: Any, only: bool, source: Source) -> "KnownKeys | None":
        """Return the list of known keys, if there is one; a file of the source itself is refused."""
        if keys is not None:
            return cls(_list_of(keys, source), only)
        if only:
            raise InvalidValue("`only_known` goes with a list of keys", "give `keys`")
        return None

    def inputs(self) -> list[str]:
        """Return the path of the list, if it is a file that is read."""
        return [self.data] if isinstance(self.data, str) else []

    def table(self, schema: pa.Schema) -> pa.Table:
        """Return the keys with the types of the source's, which `schema` has; each is there once, and none is NULL."""
        listed = self._table(schema).select(schema.names)
        with suppress(
            pa.ArrowException, ValueError, TypeError
        ):  # what cannot be cast is refused below
            listed = listed.cast(schema)
        if listed.schema.types != schema.types:
            types = ", ".join(map(str, listed.schema.types))
            raise _wrong_types(schema, f", not {types}")
        if any(column.null_count for column in listed.columns):
            raise InvalidValue("a list of known keys must not have NULL", "leave it out")
        if not 1 <= listed.num_rows <= MOST_KEYS:
            raise InvalidValue(
                f"a list of known keys must have 1 to {MOST_KEYS:,} keys, not {listed.num_rows:,}"
            )
        distinct = listed.group_by(schema.names).aggregate([]).num_rows
        if distinct < listed.num_rows:
            raise InvalidValue(
                "a list of known keys must have each key once", "leave repetitions out"
            )
        return listed.combine_chunks()

    def _table(self, schema: pa.Schema) -> pa.Table:
        """Return the list with all key columns, of any types."""
        if isinstance(self.data, list):
            return _table_of_values(self.data, schema)
        if isinstance(self.data, str):
            table = _table_of_file(self.data, schema)
        else:
            table = self.data
        missing = [name for name in schema.names if table.column_names.count(name) != 1]
        if missing:
            names = ", ".join(map(repr, table.column_names[:_NAMED])) or "none"
            raise InvalidValue(
                f"a list of known keys must have the column {missing[0]!r} once; its columns are {names}",
                "rename its columns",
            )
        return table


def _list_of(keys: Any, source: Source) -> Any:
    """Return the path of a list, its Arrow table, or its values as a list.

    Files of the private data are refused, and objects that hold no keys, such as a number.
    """
    if isinstance(keys, str | os.PathLike):
        private_files = {identity(file) for file in source.inputs()}
        if identity(keys) in private_files:
            raise InvalidValue(
                "a list of known keys is public, so it cannot be a file of the private data",
                "name a file that was made without looking at the data",
            )
        return os.fspath(keys)
    if isinstance(keys, pa.RecordBatch):
        return pa.Table.from_batches([keys])
    # a column of a data frame exports Arrow too, but it has values, and no name of a key column
    is_series = type(keys).__name__ == "Series"
    if hasattr(keys, "__arrow_c_stream__") and not is_series and not _is_arrow_array(keys):
        return pa.table(keys)
    if not is_series and not isinstance(keys, Iterable):
        raise InvalidValue(
            f"known keys cannot be of type {type(keys).__name__}",
            "give a list, an Arrow table, a data frame, or the path of a Parquet, CSV or Arrow file",
        )
    check_iterable(keys)
    return keys.to_pylist() if _is_arrow_array(keys) else list(keys)


def _is_arrow_array(keys: Any) -> bool:
    return isinstance(keys, pa.Array | pa.ChunkedArray)


def _table_of_file(path: str, schema: pa.Schema) -> pa.Table:
    """Read a list from a file; columns of text files get the types of the source's keys."""
    types = {field.name: field.type for field in schema}
    refusal = InvalidValue(
        f"a list of known keys cannot be read from {path!r}", "check the path and the file"
    )
    table = attempt(lambda: read_foreign(path, types), refusal, OSError, pa.ArrowException)
    if table is None:
        raise InvalidValue(
            f"a list of known keys must be in a .parquet, .csv or .arrow file, not {path!r}"
        )
    return table


def _table_of_values(values: Sequence[Any], schema: pa.Schema) -> pa.Table:
    """Return a table of keys; each value is a key, or a tuple if keys have several columns."""
    width = len(schema)
    rows = [(value,) for value in values] if width == 1 else values
    if not all(_is_row(row, width) for row in rows):
        raise InvalidValue(
            f"a list of known keys must have a tuple of {width} for each key",
            "write [('Oslo', 1), ...]",
        )
    columns = []
    with suppress(pa.ArrowException, ValueError, TypeError, OverflowError):
        for place, type_ in enumerate(schema.types):
            column = [row[place] for row in rows]
            columns.append(pa.array(column, type_))
        return pa.table(columns, schema.names)
    raise _wrong_types(schema)


def _is_row(row: Any, width: int) -> bool:
    return isinstance(row, tuple | list) and len(row) == width


def _wrong_types(schema: pa.Schema, instead: str = "") -> InvalidValue:
    wanted = ", ".join(map(str, schema.types))
    return InvalidValue(
        f"a list of known keys must have keys of type {wanted}{instead}", "convert it"
    )
