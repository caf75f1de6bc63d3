"""Metadata: where a file has them, and how they are sealed. Also paths, formats and errors of the file system."""

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from dpsample.errors import DpsampleError, InvalidValue, SystemFailure

PathLike: TypeAlias = str | os.PathLike[str]
Metadata: TypeAlias = dict[str, Any]

PARTS: Final = "_dpsample.json"  # holds the metadata of a folder of parts
_SYSTEM = {  # errors of the machine; all others are about the path
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
}
_FORMATS = {".parquet": "parquet", ".csv": "csv", ".arrow": "arrow", ".private": "parquet"}


def format_of(path: PathLike, format: str | None) -> str:
    """Return the format of an output: the stated one, or that of the extension of its name."""
    if format is None:
        form = _FORMATS.get(Path(path).suffix.lower())
        stated = str(path)
    else:
        form = format
        stated = format
    if form is None or form not in _FORMATS.values():
        raise InvalidValue(
            f"the format must be parquet, csv or arrow, not that of {stated!r}",
            "end the name with .parquet, .csv or .arrow, or state the format",
        )
    return form


def resolved(path: PathLike) -> Path:
    """Follow links to the file itself."""
    if "\0" in os.fspath(path) or not Path(path).name:
        raise InvalidValue("the path cannot name a file", "give a file name")
    with failures(Path(path)):
        target = Path(os.path.realpath(path))
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            # refuses what cannot be a name here; since Python 3.14, `Path.is_file` is silent about it
            os.lstat(target)
        return target


def sidecar_of(target: Path) -> Path:
    """Return the file that holds the metadata of a CSV or Arrow file."""
    return target.with_name(target.name + ".json")


def metadata_in(sidecar: Path) -> list[Metadata]:
    """Return the metadata of a file, then those of the file that it was about to replace; none if not dpsample's."""
    try:
        metadata = json.loads(sidecar.read_bytes())
        before = metadata.pop("before", [])
        return [m for m in (metadata, *before) if m["format"].startswith("dpsample ")]
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return []


def sealed(metadata: Mapping[str, Any]) -> Metadata:
    """Return metadata with their own checksum."""
    return {**metadata, "checksum": sha256_of(canonical(metadata))}


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def sha256_of(data: bytes | Path) -> str:
    """Return the SHA-256 of bytes, or of a file."""
    if isinstance(data, bytes):
        return hashlib.sha256(data).hexdigest()
    with open(data, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def failures(target: Path) -> Iterator[None]:
    """Turn an error of the operating system into one of ours; texts of the operating system never show data."""
    try:
        yield
    except OSError as error:
        raise failure(target, error) from None


def failure(target: Path, error: OSError) -> DpsampleError:
    """Return our own error for one of the operating system."""
    kind = SystemFailure if error.errno in _SYSTEM else InvalidValue
    reason = os.strerror(error.errno) if error.errno else "a failure of the file system"
    return kind(
        f"{str(target)!r} must be accessible, but there was an error: {reason}",
        "check the path, its permissions and the space left; an output that failed leaves nothing behind",
    )


def release_sha256(path: PathLike) -> tuple[Path, str]:
    """Return the file that carries a release's metadata, and its SHA-256, which covers the rows.

    This is the Parquet file itself, the .json beside a CSV or Arrow file, or the _dpsample.json of a folder; the latter
    two hold the SHA-256 of the files with the rows.
    """
    target = resolved(path)
    if target.is_dir():
        target = target / PARTS
    elif sidecar_of(target).is_file() and target.suffix.lower() != ".parquet":
        target = sidecar_of(target)
    with failures(target):
        return target, sha256_of(target)
