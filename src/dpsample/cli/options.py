"""Options that commands share, and what is made of them."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from dpsample.privacy import Privacy
from dpsample.scheme import KeepAll, Ppswor, Priority, Sampling

Command = TypeVar("Command", bound=Callable[..., Any])


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Make one decorator of several."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


columns = together(
    click.option("--frequency", help="Column with the frequency, if rows are already aggregated."),
    click.option(
        "--drop-null", is_flag=True, help="Leave out rows whose key or user is NULL, instead of refusing them."
    ),
    click.option("--table", help="Table of a database (SOURCE is postgresql://... or sqlite:///...)."),
    click.option("--query", help="SELECT to read from a database, instead of a table."),
    click.option("--input-format", help="parquet, csv, tsv, jsonl or arrow, where the extension does not tell."),
    click.option("--user", help="Column that says whose row it is: protect users instead of elements."),
)
source = together(
    click.argument("source", nargs=-1, required=True),
    click.option("--key", "-k", multiple=True, required=True, help="Key column; repeat it for a key of several."),
    columns,
)
max_keys = click.option("--max-keys-per-user", type=int, help="Each user keeps at most so many keys, chosen at random.")
totals = together(
    click.option(
        "--sample-size", type=int, help="Sample about so many keys, instead of --tau; costs a share of epsilon."
    ),
    click.option("--size-share", default="0.05", show_default=True, help="Share of epsilon that --sample-size costs."),
    click.option("--with-total", is_flag=True, help="Add a private total of elements; costs a share of epsilon."),
    click.option("--total-share", default="0.05", show_default=True, help="Share of epsilon that --with-total costs."),
)
ledger = click.option("--ledger", help="Ledger to enter the release into; one that exceeds its budget is refused.")
scheme = together(
    click.option(
        "--scheme",
        type=click.Choice(["all", "ppswor", "priority"]),
        default="all",
        show_default=True,
        help="Keep all keys, or sample them with probability 1 - exp(-tau w) or min(1, tau w).",
    ),
    click.option("--tau", help="Sampling threshold of ppswor and priority, such as 1e-4."),
    click.option("--power", default="1", show_default=True, help="Weight w of a key: its frequency to this power."),
    click.option("--cap", type=int, help="Weight w of a key: min(frequency, cap) to the power."),
)
privacy = together(
    click.option("--epsilon", "-e", required=True, help="Epsilon, read exactly: 0.1 is one tenth."),
    click.option("--delta", "-d", required=True, help="Delta, well below 1 / (number of elements), such as 1e-8."),
)
tokens = together(
    click.option("--keys-only", is_flag=True, help="Report keys without tokens."),
    click.option("--grid", type=int, help="Tokens come in steps of 1/grid, a power of two; by epsilon unless told."),
)
output = together(
    click.option(
        "--output",
        "-o",
        required=True,
        help="File to write: .parquet, .csv or .arrow. With --engine spark also NAME/, a folder.",
    ),
    click.option("--force", is_flag=True, help="Replace an output that exists."),
)
resources = together(
    click.option("--memory-limit", help="For example 1GB. Temporary files take what does not fit."),
    click.option("--threads", type=click.IntRange(min=1), help="At most so many."),
    click.option("--temp-dir", help="Folder for temporary files. They hold private data and are removed at the end."),
)
machine = together(
    resources,
    click.option(
        "--strategy",
        type=click.Choice(["auto", "aggregate", "two-pass"]),
        default="auto",
        show_default=True,
        help="How a sample of raw elements is drawn: count all keys, or pick elements first.",
    ),
    click.option(
        "--engine",
        type=click.Choice(["duckdb", "spark"]),
        default="duckdb",
        show_default=True,
        help="Work on this machine, or on a Spark cluster, which reads Parquet (hdfs://, s3a://, ...).",
    ),
    click.option("--master", help="With --engine spark: the cluster, such as spark://host:7077, yarn or local[4]."),
    click.option(
        "--partitions", type=click.IntRange(min=1), help="With --engine spark: into how many keys are divided."
    ),
    click.option("--show-private", is_flag=True, help="Also say what only those may know who may see the data."),
)
output_format = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Of what is printed.",
)


def source_of(given: dict[str, Any]) -> Any:
    """Where the elements are."""
    from dpsample.private.source import Source

    paths = given["source"]
    return Source(
        paths[0] if len(paths) == 1 else list(paths),
        given["key"],
        given["frequency"],
        given["drop_null"],
        given["table"],
        given["query"],
        given["input_format"],
        given["user"],
    )


def spark_source_of(session: Any, given: dict[str, Any]) -> Any:
    """Where the elements are, as Spark reads them."""
    from dpsample import spark
    from dpsample.private.source import Source

    frame = spark.read_parquet(session, list(given["source"]), given["input_format"])
    return Source(frame, given["key"], given["frequency"], given["drop_null"], user=given["user"])


def release_options(given: dict[str, Any]) -> dict[str, Any]:
    """Return the privacy and the options of a release, as `dpsample.release` takes them."""
    size = size_of(given)
    return {
        "privacy": privacy_of(given),
        "sampling": None if size else sampling_of(given),
        "size": size,
        "total": given["total_share"] if given["with_total"] else False,
        **{name: given[name] for name in ("max_keys_per_user", "ledger", "keys_only", "grid", "strategy")},
    }


def size_of(given: dict[str, Any]) -> Any:
    """The sample size that was asked for, if any."""
    if given["sample_size"] is None:
        return None
    from dpsample.accounting.totals import SampleSize

    if given["scheme"] == "all" or given["tau"] is not None:
        found = "--tau" if given["tau"] is not None else "--scheme all"
        raise click.UsageError(
            f"--sample-size goes with --scheme ppswor or priority, and no --tau; found {found}; change it"
        )
    return SampleSize(given["sample_size"], given["scheme"], given["power"], given["cap"], given["size_share"])


def sampling_of(given: dict[str, Any]) -> Sampling:
    """How keys are sampled."""
    scheme, tau = given["scheme"], given["tau"]
    if scheme == "all":
        if tau is not None:
            raise click.UsageError("--tau goes with --scheme ppswor or priority; found --scheme all; leave --tau out")
        return KeepAll()
    if tau is None:
        raise click.UsageError(f"--scheme {scheme} needs --tau; found none; add, for example, --tau 1e-4")
    return (Ppswor if scheme == "ppswor" else Priority)(tau, given["power"], given["cap"])


def privacy_of(given: dict[str, Any]) -> Privacy:
    """What is spent."""
    return Privacy(given["epsilon"], given["delta"])


def engine_of(given: dict[str, Any]) -> Any:
    """The engine of this machine."""
    from dpsample.private.engine.duckdb import DuckDB

    return DuckDB(given["memory_limit"], given["threads"], given["temp_dir"])


def check_engine(given: dict[str, Any], show_private: bool) -> None:
    """Refuse options of the engine that is not used."""
    if given["engine"] == "spark":
        others = ["memory_limit", "threads", "temp_dir", "table", "query"]
        found = [name for name in others if given.get(name)] + ["show_private"] * show_private
    else:
        found = [name for name in ("master", "partitions") if given[name] is not None]
    if found:
        name = f"--{found[0].replace('_', '-')}"
        raise click.UsageError(f"{name} does not go with --engine {given['engine']}; leave {name} out")
