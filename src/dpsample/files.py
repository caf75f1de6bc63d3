"""Tables with metadata, in files that appear whole or not at all. Knows nothing of privacy.

    write    rows -> a locked dot-file -> flushed -> its final name, in one step that the file system does whole
    read     the metadata's kind and version -> the bytes -> the rows, checked against what was written

Parquet carries the metadata in its own footer. CSV and Arrow have it beside them, in NAME.json; the data file comes
last, so that it is there only if it is complete. A folder of Parquet parts is complete once its _dpsample.json is.

What is written depends on the rows and the metadata alone: not on the batches in which they arrive, which may tell of
rows that were left out, and not on the memory around them. Checksums find accidents, not forgeries: nothing is signed.
"""

import contextlib
import errno
import fcntl
import hashlib
import io
import json
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from dpsample.errors import InvalidValue

PathLike: TypeAlias = str | os.PathLike[str]
Document: TypeAlias = dict[str, Any]

VERSION: Final = 1
PARTS: Final = "_dpsample.json"
ROWS: Final = 1 << 17  # in a batch and in a Parquet row group

_FORMATS = {".parquet": "parquet", ".csv": "csv", ".arrow": "arrow"}
_FORMULA = "=+-@\t\r\n＝＋－＠'"  # what a spreadsheet may run, and the apostrophe that stops it
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK}
_umask = threading.Lock()


# Tables


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Check that every column has a type that all formats keep, and drop what else a schema may carry.

    A dictionary type is refused because its values outlive the rows that had them.
    """
    for field in schema:
        t = field.type
        simple = pa.types.is_integer(t) or pa.types.is_boolean(t) or pa.types.is_float64(t) or pa.types.is_date(t)
        text = is_text(t) or pa.types.is_binary(t) or pa.types.is_large_binary(t)
        named = (pa.types.is_timestamp(t) or pa.types.is_decimal(t)) and _type(str(t)) == t
        if not (simple or text or named):
            raise InvalidValue(
                "a column is of string, binary, integer, bool, date, timestamp or decimal type",
                f"{t} in column {field.name!r}",
                "cast it, for example to string",
            )
    if len({name.lower() for name in schema.names}) < len(schema.names):
        raise InvalidValue(
            "column names must differ, by more than upper and lower case",
            "two that do not",
            "rename one of them",
        )
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def is_text(type: pa.DataType) -> bool:
    """Whether a column of this type holds strings."""
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type))


def rebatch(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of `ROWS`, in memory of their own, checked to be whole and without NULLs.

    >>> batches = [pa.record_batch({"n": [1, 2]}), pa.record_batch({"n": [3]})]
    >>> [batch.num_rows for batch in rebatch(batches, batches[0].schema)]
    [3]
    """
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        _check_batch(batch, schema)
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, ROWS - rows)
            held.append(part)
            start, rows = start + part.num_rows, rows + part.num_rows
            if rows == ROWS:
                yield _joined(held, schema)
                held, rows = [], 0
    if rows:
        yield _joined(held, schema)


def _check_batch(batch: pa.RecordBatch, schema: pa.Schema) -> None:
    found = [(field.name, field.type) for field in batch.schema]
    if found != [(field.name, field.type) for field in schema]:
        columns = ", ".join(f"{name!r} {type}" for name, type in found) or "no columns"
        raise InvalidValue("every batch has the columns and types of the schema", columns, "cast the batches")
    for name, column in zip(schema.names, batch.columns, strict=True):
        if column.null_count:
            raise InvalidValue(
                "no column may hold NULL", f"{column.null_count} in column {name!r}", "drop or replace them"
            )
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        raise InvalidValue(
            "strings must be valid UTF-8, and arrays whole", "a batch that is not", "cast the column to binary"
        ) from None


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Copy: a slice would take its neighbours along into an Arrow file, or into a pickle."""
    columns = []
    for n, field in enumerate(schema):
        chunks = [batch.column(n) for batch in batches]
        try:
            columns.append(pa.concat_arrays([*chunks, chunks[0][:0]]))
        except pa.ArrowInvalid:
            raise InvalidValue(
                f"{ROWS} rows of a column must be below 2 GiB",
                f"more in column {field.name!r}",
                f"cast it to large_{field.type}",
            ) from None
    return pa.record_batch(columns, schema=schema)


class _Content:
    """SHA-256 of names, types and values, whatever the format and the batches.

    Each column has a hash of its values' bytes in Arrow's layout, and one of the lengths of strings as int64.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.rows, self._schema = 0, schema
        self._hashes = [(hashlib.sha256(), hashlib.sha256()) for _ in schema]

    def update(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        for array, (values, lengths) in zip(batch.columns, self._hashes, strict=True):
            column = array.cast(pa.uint8()) if pa.types.is_boolean(array.type) else array
            start, end = column.offset, column.offset + len(column)
            _, *offsets, data = column.buffers()
            if offsets and len(column):
                wide = column.type in (pa.large_string(), pa.large_binary())
                ends = np.frombuffer(offsets[0], np.int64 if wide else np.int32)[start : end + 1]
                lengths.update(np.diff(ends).astype("<i8").tobytes())
                start, end = int(ends[0]), int(ends[-1])
            elif not offsets:
                width = column.type.bit_width // 8
                start, end = start * width, end * width
            if end > start:
                values.update(memoryview(data)[start:end])

    def hexdigest(self) -> str:
        hashes = [[values.hexdigest(), lengths.hexdigest()] for values, lengths in self._hashes]
        return _sha256(_canonical([self.rows, _written_columns(self._schema), hashes]))


def _written_columns(schema: pa.Schema) -> list[list[str]]:
    return [[field.name, str(field.type)] for field in schema]


def _type(text: str) -> pa.DataType | None:
    """Read back the name of a type."""
    with contextlib.suppress(ValueError, AttributeError):
        if match := re.fullmatch(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]", text):
            return pa.timestamp(*match.groups())
        if match := re.fullmatch(r"decimal(32|64|128|256)\((\d+), (\d+)\)", text):
            return getattr(pa, f"decimal{match[1]}")(int(match[2]), int(match[3]))
        return pa.type_for_alias(text)
    return None


# Writing


def check_output(path: PathLike, force: bool = False, format: str | None = None) -> None:
    """Check, before any work, that an output can be written; `write_table` checks once more at the end."""
    _target(path, force, format)


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
    >>> batch = pa.record_batch({"key": ["a", "b"], "token": [1.0, 2.5]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table(f"{folder}/x.csv", [batch], batch.schema, {"format": "dpsample release", "version": 1})
    ...     table, metadata = read_table(f"{folder}/x.csv", "release")
    >>> table.equals(pa.table(batch)), metadata
    (True, {'format': 'dpsample release', 'version': 1})
    """
    target, form = _target(path, force, format)
    schema = plain_schema(schema)
    content = _Content(schema)
    with _Temporary(target, mode) as data:
        with _writer(form, data, schema) as writer:
            for batch in rebatch(batches, schema):
                content.update(batch)
                writer.write_batch(_as_csv(batch) if form == "csv" else batch)
            said = dict(metadata() if callable(metadata) else metadata)
            said["file"] = {
                "rows": content.rows,
                "columns": _written_columns(schema),
                "content_sha256": content.hexdigest(),
            }
            if form == "parquet":
                writer.add_key_value_metadata({"dpsample": json.dumps(_sealed(said))})
        data.seal()
        if form == "parquet":
            data.place(target, force)
        else:
            said["file"] |= {"sha256": data.sha256.hexdigest()} | ({"csv": _csv_rules(schema)} if form == "csv" else {})
            _place_both(data, target, form, _sealed(said), force, mode)


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
    with _failures(target):
        listed = [{"name": n, "rows": rows, "sha256": _sha256(target.with_name(n))} for n, rows in parts.items()]
    columns = _written_columns(plain_schema(schema))
    _write_document(target, _sealed({**metadata, "file": {"columns": columns, "parts": listed}}), False, mode)


def _target(path: PathLike, force: bool, format: str | None) -> tuple[Path, str]:
    form = _format(path, format)
    target = _resolved(path)
    folder = target.parent
    with _failures(target):
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
    return target, form


def _check_free(target: Path, form: str, force: bool) -> None:
    for name in filter(os.path.lexists, [target] if form == "parquet" else [target, _beside(target)]):
        if not name.is_file():
            raise InvalidValue(
                "the output is a regular file", f"something else at {str(name)!r}", "choose another name"
            )
        abandoned = name != target and not os.path.lexists(target) and _documents(name)
        if not force and not abandoned:
            raise InvalidValue(
                "an output that exists is not overwritten",
                f"{str(name)!r}",
                "choose another name, or force it (force=True, --force)",
            )


def _format(path: PathLike, format: str | None) -> str:
    form = _FORMATS.get(Path(path).suffix.lower()) if format is None else format
    if form is None or form not in _FORMATS.values():
        raise InvalidValue(
            "the format is parquet, csv or arrow",
            f"{str(path)!r}" if format is None else f"{format!r}",
            "end the name with .parquet, .csv or .arrow, or give the format",
        )
    return form


def _resolved(path: PathLike) -> Path:
    if "\0" in os.fspath(path) or not Path(path).name:
        raise InvalidValue("a path must name a file", "one that cannot", "give a file name")
    with _failures(Path(path)):
        return Path(os.path.realpath(path))


def _beside(target: Path) -> Path:
    return target.with_name(target.name + ".json")


@contextlib.contextmanager
def _failures(target: Path) -> Iterator[None]:
    """Turn what the operating system says into our own error; its texts never show data."""
    try:
        yield
    except OSError as error:
        raise InvalidValue(
            f"{str(target)!r} must be accessible",
            os.strerror(error.errno) if error.errno else "a failure of the file system",
            "check the path, its permissions and the space left; an output that failed leaves nothing behind",
        ) from None


class _Temporary(io.RawIOBase):
    """A dot-file next to its target: locked while its process lives, gone at the end, never readable by its name."""

    def __init__(self, target: Path, mode: int | None) -> None:
        self.target, self.mode, self.sha256 = target, mode, hashlib.sha256()
        prefix = f".dpsample-{_sha256(os.fsencode(target.name))[:16]}-"
        with _failures(target):
            for stale in target.parent.glob(f"{prefix}*.tmp"):
                _sweep(stale)
            while True:
                self.path = target.with_name(f"{prefix}{secrets.token_hex(8)}.tmp")
                fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                self._file = open(fd, "wb", buffering=1 << 20)  # noqa: SIM115 - closed by __exit__
                if _lock(fd) and not _is(self.path, fd):  # somebody swept it before it was locked
                    self._file.close()
                    continue
                return

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with _failures(self.target):
            self._file.write(data)
        self.sha256.update(data)
        return memoryview(data).nbytes

    def seal(self) -> None:
        """Bring everything to the disk."""
        with _failures(self.target):
            self._file.flush()
            os.fchmod(self._file.fileno(), _usual_mode() if self.mode is None else self.mode)
            os.fsync(self._file.fileno())

    def place(self, name: Path, force: bool) -> None:
        """Give the file its final name; without force, only if nobody has it."""
        with _failures(name):
            try:
                if force:
                    os.replace(self.path, name)
                else:
                    self._claim(name)
            except FileExistsError:
                _check_free(name, "parquet", False)
                raise
            _sync(name.parent)

    def _claim(self, name: Path) -> None:
        try:
            os.link(self.path, name)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # a file system without links: an empty file claims the name
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            try:
                os.replace(self.path, name)
            except BaseException:
                os.unlink(name)
                raise

    def is_at(self, name: Path) -> bool:
        """Whether the file has got this name."""
        return _is(name, self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._file.close()


def _sweep(stale: Path) -> None:
    """Remove what a dead process left: nobody holds its lock."""
    with contextlib.suppress(OSError), open(stale, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is(stale, file.fileno()):
            stale.unlink()


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except OSError:  # a file system without locks
        return False
    return True


def _is(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False


def _usual_mode() -> int:
    with _umask:
        mask = os.umask(0o077)
        os.umask(mask)
    return 0o666 & ~mask


def _sync(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every file system can
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _place_both(data: _Temporary, target: Path, form: str, document: Document, force: bool, mode: int | None) -> None:
    """Place a data file and the document beside it such that one step, the data file's, decides.

    Until then the document beside it also holds the one of the data file that is replaced. The folder's lock keeps
    other writers from stepping in between.
    """
    beside = _beside(target)
    with _failures(target):
        folder = os.open(target.parent, os.O_RDONLY)
    try:
        _lock(folder)
        _check_free(target, form, force)
        before = _documents(beside) if os.path.lexists(target) else []
        _write_document(beside, document | ({"before": before} if before else {}), True, mode)
        try:
            data.place(target, force)
        except BaseException:
            if not force and not data.is_at(target):
                beside.unlink(missing_ok=True)
            raise
        if before:
            with contextlib.suppress(InvalidValue):  # the output is complete; only what it replaced is still described
                _write_document(beside, document, True, mode)
    finally:
        os.close(folder)


def _write_document(target: Path, document: Document, force: bool, mode: int | None) -> None:
    with _Temporary(target, mode) as file:
        file.write(json.dumps(document, indent=2).encode() + b"\n")
        file.seal()
        file.place(target, force)


def _writer(form: str, sink: _Temporary, schema: pa.Schema) -> Any:
    if form == "arrow":
        return pa.ipc.new_file(sink, schema)
    if form == "csv":
        return pa.csv.CSVWriter(sink, _csv_schema(schema))
    # the first column is sorted: what repeats is adjacent, so compression finds it without a dictionary
    return pq.ParquetWriter(
        sink, schema, compression="zstd", write_page_checksum=True, use_dictionary=schema.names[1:] or False
    )


def _as_csv(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Strings that no spreadsheet runs, binary in hexadecimal, and the rest as it is if text keeps it."""
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if is_text(column.type):
            columns.append(_escaped(column))
        elif _csv_type(column.type) != column.type:
            columns.append(pa.array([value.hex() for value in column.to_pylist()], pa.string()))
        else:
            columns.append(column)
            try:
                kept = column.cast(pa.string()).cast(column.type).equals(column)
            except pa.ArrowInvalid:
                kept = False
            if not kept:
                raise InvalidValue(
                    "CSV holds what its text keeps exactly",
                    f"{column.type} that it does not keep in column {name!r}",
                    "write Parquet or Arrow",
                )
    return pa.record_batch(columns, _csv_schema(batch.schema))


def _csv_schema(schema: pa.Schema) -> pa.Schema:
    names = _escaped(pa.array(schema.names, pa.string())).to_pylist()
    return pa.schema([pa.field(name, _csv_type(field.type)) for name, field in zip(names, schema, strict=True)])


def _csv_rules(schema: pa.Schema) -> dict[str, list[str]]:
    """Say, for those who read the CSV on their own, which columns are not verbatim."""
    return {
        "leading apostrophe to be dropped": [field.name for field in schema if is_text(field.type)],
        "hexadecimal": [field.name for field in schema if _csv_type(field.type) != field.type],
    }


def _csv_type(type: pa.DataType) -> pa.DataType:
    return pa.string() if type in (pa.binary(), pa.large_binary()) else type


def _escaped(texts: pa.Array) -> pa.Array:
    """Put an apostrophe before what begins like a formula or with an apostrophe."""
    first = pc.utf8_slice_codeunits(texts, 0, 1)
    risky = pc.is_in(first, value_set=pa.array(list(_FORMULA), texts.type))
    quoted = pc.binary_join_element_wise(pa.scalar("'", texts.type), texts, pa.scalar("", texts.type))
    return pc.if_else(risky, quoted, texts)


def _from_csv(data: bytes, schema: pa.Schema) -> pa.Table:
    shown = _csv_schema(schema)
    texts = pa.csv.read_csv(
        pa.BufferReader(data),
        read_options=pa.csv.ReadOptions(block_size=min(len(data) + 1, 1 << 30)),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            column_types={name: pa.string() for name in shown.names}, strings_can_be_null=False
        ),
    )
    columns = []
    for field, column in zip(schema, texts.select(shown.names).columns, strict=True):
        if is_text(field.type):
            bare = pc.utf8_slice_codeunits(column, 1)
            columns.append(pc.if_else(pc.starts_with(column, "'"), bare, column).cast(field.type))
        elif _csv_type(field.type) != field.type:
            columns.append(pa.chunked_array([[bytes.fromhex(value) for value in column.to_pylist()]], field.type))
        else:
            columns.append(column.cast(field.type))
    return pa.table(columns, schema=schema)


# Reading


def read_table(path: PathLike, kind: str, *, format: str | None = None) -> tuple[pa.Table, Document]:
    """Read a table of a kind, "release" or "sample", and its metadata; refuse all that is not as it was written."""
    target = _resolved(path)
    if not os.path.exists(target):
        raise InvalidValue(f"a {kind} must exist to be read", f"nothing at {str(target)!r}", "check the path")
    with _intact(target):
        if target.is_dir():
            return _read_parts(target, kind)
        if not target.is_file():
            raise InvalidValue(f"a {kind} is a file or a folder", f"neither at {str(target)!r}", "check the path")
        form = _format(path, format)
        if form == "parquet":
            table, metadata, file = _read_parquet(target, kind)
        else:
            table, metadata, file = _read_pair(target, form, kind)
        content = _Content(table.schema)
        for batch in table.to_batches():
            _check_batch(batch, table.schema)
            content.update(batch)
        if (content.rows, content.hexdigest()) != (file["rows"], file["content_sha256"]):
            raise _damaged(target, "rows that were changed")
        return table, metadata


def kind_of(path: PathLike) -> str | None:
    """Return "release" or "sample" if a file of ours says that it is one, and None if it does not.

    Nothing is checked: this is for telling somebody that they hold the wrong file.
    """
    target = _resolved(path)
    with contextlib.suppress(Exception):
        name = target / PARTS if target.is_dir() else _beside(target)
        said = pq.read_metadata(target).metadata or {} if target.suffix == ".parquet" and target.is_file() else {}
        documents = [json.loads(said[b"dpsample"])] if b"dpsample" in said else _documents(name)
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
    documents = _documents(_beside(target))
    if not documents:
        raise _not_ours(kind, _beside(target))
    data = target.read_bytes()
    sha256 = _sha256(data)
    document = next((d for d in documents if d.get("file", {}).get("sha256") == sha256), documents[0])
    metadata, file = _checked(document, kind, target)
    if file["sha256"] != sha256:
        raise _damaged(target, f"another SHA-256 than {str(_beside(target))!r} says")
    schema = _schema(file)
    table = _from_csv(data, schema) if form == "csv" else pa.ipc.open_file(pa.BufferReader(data)).read_all()
    return _typed(table, schema, target), metadata, file


def _read_parts(folder: Path, kind: str) -> tuple[pa.Table, Document]:
    documents = _documents(folder / PARTS)
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
        if _sha256(name) != part["sha256"]:
            raise _damaged(name, "another SHA-256")
        with pq.ParquetFile(name, page_checksum_verification=True) as parquet:
            tables.append(_typed(parquet.read(), schema, name))
        if tables[-1].num_rows != part["rows"]:
            raise _damaged(name, "another number of rows")
    table = pa.concat_tables(tables)
    for batch in table.to_batches():
        _check_batch(batch, schema)
    return table, metadata


@contextlib.contextmanager
def _intact(target: Path) -> Iterator[None]:
    """Whatever fails while a file is read, in whichever library, means that it is not one of ours as it was written."""
    try:
        yield
    except InvalidValue:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno:
            with _failures(target):
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
    if metadata.pop("checksum", None) != _sha256(_canonical(metadata)):
        raise _damaged(target, "metadata that were changed")
    return metadata, metadata.pop("file")


def _schema(file: Document) -> pa.Schema:
    return plain_schema(pa.schema([pa.field(name, _type(type)) for name, type in file["columns"]]))


def _typed(table: pa.Table, schema: pa.Schema, target: Path) -> pa.Table:
    """Give a table the types that it was written with; Parquet, for one, knows no timestamps of seconds."""
    if table.schema.names != schema.names:
        raise _damaged(target, f"columns other than {', '.join(map(repr, schema.names))}")
    return table.replace_schema_metadata().cast(schema)


def _documents(name: Path) -> list[Document]:
    """Return the document of a file, and those of the files that it was about to replace; none if it is not ours."""
    try:
        document = json.loads(name.read_bytes())
        before = document.pop("before", [])
        return [d for d in (document, *before) if d["format"].startswith("dpsample ")]
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return []


def _damaged(target: Path, found: str) -> InvalidValue:
    return InvalidValue(f"{str(target)!r} must be as it was written", found, "get it again from where it was written")


def _not_ours(kind: str, beside: Path | None) -> InvalidValue:
    if beside is None:
        found = "a plain Parquet file"
    elif not beside.exists():
        found = f"{str(beside)!r} missing"
    else:
        with _failures(beside):
            beside.read_bytes()
        found = f"{str(beside)!r} damaged or of another program"
    return InvalidValue(
        f"a {kind} carries its metadata, in the file or in a .json beside it",
        found,
        "get it, with its .json if it has one, from where it was written",
    )


def _sealed(document: Mapping[str, Any]) -> Document:
    return {**document, "checksum": _sha256(_canonical(document))}


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _sha256(data: bytes | Path) -> str:
    if isinstance(data, bytes):
        return hashlib.sha256(data).hexdigest()
    with open(data, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
