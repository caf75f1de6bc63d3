"""A plan in words: what `dpsample plan` prints, what its columns mean, and the command or Python of the release.

All of it is as private as the forecasts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from dpsample.comparison.reporting_curve import OPEN, PWS, SAMPLED, SBH, TIGHT
from dpsample.exact import text
from dpsample.planning.command import Origin, command
from dpsample.planning.forecast import AT_MOST, Expected, Forecast
from dpsample.planning.goals import ENOUGH, Goal, recommended
from dpsample.planning.users import SIZES
from dpsample.privacy import Privacy
from dpsample.release.explain import explain_protected
from dpsample.release.option_words import budget_value

PRIVATE = "NOT PRIVATE: this is computed from the data as they are. Do not publish it."
HISTOGRAM = "If the histogram comes from private data, this is NOT PRIVATE: do not publish it."
UNCOVERED = "The privacy guarantee does not cover parameters that were chosen by looking at private data."
CHOSEN = "*"
METHODS = {  # name of a method, or how the names of ways to find keys begin or end -> what it means
    PWS: "private weighted sampling, what dpsample releases; errors are predicted for the default estimator",
    SBH: "stability-based histogram: Laplace noise and a cutoff",
    TIGHT: "the stability-based histogram with the lowest cutoff that is as private",
    SAMPLED: "elements are sampled, and keys with enough sampled elements are reported",
    OPEN: "the weighted sample without privacy",
    "one key each": "keys are found by one key of each user; a key that is full leaves users to their others",
    "up to k keys each": "keys are found by up to k keys of each user, chosen at random",
    "keys only": "nothing is spent on counts: --keys-only",
    "counted": "the users of each key that was found are counted, at the default share of the privacy",
    AT_MOST: "a bound that no method with this epsilon and delta exceeds",
}


@dataclass(frozen=True)
class Column:
    """A column of a plan: its head, its title on a page, what it means, and its text for a method of a forecast."""

    head: str
    title: str
    meaning: str
    cell: Callable[[Forecast, Expected], str]


def columns(forecasts: Sequence[Forecast]) -> list[Column]:
    """Return the columns that these forecasts, all of one kind, fill."""
    return [*_columns_of_users()] if forecasts[0].setting.discover else [*_columns_of_elements(forecasts)]


_KEYS = Column("keys", "Keys reported", "the expected number of reported keys", lambda _, method: number(method.keys))
_OF_KEYS = Column(
    "of keys", "Of all keys", "the same as a share of all keys", lambda _, method: percent(method.share_of_keys)
)
_OF_POSSIBLE = Column(
    "of possible",
    "Of what is possible",
    "reported keys, as a share of those that any method could report with this epsilon and delta",
    lambda forecast, method: percent(method.keys / forecast.possible.keys if forecast.possible else None),
)


def _columns_of_elements(forecasts: Sequence[Forecast]) -> Iterator[Column]:
    yield _KEYS
    yield _OF_KEYS
    yield Column(
        "of elements",
        "Of all elements",
        "the expected share of all elements whose key is reported",
        lambda _, method: percent(method.share_of_elements),
    )
    yield _threshold("the lowest frequency that")
    yield Column(
        "total +-",
        "Error of a total",
        "root mean square error of the estimated number of all elements, relative to the truth",
        lambda _, method: percent(method.nrmse),
    )
    yield Column(
        "selection +-",
        "Error of a selection",
        f"the same for the elements of {100 * forecasts[0].share:g} % of the keys, selected at random",
        lambda _, method: percent(method.selection_nrmse),
    )
    if any(forecast.possible for forecast in forecasts):
        yield _OF_POSSIBLE


def _columns_of_users() -> Iterator[Column]:
    yield _KEYS
    yield _OF_KEYS
    yield _OF_POSSIBLE
    yield _threshold("the lowest number of users with which a key")
    yield Column("k", "Keys of a user, at most", "the largest number of keys that a user gives", _keys_each)
    for place, size in enumerate(SIZES):
        meaning = f"the error of the count of a key with about {size:,} users, relative to it; -: no such key"
        yield Column(f"{size:,} users +-", f"Error at {size:,} users", meaning, _count_error(place))


def _threshold(lowest: str) -> Column:
    def cell(_: Forecast, method: Expected) -> str:
        return "never" if method.detection_threshold is None else f"{method.detection_threshold:,}"

    return Column("threshold", "Detection threshold", f"{lowest} is reported with probability 1/2 or more", cell)


def _keys_each(_: Forecast, method: Expected) -> str:
    return f"{method.way.keys_each:,}" if method.way else ""


def _count_error(place: int) -> Callable[[Forecast, Expected], str]:
    """The text of the error of counts at one of `SIZES`."""

    def cell(_: Forecast, method: Expected) -> str:
        if method.way is None or not method.way.counted:
            return ""
        return percent(method.way.count_errors[place])

    return cell


def rows(forecast: Forecast, shown: Sequence[Column]) -> list[list[str]]:
    """Return a row for each method, which begins with its name, and one for the most that is possible, if known."""
    return [[_name(method), *(column.cell(forecast, method) for column in shown)] for method in forecast.every_method]


def _name(method: Expected) -> str:
    chosen = method.way is not None and method.way.chosen
    return f"{method.method} {CHOSEN}" if chosen else method.method


def legend(forecasts: Sequence[Forecast]) -> dict[str, str]:
    """Return the meaning of each column, and of each method that is in a table."""
    meanings = {column.head: column.meaning for column in columns(forecasts)}
    present = {part for forecast in forecasts for row in rows(forecast, []) for part in row[0].rstrip(" *").split(", ")}
    present |= {row[0] for forecast in forecasts for row in rows(forecast, [])}
    meanings |= {name: words for name, words in METHODS.items() if name in present}
    if forecasts[0].setting.discover:
        meanings[CHOSEN] = (
            "what --discover ask, the default, chooses if its numbers have no noise: what fills more keys"
        )
    return meanings


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
        lines = [*self._tables(), *self._notes(), *self.explained(), "", f"Next: {self.release}"]
        return [self.notice, "", *lines, self.notice] if self.notice else lines

    def _tables(self) -> Iterator[str]:
        """One table for all settings that differ in epsilon only; columns are equally wide in all tables."""
        shown = columns(self.forecasts)
        heads = [stated_name(self.forecasts[0].setting.privacy), "method", *(column.head for column in shown)]
        tables = {
            title: [heads, *(row for forecast in group for row in _labelled(forecast, shown))]
            for title, group in groupby(self.forecasts, title_of)
        }
        every_row = [row for table in tables.values() for row in table]
        widths = [max(map(len, column)) for column in zip(*every_row, strict=True)]
        for title, table in tables.items():
            yield title
            yield from (_aligned(row, widths) for row in table)
            yield ""

    def _notes(self) -> list[str]:
        notes = dict.fromkeys(note for forecast in self.forecasts for note in forecast.notes)
        return [*(f"Note: {note}." for note in notes), ""] if notes else []

    def explained(self) -> Iterator[str]:
        """Yield what columns and methods mean, and by which rules the plan was made."""
        yield from (f"{name:<20}  {words}" for name, words in legend(self.forecasts).items())
        first = self.forecasts[0]
        of_users = first.setting.discover is not None
        if self.goal is not None:
            yield f"Each epsilon is the smallest, to 3 figures, with which PWS reaches {self.goal}."
        if first.frequencies.uncut is not None:
            yield "Shares and errors are relative to the data before users keep a bounded number of keys."
        if len(self.forecasts) > 1:
            covers = f", of those that cover {100 * ENOUGH:.0f} % of what the best covers"
            yield f"Next has the smallest epsilon{covers if self.goal is None else ''}; if equal, the smallest delta."
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
    protected = explain_protected(setting.max_keys_per_user, setting.unit)
    return f"delta {text(setting.privacy.delta)}, for {protected}\n{described_data(forecast)}; {sampling_of(forecast)}"


def described_data(forecast: Forecast) -> str:
    """Return the numbers of keys and elements, before and after users keep a bounded number of keys."""
    data, uncut = forecast.frequencies, forecast.frequencies.uncut
    if forecast.setting.discover is not None:
        return f"{data.total:,} keys; users have {data.elements:,} keys in all"
    left = ""
    if uncut is not None:
        left = f" left of {uncut.total:,} with {uncut.elements:,} ({percent(data.elements / uncut.elements)})"
    return f"{data.total:,} keys with {data.elements:,} elements{left}"


def sampling_of(forecast: Forecast) -> str:
    """Return which keys are kept, or how they are sampled."""
    sampling, size = forecast.sampling, forecast.setting.size
    if sampling.name == "keep all":
        rare = f" of frequency {sampling.least:,} or more" if sampling.least > 1 else ""
        return f"all keys{rare} are kept"
    form = sampling.to_json()
    weight = [f"{name} {form[name]}" for name in ("power", "cap") if form.get(name) not in (None, "1")]
    words = ", ".join([f"{form['scheme']} with tau {form['tau']}", *weight])
    return f"{words} (for a sample of {size.size:,} keys)" if size else words


def _labelled(forecast: Forecast, shown: Sequence[Column]) -> Iterator[list[str]]:
    """The rows of a forecast; the first begins with its epsilon."""
    label = budget_value(forecast.setting.privacy)
    for row in rows(forecast, shown):
        yield [label, *row]
        label = ""


def stated_name(privacy: Privacy) -> str:
    """Return the name of what `stated` returns."""
    return "epsilon" if privacy.definition is None else privacy.definition.symbol


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """The method to the left, numbers to the right."""
    label, method, *numbers = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
    return "  ".join([label, method.strip().ljust(len(method)), *numbers]).rstrip()


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
