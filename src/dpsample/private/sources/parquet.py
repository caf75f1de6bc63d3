"""Parquet files."""

from typing import TYPE_CHECKING

from dpsample.private.sources.scans import Scan, Statements, require_agreement, selected_columns
from dpsample.sql import quoted_paths

if TYPE_CHECKING:
    from dpsample.private.sources.source import Source


def scan_parquet(source: "Source", paths: list[str], statements: Statements) -> Scan:
    """Return how DuckDB reads Parquet files, after a look at the columns of each."""
    types = [_column_types(source, path, statements) for path in paths]
    require_agreement(source, types)
    origin = f"(SELECT {selected_columns(source)} FROM {_rows(paths)})"
    number = f"SELECT sum(num_rows)::BIGINT FROM parquet_file_metadata({quoted_paths(paths)})"
    return Scan(origin, rows=number)


def _column_types(source: "Source", path: str, statements: Statements) -> tuple[str, ...]:
    """Return the DuckDB types of the columns of a source in one file."""
    types = dict(statements.describe(_rows([path])))
    source.require(list(types))
    return tuple(str(types[name]) for name in source.columns)


def _rows(paths: list[str]) -> str:
    """Return SQL of the rows of some files."""
    return f"read_parquet({quoted_paths(paths)}, hive_partitioning = false)"
