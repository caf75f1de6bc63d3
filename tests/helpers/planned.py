"""Frequencies that are planned for, and the command `plan`."""

from click.testing import CliRunner

from dpsample.cli import cli
from dpsample.planning.frequencies import Frequencies

ZIPF = Frequencies.zipf(1, 1000)
PUBLIC = Frequencies.of({1: 500, 8: 40, 13: 30, 14: 20, 20: 10, 300: 2}, private=False)


def run(*arguments: str) -> str:
    done = CliRunner().invoke(cli, ["plan", *arguments])
    assert done.exit_code == 0, done.output
    return done.output
