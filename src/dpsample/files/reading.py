"""Reading: kind and version, then bytes, then rows are checked against the metadata."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpsample.errors import DpsampleError, InvalidValue
from dpsample.files.csv import from_csv
from dpsample.files.metadata import (
    PARTS,
    Metadata,
    PathLike,
    canonical,
    failure,
    failures,
    format_of,
    metadata_in,
    resolved,
    sha256_of,
    sidecar_of,
)
from dpsample.files.tables import ROWS, ContentHash, check_batch, named_type, plain_schema
from dpsample.lazy import pq


def read_table(
    path: PathLike, kind: str, newest: int, *, format: str | None = None
) -> tuple[pa.Table, Metadata]:
    """Read a table of a kind, "release" or "sample", and its metadata; refuse a file that is not as it was written.

    `newest` is the newest version of this kind of file that the caller understands.
    """
    target = resolved(path)
    if not os.path.exists(target):
        raise InvalidValue(f"there is no {kind} at {str(target)!r}", "check the path")
    form = None if target.is_dir() else format_of(path, format)
    refusal: DpsampleError = _damaged(target, "content that cannot be read, or not in this memory")
    try:
        return _read(target, form, kind, newest)
    except DpsampleError:
        raise
    except Exception as error:  # of any library
        if isinstance(error, OSError) and error.errno:
            refusal = failure(target, error)
    raise refusal  # outside of the handler: another library's error may quote a sample


def _read(target: Path, form: str | None, kind: str, newest: int) -> tuple[pa.Table, Metadata]:
    """Read a file of a form, or a folder of parts if the form is None, and check it against its metadata."""
    if form is None:
        return _read_parts(target, kind, newest)
    if not target.is_file():
        raise InvalidValue(
            f"there is neither a file nor a folder at {str(target)!r}", "check the path"
        )
    if form == "parquet":
        table, metadata, file = _read_parquet(target, kind, newest)
    else:
        table, metadata, file = _read_pair(target, form, kind, newest)
    content = ContentHash(table.schema)
    for batch in table.to_batches():
        check_batch(batch, table.schema)
        content.update(batch)
    if (content.rows, content.hexdigest()) != (file["rows"], file["content_sha256"]):
        raise _damaged(target, "rows that were changed")
    return table, metadata


def kind_of(path: PathLike) -> str | None:
    """Return "release", "test release" or "sample", as the metadata of a file of ours state; None for others.

    Nothing is checked: this serves messages about a wrong file.
    """
    metadata = metadata_of(path) or {}
    format = str(metadata.get("format"))
    kind = format.removeprefix("dpsample ")
    ours = format != kind and kind in ("release", "test release", "sample")
    return kind if ours else None


def metadata_of(path: PathLike) -> Metadata | None:
    """Return the metadata of a file as they stand there, unchecked; None if there are none."""
    target = resolved(path)
    with contextlib.suppress(Exception):
        if target.suffix in (".parquet", ".private") and target.is_file():
            footer = pq.read_metadata(target).metadata or {}
            if b"dpsample" in footer:
                metadata: Metadata = json.loads(footer[b"dpsample"])
                return metadata
        sidecar = target / PARTS if target.is_dir() else sidecar_of(target)
        return metadata_in(sidecar)[0]
    return None


def _read_parquet(target: Path, kind: str, newest: int) -> tuple[pa.Table, Metadata, Metadata]:
    """Read a Parquet file: its table, its metadata, and the metadata of the file itself."""
    with pq.ParquetFile(target, page_checksum_verification=True) as parquet:
        footer = parquet.metadata.metadata or {}
        if b"dpsample" not in footer:
            raise _not_ours(kind, None)
        metadata, file = _checked(json.loads(footer[b"dpsample"]), kind, newest, target)
        _check_groups(parquet.metadata, target)
        return _typed(parquet.read(), _schema(file), target), metadata, file


def _check_groups(footer: "pq.FileMetaData", target: Path) -> None:
    """Refuse row groups that are larger than ours: a repeated value takes no room in a file, but all memory here."""
    sizes = [footer.row_group(n).num_rows for n in range(footer.num_row_groups)]
    if any(size > ROWS for size in sizes):
        raise _damaged(target, "row groups of another size")


def _read_pair(
    target: Path, form: str, kind: str, newest: int
) -> tuple[pa.Table, Metadata, Metadata]:
    """Read a CSV or Arrow file with its sidecar: its table, its metadata, and the metadata of the file itself."""
    candidates = metadata_in(sidecar_of(target))
    if not candidates:
        raise _not_ours(kind, sidecar_of(target))
    data = target.read_bytes()
    sha256 = sha256_of(data)
    described = [m for m in candidates if m.get("file", {}).get("sha256") == sha256]
    chosen = described[0] if described else candidates[0]
    metadata, file = _checked(chosen, kind, newest, target)
    if file["sha256"] != sha256:
        raise _damaged(target, f"another SHA-256 than {str(sidecar_of(target))!r} states")
    schema = _schema(file)
    if form == "csv":
        table = from_csv(data, schema)
    else:
        table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    return _typed(table, schema, target), metadata, file


def _read_parts(folder: Path, kind: str, newest: int) -> tuple[pa.Table, Metadata]:
    """Read a folder of Parquet parts: all rows as one table, and the metadata."""
    candidates = metadata_in(folder / PARTS)
    if not candidates:
        raise _not_ours(kind, folder / PARTS)
    metadata, file = _checked(candidates[0], kind, newest, folder)
    schema = _schema(file)
    present = {path.name for path in folder.glob("*.parquet") if path.name[0] not in "._"}
    stated = {part["name"] for part in file["parts"]}
    if present != stated:
        raise _damaged(folder, "other Parquet files in the folder than were written")
    tables = [schema.empty_table()]
    for part in file["parts"]:
        name = folder / part["name"]
        if sha256_of(name) != part["sha256"]:
            raise _damaged(name, "another SHA-256")
        with pq.ParquetFile(name, page_checksum_verification=True) as parquet:
            tables.append(_typed(parquet.read(), schema, name))
        if tables[-1].num_rows != part["rows"]:
            raise _damaged(name, "another number of rows")
    table = pa.concat_tables(tables)
    for batch in table.to_batches():
        check_batch(batch, schema)
    return table, metadata


def _checked(sealed: Any, kind: str, newest: int, target: Path) -> tuple[Metadata, Metadata]:
    """Check sealed metadata; return what they state of the table, and of its file."""
    format, version = sealed["format"], sealed["version"]
    if format != f"dpsample {kind}":
        remedies = {
            "dpsample sample": "it is NOT private: sanitize it first; to look at it, use dpsample.read_sample",
            "dpsample release": "it is private already: use dpsample.read_release",
            "dpsample test release": "it was made for tests, and is NOT private; in a test, read it within "
            "dpsample.testing.allowed()",
        }
        if format not in remedies:
            raise _damaged(target, "another format")
        raise InvalidValue(f"{str(target)!r} must be a {kind}, not a {format}", remedies[format])
    if not isinstance(version, int) or version < 1:
        raise _damaged(target, "no version")
    if version > newest:
        raise InvalidValue(
            f"this dpsample reads versions up to {newest} of the file format, not {version}",
            "upgrade dpsample",
        )
    metadata = dict(sealed)
    if metadata.pop("checksum", None) != sha256_of(canonical(metadata)):
        raise _damaged(target, "metadata that were changed")
    return metadata, metadata.pop("file")


def _schema(file: Metadata) -> pa.Schema:
    fields = [pa.field(name, named_type(type)) for name, type in file["columns"]]
    return plain_schema(pa.schema(fields))


def _typed(table: pa.Table, schema: pa.Schema, target: Path) -> pa.Table:
    """Give a table the types that it was written with. Parquet, for one, has no timestamps of seconds."""
    if table.schema.names != schema.names:
        raise _damaged(target, f"columns other than {', '.join(map(repr, schema.names))}")
    return table.replace_schema_metadata().cast(schema)


def _damaged(target: Path, found: str) -> InvalidValue:
    """Return the refusal of a file that was changed."""
    return InvalidValue(
        f"{str(target)!r} is not as it was written: it has {found}",
        "get it again from where it was written",
    )


def _not_ours(kind: str, sidecar: Path | None) -> InvalidValue:
    """Return the refusal of a file without metadata of dpsample; `sidecar` is where they would be, if not inside."""
    if sidecar is None:
        found = "this is a plain Parquet file"
    elif not sidecar.exists():
        found = f"{str(sidecar)!r} is missing"
    else:
        with failures(sidecar):
            sidecar.read_bytes()
        found = f"{str(sidecar)!r} is damaged or of another program"
    return InvalidValue(
        f"a {kind} carries its metadata, in the file or in a .json beside it, but {found}",
        "get it, with its .json if it has one, from where it was written; a table that another program filtered or "
        "saved is no release: ask the release itself, with `where=...`",
    )
