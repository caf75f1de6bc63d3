"""Python objects as Arrow: keys, or keys with frequencies, in batches. What is refused is never shown."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from numbers import Integral
from typing import TYPE_CHECKING, Any, NoReturn

from dpsample.errors import InvalidValue

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 1 << 16  # rows of a batch


def batches(items: Iterable[Any], key: Sequence[str], counted: bool, drop_null: bool) -> Iterator["pa.RecordBatch"]:
    """Yield batches of the key columns; of items that are pairs of a key and its frequency if they are `counted`.

    >>> [batch] = batches({"a": 5, None: 7}.items(), ["word"], counted=True, drop_null=True)
    >>> batch.to_pylist()
    [{'word': 'a', 'frequency': 5}]
    """
    import pyarrow as pa

    left = iter(items)
    families: list[str] = []
    while chunk := list(islice(left, CHUNK)):
        columns = _columns([item[0] for item in chunk] if counted else chunk, len(key))
        if counted:
            columns.append([_whole(item[1]) for item in chunk])
        gaps = [i for i, column in enumerate(columns) if None in column]
        if gaps and not drop_null:
            raise null_refusal(key[gaps[0]])
        if gaps:
            columns = list(zip(*(row for row in zip(*columns, strict=True) if None not in row), strict=True))
        if not columns:
            continue
        found = [_family(column) for column in columns]
        if families and found != families:
            _refuse_mixed()
        families = found
        arrays = [_array(column, family) for column, family in zip(columns, families, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, [*key, "frequency"][: len(arrays)])


def _columns(keys: list[Any], width: int) -> list[Sequence[Any]]:
    """Turn keys into one sequence for each key column."""
    if width == 1:
        return [keys]
    if not all(isinstance(key, tuple) and len(key) == width for key in keys):
        raise InvalidValue(
            f"each key is a tuple of {width}, one for each key column",
            "another one",
            "name as many key columns as a key has places",
        )
    return list(zip(*keys, strict=True))


def null_refusal(column: str) -> InvalidValue:
    """Put a NULL in a key column into words."""
    return InvalidValue(
        f"the key column {column!r} must have no NULL",
        "at least one row with NULL",
        "leave such rows out with drop_null=True (--drop-null), or fill them in",
    )


def _family(column: Collection[Any]) -> str:
    families = set()
    for kind in set(map(type, column)):
        if issubclass(kind, bool):
            families.add("bool")
        elif issubclass(kind, Integral):
            families.add("int")
        elif issubclass(kind, str):
            families.add("str")
        elif issubclass(kind, bytes):
            families.add("bytes")
        else:
            raise InvalidValue(
                "a key is a str, int, bytes or bool, or a tuple of these",
                f"one of type {kind.__qualname__}",
                "convert the keys to text, or name the columns of a composite key",
            )
    if len(families) > 1:
        _refuse_mixed()
    return families.pop()


def _refuse_mixed() -> NoReturn:
    raise InvalidValue("all keys have one type", "several types", "convert the keys to text")


def _array(column: Collection[Any], family: str) -> "pa.Array":
    import pyarrow as pa

    types = {"bool": pa.bool_(), "int": pa.int64(), "str": pa.string(), "bytes": pa.binary()}
    if family == "int":
        column = [int(v) for v in column]
    return quietly(
        lambda: pa.array(column, types[family]),
        "integers are from -2**63 to 2**63 - 1, and text can be written in UTF-8",
        "one that is not",
    )


def _whole(frequency: Any) -> int:
    """Read a frequency of a mapping as an integer, or refuse it."""
    try:
        whole = int(frequency)
        if whole == frequency and not isinstance(frequency, str):
            return whole
    except (ValueError, TypeError, OverflowError, ArithmeticError):
        pass
    raise InvalidValue("frequencies are whole numbers", "one that is not", "count the elements of each key") from None


def quietly(convert: Callable[[], Any], rule: str, found: str) -> Any:
    """Convert to Arrow; what Arrow says of a failure would show values."""
    try:
        return convert()
    except (ValueError, TypeError, OverflowError, NotImplementedError, KeyError):  # Arrow's own are among these
        pass
    raise InvalidValue(rule, found, "convert the values to one type first")
