"""Line and bar charts, described by Altair: as PNG and SVG. Also what all charts have: styles of lines, and axes.

Lines differ by colour and by dash. The colours are those of Okabe and Ito, which colour-blind people can distinguish,
in an order in which neighbours also differ in grey. Axes are labelled in words.

Altair and vl-convert come with ``pip install 'dpsample[report]'`` and are imported when a chart is drawn. No network.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpsample.errors import InvalidValue
from dpsample.extras import not_installed, packages_of

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
WIDTH, HEIGHT = 300, 210
Span = tuple[float, float]
Rows = list[Mapping[str, Any]]
_BAR_TOOLTIP = ("key:N", "value:Q", "low:Q", "high:Q")
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
        raise InvalidValue(
            f"a figure can have at most {len(STYLES)} lines, not {len(lines)}", "use more figures"
        )
    return dict(zip(lines, STYLES, strict=False))


def line_chart(rows: Iterable[Mapping[str, Any]], panels: Sequence[Panel], columns: int = 3) -> Any:
    """Draw rows of ``panel, line, x, y``: a chart for each panel, lines in the order of the rows."""
    altair, rows = _altair(), list(rows)
    by_line = _by_line(altair, rows)
    charts = []
    for panel in panels:
        own = [row for row in rows if row["panel"] == panel.title]
        described = altair.Chart(altair.InlineData(values=own), title=panel.title)
        lines = described.mark_line(strokeWidth=2, clip=True, interpolate="linear")
        charts.append(
            lines.encode(**_axes(altair, panel, own), **by_line).properties(
                width=WIDTH, height=HEIGHT
            )
        )
    return _on_paper(altair.concat(*charts, columns=columns, spacing={"row": 24, "column": 28}))


def _by_line(altair: Any, rows: Rows) -> dict[str, Any]:
    """The colour and dash of each line: one scale for all panels, so that a line looks the same in each, one legend."""
    looks = styles(list(dict.fromkeys(row["line"] for row in rows)))
    lines = list(looks)
    color = altair.Scale(domain=lines, range=[color for color, _ in looks.values()])
    dash = altair.Scale(domain=lines, range=[dash for _, dash in looks.values()])
    legend = altair.Legend(
        title=None, orient="bottom", columns=4, labelLimit=0, symbolType="stroke", symbolSize=900
    )
    return {
        "color": altair.Color("line:N", scale=color, sort=lines, legend=legend),
        "strokeDash": altair.StrokeDash("line:N", scale=dash, sort=lines, legend=legend),
    }


def _axes(altair: Any, panel: Panel, rows: Rows) -> dict[str, Any]:
    x = axis(panel.x, [row["x"] for row in rows], panel.log_x, panel.span_x)
    y = axis(panel.y, [row["y"] for row in rows], panel.log_y, panel.span_y, room=True)
    return {"x": altair.X("x:Q", **x), "y": altair.Y("y:Q", **y)}


def bar_chart(rows: Iterable[Mapping[str, Any]], title: str, x: str) -> Any:
    """Draw rows of ``key, value, low, high``: a bar for each, from top to bottom, with its interval as an error bar."""
    alt = _altair()
    keys = alt.Y("key:N", sort=None, title=None, axis=alt.Axis(labelLimit=300))
    base = alt.Chart(alt.InlineData(values=list(rows)), title=title)
    bars = base.mark_bar(color=STYLES[0][0], opacity=0.55, size=12).encode(
        x=alt.X("value:Q", title=x),
        y=keys,
        tooltip=[
            alt.Tooltip(name, format="" if name == "key:N" else ",.0f") for name in _BAR_TOOLTIP
        ],
    )
    intervals = base.mark_errorbar(ticks={"size": 12}, color=INK).encode(
        x=alt.X("low:Q", title=x), x2="high:Q", y=keys
    )
    return _on_paper(alt.layer(bars, intervals).properties(width=2 * WIDTH, height=alt.Step(20)))


def _on_paper(chart: Any) -> Any:
    """Return a chart with dark lines and words on white."""
    words = {
        "labelFont": FONT,
        "titleFont": FONT,
        "labelColor": INK,
        "titleColor": INK,
        "labelFontSize": 11,
    }
    return (
        chart.configure(background="white", font=FONT)
        .configure_axis(
            **words, titleFontSize=12, titleFontWeight="normal", gridColor=PALE, domainColor=INK
        )
        .configure_title(font=FONT, fontSize=13, fontWeight="bold", color=INK)
        .configure_legend(labelFont=FONT, labelFontSize=12, labelColor=INK)
        .configure_view(stroke=None)
    )


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


def axis(
    title: str,
    values: list[float],
    log: bool,
    span: Span | None,
    *,
    labels: str = _POWERS,
    room: bool = False,
) -> dict[str, Any]:
    """Describe an axis of values: title, scale and axis of a Vega-Lite channel; with `room` above and below them."""
    low, high = span or (min(values, default=1.0), max(values, default=1.0))
    if log and span is None and room:  # so that lines do not run along the frame
        margin = (high / low) ** 0.04 if high > low else 2.0
        low, high = low / margin, high * margin
    if not log:
        scale = {"domain": [low, high], "nice": False} if span else {"zero": False}
        return {"title": title, "scale": scale, "axis": {"tickCount": 6, "labelFlush": False}}
    marks = {"values": ticks(low, high), "labelExpr": labels, "labelFlush": False}
    return {
        "title": title,
        "scale": {"type": "log", "domain": [low, high], "nice": False},
        "axis": marks,
    }


def ticks(low: float, high: float) -> list[float]:
    """Return the labelled values of a logarithmic axis: powers of ten, and values between where these are few.

    >>> ticks(0.002, 30), ticks(0.02, 3), ticks(0.2, 3)
    ([0.01, 0.1, 1.0, 10.0], [0.03, 0.1, 0.3, 1.0, 3.0], [0.2, 0.5, 1.0, 2.0])
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = _steps(math.log10(high / low))
    candidates: list[float] = []
    for power in range(first, last + 1):
        candidates += [float(f"{step}e{power}") for step in steps]
    least = low * 0.999  # a tick at an end may be rounded past it
    most = high * 1.001
    return [tick for tick in candidates if least <= tick <= most]


def _steps(decades: float) -> tuple[float, ...]:
    """Return which values of each decade are labelled on an axis of this many decades: about four to eight in all."""
    if decades < 0.7:
        return 1, 1.5, 2, 3, 4, 5, 7
    if decades < 1.5:
        return 1, 2, 5
    return (1, 3) if decades < 3 else (1,)


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
    return not_installed("charts need Altair and vl-convert", *packages_of(extra))
