"""Messages of the library, in the words of the command line."""

import pytest
from dpsample.cli.wording import in_options

from dpsample.cli import cli


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("choose another temp_dir", "choose another --temp-dir"),
        ("name the format, such as format='csv'", "name the format, such as --input-format csv"),
        ("write table='name' or query='SELECT ...'", "write --table name or --query 'SELECT ...'"),
        ("force it (force=True, --force)", "force it (--force)"),
        ("name it: part=('day', VALUE) (--part day=VALUE)", "name it: --part day=VALUE"),
        ("a new ledger may set more aside (--aside)", "a new ledger may set more aside (--aside)"),
        ("the column 'max_keys_per_user' must be in", "the column 'max_keys_per_user' must be in"),
        ("nothing at '/data/temp_dir/x'", "nothing at '/data/temp_dir/x'"),
        ("state Privacy(epsilon, delta)", "state --epsilon and --delta"),
    ],
)
def test_what_is_shown(message: str, shown: str) -> None:
    assert in_options(message, cli) == shown
