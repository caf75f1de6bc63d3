"""Objects that could be taken for an iterable of keys, and are something else: refused, with what to write instead.

A list of keys has one key for each element. Much that Python can iterate over has other things: the values of a pandas
Series may be frequencies of what is in its index, a data frame gives the names of its columns, a file its lines with
their line ends. Read as keys they make a release of nonsense, whose unit of privacy is not what it says. What an object
is follows from its class and its schema, never from the values in it.
"""

from collections.abc import ItemsView, Mapping
from typing import Any

import numpy as np

from dpsample.errors import InvalidValue

# What libraries call the column of a table in which they count.
COUNT_NAMES = ("count", "counts", "count_star()", "frequency", "len", "size", "proportion")


def check_iterable(data: Any) -> None:
    """Refuse an object that can be iterated over, but not for its keys."""
    if isinstance(data, bytes | bytearray | memoryview):
        raise InvalidValue("bytes are no iterable of keys", "hand in a list of keys")
    if isinstance(data, ItemsView):
        raise InvalidValue(
            "the items of a mapping are pairs of a key and its frequency", "hand in the mapping"
        )
    if isinstance(data, np.ndarray):
        _check_array(data)
    elif _is_series(data):
        _check_series(data)
    elif hasattr(data, "columns") or hasattr(data, "column_names"):
        raise InvalidValue(
            f"a table of type {_type(data)} cannot be read as it is",
            "hand in an Arrow table of it, such as data.to_arrow() or pyarrow.Table.from_pandas(data)",
        )
    elif hasattr(data, "readline"):
        raise InvalidValue(
            f"an open file of type {_type(data)} has lines with their line ends, not keys",
            r"name its path, or write (line.rstrip('\n') for line in file)",
        )
    elif hasattr(data, "keys") and hasattr(data, "items") and not isinstance(data, Mapping):
        raise InvalidValue(
            f"an object of type {_type(data)} has keys and items, but is no mapping",
            "write dict(data.items()) if it has keys and frequencies, or a list of its keys",
        )


def one_key(value: Any) -> InvalidValue:
    """Return the refusal of a value that is no key of one column."""
    if isinstance(value, tuple):
        return InvalidValue(
            "a key is a tuple, but only one key column is named",
            "name a key column for each place of the tuple, or, if these are pairs of a key and its frequency, hand in "
            "dict(pairs)",
        )
    if hasattr(value, "as_py"):  # of Arrow
        return InvalidValue(
            f"a key is of type {_type(value)}, which is no Python value",
            "hand in pyarrow.table({'key': array}), and name the key column",
        )
    if isinstance(value, Mapping | list | np.ndarray | np.void):
        return InvalidValue(
            f"a key is of type {_type(value)}, which is neither one value nor a tuple of values",
            "hand in a table and name its key column, such as pyarrow.Table.from_pylist(rows) of a list of dicts",
        )
    return InvalidValue(
        f"a key or a user of type {_type(value)} has no standard text",
        "use a str, int, bool, finite Decimal, date or UUID, or declare a type such as `key_type='binary'`",
    )


def _check_series(data: Any) -> None:
    """Refuse a Series with an index of its own: its values may be frequencies of what is there."""
    index = data.index
    is_unnamed_range = type(index).__name__ == "RangeIndex" and index.name is None
    if is_unnamed_range and (index.start, index.step) == (
        0,
        1,
    ):  # the index that a Series has by default
        return
    raise InvalidValue(
        "a Series has an index of its own, so that its values may be frequencies",
        "write .to_dict() if it has a frequency for each key of its index, as from value_counts(), or .tolist() if its "
        "values are keys",
    )


def _check_array(data: "np.ndarray[Any, Any]") -> None:
    if data.dtype.names is not None:
        raise InvalidValue(
            "a structured NumPy array has columns, not keys",
            "write pyarrow.table({name: data[name] for name in data.dtype.names}), and name the key column",
        )
    if data.ndim != 1:
        raise InvalidValue(
            f"a NumPy array of keys has one dimension, not {data.ndim}",
            "hand in one dimension, or list(map(tuple, data.tolist())) for keys of several columns",
        )


def _is_series(data: Any) -> bool:
    """Whether an object is a column with an index, of pandas or a library like it."""
    has_index = hasattr(data, "index") and not callable(data.index)
    return has_index and hasattr(data, "to_frame")


def _type(data: Any) -> str:
    """Return the name of an object's class."""
    return type(data).__qualname__
