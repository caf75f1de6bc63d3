"""dpsample release, sample, sanitize: the commands that see private data."""

from typing import Any

import click

from dpsample.cli import options
from dpsample.cli.printing import print_release, show, shown_stages
from dpsample.release.explain import explain_sampling


@click.command()
@options.source
@options.max_keys
@options.discovery
@options.privacy
@options.scheme
@options.at_least
@options.known
@options.totals
@options.tokens
@options.ledger
@options.part
@options.output
@options.machine
@options.output_format
def release(**given: Any) -> None:
    """Read elements, sample keys, sanitize them, and write a release that may be published.

    SOURCE is one or more files, folders or globs (Parquet, CSV, JSON lines, Arrow), or a database.

    \b
    Examples:
      dpsample release events.parquet --key query --epsilon 1 --delta 1e-8 -o queries.private.parquet
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
    carry_out(**given)


def carry_out(
    output: str,
    force: bool,
    form: str,
    show_private: bool,
    settings: str | None = None,
    dry_run: bool = False,
    **given: Any,
) -> None:
    """Make a release by its options, and print what was released; a dry run only checks them.

    `settings` is the SHA-256 of the file that they come from.
    """
    options.check_engine(given, show_private)
    wanted = {**options.release_options(given), "settings": settings}
    if given["engine"] == "spark":
        if dry_run:
            return
        written, source = _release_by_spark(output, force, given, wanted)
        print_release(source, output, written.keys, written.terms, form, None)
        return
    from dpsample.private.progress import Progress
    from dpsample.private.request import Request
    from dpsample.private.run import check_release_to, write_release_to

    request = Request.of(options.source_of(given), **wanted)
    with options.engine_of(given) as engine, shown_stages() as stages:
        if dry_run:
            check_release_to(output, request, engine, force)
            return
        progress = Progress(stages)
        written = write_release_to(output, request, force=force, engine=engine, progress=progress)
    source = f"{request.source}, strategy: {written.strategy}"
    print_release(source, output, written.keys, written.terms, form, progress.rows if show_private else None)


@click.command()
@options.source
@options.max_keys
@options.part
@options.scheme
@options.output
@options.machine
@options.output_format
def sample(output: str, force: bool, form: str, show_private: bool, **given: Any) -> None:
    """Draw a weighted sample of keys into a file. The sample is NOT private: sanitize it.

    \b
    Example:
      dpsample sample events.parquet --key query --scheme ppswor --tau 1e-4 -o sample.parquet
      dpsample sanitize sample.parquet --epsilon 1 --delta 1e-8 -o queries.private.parquet
    """
    from dpsample.files import check_not_input, check_output

    options.check_engine(given, False)
    sampling = options.sampling_of(given)
    check_output(output, force=force)
    how = {"sampling": sampling, "max_keys_per_user": given["max_keys_per_user"], "strategy": given["strategy"]}
    how |= options.parts_of(given)
    if given["engine"] == "spark":
        from dpsample import spark

        with spark.session(given["master"]) as session:
            source = options.spark_source_of(session, given)
            check_not_input(output, source.inputs())
            drawn = spark.sample(source, partitions=given["partitions"], **how)
    else:
        from dpsample.private.run import sample as draw

        source = options.source_of(given)
        check_not_input(output, source.inputs())
        with options.engine_of(given) as engine, shown_stages() as stages:
            drawn = draw(source, engine=engine, progress=stages, **how)
    drawn.write(output, force=force)
    result: dict[str, Any] = {"output": output, "private": False, "sampling": sampling.to_json()}
    if show_private:
        result["keys"] = len(drawn)
    lines = [f"Wrote {output}: a sample, NOT private; {explain_sampling(sampling)}."]
    lines += [f"Private: {len(drawn):,} keys."] if show_private else []
    lines += [f"Next: dpsample sanitize {output} --epsilon 1 --delta 1e-8 -o OUTPUT"]
    show(result, lines, form)


@click.command()
@click.argument("sample")
@options.privacy
@options.tokens
@click.option("--key", "-k", multiple=True, help="Key column of a sample that another system drew.")
@click.option("--frequency", help="Frequency column of such a sample.")
@options.scheme
@options.part_vouched
@options.ledger
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
    from dpsample.files import check_output
    from dpsample.private.run import sanitize_to_file
    from dpsample.private.sample import Sample, read_sample

    privacy = options.privacy_of(given)
    check_output(output, force=force)
    if given["key"]:
        if given["frequency"] is None:
            raise click.UsageError(
                "--key, of a sample that another system drew, goes with --frequency; found --key alone; add the "
                "frequency column"
            )
        drawn = Sample.from_table(
            sample,
            key=given["key"],
            frequency=given["frequency"],
            sampling=options.sampling_of(given),
            part_vouched=options.part_of(given["part_vouched"], "--part-vouched"),
        )
    else:
        if given["part_vouched"] is not None:
            raise click.UsageError(
                "a dpsample sample carries its part; found --part-vouched; leave it out, or add --key"
            )
        if given["scheme"] != "all" or given["tau"] is not None:
            raise click.UsageError(
                "a dpsample sample carries its scheme; found --scheme or --tau; leave them out, or add --key"
            )
        drawn = read_sample(sample)
    written = sanitize_to_file(
        output,
        drawn,
        privacy=privacy,
        ledger=given["ledger"],
        keys_only=given["keys_only"],
        grid=given["grid"],
        force=force,
    )
    print_release(f"the sample {sample!r}", output, written.keys, written.terms, form, None)


def _release_by_spark(output: str, force: bool, given: dict[str, Any], wanted: dict[str, Any]) -> tuple[Any, str]:
    """Release on a cluster; return what was written, and say what was read."""
    from dpsample import spark
    from dpsample.files import check_folder, check_output
    from dpsample.private.engine.spark.jobs import write_release_to
    from dpsample.private.request import Request

    check_folder(output) if output.endswith("/") else check_output(output, force=force)
    with spark.session(given["master"]) as session:
        request = Request.of(options.spark_source_of(session, given), **wanted)
        divided = spark.Spark(session, given["partitions"]).partitions
        written = write_release_to(output, request, force, given["partitions"])
    return written, f"{' '.join(given['source'])} by Spark, strategy: {written.strategy}, partitions: {divided}"
