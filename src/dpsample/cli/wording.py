"""Errors of the library in the words of the command line: options in place of Python arguments.

The library names its arguments in one of two ways: with a value, as in ``drop_null=True``, or alone, as in
``memory_limit``. The option of each follows from the commands themselves.
"""

import re
import shlex
from functools import lru_cache

import click

# arguments whose option has another name
_OTHER_NAMES = {"format": "--input-format", "total": "--with-total", "size": "--sample-size", "sampling": "--scheme"}
_OTHER_WORDS = {"Privacy(epsilon, delta)": "--epsilon and --delta", "dpsample.read_sample": "dpsample info"}

_VALUE = r"""\([^()]*\)|'[^']*'|"[^"]*"|\.\.\.|\w+"""
_ARGUMENT = re.compile(rf"(?<![\w'\"])([a-z_]+)=({_VALUE})")
_NAME = re.compile(r"(?<![\w'\"/])([a-z]+(?:_[a-z]+)+)(?![\w'\"/])")
_ASIDE = re.compile(r" \((--[^()]*)\)")


def in_options(message: str, group: click.Group) -> str:
    """Write a message of the library for somebody who gave options to a command of this group.

    >>> from dpsample.cli import cli
    >>> print(in_options("leave them out with drop_null=True (--drop-null), or raise memory_limit", cli))
    leave them out with --drop-null, or raise --memory-limit
    >>> print(in_options("state delimiter=';', header=False or part=('day', '2026-11-14')", cli))
    state --delimiter ';', --no-header or --part day=2026-11-14
    """
    options = _options(group)
    for words, instead in _OTHER_WORDS.items():
        message = message.replace(words, instead)
    message = _ARGUMENT.sub(lambda found: _with_value(found, options), message)
    message = _NAME.sub(lambda found: options.get(found[1], (found[1],))[0], message)
    return _ASIDE.sub(_once, message)


def _with_value(found: re.Match[str], options: dict[str, tuple[str, str]]) -> str:
    name, value = found[1], found[2]
    if name not in options:
        return found[0]
    option, negation = options[name]
    if value in ("True", "False"):
        return option if value == "True" else negation
    if value.startswith("("):
        return f"{option} {'='.join(word.strip(chr(39)) for word in value[1:-1].split(', '))}"
    return f"{option} {value if value == '...' else shlex.quote(value.strip(chr(39)))}"


def _once(found: re.Match[str]) -> str:
    """Return the options in parentheses that the message has not named before, each once."""
    named = [option for option in dict.fromkeys(found[1].split(", ")) if option not in found.string[: found.start()]]
    return f" ({', '.join(named)})" if named else ""


@lru_cache
def _options(group: click.Group) -> dict[str, tuple[str, str]]:
    """Return the option of each argument, and the one that negates it."""
    options = {}
    commands: list[click.Command] = [group]
    while commands:
        command = commands.pop()
        commands += command.commands.values() if isinstance(command, click.Group) else []
        for given in command.params:
            if isinstance(given, click.Option) and given.name is not None:
                long = max(given.opts, key=len)
                options[given.name] = long, (given.secondary_opts or [f"no {long}"])[0]
    return options | {name: (option, f"no {option}") for name, option in _OTHER_NAMES.items()}
