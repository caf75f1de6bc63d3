"""Tables that other programs wrote, read by the ending of their names."""

import os
from collections.abc import Mapping

import pyarrow as pa

from dpsample.files.metadata import PathLike
from dpsample.lazy import arrow_csv, feather, pq


def read_foreign(path: PathLike, types: Mapping[str, pa.DataType] | None = None) -> pa.Table | None:
    """Read a Parquet, CSV or Arrow file; None if its ending names none of these.

    `types` are those of columns of a CSV file. Errors are those of the libraries, and may quote the file: a caller
    that must not show its content hides them.
    """
    name = os.fspath(path)
    if name.lower().endswith((".parquet", ".pq")):
        return pq.read_table(name)
    if name.lower().endswith((".arrow", ".feather")):
        return feather.read_table(name)
    if name.lower().endswith(".csv"):
        parse = arrow_csv.ParseOptions(newlines_in_values=True)
        convert = arrow_csv.ConvertOptions(column_types=types)
        return arrow_csv.read_csv(name, parse_options=parse, convert_options=convert)
    return None
