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
from dpsample.files.whole import lock, sync, taken


def check_folder(path: PathLike) -> Path:
    """Check, before any work, that a new folder can be made."""
    target = resolved(path)
    with failures(target):
        if not target.parent.is_dir():
            raise InvalidValue(
                "the output's folder must be in one that exists", f"no folder {str(target.parent)!r}", "make it first"
            )
        if os.path.lexists(target):
            raise taken(target)
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise InvalidValue(
                "the output's folder must be in one that can be written to",
                f"that {str(target.parent)!r} is not",
                "choose another folder, or change its permissions",
            )
    return target


@contextlib.contextmanager
def whole_folder(path: PathLike) -> Iterator[Path]:
    """Give a new folder to fill; at the end of the block it gets its name, and after an error it is gone.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     with whole_folder(f"{home}/new") as folder:
    ...         _ = (folder / "a").write_text("a")
    ...         before = os.listdir(f"{home}")
    ...     before == [folder.name], os.listdir(f"{home}/new")
    (True, ['a'])
    """
    target = check_folder(path)
    prefix = f".dpsample-{sha256_of(os.fsencode(target.name))[:16]}-"
    with failures(target):
        for stale in target.parent.glob(f"{prefix}*.parts"):
            _sweep(stale)
        folder = target.with_name(f"{prefix}{secrets.token_hex(8)}.parts")
        folder.mkdir()
        held = os.open(folder, os.O_RDONLY)
    try:
        lock(held)
        yield folder
        with failures(target):
            if os.path.lexists(target):
                raise taken(target)
            os.rename(folder, target)
            sync(target.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def _sweep(stale: Path) -> None:
    """Remove what a dead process left: nobody holds its lock."""
    with contextlib.suppress(OSError):
        held = os.open(stale, os.O_RDONLY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(stale, ignore_errors=True)
        finally:
            os.close(held)
