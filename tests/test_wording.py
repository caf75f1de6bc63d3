"""Errors on the command line name options: of every message that the library has."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpsample
from dpsample.cli import cli
from dpsample.cli.wording import _options, in_options

FOLDER = Path(str(dpsample.__file__)).parent
ERRORS = {"InvalidValue", "SystemFailure"}
ELSEWHERE = {"identity", "return_inverse", "of"}  # arguments that no command has, in messages that none can get


def text_of(node: ast.expr) -> str:
    """The text of a message; what is put into it is a 1."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) for part in node.values)
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.IfExp):
        return f"{text_of(node.body)} / {text_of(node.orelse)}"
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    return "1"


def messages() -> Iterator[str]:
    for path in sorted(FOLDER.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
                yield "; ".join(map(text_of, node.args))


def test_no_message_names_an_argument_that_has_an_option() -> None:
    found = [(message, in_options(message, cli)) for message in messages()]
    assert len(found) > 250
    assert sum(before != after for before, after in found) > 30
    arguments = _options(cli)
    for before, after in found:
        named = set(re.findall(r"(?<!--part )\b([a-z_]+)=", after)) - ELSEWHERE
        assert not named, (before, after)
        outside = re.sub(r"'[^']*'", "", after)
        assert not set(re.findall(r"\b[a-z]+_[a-z_]+\b", outside)) & arguments.keys(), (before, after)
        options = re.findall(r"\((--[\w-]+)\)", after)
        assert not [option for option in options if after.count(option) > 1], after


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
