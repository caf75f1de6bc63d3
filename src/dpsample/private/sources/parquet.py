"""Parquet files."""

from typing import TYPE_CHECKING

from dpsample.private.sources.folders import DataFile, FolderColumns
from dpsample.private.sources.scans import Scan, Statements, require_agreement
from dpsample.sql import quoted_paths

if TYPE_CHECKING:
    from dpsample.private.sources.source import Source


def scan_parquet(source: "Source", files: list[DataFile], statements: Statements) -> Scan:
    """Return how DuckDB reads Parquet files, after a look at the columns of each."""
    folders = FolderColumns.of(source, files)
    require_agreement([_column_types(source, file, folders, statements) for file in files])
    paths = quoted_paths(file.path for file in files)
    rows = f"read_parquet({paths}, hive_partitioning = false{folders.file_option})"
    number = f"SELECT sum(num_rows)::BIGINT FROM parquet_file_metadata({paths})"
    origin = f"({folders.selected(source, rows)})"
    return Scan(origin, objects=folders.objects(files), rows=number, typed=folders.names)


def _column_types(
    source: "Source", file: DataFile, folders: FolderColumns, statements: Statements
) -> dict[str, str]:
    """Return the DuckDB types of the columns to read of one file."""
    rows = f"read_parquet({quoted_paths([file.path])}, hive_partitioning = false)"
    types = dict(statements.describe(rows))
    source.require(folders.among(types))
    return {name: str(types[name]) for name in source.columns if name in types}
