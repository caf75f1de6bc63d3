"""Source: where elements live, and which column or columns are their key.

A source is a frozen value. It lists its files; the engine does the rest. What it shows of itself is its location and
its columns, never what is in them. The types of its key columns are public, since a release has them: they are
declared, by the source's own schema or by the caller, and never follow from values.
"""

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from dpsample.accounting.amounts import Amount
from dpsample.accounting.parts import Part
from dpsample.errors import InvalidValue
from dpsample.private.sources.dialect import Dialect
from dpsample.private.sources.formats import FORMATS, format_of
from dpsample.private.sources.inputs import expanded, identity, local_path, require_distinct
from dpsample.private.sources.iterables import COUNT_NAMES
from dpsample.private.sources.kinds import Kind, check_stated, key_names, no_text_files, public_names, source_kind


@dataclass(frozen=True, repr=False, eq=False)
class Source:
    """Where elements live, and which column or columns are their key.

    data        a path, a glob, a folder, or a list of them (Parquet, CSV, JSON lines, Arrow IPC); a database
                ``postgresql://...`` or ``sqlite:///...`` with `table` or `query`; a pandas or polars DataFrame; an
                Arrow table, reader or anything else with the Arrow C stream interface; a DuckDB relation; a mapping
                from key to frequency; or an iterable with a key for each element. What could be something else, such
                as a pandas Series with an index of its own, is refused
    key         the key column, or several; by default ``key`` for a mapping or an iterable, whose keys need one name
                for each place of a tuple
    frequency   the column with the frequency of already aggregated rows (rows of one key are summed); without it
                each row is one element
    drop_null   leave out rows whose key has a NULL, or whose user is NULL, instead of refusing them
    table       a database's table, or ``schema.table``
    query       a database's SELECT instead of a table
    format      of files: parquet, csv, tsv, jsonl or arrow; by default what the extension tells
    user        the column that says whose row it is, for privacy of users instead of elements
    key_type    the type of keys that have none: of Python objects, and of pandas columns of objects; such as
                ``"int64"``, ``"date32"``, ``"decimal128(9, 2)"``, ``"binary"``, or one for each column in a mapping
    key_as      the name of the key column in samples and releases, or several; by default its own
    delimiter   of CSV: the character between fields, such as ``";"``; by default a comma, and of TSV a tab
    encoding    of CSV and TSV: such as ``"latin-1"``, ``"cp1252"`` or ``"utf-16"``; by default UTF-8
    header      of CSV and TSV: False if the first line has data; columns are then called column0, column1, ...
    null        of CSV and TSV: a text that stands for NULL, such as ``"NA"``, or several, beside the empty field

    The types of key columns are published with a release, so they never follow from the rows. Parquet, Arrow, typed
    DataFrames, DuckDB relations and PostgreSQL have a schema. SQLite's columns are of the type that they are declared
    with, or else text. Keys without a type are text unless `key_type` says more: strings as they are, integers and
    booleans as JSON writes them, decimals without trailing zeros, dates and times by ISO 8601.

    Text files carry no types either. Keys of CSV, TSV and JSON lines are text, exactly as it stands in the file (for
    JSON: strings as they are, numbers and booleans as JSON writes them), and frequencies are plain integers such as
    ``12``. In CSV and TSV, a field is NULL if it is empty without quotes, and the empty text if it is ``""``. For
    anything else, such as hive partitions, hand in a DuckDB relation whose types are not guessed:
    ``duckdb.read_csv(path, hive_partitioning=True, all_varchar=True)``.

    Users are compared by value where the column has a type, and else as text, byte by byte. In JSON lines, 1, 1.0 and
    "1" are one user, and a number with a fraction is refused.

    A list of strings together with `key` names files; without `key` its strings are keys themselves.

    >>> Source("events/*.parquet", key="query")
    Source('events/*.parquet', key='query')
    >>> Source({"apple": 3, "pear": 1})
    Source(<dict>, key='key')
    >>> Source([7, 7, 12], key_type="int64")
    Source(<list>, key='key', key_type='int64')
    >>> Source("postgresql://ada:secret@db.example/shop", key=["city", "item"], table="orders")
    Source('postgresql://db.example/shop', key=['city', 'item'], table='orders')
    >>> Source("events.parquet", key=["query", "query"])
    Traceback (most recent call last):
      ...
    dpsample.errors.InvalidValue: key columns must differ, also in more than upper and lower case; found 'query' \
twice; name each column once
    """

    data: Any
    key: tuple[str, ...]  # names in samples and releases
    key_columns: tuple[str, ...]  # names in the source
    frequency: str | None
    drop_null: bool
    table: str | None
    query: str | None
    format: str | None
    user: str | None
    key_type: str | Mapping[str, str] | None
    kind: Kind
    part: Part | None
    dialect: Dialect
    amounts: tuple[Amount, ...]
    taken: list[bool]  # not empty once a stream was read

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
        key_type: str | Mapping[str, str] | None = None,
        *,
        key_as: str | Sequence[str] | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
        header: bool = True,
        null: str | Sequence[str] = (),
    ) -> None:
        kind = source_kind(data, key is not None)
        columns = key_names(key, kind)
        values = {
            "data": data,
            "key": public_names(columns, key_as, kind),
            "key_columns": columns,
            "frequency": frequency,
            "drop_null": bool(drop_null),
            "table": table,
            "query": query,
            "format": format,
            "user": user,
            "key_type": key_type,
            "kind": kind,
            "part": None,
            "dialect": Dialect(delimiter, encoding, bool(header), null),
            "amounts": (),
            "taken": [],
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        check_stated(self)

    @classmethod
    def of(cls, data: Any, key: str | Sequence[str] | None = None, **options: Any) -> "Source":
        """Return `data` if it is a source already, else make one of it.

        >>> Source.of(Source("events.parquet", key="query"))
        Source('events.parquet', key='query')
        """
        if not isinstance(data, Source):
            return cls(data, key, **options)
        others = [name for name, value in {"key": key, **options}.items() if value is not None and value is not False]
        if others:
            raise InvalidValue(
                "a Source says itself what its columns are", f"also {', '.join(others)}", "say it in the Source only"
            )
        return data

    def of_part(self, part: Part) -> "Source":
        """Return the rows of a part of this source: those whose column has the part's value, as text.

        A NULL is in no part. The column has text, integers, dates or booleans, so that one value has one text.

        >>> Source("events.parquet", key="query").of_part(Part("day", "2026-11-14"))
        Source('events.parquet', key='query', part='day = 2026-11-14')
        """
        if self.kind in ("mapping", "keys"):
            raise InvalidValue(
                "a part is of a column of the source",
                "a mapping or an iterable of keys, which has no columns",
                "hand in a table, or vouch for the part: part_vouched=... (--part-vouched)",
            )
        if part.name in (self.frequency, self.user):
            raise InvalidValue(
                "the column of a part is neither the frequency nor the user", repr(part.name), "name another column"
            )
        source = copy.copy(self)
        object.__setattr__(source, "part", part)
        return source

    def with_amounts(self, amounts: Sequence[Amount]) -> "Source":
        """Return this source with amounts, which are read together with its users and keys."""
        used = [name.lower() for name in (*self.key_columns, self.user) if name is not None]
        for amount in amounts:
            if amount.column is not None and amount.column.lower() in used:
                raise InvalidValue(
                    "a column that is summed is neither key nor user", repr(amount.column), "name another column"
                )
        source = copy.copy(self)
        object.__setattr__(source, "amounts", tuple(amounts))
        return source

    @property
    def location(self) -> str:
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
        """The columns to read: the key, the frequency or the user if there is one, that of the part, and amounts."""
        part = None if self.part is None else self.part.name
        more = [self.frequency, self.user, part, *(amount.column for amount in self.amounts)]
        return tuple(dict.fromkeys((*self.key_columns, *(name for name in more if name is not None))))

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by which the key columns are read, as they are written, without those that have defaults."""
        named = ("frequency", "table", "query", "format", "user", "key_type")
        stated = {name: getattr(self, name) for name in named if getattr(self, name) is not None}
        stated |= {} if self.key == self.key_columns else {"key_as": _one_or_list(self.key)}
        stated |= self.dialect.stated
        return stated | ({"drop_null": True} if self.drop_null else {})

    @property
    def aggregated(self) -> bool:
        """Whether rows carry a frequency, rather than being one element each."""
        return self.frequency is not None or self.kind == "mapping"

    def __repr__(self) -> str:
        arguments = {"key": _one_or_list(self.key_columns), **self.arguments}
        parts = [f"{name}={'...' if name == 'query' else repr(value)}" for name, value in arguments.items()]
        parts += [f"part={str(self.part)!r}"] if self.part is not None else []
        return f"Source({', '.join([self.location, *parts])})"

    def listing(self) -> tuple[str, list[str]]:
        """List the files of paths, folders and globs: their format, and each one's absolute path, once."""
        single = isinstance(self.data, str | os.PathLike)
        files: list[str] = []
        for i, entry in enumerate([self.data] if single else self.data):
            # an entry of a list may be a key by mistake, so it is not shown
            shown = repr(os.fspath(entry)) if single else f"entry {i + 1} of the list"
            files += expanded(entry, shown, lambda file: bool(self.format or format_of(file)))
        require_distinct(map(identity, files))
        formats = {self.format or format_of(path) for path in files}
        if None in formats:
            endings = ", ".join(ending for format in FORMATS.values() for ending in format.endings)
            json = any(path.lower().endswith(".json") and format_of(path) is None for path in files)
            raise InvalidValue(
                f"a file's extension tells its format: {endings}",
                f"another one at {self.location}",
                "write an array of JSON as one object on each line, such as with jq -c '.[]', and state format='jsonl'"
                if json
                else "name the format, such as format='csv'",
            )
        if len(formats) > 1:
            raise InvalidValue(
                "files of one source have one format",
                " and ".join(sorted(str(f) for f in formats)),
                "release them one by one",
            )
        format = str(formats.pop())
        if self.dialect.stated and format not in ("csv", "tsv"):
            raise no_text_files(min(self.dialect.stated), f"files of {format}")
        return format, files

    def files(self) -> list[str]:
        """List the files on this machine that are read: of paths, of a SQLite database, of a DataFrame of Spark."""
        if self.kind == "files":
            return self.listing()[1]
        if self.kind == "database" and self.data.startswith("sqlite"):
            path = os.path.abspath(self.data.partition(":///")[2])
            return [name for name in (path, f"{path}-wal", f"{path}-shm", f"{path}-journal") if os.path.exists(name)]
        if self.kind == "frame":
            return [path for path in map(local_path, self.data.inputFiles()) if path is not None]
        return []

    def inputs(self) -> list[str]:
        """List what is read on this machine: the files, and the folders that were named."""
        return [*self.files(), *(path for path in self.paths if os.path.isdir(path))]

    def require_raw(self, names: Sequence[str]) -> None:
        """Refuse a table whose only other column is called as libraries call counts, where each row is one element."""
        others = [name for name in names if name not in self.columns]
        if self.aggregated or self.user is not None or len(others) != 1 or others[0].lower() not in COUNT_NAMES:
            return
        raise InvalidValue(
            "each row is one element, unless a column of frequencies is named",
            f"one other column, {others[0]!r}, which seems to have them",
            f"name it: frequency={others[0]!r}; if each row is one element, leave this column out of the table",
        )

    def require(self, names: Sequence[str], shown: bool = True) -> None:
        """Refuse unless each column to read is there once; with `shown`, a refusal may name the others."""
        for name in self.columns:
            if name in names and list(names).count(name) == 1:
                continue
            if name in names:
                present = f"{list(names).count(name)} of that name"
            elif shown:
                present = f"the columns {', '.join(map(repr, names[:20]))}{', ...' if len(names) > 20 else ''}"
            else:  # a text file without a header has data in its place
                present = f"{len(names)} other column{'' if len(names) == 1 else 's'}"
            remedy = "check the name"
            if not shown:
                remedy += ", and that the file says it (CSV: in a header line, with the stated delimiter)"
            if self.part is not None and name == self.part.name and name not in self.key_columns:
                remedy += "; a part that is no column is vouched for: part_vouched=... (--part-vouched)"
            raise InvalidValue(f"the column {name!r} must be in {self.location}", present, remedy)


def _one_or_list(names: Sequence[str]) -> str | list[str]:
    return names[0] if len(names) == 1 else list(names)


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
