"""Options that commands share. Those of a release are made from `release.options`, which has their names and help."""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import click

from dpsample.cli.log import start_log
from dpsample.private.sources.source import Source
from dpsample.release import options as released
from dpsample.release.options import Option

Command = TypeVar("Command", bound=Callable[..., Any])
Stated = Mapping[str, Any]
_FIELD = re.compile(
    r"`(\w+)(?:=([^`]*))?`"
)  # in a refusal: the name of a field, and perhaps a value


# ---- how options are written


def flag(name: str) -> str:
    """Return the option that states a field, by the name of the field or of the option.

    >>> flag("max_keys_per_user"), flag("sums"), flag("sampling"), flag("no_header")
    ('--max-keys-per-user', '--sum', '--scheme', '--no-header')
    """
    if name == "format":
        return "--input-format"
    written = released.written_names().get(name, name.replace("_", "-"))
    return f"--{written}"


def in_options(marked: str) -> str:
    """Write the fields that a refusal or a help text names, in backticks, as options of the command line.

    >>> in_options("`seed` cannot be combined with `scheme=all`; leave out rows with `drop_null=True`")
    '--seed cannot be combined with --scheme all; leave out rows with --drop-null'
    >>> in_options("state `delimiter=';'`, `header=False` or `part=('day', '2026-11-14')`")
    "state --delimiter ';', --no-header or --part day=2026-11-14"
    """
    return _FIELD.sub(lambda found: _as_option(found[1], found[2]), marked)


def named_options(marked: str) -> list[str]:
    """Return the options that a refusal names, each once.

    >>> named_options("`seed` cannot be combined with `scheme=all`; leave `seed` out")
    ['--seed', '--scheme']
    """
    flags = [flag(found[1]) for found in _FIELD.finditer(marked)]
    return list(dict.fromkeys(flags))


def _as_option(name: str, value: str | None) -> str:
    """Return a field and its value, if it has one, as an option: `value` is written as in Python."""
    if value == "False":
        return flag(f"no_{name}")
    if value is None or value == "True":
        return flag(name)
    if value.startswith("("):
        words = [word.strip(" '") for word in value.strip("()").split(",")]
        return f"{flag(name)} {'='.join(words)}"
    if value == "...":
        return f"{flag(name)} ..."
    text = value.strip("'\"")
    return f"{flag(name)} {shlex.quote(text)}"


# ---- how options are made


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Make one decorator of several."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def of_release(*fields: str, without: tuple[Option, ...] = ()) -> Callable[[Command], Command]:
    """Return the options by which these fields of a release are stated."""
    chosen = []
    for field in fields:
        for option in released.options_of(field):
            if option not in without:
                chosen.append(click_option(option))
    return together(*chosen)


def click_option(option: Option) -> Callable[[Command], Command]:
    """Return an option of a release as an option of click."""
    flags = [f"--{option.written}", option.name]
    if option.letter is not None:
        flags.insert(1, f"-{option.letter}")
    kind: Any = click.Choice(option.choices) if option.choices else option.kind
    is_flag = option.kind is bool
    return click.option(
        *flags,
        type=kind,
        is_flag=is_flag,
        default=False if is_flag else option.default,
        show_default=option.default is not None,
        metavar=option.metavar,
        required=option.required,
        multiple=option.repeatable,
        help=in_options(option.help),
    )


def several(option: Option, about: str | None = None) -> Callable[[Command], Command]:
    """Return an option of a release that takes one or more values, separated by commas or repeated."""
    help = about or f"{option.help} One or more values."
    return click_option(replace(option, kind=str, repeatable=True, required=False, help=help))


# ---- options of a source

_frequency = click.option(
    "--frequency", help="Frequency column, if the rows are already aggregated."
)
_table = click.option(
    "--table",
    help="Table of a database, if SOURCE is NAME.duckdb, sqlite:///... or postgresql://...",
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
_key_type = click.option(
    "--key-type",
    multiple=True,
    metavar="NAME=TYPE",
    help="Type of a key column that folders are named by, such as day=date32. Repeatable.  [default: text]",
)
columns = together(
    _frequency,
    click_option(released.DROP_NULL),
    click_option(released.FILTER),
    _table,
    _query,
    _input_format,
    _delimiter,
    _encoding,
    _header,
    _null,
    _key_as,
    _key_type,
    click_option(released.USER),
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
# ---- options of an output and of the machine

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
if_missing = click.option(
    "--if-missing",
    is_flag=True,
    help="With --ledger: if this very release is there, by its entry in the ledger, do nothing and exit with 0.",
)

# ---- options of what is printed

_JSON = "dpsample.json"  # in the context of a command: that JSON was asked for
_QUIET = "dpsample.quiet"  # that only results and errors are to be printed


def _set_in_context(name: str) -> Callable[..., None]:
    """Return a callback that notes a flag in the context of the command."""

    def note(context: click.Context, option: click.Parameter, value: bool) -> None:
        if value:
            context.meta[name] = True

    return note


def _form(context: click.Context, option: click.Parameter, value: str) -> str:
    """Return the format of the output; --json is short for --format json."""
    return "json" if context.meta.get(_JSON) else value


def _log(context: click.Context, option: click.Parameter, value: str | None) -> None:
    """Begin the log of a command."""
    if value is not None:
        start_log(value, context.info_name or "dpsample")


def format_of_output(*forms: str) -> Callable[[Command], Command]:
    """Return the options of the format of the output, of which the first is the default."""
    json = click.option(
        "--json",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_set_in_context(_JSON),
        help="Short for --format json. Errors are JSON, too.",
    )
    format = click.option(
        "--format",
        "form",
        type=click.Choice(forms),
        default=forms[0],
        show_default=True,
        callback=_form,
        help="Format of the output.",
    )
    return together(format, json)


output_format = format_of_output("text", "json")
_quiet = click.option(
    "--quiet",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_set_in_context(_QUIET),
    help="Print nothing but errors, and results that are asked for by --json.",
)
_log_file = click.option(
    "--log",
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_log,
    help="Append what is done to a file of JSON lines: stages and exit code, nothing private.",
)
# for commands that make something: what they did is printed to standard error, and --json makes it a result
done_format = together(output_format, _quiet, _log_file)


def is_quiet() -> bool:
    """Return whether the command that runs was asked to print nothing but errors and results."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_QUIET))


_OF_THIS_MACHINE = (
    "memory_limit",
    "threads",
    "temp_dir",
    "table",
    "query",
    "delimiter",
    "encoding",
    "null",
    "key_type",
)
_OF_A_CLUSTER = ("master", "partitions")
_OF_A_SOURCE = (  # options that a `Source` has by the same name
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


# ---- what options state


def source_of(given: Stated) -> Source:
    """Return the source that these options describe."""
    paths = list(given["source"])
    same_name = {name: given[name] for name in _OF_A_SOURCE}
    return Source(
        paths[0] if len(paths) == 1 else paths,
        format=given["input_format"],
        key_as=given["key_as"] or None,
        key_type=_key_types(given),
        delimiter=delimiter_of(given),
        **same_name,
    )


def _key_types(given: Stated) -> dict[str, str] | None:
    """Return the stated types of key columns, by name."""
    types = dict[str, str]()
    for stated in given["key_type"]:
        name, is_pair, kind = stated.partition("=")
        if not is_pair or name in types:
            raise click.UsageError(
                "--key-type is NAME=TYPE, once for each column, such as day=date32"
            )
        types[name] = kind
    return types or None


def delimiter_of(given: Stated) -> str | None:
    """Return the delimiter; a tab may be written as in Python."""
    delimiter: str | None = given["delimiter"]
    return "\t" if delimiter == r"\t" else delimiter


def engine_of(given: Stated) -> Any:
    """Return the engine of this machine."""
    from dpsample.cli.machine import duckdb_of

    return duckdb_of(given)


def check_engine(given: Stated, show_private: bool) -> None:
    """Refuse options of the engine that is not used."""
    if given["engine"] == "spark":
        unused = [name for name in _OF_THIS_MACHINE if given.get(name)]
        if show_private:
            unused.append("show_private")
        if not given["header"]:
            unused.append("no_header")
    else:
        unused = [name for name in _OF_A_CLUSTER if given[name] is not None]
    if unused:
        option = flag(unused[0])
        raise click.UsageError(
            f"{option} cannot be used with --engine {given['engine']}; leave {option} out"
        )
