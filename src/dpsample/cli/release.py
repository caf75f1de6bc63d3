"""The commands that see private data: release, sample, sanitize."""

from typing import Any

import click

from dpsample.cli import options
from dpsample.cli.printing import print_release, progress_bar, show
from dpsample.presentation.explain import explain_sampling


@click.command()
@options.source
@options.max_keys
@click.option("--max-elements-per-key", hidden=True, help="Refused: a user counts once in each key.")
@options.privacy
@options.scheme
@options.totals
@options.tokens
@options.ledger
@options.output
@options.machine
@options.output_format
def release(output: str, force: bool, form: str, show_private: bool, way: str, **given: Any) -> None:
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
    from dpsample.private.request import Request
    from dpsample.private.run import way_of, written

    options.check_engine(given, show_private)
    size = options.size_of(given)
    planned = {
        "privacy": options.privacy_of(given),
        "sampling": None if size else options.sampling_of(given),
        "size": size,
        "max_keys_per_user": given["max_keys_per_user"],
        "max_elements_per_key": given["max_elements_per_key"],
        "total": given["total_share"] if given["with_total"] else False,
        "ledger": given["ledger"],
    }
    if given["engine"] == "spark":
        keys, read, terms = _release_by_spark(output, force, way, planned, given)
        print_release(read, output, keys, terms, form, None)
        return
    request = Request.of(options.source_of(given), **planned)
    with options.engine_of(given) as engine, progress_bar() as progress:
        keys, terms = written(
            output,
            request,
            keys_only=given["keys_only"],
            grid=given["grid"],
            way=way,  # type: ignore[arg-type]
            force=force,
            engine=engine,
            progress=progress,
        )
    read = str(request.source)
    if terms.max_keys is None:
        read += f", way: {way_of(request.source, terms.sampling, way)}"  # type: ignore[arg-type]
    print_release(read, output, keys, terms, form, progress.seen if show_private else None)


@click.command()
@options.source
@options.max_keys
@options.scheme
@options.output
@options.machine
@options.output_format
def sample(output: str, force: bool, form: str, show_private: bool, way: str, **given: Any) -> None:
    """Draw a weighted sample of keys into a file. The sample is NOT private: sanitize it.

    \b
    Example:
      dpsample sample events.parquet --key query --scheme ppswor --tau 1e-4 -o sample.parquet
      dpsample sanitize sample.parquet --epsilon 1 --delta 1e-8 -o queries.private.parquet
    """
    from dpsample.files import check_output
    from dpsample.private.run import sample as draw

    options.check_engine(given, False)
    sampling = options.sampling_of(given)
    check_output(output, force=force)
    if given["engine"] == "spark":
        from dpsample import spark

        with spark.session(given["master"]) as session:
            found = _source_by_spark(session, given)
            drawn = spark.sample(
                found,
                sampling=sampling,
                max_keys_per_user=given["max_keys_per_user"],
                way=way,  # type: ignore[arg-type]
                partitions=given["partitions"],
            )
    else:
        source = options.source_of(given)
        with options.engine_of(given) as engine, progress_bar() as progress:
            drawn = draw(
                source,
                sampling=sampling,
                max_keys_per_user=given["max_keys_per_user"],
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
    show(result, lines, form)


@click.command()
@click.argument("sample")
@options.privacy
@options.tokens
@click.option("--key", "-k", multiple=True, help="Key column of a sample that another system drew.")
@click.option("--frequency", help="Frequency column of such a sample.")
@options.scheme
@options.ledger
@options.output
@options.output_format
def sanitize(sample: str, output: str, force: bool, form: str, **given: Any) -> None:
    """Turn a sample into a release. The data that it was drawn from are not needed.

    A sample made by `dpsample sample` carries its scheme. For one that another system drew, state how it was drawn: a
    wrong scheme breaks privacy, and nobody can tell.

    \b
    Examples:
      dpsample sanitize sample.parquet --epsilon 1 --delta 1e-8 -o queries.private.parquet
      dpsample sanitize theirs.parquet -k k --frequency n --scheme ppswor --tau 1e-4 -e 1 -d 1e-8 -o ours.parquet
    """
    from dpsample.files import check_output
    from dpsample.private.run import sanitized, spent
    from dpsample.private.sample import Sample, read_sample

    privacy = options.privacy_of(given)
    check_output(output, force=force)
    if given["key"]:
        if given["frequency"] is None:
            raise click.UsageError("--key of another system's sample goes with --frequency; add its frequency column")
        drawn = Sample.from_table(
            sample, key=given["key"], frequency=given["frequency"], sampling=options.sampling_of(given)
        )
    else:
        if given["scheme"] != "all" or given["tau"] is not None:
            raise click.UsageError("a dpsample sample carries its scheme; leave --scheme and --tau out, or add --key")
        drawn = read_sample(sample)
    result = sanitized(drawn, privacy, given["ledger"], given["keys_only"], given["grid"], output=output)
    with spent(result.terms):
        result.write(output, force=force)
    print_release(f"the sample {sample!r}", output, len(result), result.terms, form, None)


def _source_by_spark(session: Any, given: dict[str, Any]) -> Any:
    from dpsample import spark
    from dpsample.private.source import Source

    frame = spark.read_parquet(session, list(given["source"]), given["input_format"])
    return Source(frame, given["key"], given["frequency"], given["drop_null"], user=given["user"])


def _release_by_spark(
    output: str, force: bool, way: Any, planned: dict[str, Any], given: dict[str, Any]
) -> tuple[int, str, Any]:
    """Release on a cluster: to a folder if the output's name ends with a slash, else to a file; say what was read."""
    from dpsample import spark
    from dpsample.files import check_folder, check_output
    from dpsample.private.request import Request
    from dpsample.private.run import spent, way_of

    folder = output.endswith("/")
    check_folder(output) if folder else check_output(output, force=force)
    how = (given["keys_only"], given["grid"], way, given["partitions"])
    with spark.session(given["master"]) as session:
        request = Request.of(_source_by_spark(session, given), **planned)
        partitions = spark.Spark(session, given["partitions"]).partitions
        if folder:
            keys, terms = spark.written(output, request, *how)
        else:
            made = spark.released(request, *how, output=output)
            keys, terms = len(made), made.terms
            with spent(terms):
                made.write(output, force=force)
    told = "" if terms.max_keys else f"way: {way_of(request.source, terms.sampling, way)}, "
    read = f"{' '.join(given['source'])} by Spark, {told}partitions: {partitions}"
    return keys, read, terms
