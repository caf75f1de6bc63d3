"""The `dpsample` command: one thin command for each stage. Parse, call the library, print.

Results go to standard output, errors (one line each) and progress to standard error. Exit codes: 0, 1 for a failure, 2
for bad usage or bad input.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from dpsample import __version__
from dpsample.cli_answers import quantiles, query, top
from dpsample.cli_ledger import ledger_commands
from dpsample.errors import DpsampleError, InvalidValue
from dpsample.exact import text
from dpsample.explain import (
    explain_privacy,
    explain_sampling,
    explain_size,
    explain_total,
    explain_visibility,
    visibility,
)
from dpsample.privacy import Privacy
from dpsample.scheme import KeepAll, Ppswor, Priority, Sampling

Command = TypeVar("Command", bound=Callable[..., Any])

_TOLD = ("privacy", "unit", "max_keys_per_user", "per_key", "sampling", "size", "total", "ledger")  # of a release


def _options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


_source = _options(
    click.argument("source", nargs=-1, required=True),
    click.option("--key", "-k", multiple=True, required=True, help="Key column; repeat it for a key of several."),
    click.option("--frequency", help="Column with the frequency, if rows are already aggregated."),
    click.option(
        "--drop-null", is_flag=True, help="Leave out rows whose key or user is NULL, instead of refusing them."
    ),
    click.option("--table", help="Table of a database (SOURCE is postgresql://... or sqlite:///...)."),
    click.option("--query", help="SELECT to read from a database, instead of a table."),
    click.option("--input-format", help="parquet, csv, tsv, jsonl or arrow, where the extension does not tell."),
    click.option("--user", help="Column that says whose row it is: protect users instead of elements."),
)
_max_keys = click.option(
    "--max-keys-per-user", type=int, help="Each user keeps at most so many keys, chosen at random."
)
_totals = _options(
    click.option(
        "--sample-size", type=int, help="Sample about so many keys, instead of --tau; costs a share of epsilon."
    ),
    click.option("--size-share", default="0.05", show_default=True, help="Share of epsilon that --sample-size costs."),
    click.option("--with-total", is_flag=True, help="Add a private total of elements; costs a share of epsilon."),
    click.option("--total-share", default="0.05", show_default=True, help="Share of epsilon that --with-total costs."),
)
_ledger = click.option("--ledger", help="Ledger to enter the release into; one that exceeds its budget is refused.")
_scheme = _options(
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
_privacy = _options(
    click.option("--epsilon", "-e", required=True, help="Epsilon, read exactly: 0.1 is one tenth."),
    click.option("--delta", "-d", required=True, help="Delta, well below 1 / (number of elements), such as 1e-8."),
)
_tokens = _options(
    click.option("--keys-only", is_flag=True, help="Report keys without tokens."),
    click.option("--grid", type=int, help="Tokens come in steps of 1/grid, a power of two; by epsilon unless told."),
)
_output = _options(
    click.option(
        "--output",
        "-o",
        required=True,
        help="File to write: .parquet, .csv or .arrow. With --engine spark also NAME/, a folder.",
    ),
    click.option("--force", is_flag=True, help="Replace an output that exists."),
)
_machine = _options(
    click.option("--memory-limit", help="For example 1GB. Temporary files take what does not fit."),
    click.option("--threads", type=click.IntRange(min=1), help="At most so many."),
    click.option("--temp-dir", help="Folder for temporary files. They hold private data and are removed at the end."),
    click.option(
        "--way",
        type=click.Choice(["auto", "aggregate", "two-pass"]),
        default="auto",
        show_default=True,
        help="How raw elements are sampled.",
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
_format = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Of what is printed.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__)
def cli() -> None:
    """Publish which keys are in your data, and about how often, with differential privacy.

    \b
    The main job:
      dpsample release events.parquet --key query --epsilon 1 --delta 1e-8 -o queries.private.parquet
    """


@cli.command()
@_source
@_max_keys
@click.option("--max-elements-per-key", hidden=True, help="Refused: a user counts once in each key.")
@_privacy
@_scheme
@_totals
@_tokens
@_ledger
@_output
@_machine
@_format
def release(output: str, force: bool, form: str, show_private: bool, way: str, **options: Any) -> None:
    """Read elements, sample keys, sanitize them, and write a release that may be published.

    SOURCE is one or more files, folders or globs (Parquet, CSV, JSON lines, Arrow), or a database.

    \b
    Examples:
      dpsample release events.parquet --key query --epsilon 1 --delta 1e-8 -o queries.private.parquet
      dpsample release counts.csv --key word --frequency n -e 0.5 -d 1e-6 -o words.private.parquet
      dpsample release 'logs/*.jsonl' -k city -k item -e 1 -d 1e-8 --scheme ppswor --tau 1e-4 -o sample.private.parquet
      dpsample release sqlite:///shop.db --table orders -k product -e 1 -d 1e-8 -o products.private.csv
      dpsample release clicks.parquet -k page --user user_id --max-keys-per-user 20 -e 1 -d 1e-8 -o pages.parquet
      dpsample release events.parquet -k query -e 1 -d 1e-8 --scheme ppswor --sample-size 100000 -o sample.parquet
      dpsample release events.parquet -k query -e 1 -d 1e-8 --with-total --ledger events.ledger -o queries.parquet
      dpsample release hdfs:///events -k query -e 1 -d 1e-8 --engine spark --master yarn -o queries.private/
    """
    from dpsample.plan import Plan
    from dpsample.run import way_of, written

    _check_engine(options, show_private)
    size = _size_from(options)
    planned = {
        "privacy": _privacy_from(options),
        "sampling": None if size else _sampling_from(options),
        "size": size,
        "max_keys_per_user": options["max_keys_per_user"],
        "max_elements_per_key": options["max_elements_per_key"],
        "total": options["total_share"] if options["with_total"] else False,
        "ledger": options["ledger"],
    }
    if options["engine"] == "spark":
        keys, read, terms = _release_by_spark(output, force, way, planned, options)
        _print_release(read, output, keys, terms, form, None)
        return
    plan = Plan.of(_source_from(options), **planned)
    with _engine(options) as engine, _progress() as progress:
        keys, terms = written(
            output,
            plan,
            keys_only=options["keys_only"],
            grid=options["grid"],
            way=way,  # type: ignore[arg-type]
            force=force,
            engine=engine,
            progress=progress,
        )
    read = str(plan.source)
    if terms.max_keys is None:
        read += f", way: {way_of(plan.source, terms.sampling, way)}"  # type: ignore[arg-type]
    _print_release(read, output, keys, terms, form, progress.seen if show_private else None)


@cli.command()
@_source
@_max_keys
@_scheme
@_output
@_machine
@_format
def sample(output: str, force: bool, form: str, show_private: bool, way: str, **options: Any) -> None:
    """Draw a weighted sample of keys into a file. The sample is NOT private: sanitize it.

    \b
    Example:
      dpsample sample events.parquet --key query --scheme ppswor --tau 1e-4 -o sample.parquet
      dpsample sanitize sample.parquet --epsilon 1 --delta 1e-8 -o queries.private.parquet
    """
    from dpsample.files import check_output
    from dpsample.run import sample as draw

    _check_engine(options, False)
    sampling = _sampling_from(options)
    check_output(output, force=force)
    if options["engine"] == "spark":
        from dpsample import spark

        with spark.session(options["master"]) as session:
            found = _source_by_spark(session, options)
            drawn = spark.sample(
                found,
                sampling=sampling,
                max_keys_per_user=options["max_keys_per_user"],
                way=way,  # type: ignore[arg-type]
                partitions=options["partitions"],
            )
    else:
        source = _source_from(options)
        with _engine(options) as engine, _progress() as progress:
            drawn = draw(
                source,
                sampling=sampling,
                max_keys_per_user=options["max_keys_per_user"],
                way=way,  # type: ignore[arg-type]
                engine=engine,
                progress=progress,
            )
    drawn.write(output, force=force)
    result: dict[str, Any] = {"output": output, "private": False, "sampling": sampling.to_json()}
    if show_private:
        result["keys"] = len(drawn)
    lines = [f"Wrote {output}: a sample, NOT private; {explain_sampling(sampling)}."]
    lines += [f"Private: {len(drawn):,} keys."] if show_private else []
    lines += [f"Next: dpsample sanitize {output} --epsilon 1 --delta 1e-8 -o OUTPUT"]
    _print(result, lines, form)


@cli.command()
@click.argument("sample")
@_privacy
@_tokens
@click.option("--key", "-k", multiple=True, help="Key column of a sample that another system drew.")
@click.option("--frequency", help="Frequency column of such a sample.")
@_scheme
@_ledger
@_output
@_format
def sanitize(sample: str, output: str, force: bool, form: str, **options: Any) -> None:
    """Turn a sample into a release. The data that it was drawn from are not needed.

    A sample made by `dpsample sample` carries its scheme. For one that another system drew, state how it was drawn: a
    wrong scheme breaks privacy, and nobody can tell.

    \b
    Examples:
      dpsample sanitize sample.parquet --epsilon 1 --delta 1e-8 -o queries.private.parquet
      dpsample sanitize theirs.parquet -k k --frequency n --scheme ppswor --tau 1e-4 -e 1 -d 1e-8 -o ours.parquet
    """
    from dpsample.files import check_output
    from dpsample.run import sanitized, spent
    from dpsample.samples import Sample, read_sample

    privacy = _privacy_from(options)
    check_output(output, force=force)
    if options["key"]:
        if options["frequency"] is None:
            raise click.UsageError("--key of another system's sample goes with --frequency; add its frequency column")
        given = Sample.from_table(
            sample, key=options["key"], frequency=options["frequency"], sampling=_sampling_from(options)
        )
    else:
        if options["scheme"] != "all" or options["tau"] is not None:
            raise click.UsageError("a dpsample sample carries its scheme; leave --scheme and --tau out, or add --key")
        given = read_sample(sample)
    result = sanitized(given, privacy, options["ledger"], options["keys_only"], options["grid"], output=output)
    with spent(result.terms):
        result.write(output, force=force)
    _print_release(f"the sample {sample!r}", output, len(result), result.terms, form, None)


@cli.command()
@click.argument("file")
@_format
def info(file: str, form: str) -> None:
    """Say what a release or a sample is: its privacy, scheme and size. Shows the first keys of a release.

    \b
    Example:
      dpsample info queries.private.parquet
    """
    from dpsample.files import kind_of
    from dpsample.releases import read_release
    from dpsample.samples import read_sample

    found = read_sample(file) if kind_of(file) == "sample" else read_release(file)
    _print(found.metadata, [repr(found)], form)


@cli.command()
@click.argument("release")
@_format
def verify(release: str, form: str) -> None:
    """Check a release file, and prove all that its privacy rests on: its scheme, composition and totals.

    \b
    Example:
      dpsample verify queries.private.parquet
    """
    from dpsample.proof import prove_release
    from dpsample.releases import read_release

    found = read_release(release)
    proof = prove_release(found.terms)
    whole = f"{release}: a whole release of {len(found):,} keys"
    _print({"release": release, "keys": len(found), **proof.to_json()}, [whole, str(proof)], form)


@cli.command("certify")
@_privacy
@_max_keys
@_scheme
@_totals
@click.option("--grid", type=int, help="Tokens come in steps of 1/grid, a power of two; by epsilon unless told.")
@_format
def certify_command(grid: int | None, form: str, **options: Any) -> None:
    """Prove, in exact arithmetic, that a planned release is (epsilon, delta)-differentially private.

    One page for a reviewer to sign: whom it protects, what is spent on what, the scheme of each key, and the
    composition over a user's keys.

    \b
    Examples:
      dpsample certify --epsilon 1 --delta 1e-8
      dpsample certify --epsilon 0.1 --delta 1e-6 --scheme ppswor --tau 1e-4 --format json
      dpsample certify --epsilon 1 --delta 1e-6 --max-keys-per-user 50 --with-total
    """
    from dpsample.budget import Budget, check_share
    from dpsample.proof import prove

    size = _size_from(options)
    share = check_share(options["total_share"] if options["with_total"] else False, "the total")
    budget = Budget(
        _privacy_from(options), options["max_keys_per_user"], size.share if size else check_share(False, "size"), share
    )
    proof = prove(budget, None if size else _sampling_from(options), grid)
    _print(proof.to_json(), [str(proof)], form)


@cli.command("demo")
def demo_command() -> None:
    """Release the identifiers of Python's own standard library, and look at the result."""
    from dpsample.demo import demo

    demo(click.echo)


@cli.command()
@click.option("--output", "-o", required=True, help="Folder to make.")
@click.option("--figure", "figures", multiple=True, help="Only this figure, by its name; repeat it for several.")
@click.option("--quick", is_flag=True, help="Coarse grids, and no network.")
@click.option("--data", help="A file of your own, drawn beside the real data sets; the page is then as private as it.")
@click.option("--key", help="Key column of --data.")
@click.option("--force", is_flag=True, help="Replace a folder that this command made.")
def paper(output: str, figures: tuple[str, ...], quick: bool, data: str | None, key: str | None, force: bool) -> None:
    """Draw the paper's figures and check its claims: PNG, SVG and CSV of each, and one page of it all.

    \b
    Examples:
      dpsample paper -o paper
      dpsample paper -o nrmse --figure nrmse --quick
      dpsample paper -o words --figure real --data headlines.csv --key word
    """
    if (data is None) != (key is None):
        raise click.UsageError("--data and --key go together; found only one of them; give both")
    from dpsample.paper import build

    with _progress() as progress:
        own = None if data is None or key is None else (data, key)
        drawn = build(output, figures=figures, quick=quick, own=own, force=force, progress=progress)
    click.echo(f"Wrote {output}: {len(drawn)} figures ({', '.join(drawn)}); open {os.path.join(output, 'index.html')}")
    if own is not None:
        click.echo("NOT private: it shows your data as they are. Do not publish it.")


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the shell's completion script.

    \b
    Example:
      eval "$(dpsample completion bash)"
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "dpsample", "_DPSAMPLE_COMPLETE").source())


for _command in (query, top, quantiles):
    cli.add_command(_command)


def _source_from(options: dict[str, Any]) -> Any:
    from dpsample.source import Source

    paths = options["source"]
    return Source(
        paths[0] if len(paths) == 1 else list(paths),
        options["key"],
        options["frequency"],
        options["drop_null"],
        options["table"],
        options["query"],
        options["input_format"],
        options["user"],
    )


def _size_from(options: dict[str, Any]) -> Any:
    """The sample size that was asked for, if any."""
    if options["sample_size"] is None:
        return None
    from dpsample.sizes import SampleSize

    if options["scheme"] == "all" or options["tau"] is not None:
        found = "--tau" if options["tau"] is not None else "--scheme all"
        raise click.UsageError(
            f"--sample-size goes with --scheme ppswor or priority, and no --tau; found {found}; change it"
        )
    return SampleSize(
        options["sample_size"], options["scheme"], options["power"], options["cap"], options["size_share"]
    )


def _sampling_from(options: dict[str, Any]) -> Sampling:
    scheme, tau = options["scheme"], options["tau"]
    if scheme == "all":
        if tau is not None:
            raise click.UsageError("--tau goes with --scheme ppswor or priority; found --scheme all; leave --tau out")
        return KeepAll()
    if tau is None:
        raise click.UsageError(f"--scheme {scheme} needs --tau; found none; add, for example, --tau 1e-4")
    return (Ppswor if scheme == "ppswor" else Priority)(tau, options["power"], options["cap"])


def _privacy_from(options: dict[str, Any]) -> Privacy:
    return Privacy(options["epsilon"], options["delta"])


def _engine(options: dict[str, Any]) -> Any:
    from dpsample.engine.duckdb import DuckDB

    return DuckDB(options["memory_limit"], options["threads"], options["temp_dir"])


def _check_engine(options: dict[str, Any], show_private: bool) -> None:
    """Refuse options of the engine that is not used."""
    if options["engine"] == "spark":
        others = ["memory_limit", "threads", "temp_dir", "table", "query"]
        found = [name for name in others if options.get(name)] + ["show_private"] * show_private
    else:
        found = [name for name in ("master", "partitions") if options[name] is not None]
    if found:
        name = f"--{found[0].replace('_', '-')}"
        raise click.UsageError(f"{name} does not go with --engine {options['engine']}; leave {name} out")


def _source_by_spark(session: Any, options: dict[str, Any]) -> Any:
    from dpsample import spark
    from dpsample.source import Source

    frame = spark.read_parquet(session, list(options["source"]), options["input_format"])
    return Source(frame, options["key"], options["frequency"], options["drop_null"], user=options["user"])


def _release_by_spark(
    output: str, force: bool, way: Any, planned: dict[str, Any], options: dict[str, Any]
) -> tuple[int, str, Any]:
    """Release on a cluster: to a folder if the output's name ends with a slash, else to a file; say what was read."""
    from dpsample import spark
    from dpsample.files import check_folder, check_output
    from dpsample.plan import Plan
    from dpsample.run import spent, way_of

    folder = output.endswith("/")
    check_folder(output) if folder else check_output(output, force=force)
    how = (options["keys_only"], options["grid"], way, options["partitions"])
    with spark.session(options["master"]) as session:
        plan = Plan.of(_source_by_spark(session, options), **planned)
        partitions = spark.Spark(session, options["partitions"]).partitions
        if folder:
            keys, terms = spark.written(output, plan, *how)
        else:
            made = spark.released(plan, *how, output=output)
            keys, terms = len(made), made.terms
            with spent(terms):
                made.write(output, force=force)
    told = "" if terms.max_keys else f"way: {way_of(plan.source, terms.sampling, way)}, "
    read = f"{' '.join(options['source'])} by Spark, {told}partitions: {partitions}"
    return keys, read, terms


class _Seen:
    """Progress on a terminal; elsewhere only the last count of each stage is kept."""

    def __init__(self, bar: Any) -> None:
        self.seen: dict[str, int] = {}
        self._bar, self._tasks = bar, {}  # type: ignore[var-annotated]

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        self.seen[stage] = done
        if self._bar is not None:
            if stage not in self._tasks:
                self._tasks[stage] = self._bar.add_task(stage, total=total)
            self._bar.update(self._tasks[stage], completed=done)


@contextmanager
def _progress() -> Iterator[_Seen]:
    if not sys.stderr.isatty():
        yield _Seen(None)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        yield _Seen(bar)


def _print_release(
    read: str,
    output: str,
    keys: int,
    terms: Any,
    form: str,
    private: dict[str, int] | None,
) -> None:
    sampling, metadata = terms.sampling, terms.to_json(keys)
    result: dict[str, Any] = {
        "output": output,
        "keys": keys,
        "read": read,
        **{name: metadata[name] for name in _TOLD if name in metadata},
        "reported_from_frequency": {text(level): i for level, i in visibility(sampling, terms.per_key)},
    }
    lines = [
        f"Wrote   {output}: {keys:,} keys"
        + ("; the source is empty, or nothing could be reported" if not keys else ""),
        f"Read    {read}",
        f"Sampled {explain_sampling(sampling)}",
        *([f"Size    {explain_size(terms.size)}"] if terms.size else []),
        *([f"Total   {explain_total(terms.total)}"] if terms.total else []),
        f"Privacy {explain_privacy(terms.privacy, terms.max_keys)}",
        f"Seen    {explain_visibility(sampling, terms.per_key)}",
        *([f"Ledger  entered as {terms.ledger}"] if terms.ledger else []),
    ]
    if private is not None:
        result["NOT private"] = private
        lines.append("NOT private: " + ", ".join(f"{stage}: {n:,}" for stage, n in private.items()))
    _print(result, lines, form)


def _print(result: dict[str, Any], lines: list[str], form: str) -> None:
    click.echo(json.dumps(result, indent=2, ensure_ascii=False) if form == "json" else "\n".join(lines))


def _interrupt(signum: int, frame: Any) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command; what goes wrong becomes one line without private values, and an exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = cli(prog_name="dpsample", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        code = _fail("interrupted; no output was written", 1)
    except InvalidValue as error:
        code = _fail(str(error), 2)
    except DpsampleError as error:
        code = _fail(str(error), 1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:
        code = _fail(f"{os.strerror(error.errno) if error.errno else 'a system call failed'}; no output was written", 1)
    except Exception as error:  # an error of another library may quote the data: only its kind is shown
        if os.environ.get("DPSAMPLE_TRACEBACK"):
            raise
        code = _fail(
            f"unexpected {type(error).__name__}; no output was written; set DPSAMPLE_TRACEBACK=1 to see more, which "
            "may show private data",
            1,
        )
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> int:
    notes = getattr(sys.exception(), "__notes__", [])  # such as that its privacy is spent
    click.echo(f"dpsample: {'; '.join([message, *notes])}", err=True)
    return code


cli.add_command(ledger_commands)
