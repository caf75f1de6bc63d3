"""The command, and the Python, that make a planned release."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from dpsample.accounting.totals import SHARE, SampleSize
from dpsample.exact import text
from dpsample.planning.setting import Setting
from dpsample.release.option_words import stated_values
from dpsample.release.options import written_names
from dpsample.scheme.sampling import KeepAll, Sampling

# these stand for names that a plan does not know
EVENTS = "EVENTS"
KEY = "KEY"
USER = "USER"
OUTPUT = "OUTPUT.private.parquet"


class Origin(Protocol):
    """Where elements are: the attributes of `dpsample.Source` that a command names."""

    @property
    def paths(self) -> list[str]:
        """The files, or the address of a database."""

    @property
    def key_columns(self) -> Sequence[str]:
        """The names of the key columns."""

    @property
    def arguments(self) -> dict[str, Any]:
        """The further arguments of `Source` that were given, by name."""


def command(setting: Setting, source: Origin | None = None) -> str:
    """Return the command that makes this release, without the password of a database.

    >>> from dpsample import Ppswor, Privacy, Source
    >>> print(command(Setting(Privacy(1, "1e-8"), Ppswor("0.01")), Source("a b.csv", "q")))
    dpsample release 'a b.csv' --key q --epsilon 1 --delta 1e-08 --scheme ppswor --tau 0.01 -o OUTPUT.private.parquet
    """
    paths = source.paths if source else [EVENTS]
    words = ["dpsample", "release", *paths]
    for name, value in _source_options(setting, source):
        words += _words(name, value)
    for name, value in stated_values(setting):
        words += _words(name, value)
    return f"{shlex.join(words)} -o {OUTPUT}"


def _source_options(setting: Setting, source: Origin | None) -> Iterator[tuple[str, Any]]:
    """Yield the options that say how the source is read."""
    yield "key", list(source.key_columns) if source else KEY
    arguments = source.arguments if source else {}
    for name, value in arguments.items():
        if isinstance(value, Mapping):  # types of key columns, by name
            value = [f"{column}={kind}" for column, kind in value.items()]
        yield ("input_format" if name == "format" else name), value
    if setting.max_keys_per_user is not None and "user" not in arguments:
        yield "user", USER


def _words(name: str, value: Any) -> list[str]:
    """Write an option as words of a command.

    >>> _words("key_as", ["a", "b"]), _words("header", False), _words("drop_null", True), _words("sums", "price:5")
    (['--key-as', 'a', '--key-as', 'b'], ['--no-header'], ['--drop-null'], ['--sum', 'price:5'])
    """
    word = written_names().get(name, name.replace("_", "-"))
    if isinstance(value, bool):
        return [f"--{word}" if value else f"--no-{word}"]
    values = value if isinstance(value, list) else [value]
    words = []
    for one in values:
        words += [f"--{word}", one]
    return words


def python(setting: Setting, source: Origin | None = None) -> str:
    """Return the Python that makes the same release.

    >>> from dpsample import Ppswor, Privacy, Source
    >>> print(python(Setting(Privacy(1, "1e-8"), Ppswor("0.01")), Source("a b.csv", "q")))
    import dpsample
    from dpsample import Ppswor, Privacy, Source
    <BLANKLINE>
    release = dpsample.release(
        Source('a b.csv', key='q'),
        privacy=Privacy(epsilon='1', delta='1e-08'),
        sampling=Ppswor(tau='0.01'),
    )
    release.write('OUTPUT.private.parquet')
    """
    scheme = setting.size or setting.sampling
    names = {"Privacy", "Source"}
    if not isinstance(scheme, KeepAll):
        names.add(type(scheme).__name__)
    imported = ", ".join(sorted(names))
    lines = ["import dpsample", f"from dpsample import {imported}", ""]
    lines += ["release = dpsample.release(", f"    Source({_source_arguments(setting, source)}),"]
    lines += [f"    {name}={value}," for name, value in _arguments(setting)]
    lines += [")", f"release.write({OUTPUT!r})"]
    return "\n".join(lines)


def _arguments(setting: Setting) -> Iterator[tuple[str, str]]:
    """Yield the keyword arguments of `dpsample.release`, as Python writes them."""
    yield "privacy", repr(setting.privacy)
    yield from _scheme_arguments(setting.size, setting.sampling)
    if setting.max_keys_per_user is not None:
        yield "max_keys_per_user", str(setting.max_keys_per_user)
    yield from _amount_arguments(setting)
    share = setting.total_share
    if share:
        yield "total", "True" if share == SHARE else repr(text(share))


def _scheme_arguments(size: SampleSize | None, sampling: Sampling) -> Iterator[tuple[str, str]]:
    """Yield the argument that states how keys are sampled, unless all are kept."""
    if size is not None:
        yield "size", _size(size)
    elif not isinstance(sampling, KeepAll):
        yield "sampling", str(sampling)
    elif sampling.least > 1:
        yield "at_least", str(sampling.least)


def _amount_arguments(setting: Setting) -> Iterator[tuple[str, str]]:
    """Yield the arguments that ask for the numbers of rows and the sums of columns."""
    sums = {}
    for amount in setting.amounts:
        if amount.column is None:
            yield "rows", amount.written
        else:
            sums[amount.column] = amount.written
    if sums:
        yield "sums", repr(sums)


def _source_arguments(setting: Setting, source: Origin | None) -> str:
    """Return the arguments of `Source`, as Python writes them."""
    paths = [EVENTS]
    arguments: dict[str, Any] = {"key": KEY}
    if source is not None:
        paths = source.paths
        arguments = {"key": _one_or_list(source.key_columns), **source.arguments}
    if setting.max_keys_per_user is not None:
        arguments.setdefault("user", USER)
    written = [f"{name}={value!r}" for name, value in arguments.items()]
    return ", ".join([repr(_one_or_list(paths)), *written])


def _one_or_list(values: Iterable[str]) -> str | list[str]:
    listed = list(values)
    return listed[0] if len(listed) == 1 else listed


def _size(size: SampleSize) -> str:
    """Write a sample size in Python, without the arguments that have their defaults."""
    words = [str(size.size)]
    if size.scheme != "ppswor":
        words.append(f"scheme={size.scheme!r}")
    if size.power != 1:
        words.append(f"power={text(size.power)!r}")
    if size.cap is not None:
        words.append(f"cap={size.cap}")
    if size.share != SHARE:
        words.append(f"share={text(size.share)!r}")
    return f"SampleSize({', '.join(words)})"
