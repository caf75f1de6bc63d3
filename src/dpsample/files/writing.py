"""Writing: rows, then their metadata, then the name."""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from dpsample.errors import DpsampleError, InvalidValue
from dpsample.files.atomic_file import Temporary, lock, taken
from dpsample.files.csv import as_csv, csv_rules, csv_schema
from dpsample.files.metadata import (
    PARTS,
    Document,
    PathLike,
    beside_of,
    documents_in,
    failures,
    format_of,
    resolved,
    sealed,
    sha256_of,
)
from dpsample.files.tables import Content, plain_schema, rebatch, written_columns


def check_output(path: PathLike, force: bool = False, format: str | None = None) -> None:
    """Check, before any work, that an output can be written; `write_table` checks once more at the end."""
    _target(path, force, format)


def check_file(path: PathLike, force: bool = False, form: str = "parquet") -> Path:
    """Check that a file can be written, and return where; formats other than Parquet have a document beside them."""
    target = resolved(path)
    folder = target.parent
    with failures(target):
        if not folder.is_dir():
            raise InvalidValue(
                "the output's folder must exist", f"no folder {str(folder)!r}", "make it, or choose another"
            )
        if target.is_dir():
            raise InvalidValue("the output is a file", f"a folder at {str(target)!r}", "give the name of a file in it")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InvalidValue(
                "the output's folder must be writable",
                f"that {str(folder)!r} is not",
                "choose another folder, or change its permissions",
            )
        _check_free(target, form, force)
    return target


def write_file(path: PathLike, content: bytes, force: bool = False) -> None:
    """Write a file of any kind, whole or not at all."""
    target = check_file(path, force)
    with Temporary(target, None) as file:
        file.write(content)
        file.seal()
        file.place(target, force)


def write_table(
    path: PathLike,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    metadata: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
    *,
    force: bool = False,
    format: str | None = None,
    mode: int | None = None,
) -> None:
    """Write rows and their metadata, whole or not at all.

    The format goes by the extension (.parquet, .csv or .arrow) unless it is given. The metadata may be a function,
    called when all rows are written. The file gets the permissions `mode`, or what the umask leaves.

    >>> import tempfile
    >>> from dpsample.files import read_table
    >>> batch = pa.record_batch({"key": ["a", "b"], "token": [1.0, 2.5]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table(f"{folder}/x.csv", [batch], batch.schema, {"format": "dpsample release", "version": 1})
    ...     table, metadata = read_table(f"{folder}/x.csv", "release")
    >>> table.equals(pa.table(batch)), metadata
    (True, {'format': 'dpsample release', 'version': 1})
    """
    target, form = _target(path, force, format)
    schema = plain_schema(schema)
    content = Content(schema)
    with Temporary(target, mode) as data:
        with _writer(form, data, schema) as writer:
            for batch in rebatch(batches, schema):
                content.update(batch)
                writer.write_batch(as_csv(batch) if form == "csv" else batch)
            said = dict(metadata() if callable(metadata) else metadata)
            said["file"] = {
                "rows": content.rows,
                "columns": written_columns(schema),
                "content_sha256": content.hexdigest(),
            }
            if form == "parquet":
                writer.add_key_value_metadata({"dpsample": json.dumps(sealed(said))})
        data.seal()
        if form == "parquet":
            data.place(target, force)
        else:
            said["file"] |= {"sha256": data.sha256.hexdigest()} | ({"csv": csv_rules(schema)} if form == "csv" else {})
            _place_both(data, target, form, sealed(said), force, mode)


def commit_parts(
    folder: PathLike,
    parts: Mapping[str, int],
    schema: pa.Schema,
    metadata: Mapping[str, Any],
    *,
    mode: int | None = None,
) -> None:
    """Make a folder of Parquet files, given with their numbers of rows, one table: write its _dpsample.json."""
    target = Path(os.path.realpath(folder), PARTS)
    with failures(target):
        listed = [{"name": n, "rows": rows, "sha256": sha256_of(target.with_name(n))} for n, rows in parts.items()]
    columns = written_columns(plain_schema(schema))
    _write_document(target, sealed({**metadata, "file": {"columns": columns, "parts": listed}}), False, mode)


def _target(path: PathLike, force: bool, format: str | None) -> tuple[Path, str]:
    form = format_of(path, format)
    return check_file(path, force, form), form


def _check_free(target: Path, form: str, force: bool) -> None:
    for name in filter(os.path.lexists, [target] if form == "parquet" else [target, beside_of(target)]):
        if not name.is_file():
            raise InvalidValue(
                "the output is a regular file", f"something else at {str(name)!r}", "choose another name"
            )
        abandoned = name != target and not os.path.lexists(target) and documents_in(name)
        if not force and not abandoned:
            raise taken(name)


def _place_both(data: Temporary, target: Path, form: str, document: Document, force: bool, mode: int | None) -> None:
    """Place a data file and the document beside it such that one step, the data file's, decides.

    Until then the document beside it also holds the one of the data file that is replaced. The folder's lock keeps
    other writers from stepping in between.
    """
    beside = beside_of(target)
    with failures(target):
        folder = os.open(target.parent, os.O_RDONLY)
    try:
        lock(folder)
        _check_free(target, form, force)
        before = documents_in(beside) if os.path.lexists(target) else []
        _write_document(beside, document | ({"before": before} if before else {}), True, mode)
        try:
            data.place(target, force)
        except BaseException:
            if not force and not data.is_at(target):
                beside.unlink(missing_ok=True)
            raise
        if before:
            with contextlib.suppress(DpsampleError):  # the output is complete; only what it replaced is still described
                _write_document(beside, document, True, mode)
    finally:
        os.close(folder)


def _write_document(target: Path, document: Document, force: bool, mode: int | None) -> None:
    with Temporary(target, mode) as file:
        file.write(json.dumps(document, indent=2).encode() + b"\n")
        file.seal()
        file.place(target, force)


def _writer(form: str, sink: Temporary, schema: pa.Schema) -> Any:
    if form == "arrow":
        return pa.ipc.new_file(sink, schema)
    if form == "csv":
        return pa.csv.CSVWriter(sink, csv_schema(schema))
    # the first column is sorted: what repeats is adjacent, so compression finds it without a dictionary
    return pq.ParquetWriter(
        sink, schema, compression="zstd", write_page_checksum=True, use_dictionary=schema.names[1:] or False
    )
