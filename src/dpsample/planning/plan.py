"""A plan: forecasts, and what led to them. `dpsample plan` prints it, and `dpsample explore` makes a page of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from dpsample.exact import text
from dpsample.planning.columns import Column, columns, legend, percent, rows
from dpsample.planning.command import Origin, command
from dpsample.planning.forecast import Forecast
from dpsample.planning.goals import ENOUGH, Goal, recommended
from dpsample.privacy import Privacy
from dpsample.release.explain import explain_protected
from dpsample.release.option_words import budget_value

PRIVATE = "NOT PRIVATE: this is computed from the data as they are. Do not publish it."
HISTOGRAM = "If the histogram comes from private data, this is NOT PRIVATE: do not publish it."
UNCOVERED = (
    "The privacy guarantee does not cover parameters that were chosen by looking at private data."
)


@dataclass(frozen=True)
class Plan:
    """Forecasts of one kind of release, and what led to them: what `dpsample plan` and `dpsample explore` show."""

    forecasts: Sequence[Forecast]
    goal: Goal | None = None
    default_delta: bool = False  # whether delta follows from the number of elements
    described: str = ""  # where the frequencies come from
    source: Origin | None = None
    warning: str | None = None  # by default `PRIVATE`, if a forecast is

    @property
    def notice(self) -> str | None:
        """How private the plan is, if it may not be published."""
        private = any(forecast.private for forecast in self.forecasts)
        return self.warning or (PRIVATE if private else None)

    @property
    def recommended(self) -> Forecast:
        """The forecast to release by."""
        return recommended(self.forecasts, self.goal)

    @property
    def release(self) -> str:
        """The command that makes the recommended release."""
        return command(self.recommended.setting, self.source)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        form = {
            "goal": None if self.goal is None else str(self.goal),
            "delta_by_number_of_elements": self.default_delta,
            "forecasts": [forecast.to_json() for forecast in self.forecasts],
            "release": self.release,
        }
        return {"NOT private": self.notice, **form} if self.notice else form

    def lines(self) -> list[str]:
        """Return the plan as lines of text."""
        lines = [*self._tables(), *self._notes(), *self._explained(), "", f"Next: {self.release}"]
        return [self.notice, "", *lines, self.notice] if self.notice else lines

    def _tables(self) -> Iterator[str]:
        """One table for all settings that differ in epsilon only; columns are equally wide in all tables."""
        shown = columns(self.forecasts)
        epsilon = stated_name(self.forecasts[0].setting.privacy)
        heads = [epsilon, "method", *(column.head for column in shown)]
        labelled = {id(forecast): _labelled(forecast, shown) for forecast in self.forecasts}
        every_row = [heads, *(row for rows in labelled.values() for row in rows)]
        widths = [max(map(len, column)) for column in zip(*every_row, strict=True)]
        for title, group in groupby(self.forecasts, title_of):
            yield title
            yield _aligned(heads, widths)
            for forecast in group:
                yield from (_aligned(row, widths) for row in labelled[id(forecast)])
            yield ""

    def _notes(self) -> Iterator[str]:
        """The notes of all forecasts, each once."""
        notes = dict.fromkeys(note for forecast in self.forecasts for note in forecast.notes)
        yield from (f"Note: {note}." for note in notes)
        if notes:
            yield ""

    def _explained(self) -> Iterator[str]:
        """What columns and methods mean, and by which rules the plan was made."""
        for name, words in legend(self.forecasts).items():
            yield f"{name:<20}  {words}"
        first = self.forecasts[0]
        of_users = first.setting.discover is not None
        if self.goal is not None:
            yield f"Each epsilon is the smallest, to 3 figures, with which PWS reaches {self.goal}."
        if first.frequencies.uncut is not None:
            yield "Shares and errors are relative to the data before users keep a bounded number of keys."
        if len(self.forecasts) > 1:
            enough = (
                f", of those that cover {100 * ENOUGH:.0f} % of what the best covers"
                if self.goal is None
                else ""
            )
            yield f"Next has the smallest epsilon{enough}; if equal, the smallest delta."
            if of_users:
                yield "For this, counted keys cover as much as an equal number of the keys with the most users."
        if self.default_delta:
            counted = "users' keys" if of_users else "elements"
            yield f"delta was chosen by the number of {counted}: a power of ten, at most a tenth of 1 / that number."
        if first.setting.amounts:
            yield "Rows and sums have their share of the privacy; their own errors are not forecast."
        if self.notice:
            yield UNCOVERED


def title_of(forecast: Forecast) -> str:
    """Return what all rows of a table have in common: delta, the unit of privacy, the data and the sampling."""
    setting = forecast.setting
    privacy = f"delta {text(setting.privacy.delta)}, for {explain_protected(setting.max_keys_per_user, setting.unit)}"
    return f"{privacy}\n{described_data(forecast)}; {sampling_of(forecast)}"


def described_data(forecast: Forecast) -> str:
    """Return the numbers of keys and elements, before and after users keep a bounded number of keys."""
    data, uncut = forecast.frequencies, forecast.frequencies.uncut
    if forecast.setting.discover is not None:
        return f"{data.total:,} keys; users have {data.elements:,} keys in all"
    kept = f"{data.total:,} keys with {data.elements:,} elements"
    if uncut is None:
        return kept
    return f"{kept} left of {uncut.total:,} with {uncut.elements:,} ({percent(data.elements / uncut.elements)})"


def sampling_of(forecast: Forecast) -> str:
    """Return which keys are kept, or how they are sampled."""
    sampling, size = forecast.sampling, forecast.setting.size
    if sampling.name == "keep all":
        rare = f" of frequency {sampling.least:,} or more" if sampling.least > 1 else ""
        return f"all keys{rare} are kept"
    form = sampling.to_json()
    words = f"{form['scheme']} with tau {form['tau']}"
    for name in ("power", "cap"):
        if form.get(name) not in (None, "1"):
            words += f", {name} {form[name]}"
    return f"{words} (for a sample of {size.size:,} keys)" if size else words


def _labelled(forecast: Forecast, shown: Sequence[Column]) -> list[list[str]]:
    """The rows of a forecast; the first begins with its epsilon."""
    first, *others = rows(forecast, shown)
    return [[budget_value(forecast.setting.privacy), *first], *(["", *row] for row in others)]


def stated_name(privacy: Privacy) -> str:
    """Return the name of what `budget_value` returns."""
    return "epsilon" if privacy.definition is None else privacy.definition.symbol


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """The method to the left, numbers to the right."""
    label, method, *numbers = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
    return "  ".join([label, method.strip().ljust(len(method)), *numbers]).rstrip()
