"""Tables with metadata, in files that appear whole or not at all. Knows nothing of privacy.

    write    rows -> a locked dot-file -> flushed -> its final name, in one step that the file system does whole
    read     the metadata's kind and version -> the bytes -> the rows, checked against what was written

Parquet carries the metadata in its own footer. CSV and Arrow have it beside them, in NAME.json; the data file comes
last, so that it is there only if it is complete. A folder of Parquet parts is complete once its _dpsample.json is.

What is written depends on the rows and the metadata alone: not on the batches in which they arrive, which may tell of
rows that were left out, and not on the memory around them. Checksums find accidents, not forgeries: nothing is signed.

    tables         rows: types, batches, a hash of what they hold
    metadata       names and documents: where metadata are, how they are sealed
    atomic_file    a file that appears whole or not at all
    atomic_folder  a folder that appears whole or not at all
    csv            CSV that no spreadsheet runs
    writing        write_table, write_file, commit_parts, and checks before any work
    reading        read_table, kind_of
"""

from dpsample.files.atomic_folder import cache_folder, check_folder, whole_folder
from dpsample.files.metadata import PARTS, VERSION, PathLike
from dpsample.files.reading import kind_of, read_table
from dpsample.files.tables import ROWS, Content, is_text, plain_schema, rebatch
from dpsample.files.writing import check_file, check_output, commit_parts, write_file, write_table

__all__ = [
    "PARTS",
    "ROWS",
    "VERSION",
    "Content",
    "PathLike",
    "cache_folder",
    "check_file",
    "check_folder",
    "check_output",
    "commit_parts",
    "is_text",
    "kind_of",
    "plain_schema",
    "read_table",
    "rebatch",
    "whole_folder",
    "write_file",
    "write_table",
]
