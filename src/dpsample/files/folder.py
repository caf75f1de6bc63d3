"""A folder that appears whole or not at all: a locked dot-folder that gets its final name in one step."""

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from dpsample.errors import InvalidValue
from dpsample.files.documents import PathLike, failures, resolved, sha256_of
from dpsample.files.whole import taken


@contextlib.contextmanager
def whole_folder(output: PathLike, mark: str, force: bool = False, private: bool = False) -> Iterator[Path]:
    """Give a folder to fill, which gets its name at the end; an error leaves what was there before.

    `mark` is a file that every such folder has: with `force`, only a folder with that file is replaced. A `private` one
    is for its owner only.
    """
    target = resolved(output)
    _check(target, mark, force)
    prefix = f".dpsample-{sha256_of(os.fsencode(target.name))[:16]}-"
    with failures(target):
        for stale in target.parent.glob(f"{prefix}*.tmp"):
            _sweep(stale)
        filled = target.with_name(f"{prefix}{secrets.token_hex(8)}.tmp")
        filled.mkdir(0o700 if private else 0o777)
        held = os.open(filled, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(held, fcntl.LOCK_EX)
        yield filled
        _check(target, mark, force)
        with failures(target):
            _place(filled, target)
    finally:
        os.close(held)
        shutil.rmtree(filled, ignore_errors=True)


def _check(target: Path, mark: str, force: bool) -> None:
    with failures(target):
        if not target.parent.is_dir():
            raise InvalidValue("the folder of an output exists", f"none for {str(target)!r}", "make it first")
        if not os.path.lexists(target) or (target.is_dir() and not any(target.iterdir())):
            return
        if not force:
            raise taken(target)
        if not (target / mark).is_file():
            raise InvalidValue(
                "only a folder that the same command made is replaced", f"{str(target)!r}, another one", "name another"
            )


def _place(filled: Path, target: Path) -> None:
    """Move the folder to its name; one that is there, and not empty, goes first, and comes back if that fails."""
    if not target.is_dir() or not any(target.iterdir()):
        os.rename(filled, target)
        return
    old = filled.with_suffix(".old.tmp")
    os.rename(target, old)
    try:
        os.rename(filled, target)
    except BaseException:
        os.rename(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _sweep(stale: Path) -> None:
    """Remove what a dead process left: nobody holds its lock."""
    with contextlib.suppress(OSError):
        fd = os.open(stale, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(stale, ignore_errors=True)
        finally:
            os.close(fd)
