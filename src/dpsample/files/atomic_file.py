"""An atomic file: a locked dot-file that gets its final name, once complete, in one step."""

import contextlib
import errno
import hashlib
import io
import os
import secrets
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from dpsample.errors import OutputExists, SystemFailure
from dpsample.files.locks import lock, try_lock
from dpsample.files.metadata import failures, sha256_of
from dpsample.interrupts import held

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK}
_umask = threading.Lock()
_WINDOWS = os.name == "nt"


class Temporary(io.RawIOBase):
    """A dot-file next to its target: locked while its process lives, removed at the end."""

    def __init__(self, target: Path, mode: int | None) -> None:
        check_system()
        self.target = target
        self.mode = mode
        self.sha256 = hashlib.sha256()
        with held():  # a file that was made is removed, even if a signal comes just now
            self._make(target)

    def _make(self, target: Path) -> None:
        """Make the file, and see to its removal."""
        prefix = f".dpsample-{sha256_of(os.fsencode(target.name))[:16]}-"
        with failures(target):
            for stale in target.parent.glob(f"{prefix}*.tmp"):
                _sweep(stale)
            while True:
                self.path = target.with_name(f"{prefix}{secrets.token_hex(8)}.tmp")
                fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
                self._file = open(fd, "wb", buffering=1 << 20)  # noqa: SIM115 - closed by __exit__
                removed_by_another = lock(fd) and not _is(self.path, fd)  # before it was locked
                if removed_by_another:
                    self._file.close()
                    continue
                # at the latest when the object is gone: a signal may come before the `with` block begins
                self._discard = weakref.finalize(self, _discard, self.path, self._file)
                return

    def writable(self) -> bool:  # noqa: D102 - io.RawIOBase has the docstring
        return True

    def write(self, data: Any) -> int:  # noqa: D102
        with failures(self.target):
            self._file.write(data)
        self.sha256.update(data)
        return memoryview(data).nbytes

    def seal(self) -> None:
        """Flush all data to the disk."""
        with failures(self.target):
            self._file.flush()
            os.fchmod(self._file.fileno(), _usual_mode() if self.mode is None else self.mode)
            os.fsync(self._file.fileno())

    def place(self, name: Path, force: bool) -> None:
        """Give the file its final name; without force, only if the name is free."""
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
        """Give the file a name that must be free, in one step."""
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

    def reserve(self, size: int) -> None:
        """Take this many bytes of the file system, or fail as a write would."""
        if not hasattr(os, "posix_fallocate"):
            return
        with failures(self.target):
            try:
                os.posix_fallocate(self._file.fileno(), 0, size)
            except OSError as error:
                cannot_reserve = (errno.EINVAL, errno.EOPNOTSUPP)  # of a file system
                if error.errno not in cannot_reserve:
                    raise

    def is_at(self, name: Path) -> bool:
        """Whether this name leads to the file."""
        return _is(name, self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._discard()


def _discard(path: Path, file: BinaryIO) -> None:
    """Remove a dot-file that has got no name, and close it."""
    with held():
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            file.close()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of an existing file: a process that waits for it sees the file as the holder leaves it.

    A holder may replace the file; the lock that is held in the end is that of the new file. Where the file system has
    no locks, nothing is held.
    """
    while True:
        with failures(path):
            writable = os.access(path, os.W_OK)  # NFS locks what is open for writing alone
            fd = os.open(path, (os.O_RDWR if writable else os.O_RDONLY))
        try:
            if not lock(fd) or _is(path, fd):
                yield
                return
        finally:
            os.close(fd)


def check_system() -> None:
    """Refuse Windows, where a file that is open and locked cannot get another name."""
    if _WINDOWS:
        raise SystemFailure(
            "outputs and ledgers cannot be written on Windows, where no file is replaced while it is open",
            "use the Windows Subsystem for Linux; reading releases and asking them works here",
        )


def taken(name: Path) -> OutputExists:
    """Return the refusal to overwrite an output."""
    return OutputExists(
        f"the output {str(name)!r} exists already",
        "choose another name, or force it with `force=True`",
    )


def _sweep(stale: Path) -> None:
    """Remove a file whose process is dead: its lock is free."""
    with contextlib.suppress(OSError), open(stale, "rb") as file:
        if try_lock(file.fileno()) and _is(stale, file.fileno()):
            stale.unlink()


def _is(path: Path, fd: int) -> bool:
    """Return whether a path leads to an open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False


def _usual_mode() -> int:
    """Return the permissions of a new file, as the umask leaves them; it can only be read by setting it."""
    with _umask:
        mask = os.umask(0o077)
        os.umask(mask)
    return 0o666 & ~mask


def sync(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    with contextlib.suppress(OSError):  # some file systems cannot
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
