"""The exit codes of the command, in one table, and which error has which."""

import signal
from enum import IntEnum

import click

from dpsample.errors import BudgetSpent, InvalidValue, OutputExists


class Exit(IntEnum):
    """The exit codes. docs/command-line.md has the same table (tested)."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    INCOMPLETE = 3
    EXISTS = 4
    BUDGET_SPENT = 5
    INTERRUPTED = 128 + signal.SIGINT
    TERMINATED = 128 + signal.SIGTERM

    @property
    def meaning(self) -> str:
        """What the code says, in words."""
        return _MEANINGS[self]


_MEANINGS = {
    Exit.DONE: "done; with `--if-missing` also: the release was there",
    Exit.FAILED: "a failure of the machine, or an unexpected error",
    Exit.BAD_INPUT: "bad usage or bad input",
    Exit.INCOMPLETE: "the proof does not cover every frequency (`verify --require-complete`)",
    Exit.EXISTS: "the output exists, and was not replaced",
    Exit.BUDGET_SPENT: "the ledger has no room for the release",
    Exit.INTERRUPTED: "interrupted by Ctrl-C (SIGINT)",
    Exit.TERMINATED: "ended by SIGTERM",
}


def meaning_of(code: int) -> str:
    """Return what an exit code says; a signal that has none in the table is named by its number."""
    if code in list(Exit):
        return Exit(code).meaning
    return f"exit code {code}"


def exit_of(error: Exception) -> Exit:
    """Return the exit code of an error.

    >>> exit_of(InvalidValue("level must be between 0 and 1, not 2.0")).name
    'BAD_INPUT'
    """
    match error:
        case OutputExists():
            return Exit.EXISTS
        case BudgetSpent():
            return Exit.BUDGET_SPENT
        case InvalidValue() | click.ClickException():
            return Exit.BAD_INPUT
        case _:
            return Exit.FAILED
