"""dpsample release, sample, sanitize: the commands that see private data."""

from typing import Any

import click

from dpsample.cli import options
from dpsample.cli.printing import print_release, show, shown_stages
from dpsample.files import check_folder, check_not_input, check_output
from dpsample.private.progress import Progress
from dpsample.private.request import Request
from dpsample.private.run import check_release_to, sanitize_to_file, write_release_to
from dpsample.private.run import sample as draw_sample
from dpsample.private.sample import Sample, read_sample
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
@options.machine
@options.output_format
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
    if given["engine"] == "spark":
        _release_by_spark(given, arguments)
    else:
        _release_here(given, arguments)


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
    request = Request.of(options.source_of(given), **arguments)
    with options.engine_of(given) as engine, shown_stages() as stages:
        progress = Progress(stages)
        written = write_release_to(
            output, request, force=given["force"], engine=engine, progress=progress
        )
    source = f"{request.source}, strategy: {written.strategy}"
    private = progress.rows if given["show_private"] else None
    print_release(source, output, written.keys, written.terms, given["form"], private)


def _release_by_spark(given: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Release on a cluster."""
    from dpsample import spark
    from dpsample.private.engine.spark import jobs

    output, force = given["output"], given["force"]
    if output.endswith("/"):
        check_folder(output)
    else:
        check_output(output, force=force)
    with spark.session(given["master"]) as session:
        request = Request.of(options.spark_source_of(session, given), **arguments)
        divided = spark.Spark(session, given["partitions"]).partitions
        written = jobs.write_release_to(output, request, force, given["partitions"])
    source = (
        f"{' '.join(given['source'])} by Spark, strategy: {written.strategy}, partitions: {divided}"
    )
    print_release(source, output, written.keys, written.terms, given["form"], None)


@click.command()
@options.source
@options.of_release("max_keys_per_user", "part")
@options.of_release("sampling", without=(AT_LEAST,))
@options.output
@options.machine
@options.output_format
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
    named = {name: given[name] for name in ("max_keys_per_user", "strategy")}
    how = {"sampling": sampling, **named, **read_parts(given)}
    drawn = _sample_by_spark(given, how) if given["engine"] == "spark" else _sample_here(given, how)
    drawn.write(output, force=given["force"])
    private = f"{len(drawn):,} keys" if given["show_private"] else None
    result: dict[str, Any] = {"output": output, "private": False, "sampling": sampling.to_json()}
    if private is not None:
        result["keys"] = len(drawn)
    show(result, sample_lines(output, sampling, private), given["form"])


def sample_lines(output: str, sampling: Any, private: str | None) -> list[str]:
    """Return the lines that are printed for a sample, with `private` numbers if they were asked for."""
    lines = [f"Wrote {output}: a sample, NOT private; {explain_sampling(sampling)}."]
    lines += [] if private is None else [f"Private: {private}."]
    return [*lines, f"Next: dpsample sanitize {output} --epsilon 1 --delta 1e-8 -o OUTPUT"]


def _sample_here(given: dict[str, Any], how: dict[str, Any]) -> Sample:
    source = options.source_of(given)
    check_not_input(given["output"], source.inputs())
    with options.engine_of(given) as engine, shown_stages() as stages:
        return draw_sample(source, engine=engine, progress=stages, **how)


def _sample_by_spark(given: dict[str, Any], how: dict[str, Any]) -> Sample:
    from dpsample import spark

    with spark.session(given["master"]) as session:
        source = options.spark_source_of(session, given)
        check_not_input(given["output"], source.inputs())
        return spark.sample(source, partitions=given["partitions"], **how)


@click.command()
@click.argument("sample")
@options.of_release("privacy", "keys_only", "grid")
@click.option("--key", "-k", multiple=True, help="Key column of a sample that another system drew.")
@click.option("--frequency", help="Frequency column of such a sample.")
@options.of_release("sampling", without=(AT_LEAST,))
@options.of_release("part", without=(PART,))
@options.of_release("ledger")
@options.output
@options.output_format
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
    print_release(f"the sample {sample!r}", output, written.keys, written.terms, form, None)


def _sample_of_another_system(sample: str, given: dict[str, Any]) -> Sample:
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
    for option, given_twice in stated.items():
        if given_twice:
            raise click.UsageError(
                f"{option} cannot be used with a sample of dpsample, which carries its scheme and its part; "
                f"leave {option} out, or add --key for a sample that another system drew"
            )
