"""What is refused, and in which words: DuckDB's own messages may quote the data, and go no further."""

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import duckdb
import pyarrow as pa

from dpsample.errors import DpsampleError, InvalidValue, SystemFailure
from dpsample.private.engine.errors import MARK, refusal_of_mark

_T = TypeVar("_T")

# Of DuckDB, Arrow and the system. Other classes may be those of the caller, whose generator of keys failed.
_ERRORS = (duckdb.Error, pa.ArrowException, OSError, EOFError, zlib.error, UnicodeError, MemoryError)


def raise_sql(code: str) -> str:
    """Return SQL that ends a statement with a marked error."""
    return f"error('{MARK}:{code}')"


def is_out_of_memory(error: Exception) -> bool:
    """Whether less at a time might work."""
    return "Out of Memory Error" in str(error)[:40] and "temp_directory_size" not in str(error)


def refusal(error: Exception, location: str, columns: Sequence[str]) -> BaseException:
    """Put an error of DuckDB or Arrow into words that show nothing of the data."""
    message = str(error)
    if marked := refusal_of_mark(message, columns):
        return marked
    # Ctrl-C while DuckDB calls Python, as to read Arrow, becomes an error of its own
    if isinstance(error, duckdb.InterruptException) or "failed: KeyboardInterrupt" in message:
        return KeyboardInterrupt()
    if "No space left" in message or "temp_directory_size" in message:
        return SystemFailure(
            "temporary files need room on the disk", "none left", "free some, or choose another temp_dir"
        )
    if is_out_of_memory(error) or isinstance(error, MemoryError):
        return SystemFailure(
            "the work must fit into the memory limit", "too little", "raise or set memory_limit, or use fewer threads"
        )
    if isinstance(error, duckdb.FatalException):  # DuckDB does nothing more after an error inside itself
        return SystemFailure(
            "DuckDB must be able to go on",
            f"that it stopped at a fault of {location}, or of a source before it",
            "check the files, and use a new engine",
        )
    rule, remedy = f"{location} must be whole and readable", "check the file, or write it anew"
    if line := re.search(r"CSV (Error on Line: (\d+)|Parser)", message):
        near = f" near line {line[2]}" if line[2] else ""
        return InvalidValue(
            rule,
            f"a broken row of CSV{near}",
            "check its quotes and line ends, and state its delimiter=... or encoding=... if they are not as usual",
        )
    if line := re.search(r"JSON.* in line (\d+)", message):
        return InvalidValue(rule, f"a broken line of JSON near line {line[1]}", "write one object on each line")
    return InvalidValue(rule, f"one that is not ({type(error).__name__})", remedy)


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
        name, interrupted = type(error).__name__, str(error) == "Query interrupted"
    if interrupted:  # by Ctrl-C
        raise KeyboardInterrupt
    raise duckdb.Error(name)


def translated(produce: Callable[[], Iterator[_T]], location: str, columns: Sequence[str]) -> Iterator[_T]:
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
