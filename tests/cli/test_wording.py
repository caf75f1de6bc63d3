"""A refusal of the library names arguments; the command line shows the options that state them."""

import pytest

from dpsample.cli import cli
from dpsample.cli.options import flag, in_options
from dpsample.errors import InvalidValue
from dpsample.release.options import all_options


@pytest.mark.parametrize(
    ("marked", "shown"),
    [
        ("choose another `temp_dir`", "choose another --temp-dir"),
        ("name the format, such as `format='csv'`", "name the format, such as --input-format csv"),
        ("write `table='name'` or `query='SELECT ...'`", "write --table name or --query 'SELECT ...'"),
        ("name it: `part=('day', VALUE)`", "name it: --part day=VALUE"),
        (
            "`total` cannot be combined with `discover=one-key`",
            "--with-total cannot be combined with --discover one-key",
        ),
        ("write `header=False`", "write --no-header"),
        ("leave them out with `drop_null=True`", "leave them out with --drop-null"),
        ("the column 'max_keys_per_user' must be in", "the column 'max_keys_per_user' must be in"),
        ("nothing at '/data/temp_dir/x'", "nothing at '/data/temp_dir/x'"),
        ("`sums` and `clips` must go in pairs", "--sum and --clip must go in pairs"),
    ],
)
def test_fields_are_shown_as_options(marked: str, shown: str) -> None:
    assert in_options(marked) == shown


def test_python_shows_fields_as_they_are_written() -> None:
    refusal = InvalidValue("`rows` needs users", "write `user='id'`")
    assert str(refusal) == "rows needs users; write user='id'"
    assert refusal.marked == "`rows` needs users; write `user='id'`"


def test_every_option_of_a_release_is_one_of_the_command() -> None:
    release = cli.commands["release"]
    written = {flag for option in release.params for flag in option.opts}
    for option in all_options():
        assert flag(option.name) in written
