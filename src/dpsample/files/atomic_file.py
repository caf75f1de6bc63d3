"""A file that appears whole or not at all: a locked dot-file that gets its final name in one step."""

import contextlib
import errno
import fcntl
import hashlib
import io
import os
import secrets
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dpsample.errors import InvalidValue
from dpsample.files.metadata import failures, sha256_of

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK}
_umask = threading.Lock()


class Temporary(io.RawIOBase):
    """A dot-file next to its target: locked while its process lives, gone at the end, never readable by its name."""

    def __init__(self, target: Path, mode: int | None) -> None:
        self.target, self.mode, self.sha256 = target, mode, hashlib.sha256()
        prefix = f".dpsample-{sha256_of(os.fsencode(target.name))[:16]}-"
        with failures(target):
            for stale in target.parent.glob(f"{prefix}*.tmp"):
                _sweep(stale)
            while True:
                self.path = target.with_name(f"{prefix}{secrets.token_hex(8)}.tmp")
                fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                self._file = open(fd, "wb", buffering=1 << 20)  # noqa: SIM115 - closed by __exit__
                if lock(fd) and not _is(self.path, fd):  # somebody swept it before it was locked
                    self._file.close()
                    continue
                return

    def writable(self) -> bool:  # noqa: D102 - as of every file
        return True

    def write(self, data: Any) -> int:  # noqa: D102
        with failures(self.target):
            self._file.write(data)
        self.sha256.update(data)
        return memoryview(data).nbytes

    def seal(self) -> None:
        """Bring everything to the disk."""
        with failures(self.target):
            self._file.flush()
            os.fchmod(self._file.fileno(), _usual_mode() if self.mode is None else self.mode)
            os.fsync(self._file.fileno())

    def place(self, name: Path, force: bool) -> None:
        """Give the file its final name; without force, only if nobody has it."""
        with failures(name):
            try:
                if force:
                    os.replace(self.path, name)
                else:
                    self._claim(name)
            except FileExistsError:
                raise taken(name) from None
            sync(name.parent)

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


def taken(name: Path) -> InvalidValue:
    """Return the refusal to overwrite an output."""
    return InvalidValue(
        "an output that exists is not overwritten",
        f"{str(name)!r}",
        "choose another name, or force it (force=True, --force)",
    )


def _sweep(stale: Path) -> None:
    """Remove what a dead process left: nobody holds its lock."""
    with contextlib.suppress(OSError), open(stale, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is(stale, file.fileno()):
            stale.unlink()


def lock(fd: int) -> bool:
    """Wait for a file's lock; False where the file system has none."""
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


def sync(folder: Path) -> None:
    """Bring a folder's names to the disk."""
    with contextlib.suppress(OSError):  # not every file system can
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
