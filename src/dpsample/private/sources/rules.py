"""Rules of a source: which of its options go together. They are checked when it is made, before anything is read."""

from typing import TYPE_CHECKING

from dpsample.errors import InvalidValue
from dpsample.private.sources.formats import FORMATS
from dpsample.private.sources.key_types import declared_types
from dpsample.private.sources.kinds import DATABASES

if TYPE_CHECKING:
    from dpsample.private.sources.source import Source


def check_together(source: "Source") -> None:
    """Refuse options that do not go together in a source."""
    if source.frequency is not None:
        _check_frequency(source)
    if source.user is not None:
        _check_user(source)
    _check_file_options(source)
    _check_database_options(source)
    if source.computes:
        _check_computed(source)
    if "key_type" in source.options:
        declared_types(source)


def _check_frequency(source: "Source") -> None:
    name = source.frequency
    if source.kind in ("mapping", "keys"):
        raise InvalidValue(
            "`frequency` cannot be used with a mapping or an iterable of keys",
            "leave it out: the values of a mapping are its frequencies",
        )
    if not isinstance(name, str) or not name:
        kind = type(name).__name__
        raise InvalidValue(
            f"`frequency` must be the name of a column, not of type {kind}", "write its name"
        )
    if name in source.key_columns:
        problem = f"the column {name!r} is both key and frequency"
        raise InvalidValue(problem, "name two different columns")


def _check_user(source: "Source") -> None:
    user = source.user
    if not isinstance(user, str) or not user:
        kind = type(user).__name__
        raise InvalidValue(
            f"`user` must be the name of a column, not of type {kind}", "write its name"
        )
    if source.aggregated:
        raise InvalidValue(
            "privacy of users needs rows with a user and a key each, and these are aggregated by key",
            "read the raw rows, without a frequency: a key's frequency is then its number of users",
        )
    if source.kind == "keys":
        raise InvalidValue(
            "privacy of users needs a user column, and an iterable of keys has none",
            "hand in a table",
        )
    if user.lower() in [name.lower() for name in source.key_columns]:
        problem = f"the column {user!r} is both key and user"
        raise InvalidValue(problem, "name two different columns")


def _check_computed(source: "Source") -> None:
    """Refuse expressions where no engine computes them."""
    if source.kind in ("mapping", "keys"):
        raise InvalidValue(
            "an expression or `filter` cannot be used with a mapping or an iterable of keys",
            "compute its keys in Python",
        )
    if source.kind in DATABASES:
        raise InvalidValue(
            "an expression or `filter` cannot be used with a database",
            "write it in SQL: `query='SELECT lower(query) AS query FROM ...'`",
        )
    if source.kind == "frame":
        raise refusal_on_spark()


def refusal_on_spark() -> InvalidValue:
    """Return the refusal of expressions where Spark reads the rows."""
    return InvalidValue(
        "an expression or `filter` is computed by DuckDB, not by Spark",
        "compute it in the DataFrame: data.where(...).selectExpr('lower(query) AS query')",
    )


def _check_file_options(source: "Source") -> None:
    """Refuse options of files where there are none, and standard input without a format."""
    is_file = source.kind == "files"
    format = source.options.get("format")
    if format is not None and not (is_file and format in FORMATS):
        raise InvalidValue(
            f"`format` can only be used with files, and is one of {', '.join(FORMATS)}",
            "leave it out where the extension says it",
        )
    if source.is_standard_input and format is None:
        raise InvalidValue(
            "standard input has no extension that names its format",
            "name the format, such as `format='csv'`; a file of the name '-' is written './-'",
        )
    stated = source.text_options
    if stated and not is_file:
        raise InvalidValue(
            f"`{stated[0]}` can only be used with files of CSV or TSV", "leave it out"
        )


def _check_database_options(source: "Source") -> None:
    """Refuse a database without its table or query, and these two for any other source."""
    stated = {"table", "query"} & source.options.keys()
    is_database = source.kind in DATABASES
    if stated and not is_database:
        raise InvalidValue(
            "`table` and `query` can only be used with a database",
            "name it as NAME.duckdb, sqlite:///PATH or postgresql://HOST/NAME, or leave them out",
        )
    if is_database and len(stated) != 1:
        raise InvalidValue(
            "a database needs either a table or a query",
            "write `table='name'` or `query='SELECT ...'`",
        )
