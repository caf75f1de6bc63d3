"""Files that Spark reads: Parquet alone, each file once."""

import re
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - as everybody calls it

from dpsample.errors import InvalidValue
from dpsample.private.engine.spark.errors import translated
from dpsample.private.sources.folders import (
    DataFile,
    FolderColumns,
    files_of_part,
    folder_values,
)
from dpsample.private.sources.inputs import identity_of_uri, require_distinct
from dpsample.private.sources.source import Source

# Spark's setting: whether the types of columns that folders are named by follow from all of their values.
_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
# Endings of files in other formats.
_OTHER_FORMATS = {"csv", "tsv", "json", "jsonl", "ndjson", "gz", "arrow", "orc"}


def read_parquet(session: Any, paths: list[str], format: str | None) -> Any:
    """Read Parquet files, wherever Spark finds them: hdfs, s3a, or a path of its default file system.

    Each file is read once. Columns that folders are named by (k=007) are text: Spark would infer a type from all of
    their values.
    """
    _require_parquet(paths, format)
    return translated(lambda: _read_once(session, paths), ())


def read_files(source: Source, session: Any) -> Any:
    """Read the files of a source, which all workers see."""
    if source.kind != "files":
        raise InvalidValue(
            f"the Spark engine reads only DataFrames of Spark and Parquet files that all workers see, not {source}",
            "use dpsample.release, which reads it on this machine",
        )
    listing = source.listing()
    _require_parquet(listing.paths, listing.format)
    if "key_type" in source.options:
        problem = "`key_type` cannot be used on Spark"
        raise InvalidValue(problem, "cast the column of a DataFrame instead")
    files = files_of_part(source, listing.files)
    paths = [_literal(file.path) for file in files]
    folders = FolderColumns.of(source, files)
    if not folders.names:
        return _read(session, paths)
    folders.among(_schema(session, paths).names)
    roots = {_root(file) for file in files}
    if len(roots) > 1:
        raise InvalidValue(
            "the folders that name columns are in several places", "release each of them separately"
        )
    return _read(session, paths, f"file:{roots.pop()}")


def _root(file: DataFile) -> PurePosixPath:
    """Return the folder in which the folders that name columns begin."""
    left = set(file.folders)
    folder = PurePosixPath(file.path).parent
    while left:
        name, _, _ = folder.name.partition("=")
        left.discard(unquote(name))
        folder = folder.parent
    return folder


def _literal(path: str) -> str:
    """Return a URI of one file: Spark takes a path for a pattern."""
    return "file:" + re.sub(r"([\\\[\]{}*?])", r"\\\1", path)


def _require_parquet(paths: list[str], format: str | None) -> None:
    """Refuse files that are stated to be, or seem to be, of another format."""
    endings = {_ending(path) for path in paths}
    if format not in (None, "parquet") or endings & _OTHER_FORMATS:
        raise InvalidValue(
            "the Spark engine itself reads only Parquet",
            "read it into a DataFrame, with the types that you want, and call dpsample.spark.release",
        )


def _ending(path: str) -> str:
    """Return what follows the last dot in the name of a file or folder; nothing if it has no dot."""
    _, _, name = path.rpartition("/")
    return name.rpartition(".")[2].lower() if "." in name else ""


def _read_once(session: Any, paths: list[str]) -> Any:
    """Read the files of some paths, none of them twice."""
    data = _read(session, paths)
    uris = list[str]()
    for (
        path
    ) in paths:  # one path at a time: Spark lists what all paths name together without repetition
        uris += session.read.schema(data.schema).parquet(path).inputFiles()
    require_distinct(map(identity_of_uri, uris))
    _require_no_column_twice(session, paths, uris, data)
    return data


def _require_no_column_twice(session: Any, paths: list[str], uris: list[str], data: Any) -> None:
    """Refuse a column that is in the files and also in the names of their folders: Spark would take the folders'."""
    of_folders = set[str]()
    for uri in uris:
        of_folders |= folder_values(unquote(urlsplit(uri).path)).keys()
    if not of_folders & set(data.columns):
        return
    # with this option, Spark does not look for columns in the names of folders
    files = session.read.option("recursiveFileLookup", "true").parquet(*paths)
    FolderColumns(dict.fromkeys(of_folders & set(data.columns), pa.string())).among(files.columns)


def _read(session: Any, paths: list[str], root: str | None = None) -> Any:
    """Read some paths with their schema, since Spark Connect would infer it again later.

    Spark looks below the root for folders that name columns; without one, it looks below paths that are folders.
    """
    return _reader(session, root).schema(_schema(session, paths, root)).parquet(*paths)


def _reader(session: Any, root: str | None) -> Any:
    return session.read if root is None else session.read.option("basePath", root)


def _schema(session: Any, paths: list[str], root: str | None = None) -> T.StructType:
    """Return the columns of some files, where those that folders are named by are text."""
    before = session.conf.get(_INFERENCE)
    session.conf.set(_INFERENCE, "false")
    try:
        schema: T.StructType = _reader(session, root).parquet(*paths).schema
        return schema
    finally:
        session.conf.set(_INFERENCE, before)
