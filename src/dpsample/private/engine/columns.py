"""Columns that all engines have: which types keys can have, batches cast to a schema, and keys with positions."""

import re
from datetime import date

import numpy as np
import pyarrow as pa

from dpsample.accounting.parts import Part
from dpsample.errors import InvalidValue, attempt
from dpsample.files import plain_schema
from dpsample.private.engine.errors import type_refusal


def require_plain(name: str, kind: pa.DataType, role: str = "key") -> None:
    """Refuse a type that is not compared exactly, or that no file of a release can hold.

    >>> require_plain("day", pa.date32())
    >>> require_plain("hour", pa.time64("us"))
    Traceback (most recent call last):
      ...
    dpsample.errors.InvalidValue: the key column 'hour' must be of integers, decimals, text, bytes, booleans, dates \
or timestamps, not type time64[us]; cast it to text or to an integer first
    """
    if pa.types.is_floating(kind):
        raise type_refusal(name, f"type {kind}", "floats", role)
    if pa.types.is_nested(kind):
        raise type_refusal(name, short_name(kind), "nested values", role)
    if not _is_writable(kind):
        raise type_refusal(name, short_name(kind), "", role)


def _is_writable(kind: pa.DataType) -> bool:
    """Whether a file of a release can hold a column of this type."""
    try:
        plain_schema(pa.schema([("column", kind)]))
    except InvalidValue:
        return False
    return True


def short_name(kind: pa.DataType) -> str:
    """Return the name of a type in a refusal, without the types that it is made of."""
    return f"type {kind}".partition("<")[0]


def part_family(part: Part, kind: pa.DataType) -> str:
    """Return what a part's column has: text, integer, date or boolean; refuse a value that is not written as one.

    Equal values must have one text, in all engines: a part is named by its text in a ledger.

    >>> part_family(Part("day", "2026-11-14"), pa.date32())
    'date'
    >>> part_family(Part("n", "07"), pa.int64())
    Traceback (most recent call last):
      ...
    dpsample.errors.InvalidValue: the part of the column 'n' must be a value of type integer, not '07'; write it like 7
    """
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    if types.is_boolean(kind):
        return _written_as("boolean", part.value in ("true", "false"), part, "true")
    if types.is_integer(kind):
        return _written_as("integer", _is_integer(part.value, kind), part, "7")
    if types.is_date(kind):
        return _written_as("date", _is_date(part.value), part, "2026-11-14")
    raise type_refusal(part.name, short_name(kind), "", "part")


def _written_as(family: str, is_written_so: bool, part: Part, example: str) -> str:
    """Return the family of a part's value, or refuse a value that is not written as one of this family."""
    if is_written_so:
        return family
    raise InvalidValue(
        f"the part of the column {part.name!r} must be a value of type {family}, not {part.value!r}",
        f"write it like {example}",
    )


def _is_integer(text: str, kind: pa.DataType) -> bool:
    """Whether a text is how an integer within 64 bits is written: no plus sign, no leading zeros."""
    if re.fullmatch("0|-?[1-9][0-9]{0,19}", text) is None:
        return False
    number = int(text)
    if pa.types.is_signed_integer(kind):
        return -(1 << 63) <= number < 1 << 63
    return 0 <= number < 1 << 64


def _is_date(text: str) -> bool:
    """Whether a text is how a date is written, such as 2026-11-14."""
    if re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text) is None:
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def shaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Give a batch the names and types of a schema."""
    columns = list[pa.Array]()
    for column, kind in zip(batch.columns, schema.types, strict=True):
        is_cast = column.type != kind
        columns.append(column.cast(kind) if is_cast else column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def counted_schema(keys: pa.Schema, known: bool = False) -> pa.Schema:
    """Return the columns of keys with their frequencies; with `known`, also whether a key is a known one."""
    counted = keys.append(pa.field("frequency", pa.int64()))
    return counted.append(pa.field("known", pa.bool_())) if known else counted


def positioned(keys: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return keys as k0, k1, ..., each once, with the position where it comes first.

    >>> table = positioned(pa.table({"n": [1, 2], "key": ["b", "a"]}), pa.schema([("key", pa.string())]))
    >>> table.sort_by("position").to_pydict()
    {'k0': ['b', 'a'], 'position': [0, 1]}
    """
    missing = [name for name in schema.names if name not in keys.column_names]
    if missing:
        raise InvalidValue(f"the table of keys has no column {missing[0]!r}", "rename its columns")
    refusal = InvalidValue("the table of keys has other types than the source", "cast its columns")
    no_cast = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
    cast = attempt(lambda: keys.select(schema.names).cast(schema), refusal, *no_cast)
    names = [f"k{i}" for i in range(len(schema))]
    position = pa.array(np.arange(cast.num_rows))
    placed = cast.rename_columns(names).append_column("position", position)
    first = placed.group_by(names).aggregate([("position", "min")])
    ordered = first.select([*names, "position_min"])
    return ordered.rename_columns([*names, "position"])


def joined(pieces: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return some rows as one batch."""
    [batch] = pa.Table.from_batches(pieces).combine_chunks().to_batches()
    return batch


def each_pair_once(rows: pa.RecordBatch, amounts: int) -> pa.RecordBatch:
    """Return each pair of a user and a key once; the last columns are amounts, whose sums follow it.

    >>> rows = pa.record_batch({"u": [7, 7, 7], "k": [1, 2, 1], "a0": [3, 4, 5]})
    >>> each_pair_once(rows, 1).to_pydict()
    {'u': [7, 7], 'k': [1, 2], 'a0': [8, 4]}
    """
    names = rows.schema.names
    pair = names[: len(names) - amounts]
    summed = names[len(names) - amounts :]
    groups = pa.Table.from_batches([rows]).group_by(pair)
    sums = groups.aggregate([(name, "sum") for name in summed])
    sum_names = [f"{name}_sum" for name in summed]
    ordered = sums.select([*pair, *sum_names])  # an aggregate has its sums before its groups
    return joined(ordered.rename_columns(names).to_batches())
