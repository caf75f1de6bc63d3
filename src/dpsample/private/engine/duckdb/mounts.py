"""Files of stores, as DuckDB opens them: under names of its own, so that no message of DuckDB has a URI."""

from datetime import UTC, datetime
from itertools import count
from typing import Any

import duckdb

from dpsample.private.sources.stores import StoredFile, required_fsspec

_PROTOCOL = "dpsample"
_NEVER = datetime(
    2000, 1, 1, tzinfo=UTC
)  # when a file was modified, for DuckDB's cache, which is not used


class Mounts:
    """The files of stores that a connection can open."""

    def __init__(self) -> None:
        self._files: dict[str, StoredFile] = {}
        self._names = (str(number) for number in count())

    def add(self, file: StoredFile, connection: duckdb.DuckDBPyConnection) -> str:
        """Let a connection open a file; return its name there."""
        if not self._files:
            connection.register_filesystem(_file_system(self._files))
        name = next(self._names)
        self._files[name] = file
        return f"{_PROTOCOL}://{name}"


def _file_system(files: dict[str, StoredFile]) -> Any:
    """Return a file system of fsspec that has just these files, which can be read."""
    fsspec = required_fsspec()

    class StoredFiles(fsspec.AbstractFileSystem):  # type: ignore[misc,name-defined]
        protocol = _PROTOCOL
        cachable = False  # another engine has other files

        def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
            return self._file(path).open()

        def info(self, path: str, **options: Any) -> dict[str, Any]:
            return {"name": path, "size": self._file(path).size, "type": "file"}

        def exists(self, path: str, **options: Any) -> bool:
            return self._strip_protocol(path) in files

        def isfile(self, path: str) -> bool:
            return self.exists(path)

        def isdir(self, path: str) -> bool:
            return False

        def glob(self, path: str, **options: Any) -> list[str]:
            return [self._strip_protocol(path)]

        def modified(self, path: str) -> datetime:
            return _NEVER

        def _file(self, path: str) -> StoredFile:
            return files[self._strip_protocol(path)]

    return StoredFiles()
