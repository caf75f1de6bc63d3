"""The command, and the Python, that make a planned release. Both are as private as the plan."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from dpsample.accounting.totals import SHARE, SampleSize
from dpsample.exact import text
from dpsample.planning.setting import Setting
from dpsample.privacy import Privacy
from dpsample.scheme.sampling import KeepAll, Ppswor, Priority
from dpsample.scheme.soft_cap import SoftCap

EVENTS, KEY, USER, OUTPUT = "EVENTS", "KEY", "USER", "OUTPUT.private.parquet"  # stand for unknown names


class Origin(Protocol):
    """The attributes of `dpsample.Source` that name where elements are."""

    @property
    def paths(self) -> list[str]: ...  # noqa: D102
    @property
    def key_columns(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def arguments(self) -> dict[str, Any]: ...  # noqa: D102


def stated(privacy: Privacy) -> str:
    """Return the epsilon, or the rho or mu by which a budget is stated instead."""
    return text(privacy.epsilon if privacy.definition is None else privacy.definition.value)


def command(setting: Setting, source: Origin | None = None) -> str:
    """Return the command that makes this release, without the password of a database.

    >>> from dpsample import Ppswor, Privacy, Source
    >>> print(command(Setting(Privacy(1, "1e-8"), Ppswor("0.01")), Source("a b.csv", "q")))
    dpsample release 'a b.csv' --key q --epsilon 1 --delta 1e-08 --scheme ppswor --tau 0.01 -o OUTPUT.private.parquet
    """
    words = ["dpsample", "release", *(source.paths if source else [EVENTS])]
    words += _option("key", list(source.key_columns if source else [KEY]))
    for name, value in source.arguments.items() if source else []:
        words += _option("input_format" if name == "format" else name, value)
    if setting.max_keys_per_user is not None:
        words += [] if source and "user" in source.arguments else ["--user", USER]
        words += ["--max-keys-per-user", str(setting.max_keys_per_user)]
    definition = setting.privacy.definition
    words += [f"--{'epsilon' if definition is None else definition.name}", stated(setting.privacy)]
    words += ["--delta", text(setting.privacy.delta)]
    scheme = setting.size or setting.sampling
    if isinstance(scheme, SampleSize):
        words += ["--scheme", scheme.scheme, "--sample-size", str(scheme.size)]
        words += ["--size-share", text(scheme.share)] if scheme.share != SHARE else []
    elif isinstance(scheme, Ppswor | Priority):
        words += ["--scheme", scheme.name, "--tau", text(scheme.tau)]
        words += ["--seed", scheme.seed] if scheme.seed is not None else []
    elif isinstance(scheme, SoftCap):
        words += ["--scheme", "soft-cap", "--tau", text(scheme.tau), "--cap", str(scheme.cap)]
    if isinstance(scheme, SampleSize | Ppswor | Priority):
        words += ["--power", text(scheme.power)] if scheme.power != 1 else []
        words += ["--cap", str(scheme.cap)] if scheme.cap is not None else []
    words += ["--at-least", str(setting.sampling.least)] if setting.sampling.least > 1 else []
    for amount in setting.amounts:
        if amount.column is None:
            words += ["--rows", amount.written]
        else:
            words += ["--sum", f"{amount.column}:{amount.written}"]
    total = setting.budget.total
    if total:
        words += ["--with-total", *(["--total-share", text(total)] if total != SHARE else [])]
    return f"{shlex.join(words)} -o {OUTPUT}"


def _option(name: str, value: Any) -> list[str]:
    """Write an argument of a source as an option.

    >>> _option("key_as", ["a", "b"]), _option("header", False), _option("drop_null", True)
    (['--key-as', 'a', '--key-as', 'b'], ['--no-header'], ['--drop-null'])
    """
    option = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{option}" if value else f"--no-{option}"]
    return [word for text in (value if isinstance(value, list) else [value]) for word in (f"--{option}", text)]


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
    imported = [] if isinstance(scheme, KeepAll) else [type(scheme).__name__]
    arguments = [
        f"Source({', '.join(_source(setting, source))})",
        f"privacy={setting.privacy!r}",
        *([f"size={_size(setting.size)}" if setting.size else f"sampling={scheme}"] if imported else []),
        *([f"max_keys_per_user={setting.max_keys_per_user}"] if setting.max_keys_per_user is not None else []),
    ]
    if setting.sampling.least > 1:
        arguments.append(f"at_least={setting.sampling.least}")
    rows = [f"rows={amount.written}" for amount in setting.amounts if amount.column is None]
    sums = {amount.column: amount.written for amount in setting.amounts if amount.column is not None}
    arguments += [*rows, *([f"sums={sums}"] if sums else [])]
    total = setting.budget.total
    if total:
        arguments.append("total=True" if total == SHARE else f"total={text(total)!r}")
    names = ", ".join(sorted(["Privacy", "Source", *imported]))
    lines = ["import dpsample", f"from dpsample import {names}", "", "release = dpsample.release("]
    return "\n".join([*lines, *(f"    {argument}," for argument in arguments), ")", f"release.write({OUTPUT!r})"])


def _source(setting: Setting, source: Origin | None) -> Iterator[str]:
    paths, key = (source.paths, list(source.key_columns)) if source else ([EVENTS], [KEY])
    yield repr(paths[0] if len(paths) == 1 else paths)
    yield f"key={(key[0] if len(key) == 1 else key)!r}"
    arguments = source.arguments if source else {}
    yield from (f"{name}={value!r}" for name, value in arguments.items())
    if setting.max_keys_per_user is not None and "user" not in arguments:
        yield f"user={USER!r}"


def _size(size: SampleSize) -> str:
    """Write a sample size in Python, without the arguments that have their defaults."""
    words = [str(size.size)]
    words += [f"scheme={size.scheme!r}"] if size.scheme != "ppswor" else []
    words += [f"power={text(size.power)!r}"] if size.power != 1 else []
    words += [f"cap={size.cap}"] if size.cap is not None else []
    words += [f"share={text(size.share)!r}"] if size.share != SHARE else []
    return f"SampleSize({', '.join(words)})"
