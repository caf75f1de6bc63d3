"""Line charts of a page: Vega-Lite specifications, which the browser draws. They need no library here.

They look like those of `charts`, but take their colours from variables of the page.
"""

from collections.abc import Iterable, Mapping
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
    return lines | {"chart-ink": "#C4CAD1" if dark else "#444444", "chart-grid": "#33393F" if dark else "#E3E6EA"}


def page_chart(
    rows: Iterable[Mapping[str, Any]], panel: Panel, *, points: bool = False, height: int = HEIGHT
) -> dict[str, Any]:
    """Describe one chart of a page, as wide as its place: rows of ``line, x, y``, and ``low, high`` for a band.

    The page has its title, and its colours as variables (`page_colors`). Further columns of the rows are shown as a
    tooltip. The result is a Vega-Lite specification, for the browser.
    """
    rows = list(rows)
    names = list(dict.fromkeys(row["line"] for row in rows))
    colors = [f"var(--chart-{n})" for n in range(1, len(names) + 1)]
    dashes = [dash for _, dash in styles(names).values()]
    tooltips = [name for name in (rows[0] if rows else {}) if name not in ("line", "x", "y", "low", "high")]
    # the axes span the bands, too
    ys = [row[name] for row in rows for name in ("low", "y", "high") if row.get(name) is not None]
    x = axis(panel.x, [row["x"] for row in rows], panel.log_x, panel.span_x, labels=_WORDS)
    y = axis(panel.y, ys, panel.log_y, panel.span_y, labels=_WORDS, room=True)
    encoding = {
        "x": _numbers("x", **x),
        "y": _numbers("y", **y),
        "color": _by_line(names, colors),
        "strokeDash": _by_line(names, dashes),
        "tooltip": [{"field": name, "type": "nominal"} for name in tooltips] or {"value": None},
    }
    layers: list[dict[str, Any]] = []
    if rows and "low" in rows[0]:
        ends = {"y": _numbers("low", title=panel.y, scale=y["scale"]), "y2": {"field": "high"}}
        mark = {"type": "rule", "strokeWidth": 1.5} if points else {"type": "area", "opacity": 0.25}
        layers.append({"mark": mark, "encoding": {**encoding, **ends, "strokeDash": {"value": [1, 0]}}})
    line = {"type": "line", "strokeWidth": 2, "clip": True}
    layers.append({"mark": {**line, "point": {"size": 45, "filled": True}} if points else line, "encoding": encoding})
    if tooltips and not points:  # invisible points, large enough to point at
        layers.append({"mark": {"type": "point", "size": 200, "opacity": 0}, "encoding": encoding})
    return {**_FRAME, "height": height, "data": {"values": rows}, "layer": layers}


def _numbers(field: str, **described: Any) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", **described}


def _by_line(names: list[str], values: list[Any]) -> dict[str, Any]:
    """A value for each line; one line needs no legend."""
    legend = None if len(names) == 1 else _LEGEND
    scale = {"domain": names, "range": values}
    return {"field": "line", "type": "nominal", "scale": scale, "sort": names, "legend": legend}
