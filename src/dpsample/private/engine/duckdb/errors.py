"""What is refused, and in which words: DuckDB's own messages may quote the data, and go no further.

A message may quote a row anywhere but at its start. So what an error is follows from its class, from how its message
begins, or from a mark that no row can have; the rest is searched for nothing.
"""

import errno
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import duckdb
import pyarrow as pa

from dpsample.errors import DpsampleError, InvalidValue, SystemFailure
from dpsample.private.engine.errors import MARK, refusal_of_mark

_T = TypeVar("_T")

# Errors of DuckDB, Arrow and the system. Other classes may be those of the caller, whose generator of keys failed.
_ERRORS = (
    duckdb.Error,
    pa.ArrowException,
    OSError,
    EOFError,
    zlib.error,
    UnicodeError,
    MemoryError,
)


def raise_sql(code: str) -> str:
    """Return SQL that ends a statement with a marked error."""
    return f"error('{MARK}:{code}')"


def is_out_of_memory(error: Exception) -> bool:
    """Whether less at a time might work."""
    return str(error).startswith("Out of Memory Error: ") and not _is_out_of_space(error)


def _is_out_of_space(error: Exception) -> bool:
    """Whether temporary files have no room: neither of these messages quotes rows."""
    message = str(error)
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno == errno.ENOSPC
    if message.startswith("Out of Memory Error: "):
        return "temp_directory_size" in message
    return message.startswith("IO Error: ") and "No space left" in message


# How DuckDB's messages about broken rows begin. Their group is the number of the line.
_BROKEN_CSV = re.compile(r"Invalid Input Error: (?:CSV Error on Line: (\d+)|The CSV Parser )")
_BROKEN_JSON = re.compile(
    r"Invalid Input Error: (?:Malformed JSON|JSON transform error) in file .*?,(?: at byte \d+)? in line (\d+)"
)


def refusal(error: Exception, location: str, columns: Sequence[str]) -> BaseException:
    """Put an error of DuckDB or Arrow into words that show nothing of the data."""
    message = str(error)
    if marked := refusal_of_mark(message, r"\A(?:Invalid Input Error: )?", columns):
        return marked
    if isinstance(error, duckdb.InterruptException):
        return KeyboardInterrupt()
    if _is_out_of_space(error):
        return SystemFailure(
            "the disk has no room left for temporary files",
            "free some, or choose another `temp_dir`",
        )
    if is_out_of_memory(error) or isinstance(error, MemoryError):
        return SystemFailure(
            "the work does not fit into the memory limit",
            "raise or set `memory_limit`, or use fewer `threads`",
        )
    if isinstance(error, duckdb.FatalException):  # after an error inside itself, DuckDB stops
        return SystemFailure(
            f"DuckDB stopped at a fault of {location}, or of a source before it",
            "check the files, and use a new engine",
        )
    if line := _BROKEN_CSV.match(message):
        near = f" near line {line[1]}" if line[1] else ""
        return InvalidValue(
            f"{location} has a broken row of CSV{near}",
            "check its quotes and line ends, and state its `delimiter=...` or `encoding=...` if they are not as usual",
        )
    if line := _BROKEN_JSON.match(message):
        return InvalidValue(
            f"{location} has a broken line of JSON near line {line[1]}",
            "write one object on each line",
        )
    return InvalidValue(
        f"{location} is not whole and readable ({type(error).__name__})",
        "check the file, or write it anew",
    )


def called(work: Callable[[], _T]) -> _T:
    """Return what a call of DuckDB, or a reader of files, returns; an error of any other class becomes one of DuckDB's.

    DuckDB's Python layer raises others as well: a RuntimeError where a column's name is not UTF-8. Their text is
    dropped. No code of the caller may run in `work`: its errors would be dropped too.
    """
    try:
        return work()
    except (DpsampleError, *_ERRORS):
        raise
    except Exception as error:
        name = type(error).__name__
        is_interrupt = isinstance(error, RuntimeError) and str(error) == "Query interrupted"
    if is_interrupt:  # by Ctrl-C
        raise KeyboardInterrupt
    raise duckdb.Error(name)


def translated(
    produce: Callable[[], Iterator[_T]], location: str, columns: Sequence[str]
) -> Iterator[_T]:
    """Yield from an iterator; an error of DuckDB or Arrow is replaced, and not even kept as a context."""
    iterator = produce()
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        except _ERRORS as error:
            problem = refusal(error, location, columns)
        else:
            yield item
            continue
        raise problem
