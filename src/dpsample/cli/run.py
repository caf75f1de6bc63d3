"""dpsample run: a release whose options are in a file, for releases that are made again and again."""

import contextlib
import difflib
import os
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from dpsample.cli import options
from dpsample.cli.release import carry_out, check, release
from dpsample.errors import InvalidValue
from dpsample.files.metadata import failures, sha256_of

_MOST_BYTES = 1 << 16  # of a settings file: hundreds of times what all options take
_MOST_DOTS = 4000  # in it: a name of many parts takes time and memory in proportion to the square of their number


@click.command()
@click.argument("settings")
@click.option("--output", "-o", help="File to write, instead of the one that SETTINGS names.")
@click.option(
    "--part", metavar="COLUMN=VALUE", help="Part to read, instead of the one that SETTINGS names."
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Check everything that costs nothing, and print the command. No release.",
)
def run(settings: str, output: str | None, part: str | None, dry_run: bool) -> None:
    """Make the release that SETTINGS describes, a TOML file with the options of `dpsample release` by their names.

    Relative paths in the file are relative to its folder. If there is a ledger, the entry of the release has the
    SHA-256 of the file.

    \b
    Example of a file:
      source = "events.parquet"
      key = "query"
      epsilon = 1
      delta = 1e-8
      ledger = "events.ledger"
      output = "queries.private.parquet"

    \b
    Examples:
      dpsample run release.toml --dry-run
      dpsample run release.toml
      dpsample run release.toml --part day=2026-11-14 -o 14.private.parquet
    """
    path = Path(settings)
    given, sha256 = read_settings(path)
    if output is not None:
        stays = "://" in output or path.parent == Path()
        given["output"] = output if stays else os.path.join(os.getcwd(), output)
    if part is not None:
        given["part"] = part
    parsed = release.make_context("dpsample release", list(_words(given))).params
    with contextlib.chdir(path.parent):
        if not dry_run:
            carry_out(parsed, sha256)
            return
        check(parsed, sha256)
        _print_command(path, given, parsed)


def _print_command(path: Path, given: dict[str, Any], parsed: dict[str, Any]) -> None:
    """Print the command of a release that was checked, without the password of a database."""
    unseen, source = "", given["source"]
    if parsed["engine"] == "spark":
        unseen = "; the source was not looked at, since that takes a cluster"
    else:
        source = options.source_of(parsed).paths
    inside = "" if path.parent == Path() else f"cd {shlex.quote(str(path.parent))} && "
    click.echo(f"Checked {path}: nothing was read or spent{unseen}.")
    click.echo(f"{inside}dpsample release {shlex.join(_words({**given, 'source': source}))}")


def read_settings(path: Path) -> tuple[dict[str, Any], str]:
    """Return the options of a settings file, by their names, and its SHA-256. Decimals stay as they are written."""
    if not path.is_file():
        raise InvalidValue(f"there is no settings file at {str(path)!r}", "check the path")
    with failures(path):
        if path.stat().st_size > _MOST_BYTES:
            raise InvalidValue(
                f"a settings file may have up to {_MOST_BYTES:,} bytes",
                "name a pattern or a folder as the source",
            )
        data = path.read_bytes()
    if data.count(b".") > _MOST_DOTS:
        raise InvalidValue(
            f"a settings file may have up to {_MOST_DOTS:,} dots", "name a folder as the source"
        )
    try:
        given = tomllib.loads(data.decode("utf-8"), parse_float=str)
    except (
        ValueError,
        RecursionError,
    ) as error:  # of TOML or of UTF-8; the message may quote the file
        place = str(error).rpartition(" (at ")[2].rstrip(")")
        where = f": an error at {place}" if place.startswith("line ") else ""
        raise InvalidValue(
            f"a settings file must be TOML, in UTF-8{where}", "write lines such as epsilon = 1"
        ) from None
    for name, value in given.items():
        _check(name, value)
    return given, sha256_of(data)


def _named() -> dict[str, click.Parameter]:
    """Return the options of a release by their names in a file: those of the command line, without dashes in front."""
    return {max(one.opts, key=len).removeprefix("--"): one for one in release.params}


def _check(name: str, value: Any) -> None:
    """Refuse an unknown name, and a value that its option cannot have."""
    named = _named()
    if name not in named:
        near = difflib.get_close_matches(name.replace("_", "-").lower(), named, 1)
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
        return "a text, or a list of texts", _are_texts(
            value if isinstance(value, list) else [value]
        )
    is_number = type(value) is int and abs(value) < 2**63  # decimals stay texts
    return "a text or a number", is_number or isinstance(value, str)


def _are_texts(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(value, str) for value in values)


def _words(given: dict[str, Any]) -> Iterator[str]:
    """Yield the same options as words of a command, the source first."""
    for name, value in sorted(given.items(), key=lambda pair: pair[0] != "source"):
        option = _named()[name]
        values = value if isinstance(value, list) else [value]
        if isinstance(option, click.Argument):
            yield from values
        elif isinstance(value, bool):
            yield from [f"--{name}"] if value else option.secondary_opts
        else:
            for one in values:
                yield f"--{name}"
                yield str(one)
