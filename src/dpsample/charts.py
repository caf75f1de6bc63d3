"""How charts look: line charts in panels, drawn by Altair, as PNG and SVG, without a network.

Lines differ by colour and by dash. The colours are those of Okabe and Ito, which colour-blind people can tell apart,
in an order in which neighbours also differ in grey. Axes are labelled in words.

Altair and vl-convert come with ``pip install 'dpsample[paper]'`` and are imported when a chart is drawn.
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
WIDTH, HEIGHT = 300, 210
Span = tuple[float, float]
_POWERS = "datum.value >= 0.01 && datum.value < 10000 ? format(datum.value, '~g') : format(datum.value, '~e')"


@dataclass(frozen=True)
class Panel:
    """One chart of a figure: its title, its axes in words, which of them are logarithmic, and what they span."""

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
    """Draw rows of ``panel, line, x, y``: a chart for each panel, lines in the order in which they come."""
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
    chart = alt.concat(*charts, columns=columns, spacing={"row": 24, "column": 28})
    words = {"labelFont": FONT, "titleFont": FONT, "labelColor": INK, "titleColor": INK, "labelFontSize": 11}
    return (
        chart.configure(background="white", font=FONT)
        .configure_axis(**words, titleFontSize=12, titleFontWeight="normal", gridColor=PALE, domainColor=INK)
        .configure_title(font=FONT, fontSize=13, fontWeight="bold", color=INK)
        .configure_legend(labelFont=FONT, labelFontSize=12, labelColor=INK)
        .configure_view(stroke=None)
    )


def svg(chart: Any) -> str:
    """Return a chart as SVG."""
    found: str = _converter().vegalite_to_svg(chart.to_json())
    return found


def png(image: str) -> bytes:
    """Return an SVG as PNG, with half as many pixels again as its size."""
    found: bytes = _converter().svg_to_png(image, scale=1.5)
    return found


def check_drawing() -> None:
    """Refuse, before any work, to draw on a machine that cannot."""
    _altair()
    _converter()


def _axis(channel: Any, name: str, title: str, values: list[float], log: bool, span: Span | None) -> Any:
    alt = _altair()
    low, high = span or (min(values, default=1.0), max(values, default=1.0))
    if log and span is None and name == "y":  # a little room, so that lines do not run along the edge
        room = (high / low) ** 0.04 if high > low else 2.0
        low, high = low / room, high * room
    if not log:
        scale = alt.Scale(domain=[low, high], nice=False) if span else alt.Scale(zero=False)
        return channel(f"{name}:Q", title=title, scale=scale, axis=alt.Axis(tickCount=6, labelFlush=False))
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    axis = alt.Axis(values=ticks(low, high), labelExpr=_POWERS, labelFlush=False)
    return channel(f"{name}:Q", title=title, scale=scale, axis=axis)


def ticks(low: float, high: float) -> list[float]:
    """Return where a logarithmic axis is labelled: powers of ten, and steps between where they are few.

    >>> ticks(0.002, 30), ticks(0.02, 3), ticks(0.2, 3)
    ([0.01, 0.1, 1.0, 10.0], [0.03, 0.1, 0.3, 1.0, 3.0], [0.2, 0.5, 1.0, 2.0])
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = math.log10(high / low)
    steps = (
        (1, 1.5, 2, 3, 4, 5, 7) if decades < 0.7 else (1, 2, 5) if decades < 1.5 else (1, 3) if decades < 3 else (1,)
    )
    found = [float(f"{step}e{power}") for power in range(first, last + 1) for step in steps]
    return [tick for tick in found if low * 0.999 <= tick <= high * 1.001]


def _altair() -> Any:
    try:
        import altair
    except ImportError:
        raise _missing() from None
    return altair


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise _missing() from None
    return vl_convert


def _missing() -> InvalidValue:
    return InvalidValue(
        "figures are drawn with Altair and vl-convert", "not both installed", "run: pip install 'dpsample[paper]'"
    )
