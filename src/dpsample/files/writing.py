"""Writing: rows, then their metadata, then the final name."""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpsample.errors import DpsampleError
from dpsample.files.atomic_file import Temporary
from dpsample.files.csv import as_csv, csv_rules, csv_schema
from dpsample.files.locks import lock
from dpsample.files.metadata import (
    PARTS,
    Metadata,
    PathLike,
    failures,
    metadata_in,
    sealed,
    sha256_of,
    sidecar_of,
)
from dpsample.files.outputs import check_file, check_free, check_target, note_written
from dpsample.files.tables import ContentHash, plain_schema, rebatch, written_columns
from dpsample.lazy import arrow_csv, pq


def write_file(
    path: PathLike, content: bytes, force: bool = False, mode: int | None = None
) -> None:
    """Write a file of any kind, atomically; with the permissions `mode`, if given."""
    target = check_file(path, force)
    _write(target, content, force, mode)
    note_written(target)


def write_cached(path: Path, content: bytes) -> None:
    """Write a file into the cache folder, atomically; it is no output."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(path, content, True, None)


def write_table(
    path: PathLike,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    metadata: Mapping[str, Any] | Callable[[int], Mapping[str, Any]],
    *,
    given: pa.Schema | None = None,
    check: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]] = iter,
    force: bool = False,
    format: str | None = None,
    mode: int | None = None,
) -> int:
    """Write rows and their metadata, atomically; return the number of rows.

    The format follows from the extension (.parquet, .csv or .arrow), unless it is stated. The metadata may be a
    function of the number of rows. `check` sees the batches that `rebatch` makes, and passes them on; if they have
    other columns, `given` states these. The file gets the permissions `mode`, or what the umask leaves.

    >>> import tempfile
    >>> from dpsample.files import read_table
    >>> batch = pa.record_batch({"key": ["a", "b"], "token": [1.0, 2.5]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = write_table(f"{folder}/x.csv", [batch], batch.schema, {"format": "dpsample release", "version": 1})
    ...     table, metadata = read_table(f"{folder}/x.csv", "release", newest=1)
    >>> rows, table.equals(pa.table(batch)), metadata
    (2, True, {'format': 'dpsample release', 'version': 1})
    """
    target, form = check_target(path, force, format)
    schema = plain_schema(schema)
    content = ContentHash(schema)
    with Temporary(target, mode) as data:
        with _writer(form, data, schema) as writer:
            for batch in check(rebatch(batches, given or schema)):
                content.update(batch)
                writer.write_batch(as_csv(batch) if form == "csv" else batch)
            written = dict(metadata(content.rows) if callable(metadata) else metadata)
            written["file"] = {
                "rows": content.rows,
                "columns": written_columns(schema),
                "content_sha256": content.hexdigest(),
            }
            if form == "parquet":
                writer.add_key_value_metadata({"dpsample": json.dumps(sealed(written))})
        data.seal()
        if form == "parquet":
            data.place(target, force)
        else:
            written["file"] |= {"sha256": data.sha256.hexdigest()}
            written["file"] |= {"csv": csv_rules(schema)} if form == "csv" else {}
            _place_both(data, target, form, sealed(written), force, mode)
    note_written(target)
    return content.rows


def commit_parts(
    folder: PathLike,
    parts: Mapping[str, int],
    schema: pa.Schema,
    metadata: Mapping[str, Any],
    *,
    mode: int | None = None,
) -> None:
    """Make one table of a folder of Parquet files, by their names and numbers of rows: write its _dpsample.json."""
    target = Path(os.path.realpath(folder), PARTS)
    with failures(target):
        listed = [
            {"name": n, "rows": rows, "sha256": sha256_of(target.with_name(n))}
            for n, rows in parts.items()
        ]
    columns = written_columns(plain_schema(schema))
    _write_sidecar(
        target, sealed({**metadata, "file": {"columns": columns, "parts": listed}}), False, mode
    )


def _place_both(
    data: Temporary, target: Path, form: str, metadata: Metadata, force: bool, mode: int | None
) -> None:
    """Place a data file and its sidecar such that one step, the data file's, decides.

    Until then the sidecar also holds the metadata of the data file that is replaced. The folder's lock keeps other
    writers out.
    """
    sidecar = sidecar_of(target)
    with failures(target):
        folder = os.open(target.parent, os.O_RDONLY)
    try:
        lock(folder)
        check_free(target, form, force)
        before = metadata_in(sidecar) if os.path.lexists(target) else []
        _write_sidecar(sidecar, metadata | ({"before": before} if before else {}), True, mode)
        try:
            data.place(target, force)
        except BaseException:
            if not force and not data.is_at(target):
                sidecar.unlink(missing_ok=True)
            raise
        if before:
            with contextlib.suppress(
                DpsampleError
            ):  # the output is complete; the sidecar still describes the old one
                _write_sidecar(sidecar, metadata, True, mode)
    finally:
        os.close(folder)


def _write_sidecar(target: Path, metadata: Metadata, force: bool, mode: int | None) -> None:
    _write(target, json.dumps(metadata, indent=2).encode() + b"\n", force, mode)


def _write(target: Path, content: bytes, force: bool, mode: int | None) -> None:
    with Temporary(target, mode) as file:
        file.write(content)
        file.seal()
        file.place(target, force)


def _writer(form: str, sink: Temporary, schema: pa.Schema) -> Any:
    if form == "arrow":
        return pa.ipc.new_file(sink, schema)
    if form == "csv":
        return arrow_csv.CSVWriter(sink, csv_schema(schema))
    # the first column is sorted: what repeats is adjacent, so compression finds it without a dictionary
    return pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        write_page_checksum=True,
        use_dictionary=schema.names[1:] or False,
    )
