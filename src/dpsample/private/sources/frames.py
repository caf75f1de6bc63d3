"""DataFrames of pandas and polars as Arrow.

A column of pandas that holds Python objects has no type of its own: it has the declared type, or is text.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpsample.errors import InvalidValue, attempt
from dpsample.private.sources.python_objects import ARROW_ERRORS, column_array

if TYPE_CHECKING:
    import pyarrow as pa


def frame_table(
    frame: Any, columns: Sequence[str], types: Mapping[str, "pa.DataType"], numbers: Sequence[str]
) -> "pa.Table":
    """Return columns of a DataFrame as an Arrow table.

    types    the declared types of columns that hold objects
    numbers  columns of numbers, whose types are not published: their type is that of their values
    """
    import pyarrow as pa

    labels = {str(label): label for label in frame.columns if str(label) in columns}
    untyped = [
        name
        for name, label in labels.items()
        if name not in numbers and _holds_objects(frame[label])
    ]
    for name in types:
        if name not in untyped:
            problem = f"the column {name!r} has a type of its own"
            raise InvalidValue(problem, "cast the column instead")
    arrays = _typed_columns(frame, {n: label for n, label in labels.items() if n not in untyped})
    for name in untyped:
        kind = types.get(name, pa.string())
        arrays[name] = column_array(_objects(frame[labels[name]]), kind)
    return pa.table({name: arrays[name] for name in columns})


def _typed_columns(frame: Any, labels: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that have types of their own, by name; `labels` has what the DataFrame calls them."""
    import pyarrow as pa

    if not labels:
        return {}
    mixed = InvalidValue(
        "a column of a DataFrame has values of several types", "convert the values first"
    )
    table = attempt(lambda: pa.table(frame[list(labels.values())]), mixed, *ARROW_ERRORS)
    return {name: table.column(name) for name in labels}


def _objects(column: Any) -> list[Any]:
    """Return the values of a column of pandas; what it takes for missing is None."""
    objects = column.astype(object)
    values: list[Any] = objects.where(objects.notna(), None).tolist()
    return values


def is_pandas(data: Any) -> bool:
    """Whether an object is of pandas, whose columns may hold Python objects."""
    return type(data).__module__.partition(".")[0] == "pandas"


def _holds_objects(column: Any) -> bool:
    """Whether a column, or the categories that it names, are Python objects."""
    if not is_pandas(column):
        return False
    categories = getattr(column.dtype, "categories", None)
    values = column if categories is None else categories
    return bool(values.dtype == object)
