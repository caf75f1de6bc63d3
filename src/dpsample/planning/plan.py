"""A plan: forecasts and their circumstances. `dpsample plan` prints it, and `dpsample explore` makes a page of it."""

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
    """Forecasts of one kind of release, with the goal, the source and the defaults that led to them."""

    forecasts: Sequence[Forecast]
    goal: Goal | None = None
    default_delta: bool = False  # whether delta follows from the number of elements
    described: str = ""  # where the frequencies come from
    source: Origin | None = None
    warning: str | None = None  # by default `PRIVATE`, if a forecast is

    @property
    def notice(self) -> str | None:
        """How private the plan is, if it may not be published."""
        if self.warning:
            return self.warning
        private = any(forecast.private for forecast in self.forecasts)
        return PRIVATE if private else None

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
        form: dict[str, Any] = {}
        if self.notice:
            form["NOT private"] = self.notice
        form["goal"] = None if self.goal is None else str(self.goal)
        form["delta_by_number_of_elements"] = self.default_delta
        form["forecasts"] = [forecast.to_json() for forecast in self.forecasts]
        form["release"] = self.release
        return form

    def lines(self) -> list[str]:
        """Return the plan as lines of text."""
        lines = [*self._tables(), *self._notes(), *self._legend(), *self._rules()]
        lines += ["", f"Next: {self.release}"]
        if self.notice:
            return [self.notice, "", *lines, self.notice]
        return lines

    def _tables(self) -> Iterator[str]:
        """Yield a table for all settings that differ in epsilon only; columns are equally wide in all tables."""
        shown = columns(self.forecasts)
        epsilon = stated_name(self.forecasts[0].setting.privacy)
        heads = [epsilon, "method", *(column.head for column in shown)]
        rows_of = {id(forecast): _labelled(forecast, shown) for forecast in self.forecasts}
        every_row = [heads]
        for labelled in rows_of.values():
            every_row += labelled
        widths = [max(map(len, column)) for column in zip(*every_row, strict=True)]
        for title, group in groupby(self.forecasts, title_of):
            yield title
            yield _aligned(heads, widths)
            for forecast in group:
                for row in rows_of[id(forecast)]:
                    yield _aligned(row, widths)
            yield ""

    def _notes(self) -> Iterator[str]:
        """Yield the notes of all forecasts, each once."""
        notes: dict[str, None] = {}
        for forecast in self.forecasts:
            notes |= dict.fromkeys(forecast.notes)
        for note in notes:
            yield f"Note: {note}."
        if notes:
            yield ""

    def _legend(self) -> Iterator[str]:
        """Yield the meaning of each column and of each method."""
        for name, words in legend(self.forecasts).items():
            yield f"{name:<20}  {words}"

    def _rules(self) -> Iterator[str]:
        """Yield the rules by which the plan was made."""
        first = self.forecasts[0]
        if self.goal is not None:
            yield f"Each epsilon is the smallest, to 3 figures, with which PWS reaches {self.goal}."
        if first.frequencies.uncut is not None:
            yield "Shares and errors are relative to the data before users keep a bounded number of keys."
        if len(self.forecasts) > 1:
            yield from self._rule_of_choice()
        if self.default_delta:
            counted = "users' keys" if self._of_users else "elements"
            yield f"delta was chosen by the number of {counted}: a power of ten, at most a tenth of 1 / that number."
        if first.setting.amounts:
            yield "Rows and sums have their share of the privacy; their own errors are not forecast."
        if self.notice:
            yield UNCOVERED

    def _rule_of_choice(self) -> Iterator[str]:
        """Yield how the recommended one of several forecasts was chosen."""
        enough = ""
        if self.goal is None:
            enough = f", of those that cover {100 * ENOUGH:.0f} % of what the best covers"
        yield f"Next has the smallest epsilon{enough}; if equal, the smallest delta."
        if self._of_users:
            yield "For this, counted keys cover as much as an equal number of the keys with the most users."

    @property
    def _of_users(self) -> bool:
        """Whether the plan is for users without a contribution bound."""
        return self.forecasts[0].setting.discover is not None


def title_of(forecast: Forecast) -> str:
    """Return what all rows of a table have in common: delta, the unit of privacy, the data and the sampling."""
    setting = forecast.setting
    delta = text(setting.privacy.delta)
    protected = explain_protected(setting.max_keys_per_user, setting.unit)
    return f"delta {delta}, for {protected}\n{described_data(forecast)}; {sampling_of(forecast)}"


def described_data(forecast: Forecast) -> str:
    """Return the numbers of keys and elements, before and after users keep a bounded number of keys."""
    data = forecast.frequencies
    if forecast.setting.discover is not None:
        return f"{data.total:,} keys; users have {data.elements:,} keys in all"
    kept = f"{data.total:,} keys with {data.elements:,} elements"
    uncut = data.uncut
    if uncut is None:
        return kept
    share = percent(data.elements / uncut.elements)
    return f"{kept} left of {uncut.total:,} with {uncut.elements:,} ({share})"


def sampling_of(forecast: Forecast) -> str:
    """Return the keys that are kept, or how keys are sampled."""
    sampling = forecast.sampling
    if sampling.name == "keep all":
        if sampling.least > 1:
            return f"all keys of frequency {sampling.least:,} or more are kept"
        return "all keys are kept"
    form = sampling.to_json()
    words = f"{form['scheme']} with tau {form['tau']}"
    for name in ("power", "cap"):
        if form.get(name) not in (None, "1"):
            words += f", {name} {form[name]}"
    size = forecast.setting.size
    if size is not None:
        words += f" (for a sample of {size.size:,} keys)"
    return words


def _labelled(forecast: Forecast, shown: Sequence[Column]) -> list[list[str]]:
    """Return the rows of a forecast; the first begins with its epsilon, the others with nothing."""
    first, *others = rows(forecast, shown)
    labelled = [[budget_value(forecast.setting.privacy), *first]]
    labelled += [["", *row] for row in others]
    return labelled


def stated_name(privacy: Privacy) -> str:
    """Return the name of what `budget_value` returns."""
    return "epsilon" if privacy.definition is None else privacy.definition.symbol


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """Return a line of these widths: its epsilon and numbers to the right, its method, the second cell, to the left."""
    cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
    cells[1] = row[1].ljust(widths[1])
    return "  ".join(cells).rstrip()
