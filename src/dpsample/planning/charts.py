"""The charts of a plan's page: reported keys and errors by epsilon, and the reporting curve.

Chart    a chart that the page draws anew for each position of its sliders
charts   a plan -> its charts
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsample.comparison.reporting_curve import PWS, SBH, TIGHT, curve_at, end_of_rise
from dpsample.planning.forecast import Expected, Forecast
from dpsample.planning.plan import Plan, stated_name
from dpsample.presentation.charts import Panel
from dpsample.presentation.page_charts import page_chart
from dpsample.release.option_words import budget_value
from dpsample.scheme.sampling import Ints

SAMPLED_ALONE = "sampling alone, not private"
_CURVE_POINTS = (
    100  # frequencies of a reporting curve: steps are about 10 % if its axis ends at 10,000
)
_ROOM = 1.06  # a factor before the first and after the last point by epsilon, whose marks would be cut off at the end

Lines = Mapping[str, Sequence[tuple[float, float]]]  # name of a line -> its points


@dataclass(frozen=True)
class Chart:
    """A chart that the page draws anew for each position. Its axes span all forecasts of the plan."""

    name: str
    caption: str
    x: str
    y: str
    lines: Sequence[Lines]  # of each forecast of the plan
    by_epsilon: bool = True  # whether it joins the forecasts of all epsilons, each of which has one point of a line
    largest_y: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the chart without its rows, which the page puts in."""
        rows = list(self._rows())
        chart = page_chart(rows, self._panel(rows), points=self.by_epsilon)
        specification = {**chart, "data": {"name": "rows"}}
        return {
            "x": self.x,
            "y": self.y,
            "by_epsilon": self.by_epsilon,
            "specification": specification,
        }

    def _rows(self) -> Iterator[dict[str, Any]]:
        for lines in self.lines:
            for line, points in lines.items():
                for x, y in points:
                    yield {"line": line, "x": x, "y": y, "method": line, self.x: x, self.y: y}

    def _panel(self, rows: Sequence[Mapping[str, Any]]) -> Panel:
        """The axes, wide enough for all rows."""
        xs = [row["x"] for row in rows]
        ys = [row["y"] for row in rows]
        room = _ROOM if self.by_epsilon else 1.0
        span_x = (min(xs) / room, max(xs) * room)
        span_y = (0, self.largest_y or _ROOM * max(ys))
        return Panel("", self.x, self.y, log_x=True, span_x=span_x, span_y=span_y)


def charts(plan: Plan) -> list[Chart]:
    """Return the charts of a plan: reported keys and errors by epsilon; of elements also the reporting curve."""
    first = plan.forecasts[0].setting
    epsilon = stated_name(first.privacy)
    error = "median error of a count" if first.discover else "error of a selection"
    keys = [_keys_by_epsilon(forecast) for forecast in plan.forecasts]
    errors = [_errors_by_epsilon(forecast) for forecast in plan.forecasts]
    made = [Chart("keys", f"Reported keys, by {epsilon}.", epsilon, "reported keys", keys)]
    if any(errors):
        made.append(
            Chart(
                "errors",
                f"The {error}, relative to the truth, by {epsilon}.",
                epsilon,
                error,
                errors,
            )
        )
    if first.discover is None:
        made.append(_reporting_curve(plan.forecasts))
    return made


def _keys_by_epsilon(forecast: Forecast) -> Lines:
    return _by_epsilon(forecast, {method.method: method.keys for method in forecast.every_method})


def _errors_by_epsilon(forecast: Forecast) -> Lines:
    return _by_epsilon(
        forecast, {method.method: _error(method) for method in forecast.every_method}
    )


def _error(method: Expected) -> float | None:
    return method.way.median_error if method.way else method.selection_nrmse


def _by_epsilon(forecast: Forecast, values: Mapping[str, float | None]) -> Lines:
    """One point of each line; to four figures, which are enough for a chart."""
    epsilon = float(budget_value(forecast.setting.privacy))
    return {
        name: [(epsilon, float(f"{value:.4g}"))]
        for name, value in values.items()
        if value is not None
    }


def _reporting_curve(forecasts: Sequence[Forecast]) -> Chart:
    """The reporting probability by frequency, up to where the slowest of all curves has risen."""
    end = max(end_of_rise(forecast.sampling, forecast.setting.per_key) for forecast in forecasts)
    in_equal_ratios = np.geomspace(1, end, _CURVE_POINTS)
    frequencies = np.unique(np.rint(in_equal_ratios).astype(np.int64))
    caption = "Rare keys are hidden and frequent keys are reported. In between, chance decides."
    lines = [_curve(forecast, frequencies) for forecast in forecasts]
    return Chart(
        "curve",
        caption,
        "frequency",
        "reporting probability",
        lines,
        by_epsilon=False,
        largest_y=1.0,
    )


def _curve(forecast: Forecast, frequencies: Ints) -> Lines:
    """The curve of each method that states it."""
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
