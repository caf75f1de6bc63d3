"""A plan in words: what `dpsample plan` prints, what its columns mean, and the command or Python of the release.

All of it is as private as the forecasts.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

from dpsample.comparison.reporting_curve import OPEN, PWS, SAMPLED, SBH, TIGHT
from dpsample.exact import text
from dpsample.planning.command import Origin, command
from dpsample.planning.forecast import Expected, Forecast
from dpsample.planning.goals import ENOUGH, Goal, recommended
from dpsample.presentation.explain import explain_protected
from dpsample.release.option_words import budget_value
from dpsample.scheme.sampling import Sampling

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
        yield (budget_value(forecast.setting.privacy) if method is forecast.pws else "", *cells(method), *possible)


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
