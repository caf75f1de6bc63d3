"""What is refused, and in which words: Spark's own messages may quote the data, and go no further."""

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from dpsample.errors import DpsampleError, InvalidValue, SystemFailure
from dpsample.private.engine.errors import MARK, marked

_T = TypeVar("_T")


def missing() -> InvalidValue:
    """Return the refusal to work without Spark."""
    return InvalidValue(
        "the Spark engine needs pyspark", "that it is not installed", "run: pip install 'dpsample[spark]'"
    )


def refusal(error: BaseException, keys: Sequence[str]) -> DpsampleError:
    """Put an error of Spark into words that show nothing of the data."""
    message = str(error)
    if mark := re.search(rf"{MARK}:(\w+)(?::(\d+))?", message):
        if mark[1] == "twice":
            return InvalidValue(
                "a sample has each key once",
                "at least one key in several rows",
                "sum the frequencies of each key before sampling; two samples cannot be merged by stacking them",
            )
        return marked(mark[1], keys[int(mark[2])] if mark[2] else "")
    # raised by our own code on a worker, in words that show nothing
    if told := re.search(r"dpsample\.errors\.(InvalidValue|SystemFailure): (.+?); found (.+?); (.+)", message):
        kind: type[InvalidValue | SystemFailure] = InvalidValue if told[1] == "InvalidValue" else SystemFailure
        return kind(told[2], told[3], told[4].strip())
    if re.search(r"No module named '?(dpsample|pyarrow|numpy|cryptography|pandas)\b", message):
        return SystemFailure(
            "every worker needs dpsample, and what it needs, in its Python",
            "one that lacks it",
            "install it there, or send it with the job (spark.archives); PYSPARK_PYTHON says which Python is used",
        )
    if "JAVA_GATEWAY_EXITED" in message:
        return SystemFailure("Spark must start", "that it did not", "install Java 17, and set JAVA_HOME")
    if "maxResultSize" in message:
        return SystemFailure(
            "a release that is held in memory must fit into the driver",
            "one that does not",
            "write it with release_to_folder, or raise spark.driver.maxResultSize",
        )
    if re.search(
        r"PATH_NOT_FOUND|Path does not exist|UNABLE_TO_INFER_SCHEMA|CANNOT_READ|is not a Parquet file", message
    ):
        return InvalidValue(
            "the files must be there, whole and readable by Spark", "some that are not", "check the path and the files"
        )
    return SystemFailure(
        "the Spark job must come to its end",
        f"that it did not ({type(error).__name__})",
        "look at its pages and logs, which may show private data; nothing was written",
    )


def translated(work: Callable[[], _T], keys: Sequence[str]) -> _T:
    """Do some work of Spark; an error of its is replaced, and not even kept as a context."""
    try:
        return work()
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j", "grpc"):
            raise
        problem = refusal(error, keys)
    raise problem
