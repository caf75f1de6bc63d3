"""The file of a ledger: lines of JSON, each with the SHA-256 of the line before it, written under a lock.

A line is added by writing the whole file anew beside the old one, bringing it to the disk, and giving it the old one's
name. At every moment, whoever is killed, the file is the old ledger or the new one. So a torn line means that somebody
else damaged the file, and nothing more is spent until it is restored.

Every line states its version. docs/format.md specifies all fields.
"""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpsample.errors import InvalidValue, SystemFailure
from dpsample.files.atomic_file import Temporary
from dpsample.files.locks import try_lock
from dpsample.files.metadata import PathLike, canonical, failures, resolved, sha256_of

_FORMAT = "dpsample ledger"
_VERSION = 1
# Seconds to wait for another process, which holds the lock for some milliseconds.
_PATIENCE = 60.0
# Seconds between two attempts to take the lock.
_PAUSE = 0.002


@dataclass(frozen=True)
class Line:
    """One line of a ledger: its fields, and its own SHA-256."""

    form: dict[str, Any]
    hash: str


def existing_ledger(path: PathLike) -> Path:
    """Return the file of a ledger, with links followed; refuse a path at which there is no file."""
    target = resolved(path)
    with failures(target):
        if not target.is_file():
            raise InvalidValue(
                f"there is no ledger {str(target)!r}", "begin one with dpsample ledger new"
            )
    return target


def parse_lines(data: bytes, target: Path) -> list[Line]:
    """Return the lines of a ledger, after checking their chain and their versions."""
    *lines, rest = data.split(b"\n")
    if rest:
        raise damaged(target, len(lines) + 1, "is cut off")
    if not lines:
        raise damaged(target, 1, "is missing")
    chained = _chained(lines, target)
    if chained[0].form.get("format") != _FORMAT:
        raise damaged(target, 1)
    for number, line in enumerate(chained, 1):
        _check_version(line, number, target)
    return chained


def _chained(lines: list[bytes], target: Path) -> list[Line]:
    """Return lines of which each has the hash of the line before it. No other field is looked at before that."""
    chained = []
    head = ""
    for number, line in enumerate(lines, 1):
        form = _json_object(line)
        if form is None or form.get("previous", "") != head:
            raise damaged(target, number)
        head = sha256_of(line)
        chained.append(Line(form, head))
    return chained


def _check_version(line: Line, number: int, target: Path) -> None:
    """Refuse a line without a version, or of a later version than this one."""
    version = line.form.get("version")
    if type(version) is not int or version < 1:
        raise damaged(target, number, "has no version")
    if version > _VERSION:
        raise InvalidValue(
            f"{str(target)!r} has version {version} at line {number}, and this dpsample reads versions up to "
            f"{_VERSION} of ledgers",
            "upgrade dpsample",
        )


def with_line(data: bytes, form: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return the bytes of a ledger with one more line, and the hash of that line; no bytes begin a new ledger."""
    from dpsample import __version__

    chain = {"format": _FORMAT}
    if data:
        last_line = data[:-1].rpartition(b"\n")[2]
        chain = {"previous": sha256_of(last_line)}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    origin = {"version": _VERSION, "time": now, "dpsample": __version__}
    line = canonical({**chain, **origin, **form})
    return data + line + b"\n", sha256_of(line)


def write_lines(target: Path, data: bytes, new: bool = False) -> None:
    """Replace the file of a ledger; when this returns, it is on the disk and stays there.

    A `new` ledger replaces nothing: a file that exists is refused.
    """
    with failures(target):
        permissions = None if new else target.stat().st_mode & 0o777
        with Temporary(target, permissions) as file:
            file.write(data)
            file.seal()
            file.place(target, force=not new)


@contextlib.contextmanager
def locked_ledger(path: PathLike) -> Iterator[Path]:
    """Hold the lock of a ledger that can be written to; a process that is killed releases it.

    Another process may have replaced the file before the lock was taken: then the lock is that of a file that has no
    name any more, and the new file is locked instead.
    """
    until = time.monotonic() + _PATIENCE
    while True:
        target = existing_ledger(path)
        with failures(target):
            file = open(target, "r+b")  # noqa: SIM115 - closed below; NFS locks only files open for writing
        with file, failures(target):
            if _lock(file.fileno(), target) and _is_same_file(target, file.fileno()):
                _check_file(target)
                yield target
                return
        if time.monotonic() > until:
            raise SystemFailure(
                f"the ledger {str(target)!r} has been locked by another process for {_PATIENCE:g} seconds",
                "look for a process that hangs, and try again",
            )


def _is_same_file(target: Path, fd: int) -> bool:
    """Whether an open file is the one that has this name now."""
    return os.path.samestat(os.stat(target), os.fstat(fd))


def check_room(target: Path) -> None:
    """Refuse a ledger in whose folder nothing can be written, by trying it: permissions alone do not say."""
    with Temporary(target, None):
        pass


def damaged(
    target: Path, line: int, finding: str = "does not follow from the line before it"
) -> InvalidValue:
    """Return the refusal of a ledger that was changed after dpsample wrote it; `finding` is said of the line."""
    return InvalidValue(
        f"{str(target)!r} is not a ledger as dpsample wrote it: line {line} {finding}",
        "restore it from a copy; until then nothing is released with it",
    )


def _json_object(line: bytes) -> dict[str, Any] | None:
    """Return the fields of a line of JSON, or None if it is anything else."""
    with contextlib.suppress(ValueError, RecursionError):
        form = json.loads(line)
        return form if isinstance(form, dict) else None
    return None


def _check_file(target: Path) -> None:
    """Refuse a ledger that is read-only, or that has two names, after removing names that a killed process left.

    A new line would go to one of two names, and each would have the whole budget.
    """
    if target.stat().st_nlink > 1:
        # `new_ledger` links its draft to the ledger's name; killed just then, it leaves the draft as a second name
        _remove_drafts(target)
    status = target.stat()
    if status.st_nlink > 1:
        raise InvalidValue(
            f"the ledger {str(target)!r} has {status.st_nlink} hard links, each of which would have the whole budget",
            "remove the others; a backup is a copy, not a link",
        )
    if not status.st_mode & 0o222:
        raise InvalidValue(
            f"the ledger {str(target)!r} is read-only", "use another, or change its permissions"
        )


def _remove_drafts(target: Path) -> None:
    """Remove other names of a ledger that a `new_ledger` which was killed left behind."""
    for draft in target.parent.glob(".dpsample-*.tmp"):
        with contextlib.suppress(FileNotFoundError):
            if draft.samefile(target):
                draft.unlink()


def _lock(fd: int, target: Path) -> bool:
    """Take a file's lock, or return False, after a moment, if another process has it."""
    try:
        if try_lock(fd):
            return True
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise InvalidValue(
            f"the ledger {str(target)!r} cannot be locked ({reason}), so two releases could spend the same budget",
            "move it to a local disk",
        ) from None
    time.sleep(_PAUSE)
    return False
