"""An atomic folder: a locked dot-folder that gets its final name, once complete, in one step."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from dpsample.errors import InvalidValue
from dpsample.files.atomic_file import check_system, sync, taken
from dpsample.files.locks import lock, try_lock
from dpsample.files.metadata import PathLike, failures, resolved, sha256_of
from dpsample.files.outputs import note_written


def cache_folder() -> Path:
    """Return the folder for what can be computed again: DPSAMPLE_CACHE, or one in the user's cache folder."""
    if named := os.environ.get("DPSAMPLE_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dpsample"


def check_folder(path: PathLike, mark: str | None = None, force: bool = False) -> Path:
    """Check, before any work, that a folder can be made.

    An empty folder of this name may exist. With `force`, so may one that has the file `mark`: the sign of its kind.
    """
    target = resolved(path)
    with failures(target):
        if not target.parent.is_dir():
            raise InvalidValue(
                f"there is no folder {str(target.parent)!r} for the output", "make it first"
            )
        if _holds(target) or (os.path.lexists(target) and not target.is_dir()):
            if not force:
                raise taken(target)
            if mark is None or not (target / mark).is_file():
                raise InvalidValue(
                    f"{str(target)!r} is not replaced, since the same command did not make it",
                    "name another folder",
                )
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise InvalidValue(
                f"the folder {str(target.parent)!r} cannot be written to",
                "choose another folder, or change its permissions",
            )
    return target


@contextlib.contextmanager
def atomic_folder(
    path: PathLike, mark: str | None = None, force: bool = False, private: bool = False
) -> Iterator[Path]:
    """Yield a new folder to fill; it gets its name at the end of the block, and is removed after an error.

    A folder that it replaces stays until then. Only its owner can read a `private` folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     with atomic_folder(f"{home}/new") as folder:
    ...         _ = (folder / "a").write_text("a")
    ...         before = os.listdir(f"{home}")
    ...     before == [folder.name], os.listdir(f"{home}/new")
    (True, ['a'])
    """
    check_system()
    target = check_folder(path, mark, force)
    prefix = f".dpsample-{sha256_of(os.fsencode(target.name))[:16]}-"
    with failures(target):
        for stale in target.parent.glob(f"{prefix}*.parts"):
            _sweep(stale)
        folder = target.with_name(f"{prefix}{secrets.token_hex(8)}.parts")
        folder.mkdir(0o700 if private else 0o777)
        held = os.open(folder, os.O_RDONLY)
    try:
        lock(held)
        yield folder
        check_folder(path, mark, force)
        with failures(target):
            _place(folder, target)
            sync(target.parent)
        note_written(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def _holds(target: Path) -> bool:
    return target.is_dir() and any(target.iterdir())


def _place(filled: Path, target: Path) -> None:
    """Move the folder to its name. A folder of this name that is not empty moves away first, and back on failure."""
    if not _holds(target):
        os.rename(filled, target)
        return
    old = filled.with_suffix(".old.parts")
    os.rename(target, old)
    try:
        os.rename(filled, target)
    except BaseException:
        os.rename(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _sweep(stale: Path) -> None:
    """Remove a folder whose process is dead: its lock is free."""
    with contextlib.suppress(OSError):
        held = os.open(stale, os.O_RDONLY)
        try:
            if try_lock(held):
                shutil.rmtree(stale, ignore_errors=True)
        finally:
            os.close(held)
