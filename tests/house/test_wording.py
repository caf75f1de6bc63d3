"""Every refusal has three parts, and names options on the command line: of all messages that the library has."""

import re

import pytest

from dpsample.cli import cli
from dpsample.cli.wording import _options, in_options
from refusals import refusals

ELSEWHERE = {"identity", "return_inverse", "of"}  # arguments that no command has, in messages that none can get


def test_every_refusal_states_a_rule_what_was_found_and_a_remedy() -> None:
    assert len(refusals()) > 450
    for one in refusals():
        assert all((one.rule, one.found, one.remedy)), one
        assert " " in one.rule, one
        assert " " in one.remedy, one


def test_messages_are_found_wherever_they_are_put_together() -> None:
    found = {(one.rule, one.found): one.remedy for one in refusals()}
    assert found["a list of known keys has no NULL", "one"] == "leave it out"  # in a function that adds to the rule
    assert found["Spark must start", "that it did not"].startswith("install Java 17")  # in a table
    assert not [one for one in refusals() if one.rule.startswith(("RULE", "WHAT WAS GIVEN"))]


def test_no_message_names_an_argument_that_has_an_option() -> None:
    messages = [f"{one.rule}; {one.found}; {one.remedy}" for one in refusals() if not one.module.startswith("cli/")]
    found = [(message, in_options(message, cli)) for message in messages]
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
