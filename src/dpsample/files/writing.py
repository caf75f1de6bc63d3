"""Writing: rows, then their metadata, then the final name."""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
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
from dpsample.interrupts import held
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


@dataclass(frozen=True)
class Rows:
    """Rows on their way to a file, in batches, and the schema of the file.

    `complete` sees the batches that `rebatch` makes, checks them, and passes them on. If it adds columns, `given` is
    the schema of the batches before that.
    """

    batches: Iterable[pa.RecordBatch]
    schema: pa.Schema
    given: pa.Schema | None = None
    complete: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]] = iter

    def plain(self) -> "Rows":
        """Return the same rows; refuse a schema that not all formats keep."""
        return replace(self, schema=plain_schema(self.schema))

    def completed(self) -> Iterable[pa.RecordBatch]:
        """Return batches with all columns."""
        return self.complete(rebatch(self.batches, self.given or self.schema))


def write_table(
    path: PathLike,
    rows: Rows,
    metadata: Mapping[str, Any] | Callable[[int], Mapping[str, Any]],
    *,
    force: bool = False,
    format: str | None = None,
    mode: int | None = None,
) -> int:
    """Write rows and their metadata, atomically; return the number of rows.

    The format follows from the extension (.parquet, .csv or .arrow), unless it is stated. The metadata may be a
    function of the number of rows. The file gets the permissions `mode`, or what the umask leaves.

    >>> import tempfile
    >>> from dpsample.files import read_table
    >>> batch = pa.record_batch({"key": ["a", "b"], "token": [1.0, 2.5]})
    >>> metadata = {"format": "dpsample release", "version": 1}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     count = write_table(f"{folder}/x.csv", Rows([batch], batch.schema), metadata)
    ...     table, metadata = read_table(f"{folder}/x.csv", "release", newest=1)
    >>> count, table.equals(pa.table(batch)), metadata
    (2, True, {'format': 'dpsample release', 'version': 1})
    """
    target, form = check_target(path, force, format)
    rows = rows.plain()
    with Temporary(target, mode) as data:
        written = _write_rows(data, form, rows, metadata)
        data.seal()
        with held():  # a signal must not come between two names, nor before the output is noted
            if form == "parquet":
                data.place(target, force)
            else:
                written["file"]["sha256"] = data.sha256.hexdigest()
                if form == "csv":
                    written["file"]["csv"] = csv_rules(rows.schema)
                _place_both(data, target, form, sealed(written), force, mode)
            note_written(target)
    count: int = written["file"]["rows"]
    return count


def _write_rows(
    data: Temporary,
    form: str,
    rows: Rows,
    metadata: Mapping[str, Any] | Callable[[int], Mapping[str, Any]],
) -> Metadata:
    """Write rows, and into Parquet also the metadata; return the metadata, with those of the file."""
    content = ContentHash(rows.schema)
    with _writer(form, data, rows.schema) as writer:
        for batch in rows.completed():
            content.update(batch)
            writer.write_batch(as_csv(batch) if form == "csv" else batch)
        written = dict(metadata(content.rows) if callable(metadata) else metadata)
        written["file"] = {
            "rows": content.rows,
            "columns": written_columns(rows.schema),
            "content_sha256": content.hexdigest(),
        }
        if form == "parquet":
            writer.add_key_value_metadata({"dpsample": json.dumps(sealed(written))})
    return written


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
        listed = []
        for name, rows in parts.items():
            sha256 = sha256_of(target.with_name(name))
            listed.append({"name": name, "rows": rows, "sha256": sha256})
    columns = written_columns(plain_schema(schema))
    file = {"columns": columns, "parts": listed}
    _write_sidecar(target, sealed({**metadata, "file": file}), False, mode)


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
        until_placed = metadata | {"before": before} if before else metadata
        _write_sidecar(sidecar, until_placed, True, mode)
        try:
            data.place(target, force)
        except BaseException:
            if not force and not data.is_at(target):
                sidecar.unlink(missing_ok=True)
            raise
        if before:
            # the output is complete; without this step, the sidecar still describes the old one as well
            with contextlib.suppress(DpsampleError):
                _write_sidecar(sidecar, metadata, True, mode)
    finally:
        os.close(folder)


def _write_sidecar(target: Path, metadata: Metadata, force: bool, mode: int | None) -> None:
    _write(target, json.dumps(metadata, indent=2).encode() + b"\n", force, mode)


def _write(target: Path, content: bytes, force: bool, mode: int | None) -> None:
    """Write a file atomically, without checks of its name."""
    with Temporary(target, mode) as file:
        file.write(content)
        file.seal()
        file.place(target, force)


def _writer(form: str, sink: Temporary, schema: pa.Schema) -> Any:
    """Return Arrow's writer of a format."""
    if form == "arrow":
        return pa.ipc.new_file(sink, schema)
    if form == "csv":
        return arrow_csv.CSVWriter(sink, csv_schema(schema))
    # the first column is sorted, so that equal values are adjacent: compression finds them without a dictionary
    return pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        write_page_checksum=True,
        use_dictionary=schema.names[1:] or False,
    )
