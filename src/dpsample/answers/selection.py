"""From a release to tallies: the keys of a question, their weights and their groups.

This sees a release, and the attributes of its keys; nothing private. It owns the DuckDB that answers questions, in
memory, without files, network or extensions. `expressions` decides which SQL may run there.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from dpsample.answers.expressions import (
    Bytes,
    Given,
    check_memory,
    listed,
    one_line,
    pinned_columns,
    quoted,
)
from dpsample.answers.question import Attributes, By, Question, Weight, Where
from dpsample.errors import InvalidValue
from dpsample.estimators.tally import Tally
from dpsample.files import PathLike, is_text, read_foreign, without_view
from dpsample.lazy import pc
from dpsample.release.kinds.tokens import TOKEN_COLUMNS
from dpsample.release.rows import token_cells
from dpsample.release.terms import Terms
from dpsample.scheme.sampling import Floats, Ints
from dpsample.sql import quoted_name

if TYPE_CHECKING:
    import duckdb

_OURS = "token:"  # begins the names of internal columns, so that no expression can name them
_ROW = f"{_OURS}row"  # the place of a key in the release
_CELL = f"{_OURS}cell"  # its token, in units of 1/grid
_PLACE = f"{_OURS}place"  # the place of its group
# how the names of DuckDB's types of numbers begin, after a U for those without a sign
_NUMERIC_NAMES = "TINYINT SMALLINT INT BIGINT HUGEINT FLOAT DOUBLE DECIMAL BOOLEAN BIGNUM"
_NUMERIC = tuple(_NUMERIC_NAMES.split())
_AS_TEXT = 64  # bytes of a number or a date as text, at most; of each byte of a list
_VECTOR = 2048  # rows that DuckDB computes at once


def connect(tables: Mapping[str, pa.Table]) -> "duckdb.DuckDBPyConnection":
    """Open a DuckDB that sees these tables and nothing else; one thread, so that equal questions add up equally."""
    import duckdb  # late: most of the library does without it

    connection = duckdb.connect()
    connection.execute(
        "SET enable_external_access = false; SET autoload_known_extensions = false; "
        "SET autoinstall_known_extensions = false; SET python_enable_replacements = false; SET threads = 1"
    )
    for name, table in tables.items():
        connection.register(name, table)
    connection.execute("SET lock_configuration = true")
    return connection


def syntax(statement: str) -> str:
    """Return the syntax tree of a statement as JSON, without running it; empty if DuckDB fails to read it."""
    import duckdb

    with connect({}) as connection:
        try:
            [(tree,)] = connection.execute("SELECT json_serialize_sql(?)", [statement]).fetchall()
        except duckdb.Error:
            return ""
    return str(tree)


@dataclass(frozen=True, eq=False)
class Rows:
    """Reported keys as a selection sees them: the columns of the keys, and their tokens if there are any.

    `taken` are the other columns of the release, whose names attributes cannot have.
    """

    keys: pa.Table
    cells: Ints | None = None  # tokens, in units of 1/grid
    taken: tuple[str, ...] = TOKEN_COLUMNS

    @staticmethod
    def of(table: pa.Table, terms: Terms) -> "Rows":
        """Return the rows of a release."""
        cells = None if terms.grid is None else token_cells(table["token"], terms.grid)
        return Rows(table.select(list(terms.keys)), cells, terms.numbers or TOKEN_COLUMNS)


class _Joined(NamedTuple):
    """A table that is joined to the keys of a release, on the key columns."""

    kind: str  # of join: "LEFT" or "SEMI"
    table: pa.Table


class Selection:
    """Keys of a release, each with a weight, in groups.

    where       an SQL expression on the key columns and attributes: it is true for the selected keys, and NULL is not
                true. Or a function of the Arrow table of these columns that returns a boolean for each row. Or a
                collection of keys (tuples, if there are several key columns). None selects all
    weight      the weight of each key: a column, an SQL expression, a function of the Arrow table that returns a
                number for each row, or a mapping from key to number. A key whose weight is NULL or missing is left out
    by          a column or SQL expression, or several, whose values make the groups
    attributes  a table of key attributes: an Arrow table, a data frame, or the path of a Parquet, CSV or Arrow file.
                It has the key columns, each key once, and further columns that the other arguments may use. They are
                NULL for keys of the release that are not in it

    >>> from dpsample import KeepAll, Privacy, Release
    >>> from dpsample.release.kinds import Tokens
    >>> from dpsample.release.terms import Terms
    >>> privacy = Privacy(1, 1e-6)
    >>> table = pa.table({"query": ["cat", "cow", "dog"], "token": [31.5, 12.0, 12.0]})
    >>> release = Release(table, Terms(privacy, ("query",), Tokens(KeepAll(), privacy, grid=8)))
    >>> groups, [c, d] = Selection(Rows.of(table, release.terms), by="left(query, 1)").tallies()
    >>> groups.to_pylist(), c.cells, d.cells
    ([{'left(query, 1)': 'c'}, {'left(query, 1)': 'd'}], array([ 96, 252]), array([96]))
    """

    def __init__(
        self,
        rows: Rows,
        where: Where = None,
        weight: Weight = None,
        by: By = None,
        attributes: Attributes = None,
    ) -> None:
        self._keys = rows.keys
        # internal columns: places, tokens, and the values of functions
        self._own = {_ROW: pa.array(np.arange(len(rows.keys)))}
        self._has_cells = rows.cells is not None
        if rows.cells is not None:
            self._own[_CELL] = pa.array(rows.cells)
        self._joined: dict[str, _Joined] = {}  # by the name that it has in queries
        if attributes is not None:
            self._joined["attributes"] = _Joined("LEFT", _attributes(attributes, self._keys.schema))
            self._refuse_repeated("attributes")
        names = [name for table in self._tables for name in table.column_names]
        self.columns = list(dict.fromkeys(names))
        _refuse_taken(self.columns, rows.taken)

        self._used: set[str] = set()
        self._weight = self._number(weight)
        # after the weight: a list of keys leaves rows out, and functions see all
        self._where = self._condition(where)
        self._by = {text: self._expression("by", text) for text in _texts(by)}
        self._where_text = where if isinstance(where, str) else None
        self.weighted = weight is not None
        # each row once: no query is needed
        self._is_everything = where is None and weight is None and by is None

    @property
    def _tables(self) -> list[pa.Table]:
        """The tables that have columns for expressions."""
        return [self._keys, *(joined.table for joined in self._joined.values())]

    @staticmethod
    def of(rows: Rows, question: Question) -> "Selection":
        """Select what a question asks for."""
        return Selection(rows, question.where, question.weight, question.by, question.attributes)

    @cached_property
    def names_keys(self) -> bool:
        """Whether each group has one key, named by the question: no other key can be in it, reported or not."""
        if "chosen" in self._joined and not self._by:
            return len(self.chosen_keys) == 1
        keys = {name.lower() for name in self._keys.column_names}
        named = {text.lower() for text in self._by if text in self.columns}
        if self._where_text and self._where_text not in self.columns:
            named |= pinned_columns(self._where_text, syntax)
        return keys <= named

    @property
    def chosen_keys(self) -> pa.Table:
        """The keys that the question lists, which need not be reported; for a `where` that is a list."""
        return self._joined["chosen"].table

    def tallies(self) -> tuple[pa.Table, list[Tally]]:
        """Return the groups, one row each, and their tallies; without `by` one group, which may be empty."""
        if self._is_everything and self._has_cells:
            return pa.table({}), [Tally.of(self._own[_CELL].to_numpy())]
        cell = quoted_name(_CELL) if self._has_cells else "0"
        weight = f"{self._weight}::DOUBLE"
        columns = {
            "cell": f"{cell}::BIGINT",
            "keys": "count(*)",
            "weights": f"sum({weight})",
            "squares": f"sum({weight} * {weight})",
        }
        groups, columns_of_groups = self._by_group(columns, "GROUP BY ALL HAVING count(*) > 0")
        tallies = [Tally(*columns_of_group) for columns_of_group in columns_of_groups]
        for tally in tallies:
            _check_weights(tally.weights, tally.squares)
        return groups, tallies

    def weighted_rows(self) -> tuple[pa.Table, list[tuple[Ints, Floats]]]:
        """Return the groups, one row each; and for each the places of its rows in the release, and their weights."""
        columns = {"row": quoted_name(_ROW), "weights": f"{self._weight}::DOUBLE"}
        groups, columns_of_groups = self._by_group(columns)
        rows_of_groups = []
        for rows, weights in columns_of_groups:
            with np.errstate(over="ignore"):
                squares = weights * weights
            _check_weights(weights, squares)
            rows_of_groups.append((rows, weights))
        return groups, rows_of_groups

    def _by_group(
        self, columns: dict[str, str], aggregated: str = ""
    ) -> tuple[pa.Table, list[list[Any]]]:
        """Return the groups; and for each of them the values of columns, ordered by the first column.

        `columns` are SQL expressions by name, and `aggregated` is what follows the condition of the query. Keys without
        a weight are left out.
        """
        by = {f"{_OURS}by{n}": sql for n, sql in enumerate(self._by.values())}
        values = {f"{_OURS}{name}": sql for name, sql in columns.items()}
        computed = by | values
        selected = ", ".join(f"{sql} AS {quoted_name(name)}" for name, sql in computed.items())
        group = ", ".join(map(quoted_name, by))
        place_of_group = f"dense_rank() OVER (ORDER BY {group})" if by else "1"
        place = quoted_name(_PLACE)
        first = quoted_name(next(iter(values)))
        table = self._run(
            f"SELECT *, {place_of_group} AS {place} FROM (SELECT {selected} FROM rows "
            f"WHERE {self._weight}::DOUBLE IS NOT NULL {aggregated}) ORDER BY {place}, {first}"
        )
        places = table[_PLACE].to_numpy()
        starts = np.flatnonzero(np.diff(places, prepend=0))
        groups = table.select(list(by)).take(starts)
        groups = groups.rename_columns(list(self._by))
        if not len(starts) and self._by:
            return groups, []
        parts_by_column = [np.split(table[name].to_numpy(), starts[1:]) for name in values]
        return groups, [list(parts) for parts in zip(*parts_by_column, strict=True)]

    def rows(self) -> tuple[Ints, Ints]:
        """Return the places of the selected rows in the release, ascending, and their tokens in units of 1/grid."""
        if self._is_everything:
            return self._own[_ROW].to_numpy(), self._own[_CELL].to_numpy()
        names = f"{quoted_name(_ROW)}, {quoted_name(_CELL)}"
        table = self._run(f"SELECT {names} FROM rows ORDER BY 1")
        rows, cells = table.columns
        return rows.to_numpy(), cells.to_numpy()

    def _condition(self, where: Where) -> str:
        """Return the SQL of what is true for the selected keys, in whichever way it is given."""
        if where is None:
            return "true"
        if isinstance(where, str):
            return self._expression("where", where)
        if callable(where):
            return self._computed("where", where, pa.bool_())
        if isinstance(where, Mapping | pa.Table) or not isinstance(where, Iterable):
            raise InvalidValue(
                f"where must be an SQL expression, a function or a collection of keys, not a {type(where).__name__}",
                "to select by a table, pass it as attributes and state a condition on its columns",
            )
        self._joined["chosen"] = _Joined("SEMI", self._keys_table("where", where))
        return "true"

    def _number(self, weight: Weight) -> str:
        """Return the SQL of the weight of a key, in whichever way it is given."""
        if weight is None:
            return "1"
        if isinstance(weight, str):
            return self._expression("weight", weight)
        if callable(weight):
            return self._computed("weight", weight, pa.float64())
        if not isinstance(weight, Mapping):
            raise InvalidValue(
                f"weight must be a column, an SQL expression, a function or a mapping from key to number, "
                f"not a {type(weight).__name__}",
                "leave it out to count each key once",
            )
        values = _array("weight", list(weight.values()), pa.float64())
        weight_column = f"{_OURS}weight"
        keys = self._keys_table("weight", weight.keys())
        self._joined["weights"] = _Joined("LEFT", keys.append_column(weight_column, values))
        return quoted_name(weight_column)

    def _expression(self, argument: str, text: str) -> str:
        """Return the SQL of an expression after checking it, its columns and its type.

        The name of a column is an expression, whatever its characters.
        """
        if text in self.columns:
            sql = quoted_name(text)
            self._used.add(text)
        else:
            sql = self._checked_sql(argument, text)
        failed = f"{argument} is not an SQL expression that DuckDB understands"
        query = f"SELECT {sql} FROM rows"
        type = str(self._run(query, failed, where="true", run=lambda result: result.types[0]))
        given = f"{quoted(text)} is of type {type}"
        if argument == "where" and type != "BOOLEAN":
            raise InvalidValue(
                f"where must be true or false for each key, but {given}", "compare it"
            )
        if argument == "weight" and not type.removeprefix("U").startswith(_NUMERIC):
            raise InvalidValue(f"weight must be a number, but {given}", "cast it, or leave it out")
        return sql

    def _checked_sql(self, argument: str, text: str) -> str:
        """Return the SQL of an expression that is no column, after checking its parts and its memory."""
        checked = Given(argument, text, tuple(self.columns)).checked(syntax)
        self._used |= checked.columns
        # groups are held for all rows, other values for those that are computed at once
        rows = len(self._keys)
        if argument != "by":
            rows = min(rows, _VECTOR)
        check_memory(argument, text, checked, lambda name: self._bytes(name, rows), rows)
        return checked.sql

    def _bytes(self, name: str, rows: int) -> Bytes:
        """Return bounds of the bytes of a column as text, where this number of rows is held at once."""
        column = next(table[name] for table in self._tables if name in table.column_names)
        kind = column.type
        if is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            lengths = pc.binary_length(column)
            longest = pc.max(lengths).as_py() or 0
            of_all_rows = pc.sum(lengths).as_py() or 0
            return Bytes(longest, min(of_all_rows, longest * rows))
        if pa.types.is_nested(kind):
            of_all = _AS_TEXT * column.nbytes
            return Bytes(of_all, of_all)
        return Bytes(_AS_TEXT, _AS_TEXT * rows)

    def _computed(
        self, argument: str, function: Callable[[pa.Table], Any], type: pa.DataType
    ) -> str:
        """Return the SQL of a column with the values of a function of the table of key columns and attributes."""
        table = self._keys
        if self._joined:
            self._used |= {*self.columns}
            names = ", ".join(map(quoted_name, self.columns))
            query = f"SELECT {names} FROM rows ORDER BY {quoted_name(_ROW)}"
            table = self._run(query, where="true")
        values = function(table)
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        column = _array(argument, values, type)
        if len(column) != len(table):
            raise InvalidValue(
                f"the function for {argument} must return one value for each of {len(table):,} rows, "
                f"not {len(column):,}",
                "compute it from the table's columns, for example with pyarrow.compute",
            )
        name = f"{_OURS}{argument}"
        self._own[name] = column
        return quoted_name(name)

    def _keys_table(self, argument: str, keys: Iterable[Any]) -> pa.Table:
        """Return keys that a question lists as a table with the key columns of the release."""
        names = self._keys.column_names
        if isinstance(keys, pa.Array | pa.ChunkedArray):
            values = keys.to_pylist()
        else:
            values = list(keys)
        columns = [values]
        if len(names) > 1:
            for value in values:
                if not isinstance(value, tuple | list) or len(value) != len(names):
                    raise InvalidValue(
                        f"a key of {argument} must be a tuple of {len(names)}, one for each of {listed(names)}",
                        "write [('Oslo', 1), ...], or an SQL expression",
                    )
            columns = [[value[n] for value in values] for n in range(len(names))]
        arrays = []
        for column, field in zip(columns, self._keys.schema, strict=True):
            arrays.append(_array(argument, column, field.type))
        return pa.table(arrays, names)

    def _refuse_repeated(self, name: str) -> None:
        """Refuse a joined table that has a key twice."""
        keys = ", ".join(map(quoted_name, self._keys.column_names))
        with connect({name: self._joined[name].table}) as connection:
            query = f"SELECT 1 FROM {name} GROUP BY {keys} HAVING count(*) > 1 LIMIT 1"
            if connection.execute(query).fetchall():
                raise InvalidValue(
                    f"{name} must have each key once, and one is there twice",
                    "aggregate them by key",
                )

    def _run(
        self,
        query: str,
        failed: str = "where, weight or by cannot be computed",
        where: str | None = None,
        run: Callable[[Any], Any] = lambda result: result.to_arrow_table(),
    ) -> Any:
        """Return what `run` makes of the result of a query.

        The query is over `rows`: the selected keys, or those that fulfil `where`. They have the columns that are used,
        and the internal ones. `failed` begins the message of a refusal.
        """
        import duckdb

        own = pa.table(self._own)
        for name in self._keys.column_names:
            if self._joined or name in self._used:  # only these are read
                own = own.append_column(name, self._keys[name])
        tables = {"own": own}
        keys = ", ".join(map(quoted_name, self._keys.column_names))
        rows = "SELECT * FROM own"
        for name, joined in self._joined.items():
            tables[name] = joined.table
            rows += f" {joined.kind} JOIN {name} USING ({keys})"
        condition = self._where if where is None else where
        with connect(tables) as connection:
            try:
                return run(connection.sql(f"WITH rows AS ({rows} WHERE {condition}) {query}"))
            except duckdb.Error as error:
                problem = f"{failed}: {one_line(str(error))}"
                raise InvalidValue(problem, "check the expression and the columns' types") from None


def _texts(by: By) -> list[str]:
    """Return the expressions that make groups, which must differ."""
    texts: list[Any] = [by]
    if by is None:
        texts = []
    elif isinstance(by, list | tuple):
        texts = list(by)
    are_texts = all(isinstance(text, str) for text in texts)
    if not are_texts or len({*texts}) < len(texts):
        raise InvalidValue(
            "by must be a column or an SQL expression, or several different ones", "name columns"
        )
    return texts


def _attributes(attributes: Attributes, keys: pa.Schema) -> pa.Table:
    """Return attributes as a table whose key columns have the types of the release."""
    if isinstance(attributes, str | os.PathLike):
        table = _read(attributes, keys)
    elif isinstance(attributes, pa.Table):
        table = attributes
    elif isinstance(attributes, pa.RecordBatch):
        table = pa.Table.from_batches([attributes])
    elif hasattr(attributes, "__arrow_c_stream__"):
        table = pa.table(attributes)
    else:
        raise InvalidValue(
            "attributes must be an Arrow table, a data frame, or the path of a Parquet, CSV or Arrow file, "
            f"not a {type(attributes).__name__}",
            "convert them",
        )
    missing = [name for name in keys.names if table.column_names.count(name) != 1]
    if missing:
        raise InvalidValue(
            f"attributes must have the key column {missing[0]!r} once, among {listed(table.column_names)}",
            "rename the column",
        )
    types = {field.name: field.type for field in keys}  # keys are compared in their own type
    fields = []
    for field in table.schema:
        own_type = types.get(field.name, without_view(field.type))
        fields.append(field.with_type(own_type))
    try:
        return table.cast(pa.schema(fields))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        found = ", ".join(str(table.schema.field(name).type) for name in keys.names)
        expected = ", ".join(str(field.type) for field in keys)
        problem = f"the keys of attributes must be of type {expected}, not {found}"
        raise InvalidValue(problem, "cast the key columns") from None


def _read(path: PathLike, keys: pa.Schema) -> pa.Table:
    """Return the table of a file of attributes; its key columns have the types of the release where they are text."""
    name = os.fspath(path)
    types = {field.name: field.type for field in keys}
    try:
        table = read_foreign(name, types)
    except (OSError, pa.ArrowException) as error:
        found = "nothing there" if isinstance(error, FileNotFoundError) else one_line(str(error))
        raise InvalidValue(
            f"the attributes {name!r} cannot be read: {found}", "check the path and the file"
        ) from None
    if table is None:
        raise InvalidValue(
            f"attributes must be a .parquet, .csv or .arrow file, not {name!r}", "convert it"
        )
    return table


def _check_weights(weights: Floats, squares: Floats) -> None:
    if not (np.isfinite(weights).all() and np.isfinite(squares).all()):
        raise InvalidValue(
            "weights must be finite numbers, and some are not, or are too large", "check the weight"
        )


def _refuse_taken(columns: Iterable[str], numbers: tuple[str, ...]) -> None:
    """Refuse names of columns that are internal, or those of two columns but for upper and lower case."""
    taken = {name.lower() for name in numbers}
    for name in columns:
        if name.lower() in taken or name.lower().startswith(_OURS):
            raise InvalidValue(
                f"the column {name!r} of the attributes has the name of another column, of the release or of theirs, "
                "but for upper and lower case",
                "rename it",
            )
        taken.add(name.lower())


def _array(argument: str, values: Any, type: pa.DataType) -> pa.Array:
    """Return values as an array of a type."""
    try:
        if isinstance(values, pa.Array):
            return values.cast(type)
        return pa.array(values, type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise InvalidValue(
            f"the values of {argument} must be of type {type}, and some are not", "convert them"
        ) from None
