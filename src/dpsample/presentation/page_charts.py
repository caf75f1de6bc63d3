"""Line charts of a page: Vega-Lite specifications, which the browser draws. They need no library here.

They look like those of `charts`, but take their colours from variables of the page.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dpsample.presentation.charts import HEIGHT, Panel, axis, styles

# the hues of `charts`: each has a contrast of at least 3 to 1 with the background, light or dark
LIGHT = ("#0072B2", "#D55E00", "#A87400", "#000000", "#B5568C", "#2D8DC0", "#008562", "#6E6E6E")
DARK = ("#66B8F2", "#FF9A4D", "#F2C14E", "#F2F2F2", "#E8A3CB", "#9AD4F5", "#3DD6A5", "#A0A0A0")
_WORDS = "datum.value < 1000000 ? format(datum.value, ',~g') : format(datum.value, '~s')"
_INK, _GRID = "var(--chart-ink)", "var(--chart-grid)"
_FRAME: dict[str, Any] = {
    "width": "container",
    "autosize": {"type": "fit-x", "contains": "padding"},
    "config": {
        "background": "transparent",
        "font": "system-ui, sans-serif",
        "aria": False,
        "axis": {
            "labelColor": _INK,
            "titleColor": _INK,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "gridColor": _GRID,
            "domainColor": _INK,
            "tickColor": _INK,
        },
        "legend": {"labelColor": _INK, "labelFontSize": 12},
        "view": {"stroke": None},
    },
}
_PLACES = (
    "line",
    "x",
    "y",
    "low",
    "high",
)  # columns of the rows that say where a point is; others are tooltips
_LINE = {"type": "line", "strokeWidth": 2, "clip": True}
_POINT = {"size": 45, "filled": True}
_UNSEEN = {"type": "point", "size": 200, "opacity": 0}  # large enough to point at
_RULE = {"type": "rule", "strokeWidth": 1.5}
_BAND = {"type": "area", "opacity": 0.25}
_LEGEND = {
    "title": None,
    "orient": "bottom",
    "direction": "vertical",
    "labelLimit": 0,
    "symbolType": "stroke",
    "symbolSize": 900,
}


def page_colors(dark: bool = False) -> dict[str, str]:
    """Return the variables that hold the colours of charts in a page, on a light or dark background.

    >>> page_colors()["chart-1"], page_colors(dark=True)["chart-1"]
    ('#0072B2', '#66B8F2')
    """
    lines = {f"chart-{n}": color for n, color in enumerate(DARK if dark else LIGHT, 1)}
    return lines | {
        "chart-ink": "#C4CAD1" if dark else "#444444",
        "chart-grid": "#33393F" if dark else "#E3E6EA",
    }


def page_chart(
    rows: Iterable[Mapping[str, Any]], panel: Panel, *, points: bool = False, height: int = HEIGHT
) -> dict[str, Any]:
    """Describe one chart of a page, as wide as its place: rows of ``line, x, y``, and ``low, high`` for a band.

    The page has its title, and its colours as variables (`page_colors`). Further columns of the rows are shown as a
    tooltip. The result is a Vega-Lite specification, for the browser.
    """
    rows = list(rows)
    tooltips = [name for name in (rows[0] if rows else {}) if name not in _PLACES]
    encoding = _encoding(rows, panel, tooltips)
    layers = []
    if rows and "low" in rows[0]:
        layers.append({"mark": _RULE if points else _BAND, "encoding": _band(encoding, panel)})
    layers.append({"mark": {**_LINE, "point": _POINT} if points else _LINE, "encoding": encoding})
    if tooltips and not points:
        layers.append({"mark": _UNSEEN, "encoding": encoding})
    return {**_FRAME, "height": height, "data": {"values": rows}, "layer": layers}


def _encoding(
    rows: Sequence[Mapping[str, Any]], panel: Panel, tooltips: list[str]
) -> dict[str, Any]:
    """Describe the axes, which span bands as well as lines, and the look of each line."""
    names = list(dict.fromkeys(row["line"] for row in rows))
    colors = [f"var(--chart-{n})" for n in range(1, len(names) + 1)]
    dashes = [dash for _, dash in styles(names).values()]
    across = [row["x"] for row in rows]
    heights = [row.get(name) for row in rows for name in ("low", "y", "high")]
    known = [height for height in heights if height is not None]
    x = axis(panel.x, across, panel.log_x, panel.span_x, labels=_WORDS)
    y = axis(panel.y, known, panel.log_y, panel.span_y, labels=_WORDS, room=True)
    return {
        "x": _numbers("x", **x),
        "y": _numbers("y", **y),
        "color": _by_line(names, colors),
        "strokeDash": _by_line(names, dashes),
        "tooltip": [{"field": name, "type": "nominal"} for name in tooltips] or {"value": None},
    }


def _band(encoding: dict[str, Any], panel: Panel) -> dict[str, Any]:
    """Describe the interval of each point: from `low` to `high`, never dashed."""
    low = _numbers("low", title=panel.y, scale=encoding["y"]["scale"])
    return {**encoding, "y": low, "y2": {"field": "high"}, "strokeDash": {"value": [1, 0]}}


def _numbers(field: str, **described: Any) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", **described}


def _by_line(names: list[str], values: list[Any]) -> dict[str, Any]:
    """A value for each line; one line needs no legend."""
    legend = None if len(names) == 1 else _LEGEND
    scale = {"domain": names, "range": values}
    return {"field": "line", "type": "nominal", "scale": scale, "sort": names, "legend": legend}
