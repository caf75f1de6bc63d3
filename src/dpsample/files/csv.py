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
            columns.append(_hexadecimal(column))
        else:
            _check_kept(name, column)
            columns.append(column)
    return pa.record_batch(columns, csv_schema(batch.schema))


def _check_kept(name: str, column: pa.Array) -> None:
    """Refuse a column whose text does not read back as the same values."""
    try:
        read_back = column.cast(pa.string()).cast(column.type)
        kept = read_back.equals(column)
    except pa.ArrowInvalid:
        kept = False
    if not kept:
        raise InvalidValue(
            f"CSV does not keep a {column.type} in column {name!r} exactly",
            "write Parquet or Arrow",
        )


def _hexadecimal(column: pa.Array) -> pa.Array:
    """Return binary values in hexadecimal."""
    texts = [None if value is None else value.hex() for value in column.to_pylist()]
    return pa.array(texts, pa.string())


def _from_hexadecimal(column: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray:
    """Read binary values back."""
    values = [bytes.fromhex(text) for text in column.to_pylist()]
    return pa.chunked_array([values], type)


def csv_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of the CSV: names that no spreadsheet runs; binary, dates and timestamps as text."""
    names = _escaped(pa.array(schema.names, pa.string())).to_pylist()
    fields = []
    for name, field in zip(names, schema, strict=True):
        fields.append(pa.field(name, _csv_type(field.type)))
    return pa.schema(fields)


def csv_rules(schema: pa.Schema) -> dict[str, list[str]]:
    """Return which columns are not verbatim, for other readers of the CSV."""
    texts = [field.name for field in schema if is_text(field.type)]
    binary = [field.name for field in schema if _is_binary(field.type)]
    moments = [field.name for field in schema if _is_moment(field.type)]
    return {
        "leading apostrophe to be dropped": texts,
        "hexadecimal": binary,
        "integers counted from 1970-01-01": moments,
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
    is_number = pc.match_substring_regex(column, r"^-?[0-9]+$")
    absent = pa.scalar(None, pa.string())
    written_out = pc.if_else(is_number, absent, column).cast(type)
    numbers = pc.if_else(is_number, column, absent)
    counted = numbers.cast(_count_type(type)).cast(type)
    return pc.coalesce(written_out, counted)


def _count_type(type: pa.DataType) -> pa.DataType:
    return pa.int32() if type == pa.date32() else pa.int64()


def _escaped(texts: pa.Array) -> pa.Array:
    """Put an apostrophe before texts that begin like a formula or with an apostrophe."""
    first = pc.utf8_slice_codeunits(texts, 0, 1)
    risky = pc.is_in(first, value_set=pa.array(list(_FORMULA), texts.type))
    apostrophe = pa.scalar("'", texts.type)
    separator = pa.scalar("", texts.type)
    quoted = pc.binary_join_element_wise(apostrophe, texts, separator)
    return pc.if_else(risky, quoted, texts)


def _without_apostrophe(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Read texts back that `_escaped` wrote."""
    bare = pc.utf8_slice_codeunits(column, 1)
    return pc.if_else(pc.starts_with(column, "'"), bare, column)


def from_csv(data: bytes, schema: pa.Schema) -> pa.Table:
    """Read back what `as_csv` made."""
    names = csv_schema(schema).names
    texts = _texts_in(data, names).select(names)
    columns = []
    for field, column in zip(schema, texts.columns, strict=True):
        if is_text(field.type):
            columns.append(_without_apostrophe(column).cast(field.type))
        elif _is_moment(field.type):
            columns.append(_from_moments(column, field.type))
        elif _is_binary(field.type):
            columns.append(_from_hexadecimal(column, field.type))
        else:
            columns.append(column.cast(field.type))
    return pa.table(columns, schema=schema)


def _texts_in(data: bytes, names: list[str]) -> pa.Table:
    """Return all columns of CSV as text."""
    one_block = min(len(data) + 1, 1 << 30)  # a line that is longer than a block is refused
    read = arrow_csv.ReadOptions(block_size=one_block)
    parse = arrow_csv.ParseOptions(newlines_in_values=True)
    convert = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
    )
    return arrow_csv.read_csv(
        pa.BufferReader(data), read_options=read, parse_options=parse, convert_options=convert
    )
