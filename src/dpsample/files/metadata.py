"""Names and documents: where a file's metadata are, and how they are sealed."""

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from dpsample.errors import InvalidValue, SystemFailure

PathLike: TypeAlias = str | os.PathLike[str]
Document: TypeAlias = dict[str, Any]

VERSION: Final = 2  # the newest that is read; a file says the oldest that has all it needs
PARTS: Final = "_dpsample.json"
_SYSTEM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
_FORMATS = {".parquet": "parquet", ".csv": "csv", ".arrow": "arrow"}


def format_of(path: PathLike, format: str | None) -> str:
    """Return the format that is given, or that the extension tells."""
    form = _FORMATS.get(Path(path).suffix.lower()) if format is None else format
    if form is None or form not in _FORMATS.values():
        raise InvalidValue(
            "the format is parquet, csv or arrow",
            f"{str(path)!r}" if format is None else f"{format!r}",
            "end the name with .parquet, .csv or .arrow, or give the format",
        )
    return form


def resolved(path: PathLike) -> Path:
    """Follow links to the file that is meant."""
    if "\0" in os.fspath(path) or not Path(path).name:
        raise InvalidValue("a path must name a file", "one that cannot", "give a file name")
    with failures(Path(path)):
        return Path(os.path.realpath(path))


def beside_of(target: Path) -> Path:
    """Return where the metadata of a CSV or Arrow file are."""
    return target.with_name(target.name + ".json")


def documents_in(name: Path) -> list[Document]:
    """Return the document of a file, and those of the files that it was about to replace; none if it is not ours."""
    try:
        document = json.loads(name.read_bytes())
        before = document.pop("before", [])
        return [d for d in (document, *before) if d["format"].startswith("dpsample ")]
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return []


def sealed(document: Mapping[str, Any]) -> Document:
    """Return a document with its own checksum."""
    return {**document, "checksum": sha256_of(canonical(document))}


def canonical(value: Any) -> bytes:
    """Return the one way to write a value as JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def sha256_of(data: bytes | Path) -> str:
    """Return the SHA-256 of bytes, or of a file."""
    if isinstance(data, bytes):
        return hashlib.sha256(data).hexdigest()
    with open(data, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def failures(target: Path) -> Iterator[None]:
    """Turn what the operating system says into our own error; its texts never show data."""
    try:
        yield
    except OSError as error:
        kind = SystemFailure if error.errno in _SYSTEM else InvalidValue
        raise kind(
            f"{str(target)!r} must be accessible",
            os.strerror(error.errno) if error.errno else "a failure of the file system",
            "check the path, its permissions and the space left; an output that failed leaves nothing behind",
        ) from None
