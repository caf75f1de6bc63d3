"""CSV that no spreadsheet runs, and that reads back exactly."""

import contextlib

import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.files.tables import is_text
from dpsample.lazy import arrow_csv, pc

_FORMULA = "=+-@\t\r\n＝＋－＠'"  # the starts of formulas, and the apostrophe that escapes them


def as_csv(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return strings that no spreadsheet runs, binary in hexadecimal, dates and timestamps that read back exactly.

    Every value of these types has such a form: a release that was paid for can be written. Text keeps all integers,
    decimals, booleans and finite floats.
    """
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if is_text(column.type):
            columns.append(_escaped(column))
        elif _is_moment(column.type):
            columns.append(_moments(column))
        elif _is_binary(column.type):
            columns.append(
                pa.array([v if v is None else v.hex() for v in column.to_pylist()], pa.string())
            )
        else:
            columns.append(column)
            try:
                kept = column.cast(pa.string()).cast(column.type).equals(column)
            except pa.ArrowInvalid:
                kept = False
            if not kept:
                raise InvalidValue(
                    f"CSV does not keep a {column.type} in column {name!r} exactly",
                    "write Parquet or Arrow",
                )
    return pa.record_batch(columns, csv_schema(batch.schema))


def csv_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of the CSV: names that no spreadsheet runs; binary, dates and timestamps as text."""
    names = _escaped(pa.array(schema.names, pa.string())).to_pylist()
    return pa.schema(
        [pa.field(name, _csv_type(field.type)) for name, field in zip(names, schema, strict=True)]
    )


def csv_rules(schema: pa.Schema) -> dict[str, list[str]]:
    """Return which columns are not verbatim, for other readers of the CSV."""
    return {
        "leading apostrophe to be dropped": [field.name for field in schema if is_text(field.type)],
        "hexadecimal": [field.name for field in schema if _is_binary(field.type)],
        "integers counted from 1970-01-01": [
            field.name for field in schema if _is_moment(field.type)
        ],
    }


def _csv_type(type: pa.DataType) -> pa.DataType:
    return pa.string() if _is_binary(type) or _is_moment(type) else type


def _is_binary(type: pa.DataType) -> bool:
    return type in (pa.binary(), pa.large_binary())


def _is_moment(type: pa.DataType) -> bool:
    return bool(pa.types.is_date(type) or pa.types.is_timestamp(type))


def _moments(column: pa.Array) -> pa.Array:
    """Write dates and timestamps as Arrow does; where this does not read back, in days or units since 1970-01-01.

    Arrow does not read back years outside of 0 to 9999, offsets with seconds (Berlin, 1850), and zones that it does not
    know.

    >>> _moments(pa.array([19000, 2**31 - 1], pa.int32()).cast(pa.date32())).to_pylist()
    ['2022-01-08', '2147483647']
    """
    with contextlib.suppress(pa.ArrowInvalid):
        text = column.cast(pa.string())
        if text.cast(column.type).equals(column):
            return text
    if len(column) > 1:
        half = len(column) // 2
        return pa.concat_arrays([_moments(column[:half]), _moments(column[half:])])
    return column.cast(_count_type(column.type)).cast(pa.string())


def _from_moments(column: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray:
    """Read moments that are written out, or counted as whole numbers."""
    counted = pc.match_substring_regex(column, r"^-?[0-9]+$")
    absent = pa.scalar(None, pa.string())
    written = pc.if_else(counted, absent, column).cast(type)
    numbers = pc.if_else(counted, column, absent).cast(_count_type(type))
    return pc.coalesce(written, numbers.cast(type))


def _count_type(type: pa.DataType) -> pa.DataType:
    return pa.int32() if type == pa.date32() else pa.int64()


def _escaped(texts: pa.Array) -> pa.Array:
    """Put an apostrophe before texts that begin like a formula or with an apostrophe."""
    first = pc.utf8_slice_codeunits(texts, 0, 1)
    risky = pc.is_in(first, value_set=pa.array(list(_FORMULA), texts.type))
    quoted = pc.binary_join_element_wise(
        pa.scalar("'", texts.type), texts, pa.scalar("", texts.type)
    )
    return pc.if_else(risky, quoted, texts)


def from_csv(data: bytes, schema: pa.Schema) -> pa.Table:
    """Read back what `as_csv` made."""
    names = csv_schema(schema).names
    texts = arrow_csv.read_csv(
        pa.BufferReader(data),
        read_options=arrow_csv.ReadOptions(block_size=min(len(data) + 1, 1 << 30)),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )
    columns = []
    for field, column in zip(schema, texts.select(names).columns, strict=True):
        if is_text(field.type):
            bare = pc.utf8_slice_codeunits(column, 1)
            columns.append(pc.if_else(pc.starts_with(column, "'"), bare, column).cast(field.type))
        elif _is_moment(field.type):
            columns.append(_from_moments(column, field.type))
        elif _is_binary(field.type):
            columns.append(
                pa.chunked_array(
                    [[bytes.fromhex(value) for value in column.to_pylist()]], field.type
                )
            )
        else:
            columns.append(column.cast(field.type))
    return pa.table(columns, schema=schema)
