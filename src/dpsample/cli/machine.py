"""The engine of this machine, imported by commands that read data: others start faster without DuckDB."""

from collections.abc import Mapping
from typing import Any

from dpsample.private.engine.duckdb import DuckDB


def duckdb_of(given: Mapping[str, Any]) -> DuckDB:
    """Return the engine that the options of a command describe."""
    return DuckDB(given["memory_limit"], given["threads"], given["temp_dir"])


def ordered_duckdb_of(given: Mapping[str, Any]) -> DuckDB:
    """Return an engine that reads rows in the order of their files, as a stream does; by default with one thread."""
    threads = given["threads"] or 1
    return DuckDB(given["memory_limit"], threads, given["temp_dir"], in_order=True)
