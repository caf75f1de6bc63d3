"""What is refused, and in which words: Spark's own messages may quote the data, and go no further.

A message selects one sentence of a closed list, and no part of it is passed on: data that look like an error of ours
can at worst select the wrong sentence.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from dpsample.errors import DpsampleError, InvalidValue, SystemFailure
from dpsample.private.engine.errors import refusal_of_mark

_T = TypeVar("_T")

_FILES = (
    InvalidValue,
    (
        "the files must be there, whole and readable by Spark",
        "some that are not",
        "check the path and the files",
    ),
)
_WORKER = (
    SystemFailure,
    (
        "every worker needs dpsample, and what it needs, in its Python",
        "one that lacks it",
        "install it there, or send it with the job (spark.archives); PYSPARK_PYTHON says which Python is used",
    ),
)
_SCHEME = (
    InvalidValue,
    (
        "a scheme states a probability for every frequency, and it does not decrease",
        "one that breaks this on a worker",
        "state the scheme with which keys are really sampled, for all frequencies that may occur",
    ),
)
_KNOWN: Final = {  # what a message holds -> what is said instead
    "No module named 'dpsample": _WORKER,
    "No module named 'pyarrow": _WORKER,
    "No module named 'numpy": _WORKER,
    "No module named 'cryptography": _WORKER,
    "No module named 'pandas": _WORKER,
    "JAVA_GATEWAY_EXITED": (
        SystemFailure,
        ("Spark must start", "that it did not", "install Java 17, and set JAVA_HOME"),
    ),
    "maxResultSize": (
        SystemFailure,
        (
            "a release that is held in memory must fit into the driver",
            "one that does not",
            "write it with release_to_folder, or raise spark.driver.maxResultSize",
        ),
    ),
    "InvalidValue: a sampled key has a positive probability of being sampled;": (
        InvalidValue,
        (
            "a sampled key has a positive probability of being sampled",
            "a key that this scheme never samples",
            "state the scheme with which the sample was really drawn",
        ),
    ),
    "InvalidValue: with grid ": (
        InvalidValue,
        ("frequencies times the grid stay below 2**63", "one that does not", "choose a smaller grid"),
    ),
    "InvalidValue: q must ": _SCHEME,
    "InvalidValue: every frequency must be within the sequence of q;": _SCHEME,
    " must be accessible; found ": (
        SystemFailure,
        (
            "every worker must be able to write into the folder",
            "one that could not",
            "choose a folder that all of them see, and check its permissions and the space left",
        ),
    ),
    "PATH_NOT_FOUND": _FILES,
    "Path does not exist": _FILES,
    "UNABLE_TO_INFER_SCHEMA": _FILES,
    "CANNOT_READ": _FILES,
    "is not a Parquet file": _FILES,
}


def missing() -> InvalidValue:
    """Return the refusal to work without Spark."""
    return InvalidValue(
        "the Spark engine needs pyspark", "that it is not installed", "run: pip install 'dpsample[spark]'"
    )


def refusal(error: BaseException, columns: Sequence[str]) -> DpsampleError:
    """Put an error of Spark into words that show nothing of the data."""
    message = str(error)
    if marked := refusal_of_mark(message, columns):
        return marked
    for words, (kind, sentence) in _KNOWN.items():
        if words in message:
            return kind(*sentence)
    return SystemFailure(
        "the Spark job must come to its end",
        f"that it did not ({type(error).__name__})",
        "look at its pages and logs, which may show private data; nothing was written",
    )


def translated(work: Callable[[], _T], columns: Sequence[str]) -> _T:
    """Do some work of Spark; an error of its is replaced, and not even kept as a context."""
    try:
        return work()
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j", "grpc", "pyarrow"):
            raise
        problem = refusal(error, columns)
    raise problem
