"""What dpsample raises.

    Exception
    └── DpsampleError            everything below
        ├── InvalidValue         an argument or the data break a rule (also a ValueError)
        │   ├── OutputExists     an output is there already, and is not replaced
        │   └── BudgetSpent      a ledger has no room for a release
        ├── SystemFailure        the machine could not: no space, no memory, a broken disk
        └── PrivacyViolation     a check of a privacy guarantee failed

    UserWarning
    └── DpsampleWarning          allowed, but hardly what anybody wants
        └── PrivacyWarning       privacy parameters that protect very little

A warning points at the line of the caller: the first one outside this package.

Every message is one or two plain sentences on one line: what is wrong, with the value if it is public, and what to do
about it. No message shows a key or a frequency of private data, and none keeps another library's error, which might
show them: neither as its cause nor as its context.

A message names an argument in backticks, alone or with a value: "leave `rows` out", "write `header=False`". Python
shows it without them, and the command line shows the option instead, such as --no-header.
"""

import inspect
import re
import warnings
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

_T = TypeVar("_T")
# the name of an argument in backticks, or a name with a value
_ARGUMENT = re.compile(r"`(\w+(?:=[^`]*)?)`")


class DpsampleError(Exception):
    """Base of all errors that dpsample raises on purpose."""


class _Refusal(DpsampleError):  # noqa: N818
    """An error that states a problem and, unless that says it all, what to do about it.

    `marked` is the message with the names of arguments in backticks.
    """

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.marked = f"{problem}; {remedy}" if remedy else problem
        super().__init__(_ARGUMENT.sub(r"\1", self.marked))
        self.problem = problem
        self.remedy = remedy


class InvalidValue(_Refusal, ValueError):  # noqa: N818 - named for what is wrong
    """An argument, or the data, break a rule."""


class OutputExists(InvalidValue):
    """An output is there already, and is not replaced."""


class BudgetSpent(InvalidValue):
    """A ledger has no room for a release: its budget, or that of a part, is spent."""


class SystemFailure(_Refusal):
    """The machine could not do it: no space, no memory, a broken disk."""


class PrivacyViolation(DpsampleError):  # noqa: N818
    """A scheme does not keep the (epsilon, delta) that it was checked against."""


class DpsampleWarning(UserWarning):
    """Base of all warnings of dpsample: something is allowed, but hardly what anybody wants."""


class PrivacyWarning(DpsampleWarning):
    """Privacy parameters that are allowed, but protect very little."""


def warn(message: str, category: type[DpsampleWarning]) -> None:
    """Warn at the line of the caller, however many functions of this package lie between."""
    frame = inspect.currentframe()
    level = 1
    while frame is not None and _is_of_package(frame):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def _is_of_package(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] == "dpsample"


def attempt(
    work: Callable[[], _T],
    refusal: DpsampleError | Callable[[], DpsampleError],
    *errors: type[Exception],
) -> _T:
    """Return what `work` returns. If it raises one of these errors, raise the refusal instead.

    The refusal is raised outside the handler, so that the error, which may quote the data, is neither its cause nor its
    context. Errors of dpsample pass unchanged. Where this is called often, give a function that makes the refusal.

    >>> refusal = InvalidValue("a number must have digits only", "remove other characters")
    >>> try:
    ...     attempt(lambda: int("secret"), refusal, ValueError)
    ... except InvalidValue as error:
    ...     print(error, error.__cause__, error.__context__)
    a number must have digits only; remove other characters None None
    """
    try:
        return work()
    except DpsampleError:
        raise
    except errors:
        pass
    if isinstance(refusal, DpsampleError):
        raise refusal
    raise refusal()
