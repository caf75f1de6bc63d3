"""dpsample release, sample, sanitize: the commands that see private data."""

from typing import Any

import click

from dpsample.cli import options
from dpsample.cli.log import current_log
from dpsample.cli.printing import Made, print_release, remark, shown_stages, tell
from dpsample.errors import DpsampleError, InvalidValue
from dpsample.files import check_not_input, check_output
from dpsample.files.outputs import check_target
from dpsample.ledger.ledger import read_ledger
from dpsample.private.drawing import Written
from dpsample.private.earlier_runs import EarlierRun, lost_before, made_before
from dpsample.private.progress import Progress
from dpsample.private.request import Request
from dpsample.private.run import check_release_to, sanitize_to_file, write_release_to
from dpsample.private.run import sample as draw_sample
from dpsample.private.sample import Sample, read_sample
from dpsample.private.sources.source import Source
from dpsample.release.explain import explain_sampling
from dpsample.release.option_words import (
    read_arguments,
    read_part,
    read_parts,
    read_privacy,
    read_sampling,
)
from dpsample.release.options import AT_LEAST, PART


@click.command()
@options.source
@options.of_release(
    "max_keys_per_user",
    "discover",
    "count_share",
    "amounts",
    "prior",
    "privacy",
    "sampling",
    "size",
)
@options.of_release("keys", "only_known", "total", "keys_only", "grid", "ledger", "part")
@options.output
@options.if_missing
@options.machine
@options.done_format
def release(**given: Any) -> None:
    """Read elements, sample keys, sanitize them, and write a release that may be published.

    SOURCE is one or more files, folders or globs (Parquet, CSV, JSON lines, Arrow), on this machine or in a store
    (s3://, gs://, abfs://, https://); - for standard input, with --input-format; or a database. Columns that hive
    folders are named by (day=2026-11-01/x.parquet) are read as text.

    \b
    Examples:
      dpsample release events.parquet --key query --epsilon 1 --delta 1e-8 -o queries.private.parquet
      dpsample release s3://lake/clicks -k page --user user_id --part day=2026-11-14 -e 1 -d 1e-8 -o 14.parquet
      dpsample release counts.csv --key word --frequency n -e 0.5 -d 1e-6 -o words.private.parquet
      dpsample release 'logs/*.jsonl' -k city -k item -e 1 -d 1e-8 --scheme ppswor --tau 1e-4 -o sample.private.parquet
      dpsample release sqlite:///shop.db --table orders -k product -e 1 -d 1e-8 -o products.private.csv
      dpsample release clicks.parquet -k page --user user_id -e 1 -d 1e-8 -o pages.parquet
      dpsample release clicks.parquet -k page --user user_id --max-keys-per-user 5 -e 1 -d 1e-8 -o pages.parquet
      dpsample release orders.parquet -k product --keys catalogue.parquet -e 1 -d 1e-8 -o products.parquet
      dpsample release events.parquet -k query -e 1 -d 1e-8 --scheme ppswor --sample-size 100000 -o sample.parquet
      dpsample release events.parquet -k query -e 1 -d 1e-8 --with-total --ledger events.ledger -o queries.parquet
      dpsample release events.parquet -k query -e 1 -d 1e-8 --part day=2026-11-14 --ledger days.ledger -o 14.parquet
      dpsample release hdfs:///events -k query -e 1 -d 1e-8 --engine spark --master yarn -o queries.private/
    """
    carry_out(given)


def carry_out(given: dict[str, Any], settings: str | None = None) -> None:
    """Make a release by its options, and print what was released.

    `settings` is the SHA-256 of the file that they come from.
    """
    options.check_engine(given, given["show_private"])
    arguments = {**read_arguments(given), "settings": settings}
    if given["if_missing"]:
        _check_if_missing(given)
    if given["engine"] == "spark":
        _release_on_cluster(given, arguments)
    else:
        _release_here(given, arguments)


def _check_if_missing(given: dict[str, Any]) -> None:
    """Refuse --if-missing where no ledger knows what was released, or the output would be replaced."""
    if given["ledger"] is None:
        raise InvalidValue(
            "`if_missing` needs a ledger, which knows the releases that were made", "add `ledger`"
        )
    if given["force"]:
        raise InvalidValue(
            "`if_missing` cannot be combined with `force`, which replaces the output",
            "leave one of them out",
        )
    if given["engine"] == "spark":
        raise InvalidValue(
            "`if_missing` cannot be used with `engine=spark`", "check for the output before the job"
        )


def check(given: dict[str, Any], settings: str | None) -> None:
    """Check the options of a release, and its source if it is on this machine; nothing is read or spent."""
    options.check_engine(given, given["show_private"])
    arguments = {**read_arguments(given), "settings": settings}
    if given["engine"] == "spark":
        return
    request = Request.of(options.source_of(given), **arguments)
    with options.engine_of(given) as engine:
        check_release_to(given["output"], request, engine, given["force"])


def _release_here(given: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Release on this machine."""
    output = given["output"]
    source = options.source_of(given)
    if given["if_missing"] and _is_made(source, given, arguments):
        return
    check_not_input(output, source.inputs())
    # before the ledger: it may have no budget left because this output is there
    check_target(output, given["force"], None)
    request = Request.of(source, **arguments)
    with options.engine_of(given) as engine, shown_stages() as stages:
        progress = Progress(stages)
        written = write_release_to(
            output, request, force=given["force"], engine=engine, progress=progress
        )
    read = f"{request.source}, strategy: {written.strategy}"
    private = progress.rows if given["show_private"] else None
    entry = _logged_entry(given, written)
    print_release(Made(read, output, written, entry, private), given["form"])


def _logged_entry(given: dict[str, Any], written: Written) -> int | None:
    """Return the number of the release's entry in its ledger, if it has one, and enter it in the log."""
    if written.terms.ledger is None:
        return None
    try:
        hashes = [entry.hash for entry in read_ledger(given["ledger"]).entries]
        number = hashes.index(written.terms.ledger) + 1
    except (DpsampleError, ValueError):  # the release is there, whatever became of the ledger since
        return None
    current_log().entry(str(given["ledger"]), number, "confirmed")
    return number


def _is_made(source: Source, given: dict[str, Any], arguments: dict[str, Any]) -> bool:
    """Return whether an earlier run made this release, and say so; also say what other earlier runs left."""
    output = given["output"]
    ledger = given["ledger"]
    # a request that names no ledger: one without any budget left would refuse it
    request = Request.of(source, **(arguments | {"ledger": None}))
    made = made_before(request, ledger, output)
    for lost in lost_before(request, ledger, output):
        entry = f"Entry {lost.number} of {ledger} is reserved and was not confirmed"
        remark(f"{entry}: its run was killed, or is still under way. It stays spent.")
    if made is None:
        return False
    current_log().entry(str(ledger), made.number, made.entry.status)
    result = {
        "output": output,
        "made_before": True,
        "confirmed_now": made.confirmed_now,
        "entry": made.number,
        "ledger": ledger,
    }
    tell(result, [_words_of_made(output, made)], given["form"])
    return True


def _words_of_made(output: str, made: EarlierRun) -> str:
    """State that a release is there."""
    entry = f"entry {made.number} of its ledger"
    if made.confirmed_now:
        return (
            f"There   {output}: an earlier run wrote it, and ended before it confirmed {entry}. It is confirmed now; "
            "nothing was spent."
        )
    return f"There   {output}: {entry}, confirmed. Nothing was done or spent."


def _release_on_cluster(given: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Release on a Spark cluster."""
    from dpsample.cli.cluster import release_on_cluster

    read, written = release_on_cluster(given, arguments)
    entry = _logged_entry(given, written)
    print_release(Made(read, given["output"], written, entry), given["form"])


@click.command()
@options.source
@options.of_release("max_keys_per_user", "part")
@options.of_release("sampling", without=(AT_LEAST,))
@options.output
@options.machine
@options.done_format
def sample(**given: Any) -> None:
    """Draw a weighted sample of keys into a file. The sample is NOT private: sanitize it.

    \b
    Example:
      dpsample sample events.parquet --key query --scheme ppswor --tau 1e-4 -o sample.parquet
      dpsample sanitize sample.parquet --epsilon 1 --delta 1e-8 -o queries.private.parquet
    """
    output = given["output"]
    options.check_engine(given, False)
    sampling = read_sampling(given)
    check_output(output, force=given["force"])
    how = {
        "sampling": sampling,
        "max_keys_per_user": given["max_keys_per_user"],
        "strategy": given["strategy"],
        **read_parts(given),
    }
    if given["engine"] == "spark":
        drawn = _sample_on_cluster(given, how)
    else:
        drawn = _sample_here(given, how)
    drawn.write(output, force=given["force"])
    result: dict[str, Any] = {"output": output, "private": False, "sampling": sampling.to_json()}
    private = None
    if given["show_private"]:
        result["keys"] = len(drawn)
        private = f"{len(drawn):,} keys"
    tell(result, sample_lines(output, sampling, private), given["form"])


def sample_lines(output: str, sampling: Any, private: str | None) -> list[str]:
    """Return the lines that are printed for a sample, with `private` numbers if they were asked for."""
    lines = [f"Wrote {output}: a sample, NOT private; {explain_sampling(sampling)}."]
    if private is not None:
        lines.append(f"Private: {private}.")
    lines.append(f"Next: dpsample sanitize {output} --epsilon 1 --delta 1e-8 -o OUTPUT")
    return lines


def _sample_here(given: dict[str, Any], how: dict[str, Any]) -> Sample:
    """Draw a sample on this machine; `how` are the arguments of `dpsample.sample` beside the source."""
    source = options.source_of(given)
    check_not_input(given["output"], source.inputs())
    with options.engine_of(given) as engine, shown_stages() as stages:
        return draw_sample(source, engine=engine, progress=stages, **how)


def _sample_on_cluster(given: dict[str, Any], how: dict[str, Any]) -> Sample:
    from dpsample.cli.cluster import sample_on_cluster

    return sample_on_cluster(given, how)


@click.command()
@click.argument("sample")
@options.of_release("privacy", "keys_only", "grid")
@click.option("--key", "-k", multiple=True, help="Key column of a sample that another system drew.")
@click.option("--frequency", help="Frequency column of such a sample.")
@options.of_release("sampling", without=(AT_LEAST,))
@options.of_release("part", without=(PART,))
@options.of_release("ledger")
@options.output
@options.done_format
def sanitize(sample: str, output: str, force: bool, form: str, **given: Any) -> None:
    """Turn a sample into a release. The data that it was drawn from are not needed.

    A sample is sanitized once: two releases of one sample spend more than their sum. It is marked as used, and a ledger
    refuses a second release of it.

    A sample made by `dpsample sample` carries its scheme. For one that another system drew, state how it was drawn: a
    wrong scheme breaks privacy, and nobody can tell.

    \b
    Examples:
      dpsample sanitize sample.parquet --epsilon 1 --delta 1e-8 -o queries.private.parquet
      dpsample sanitize theirs.parquet -k k --frequency n --scheme ppswor --tau 1e-4 -e 1 -d 1e-8 -o ours.parquet
    """
    privacy = read_privacy(given)
    check_output(output, force=force)
    if given["key"]:
        drawn = _sample_of_another_system(sample, given)
    else:
        _check_carried(given)
        drawn = read_sample(sample)
    how = {name: given[name] for name in ("ledger", "keys_only", "grid")}
    written = sanitize_to_file(output, drawn, privacy=privacy, force=force, **how)
    entry = _logged_entry(given, written)
    print_release(Made(f"the sample {sample!r}", output, written, entry), form)


def _sample_of_another_system(sample: str, given: dict[str, Any]) -> Sample:
    """Read a sample that another system drew, as its options describe it."""
    if given["frequency"] is None:
        raise click.UsageError("--key needs the frequency column as well; add --frequency COLUMN")
    return Sample.from_table(
        sample,
        key=given["key"],
        frequency=given["frequency"],
        sampling=read_sampling(given),
        part_vouched=read_part(given["part_vouched"], "part_vouched"),
    )


def _check_carried(given: dict[str, Any]) -> None:
    """Refuse options that a sample of dpsample carries itself."""
    stated = {
        "--part-vouched": given["part_vouched"] is not None,
        "--scheme": given["scheme"] != "all",
        "--tau": given["tau"] is not None,
    }
    for option, is_stated in stated.items():
        if is_stated:
            raise click.UsageError(
                f"{option} cannot be used with a sample of dpsample, which carries its scheme and its part; "
                f"leave {option} out, or add --key for a sample that another system drew"
            )
