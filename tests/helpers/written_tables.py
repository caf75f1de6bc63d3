"""How tests of files write a table."""

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import dpsample.files
from dpsample.files import Rows, write_table

read_table = partial(dpsample.files.read_table, newest=2)
FORMATS = ["parquet", "csv", "arrow"]
METADATA = {"format": "dpsample release", "version": 1, "note": ["é", 0.1, None]}
CANARY = "canary-7f3a"


def write(path: Path, table: pa.Table, **options: Any) -> None:
    write_table(path, Rows(table.to_batches(), table.schema), METADATA, **options)
