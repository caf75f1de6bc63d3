"""The content of a plan's page, as JSON values: its sliders, and what it shows at each position of them.

Position    where a forecast stands on the sliders
Axis        a slider, with the texts of its positions
Chart       a chart that the page draws anew for each position
content     a plan -> all that the page's script reads
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpsample.comparison.reporting_curve import PWS, SBH, TIGHT, curve_at, end_of_rise
from dpsample.exact import text
from dpsample.planning.forecast import Expected, Forecast
from dpsample.planning.text import (
    Plan,
    columns,
    command,
    described_data,
    python,
    rows,
    sampling_of,
    stated,
    stated_name,
)
from dpsample.presentation.charts import Panel
from dpsample.presentation.page_charts import page_chart
from dpsample.release.explain import explain_protected, explain_strength, sentence
from dpsample.scheme.sampling import Ints

_CURVE_POINTS = 100  # frequencies of a reporting curve: steps are about 10 % if its axis ends at 10,000
_ROOM = 1.06  # a factor before the first and after the last point, which would be cut off at the very end
SAMPLED_ALONE = "sampling alone, not private"

Lines = Mapping[str, Sequence[tuple[float, float]]]  # name of a line -> its points


@dataclass(frozen=True)
class Position:
    """Where a forecast stands on the sliders."""

    epsilon: Fraction  # or the rho or mu by which the budget is stated
    delta: Fraction
    sampling: str
    users: int  # keys of each user, at most; 0 without a bound

    @staticmethod
    def of(forecast: Forecast) -> "Position":
        """Return the position of a forecast."""
        setting, size = forecast.setting, forecast.setting.size
        sampling = f"{size.scheme}, about {size.size:,} keys" if size else sampling_of(forecast)
        epsilon = Fraction(stated(setting.privacy))
        return Position(epsilon, setting.privacy.delta, sampling, setting.max_keys_per_user or 0)

    def labels(self) -> dict[str, str]:
        """Return the position on each slider as a text."""
        bound = f"{self.users:,}" if self.users else "no bound"
        return {"epsilon": text(self.epsilon), "delta": text(self.delta), "sampling": self.sampling, "users": bound}

    def key(self) -> str:
        """Return the name under which the page finds what it shows here."""
        return "|".join(self.labels().values())


@dataclass(frozen=True)
class Axis:
    """A slider: its name, its title, and the texts of its positions in order."""

    name: str
    title: str
    labels: list[str]


def axes(plan: Plan) -> list[Axis]:
    """Return the sliders of a plan. Numbers ascend; samplings keep the order in which they were planned."""
    positions = [Position.of(forecast) for forecast in plan.forecasts]
    epsilon = stated_name(plan.forecasts[0].setting.privacy).capitalize()
    ordered = {
        ("epsilon", epsilon): sorted(positions, key=lambda position: position.epsilon),
        ("delta", "Delta"): sorted(positions, key=lambda position: position.delta),
        ("sampling", "Sampling"): positions,
        ("users", "Keys per user"): sorted(positions, key=lambda position: position.users),
    }
    made = []
    for (name, title), along in ordered.items():
        labels = [position.labels()[name] for position in along]
        made.append(Axis(name, title, list(dict.fromkeys(labels))))
    return made


@dataclass(frozen=True)
class Chart:
    """A chart that the page draws anew for each position. Its axes span all forecasts of the plan."""

    name: str
    caption: str
    x: str
    y: str
    lines: Callable[[Forecast], Lines]
    by_epsilon: bool  # whether it joins the forecasts of all epsilons, each of which has one point of a line
    largest_y: float | None = None

    def to_json(self, forecasts: Sequence[Forecast]) -> dict[str, Any]:
        """Return the chart without its rows, which the page puts in."""
        points = [row for forecast in forecasts for row in self._rows(forecast)]
        largest = self.largest_y or 1.05 * max(row["y"] for row in points)
        first, last = (end(row["x"] for row in points) for end in (min, max))
        room = _ROOM if self.by_epsilon else 1.0
        panel = Panel("", self.x, self.y, log_x=True, span_x=(first / room, last * room), span_y=(0, largest))
        specification = {**page_chart(points, panel, points=self.by_epsilon), "data": {"name": "rows"}}
        return {"x": self.x, "y": self.y, "by_epsilon": self.by_epsilon, "specification": specification}

    def _rows(self, forecast: Forecast) -> list[dict[str, Any]]:
        return [
            {"line": line, "x": x, "y": y, "method": line, self.x: x, self.y: y}
            for line, points in self.lines(forecast).items()
            for x, y in points
        ]


def charts(plan: Plan) -> list[Chart]:
    """Return the charts of a plan: reported keys and errors by epsilon; of elements also the reporting curve."""
    forecasts = plan.forecasts
    epsilon = stated_name(forecasts[0].setting.privacy)
    of_users = forecasts[0].setting.discover is not None
    error = "median error of a count" if of_users else "error of a selection"
    made = [
        Chart("keys", f"Reported keys, by {epsilon}.", epsilon, "reported keys", _keys_by_epsilon, True),
        Chart("errors", f"The {error}, relative to the truth, by {epsilon}.", epsilon, error, _errors_by_epsilon, True),
    ]
    if not of_users:
        frequencies = _curve_frequencies(forecasts)
        caption = "Rare keys are hidden and frequent keys are reported. In between, chance decides."
        curve = Chart(
            "curve", caption, "frequency", "reporting probability", lambda made: _curve(made, frequencies), False, 1.0
        )
        made.append(curve)
    return [chart for chart in made if any(chart.lines(forecast) for forecast in forecasts)]


def _keys_by_epsilon(forecast: Forecast) -> Lines:
    return _by_epsilon(forecast, {method.method: method.keys for method in _all_methods(forecast)})


def _errors_by_epsilon(forecast: Forecast) -> Lines:
    errors = {
        method.method: method.way.median_error if method.way else method.selection_nrmse for method in forecast.methods
    }
    return _by_epsilon(forecast, {name: error for name, error in errors.items() if error is not None})


def _by_epsilon(forecast: Forecast, values: Mapping[str, float]) -> Lines:
    epsilon = float(Position.of(forecast).epsilon)
    return {name: [(epsilon, float(f"{value:.4g}"))] for name, value in values.items()}


def _all_methods(forecast: Forecast) -> list[Expected]:
    return [*forecast.methods, *([forecast.possible] if forecast.possible else [])]


def _curve_frequencies(forecasts: Sequence[Forecast]) -> Ints:
    """Frequencies in equal ratios up to where the slowest of all curves has risen."""
    end = max(end_of_rise(forecast.sampling, forecast.setting.per_key) for forecast in forecasts)
    return np.unique(np.rint(np.geomspace(1, end, _CURVE_POINTS)).astype(np.int64))


def _curve(forecast: Forecast, frequencies: Ints) -> Lines:
    """The reporting probability by frequency, for each method that states it."""
    setting = forecast.setting
    curve = curve_at(frequencies, forecast.sampling, setting.per_key, setting.budget.composed_per_key)
    drawn = {PWS: curve.pws, SBH: curve.sbh, TIGHT: curve.tight}
    if (curve.sampled < 1).any():
        drawn[SAMPLED_ALONE] = curve.sampled
    i = frequencies.tolist()
    return {name: list(zip(i, line.round(4).tolist(), strict=True)) for name, line in drawn.items() if line is not None}


def content(plan: Plan) -> dict[str, Any]:
    """Return all that the page's script reads: the sliders, where they start, and what is shown at each position."""
    drawn = charts(plan)
    return {
        "axes": {axis.name: axis.labels for axis in axes(plan)},
        "start": Position.of(plan.recommended).labels(),
        "charts": {chart.name: chart.to_json(plan.forecasts) for chart in drawn},
        "forecasts": {Position.of(forecast).key(): _shown(forecast, plan, drawn) for forecast in plan.forecasts},
    }


def _shown(forecast: Forecast, plan: Plan, drawn: Sequence[Chart]) -> dict[str, Any]:
    """What the page shows at the position of a forecast."""
    setting = forecast.setting
    shown = columns(plan.forecasts)
    facts = [column.cell(forecast, forecast.pws) for column in shown]
    values = "; ".join(f"{column.title}: {value}" for column, value in zip(shown, facts, strict=True))
    protected = explain_protected(setting.max_keys_per_user, setting.unit)
    return {
        "data": described_data(forecast),
        "facts": facts,
        "summary": f"{stated_name(setting.privacy)} {stated(setting.privacy)}. {values}.",
        "meaning": [
            f"The release protects {protected}.",
            *map(sentence, explain_strength(setting.privacy, setting.unit)),
        ],
        "rows": rows(forecast, shown),
        "notes": [sentence(note) for note in forecast.notes],
        "command": command(setting, plan.source),
        "python": python(setting, plan.source),
        "lines": {chart.name: chart.lines(forecast) for chart in drawn},
    }
