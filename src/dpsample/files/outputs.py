"""Outputs: what is checked before any work, and which ones this process has written."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from dpsample.errors import InvalidValue
from dpsample.files.atomic_file import Temporary, taken
from dpsample.files.metadata import PathLike, failures, format_of, metadata_in, resolved, sidecar_of

# Constant: a size that followed from the rows would make the refusal, which costs no budget, depend on private data.
# A million keys of 16 characters take 11 MB of Parquet. A larger output that fails to be written has spent its budget.
ROOM: Final = 32 << 20  # bytes

_written: list[Path] = []


def check_output(path: PathLike, force: bool = False, format: str | None = None) -> None:
    """Check, before any work, that an output can be written, and that there is room for it (`check_room`).

    `write_table` checks the name once more at the end.
    """
    check_target(path, force, format)
    check_room(path)


def check_target(path: PathLike, force: bool, format: str | None) -> tuple[Path, str]:
    """Check the name of an output; return its real path and its format."""
    form = format_of(path, format)
    return check_file(path, force, form), form


def check_file(path: PathLike, force: bool = False, form: str = "parquet") -> Path:
    """Check that a file can be written, and return its real path; CSV and Arrow files have a sidecar, too."""
    target = resolved(path)
    folder = target.parent
    with failures(target):
        if not folder.is_dir():
            raise InvalidValue(
                f"there is no folder {str(folder)!r} for the output", "make it, or choose another"
            )
        if target.is_dir():
            raise InvalidValue(
                f"the output must be a file, and {str(target)!r} is a folder",
                "give the name of a file in it",
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InvalidValue(
                f"the folder {str(folder)!r} cannot be written to",
                "choose another folder, or change its permissions",
            )
        check_free(target, form, force)
    return target


def check_free(target: Path, form: str, force: bool) -> None:
    """Refuse names that exist, unless forced; and always those of anything but a regular file."""
    names = [target]
    if form != "parquet":
        names.append(sidecar_of(target))
    for name in filter(os.path.lexists, names):
        if not name.is_file():
            raise InvalidValue(
                f"the output must be a regular file, and {str(name)!r} is something else",
                "choose another name",
            )
        # a sidecar of ours without its data file: a writer died between the two
        abandoned = name != target and not os.path.lexists(target) and metadata_in(name)
        if not force and not abandoned:
            raise taken(name)


def check_room(path: PathLike) -> None:
    """Refuse an output whose file system has no room for `ROOM` bytes: reserve them in a file that is then removed.

    This finds a full disk, a quota and a limit of file sizes before a ledger is charged. Temporary files that dead
    processes left for the same output are removed first.
    """
    with Temporary(resolved(path), None) as file:
        file.reserve(ROOM)


def check_not_input(output: PathLike, inputs: Iterable[PathLike]) -> None:
    """Refuse an output that is one of the inputs, is inside of one, or holds one; nothing can force it.

    Files are compared by identity, so that links and hard links count. A file and its sidecar count as one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(f"{folder}/a.csv").touch()
    ...     os.link(f"{folder}/a.csv", f"{folder}/b.csv")
    ...     check_not_input(f"{folder}/b.csv", [f"{folder}/a.csv"])
    Traceback (most recent call last):
    dpsample.errors.InvalidValue: the output ... must not overlap with the input ...; name another output
    """
    target = Path(os.path.realpath(output))
    writes = _identities([target, _sidecar(target)])
    for path in inputs:
        source = Path(os.path.realpath(path))
        reads = _identities([source, _sidecar(source)])
        is_input = bool(writes & reads)
        is_inside = bool(_identities(target.parents) & reads)
        holds_input = bool(writes & _identities(source.parents))
        if is_input or is_inside or holds_input:
            raise InvalidValue(
                f"the output {str(target)!r} must not overlap with the input {str(source)!r}",
                "name another output",
            )


def _identities(paths: Iterable[Path]) -> set[tuple[int, int]]:
    """Return the device and the inode of each file that exists."""
    statuses = []
    for path in paths:
        with contextlib.suppress(OSError):
            statuses.append(os.stat(path))
    return {(status.st_dev, status.st_ino) for status in statuses}


def _sidecar(path: Path) -> Path:
    return sidecar_of(path) if path.name else path


def note_written(output: Path) -> None:
    """Remember that an output has its final name."""
    _written.append(output)


def written_outputs() -> tuple[Path, ...]:
    """Return the outputs that this process has written."""
    return tuple(_written)
