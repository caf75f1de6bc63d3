"""Hive folders: columns that the names of folders have, as in ``day=2026-11-01/x.parquet``.

Such a column is text, unless a type is declared with `key_type`: a type that followed from the names would tell of the
rows. Names are percent-encoded, and a value has the name of Hive's default partition where it is NULL.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from dpsample.errors import InvalidValue, attempt
from dpsample.private.sources.key_types import declared_types
from dpsample.sql import quoted_name, quoted_text

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsample.private.sources.source import Source

# The name of a folder whose column is NULL there.
_NULL = "__HIVE_DEFAULT_PARTITION__"
# The column in which DuckDB puts the name of a row's file. A column of the files with this name is not read.
FILE: Final = "dpsample file"


def folder_values(path: str) -> dict[str, str | None]:
    """Return the values that the folders on the way to a file have, by column.

    >>> folder_values("clicks/day=2026-11-01/city=K%C3%B6ln/x.parquet")
    {'day': '2026-11-01', 'city': 'Köln'}
    >>> folder_values("day=__HIVE_DEFAULT_PARTITION__/x.parquet")
    {'day': None}
    """
    values = dict[str, str | None]()
    for folder in PurePosixPath(path).parts[:-1]:
        encoded, is_column, value = folder.partition("=")
        if not is_column or not encoded:
            continue
        name = unquote(encoded)
        if name in values:
            raise InvalidValue(
                f"two folders on the way to a file have the column {name!r}", "rename one of them"
            )
        values[name] = None if value == _NULL else unquote(value)
    return values


def shown_path(path: str) -> str:
    """Return a path as a refusal shows it: without the values of folders, which may be keys.

    >>> shown_path("clicks/user=ada/x.csv")
    'clicks/user=.../x.csv'
    """
    shown = list[str]()
    for part in path.split("/"):
        name, is_column, _ = part.partition("=")
        shown.append(f"{name}=..." if is_column and name else part)
    return "/".join(shown)


@dataclass(frozen=True)
class DataFile:
    """A file of a source.

    path     an absolute path or a URI; or that of a copy
    shown    its name in a refusal
    folders  the values of the folders on the way to it, by column
    """

    path: str
    shown: str
    folders: Mapping[str, str | None]


@dataclass(frozen=True)
class FolderColumns:
    """The columns to read of a source that the names of folders have, with their declared types."""

    types: Mapping[str, "pa.DataType"]

    @classmethod
    def of(cls, source: "Source", files: Sequence[DataFile]) -> "FolderColumns":
        """Return the columns of a source that all of its files have in the names of their folders."""
        import pyarrow as pa

        declared = declared_types(source)
        types = dict[str, pa.DataType]()
        for name in source.columns:
            times = sum(name in file.folders for file in files)
            if times == len(files):
                types[name] = declared.get(name, pa.string())
            elif times:
                raise InvalidValue(
                    f"the column {name!r} is in the names of folders on the way to some files, but not to all",
                    "write the files alike, or release each folder separately",
                )
        for name in declared:
            if name not in types:
                raise InvalidValue(
                    f"`key_type` names {name!r}, which is no column that folders are named by",
                    "leave it out: columns of files have types of their own, or are text",
                )
        return cls(types)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.types)

    def among(self, names: Iterable[str]) -> list[str]:
        """Return the names of all columns: those of a file, and those of folders; no name may be in both."""
        own = list(names)
        for name in self.names:
            if name in own:
                raise InvalidValue(
                    f"the column {name!r} is in the files and also in the names of their folders",
                    "leave it out of the files, or rename the folders",
                )
        return [*own, *self.names]

    def arrays(self, files: Sequence[DataFile]) -> "dict[str, pa.Array]":
        """Return the values of each column, in the order of files."""
        import pyarrow as pa

        arrays = dict[str, pa.Array]()
        for name, kind in self.types.items():
            texts = pa.array([file.folders[name] for file in files], pa.string())
            refusal = InvalidValue(
                f"at least one folder of the column {name!r} has a name that is no value of type {kind}",
                "rename it, or leave `key_type` out",
            )
            no_cast = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
            arrays[name] = attempt(partial(texts.cast, kind), refusal, *no_cast)
        return arrays

    def objects(self, files: Sequence[DataFile]) -> dict[str, Any]:
        """Return what `rows_with` names: the table `folders` of the values of each file."""
        import pyarrow as pa

        if not self.types:
            return {}
        columns = {"file": pa.array([file.path for file in files])}
        for place, array in enumerate(self.arrays(files).values()):
            columns[f"f{place}"] = array
        table = pa.table(columns)
        return {"folders": lambda: table}

    @property
    def file_option(self) -> str:
        """SQL of the option by which DuckDB adds the name of a row's file, if it is needed; it follows others."""
        return f", filename = {quoted_text(FILE)}" if self.types else ""

    def selected(self, source: "Source", rows: str, own: Mapping[str, str] | None = None) -> str:
        """Return SQL of the columns of a source, in order, as c0, c1, ...

        `rows` is a FROM item, and `own` has SQL of the columns of files, if it is not their name.
        """
        chosen = list[str]()
        for place, name in enumerate(source.columns):
            if name in self.types:
                column = f"folders.f{self.names.index(name)}"
            else:
                column = f"file_rows.{quoted_name(name) if own is None else own[name]}"
            chosen.append(f"{column} AS c{place}")
        item = f"{rows} AS file_rows"
        if self.types:
            item += f" JOIN folders ON file_rows.{quoted_name(FILE)} = folders.file"
        return f"SELECT {', '.join(chosen)} FROM {item}"


def files_of_part(source: "Source", files: Sequence[DataFile]) -> list[DataFile]:
    """Return the files that can have rows of a source's part, if folders are named by its column; at least one.

    The rows of a file that is left out are in other parts. One file stays, which says what columns there are.
    """
    part = source.part
    if part is None or part.name in declared_types(source):
        return list(files)
    own = [file for file in files if file.folders.get(part.name, part.value) == part.value]
    return own or list(files[:1])
