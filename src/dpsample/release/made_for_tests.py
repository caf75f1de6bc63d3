"""Releases that were made for tests of applications (`dpsample.testing`). They are NOT private, and marked as such.

The mark is a field of the terms, which `dataclasses.replace`, copies and pickles keep. In a file it is the format
itself, `dpsample test release` instead of `dpsample release`, beside `"private": false` and a warning: whoever reads
the metadata of releases, in any language, meets another format. Reading, writing and showing such a release as a page
are refused, except within `allowed`. Ledgers and proofs refuse it always.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dpsample.errors import InvalidValue

FORMAT: Final = "dpsample test release"
WARNING: Final = (
    "NOT private: made for tests by dpsample.testing, from frequencies that were stated, with coins that everybody "
    "knows. Do not publish it."
)

_blocks: list[None] = []  # one for each `allowed` block that is open, in any thread


@contextmanager
def allowed() -> Iterator[None]:
    """Let this process read, write and show releases that were made for tests, for the time of a block.

    It holds for all threads, so that a server that is tested may answer from another one.
    """
    _blocks.append(None)
    try:
        yield
    finally:
        _blocks.pop()


def are_allowed() -> bool:
    """Return whether a block of `allowed` is open."""
    return bool(_blocks)


def require_allowed(doing: str) -> None:
    """Refuse to do something with a release that was made for tests, such as to write it."""
    if not are_allowed():
        raise InvalidValue(
            f"a release that was made for tests is not private, so it cannot be {doing}",
            "do it within `dpsample.testing.allowed()`, in a test",
        )


def refused(doing: str) -> InvalidValue:
    """Return the refusal of what is never done with a release that was made for tests."""
    return InvalidValue(
        f"a release that was made for tests is not private, so it cannot be {doing}",
        "use a release of the data",
    )
