"""The log of a command (`--log FILE`): JSON lines, one for each event, appended to a file.

It has the start of the command, with its time; the stages of a release, in their order; the number of the entry in the
ledger; and the exit code. Nothing in it depends on the data, so it may be kept where releases are kept: it has no
counts, and no times but that of the start, since how long a stage takes depends on the data.
"""

import json
import os
from datetime import UTC, datetime
from typing import Any

from dpsample import __version__
from dpsample.files import PathLike
from dpsample.files.metadata import failures, resolved


class Log:
    """An open log; without a path, nothing is written."""

    def __init__(self, path: PathLike | None = None) -> None:
        self._file: int | None = None
        if path is not None:
            target = resolved(path)
            with failures(target):
                self._file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def begin(self, command: str) -> None:
        """Enter that a command begins."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._write("start", time=now, command=command, dpsample=__version__)

    def stage(self, name: str) -> None:
        """Enter that a stage begins."""
        self._write("stage", stage=name)

    def entry(self, ledger: str, number: int, status: str) -> None:
        """Enter which entry of a ledger is that of the release."""
        self._write("entry", ledger=ledger, entry=number, status=status)

    def end(self, code: int, meaning: str) -> None:
        """Enter the exit code, and close the log."""
        self._write("end", exit=code, meaning=meaning)
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, event: str, **fields: Any) -> None:
        """Append an event in one write, so that logs of several commands do not mix within a line."""
        if self._file is None:
            return
        line = json.dumps({"event": event, **fields}, ensure_ascii=False)
        os.write(self._file, f"{line}\n".encode())


_open: list[Log] = []  # the log of the command that runs, if it has one


def start_log(path: PathLike, command: str) -> None:
    """Begin the log of this command."""
    log = Log(path)
    log.begin(command)
    _open.append(log)


def current_log() -> Log:
    """Return the log of the command that runs; one that writes nothing if there is none."""
    return _open[-1] if _open else Log()


def end_log(code: int, meaning: str) -> None:
    """End the log of the command that ran."""
    while _open:
        _open.pop().end(code, meaning)
