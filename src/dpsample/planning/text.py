"""A plan in words: its numbers as texts, what they mean, and the command or the Python that makes the release.

All of it is as private as the outlook.
"""

import shlex
from collections.abc import Iterator, Sequence
from typing import Protocol

from dpsample.accounting.totals import SHARE, SampleSize
from dpsample.comparison.reporting_curve import OPEN, PWS, SAMPLED, SBH, TIGHT
from dpsample.exact import text
from dpsample.planning.forecast import Expected
from dpsample.planning.setting import Setting
from dpsample.scheme.sampling import KeepAll, Ppswor, Priority

PRIVATE = "NOT PRIVATE: this is computed from the data as they are. Do not publish it."
HISTOGRAM = "As private as the histogram: if that comes from private data, this is NOT private. Do not publish it."
UNCOVERED = "What is chosen by looking at private data is not covered by the privacy guarantee."
COLUMNS = ("method", "keys", "of keys", "of elements", "seen from", "total +-", "selection +-")
METHODS = {
    PWS: "what dpsample releases; its errors are predicted, for its default estimator",
    SBH: "stability-based histogram: Laplace noise, and a cutoff",
    TIGHT: "the same with the lowest cutoff that is as private",
    SAMPLED: "elements are sampled, and keys of which many are left are reported",
    OPEN: "the weighted sample as it is",
}
EVENTS, KEY, USER, OUTPUT = "EVENTS", "KEY", "USER", "OUTPUT.private.parquet"  # stand for names that nobody told


class Origin(Protocol):
    """Where elements are, as `dpsample.Source` says it."""

    @property
    def paths(self) -> list[str]: ...  # noqa: D102
    @property
    def key(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def frequency(self) -> str | None: ...  # noqa: D102
    @property
    def table(self) -> str | None: ...  # noqa: D102
    @property
    def query(self) -> str | None: ...  # noqa: D102
    @property
    def format(self) -> str | None: ...  # noqa: D102
    @property
    def user(self) -> str | None: ...  # noqa: D102
    @property
    def drop_null(self) -> bool: ...  # noqa: D102


def columns(share: float) -> dict[str, str]:
    """Say what each column means, for a selection of so large a share of the keys."""
    return {
        "keys": "how many keys are expected to be reported; of keys: as a share of all keys",
        "of elements": "which share of all elements have a key that is reported",
        "seen from": "keys of this frequency or more are reported with probability 1/2 at least",
        "total +-": "error of the estimated number of all elements: root mean square, relative to the truth",
        "selection +-": f"the same for the elements of {100 * share:g} % of the keys, selected at random",
    }


def cells(method: Expected) -> tuple[str, ...]:
    """Write what is expected of one method, a text for each of `COLUMNS`.

    >>> cells(Expected("PWS", 5512.3, 0.0551, 0.762, 1024, 0.207))
    ('PWS', '5,512', '5.51 %', '76.2 %', '1,024', '20.7 %', '-')
    """
    return (
        method.method,
        f"{method.keys:,.0f}" if method.keys >= 10 else f"{method.keys:.2g}",
        percent(method.share_of_keys),
        percent(method.share_of_elements),
        "never" if method.detection_threshold is None else f"{method.detection_threshold:,}",
        percent(method.nrmse),
        percent(method.selection_nrmse),
    )


def percent(share: float | None) -> str:
    """Three figures.

    >>> percent(0.5), percent(0.01234), percent(12.3), percent(None)
    ('50.0 %', '1.23 %', '12.3 times', '-')
    """
    if share is None:
        return "-"
    return f"{100 * share:#.3g} %".replace(". %", " %") if share < 9.99 else f"{share:.3g} times"


def command(setting: Setting, source: Origin | None = None) -> str:
    """Return the command that makes this release, without the password of a database.

    >>> from dpsample import Ppswor, Privacy, Source
    >>> print(command(Setting(Privacy(1, "1e-8"), Ppswor("0.01")), Source("a b.csv", "q")))
    dpsample release 'a b.csv' --key q --epsilon 1 --delta 1e-08 --scheme ppswor --tau 0.01 -o OUTPUT.private.parquet
    """
    words = ["dpsample", "release", *(source.paths if source else [EVENTS])]
    for key in source.key if source else [KEY]:
        words += ["--key", key]
    if source:
        for option, value in [
            ("frequency", source.frequency),
            ("table", source.table),
            ("query", source.query),
            ("input-format", source.format),
            ("user", source.user),
        ]:
            words += [f"--{option}", value] if value is not None else []
        words += ["--drop-null"] * source.drop_null
    if setting.max_keys_per_user is not None:
        words += [] if source and source.user else ["--user", USER]
        words += ["--max-keys-per-user", str(setting.max_keys_per_user)]
    words += ["--epsilon", text(setting.privacy.epsilon), "--delta", text(setting.privacy.delta)]
    how = setting.size or setting.sampling
    if isinstance(how, SampleSize):
        words += ["--scheme", how.scheme, "--sample-size", str(how.size)]
        words += ["--size-share", text(how.share)] if how.share != SHARE else []
    elif isinstance(how, Ppswor | Priority):
        words += ["--scheme", how.name, "--tau", text(how.tau)]
    if isinstance(how, SampleSize | Ppswor | Priority):
        words += ["--power", text(how.power)] if how.power != 1 else []
        words += ["--cap", str(how.cap)] if how.cap is not None else []
    total = setting.budget.total
    if total:
        words += ["--with-total", *(["--total-share", text(total)] if total != SHARE else [])]
    return f"{shlex.join(words)} -o {OUTPUT}"


def python(setting: Setting, source: Origin | None = None) -> str:
    """Return the Python that does the same.

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
    how = setting.size or setting.sampling
    sampled = [] if isinstance(how, KeepAll) else [type(how).__name__]
    arguments = [
        f"Source({', '.join(_source(setting, source))})",
        f"privacy={setting.privacy}",
        *([f"size={_size(setting.size)}" if setting.size else f"sampling={how}"] if sampled else []),
        *([f"max_keys_per_user={setting.max_keys_per_user}"] if setting.max_keys_per_user is not None else []),
    ]
    total = setting.budget.total
    if total:
        arguments.append("total=True" if total == SHARE else f"total={text(total)!r}")
    names = ", ".join(sorted(["Privacy", "Source", *sampled]))
    lines = ["import dpsample", f"from dpsample import {names}", "", "release = dpsample.release("]
    return "\n".join([*lines, *(f"    {each}," for each in arguments), ")", f"release.write({OUTPUT!r})"])


def _source(setting: Setting, source: Origin | None) -> Iterator[str]:
    paths, key = (source.paths, list(source.key)) if source else ([EVENTS], [KEY])
    yield repr(paths[0] if len(paths) == 1 else paths)
    yield f"key={(key[0] if len(key) == 1 else key)!r}"
    for name in ("frequency", "table", "query", "format", "user"):
        if source and getattr(source, name) is not None:
            yield f"{name}={getattr(source, name)!r}"
    if source and source.drop_null:
        yield "drop_null=True"
    if setting.max_keys_per_user is not None and not (source and source.user):
        yield f"user={USER!r}"


def _size(how: SampleSize) -> str:
    """As one writes it, with what differs from the defaults."""
    words = [str(how.size)]
    words += [f"scheme={how.scheme!r}"] if how.scheme != "ppswor" else []
    words += [f"power={text(how.power)!r}"] if how.power != 1 else []
    words += [f"cap={how.cap}"] if how.cap is not None else []
    words += [f"share={text(how.share)!r}"] if how.share != SHARE else []
    return f"SampleSize({', '.join(words)})"
