"""A refusal of the library names arguments; the command line shows the options that state them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import dpsample
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


NOT_OF_A_COMMAND = {"privacy.py", "private/sample.py", "answers/coordinated.py"}  # Python that has no option


def messages() -> Iterator[tuple[str, str]]:
    """Yield each text of each refusal in the source, and the file that it is in."""
    folder = Path(dpsample.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in ("InvalidValue", "SystemFailure"):
                for argument in call.args:
                    texts = (node.value for node in ast.walk(argument) if isinstance(node, ast.Constant))
                    yield from ((path.relative_to(folder).as_posix(), text) for text in texts if isinstance(text, str))


def test_refusals_mark_the_arguments_that_have_options() -> None:
    options = {option.name for command in _commands(cli) for option in command.params}
    unmarked = re.compile(r"(?<![\w'\"`])([a-z_]+)=|(?<![\w'\"/`])([a-z]+(?:_[a-z]+)+)(?![\w'\"/(])")
    found = list(messages())
    assert len(found) > 400
    for file, text in found:
        named = {name for pair in unmarked.findall(text) for name in pair}
        assert file in NOT_OF_A_COMMAND or not named & options, (file, text)
        assert "(--" not in text, (file, text)


def _commands(command: click.Command) -> Iterator[click.Command]:
    yield command
    for inner in command.commands.values() if isinstance(command, click.Group) else []:
        yield from _commands(inner)
