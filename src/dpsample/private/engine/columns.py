"""Columns that all engines have: which types keys can have, and batches cast to a schema."""

import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.files import plain_schema
from dpsample.private.engine.errors import type_refusal


def require_plain(name: str, kind: pa.DataType, role: str = "key") -> None:
    """Refuse a type that is not compared exactly, or that no file of a release can hold.

    >>> require_plain("day", pa.date32())
    >>> require_plain("hour", pa.time64("us"))
    Traceback (most recent call last):
      ...
    dpsample.errors.InvalidValue: the key column 'hour' must be of integers, decimals, text, bytes, booleans, dates \
or timestamps; found type time64[us]; cast it to text or to an integer first
    """
    if pa.types.is_floating(kind):
        raise type_refusal(name, f"type {kind}", "floats", role)
    if pa.types.is_nested(kind):
        raise type_refusal(name, f"type {kind}".partition("<")[0], "nested values", role)
    try:
        plain_schema(pa.schema([(name, kind)]))
        return
    except InvalidValue:
        pass
    raise type_refusal(name, f"type {kind}".partition("<")[0], "", role)


def shaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Give a batch the names and types of a schema."""
    columns = [c if c.type == f.type else c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
