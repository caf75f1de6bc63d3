"""Source: where elements live, and which column or columns are their key.

A source is a frozen value. It lists its files; the engine does the rest. It shows its location and its columns, never
their values. The types of its key columns are public, since a release has them: they are declared, by the source's own
schema or by the caller, and never follow from values.
"""

import copy
import os
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack
from urllib.parse import urlsplit

from dpsample.accounting.amounts import Amount
from dpsample.accounting.parts import Part
from dpsample.accounting.reading import Reading
from dpsample.errors import InvalidValue
from dpsample.private.sources.computed import Computed, computed_filter, computed_keys
from dpsample.private.sources.dialect import TEXT_OPTIONS, checked_nulls
from dpsample.private.sources.inputs import expanded, local_path
from dpsample.private.sources.iterables import COUNT_NAMES
from dpsample.private.sources.kinds import Kind, source_kind
from dpsample.private.sources.listing import STANDARD_INPUT, Listing, is_data_file, listed
from dpsample.private.sources.names import key_names, public_names
from dpsample.private.sources.rules import check_together
from dpsample.private.sources.stores import is_uri, public_uri


class SourceOptions(TypedDict, total=False):
    """How a source is read, beside its frequency; `Source` explains each option."""

    table: str | None
    query: str | None
    format: str | None
    user: str | None
    key_type: str | Mapping[str, str] | None
    key_as: str | Sequence[str] | None
    delimiter: str | None
    encoding: str | None
    header: bool
    null: str | Sequence[str]
    drop_null: bool
    filter: str | None


# The arguments of a Source after its key, in the order in which they are written out.
_ORDER = ("frequency", *SourceOptions.__annotations__)
# The defaults of options; that of all others is None.
_USUAL: dict[str, Any] = {"header": True, "null": [], "drop_null": False}
# Names of columns that a refusal lists at most: more would hide what it says.
_NAMES_SHOWN = 20
# What SQLite writes beside a database.
_SQLITE_FILES = ("", "-wal", "-shm", "-journal")


@dataclass(frozen=True, repr=False, eq=False)
class Source:
    """Where elements live, and which column or columns are their key.

    data        a path, a glob, a folder, a URI (``s3://``, ``gs://``, ``abfs://``, ``https://``), or a list of them
                (Parquet, CSV, JSON lines, Arrow IPC); ``"-"`` for standard input; a database ``postgresql://...``,
                ``sqlite:///...``, ``NAME.duckdb`` or a ``sqlite3.Connection``, with `table` or `query`; a pandas or
                polars DataFrame; an Arrow table, dataset, reader or anything else with the Arrow C stream interface; a
                DuckDB relation; a list of dicts; a mapping
                from key to frequency; or an iterable with a key for each element. What may be something else
                is refused, such as a pandas Series with an index of its own
    key         the key column, or several; by default ``key`` for a mapping or an iterable, whose keys need one name
                for each place of a tuple. An expression of the columns of one row with a name is a key as well, such as
                ``"lower(query) AS query"``
    frequency   the column with the frequency of already aggregated rows (rows of one key are summed); without it
                each row is one element
    drop_null   leave out rows whose key has a NULL, or whose user is NULL, instead of refusing them
    table       a database's table, or ``schema.table``
    query       a database's SELECT instead of a table
    format      of files: parquet, csv, tsv, jsonl or arrow; by default the extension says which
    user        the column that names the user of a row, for privacy of users instead of elements
    key_type    the type of keys that have none: Python objects, pandas columns of objects, names of folders; such as
                ``"int64"``, ``"date32"``, ``"decimal128(9, 2)"``, ``"binary"``, or one for each column in a mapping
    key_as      the name of the key column in samples and releases, or several; by default its own
    delimiter   of CSV: the character between fields, such as ``";"``; by default a comma, and of TSV a tab
    encoding    of CSV and TSV: such as ``"latin-1"``, ``"cp1252"`` or ``"utf-16"``; by default UTF-8
    header      of CSV and TSV: False if the first line has data; columns are then called column0, column1, ...
    null        of CSV and TSV: a text that stands for NULL, such as ``"NA"``, or several, beside the empty field
    filter      a condition on the columns of one row, such as ``"country = 'DE'"``: other rows are not read, and count
                for nothing. A row where it is NULL is such another row

    The types of key columns are published with a release, so they never follow from the rows. Parquet, Arrow, typed
    DataFrames, DuckDB relations and PostgreSQL have a schema. SQLite's columns are of the type that they are declared
    with, or else text. Keys without a type are text unless `key_type` says more: strings as they are, integers and
    booleans as JSON writes them, decimals without trailing zeros, dates and times by ISO 8601.

    Text files carry no types either. Keys of CSV, TSV and JSON lines are text, exactly as it stands in the file (for
    JSON: strings as they are, numbers and booleans as JSON writes them), and frequencies are plain integers such as
    ``12``. In CSV and TSV, a field is NULL if it is empty without quotes, and the empty text if it is ``""``. Columns
    that hive folders are named by, as in ``day=2026-11-01/x.parquet``, are text unless `key_type` says more.

    Expressions are SQL of DuckDB, with the functions that `dpsample.answers.expressions` lists: no aggregate, subquery
    or file, and nothing that draws or looks at a clock. The type of such a key follows from the expression and the
    types of its columns, which of text files are all text. Where an expression fails for a row, as
    ``CAST(age AS INTEGER)`` of a text, it is NULL: such a key is refused, or left out with `drop_null`.

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
    >>> source = Source("events.parquet", key="lower(query) AS query", filter="country = 'DE'")
    >>> source.key, source.columns
    (('query',), ('query', 'country'))
    >>> Source("events.parquet", key=["query", "query"])
    Traceback (most recent call last):
      ...
    dpsample.errors.InvalidValue: the key has the column 'query' twice; name each column once
    """

    data: Any
    kind: Kind
    key: tuple[str, ...]  # names in samples and releases
    key_columns: tuple[str, ...]  # names in the source
    frequency: str | None
    options: SourceOptions  # those that are not as usual
    part: Part | None  # the rows that are read; by default all
    amounts: tuple[Amount, ...]  # read together with users and keys
    taken: list[bool]  # not empty once a stream was read
    computed: dict[str, Computed]  # keys that are expressions, by their entry in `key_columns`
    condition: Computed | None  # the filter

    def __init__(
        self,
        data: Any,
        key: str | Sequence[str] | None = None,
        frequency: str | None = None,
        **options: Unpack[SourceOptions],
    ) -> None:
        unknown = options.keys() - SourceOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"a Source has no argument {min(unknown)!r}")
        kind = source_kind(data, named=key is not None)
        key_columns = key_names(key, kind)
        computed = computed_keys(key_columns)
        own_names = key_names(_names_of(key_columns, computed), kind)
        key_as = options.pop("key_as", None)
        stated = _stated(options)
        self._set("data", data)
        self._set("kind", kind)
        self._set("key", public_names(own_names, key_as, kind))
        self._set("key_columns", key_columns)
        self._set("frequency", frequency)
        self._set("options", stated)
        self._set("part", None)
        self._set("amounts", ())
        self._set("taken", [])
        self._set("computed", computed)
        condition = computed_filter(stated["filter"]) if "filter" in stated else None
        self._set("condition", condition)
        check_together(self)

    def _set(self, field: str, value: Any) -> None:
        """Set a field of a source that is being made; later it is frozen."""
        object.__setattr__(self, field, value)

    @classmethod
    def of(cls, data: Any, key: str | Sequence[str] | None = None, **options: Any) -> "Source":
        """Return `data` if it is a source already, else make one of it.

        >>> Source.of(Source("events.parquet", key="query"))
        Source('events.parquet', key='query')
        """
        if not isinstance(data, Source):
            return cls(data, key, **options)
        stated = {"key": key, **options}
        others = [
            name for name, value in stated.items() if value is not None and value is not False
        ]
        if others:
            problem = f"a Source cannot be combined with {', '.join(others)}"
            raise InvalidValue(problem, "state it in the Source alone")
        return data

    def of_part(self, part: Part) -> "Source":
        """Return the rows of a part of this source: those whose column has the part's value, as text.

        A NULL is in no part. The column has text, integers, dates or booleans, so that one value has one text.

        >>> Source("events.parquet", key="query").of_part(Part("day", "2026-11-14"))
        Source('events.parquet', key='query', part='day = 2026-11-14')
        """
        if self.kind in ("mapping", "keys"):
            raise InvalidValue(
                "a mapping or an iterable of keys has no column that a part could be of",
                "hand in a table, or vouch for the part: `part_vouched=...`",
            )
        if part.name in (self.frequency, self.user):
            problem = f"the part is of {part.name!r}, the frequency or the user"
            raise InvalidValue(problem, "name another column")
        return self._with("part", part)

    def with_amounts(self, amounts: Sequence[Amount]) -> "Source":
        """Return this source with amounts, which are read together with its users and keys."""
        used = [name.lower() for name in self.key_columns]
        if self.user is not None:
            used.append(self.user.lower())
        for amount in amounts:
            if amount.column is not None and amount.column.lower() in used:
                problem = f"the column {amount.column!r} cannot be summed, since it is the key or the user"
                raise InvalidValue(problem, "name another column")
        return self._with("amounts", tuple(amounts))

    def _with(self, field: str, value: Any) -> "Source":
        """Return a copy of this source with another value of a field."""
        source = copy.copy(self)
        source._set(field, value)
        return source

    @property
    def user(self) -> str | None:
        """The column that names the user of a row."""
        return self.options.get("user")

    @property
    def drop_null(self) -> bool:
        """Whether rows with a NULL are left out, instead of being refused."""
        return self.options.get("drop_null", False)

    @property
    def text_options(self) -> list[str]:
        """The options of CSV and TSV that were stated."""
        return [name for name in TEXT_OPTIONS if name in self.options]

    @property
    def location(self) -> str:
        """Where the elements live, in words that give nothing away: no data, no user, no password."""
        if self.kind == "database":
            return repr(_public(self.data))
        if self.kind not in ("files", "duckdb"):
            return f"<{type(self.data).__qualname__}>"
        if self._is_list:
            return f"<{len(self.data)} paths>"
        if self.is_standard_input:
            return "<standard input>"
        [path] = self.paths
        return repr(path)

    @property
    def paths(self) -> list[str]:
        """The files, folders and globs as they were named, or the database without user and password."""
        if self.kind == "database":
            return [_public(self.data)]
        if self.kind == "files":
            return [public_uri(path) if is_uri(path) else path for path in self.entries]
        return [os.fspath(self.data)] if self.kind == "duckdb" else []

    @property
    def is_standard_input(self) -> bool:
        """Whether rows come from standard input."""
        return self.kind == "files" and self.data == STANDARD_INPUT

    @property
    def entries(self) -> list[str]:
        """The paths, folders, globs and URIs of files as they were named."""
        named = self.data if self._is_list else [self.data]
        return [os.fspath(entry) for entry in named]

    @property
    def _is_list(self) -> bool:
        """Whether files were named in a list."""
        return not isinstance(self.data, str | os.PathLike)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read: those of `fields`, and instead of expressions the columns that these name."""
        read: list[str] = []
        for name in self.fields:
            read += self.computed[name].columns if name in self.computed else [name]
        if self.condition is not None:
            read += self.condition.columns
        return tuple(dict.fromkeys(read))

    @property
    def computes(self) -> bool:
        """Whether there are expressions: keys that are no columns, or a filter."""
        return bool(self.computed) or self.condition is not None

    @property
    def reads_all_rows(self) -> bool:
        """Whether no row is left out by a part or a filter."""
        return self.part is None and self.condition is None

    @property
    def reading(self) -> Reading | None:
        """The expressions of keys and the filter, as a release states them; None if there are none."""
        if not self.computes:
            return None
        keys = {}
        for name, column in zip(self.key, self.key_columns, strict=True):
            if column in self.computed:
                keys[name] = self.computed[column].text
        return Reading(keys, None if self.condition is None else self.condition.text)

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns of a row once its keys are computed: key, frequency or user, part, and amounts."""
        part = None if self.part is None else self.part.name
        summed = [amount.column for amount in self.amounts]
        names = [*self.key_columns, self.frequency, self.user, part, *summed]
        return tuple(dict.fromkeys(name for name in names if name is not None))

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by which the key columns are read, as they are written, without those that have defaults."""
        own_names = _names_of(self.key_columns, self.computed)
        renamed = None if self.key == own_names else _one_or_list(self.key)
        stated = {"frequency": self.frequency, **self.options, "key_as": renamed}
        return {name: stated[name] for name in _ORDER if stated.get(name) is not None}

    @property
    def aggregated(self) -> bool:
        """Whether rows carry a frequency, rather than being one element each."""
        return self.frequency is not None or self.kind == "mapping"

    def __repr__(self) -> str:
        arguments = {"key": _one_or_list(self.key_columns), **self.arguments}
        if self.part is not None:
            arguments["part"] = str(self.part)
        shown = [self.location]
        for name, value in arguments.items():
            # the text of a query may quote values
            shown.append("query=..." if name == "query" else f"{name}={value!r}")
        return f"Source({', '.join(shown)})"

    def listing(self) -> Listing:
        """List the files of paths, folders, globs and URIs: their format, and each of them once."""
        return listed(self)

    def shown_entry(self, entry: str) -> str:
        """Return how a refusal shows one of the entries: one of a list may be a key by mistake, and is not shown."""
        if self._is_list:
            return f"entry {self.entries.index(entry) + 1} of the list"
        return repr(public_uri(entry) if is_uri(entry) else entry)

    def files(self) -> list[str]:
        """List the files on this machine that are read: of paths, of a SQLite database, of a DataFrame of Spark."""
        if self.kind == "files":
            return [os.path.abspath(path) for path in self._local_paths()]
        if self.kind == "connection":
            return database_files(self.data)
        if self.kind == "duckdb":
            beside = [os.path.abspath(path) for path in (self.paths[0], f"{self.paths[0]}.wal")]
            return [path for path in beside if os.path.exists(path)]
        if self.kind == "database" and self.data.startswith("sqlite"):
            database = os.path.abspath(self.data.partition(":///")[2])
            beside = [database + ending for ending in _SQLITE_FILES]
            return [path for path in beside if os.path.exists(path)]
        if self.kind == "frame":
            paths = [local_path(uri) for uri in self.data.inputFiles()]
            return [path for path in paths if path is not None]
        return []

    def inputs(self) -> list[str]:
        """List what is read on this machine: the files, and the folders that were named."""
        folders = [path for path in self.paths if os.path.isdir(path)]
        return [*self.files(), *folders]

    def _local_paths(self) -> list[str]:
        """List the files on this machine that paths, folders and globs name."""
        paths = list[str]()
        for entry in self.entries:
            if not is_uri(entry) and entry != STANDARD_INPUT:
                paths += expanded(entry, self.shown_entry(entry), is_data_file(self))
        return paths

    def require(self, names: Sequence[str], shown: bool = True) -> None:
        """Refuse unless each column to read is there once; with `shown`, a refusal may name the others.

        Where the others may be named, they are also refused if they seem to have frequencies.
        """
        for name in self.columns:
            if list(names).count(name) != 1:
                raise self._missing(name, names, shown)
        if shown:
            self.require_raw(names)

    def require_raw(self, names: Sequence[str]) -> None:
        """Refuse a table whose only other column is called as libraries call counts, where each row is one element."""
        if self.aggregated or self.user is not None:
            return
        others = [name for name in names if name not in self.columns]
        if len(others) != 1 or others[0].lower() not in COUNT_NAMES:
            return
        raise InvalidValue(
            f"the only other column, {others[0]!r}, seems to have frequencies",
            f"name it: `frequency={others[0]!r}`; if each row is one element, leave this column out of the table",
        )

    def _missing(self, name: str, names: Sequence[str], shown: bool) -> InvalidValue:
        """Return the refusal of a column that is not among these names once."""
        problem = f"the column {name!r} must be in {self.location} once"
        times = list(names).count(name)
        if times:
            found = f"it is there {times} times"
        elif shown:
            listed = ", ".join(map(repr, names[:_NAMES_SHOWN]))
            more = ", ..." if len(names) > _NAMES_SHOWN else ""
            found = f"its columns are {listed}{more}"
        else:  # a text file without a header has data in its place
            plural = "" if len(names) == 1 else "s"
            found = f"it has {len(names)} other column{plural}"
        remedy = "check the name"
        if name in self.key_columns and not name.isidentifier():
            remedy += "; an expression needs a name: `key='lower(query) AS query'`"
        if not shown:
            remedy += (
                ", and that the file has it (CSV: in a header line, with the stated delimiter)"
            )
        if self.part is not None and name == self.part.name and name not in self.key_columns:
            remedy += "; a part that is no column is vouched for: `part_vouched=...`"
        return InvalidValue(f"{problem}, but {found}", remedy)


def database_files(connection: sqlite3.Connection) -> list[str]:
    """List the files of the databases that a connection of SQLite has open."""
    try:
        rows = connection.execute("PRAGMA database_list").fetchall()
    except sqlite3.Error:  # it was closed, or is of another thread, and is refused when it is read
        return []
    return [file for _, _, file in rows if file]


def _stated(options: SourceOptions) -> SourceOptions:
    """Return the options that are not as usual, with those of CSV checked."""
    checked: Any = {**options, "null": checked_nulls(options)}
    stated: Any = {}
    for name, value in checked.items():
        if value != _USUAL.get(name):
            stated[name] = value
    return stated  # type: ignore[no-any-return]


def _names_of(columns: Sequence[str], computed: Mapping[str, Computed]) -> tuple[str, ...]:
    """Return the names of key columns: an expression states its own."""
    return tuple(computed[name].name if name in computed else name for name in columns)


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
