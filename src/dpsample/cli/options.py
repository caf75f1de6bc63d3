"""Options that commands share. Those of a release are made from `release.options`, which has their names and help."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import click

from dpsample.private.sources.source import Source
from dpsample.release import options as released
from dpsample.release.options import Option

Command = TypeVar("Command", bound=Callable[..., Any])
Stated = Mapping[str, Any]


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Make one decorator of several."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def of_release(*fields: str, without: tuple[Option, ...] = ()) -> Callable[[Command], Command]:
    """Return the options by which these fields of a release are stated."""
    chosen = [
        option for field in fields for option in released.options_of(field) if option not in without
    ]
    return together(*map(click_option, chosen))


def click_option(option: Option) -> Callable[[Command], Command]:
    """Return an option of a release as an option of click."""
    flags = [f"--{option.written}", option.name]
    if option.letter is not None:
        flags.insert(1, f"-{option.letter}")
    kind: Any = click.Choice(option.choices) if option.choices else option.kind
    return click.option(
        *flags,
        type=kind,
        is_flag=option.kind is bool,
        default=False if option.kind is bool else option.default,
        show_default=option.default is not None,
        metavar=option.metavar,
        required=option.required,
        multiple=option.repeatable,
        help=option.help,
    )


def several(option: Option, about: str | None = None) -> Callable[[Command], Command]:
    """Return an option of a release that takes one or more values, separated by commas or repeated."""
    return click_option(
        replace(
            option,
            kind=str,
            repeatable=True,
            required=False,
            help=about or f"{option.help} One or more values.",
        )
    )


_frequency = click.option(
    "--frequency", help="Frequency column, if the rows are already aggregated."
)
_drop_null = click.option(
    "--drop-null",
    is_flag=True,
    help="Drop rows whose key or user is NULL, instead of refusing them.",
)
_filter = click.option(
    "--filter",
    help="Read only the rows where this SQL condition on their columns is true, such as \"country = 'DE'\". Choose it "
    "without looking at the data.",
)
_table = click.option(
    "--table", help="Table of a database, if SOURCE is postgresql://... or sqlite:///..."
)
_query = click.option(
    "--query", help="SELECT statement to read from a database, instead of a table."
)
_input_format = click.option(
    "--input-format",
    help="parquet, csv, tsv, jsonl or arrow.  [default: by the extension of the file]",
)
_delimiter = click.option(
    "--delimiter",
    help="Character between the fields of CSV, such as ';' or '\\t'.  [default: a comma]",
)
_encoding = click.option(
    "--encoding", help="Encoding of CSV, such as latin-1, cp1252 or utf-16.  [default: utf-8]"
)
_header = click.option(
    "--header/--no-header",
    default=True,
    help="Whether CSV begins with a line of names. Without one, columns are column0, column1, ...",
)
_null = click.option(
    "--null",
    multiple=True,
    help="Text that stands for NULL in CSV, beside the empty field. Repeatable.",
)
_key_as = click.option(
    "--key-as", multiple=True, help="Name of the key column in the output, one for each --key."
)
_user = click.option(
    "--user", help="Column that identifies the user of a row. Protects users instead of elements."
)
columns = together(
    _frequency,
    _drop_null,
    _filter,
    _table,
    _query,
    _input_format,
    _delimiter,
    _encoding,
    _header,
    _null,
    _key_as,
    _user,
)
_source = click.argument("source", nargs=-1, required=True)
_key = click.option(
    "--key",
    "-k",
    multiple=True,
    required=True,
    help="Key column, or an SQL expression of the columns of a row with a name, such as "
    '"lower(query) AS query". Repeat it for a key of several columns.',
)
source = together(_source, _key, columns)
_output = click.option(
    "--output",
    "-o",
    required=True,
    help="File to write: .parquet, .csv or .arrow. With --engine spark also NAME/, a folder.",
)
_force = click.option("--force", is_flag=True, help="Replace an output that exists.")
output = together(_output, _force)
_memory_limit = click.option(
    "--memory-limit",
    help="Memory to work in, such as 1GB. What does not fit goes to temporary files.",
)
_threads = click.option("--threads", type=click.IntRange(min=1), help="Largest number of threads.")
_temp_dir = click.option(
    "--temp-dir",
    help="Folder for temporary files. They hold private data, and are removed at the end.",
)
resources = together(_memory_limit, _threads, _temp_dir)
_engine = click.option(
    "--engine",
    type=click.Choice(["duckdb", "spark"]),
    default="duckdb",
    show_default=True,
    help="Run on this machine, or on a Spark cluster. Spark reads Parquet (hdfs://, s3a://, ...).",
)
_master = click.option(
    "--master",
    help="With --engine spark: the cluster, such as spark://host:7077, yarn or local[4].",
)
_partitions = click.option(
    "--partitions",
    type=click.IntRange(min=1),
    help="With --engine spark: the number of partitions of the keys.",
)
_show_private = click.option(
    "--show-private",
    is_flag=True,
    help="Also print numbers that are NOT private, such as the number of rows.",
)
machine = together(resources, of_release("strategy"), _engine, _master, _partitions, _show_private)
output_format = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the output.",
)
_OF_THIS_MACHINE = (
    "memory_limit",
    "threads",
    "temp_dir",
    "table",
    "query",
    "delimiter",
    "encoding",
    "null",
)
_OF_A_CLUSTER = ("master", "partitions")


def source_of(given: Stated) -> Source:
    """Return the source that these options describe."""
    paths = list(given["source"])
    named = (
        "key",
        "frequency",
        "drop_null",
        "filter",
        "table",
        "query",
        "user",
        "encoding",
        "header",
        "null",
    )
    return Source(
        paths[0] if len(paths) == 1 else paths,
        format=given["input_format"],
        key_as=given["key_as"] or None,
        delimiter=delimiter_of(given),
        **{name: given[name] for name in named},
    )


def delimiter_of(given: Stated) -> str | None:
    """Return the delimiter; a tab may be written as in Python."""
    delimiter: str | None = given["delimiter"]
    return "\t" if delimiter == r"\t" else delimiter


def spark_source_of(session: Any, given: Stated) -> Source:
    """Return the source that these options describe, as Spark reads it."""
    from dpsample import spark

    frame = spark.read_parquet(session, list(given["source"]), given["input_format"])
    named = ("key", "frequency", "drop_null", "filter", "user")
    return Source(frame, key_as=given["key_as"] or None, **{name: given[name] for name in named})


def engine_of(given: Stated) -> Any:
    """Return the engine of this machine."""
    from dpsample.private.engine.duckdb import DuckDB

    return DuckDB(given["memory_limit"], given["threads"], given["temp_dir"])


def check_engine(given: Stated, show_private: bool) -> None:
    """Refuse options of the engine that is not used."""
    if given["engine"] == "spark":
        unused = [name for name in _OF_THIS_MACHINE if given.get(name)]
        unused += ["show_private"] if show_private else []
        unused += [] if given["header"] else ["no_header"]
    else:
        unused = [name for name in _OF_A_CLUSTER if given[name] is not None]
    if unused:
        option = flag(unused[0])
        raise click.UsageError(
            f"{option} cannot be used with --engine {given['engine']}; leave {option} out"
        )


def flag(name: str) -> str:
    """Return the option that states a field, by the name of the field or of the option.

    >>> flag("max_keys_per_user"), flag("sums"), flag("sampling"), flag("no_header")
    ('--max-keys-per-user', '--sum', '--scheme', '--no-header')
    """
    if name == "format":
        return "--input-format"
    written = released.written_names().get(name, name.replace("_", "-"))
    return f"--{written}"


_FIELD = re.compile(r"`(\w+)(?:=([^`]*))?`")


def in_options(marked: str) -> str:
    """Write the fields that a refusal names, in backticks, as options of the command line.

    >>> in_options("`seed` cannot be combined with `scheme=all`; leave out rows with `drop_null=True`")
    '--seed cannot be combined with --scheme all; leave out rows with --drop-null'
    >>> in_options("state `delimiter=';'`, `header=False` or `part=('day', '2026-11-14')`")
    "state --delimiter ';', --no-header or --part day=2026-11-14"
    """
    return _FIELD.sub(lambda found: " ".join(_words(found[1], found[2])), marked)


def _words(name: str, value: str | None) -> Iterator[str]:
    if value == "False":
        yield flag(f"no_{name}")
        return
    yield flag(name)
    if value is None or value == "True":
        return
    if value.startswith("("):
        words = [word.strip(" '") for word in value.strip("()").split(",")]
        yield "=".join(words)
    else:
        yield value if value == "..." else shlex.quote(value.strip("'\""))
