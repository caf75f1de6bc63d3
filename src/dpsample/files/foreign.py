"""Tables that other programs wrote, read by the ending of their names."""

import os
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from dpsample.files.metadata import PathLike


def read_foreign(path: PathLike, types: Mapping[str, pa.DataType] | None = None) -> pa.Table | None:
    """Read a Parquet, CSV or Arrow file; None if its ending names none of these.

    `types` are those of columns of a CSV file. Errors are those of the libraries, and may quote the file: a caller
    that must not show its content hides them.
    """
    name = os.fspath(path)
    if name.lower().endswith((".parquet", ".pq")):
        return pa.parquet.read_table(name)
    if name.lower().endswith((".arrow", ".feather")):
        return pa.feather.read_table(name)
    if name.lower().endswith(".csv"):
        parse = pa.csv.ParseOptions(newlines_in_values=True)
        convert = pa.csv.ConvertOptions(column_types=types)
        return pa.csv.read_csv(name, parse_options=parse, convert_options=convert)
    return None
