"""What is refused, and in which words: Spark's own messages may quote the data, and go no further.

A message selects one sentence of a closed list, and no part of it is passed on. Rows cannot select one: a condition on
rows raises a mark that no row can have, and of other messages only the beginning is looked at, which is Spark's, and of
a traceback the first error, where a row comes after the name of its class.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from dpsample.errors import DpsampleError, InvalidValue, SystemFailure
from dpsample.extras import not_installed, packages_of
from dpsample.private.engine.errors import refusal_of_mark

_T = TypeVar("_T")

# The sentences: the class of the refusal, what is wrong, and what to do.
_FILES = (
    InvalidValue,
    (
        "some files are missing, damaged or not readable by Spark",
        "check the path and the files",
    ),
)
_WORKER = (
    SystemFailure,
    (
        "a worker lacks dpsample, or a package that it needs, in its Python",
        "install it there, or send it with the job (spark.archives); PYSPARK_PYTHON says which Python is used",
    ),
)
_SCHEME = (
    InvalidValue,
    (
        "the scheme must state a probability for every frequency, and it must not decrease",
        "state the scheme with which keys are really sampled, for all frequencies that may occur",
    ),
)
# what Spark puts before the message of the error that ended a job
_CLASS = r"(?:\(?[\w.$]+(?:Exception|Error)\)?:? )?"
_LOST = r"Lost task [^\n()]*\([^\n()]*\) \([^\n()]*\): "
_TASK = rf"(?:Task \d+ in stage [\d.]+ failed \d+ times?, most recent failure: {_LOST})?"
_BEFORE: Final = re.compile(
    rf"\s*(?:An error occurred while calling \S+\s+: )?{_CLASS}(?:Job aborted due to stage failure: )?{_TASK}{_CLASS}"
    r"(?:An exception was thrown from the Python worker[^\n]*\s+)?"
)
# Errors of these libraries may quote rows.
_LIBRARIES: Final = ("pyspark", "py4j", "grpc", "pyarrow")
_TRACEBACK: Final = "Traceback (most recent call last):"
# How a message begins, or an error that a worker raised -> the sentence that is said instead.
_KNOWN: Final = {
    r"ModuleNotFoundError: No module named '(dpsample|pyarrow|numpy|cryptography|pandas)\b": _WORKER,
    r"\[JAVA_GATEWAY_EXITED\]": (
        SystemFailure,
        ("Spark did not start", "install Java 17, and set JAVA_HOME"),
    ),
    r"Total size of serialized results of ": (
        SystemFailure,
        (
            "the release does not fit into the memory of the driver",
            "write it with release_to_folder, or raise spark.driver.maxResultSize",
        ),
    ),
    r"dpsample\.errors\.InvalidValue: a sampled key has a positive probability of being sampled\b": (
        InvalidValue,
        (
            "the sample has a key that this scheme never samples",
            "state the scheme with which the sample was really drawn",
        ),
    ),
    r"dpsample\.errors\.InvalidValue: with grid ": (
        InvalidValue,
        ("a frequency times the grid is not below 2**63", "choose a smaller grid"),
    ),
    r"dpsample\.errors\.InvalidValue: q must ": _SCHEME,
    r"dpsample\.errors\.InvalidValue: every frequency must be within the sequence of q\b": _SCHEME,
    r"dpsample\.errors\.\w+: .* must be accessible\b": (
        SystemFailure,
        (
            "a worker could not write into the folder",
            "choose a folder that all of them see, and check its permissions and the space left",
        ),
    ),
    r"\[(PATH_NOT_FOUND|UNABLE_TO_INFER_SCHEMA|FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER)\b": _FILES,
    r"Path does not exist": _FILES,
}


def missing() -> InvalidValue:
    """Return the refusal to work without Spark."""
    return not_installed("pyspark is not installed", *packages_of("spark"))


def refusal(error: BaseException, columns: Sequence[str]) -> DpsampleError:
    """Put an error of Spark into words that show nothing of the data."""
    message = str(error)
    if marked := refusal_of_mark(message, r"\[USER_RAISED_EXCEPTION\] ", columns):
        return marked
    said = _error_of(message)
    for words, (kind, sentence) in _KNOWN.items():
        if re.match(words, said):
            return kind(*sentence)
    return SystemFailure(
        f"the Spark job failed ({type(error).__name__})",
        "look at its pages and logs, which may show private data; nothing was written",
    )


def _error_of(message: str) -> str:
    """Return what comes after Spark's own words in a message; of a worker's traceback, its first error.

    >>> _error_of("An error occurred while calling o1.x.\\n: java.io.IOException: [PATH_NOT_FOUND] Path")
    '[PATH_NOT_FOUND] Path'
    >>> _error_of("Traceback (most recent call last):\\n  File 'x', line 1, in q\\nValueError: a\\nKeyError: b")
    'ValueError: a'
    """
    before = _BEFORE.match(message)
    said = message[before.end() :] if before else message
    if not said.startswith(_TRACEBACK):
        return said
    for line in said.splitlines()[1:]:
        if line and not line[0].isspace():
            return line
    return ""


def translated(work: Callable[[], _T], columns: Sequence[str]) -> _T:
    """Do some work of Spark; an error of its own is replaced, and not even kept as a context."""
    try:
        return work()
    except Exception as error:
        library = type(error).__module__.partition(".")[0]
        if library not in _LIBRARIES:
            raise
        problem = refusal(error, columns)
    raise problem
