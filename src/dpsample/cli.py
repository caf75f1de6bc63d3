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
from dpsample.errors import DpsampleError, InvalidValue
from dpsample.exact import text
from dpsample.explain import explain_privacy, explain_sampling, explain_visibility, visibility
from dpsample.privacy import Privacy
from dpsample.scheme import KeepAll, Ppswor, Priority, Sampling, certify

Command = TypeVar("Command", bound=Callable[..., Any])


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
    click.option("--drop-null", is_flag=True, help="Leave out rows whose key is NULL, instead of refusing them."),
    click.option("--table", help="Table of a database (SOURCE is postgresql://... or sqlite:///...)."),
    click.option("--query", help="SELECT to read from a database, instead of a table."),
    click.option("--input-format", help="parquet, csv, tsv, jsonl or arrow, where the extension does not tell."),
)
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
    click.option("--output", "-o", required=True, help="File to write: .parquet, .csv or .arrow."),
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
@_privacy
@_scheme
@_tokens
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
    """
    from dpsample.run import release_to_file, way_of

    source, sampling, privacy = _source_from(options), _sampling_from(options), _privacy_from(options)
    with _engine(options) as engine, _progress() as progress:
        keys = release_to_file(
            output,
            source,
            privacy=privacy,
            sampling=sampling,
            keys_only=options["keys_only"],
            grid=options["grid"],
            way=way,  # type: ignore[arg-type]
            force=force,
            engine=engine,
            progress=progress,
        )
    taken = way_of(source, sampling, way)  # type: ignore[arg-type]
    private = progress.seen if show_private else None
    _print_release(f"{source}, way: {taken}", output, keys, privacy, sampling, form, private)


@cli.command()
@_source
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

    source, sampling = _source_from(options), _sampling_from(options)
    check_output(output, force=force)
    with _engine(options) as engine, _progress() as progress:
        drawn = draw(source, sampling=sampling, way=way, engine=engine, progress=progress)  # type: ignore[arg-type]
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
    from dpsample.run import sanitize as apply
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
    result = apply(given, privacy=privacy, keys_only=options["keys_only"], grid=options["grid"])
    result.write(output, force=force)
    _print_release(f"the sample {sample!r}", output, len(result), privacy, given.sampling, form, None)


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
    """Check a release file, and prove that the scheme it was made with keeps its privacy.

    \b
    Example:
      dpsample verify queries.private.parquet
    """
    from dpsample.releases import read_release

    found = read_release(release)
    certificate = certify(found.sampling, found.privacy, found.grid or 1)
    whole = f"{release}: a whole release of {len(found):,} keys"
    _print({"release": release, "keys": len(found), **certificate.to_json()}, [whole, str(certificate)], form)


@cli.command("certify")
@_privacy
@_scheme
@click.option("--grid", type=int, help="Tokens come in steps of 1/grid, a power of two; by epsilon unless told.")
@_format
def certify_command(grid: int | None, form: str, **options: Any) -> None:
    """Prove, in exact arithmetic, that a scheme is (epsilon, delta)-differentially private.

    \b
    Examples:
      dpsample certify --epsilon 1 --delta 1e-8
      dpsample certify --epsilon 0.1 --delta 1e-6 --scheme ppswor --tau 1e-4 --format json
    """
    certificate = certify(_sampling_from(options), _privacy_from(options), grid)
    _print(certificate.to_json(), [str(certificate)], form)


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
    privacy: Privacy,
    sampling: Sampling,
    form: str,
    private: dict[str, int] | None,
) -> None:
    result: dict[str, Any] = {
        "output": output,
        "keys": keys,
        "read": read,
        "privacy": privacy.to_json(),
        "unit": "element",
        "sampling": sampling.to_json(),
        "reported_from_frequency": {text(level): i for level, i in visibility(sampling, privacy)},
    }
    lines = [
        f"Wrote   {output}: {keys:,} keys"
        + ("; the source is empty, or nothing could be reported" if not keys else ""),
        f"Read    {read}",
        f"Sampled {explain_sampling(sampling)}",
        f"Privacy {explain_privacy(privacy)}",
        f"Seen    {explain_visibility(sampling, privacy)}",
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
    click.echo(f"dpsample: {message}", err=True)
    return code
