"""Line charts: lines by a number or by named steps, with the intervals of their points."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpsample.errors import InvalidValue
from dpsample.presentation.charts.drawing import (
    DASHES,
    NARROW,
    Caption,
    Chart,
    Picture,
    cut,
    fill,
    grid_line,
    label,
    stroke,
    text_width,
)
from dpsample.presentation.charts.scale import Scale, tick_text
from dpsample.presentation.markup import Markup, tag

_HEIGHT = 230  # of the plot without labels
_LINE = 16  # the height of a line of text
_GAP = 6  # between a label and its tick
_SWATCH = 28  # width of the piece of a line that the legend shows: the longest dash fits
_MOST_NAME = 190  # pixels of a name beside its line; longer ones are cut
_RIGHT = 14  # room at the right for half of the last number of the x axis
_LOG_ROOM = 0.04  # of a logarithmic axis, before its first and after its last number
_STEP_ROOM = 0.3  # of a step, before the first and after the last named step
# The ends of intervals that reach 0 are drawn here on a logarithmic axis, as a share of the least value that is drawn.
_LOG_ZERO = 0.5


@dataclass(frozen=True)
class Axis:
    """An axis: its label, its ends if they do not follow from the points, and whether it is logarithmic.

    With `names`, the points stand at steps 0, 1, 2, ... of these names.
    """

    label: str
    span: tuple[float, float] | None = None
    log: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Point:
    """A point of a line, with the interval of its y if it has one; `said` is shown beside a pointer."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    said: str = ""


@dataclass(frozen=True)
class Line:
    """A line: its name and its points, from left to right."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True)
class LineChart(Chart):
    """Lines on two axes. With `dots`, each point is marked, and its interval is an error bar.

    >>> rising = Line("rising", [Point(1, 0.0), Point(10, 1.0)])
    >>> caption = Caption("rise", "It rises.", "A line that rises.")
    >>> chart = LineChart(caption, Axis("x", log=True), Axis("y"), [rising])
    >>> str(chart.svg())[:60]
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 ...'
    """

    caption: Caption
    x: Axis
    y: Axis
    lines: Sequence[Line]
    dots: bool = False

    def __post_init__(self) -> None:
        if len(self.lines) > len(DASHES):
            raise InvalidValue(
                f"a chart can have at most {len(DASHES)} lines, not {len(self.lines)}",
                "draw several charts",
            )

    def draw(self, width: int) -> Picture:
        """Draw the axes, the lines and their names."""
        names_beside = len(self.lines) > 1 and width > NARROW
        legend: list[Markup] = []
        if len(self.lines) > 1 and not names_beside:
            legend = list(self._legend(width))
        top = (1 + len(legend)) * _LINE + _GAP
        bottom = top + _HEIGHT
        right = width - (self._room_beside() if names_beside else _RIGHT)
        y = self._y_scale(bottom, top)
        x = self._x_scale(_room_for(y), right)

        drawn = [label(self.y.label, 0, _LINE - 4), *legend]
        drawn += _grid(y, x)
        drawn += self._x_axis(x, bottom)
        for number, line in enumerate(self.lines):
            drawn += self._line(number, line, x, y)
        if names_beside:
            drawn += self._names(x, y)
        lines_below = 2 if self.x.label else 1
        return Picture(drawn, width, bottom + lines_below * _LINE + 2 * _GAP)

    def _points(self) -> Iterator[Point]:
        for line in self.lines:
            yield from line.points

    def _x_scale(self, start: float, end: float) -> Scale:
        if self.x.names:
            last = len(self.x.names) - 1
            return Scale(-_STEP_ROOM, last + _STEP_ROOM, start, end)
        values = [point.x for point in self._points()]
        low, high = self.x.span or _span(values)
        if self.dots and self.x.span is None and self.x.log:
            low, high = _with_room(low, high)
        return Scale(low, high, start, end, self.x.log)

    def _y_scale(self, start: float, end: float) -> Scale:
        """Return the scale of the y axis; without a span, an even one starts at 0."""
        low, high = self.y.span or _span(self._heights())
        if self.y.span is None and self.y.log:
            low, high = _with_room(low, high)
        elif self.y.span is None:
            low = min(low, 0.0)
        return Scale(low, high, start, end, self.y.log)

    def _heights(self) -> list[float]:
        """Return all numbers that the y axis has to show; an interval may reach 0, which has no logarithm."""
        heights = [point.y for point in self._points()]
        least = _LOG_ZERO * min(heights, default=1.0)
        for point in self._points():
            for end in (point.low, point.high):
                if end is not None:
                    heights.append(max(end, least) if self.y.log else end)
        return heights

    def _x_axis(self, x: Scale, bottom: float) -> Iterator[Markup]:
        """Yield the line, the ticks and the label; a tick whose text would touch the one before is left out."""
        across = f"M{x.start} {bottom}H{x.end}"
        yield tag("path", d=across, stroke="currentColor")
        free_from = 0.0
        for tick, words in self._x_ticks(x):
            place = x(tick)
            half = text_width(words) / 2
            start = place - half
            end = place + half
            if start >= free_from and end <= x.end + 2 * _GAP:
                free_from = end + _GAP
                yield tag("path", d=f"M{place} {bottom}v5", stroke="currentColor")
                yield label(words, place, bottom + _LINE + 2, "middle")
        if self.x.label:
            below = bottom + 2 * _LINE + _GAP
            yield label(self.x.label, x.end, below, "end")

    def _x_ticks(self, x: Scale) -> list[tuple[float, str]]:
        """Return the places of the ticks, and their texts."""
        if self.x.names:
            return [(float(n), name) for n, name in enumerate(self.x.names)]
        return [(tick, tick_text(tick)) for tick in x.ticks()]

    def _line(self, number: int, line: Line, x: Scale, y: Scale) -> Iterator[Markup]:
        """Yield a line; with dots also its points and their intervals."""
        places = [f"{x(point.x)},{y(point.y)}" for point in line.points]
        look = {"stroke_width": 2, "stroke_linejoin": "round", "stroke_dasharray": DASHES[number]}
        yield tag("polyline", points=" ".join(places), **stroke(number), **look)
        if not self.dots:
            return
        for point in line.points:
            place = x(point.x)
            height = y(point.y)
            if point.low is not None and point.high is not None:
                low = y(point.low)
                high = y(point.high)
                path = f"M{place} {low}V{high}"
                yield tag("path", d=path, **stroke(number), stroke_width=1.5, opacity=0.7)
            said = tag("title", point.said) if point.said else ""
            yield tag("circle", said, cx=place, cy=height, r=4, **fill(number))

    def _legend(self, width: int) -> Iterator[Markup]:
        """Yield a row for each line above the plot: a piece of the line, and its name."""
        for number, line in enumerate(self.lines):
            baseline = (number + 2) * _LINE - 4
            path = f"M0 {baseline - 4}h{_SWATCH}"
            dash = DASHES[number]
            piece = tag("path", d=path, **stroke(number), stroke_width=2, stroke_dasharray=dash)
            name = cut(line.name, width - _SWATCH - _GAP)
            yield tag("g", piece, label(name, _SWATCH + _GAP, baseline))

    def _room_beside(self) -> float:
        """Return the room for the names beside the lines."""
        widest = max(text_width(line.name) for line in self.lines)
        return min(widest, _MOST_NAME) + 3 * _GAP

    def _names(self, x: Scale, y: Scale) -> Iterator[Markup]:
        """Yield the name of each line beside its end; names that would touch are moved apart."""
        ends = []
        for number, line in enumerate(self.lines):
            if line.points:
                last = line.points[-1]
                ends.append((y(last.y), x(last.x), number))
        ends.sort()
        wanted = [height for height, _, _ in ends]
        heights = _apart(wanted, y.start - _GAP)
        for (_, end, number), height in zip(ends, heights, strict=True):
            name = cut(self.lines[number].name, _MOST_NAME)
            start = end + 2 * _GAP
            yield tag("text", name, x=start, y=height + 4, **fill(number))


def _span(values: Sequence[float]) -> tuple[float, float]:
    """Return the least and the largest number; without any, those of an empty chart."""
    if not values:
        return 1.0, 10.0
    return min(values), max(values)


def _with_room(low: float, high: float) -> tuple[float, float]:
    """Widen the ends of a logarithmic axis, so that no dot is on its frame."""
    room = max(high / low, 2.0) ** _LOG_ROOM
    return low / room, high * room


def _room_for(y: Scale) -> float:
    """Return the room at the left for the numbers of the y axis."""
    widths = [text_width(tick_text(tick)) for tick in y.ticks()]
    return round(max(widths, default=0.0) + 2 * _GAP, 1)


def _grid(y: Scale, x: Scale) -> Iterator[Markup]:
    """Yield a line across at each tick of the y axis, and its number."""
    for tick in y.ticks():
        height = y(tick)
        yield grid_line(f"M{x.start} {height}H{x.end}")
        yield label(tick_text(tick), x.start - _GAP, height + 4, "end")


def _apart(heights: Sequence[float], bottom: float) -> list[float]:
    """Move labels apart until none touches the next, first down, and then up where they would pass the bottom.

    `heights` are y coordinates of labels, ascending. They grow downward, as in SVG.

    >>> _apart([10, 12, 95, 100], 100)
    [10, 26, 84, 100]
    """
    placed: list[float] = []
    for height in heights:
        least = placed[-1] + _LINE if placed else height
        placed.append(max(height, least))
    most = bottom
    for n in reversed(range(len(placed))):
        placed[n] = min(placed[n], most)
        most = placed[n] - _LINE
    return placed
