"""Source: where elements live, and which column or columns are their key.

A source is a frozen value. It knows how to find its files and how to show its object to Arrow; the engine does the
rest. What it shows of itself is where and which columns, never what is in them.
"""

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from dpsample.errors import InvalidValue
from dpsample.files import without_view
from dpsample.private.python_objects import CHUNK, batches, quietly
from dpsample.sql import quoted_name

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["files", "database", "table", "stream", "mapping", "keys", "frame"]

RESERVED = ("frequency", "token", "estimate")
FORMATS = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".csv.gz"),
    "tsv": (".tsv", ".tsv.gz"),
    "jsonl": (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz"),
    "arrow": (".arrow", ".feather", ".ipc"),
}


@dataclass(frozen=True, repr=False, eq=False)
class Source:
    """Where elements live, and which column or columns are their key.

    data        a path, a glob, a folder, or a list of them (Parquet, CSV, JSON lines, Arrow IPC); a database
                ``postgresql://...`` or ``sqlite:///...`` with `table` or `query`; a pandas or polars DataFrame; an
                Arrow table, reader or anything else with the Arrow C stream interface; a DuckDB relation; a mapping
                from key to frequency; or an iterable of keys
    key         the key column, or several; keys of a mapping or iterable get the column ``key`` unless told, and
                need one name for each place of a tuple
    frequency   the column with the frequency of already aggregated rows (rows of one key are summed); without it
                each row is one element
    drop_null   leave out rows whose key has a NULL, or whose user is NULL, instead of refusing them
    table       a database's table, or ``schema.table``
    query       a database's SELECT instead of a table
    format      of files: parquet, csv, tsv, jsonl or arrow; by extension unless told
    user        the column that says whose row it is, for privacy of users instead of elements

    Text files carry no types, and guessed ones would make 7 of 007. So keys of CSV, TSV and JSON lines are text,
    exactly as it stands in the file (for JSON: strings as they are, numbers and booleans as JSON writes them), and
    frequencies are plain integers such as ``12``. CSV and TSV have a header line; a field is NULL if it is empty
    without quotes, and the empty text if it is ``""``; CSV is separated by commas. For anything else, such as
    another separator or hive partitions, hand in a DuckDB relation: ``duckdb.read_csv(path, sep=";")``.

    A list of strings together with `key` names files; without `key` its strings are keys themselves.

    >>> Source("events/*.parquet", key="query")
    Source('events/*.parquet', key='query')
    >>> Source({"apple": 3, "pear": 1})
    Source(<dict>, key='key')
    >>> Source("postgresql://ada:secret@db.example/shop", key=["city", "item"], table="orders")
    Source('postgresql://db.example/shop', key=['city', 'item'], table='orders')
    >>> Source("events.parquet", key=["query", "query"])
    Traceback (most recent call last):
      ...
    dpsample.errors.InvalidValue: key columns must differ, also in more than upper and lower case; found 'query' \
twice; name each column once
    """

    data: Any
    key: tuple[str, ...]
    frequency: str | None
    drop_null: bool
    table: str | None
    query: str | None
    format: str | None
    user: str | None
    kind: Kind
    _taken: list[bool]

    def __init__(
        self,
        data: Any,
        key: str | Sequence[str] | None = None,
        frequency: str | None = None,
        drop_null: bool = False,
        table: str | None = None,
        query: str | None = None,
        format: str | None = None,
        user: str | None = None,
    ) -> None:
        kind = _kind(data, key is not None)
        values = {
            "data": data,
            "key": _checked_key(key, kind),
            "frequency": frequency,
            "drop_null": bool(drop_null),
            "table": table,
            "query": query,
            "format": format,
            "user": user,
            "kind": kind,
            "_taken": [],
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        if self.kind in ("mapping", "keys") and self.frequency is not None:
            raise InvalidValue(
                "a mapping or an iterable of keys has no columns to read a frequency from",
                "a frequency column",
                "leave it out: the values of a mapping are its frequencies",
            )
        if self.frequency is not None and (not isinstance(self.frequency, str) or not self.frequency):
            raise InvalidValue("frequency is the name of a column", type(self.frequency).__name__, "write its name")
        if self.frequency in self.key:
            raise InvalidValue(
                "the frequency is not part of the key", f"{self.frequency!r} as both", "name two different columns"
            )
        if self.user is not None:
            self._check_user()
        if self.format is not None and (self.kind != "files" or self.format not in FORMATS):
            raise InvalidValue(
                f"format goes with files, and is one of {', '.join(FORMATS)}",
                f"{self.format!r} with {'files' if self.kind == 'files' else 'no files'}",
                "leave it out where the extension tells",
            )
        if self.kind != "database" and (self.table is not None or self.query is not None):
            raise InvalidValue("table and query go with a database", "no database", "leave them out")
        if self.kind == "database" and (self.table is None) == (self.query is None):
            raise InvalidValue(
                "a database needs either a table or a query",
                "neither" if self.table is None else "both",
                "write table='name' or query='SELECT ...'",
            )

    def _check_user(self) -> None:
        if not isinstance(self.user, str) or not self.user:
            raise InvalidValue("user is the name of a column", type(self.user).__name__, "write its name")
        if self.aggregated:
            raise InvalidValue(
                "privacy of users needs rows with a user and a key each",
                "rows that are aggregated by key",
                "read the raw rows, without a frequency: a key's frequency is then its number of users",
            )
        if self.kind == "keys":
            raise InvalidValue(
                "privacy of users needs a column that says whose row it is",
                "an iterable of keys, which has no columns",
                "hand in a table",
            )
        if self.user.lower() in (name.lower() for name in self.key):
            raise InvalidValue(
                "the user is not part of the key", f"{self.user!r} as both", "name two different columns"
            )

    @classmethod
    def of(cls, data: Any, key: str | Sequence[str] | None = None, **options: Any) -> "Source":
        """Return `data` if it is a source already, else make one of it.

        >>> Source.of(Source("events.parquet", key="query"))
        Source('events.parquet', key='query')
        """
        if not isinstance(data, Source):
            return cls(data, key, **options)
        given = [name for name, value in {"key": key, **options}.items() if value is not None and value is not False]
        if given:
            raise InvalidValue(
                "a Source says itself what its columns are", f"also {', '.join(given)}", "say it in the Source only"
            )
        return data

    @property
    def where(self) -> str:
        """Where the elements live, in words that give nothing away: no data, no user, no password."""
        if self.kind == "database":
            return repr(_public(self.data))
        if self.kind != "files":
            return f"<{type(self.data).__qualname__}>"
        if isinstance(self.data, str | os.PathLike):
            return repr(os.fspath(self.data))
        return f"<{len(self.data)} paths>"

    @property
    def paths(self) -> list[str]:
        """The files, folders and globs as they were named, or the database without user and password."""
        if self.kind == "database":
            return [_public(self.data)]
        data = [self.data] if isinstance(self.data, str | os.PathLike) else self.data
        return [os.fspath(path) for path in data] if self.kind == "files" else []

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read: the key, then the frequency or the user if there is one."""
        return (*self.key, *(name for name in (self.frequency, self.user) if name is not None))

    @property
    def aggregated(self) -> bool:
        """Whether rows carry a frequency, rather than being one element each."""
        return self.frequency is not None or self.kind == "mapping"

    def __repr__(self) -> str:
        parts = [self.where, f"key={(self.key[0] if len(self.key) == 1 else list(self.key))!r}"]
        parts += [
            f"{name}={getattr(self, name)!r}"
            for name in ("frequency", "user", "table", "format")
            if getattr(self, name) is not None
        ]
        parts += ["query=..."] if self.query is not None else []
        parts += ["drop_null=True"] if self.drop_null else []
        return f"Source({', '.join(parts)})"

    def files(self) -> tuple[str, list[str]]:
        """Find the files: their format, and each one's absolute path, once."""
        single = isinstance(self.data, str | os.PathLike)
        found: list[str] = []
        for i, entry in enumerate([self.data] if single else self.data):
            # an entry of a list may be a key by mistake, so it is not shown
            found += self._expand(entry, repr(os.fspath(entry)) if single else f"entry {i + 1} of the list")
        if len({os.path.realpath(path) for path in found}) < len(found):
            raise InvalidValue(
                "each file is read once, or its elements would count twice",
                "a file named twice",
                "look for globs or folders that overlap",
            )
        if self.format is not None:
            return self.format, found
        formats = {_format(path) for path in found}
        if None in formats:
            raise InvalidValue(
                f"a file's extension tells its format: {', '.join(chain(*FORMATS.values()))}",
                f"another one at {self.where}",
                "name the format, such as format='csv'",
            )
        if len(formats) > 1:
            raise InvalidValue(
                "files of one source have one format",
                " and ".join(sorted(str(f) for f in formats)),
                "release them one by one",
            )
        return str(formats.pop()), found

    def _expand(self, entry: Any, shown: str) -> list[str]:
        path = os.path.expanduser(os.fspath(entry))
        if os.path.isfile(path):
            return [os.path.abspath(path)]
        if os.path.isdir(path):
            inside = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
            found = [f for f in inside if not _hidden(os.path.relpath(f, path)) and (self.format or _format(f))]
            rule, what = "a folder must have a data file in it", f"none in {shown}"
        elif glob.has_magic(path):
            found = [f for f in glob.glob(path, recursive=True) if os.path.isfile(f)]
            rule, what = "a glob must match a file", f"no match for {shown}"
        else:
            found, rule, what = [], "a path must name a file or folder", f"nothing at {shown}"
        if not found:
            remedy = "check the path" + (
                "" if "'" in shown or '"' in shown else ", or, if these are keys, leave out key"
            )
            raise InvalidValue(rule, what, remedy)
        return sorted(map(os.path.abspath, found))

    def as_table(self) -> "pa.Table":
        """Show a DataFrame or an Arrow table as an Arrow table of the columns to read."""
        import pyarrow as pa

        data = self.data
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        names = [str(name) for name in (data.column_names if isinstance(data, pa.Table) else data.columns)]
        self.require(names)
        if not isinstance(data, pa.Table):
            frame = data[[name for name in data.columns if str(name) in self.columns]]
            data = quietly(lambda: pa.table(frame), "a DataFrame's column has values of one type", "mixed ones")
        table = data.select(self.columns)
        return table.cast(pa.schema([field.with_type(without_view(field.type)) for field in table.schema]))

    def as_batches(self) -> tuple["pa.Schema", Iterator["pa.RecordBatch"]]:
        """Show any other object as an Arrow schema of the columns to read, and its batches; these may come once."""
        import pyarrow as pa

        if self.kind in ("mapping", "keys"):
            self._take()
            items = self.data.items() if self.kind == "mapping" else self.data
            found = batches(items, self.key, self.kind == "mapping", self.drop_null)
            first = next(found, None)
            if first is None:
                columns = [(name, pa.string()) for name in self.key]
                return pa.schema(columns + [("frequency", pa.int64())] * self.aggregated), iter(())
            return first.schema, chain([first], found)
        if hasattr(self.data, "project"):  # a DuckDB relation; its C stream would hold everything at once
            self.require(self.data.columns)
            names = ", ".join(map(quoted_name, self.columns))
            reader = self.data.project(names).to_arrow_reader(CHUNK)
        else:
            self._take()
            reader = pa.RecordBatchReader.from_stream(self.data)
            self.require(reader.schema.names)
        indices = [reader.schema.get_field_index(name) for name in self.columns]
        schema = pa.schema([reader.schema.field(i) for i in indices])
        return schema, (batch.select(indices) for batch in reader)

    def _take(self) -> None:
        """Refuse to read again what can be read once, and would now seem to be empty."""
        if isinstance(self.data, Iterator):
            if self._taken:
                raise InvalidValue("a stream can be read once", "one that was read before", "make a new source of it")
            self._taken.append(True)

    def require(self, names: Sequence[str], shown: bool = True) -> None:
        """Refuse unless each column to read is there once; `shown` says whether other names may be told."""
        for name in self.columns:
            if name in names and list(names).count(name) == 1:
                continue
            if name in names:
                found = f"{list(names).count(name)} of that name"
            elif shown:
                found = f"the columns {', '.join(map(repr, names[:20]))}{', ...' if len(names) > 20 else ''}"
            else:  # a text file without a header has data in its place
                found = f"{len(names)} other column{'' if len(names) == 1 else 's'}"
            raise InvalidValue(
                f"the column {name!r} must be in {self.where}",
                found,
                "check the name" if shown else "check the name, and that the file says it (CSV: in a header line)",
            )


def _kind(data: Any, named: bool) -> Kind:
    """Say what `data` is; `named` tells whether its key columns have names."""
    if isinstance(data, str) and "://" in data:
        scheme = data.split("://", 1)[0]
        if scheme not in ("postgresql", "postgres", "sqlite"):
            raise InvalidValue(
                "a URI names a database, postgresql:// or sqlite:///",
                f"{scheme}://",
                "copy remote files to this machine, or hand in a DuckDB relation",
            )
        return "database"
    if isinstance(data, str | os.PathLike):
        return "files"
    if isinstance(data, list | tuple) and data:
        pathlike = all(isinstance(entry, os.PathLike) for entry in data)
        if pathlike or (named and all(isinstance(entry, str | os.PathLike) for entry in data)):
            return "files"
    library = type(data).__module__.partition(".")[0]
    if library == "pyspark" and hasattr(data, "mapInArrow"):
        return "frame"
    if library in ("pandas", "polars") and hasattr(data, "__arrow_c_stream__") and hasattr(data, "columns"):
        return "table"
    if library == "pyarrow" and type(data).__name__ in ("Table", "RecordBatch"):
        return "table"
    if hasattr(data, "__arrow_c_stream__") and type(data).__name__ not in ("Series", "ChunkedArray"):
        return "stream"
    if isinstance(data, Mapping):
        return "mapping"
    if isinstance(data, Iterable) and not isinstance(data, bytes | bytearray):
        return "keys"
    raise InvalidValue(
        "a source is a path, a database, a DataFrame, an Arrow or DuckDB object, a mapping or an iterable of keys",
        f"an object of type {type(data).__qualname__}",
        "see the documentation of Source",
    )


def _checked_key(key: str | Sequence[str] | None, kind: Kind) -> tuple[str, ...]:
    if key is None and kind in ("mapping", "keys"):
        return ("key",)
    names = (key,) if isinstance(key, str) else tuple(key or ())
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InvalidValue(
            "key is the name of a column, or of several", "none" if not names else "something else", "write key='name'"
        )
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise InvalidValue(
                "key columns must differ, also in more than upper and lower case",
                f"{name!r} twice",
                "name each column once",
            )
        if name.lower() in RESERVED:
            raise InvalidValue(
                f"a release has the columns {', '.join(RESERVED)} of its own",
                f"the key column {name!r}",
                "rename the key column",
            )
        seen.add(name.lower())
    return names


def _public(uri: str) -> str:
    """Show a database's URI without user, password and options."""
    if uri.startswith("sqlite"):
        return uri
    try:
        parts = urlsplit(uri)
        port = f":{parts.port}" if parts.port else ""
        return f"postgresql://{parts.hostname or ''}{port}{parts.path}"
    except ValueError:
        return "postgresql://..."


def _format(path: str) -> str | None:
    name = os.path.basename(path).lower()
    return next((format for format, endings in FORMATS.items() if name.endswith(endings)), None)


def _hidden(path: str) -> bool:
    return any(part.startswith((".", "_")) for part in PurePath(path).parts)
