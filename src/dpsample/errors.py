"""What dpsample raises.

    Exception
    └── DpsampleError            everything below
        ├── InvalidValue         an argument or the data break a rule (also a ValueError)
        │   ├── OutputExists     an output is there already, and is not replaced
        │   └── BudgetSpent      a ledger has no room for a release
        ├── SystemFailure        the machine could not: no space, no memory, a broken disk
        └── PrivacyViolation     a check of a privacy guarantee failed

    UserWarning
    └── PrivacyWarning           allowed, but hardly what anybody wants

Every message is one or two plain sentences on one line: what is wrong, with the value if it is public, and what to do
about it. No message shows a key or a frequency of private data, and none keeps another library's error, which might
show them: neither as its cause nor as its context.

A message names an argument in backticks, alone or with a value: "leave `rows` out", "write `header=False`". Python
shows it without them, and the command line shows the option instead, such as --no-header.
"""

import re
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")
_ARGUMENT = re.compile(r"`(\w+(?:=[^`]*)?)`")


class DpsampleError(Exception):
    """Base of all errors that dpsample raises on purpose."""


class _Refusal(DpsampleError):  # noqa: N818
    """What is wrong, and what to do about it: one or two plain sentences.

    `marked` is the message with arguments in backticks.
    """

    def __init__(self, problem: str, remedy: str = "", older: str = "") -> None:
        if older:  # three parts, as messages were once written: rule, finding, remedy
            problem, remedy = f"{problem}; found {remedy}", older
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


class PrivacyWarning(UserWarning):
    """Privacy parameters that are allowed, but protect very little."""


def attempt(
    work: Callable[[], _T],
    refusal: DpsampleError | Callable[[], DpsampleError],
    *errors: type[Exception],
) -> _T:
    """Return what `work` returns, or raise the refusal instead of its errors: outside of the handler.

    Where this is called often, give a function that makes the refusal.

    So the refusal keeps no other error as its context, which might quote the data. An error of ours passes.

    >>> refusal = InvalidValue("a number is written in digits", "another character", "write digits")
    >>> try:
    ...     attempt(lambda: int("secret"), refusal, ValueError)
    ... except InvalidValue as error:
    ...     print(error, error.__cause__, error.__context__)
    a number is written in digits; found another character; write digits None None
    """
    try:
        return work()
    except DpsampleError:
        raise
    except errors:
        pass
    raise refusal if isinstance(refusal, DpsampleError) else refusal()
