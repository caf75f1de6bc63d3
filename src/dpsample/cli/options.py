"""Options that commands share, and what is made of them."""

from collections.abc import Callable
from itertools import zip_longest
from typing import Any, TypeVar

import click

from dpsample.privacy import Privacy
from dpsample.scheme import KeepAll, Ppswor, Priority, Sampling, SoftCap

_OPTIONS = (
    "max_keys_per_user",
    "at_least",
    "keys",
    "only_known",
    "discover",
    "count_share",
    "rows",
    "prior",
    "ledger",
    "keys_only",
    "grid",
    "strategy",
)
Command = TypeVar("Command", bound=Callable[..., Any])


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Make one decorator of several."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


columns = together(
    click.option("--frequency", help="Frequency column, if the rows are already aggregated."),
    click.option("--drop-null", is_flag=True, help="Drop rows whose key or user is NULL, instead of refusing them."),
    click.option("--table", help="Table of a database, if SOURCE is postgresql://... or sqlite:///..."),
    click.option("--query", help="SELECT statement to read from a database, instead of a table."),
    click.option("--input-format", help="parquet, csv, tsv, jsonl or arrow.  [default: by the extension of the file]"),
    click.option("--delimiter", help="Character between the fields of CSV, such as ';' or '\\t'.  [default: a comma]"),
    click.option("--encoding", help="Encoding of CSV, such as latin-1, cp1252 or utf-16.  [default: utf-8]"),
    click.option(
        "--header/--no-header",
        default=True,
        help="Whether CSV begins with a line of names. Without one, columns are column0, column1, ...",
    ),
    click.option("--null", multiple=True, help="Text that stands for NULL in CSV, beside the empty field. Repeatable."),
    click.option("--key-as", multiple=True, help="Name of the key column in the output, one for each --key."),
    click.option("--user", help="Column that identifies the user of a row. Protects users instead of elements."),
)
source = together(
    click.argument("source", nargs=-1, required=True),
    click.option(
        "--key", "-k", multiple=True, required=True, help="Key column. Repeat it for a key of several columns."
    ),
    columns,
)
max_keys = click.option(
    "--max-keys-per-user",
    type=int,
    help="Contribution bound: the largest number of keys that each user keeps, chosen at random.",
)
amounts = together(
    click.option(
        "--rows",
        type=int,
        metavar="CLIP",
        help="Users without a contribution bound: also count the rows of each key. Each user counts with up to CLIP "
        "rows of a key.",
    ),
    click.option(
        "--sum",
        "sums",
        metavar="COLUMN[:[LOW:]HIGH]",
        multiple=True,
        help="Users without a contribution bound: also sum a column for each key. The sum of each user and key is "
        "clipped to the range from LOW to HIGH, by default from -HIGH to HIGH. Repeat it for several columns.",
    ),
    click.option(
        "--clip",
        "clips",
        metavar="[LOW:]HIGH",
        multiple=True,
        help="The clips of --sum, if these are columns alone: one for each, in the same order.",
    ),
)
discovery = together(
    click.option(
        "--discover",
        type=click.Choice(["ask", "one-key", "many-keys"]),
        help="Users without a contribution bound: find keys by one key of each user, right for users with few keys, or "
        "by many; 'ask' spends 2 % of epsilon to compare both privately, and decides.  [default: ask]",
    ),
    click.option(
        "--count-share",
        help="Users without a contribution bound: the share of the privacy for counting the users of each key, "
        "between 0 and 1.  [default: 0.25; more with --rows and --sum]",
    ),
    amounts,
    click.option(
        "--prior",
        help="Users without a contribution bound: an earlier release, whose keys come first. It must be public, or "
        "paid for.",
    ),
)
totals = together(
    click.option(
        "--sample-size",
        type=int,
        help="Approximate number of sampled keys, instead of --tau. Costs a share of epsilon.",
    ),
    click.option("--size-share", default="0.05", show_default=True, help="Share of epsilon that --sample-size costs."),
    click.option(
        "--with-total",
        is_flag=True,
        help="Add a private total of elements, or of users' keys. Costs a share of epsilon.",
    ),
    click.option("--total-share", default="0.05", show_default=True, help="Share of epsilon that --with-total costs."),
)
part_vouched = click.option(
    "--part-vouched",
    metavar="NAME=VALUE",
    help="State that the source has rows of this part alone. Nothing is checked, and the release says so.",
)
part = together(
    click.option(
        "--part",
        metavar="COLUMN=VALUE",
        help="Read only the rows whose column has this value, as text. In a ledger with --parts COLUMN, releases of "
        "different parts cost the maximum, not the sum. Choose it without looking at the data.",
    ),
    part_vouched,
)
ledger = click.option("--ledger", help="Ledger to charge. A release that exceeds its budget is refused.")
scheme = together(
    click.option(
        "--scheme",
        type=click.Choice(["all", "ppswor", "priority", "soft-cap"]),
        default="all",
        show_default=True,
        help="Keep all keys, or sample a key of weight w with probability 1 - exp(-tau w) or min(1, tau w). "
        "soft-cap samples by frequency up to about --cap.",
    ),
    click.option("--tau", help="Sampling threshold of ppswor and priority, such as 1e-4."),
    click.option(
        "--power", default="1", show_default=True, help="The weight w of a key is its frequency to this power."
    ),
    click.option("--cap", type=int, help="The weight w of a key is min(frequency, CAP) to the power."),
    click.option(
        "--seed",
        metavar="TEXT",
        help="Sample by a public hash of the key with this text: samples with one seed have the same keys. The seed is "
        "public, and the release states it. Choose it without looking at the data.",
    ),
)
at_least = click.option(
    "--at-least",
    type=int,
    metavar="N",
    help="Report no key of a lower frequency, whatever its noise: fewer elements, or users.",
)
known = together(
    click.option(
        "--keys",
        metavar="FILE",
        help="Public list of keys, with the key columns (.parquet, .csv or .arrow). Each is reported, also with 0. "
        "The list must not depend on the data.",
    ),
    click.option("--only-known", is_flag=True, help="With --keys: leave out keys that are not in the list."),
)
privacy = together(
    click.option("--epsilon", "-e", help="Epsilon, read exactly: 0.1 is one tenth."),
    click.option("--zcdp", metavar="RHO", help="Rho of zero-concentrated differential privacy, instead of --epsilon."),
    click.option("--gdp", metavar="MU", help="Mu of Gaussian differential privacy, instead of --epsilon."),
    click.option(
        "--delta", "-d", required=True, help="Delta, such as 1e-8. Choose it well below 1 / (number of elements)."
    ),
)
tokens = together(
    click.option("--keys-only", is_flag=True, help="Report keys without tokens, or without counts of users."),
    click.option(
        "--grid", type=int, help="Tokens are multiples of 1/GRID, a power of two.  [default: chosen by epsilon]"
    ),
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
    click.option("--memory-limit", help="Memory to work in, such as 1GB. What does not fit goes to temporary files."),
    click.option("--threads", type=click.IntRange(min=1), help="Largest number of threads."),
    click.option("--temp-dir", help="Folder for temporary files. They hold private data, and are removed at the end."),
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
        help="Run on this machine, or on a Spark cluster. Spark reads Parquet (hdfs://, s3a://, ...).",
    ),
    click.option("--master", help="With --engine spark: the cluster, such as spark://host:7077, yarn or local[4]."),
    click.option(
        "--partitions", type=click.IntRange(min=1), help="With --engine spark: the number of partitions of the keys."
    ),
    click.option(
        "--show-private", is_flag=True, help="Also print numbers that are NOT private, such as the number of rows."
    ),
)
output_format = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the output.",
)


def source_of(given: dict[str, Any]) -> Any:
    """Where the elements are."""
    from dpsample.private.sources.source import Source

    paths = given["source"]
    return Source(
        paths[0] if len(paths) == 1 else list(paths),
        given["key"],
        given["frequency"],
        drop_null=given["drop_null"],
        table=given["table"],
        query=given["query"],
        format=given["input_format"],
        user=given["user"],
        key_as=given["key_as"] or None,
        delimiter="\t" if given["delimiter"] == r"\t" else given["delimiter"],
        encoding=given["encoding"],
        header=given["header"],
        null=given["null"],
    )


def spark_source_of(session: Any, given: dict[str, Any]) -> Any:
    """Where the elements are, as Spark reads them."""
    from dpsample import spark
    from dpsample.private.sources.source import Source

    frame = spark.read_parquet(session, list(given["source"]), given["input_format"])
    names = given["key_as"] or None
    return Source(
        frame, given["key"], given["frequency"], drop_null=given["drop_null"], user=given["user"], key_as=names
    )


def release_options(given: dict[str, Any]) -> dict[str, Any]:
    """Return the privacy and the options of a release, as `dpsample.release` takes them."""
    size = size_of(given)
    return {
        "privacy": privacy_of(given),
        "sampling": None if size else sampling_of(given),
        "size": size,
        "total": given["total_share"] if given["with_total"] else False,
        "sums": sums_of(given),
        **parts_of(given),
        **{name: given[name] for name in _OPTIONS},
    }


def parts_of(given: dict[str, Any]) -> dict[str, Any]:
    """The part that is read, or vouched for, as `dpsample.release` takes it."""
    return {
        "part": part_of(given["part"], "--part"),
        "part_vouched": part_of(given["part_vouched"], "--part-vouched"),
    }


def part_of(text: str | None, option: str) -> tuple[str, str] | None:
    """Read NAME=VALUE; the value may have further equals signs."""
    if text is None:
        return None
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.UsageError(f"{option} is a name and a value; found {text!r}; write {option} day=2026-11-14")
    return name, value


def sums_of(given: dict[str, Any]) -> dict[str, str] | None:
    """Read --sum COLUMN:CLIP, or --sum COLUMN --clip CLIP; each column once."""
    texts, clips = given["sums"], given["clips"]
    if clips and len(clips) != len(texts):
        raise click.UsageError(
            f"each --sum has one --clip; found {len(texts)} and {len(clips)}; write --sum price --clip 0:100"
        )
    sums: dict[str, str] = {}
    for text, stated in zip_longest(texts, clips):
        column, clip = _column_and_clip(text) if stated is None else (text, stated)
        if not column or column in sums:
            found = f"{column!r} twice" if column in sums else repr(text)
            raise click.UsageError(
                "--sum is a column and the clip of its sums, each column once; "
                f"found {found}; write --sum price:100, or --sum price:0:100"
            )
        sums[column] = clip
    return sums or None


def _column_and_clip(text: str) -> tuple[str, str]:
    """Divide COLUMN:HIGH or COLUMN:LOW:HIGH. A column may have colons in its name, but for one before a number.

    >>> _column_and_clip("price:100"), _column_and_clip("price:-5:100"), _column_and_clip("a:b:100")
    (('price', '100'), ('price', '-5:100'), ('a:b', '100'))
    """
    before, _, high = text.rpartition(":")
    column, colon, low = before.rpartition(":")
    if colon and _is_number(low):
        return column, f"{low}:{high}"
    return before, high


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def size_of(given: dict[str, Any]) -> Any:
    """The sample size that was asked for, if any."""
    if given["sample_size"] is None:
        return None
    from dpsample.accounting.totals import SampleSize

    if given.get("seed") is not None:
        raise click.UsageError("--seed goes with --tau; found --sample-size; state --tau")
    if given["scheme"] in ("all", "soft-cap") or given["tau"] is not None:
        found = "--tau" if given["tau"] is not None else f"--scheme {given['scheme']}"
        raise click.UsageError(
            f"--sample-size goes with --scheme ppswor or priority, and no --tau; found {found}; write, for example, "
            "--scheme ppswor --sample-size 10000"
        )
    return SampleSize(given["sample_size"], given["scheme"], given["power"], given["cap"], given["size_share"])


def sampling_of(given: dict[str, Any]) -> Sampling:
    """How keys are sampled."""
    scheme, tau = given["scheme"], given["tau"]
    if scheme == "all":
        if tau is not None:
            raise click.UsageError("--tau goes with --scheme ppswor or priority; found --scheme all; leave --tau out")
        if given.get("seed") is not None:
            raise click.UsageError("--seed goes with --scheme ppswor or priority; found --scheme all; leave --seed out")
        return KeepAll()
    if tau is None:
        size = " or --sample-size" if "sample_size" in given else ""
        example = "--sample-size 10000, which costs a share of epsilon, or " if size else ""
        raise click.UsageError(
            f"--scheme {scheme} needs --tau{size}; found none; add, for example, {example}--tau 1e-4"
        )
    if scheme == "soft-cap":
        others = [name for name, there in (("--power", given["power"] != "1"), ("--seed", given.get("seed"))) if there]
        if given["cap"] is None or others:
            found = others[0] if others else "no --cap"
            raise click.UsageError(
                f"--scheme soft-cap has --tau and --cap alone; found {found}; write, for example, --tau 0.01 --cap 20"
            )
        return SoftCap(tau, given["cap"])
    return (Ppswor if scheme == "ppswor" else Priority)(tau, given["power"], given["cap"], given.get("seed"))


def privacy_of(given: dict[str, Any]) -> Privacy:
    """What is spent."""
    stated = {name: given[name] for name in ("epsilon", "zcdp", "gdp") if given.get(name) is not None}
    if len(stated) != 1:
        found = " and ".join(f"--{name}" for name in stated) or "none"
        raise click.UsageError(
            f"a budget is one of --epsilon, --zcdp and --gdp; found {found}; state one, such as --epsilon 1"
        )
    (name, value), delta = stated.popitem(), given["delta"]
    return {"epsilon": Privacy, "zcdp": Privacy.zcdp, "gdp": Privacy.gdp}[name](value, delta)


def engine_of(given: dict[str, Any]) -> Any:
    """The engine of this machine."""
    from dpsample.private.engine.duckdb import DuckDB

    return DuckDB(given["memory_limit"], given["threads"], given["temp_dir"])


def check_engine(given: dict[str, Any], show_private: bool) -> None:
    """Refuse options of the engine that is not used."""
    if given["engine"] == "spark":
        others = ["memory_limit", "threads", "temp_dir", "table", "query", "delimiter", "encoding", "null"]
        unused = [name for name in others if given.get(name)] + ["show_private"] * show_private
        unused += [] if given["header"] else ["no_header"]
    else:
        unused = [name for name in ("master", "partitions") if given[name] is not None]
    if unused:
        name = f"--{unused[0].replace('_', '-')}"
        raise click.UsageError(f"{name} does not go with --engine {given['engine']}; found both; leave {name} out")
