"""Reading: the kind and version, then the bytes, then the rows, checked against what was written."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dpsample.errors import DpsampleError, InvalidValue
from dpsample.files.csv import from_csv
from dpsample.files.metadata import (
    PARTS,
    VERSION,
    Document,
    PathLike,
    beside_of,
    canonical,
    documents_in,
    failures,
    format_of,
    resolved,
    sha256_of,
)
from dpsample.files.tables import Content, check_batch, named_type, plain_schema


def read_table(path: PathLike, kind: str, *, format: str | None = None) -> tuple[pa.Table, Document]:
    """Read a table of a kind, "release" or "sample", and its metadata; refuse all that is not as it was written."""
    target = resolved(path)
    if not os.path.exists(target):
        raise InvalidValue(f"a {kind} must exist to be read", f"nothing at {str(target)!r}", "check the path")
    with _intact(target):
        if target.is_dir():
            return _read_parts(target, kind)
        if not target.is_file():
            raise InvalidValue(f"a {kind} is a file or a folder", f"neither at {str(target)!r}", "check the path")
        form = format_of(path, format)
        if form == "parquet":
            table, metadata, file = _read_parquet(target, kind)
        else:
            table, metadata, file = _read_pair(target, form, kind)
        content = Content(table.schema)
        for batch in table.to_batches():
            check_batch(batch, table.schema)
            content.update(batch)
        if (content.rows, content.hexdigest()) != (file["rows"], file["content_sha256"]):
            raise _damaged(target, "rows that were changed")
        return table, metadata


def kind_of(path: PathLike) -> str | None:
    """Return "release" or "sample" if a file of ours says that it is one, and None if it does not.

    Nothing is checked: this is for telling somebody that they hold the wrong file.
    """
    target = resolved(path)
    with contextlib.suppress(Exception):
        name = target / PARTS if target.is_dir() else beside_of(target)
        said = pq.read_metadata(target).metadata or {} if target.suffix == ".parquet" and target.is_file() else {}
        documents = [json.loads(said[b"dpsample"])] if b"dpsample" in said else documents_in(name)
        return {"dpsample release": "release", "dpsample sample": "sample"}.get(documents[0]["format"])
    return None


def _read_parquet(target: Path, kind: str) -> tuple[pa.Table, Document, Document]:
    with pq.ParquetFile(target, page_checksum_verification=True) as parquet:
        said = (parquet.metadata.metadata or {}).get(b"dpsample")
        if said is None:
            raise _not_ours(kind, None)
        metadata, file = _checked(json.loads(said), kind, target)
        return _typed(parquet.read(), _schema(file), target), metadata, file


def _read_pair(target: Path, form: str, kind: str) -> tuple[pa.Table, Document, Document]:
    documents = documents_in(beside_of(target))
    if not documents:
        raise _not_ours(kind, beside_of(target))
    data = target.read_bytes()
    sha256 = sha256_of(data)
    document = next((d for d in documents if d.get("file", {}).get("sha256") == sha256), documents[0])
    metadata, file = _checked(document, kind, target)
    if file["sha256"] != sha256:
        raise _damaged(target, f"another SHA-256 than {str(beside_of(target))!r} says")
    schema = _schema(file)
    table = from_csv(data, schema) if form == "csv" else pa.ipc.open_file(pa.BufferReader(data)).read_all()
    return _typed(table, schema, target), metadata, file


def _read_parts(folder: Path, kind: str) -> tuple[pa.Table, Document]:
    documents = documents_in(folder / PARTS)
    if not documents:
        raise _not_ours(kind, folder / PARTS)
    metadata, file = _checked(documents[0], kind, folder)
    schema = _schema(file)
    there = {p.name for p in folder.glob("*.parquet") if p.name[0] not in "._"}
    if there != {part["name"] for part in file["parts"]}:
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


@contextlib.contextmanager
def _intact(target: Path) -> Iterator[None]:
    """Whatever fails while a file is read, in whichever library, means that it is not one of ours as it was written."""
    try:
        yield
    except DpsampleError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno:
            with failures(target):
                raise
        raise _damaged(target, "one that cannot be read, or not in this memory") from None


def _checked(document: Any, kind: str, target: Path) -> tuple[Document, Document]:
    """Return a document's metadata, and what it says of its file."""
    format, version = document["format"], document["version"]
    if format != f"dpsample {kind}":
        remedies = {
            "dpsample sample": "it is NOT private: sanitize it first; to look at it, use dpsample.read_sample",
            "dpsample release": "it is private already: use dpsample.read_release",
        }
        if format not in remedies:
            raise _damaged(target, "another format")
        raise InvalidValue(f"{str(target)!r} must be a {kind}", f"a {format}", remedies[format])
    if not isinstance(version, int) or version < 1:
        raise _damaged(target, "no version")
    if version > VERSION:
        raise InvalidValue(
            f"this dpsample reads versions up to {VERSION} of the file format", f"version {version}", "upgrade dpsample"
        )
    metadata = dict(document)
    if metadata.pop("checksum", None) != sha256_of(canonical(metadata)):
        raise _damaged(target, "metadata that were changed")
    return metadata, metadata.pop("file")


def _schema(file: Document) -> pa.Schema:
    return plain_schema(pa.schema([pa.field(name, named_type(type)) for name, type in file["columns"]]))


def _typed(table: pa.Table, schema: pa.Schema, target: Path) -> pa.Table:
    """Give a table the types that it was written with; Parquet, for one, knows no timestamps of seconds."""
    if table.schema.names != schema.names:
        raise _damaged(target, f"columns other than {', '.join(map(repr, schema.names))}")
    return table.replace_schema_metadata().cast(schema)


def _damaged(target: Path, found: str) -> InvalidValue:
    return InvalidValue(f"{str(target)!r} must be as it was written", found, "get it again from where it was written")


def _not_ours(kind: str, beside: Path | None) -> InvalidValue:
    if beside is None:
        found = "a plain Parquet file"
    elif not beside.exists():
        found = f"{str(beside)!r} missing"
    else:
        with failures(beside):
            beside.read_bytes()
        found = f"{str(beside)!r} damaged or of another program"
    return InvalidValue(
        f"a {kind} carries its metadata, in the file or in a .json beside it",
        found,
        "get it, with its .json if it has one, from where it was written",
    )
