"""The folder of temporary files: locked while its process lives, and removed by the next run if that died."""

import contextlib
import os
import re
import shutil
import stat
import tempfile
import weakref
from pathlib import Path

from dpsample.files.locks import lock, try_lock
from dpsample.interrupts import held

_PREFIX = "dpsample-"
_NAME = re.compile(f"{_PREFIX}[a-z0-9_]{{8}}")  # what `mkdtemp` makes of the prefix
_LOCK = "dpsample.lock"  # the lock file in each folder


class TemporaryFolder:
    """A new folder that only its owner can read. Making one removes those that dead processes left beside it.

    Each folder has a lock file, which its process holds; the operating system lets go of it when the process ends.
    """

    def __init__(self, parent: str | os.PathLike[str] | None = None) -> None:
        with held():  # what is half made would stay
            self._make(Path(tempfile.gettempdir() if parent is None else parent))

    def _make(self, above: Path) -> None:
        """Make the folder, and see to its removal."""
        for folder in above.glob(f"{_PREFIX}*"):
            _remove_if_dead(folder)
        self.path = ""
        try:
            lock_file = self._locked_folder(above)
            # at the latest when Python ends
            self.remove = weakref.finalize(self, _remove, self.path, lock_file)
        except BaseException:  # before anything else would remove the folder
            if self.path:
                shutil.rmtree(self.path, ignore_errors=True)
            raise

    def _locked_folder(self, above: Path) -> int:
        """Make the folder, with mode 0700; return its lock file, which is open and locked."""
        while True:
            self.path = tempfile.mkdtemp(prefix=_PREFIX, dir=above)
            try:
                lock_file = os.open(Path(self.path, _LOCK), os.O_RDWR | os.O_CREAT, 0o600)
            except FileNotFoundError:  # another process removed the folder, which had no lock yet
                continue
            lock(lock_file)
            if _is_open(Path(self.path, _LOCK), lock_file):
                return lock_file
            os.close(lock_file)  # another process removed the folder before it was locked


def _remove(path: str, lock_file: int) -> None:
    """Remove a folder, and let go of its lock."""
    with held():
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock_file)


def _remove_if_dead(folder: Path) -> None:
    """Remove a folder of this user whose lock nobody holds: what is in it first, then the lock, then the folder."""
    with contextlib.suppress(OSError):
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or not _is_own(status):
            return
        try:
            file = os.open(folder / _LOCK, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        except FileNotFoundError:
            # Its process died before it made the lock, or is about to make it: then it makes another folder.
            if _NAME.fullmatch(folder.name) and stat.S_IMODE(status.st_mode) == 0o700:
                folder.rmdir()  # refused by the system unless it is empty
            return
        try:
            if not try_lock(file) or not _is_open(folder / _LOCK, file):
                return
            for entry in folder.iterdir():
                if entry.name != _LOCK:
                    _remove_entry(entry)
            (folder / _LOCK).unlink()
            folder.rmdir()
        finally:
            os.close(file)


def _remove_entry(entry: Path) -> None:
    """Remove a file, a folder with all that is in it, or a link, but not what a link names."""
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()


def _is_own(status: os.stat_result) -> bool:
    """Whether a folder is this user's; on Windows, each user has a folder of temporary files."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def _is_open(path: Path, file: int) -> bool:
    """Whether a path still names the file that is open."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False
