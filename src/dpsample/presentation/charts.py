"""Line and bar charts, described by Altair: as PNG and SVG, or single line charts in a page.

Lines differ by colour and by dash. The colours are those of Okabe and Ito, which colour-blind people can distinguish,
in an order in which neighbours also differ in grey. Axes are labelled in words. Charts in pages take their colours from
variables of the page, and the browser draws them.

Altair and vl-convert come with ``pip install 'dpsample[report]'`` and are imported when a chart is drawn. No network.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpsample.errors import InvalidValue

FONT = "DejaVu Sans, Verdana, Arial, sans-serif"
INK, PALE = "#222222", "#dddddd"
STYLES: tuple[tuple[str, list[int]], ...] = (
    ("#0072B2", [1, 0]),
    ("#D55E00", [7, 3]),
    ("#E69F00", [2, 2]),
    ("#000000", [8, 3, 2, 3]),
    ("#CC79A7", [4, 2, 1, 2]),
    ("#56B4E9", [14, 2, 2, 2]),
    ("#009E73", [12, 3]),
    ("#777777", [1, 4]),
)
# the same hues for pages: each has a contrast of at least 3 to 1 with the background, light or dark
LIGHT = ("#0072B2", "#D55E00", "#A87400", "#000000", "#B5568C", "#2D8DC0", "#008562", "#6E6E6E")
DARK = ("#66B8F2", "#FF9A4D", "#F2C14E", "#F2F2F2", "#E8A3CB", "#9AD4F5", "#3DD6A5", "#A0A0A0")
WIDTH, HEIGHT = 300, 210
Span = tuple[float, float]
_BAR_TOOLTIP = ("key:N", "value:Q", "low:Q", "high:Q")
_WORDS = "datum.value < 1000000 ? format(datum.value, ',~g') : format(datum.value, '~s')"
_POWERS = "datum.value >= 0.01 && datum.value < 10000 ? format(datum.value, '~g') : format(datum.value, '~e')"


@dataclass(frozen=True)
class Panel:
    """One chart of a figure: its title, the labels of its axes, which are logarithmic, and their ranges."""

    title: str
    x: str
    y: str
    log_x: bool = False
    log_y: bool = False
    span_x: Span | None = None
    span_y: Span | None = None


def styles(lines: Sequence[str]) -> dict[str, tuple[str, list[int]]]:
    """Return the colour and dash of each line, in order.

    >>> styles(["ours", "theirs"])
    {'ours': ('#0072B2', [1, 0]), 'theirs': ('#D55E00', [7, 3])}
    """
    if len(lines) > len(STYLES):
        raise InvalidValue(f"a figure has at most {len(STYLES)} lines", f"{len(lines)}", "use more figures")
    return dict(zip(lines, STYLES, strict=False))


def line_chart(rows: Iterable[Mapping[str, Any]], panels: Sequence[Panel], columns: int = 3) -> Any:
    """Draw rows of ``panel, line, x, y``: a chart for each panel, lines in the order of the rows."""
    alt = _altair()
    rows = list(rows)
    looks = styles(list(dict.fromkeys(row["line"] for row in rows)))
    lines = list(looks)
    # one scale for all panels, so that a line looks the same in each, and one legend
    legend = alt.Legend(title=None, orient="bottom", columns=4, labelLimit=0, symbolType="stroke", symbolSize=900)
    color = alt.Scale(domain=lines, range=[color for color, _ in looks.values()])
    dash = alt.Scale(domain=lines, range=[dash for _, dash in looks.values()])
    charts = [
        alt.Chart(alt.InlineData(values=own), title=panel.title)
        .mark_line(strokeWidth=2, clip=True, interpolate="linear")
        .encode(
            x=_axis(alt.X, "x", panel.x, [row["x"] for row in own], panel.log_x, panel.span_x),
            y=_axis(alt.Y, "y", panel.y, [row["y"] for row in own], panel.log_y, panel.span_y),
            color=alt.Color("line:N", scale=color, sort=lines, legend=legend),
            strokeDash=alt.StrokeDash("line:N", scale=dash, sort=lines, legend=legend),
        )
        .properties(width=WIDTH, height=HEIGHT)
        for panel in panels
        for own in [[row for row in rows if row["panel"] == panel.title]]
    ]
    return _on_paper(alt.concat(*charts, columns=columns, spacing={"row": 24, "column": 28}))


def bar_chart(rows: Iterable[Mapping[str, Any]], title: str, x: str) -> Any:
    """Draw rows of ``key, value, low, high``: a bar for each, from top to bottom, with its interval as an error bar."""
    alt = _altair()
    keys = alt.Y("key:N", sort=None, title=None, axis=alt.Axis(labelLimit=300))
    base = alt.Chart(alt.InlineData(values=list(rows)), title=title)
    bars = base.mark_bar(color=STYLES[0][0], opacity=0.55, size=12).encode(
        x=alt.X("value:Q", title=x),
        y=keys,
        tooltip=[alt.Tooltip(name, format="" if name == "key:N" else ",.0f") for name in _BAR_TOOLTIP],
    )
    intervals = base.mark_errorbar(ticks={"size": 12}, color=INK).encode(x=alt.X("low:Q", title=x), x2="high:Q", y=keys)
    return _on_paper(alt.layer(bars, intervals).properties(width=2 * WIDTH, height=alt.Step(20)))


def _on_paper(chart: Any) -> Any:
    """Dark on white."""
    words = {"labelFont": FONT, "titleFont": FONT, "labelColor": INK, "titleColor": INK, "labelFontSize": 11}
    return (
        chart.configure(background="white", font=FONT)
        .configure_axis(**words, titleFontSize=12, titleFontWeight="normal", gridColor=PALE, domainColor=INK)
        .configure_title(font=FONT, fontSize=13, fontWeight="bold", color=INK)
        .configure_legend(labelFont=FONT, labelFontSize=12, labelColor=INK)
        .configure_view(stroke=None)
    )


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
    alt = _altair()
    rows = list(rows)
    names = list(dict.fromkeys(row["line"] for row in rows))
    looks = styles(names)
    legend = alt.Legend(
        title=None, orient="bottom", direction="vertical", labelLimit=0, symbolType="stroke", symbolSize=900
    )
    colors = alt.Scale(domain=names, range=[f"var(--chart-{n})" for n in range(1, len(names) + 1)])
    dashes = alt.Scale(domain=names, range=[dash for _, dash in looks.values()])
    one = len(names) == 1
    tooltips = [name for name in (rows[0] if rows else {}) if name not in ("line", "x", "y", "low", "high")]
    # the axes span the bands, too
    ys = [row[name] for row in rows for name in ("low", "y", "high") if row.get(name) is not None]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=_axis(alt.X, "x", panel.x, [row["x"] for row in rows], panel.log_x, panel.span_x, _WORDS),
        color=alt.Color("line:N", scale=colors, sort=names, legend=None if one else legend),
        strokeDash=alt.StrokeDash("line:N", scale=dashes, sort=names, legend=None if one else legend),
        tooltip=[alt.Tooltip(f"{name}:N") for name in tooltips] or alt.value(None),
    )
    y = _axis(alt.Y, "y", panel.y, ys, panel.log_y, panel.span_y, _WORDS)
    layers = []
    if rows and "low" in rows[0]:
        layers.append(
            (base.mark_rule(strokeWidth=1.5) if points else base.mark_area(opacity=0.25)).encode(
                y=alt.Y("low:Q", title=panel.y, scale=y["scale"]), y2="high:Q", strokeDash=alt.value([1, 0])
            )
        )
    mark = {"strokeWidth": 2, "clip": True, **({"point": {"size": 45, "filled": True}} if points else {})}
    layers.append(base.mark_line(**mark).encode(y=y))
    if tooltips and not points:  # invisible points, large enough to point at
        layers.append(base.mark_point(size=200, opacity=0).encode(y=y))
    ink, grid = "var(--chart-ink)", "var(--chart-grid)"
    words = {"labelColor": ink, "titleColor": ink, "labelFontSize": 12, "titleFontSize": 12}
    described: dict[str, Any] = (
        alt.layer(*layers)
        .properties(width="container", height=height, autosize=alt.AutoSizeParams(type="fit-x", contains="padding"))
        .configure(background="transparent", font="system-ui, sans-serif", aria=False)
        .configure_axis(**words, titleFontWeight="normal", gridColor=grid, domainColor=ink, tickColor=ink)
        .configure_legend(labelColor=ink, labelFontSize=12)
        .configure_view(stroke=None)
        .to_dict()
    )
    return described


def svg(chart: Any) -> str:
    """Return a chart as SVG."""
    return str(converter().vegalite_to_svg(chart.to_json()))


def png(image: str) -> bytes:
    """Return an SVG as PNG, with 1.5 pixels for each unit of its size."""
    return bytes(converter().svg_to_png(image, scale=1.5))


def check_drawing(extra: str = "report") -> None:
    """Refuse, before any work, to draw without the libraries, and name the extra that installs them."""
    _altair(extra)
    converter(extra)


def _axis(
    channel: Any, name: str, title: str, values: list[float], log: bool, span: Span | None, labels: str = _POWERS
) -> Any:
    alt = _altair()
    low, high = span or (min(values, default=1.0), max(values, default=1.0))
    if log and span is None and name == "y":  # a margin, so that lines do not run along the frame
        room = (high / low) ** 0.04 if high > low else 2.0
        low, high = low / room, high * room
    if not log:
        scale = alt.Scale(domain=[low, high], nice=False) if span else alt.Scale(zero=False)
        return channel(f"{name}:Q", title=title, scale=scale, axis=alt.Axis(tickCount=6, labelFlush=False))
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    axis = alt.Axis(values=ticks(low, high), labelExpr=labels, labelFlush=False)
    return channel(f"{name}:Q", title=title, scale=scale, axis=axis)


def ticks(low: float, high: float) -> list[float]:
    """Return the labelled values of a logarithmic axis: powers of ten, and values between where these are few.

    >>> ticks(0.002, 30), ticks(0.02, 3), ticks(0.2, 3)
    ([0.01, 0.1, 1.0, 10.0], [0.03, 0.1, 0.3, 1.0, 3.0], [0.2, 0.5, 1.0, 2.0])
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = math.log10(high / low)
    steps = (
        (1, 1.5, 2, 3, 4, 5, 7) if decades < 0.7 else (1, 2, 5) if decades < 1.5 else (1, 3) if decades < 3 else (1,)
    )
    candidates = [float(f"{step}e{power}") for power in range(first, last + 1) for step in steps]
    return [tick for tick in candidates if low * 0.999 <= tick <= high * 1.001]


def converter(extra: str = "report") -> Any:
    """Return vl-convert, which draws charts without a browser, and holds the code by which browsers draw them."""
    try:
        import vl_convert
    except ImportError:
        raise _missing(extra) from None
    return vl_convert


def _altair(extra: str = "report") -> Any:
    try:
        import altair
    except ImportError:
        raise _missing(extra) from None
    return altair


def _missing(extra: str) -> InvalidValue:
    return InvalidValue(
        "charts are drawn with Altair and vl-convert", "not both installed", f"run: pip install 'dpsample[{extra}]'"
    )
