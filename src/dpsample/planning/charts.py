"""The charts of a plan's page: reported keys and errors by epsilon, and the reporting curve.

Placed   a chart, the position of the sliders at which it is shown, and the same as a table
charts   a plan -> its charts, for all positions

Axes span all forecasts of the plan, so that charts at different positions can be compared.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpsample.comparison.reporting_curve import PWS, SBH, TIGHT, curve_at, end_of_rise
from dpsample.exact import text
from dpsample.planning.forecast import Expected, Forecast
from dpsample.planning.plan import Plan, sampling_of, stated_name
from dpsample.presentation.charts import Axis, Caption, Line, LineChart, Point
from dpsample.release.option_words import budget_value
from dpsample.scheme.sampling import Ints

SAMPLED_ALONE = "sampling alone, not private"
_CURVE_POINTS = (
    100  # frequencies of a reporting curve: steps are about 10 % if its axis ends at 10,000
)
_TABLE_ROWS = 25  # of these in the table beside the curve
# A factor before the first and after the last point by epsilon, whose marks would be cut off at the end.
_ROOM = 1.06

Lines = Mapping[str, Sequence[tuple[float, float]]]  # name of a line -> its points
Position = dict[str, str]  # name of a slider -> the text of where it stands


@dataclass(frozen=True)
class Placed:
    """A chart and its table, shown at one position of the sliders.

    A chart that joins the forecasts of all epsilons is shown at each epsilon: its position has none.
    """

    position: str
    chart: LineChart
    heads: list[str]
    rows: list[list[str]]


def position_of(forecast: Forecast) -> Position:
    """Return where a forecast stands on each slider, as a text."""
    setting = forecast.setting
    size = setting.size
    bound = setting.max_keys_per_user
    position = {"epsilon": budget_value(setting.privacy), "delta": text(setting.privacy.delta)}
    position["sampling"] = sampling_of(forecast)
    if size is not None:
        position["sampling"] = f"{size.scheme}, about {size.size:,} keys"
    position["users"] = f"{bound:,}" if bound else "no bound"
    return position


def joined(position: Position) -> str:
    """Return a position as one text, by which the script of the page finds what is shown there."""
    return "|".join(position.values())


def charts(plan: Plan) -> list[Placed]:
    """Return the charts of a plan: reported keys and errors by epsilon; of elements also the reporting curve."""
    first = plan.forecasts[0].setting
    error = "median error of a count" if first.discover else "error of a selection"
    keys = _ByEpsilon(plan, "keys", "reported keys", _keys)
    errors = _ByEpsilon(plan, "errors", error, _error)
    placed = list(keys.charts())
    if errors.largest:
        placed += errors.charts()
    if first.discover is None:
        placed += _reporting_curves(plan.forecasts)
    return placed


def _keys(method: Expected) -> float | None:
    return method.keys


def _error(method: Expected) -> float | None:
    return method.way.median_error if method.way else method.selection_nrmse


@dataclass(frozen=True)
class _ByEpsilon:
    """The charts of one number by epsilon: one for each group of forecasts that differ in epsilon alone."""

    plan: Plan
    name: str
    y: str  # the name of the number
    value: Callable[[Expected], float | None]

    @property
    def largest(self) -> float:
        """The largest number of any forecast; 0 if there are none."""
        values = [0.0]
        for forecast in self.plan.forecasts:
            values += [value for _, value in self._numbers(forecast)]
        return max(values)

    def charts(self) -> Iterator[Placed]:
        """Yield the chart of each group."""
        groups: dict[str, list[Forecast]] = {}
        for forecast in self.plan.forecasts:
            without_epsilon = {**position_of(forecast), "epsilon": ""}
            groups.setdefault(joined(without_epsilon), []).append(forecast)
        for number, (position, forecasts) in enumerate(groups.items()):
            yield self._placed(position, number, sorted(forecasts, key=_epsilon))

    def _placed(self, position: str, number: int, forecasts: Sequence[Forecast]) -> Placed:
        """Return the chart of a group, whose epsilons ascend."""
        lines: dict[str, list[tuple[float, float]]] = {}
        for forecast in forecasts:
            for method, value in self._numbers(forecast):
                lines.setdefault(method, []).append((_epsilon(forecast), value))
        stated = stated_name(self.plan.forecasts[0].setting.privacy)
        epsilons = [_epsilon(forecast) for forecast in self.plan.forecasts]
        span = (min(epsilons) / _ROOM, max(epsilons) * _ROOM)
        x = Axis(stated, span, log=True)
        y = Axis(self.y, (0.0, _ROOM * self.largest))
        name = f"{self.name}-{number}"
        title = f"{self.y.capitalize()} of each method, by {stated}."
        chart = LineChart(
            Caption(name, title, f"Line chart. {title}"), x, y, _drawn(lines), dots=True
        )
        return Placed(position, chart, [stated, *lines], _rows(lines))

    def _numbers(self, forecast: Forecast) -> Iterator[tuple[str, float]]:
        """Yield the number of each method that has one; to four figures, which are enough for a chart."""
        for method in forecast.every_method:
            value = self.value(method)
            if value is not None:
                yield method.method, float(f"{value:.4g}")


def _epsilon(forecast: Forecast) -> float:
    return float(budget_value(forecast.setting.privacy))


def _reporting_curves(forecasts: Sequence[Forecast]) -> Iterator[Placed]:
    """Yield the reporting probability by frequency, up to where the slowest of all curves has risen."""
    end = max(end_of_rise(forecast.sampling, forecast.setting.per_key) for forecast in forecasts)
    in_equal_ratios = np.geomspace(1, end, _CURVE_POINTS)
    frequencies = np.unique(np.rint(in_equal_ratios).astype(np.int64))
    title = "Rare keys are hidden and frequent keys are reported. In between, chance decides."
    last = float(max(frequencies[-1], 2))
    x = Axis("frequency", (1.0, last), log=True)
    y = Axis("reporting probability", (0.0, 1.0))
    every = -(-len(frequencies) // _TABLE_ROWS)
    for number, forecast in enumerate(forecasts):
        lines = _curve(forecast, frequencies)
        caption = Caption(f"curve-{number}", title, f"Line chart. {title}")
        chart = LineChart(caption, x, y, _drawn(lines))
        some = {name: points[::every] for name, points in lines.items()}
        position = joined(position_of(forecast))
        yield Placed(position, chart, ["frequency", *lines], _rows(some))


def _curve(forecast: Forecast, frequencies: Ints) -> Lines:
    """Return the curve of each method that states it."""
    setting = forecast.setting
    peers = setting.budget.composed_per_key
    curve = curve_at(frequencies, forecast.sampling, setting.per_key, peers)
    drawn = {PWS: curve.pws, SBH: curve.sbh, TIGHT: curve.tight}
    if (curve.sampled < 1).any():
        drawn[SAMPLED_ALONE] = curve.sampled
    lines = {}
    for name, probabilities in drawn.items():
        if probabilities is not None:
            rounded = probabilities.round(4).tolist()
            lines[name] = list(zip(frequencies.tolist(), rounded, strict=True))
    return lines


def _drawn(lines: Lines) -> list[Line]:
    """Return the lines of a chart; a pointer shows the numbers of a point."""
    drawn = []
    for name, places in lines.items():
        points = []
        for x, y in places:
            points.append(Point(x, y, said=f"{name}: {y:,.4g} at {x:g}"))
        drawn.append(Line(name, points))
    return drawn


def _rows(lines: Lines) -> list[list[str]]:
    """Return the points of all lines as the rows of a table: a place, then the number of each line, or a dash."""
    places: dict[float, None] = {}
    for points in lines.values():
        places |= dict.fromkeys(x for x, _ in points)
    by_line = [dict(points) for points in lines.values()]
    rows = []
    for x in places:
        cells = [f"{x:,g}"]
        for numbers in by_line:
            y = numbers.get(x)
            cells.append("-" if y is None else f"{y:,.4g}")
        rows.append(cells)
    return rows
