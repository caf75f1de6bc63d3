"""File formats: for each its name, its endings, and how its files are checked and read. A new format is one entry.

Text files carry no types, and guessed ones would depend on private rows: keys of CSV, TSV and JSON lines are text.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from dpsample.private.sources.arrow_files import scan_arrow
from dpsample.private.sources.delimited import scan_delimited
from dpsample.private.sources.folders import DataFile
from dpsample.private.sources.json_lines import scan_json
from dpsample.private.sources.parquet import scan_parquet
from dpsample.private.sources.scans import Scan, Statements

if TYPE_CHECKING:
    from dpsample.private.sources.source import Source


@dataclass(frozen=True)
class Format:
    """A file format: its endings, and how files of it are read."""

    endings: tuple[str, ...]
    scan: Callable[["Source", list[DataFile], Statements], Scan]


FORMATS = {
    "parquet": Format((".parquet", ".pq"), scan_parquet),
    "csv": Format((".csv", ".csv.gz"), partial(scan_delimited, usual_delimiter=",")),
    "tsv": Format((".tsv", ".tsv.gz"), partial(scan_delimited, usual_delimiter="\t")),
    "jsonl": Format((".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz"), scan_json),
    "arrow": Format((".arrow", ".feather", ".ipc"), scan_arrow),
}


def format_of(path: str) -> str | None:
    """Return the name of the format that a file's ending names.

    >>> format_of("events.csv.gz"), format_of("events.txt")
    ('csv', None)
    """
    file = os.path.basename(path).lower()
    for name, format in FORMATS.items():
        if file.endswith(format.endings):
            return name
    return None
