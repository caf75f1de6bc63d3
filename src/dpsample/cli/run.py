"""dpsample run: a release whose options are in a file, for releases that are made again and again.

The options of `dpsample release` are the names in the file. Each of them, and SOURCE, can be stated on the command line
as well, and takes the place of what the file states.
"""

import contextlib
import difflib
import os
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from dpsample.cli import options
from dpsample.cli.printing import tell
from dpsample.cli.release import carry_out, check, release
from dpsample.errors import InvalidValue
from dpsample.files.metadata import failures, sha256_of
from dpsample.release.option_words import read_part

_MOST_BYTES = 1 << 16  # of a settings file: hundreds of times what all options take
_MOST_DOTS = 4000  # in it: a name of many parts takes time and memory in proportion to the square of their number
_ALTERNATIVES = (  # options of which one takes the place of another
    ("epsilon", "zcdp", "gdp"),
    ("part", "part-vouched"),
    ("tau", "sample-size"),
    ("table", "query"),
)
_PATHS = ("source", "output", "ledger", "keys", "prior", "temp-dir")
_PART = "{part}"  # in a source and an output: the value of the part

Settings = dict[str, Any]


def _named() -> dict[str, click.Parameter]:
    """Return the options of a release by their names in a file: those of the command line, without dashes in front."""
    named = {}
    for parameter in release.params:
        if parameter.expose_value:
            longest = max(parameter.opts, key=len)
            named[longest.removeprefix("--")] = parameter
    return named


def _overriding(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a release to a command; none is required, and a flag can be set both ways."""
    for name, option in reversed(_named().items()):
        if not isinstance(option, click.Option) or option.name == "form":
            continue
        flags = [*option.opts]
        if option.is_flag:
            negative = option.secondary_opts[0] if option.secondary_opts else f"--no-{name}"
            flags = [f"--{name}/{negative}"]
        add = click.option(
            *flags,
            str(option.name),
            type=option.type,
            is_flag=option.is_flag,
            multiple=option.multiple,
            default=None,
            metavar=option.metavar,
            help=option.help,
        )
        command = add(command)
    return command


@click.command()
@click.argument("settings")
@click.argument("source", nargs=-1)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Check everything that costs nothing, and print the command. No release.",
)
@_overriding
@options.done_format
def run(settings: str, dry_run: bool, form: str, **stated: Any) -> None:
    """Make the release that SETTINGS describes, a TOML file with the options of `dpsample release` by their names.

    Relative paths in the file are relative to its folder. SOURCE and options on the command line take the place of
    those in the file. The text {part} in the source and the output stands for the value of the part. If there is a
    ledger, the entry of the release has the SHA-256 of the file.

    \b
    Example of a file:
      source = "events/day={part}"
      key = "query"
      epsilon = 1
      delta = 1e-8
      ledger = "events.ledger"
      output = "queries-{part}.private.parquet"

    \b
    Examples:
      dpsample run release.toml --part-vouched day=2026-11-14 --dry-run
      dpsample run release.toml --part-vouched day=2026-11-14
      dpsample run release.toml --part-vouched day=2026-11-14 --if-missing --quiet
      dpsample run release.toml --part day=2026-11-14 -o 14.private.parquet
    """
    path = Path(settings)
    given, sha256 = read_settings(path)
    given = _with_part(_overridden(given, _stated_here(stated), path.parent))
    given["format"] = form
    parsed = release.make_context("dpsample release", list(_words(given))).params
    with contextlib.chdir(path.parent):
        if not dry_run:
            carry_out(parsed, sha256)
            return
        check(parsed, sha256)
        _print_command(path, given, parsed)


# ---- what the command line states


def _stated_here(stated: Mapping[str, Any]) -> Settings:
    """Return the options that are on the command line, by their names in a file."""
    context = click.get_current_context()
    here: Settings = {}
    for name, option in _named().items():
        if option.name is None or option.name not in stated:
            continue
        value = stated[option.name]
        on_command_line = context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
        if on_command_line and value != ():
            here[name] = list(value) if isinstance(value, tuple) else value
    return here


def _overridden(given: Settings, here: Settings, folder: Path) -> Settings:
    """Return the settings, with the options of the command line in place of the file's.

    The release runs in the `folder` of the file, so paths on the command line become absolute.
    """
    dropped = set()
    for alternatives in _ALTERNATIVES:
        if any(name in here for name in alternatives):
            dropped |= set(alternatives)
    merged = {name: value for name, value in given.items() if name not in dropped}
    for name, value in here.items():
        merged[name] = _from_here(value, folder) if name in _PATHS else value
    return merged


def _from_here(value: Any, folder: Path) -> Any:
    """Return a path, or several, as they are named from another folder; what is no path on this machine stays."""
    if isinstance(value, list):
        return [_from_here(one, folder) for one in value]
    stays = "://" in value or folder == Path()
    return value if stays else os.path.join(os.getcwd(), value)


def _with_part(given: Settings) -> Settings:
    """Put the value of the part in the place of {part} in the source and the output."""
    sources = given.get("source", [])
    places = [*(sources if isinstance(sources, list) else [sources]), given.get("output", "")]
    if not any(_PART in place for place in places):
        return given
    value = _value_of_part(given)
    filled = dict(given)
    if isinstance(sources, list):
        filled["source"] = [source.replace(_PART, value) for source in sources]
    else:
        filled["source"] = sources.replace(_PART, value)
    if "output" in given:
        filled["output"] = given["output"].replace(_PART, value)
    return filled


def _value_of_part(given: Settings) -> str:
    """Return the value of the part that is released; it becomes part of a path, so it may not lead elsewhere."""
    for name in ("part", "part-vouched"):
        stated = read_part(given.get(name), name.replace("-", "_"))
        if stated is None:
            continue
        value = stated[1]
        if not value or not all(
            character.isalnum() or character in "-_.:+=" for character in value
        ):
            raise InvalidValue(
                f"{_PART} in a path can only stand for letters, digits and -_.:+=, not for {value!r}",
                "write the path out on the command line",
            )
        if value.startswith("."):
            raise InvalidValue(
                f"{_PART} in a path cannot stand for {value!r}, which begins with a dot",
                "write the path out on the command line",
            )
        return value
    raise InvalidValue(
        f"{_PART} in a source or an output stands for the value of a part, and none is stated",
        "add `part=('day', '2026-11-14')` or `part_vouched`",
    )


# ---- the settings file


def read_settings(path: Path) -> tuple[Settings, str]:
    """Return the options of a settings file, by their names, and its SHA-256. Decimals stay as they are written."""
    data = _content(path)
    if data.count(b".") > _MOST_DOTS:
        raise InvalidValue(
            f"a settings file may have up to {_MOST_DOTS:,} dots", "name a folder as the source"
        )
    try:
        stated = tomllib.loads(data.decode("utf-8"), parse_float=str)
    except (ValueError, RecursionError) as error:
        # the message of TOML may quote the file: only its end is shown, which is a line and a column
        place = str(error).rpartition(" (at ")[2].rstrip(")")
        where = f": an error at {place}" if place.startswith("line ") else ""
        raise InvalidValue(
            f"a settings file must be TOML, in UTF-8{where}", "write lines such as epsilon = 1"
        ) from None
    given: Settings = {}
    for written, value in stated.items():
        name = written.replace("_", "-")
        if name in given:
            raise InvalidValue(f"a settings file states {name} twice", "remove one of them")
        _check(name, value)
        given[name] = value
    return given, sha256_of(data)


def _content(path: Path) -> bytes:
    """Return the bytes of a settings file."""
    if not path.is_file():
        raise InvalidValue(f"there is no settings file at {str(path)!r}", "check the path")
    with failures(path):
        if path.stat().st_size > _MOST_BYTES:
            raise InvalidValue(
                f"a settings file may have up to {_MOST_BYTES:,} bytes",
                "name a pattern or a folder as the source",
            )
        return path.read_bytes()


def _check(name: str, value: Any) -> None:
    """Refuse an unknown name, and a value that its option cannot have."""
    named = _named()
    if name not in named:
        near = difflib.get_close_matches(name.lower(), named, 1)
        remedy = f"write {near[0]}" if near else "see dpsample release --help for the options"
        raise InvalidValue(
            f"{name!r} in a settings file is not an option of dpsample release", remedy
        )
    form, right = _form(named[name], value)
    if not right:
        raise InvalidValue(f"{name} in a settings file must be {form}, with texts in quotes")


def _form(option: click.Parameter, value: Any) -> tuple[str, bool]:
    """Return which values an option may have in a settings file, and whether this is one."""
    if isinstance(option, click.Option) and option.is_flag:
        return "true or false", isinstance(value, bool)
    if isinstance(option, click.Argument) or option.multiple:
        values = value if isinstance(value, list) else [value]
        return "a text, or a list of texts", _are_texts(values)
    is_number = type(value) is int and abs(value) < 2**63  # decimals stay texts
    return "a text or a number", is_number or isinstance(value, str)


def _are_texts(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(value, str) for value in values)


# ---- the command that the settings stand for


def _words(given: Settings) -> Iterator[str]:
    """Yield the settings as words of a command, the source first."""
    named = _named()
    for name, value in sorted(given.items(), key=lambda pair: pair[0] != "source"):
        option = named[name]
        values = value if isinstance(value, list) else [value]
        if isinstance(option, click.Argument):
            yield from values
        elif isinstance(value, bool):
            yield from [f"--{name}"] if value else option.secondary_opts
        else:
            for one in values:
                yield f"--{name}"
                yield str(one)


def _print_command(path: Path, given: Settings, parsed: dict[str, Any]) -> None:
    """Print the command of a release that was checked, without the password of a database."""
    shown = {name: value for name, value in given.items() if name != "format"}
    checked = f"Checked {path}: nothing was read or spent"
    if parsed["engine"] == "spark":
        checked += "; the source was not looked at, since that takes a cluster"
    else:
        shown["source"] = options.source_of(parsed).paths
    command = shlex.join(["dpsample", "release", *_words(shown)])
    folder = path.parent
    if folder != Path():
        command = f"cd {shlex.quote(str(folder))} && {command}"
    if given["format"] == "json":
        tell({"checked": str(path), "command": command}, [], "json")
    else:
        click.echo(f"{checked}.")
        click.echo(command)
