"""Columns of Spark: which types keys can have, and columns that refuse values when they are computed."""

import math
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from dpsample.accounting.amounts import Amount
from dpsample.accounting.parts import Part
from dpsample.errors import DpsampleError
from dpsample.exact import MAX_FREQUENCY
from dpsample.private.engine.columns import part_family, require_plain
from dpsample.private.engine.errors import MARK, amount_refusal, frequency_refusal, type_refusal

_ARROW_TYPES: dict[str, pa.DataType] = {  # Spark's name of a type -> the same in Arrow
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_PART_TYPES = {"integer": "bigint", "date": "date", "boolean": "boolean"}  # by family of a part
_NESTED = (T.ArrayType, T.StructType, T.MapType)
_FLOATS = (T.FloatType, T.DoubleType)


@dataclass(frozen=True)
class KeyColumn:
    """A column of the key, or the user's: its type, and the same in Arrow."""

    column: Any
    kind: T.DataType
    arrow: pa.DataType


def raised(code: str, kind: str = "boolean") -> Any:
    """Return a column of a type that ends the job with a marked error, if it is computed."""
    return F.raise_error(F.lit(f"{MARK}:{code}")).cast(kind)


def key_column(name: str, column: Any, kind: T.DataType, role: str = "key") -> KeyColumn:
    """Return a column in the role of key or user, or refuse its type."""
    if _is_text(kind):
        return KeyColumn(column.cast(T.StringType()), T.StringType(), pa.string())
    if isinstance(kind, T.DecimalType):
        return KeyColumn(column, kind, pa.decimal128(kind.precision, kind.scale))
    arrow = _ARROW_TYPES.get(kind.simpleString())
    if arrow is None:
        raise _type_refusal(name, kind, role)
    require_plain(name, arrow, role)
    return KeyColumn(column, kind, arrow)


def _is_text(kind: T.DataType) -> bool:
    """Whether a column is cast to plain text: a collation would take different values for equal."""
    return isinstance(kind, T.StringType | T.NullType)


def _type_refusal(name: str, kind: T.DataType, role: str) -> DpsampleError:
    """Return the refusal of the type of a key column or the user's."""
    what = "floats" if isinstance(kind, _FLOATS) else ""
    if isinstance(kind, _NESTED) or kind.simpleString() == "variant":
        what = "nested values"
    return type_refusal(name, _type_name(kind), what, role)


def _type_name(kind: T.DataType) -> str:
    """Return the name of a type in a refusal, without the types that it is made of."""
    return f"type {kind.simpleString().partition('<')[0]}"


def in_part(part: Part, column: Any, kind: T.DataType) -> Any:
    """Return whether a row is in a part, as a column; `column` and its type are those that the part names."""
    if _is_text(kind):
        return column.cast(T.StringType()) == F.lit(part.value)
    arrow = _ARROW_TYPES.get(kind.simpleString())
    if arrow is None:
        raise type_refusal(part.name, _type_name(kind), "", "part")
    family = part_family(part, arrow)
    value = F.lit(part.value).cast(_PART_TYPES[family])
    return column == value


def units_of_amount(amount: Amount, column: Any, kind: T.DataType) -> Any:
    """Return a row's amount in whole units, as a column; NULL, NaN and infinite values count 0."""
    if not isinstance(kind, T.NumericType | T.BooleanType):
        raise amount_refusal(str(amount.column), _type_name(kind))
    number = column.cast("double")
    scaled = number * F.lit(amount.scale) + F.lit(0.5)
    most = float(amount.most_of_row)
    at_least = F.greatest(scaled, F.lit(-most))
    within = F.least(at_least, F.lit(most))
    is_finite = F.abs(number) < F.lit(math.inf)
    units = F.when(is_finite, F.floor(within)).otherwise(F.lit(0))
    return units.cast("bigint")


def whole_frequency(name: str, place: str, kind: T.DataType) -> Any:
    """Return a frequency column, which refuses what is no frequency; it is computed for rows that are not dropped.

    `place` is what the column is called in the DataFrame.
    """
    column = F.col(place)
    whole = F.expr(f"try_cast({place} AS BIGINT)")
    checked = F.when(column.isNull(), raised("missing", "bigint"))
    checked = checked.when(column < 0, raised("negative", "bigint"))
    checked = checked.when(_is_too_large(name, column, kind), raised("large", "bigint"))
    checked = checked.when(column != whole, raised("fractional", "bigint"))
    return checked.otherwise(whole)


def _is_too_large(name: str, column: Any, kind: T.DataType) -> Any:
    """Return whether a frequency is above the largest one, or not held exactly by its type, as a column."""
    if isinstance(kind, T.IntegralType):
        return F.lit(False)
    if isinstance(kind, T.DecimalType):
        return column > F.lit(MAX_FREQUENCY)
    if isinstance(kind, _FLOATS):
        return column > F.lit(2.0**53)  # NaN is above every number
    raise frequency_refusal(name, _type_name(kind))
