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
_PATIENCE = 60.0  # seconds to wait for another process, which holds the lock for some milliseconds


@dataclass(frozen=True)
class Line:
    """One line: what it states, and its own hash."""

    form: dict[str, Any]
    hash: str


def existing_ledger(path: PathLike) -> Path:
    """Follow links to the ledger that is meant."""
    target = resolved(path)
    with failures(target):
        if not target.is_file():
            raise InvalidValue(
                "a ledger must exist to be used",
                f"no file {str(target)!r}",
                "start one with dpsample ledger new",
            )
    return target


def parse_lines(data: bytes, target: Path) -> list[Line]:
    """Read the lines and check their chain."""
    *lines, rest = data.split(b"\n")
    if rest or not lines:
        raise damaged(target, len(lines) + 1, "a line that is cut off" if rest else "no line")
    parsed, head = [], ""
    for number, line in enumerate(
        lines, 1
    ):  # the chain first: what does not hold together is not even read
        form = _json_object(line)
        if form is None or form.get("previous", "") != head:
            raise damaged(target, number)
        head = sha256_of(line)
        parsed.append(Line(form, head))
    if parsed[0].form.get("format") != _FORMAT:
        raise damaged(target, 1)
    for number, checked in enumerate(parsed, 1):
        version = checked.form.get("version")
        if type(version) is not int or version < 1:
            raise damaged(target, number, "a line without a version")
        if version > _VERSION:
            raise InvalidValue(
                f"this dpsample reads versions up to {_VERSION} of ledgers",
                f"version {version} at line {number}",
                "upgrade dpsample",
            )
    return parsed


def with_line(data: bytes, form: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return the lines and one more, and the hash of that one; without any, it is the first of a ledger."""
    from dpsample import __version__

    chain = {"previous": sha256_of(data[:-1].rpartition(b"\n")[2])} if data else {"format": _FORMAT}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    line = canonical({**chain, "version": _VERSION, "time": now, "dpsample": __version__, **form})
    return data + line + b"\n", sha256_of(line)


def write_lines(target: Path, data: bytes, new: bool = False) -> None:
    """Write the file; when this returns, it is on the disk and stays there. A `new` one replaces nothing."""
    with (
        failures(target),
        Temporary(target, None if new else target.stat().st_mode & 0o777) as file,
    ):
        file.write(data)
        file.seal()
        file.place(target, force=not new)


@contextlib.contextmanager
def locked_ledger(path: PathLike) -> Iterator[Path]:
    """Hold the lock of a ledger that can be written to; a process that is killed lets go of it."""
    until = time.monotonic() + _PATIENCE
    while True:
        target = existing_ledger(path)
        with failures(target):
            file = open(target, "r+b")  # noqa: SIM115 - closed below; NFS locks what is open for writing alone
        with file, failures(target):
            if _lock(file.fileno(), target) and os.path.samestat(
                os.stat(target), os.fstat(file.fileno())
            ):
                _check_file(target)
                yield target
                return
        if time.monotonic() > until:
            raise SystemFailure(
                "a ledger is written by one process at a time",
                f"{str(target)!r} locked by another for {_PATIENCE:g} seconds",
                "look for a process that hangs, and try again",
            )


def check_room(target: Path) -> None:
    """Refuse a ledger beside which nothing can be written; this is tried, since permissions do not tell all."""
    with Temporary(target, None):
        pass


def damaged(
    target: Path, line: int, finding: str = "one that does not follow from the line before it"
) -> InvalidValue:
    """Return the refusal of a ledger that is not as it was written."""
    return InvalidValue(
        f"{str(target)!r} must be a ledger as dpsample wrote it",
        f"{finding}, at line {line}",
        "restore it from a copy; until then nothing is released with it",
    )


def _json_object(line: bytes) -> dict[str, Any] | None:
    with contextlib.suppress(ValueError, RecursionError):
        form = json.loads(line)
        return form if isinstance(form, dict) else None
    return None


def _check_file(target: Path) -> None:
    """Refuse a ledger under two names: a line would go to one of them, and each would have the whole budget."""
    if target.stat().st_nlink > 1:
        for draft in target.parent.glob(
            ".dpsample-*.tmp"
        ):  # what a `new_ledger` that was killed leaves behind
            with contextlib.suppress(FileNotFoundError):
                if draft.samefile(target):
                    draft.unlink()
    status = target.stat()
    if status.st_nlink > 1:
        raise InvalidValue(
            "a ledger has one name, or each name would have the whole budget",
            f"{status.st_nlink} hard links to {str(target)!r}",
            "remove the others; a backup is a copy, not a link",
        )
    if not status.st_mode & 0o222:
        raise InvalidValue(
            "a ledger must be writable",
            f"that {str(target)!r} is read-only",
            "use another, or change its permissions",
        )


def _lock(fd: int, target: Path) -> bool:
    """Take a file's lock; False, after a moment, if somebody else has it."""
    try:
        if try_lock(fd):
            return True
    except OSError as error:
        raise InvalidValue(
            "a ledger must be on a file system with locks, which keep two releases apart",
            f"that {str(target)!r} cannot be locked ({os.strerror(error.errno or 0)})",
            "move it to a local disk",
        ) from None
    time.sleep(0.002)
    return False
