"""Tables with metadata, in atomic files and folders. Knows nothing of privacy.

    write    rows -> a locked dot-file -> flushed -> its final name, in one step of the file system
    read     the kind and version in the metadata -> the bytes -> the rows, checked against the metadata

Parquet carries the metadata in its own footer. CSV and Arrow have a sidecar, NAME.json; the data file gets its name
last, so that it exists only if it is complete. A folder of Parquet parts is complete once it has its _dpsample.json.

What is written depends on the rows and the metadata alone: not on the batches in which they arrive, which may depend on
rows that were left out, and not on the memory around them. Checksums find accidents, not forgeries: nothing is signed.

    tables         rows: types, batches, a hash of their content
    metadata       where metadata are, how they are sealed; paths, formats, errors of the file system
    atomic_file    a file that appears complete or not at all
    atomic_folder  a folder that appears complete or not at all
    locks          locks of open files, by a portable library
    csv            CSV that no spreadsheet runs
    outputs        checks before any work: name, room, no input; which outputs were written
    writing        write_table, write_file, commit_parts
    reading        read_table, kind_of
    foreign        tables that other programs wrote
"""

from dpsample.files.atomic_folder import atomic_folder, cache_folder, check_folder
from dpsample.files.foreign import read_foreign
from dpsample.files.metadata import PARTS, PathLike
from dpsample.files.outputs import (
    check_file,
    check_not_input,
    check_output,
    check_room,
    written_outputs,
)
from dpsample.files.reading import kind_of, read_table
from dpsample.files.tables import ROWS, ContentHash, is_text, plain_schema, rebatch, without_view
from dpsample.files.writing import Rows, commit_parts, write_cached, write_file, write_table

__all__ = [
    "PARTS",
    "ROWS",
    "ContentHash",
    "PathLike",
    "Rows",
    "atomic_folder",
    "cache_folder",
    "check_file",
    "check_folder",
    "check_not_input",
    "check_output",
    "check_room",
    "commit_parts",
    "is_text",
    "kind_of",
    "plain_schema",
    "read_foreign",
    "read_table",
    "rebatch",
    "without_view",
    "write_cached",
    "write_file",
    "write_table",
    "written_outputs",
]
