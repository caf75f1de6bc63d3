"""What `release` and `sample` do on a Spark cluster; imported with `--engine spark` alone, since it needs PySpark."""

from collections.abc import Mapping
from typing import Any

from dpsample import spark
from dpsample.files import check_folder, check_not_input, check_output
from dpsample.private.drawing import Written
from dpsample.private.engine.spark import jobs
from dpsample.private.request import Request
from dpsample.private.sample import Sample
from dpsample.private.sources.source import Source

Stated = Mapping[str, Any]
_OF_A_SOURCE = (
    "key",
    "frequency",
    "drop_null",
    "filter",
    "user",
)  # options that a `Source` has by the same name


def release_on_cluster(given: Stated, arguments: Mapping[str, Any]) -> tuple[str, Written]:
    """Make a release; return what was read and how, in words, and what was written."""
    output = given["output"]
    force = given["force"]
    if output.endswith("/"):
        check_folder(output)
    else:
        check_output(output, force=force)
    with spark.session(given["master"]) as session:
        request = Request.of(_source_of(session, given), **arguments)
        partitions = spark.Spark(session, given["partitions"]).partitions
        written = jobs.write_release_to(output, request, force, given["partitions"])
    sources = " ".join(given["source"])
    read = f"{sources} by Spark, strategy: {written.strategy}, partitions: {partitions}"
    return read, written


def sample_on_cluster(given: Stated, how: Mapping[str, Any]) -> Sample:
    """Draw a sample; `how` are the arguments of `dpsample.sample` beside the source."""
    with spark.session(given["master"]) as session:
        source = _source_of(session, given)
        check_not_input(given["output"], source.inputs())
        return spark.sample(source, partitions=given["partitions"], **how)


def _source_of(session: Any, given: Stated) -> Source:
    """Return the source that the options describe, as Spark reads it."""
    frame = spark.read_parquet(session, list(given["source"]), given["input_format"])
    same_name = {name: given[name] for name in _OF_A_SOURCE}
    return Source(frame, key_as=given["key_as"] or None, **same_name)
