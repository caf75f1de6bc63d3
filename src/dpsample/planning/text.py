"""A plan in words: what `dpsample plan` prints, what its columns mean, and the command or Python of the release.

All of it is as private as the forecasts.
"""

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any, Protocol

from dpsample.accounting.totals import SHARE, SampleSize
from dpsample.comparison.reporting_curve import OPEN, PWS, SAMPLED, SBH, TIGHT
from dpsample.exact import text
from dpsample.planning.forecast import Expected, Forecast
from dpsample.planning.goals import ENOUGH, Goal, recommended
from dpsample.planning.setting import Setting
from dpsample.presentation.explain import explain_protected
from dpsample.privacy import Privacy
from dpsample.scheme.sampling import KeepAll, Ppswor, Priority, Sampling
from dpsample.scheme.soft_cap import SoftCap

PRIVATE = "NOT PRIVATE: this is computed from the data as they are. Do not publish it."
HISTOGRAM = "If the histogram comes from private data, this is NOT PRIVATE: do not publish it."
UNCOVERED = "The privacy guarantee does not cover parameters that were chosen by looking at private data."
COLUMNS = ("method", "keys", "of keys", "of elements", "threshold", "total +-", "selection +-")
POSSIBLE = "of possible"
POSSIBLE_WORDS = "reported keys, as a share of those that any method could report with this epsilon and delta"
METHODS = {
    PWS: "private weighted sampling, what dpsample releases; errors are predicted for the default estimator",
    SBH: "stability-based histogram: Laplace noise and a cutoff",
    TIGHT: "the stability-based histogram with the lowest cutoff that is as private",
    SAMPLED: "elements are sampled, and keys with enough sampled elements are reported",
    OPEN: "the weighted sample without privacy",
}
EVENTS, KEY, USER, OUTPUT = "EVENTS", "KEY", "USER", "OUTPUT.private.parquet"  # stand for unknown names


class Origin(Protocol):
    """The attributes of `dpsample.Source` that name where elements are."""

    @property
    def paths(self) -> list[str]: ...  # noqa: D102
    @property
    def key_columns(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def arguments(self) -> dict[str, Any]: ...  # noqa: D102


def privacy_notice(has_source: bool, has_histogram: bool) -> str | None:
    """Return the warning that goes with frequencies from a source or a histogram, if any."""
    return PRIVATE if has_source else HISTOGRAM if has_histogram else None


def origin(source: Origin | None, histogram: str | None, alpha: float | None, release: str | None = None) -> str:
    """Say where the frequencies come from.

    >>> origin(None, None, 1.5)
    'A Zipf distribution with alpha 1.5'
    """
    if release is not None:
        return f"The release {os.path.basename(release)}"
    if source is not None:
        return str(source)
    if histogram is not None:
        return f"The histogram {os.path.basename(histogram)}"
    return f"A Zipf distribution with alpha {alpha:g}"


@dataclass(frozen=True)
class Plan:
    """What `dpsample plan` prints: the forecasts, and the options that led to them."""

    forecasts: Sequence[Forecast]
    share: float  # of the keys that a question selects
    goal: Goal | None = None
    default_delta: bool = False  # whether delta follows from the number of elements
    notice: str | None = None  # see `privacy_notice`
    source: Origin | None = None

    @property
    def release(self) -> str:
        """The command that makes the recommended release."""
        return command(recommended(self.forecasts, self.goal).setting, self.source)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            **({"NOT private": self.notice} if self.notice else {}),
            "goal": None if self.goal is None else str(self.goal),
            "delta_by_number_of_elements": self.default_delta,
            "forecasts": [forecast.to_json() for forecast in self.forecasts],
            "release": self.release,
        }

    def lines(self) -> list[str]:
        """Return the plan as lines of text."""
        warning = [self.notice] if self.notice else []
        return [
            *([*warning, ""] if warning else []),
            *self._tables(),
            *self._notes(),
            *self._legend(),
            "",
            f"Next: {self.release}",
            *warning,
        ]

    def _tables(self) -> Iterator[str]:
        """One table for all settings that differ in epsilon only; columns are equally wide in all tables."""
        definition = self.forecasts[0].setting.privacy.definition
        heads = (
            "epsilon" if definition is None else definition.symbol,
            *COLUMNS,
            *([POSSIBLE] if self._bounded else []),
        )
        tables = {title: [heads, *chain(*map(_rows, group))] for title, group in groupby(self.forecasts, _title)}
        widths = [max(map(len, column)) for column in zip(*chain(*tables.values()), strict=True)]
        for title, rows in tables.items():
            yield title
            yield from (aligned(row, widths) for row in rows)
            yield ""

    @property
    def _bounded(self) -> bool:
        """Whether it is known what any method could report."""
        return any(forecast.possible is not None for forecast in self.forecasts)

    def _notes(self) -> list[str]:
        notes = dict.fromkeys(note for forecast in self.forecasts for note in forecast.notes)
        return [*(f"Note: {note}." for note in notes), ""] if notes else []

    def _legend(self) -> Iterator[str]:
        """A line for each column, and for each method that is in a table."""
        present = {method.method for forecast in self.forecasts for method in forecast.methods}
        meanings = columns(self.share) | ({POSSIBLE: POSSIBLE_WORDS} if self._bounded else {})
        meanings |= {name: words for name, words in METHODS.items() if name in present}
        yield from (f"{name:<20}  {words}" for name, words in meanings.items())
        if self.goal is not None:
            yield f"Each epsilon is the smallest, to 3 figures, with which PWS reaches {self.goal}."
        if self._bounded:
            yield "Shares and errors are relative to the data before users keep a bounded number of keys."
        yield from next_rule(self.forecasts, self.goal)
        if self.default_delta:
            yield "delta was chosen by the number of elements: a power of ten, at most a tenth of 1 / that number."
        if self.notice:
            yield UNCOVERED


def next_rule(forecasts: Sequence[Any], goal: Goal | None = None) -> Iterator[str]:
    """Say by which rule the next command was chosen, if there was a choice."""
    if len(forecasts) > 1:
        enough = "" if goal is not None else f", of those that cover {100 * ENOUGH:.0f} % of what the best covers"
        yield f"Next has the smallest epsilon{enough}; if equal, the smallest delta."


def _title(forecast: Forecast) -> str:
    """What all rows of a table have in common."""
    setting, scheme = forecast.setting, kept_words(forecast.sampling)
    if forecast.sampling.name != "keep all":
        form = forecast.sampling.to_json()
        weight = [f"{name} {form[name]}" for name in ("power", "cap") if form.get(name) not in (None, "1")]
        scheme = ", ".join([f"{form['scheme']} with tau {form['tau']}", *weight])
    size = f" (for a sample of {setting.size.size:,} keys)" if setting.size else ""
    data, uncut = forecast.frequencies, forecast.frequencies.uncut
    left = ""
    if uncut is not None:
        left = f" left of {uncut.total:,} with {uncut.elements:,} ({percent(data.elements / uncut.elements)})"
    return (
        f"delta {text(setting.privacy.delta)}, for {explain_protected(setting.max_keys_per_user)}\n"
        f"{data.total:,} keys with {data.elements:,} elements{left}; {scheme}{size}"
    )


def kept_words(sampling: Sampling) -> str:
    """Say which keys are kept if they are not sampled."""
    return f"all keys{f' of frequency {sampling.least:,} or more' if sampling.least > 1 else ''} are kept"


def _rows(forecast: Forecast) -> Iterator[tuple[str, ...]]:
    for method in forecast.methods:
        possible = [] if forecast.possible is None else [percent(method.keys / forecast.possible)]
        yield (_stated(forecast.setting.privacy) if method is forecast.pws else "", *cells(method), *possible)


def _stated(privacy: Privacy) -> str:
    """The epsilon, or that by which a budget is stated instead."""
    return text(privacy.epsilon if privacy.definition is None else privacy.definition.value)


def aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """The method to the left, numbers to the right."""
    padded = [cell.ljust(w) if n == 1 else cell.rjust(w) for n, (cell, w) in enumerate(zip(row, widths, strict=True))]
    return "  ".join(padded).rstrip()


def columns(share: float) -> dict[str, str]:
    """Say what each column means; a question selects this share of the keys."""
    return {
        "keys": "the expected number of reported keys; of keys: the same as a share of all keys",
        "of elements": "the expected share of all elements whose key is reported",
        "threshold": "the detection threshold: the lowest frequency that is reported with probability 1/2 or more",
        "total +-": "root mean square error of the estimated number of all elements, relative to the truth",
        "selection +-": f"the same for the elements of {100 * share:g} % of the keys, selected at random",
    }


def cells(method: Expected) -> tuple[str, ...]:
    """Write what is expected of one method, a text for each of `COLUMNS`.

    >>> cells(Expected("PWS", 5512.3, 0.0551, 0.762, 1024, 0.207))
    ('PWS', '5,512', '5.51 %', '76.2 %', '1,024', '20.7 %', '-')
    """
    return (
        method.method,
        number(method.keys),
        percent(method.share_of_keys),
        percent(method.share_of_elements),
        "never" if method.detection_threshold is None else f"{method.detection_threshold:,}",
        percent(method.nrmse),
        percent(method.selection_nrmse),
    )


def number(keys: float) -> str:
    """Write an expected number of keys.

    >>> number(5512.3), number(0.0301)
    ('5,512', '0.03')
    """
    return f"{keys:,.0f}" if keys >= 10 else f"{keys:.2g}"


def percent(share: float | None) -> str:
    """Write a share with three figures.

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
    words += _option("key", list(source.key_columns if source else [KEY]))
    for name, value in source.arguments.items() if source else []:
        words += _option("input_format" if name == "format" else name, value)
    if setting.max_keys_per_user is not None:
        words += [] if source and "user" in source.arguments else ["--user", USER]
        words += ["--max-keys-per-user", str(setting.max_keys_per_user)]
    definition = setting.privacy.definition
    words += [f"--{'epsilon' if definition is None else definition.name}", _stated(setting.privacy)]
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
