"""Row charts: a row for each key, with a bar and its interval, or with a change from before to after.

In a wide picture the key stands at the left of its mark and the numbers at the right; in a narrow one both stand above.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from dpsample.presentation.charts.drawing import (
    NARROW,
    Caption,
    Chart,
    Picture,
    cut,
    fill,
    interval,
    label,
    stroke,
    text_width,
)
from dpsample.presentation.charts.scale import Scale
from dpsample.presentation.markup import Markup, tag

_ROW = 24  # the height of a row in a wide picture
_NARROW_ROW = 40
_TEXT = 15  # from the top of a row to the baseline of its text
_BAR = 11  # the height of a bar
_CAP = 5  # half the height of the caps of an interval
_GAP = 8
_LOG_ROOM = 1.3  # a factor before the least and after the largest number of a logarithmic scale
_MOST_LABEL = 240  # pixels of a key beside its bar, at most: longer ones are cut


class Mark(Protocol):
    """What a row shows: its key, its numbers in words, and how both are drawn."""

    @property
    def label(self) -> str:
        """The key."""

    @property
    def said(self) -> str:
        """The numbers, in words."""

    @property
    def values(self) -> list[float]:
        """All numbers that the scale has to show."""

    def drawn(self, x: Scale, middle: float) -> Iterator[Markup]:
        """Yield the mark, around a height."""


@dataclass(frozen=True)
class Bar:
    """A bar from 0 to an estimate, with its interval."""

    label: str
    said: str
    value: float
    low: float
    high: float

    @property
    def values(self) -> list[float]:
        """The estimate and the ends of its interval."""
        return [self.value, self.low, self.high]

    def drawn(self, x: Scale, middle: float) -> Iterator[Markup]:
        """Yield the bar, and its interval as an error bar."""
        end = x(self.value)
        top = middle - _BAR / 2
        path = f"M{x.start} {top}H{end}v{_BAR}H{x.start}z"
        yield tag("path", d=path, **fill(0), opacity=0.6)
        low = x(self.low)
        high = x(self.high)
        yield interval(low, high, middle, _CAP)


@dataclass(frozen=True)
class Change:
    """A change: a ring before, a dot after, and the interval of where it leads; None where a key was not reported."""

    label: str
    said: str
    before: float | None
    after: float | None
    low: float
    high: float

    @property
    def values(self) -> list[float]:
        """The estimates of the reported keys."""
        return [value for value in (self.before, self.after) if value is not None]

    def drawn(self, x: Scale, middle: float) -> Iterator[Markup]:
        """Yield the way from before to after, the interval, the ring and the dot."""
        start = x(self.before or 0.0)
        end = x(self.after or 0.0)
        low = x(self.low)
        high = x(self.high)
        way = f"M{start} {middle}H{end}"
        yield tag("path", d=way, **stroke(0), stroke_width=2, opacity=0.6)
        yield interval(low, high, middle, _CAP)
        if self.before is not None:
            yield tag("circle", cx=start, cy=middle, r=4, **stroke(0), stroke_width=2)
        if self.after is not None:
            yield tag("circle", cx=end, cy=middle, r=4, **fill(0))


@dataclass(frozen=True)
class RowChart(Chart):
    """A row for each key, from top to bottom.

    The scale is even from 0 on. With `log_from`, it is logarithmic, and shows this number and all of the rows.

    >>> bars = [Bar("cat", "5", 5, 4, 6), Bar("dog", "2", 2, 1, 3)]
    >>> str(RowChart(Caption("pets", "Cats lead.", "Two bars."), bars).svg()).count('class="fill-1"')
    2
    """

    caption: Caption
    rows: Sequence[Mark]
    log_from: float | None = None

    def draw(self, width: int) -> Picture:
        """Draw the rows."""
        if width <= NARROW:
            return self._narrow(width)
        return self._wide(width)

    def _wide(self, width: int) -> Picture:
        labels = [cut(row.label, _MOST_LABEL) for row in self.rows]
        start = _widest(labels) + _GAP
        said = [row.said for row in self.rows]
        end = width - _widest(said) - _GAP
        x = self._scale(round(start, 1), round(end, 1))
        drawn = []
        for n, row in enumerate(self.rows):
            top = n * _ROW
            baseline = top + _TEXT
            middle = top + _ROW / 2 - 1
            drawn.append(label(labels[n], x.start - _GAP, baseline, "end"))
            drawn += row.drawn(x, middle)
            drawn.append(label(row.said, width, baseline, "end"))
        return Picture(drawn, width, len(self.rows) * _ROW)

    def _narrow(self, width: int) -> Picture:
        x = self._scale(1, width - 6)
        drawn = []
        for n, row in enumerate(self.rows):
            top = n * _NARROW_ROW
            baseline = top + _TEXT
            room = width - text_width(row.said) - _GAP
            drawn.append(label(cut(row.label, room), 0, baseline, weight="600"))
            drawn.append(label(row.said, width, baseline, "end"))
            drawn += row.drawn(x, baseline + _BAR)
        return Picture(drawn, width, len(self.rows) * _NARROW_ROW)

    def _scale(self, start: float, end: float) -> Scale:
        values = []
        for row in self.rows:
            values += row.values
        largest = max(values, default=1.0)
        if self.log_from is None:
            return Scale(0.0, max(largest, 1e-9), start, end)
        # intervals may end beyond the estimates
        smallest = min([self.log_from, *values])
        least = max(smallest / _LOG_ROOM, 1.0)
        most = max(largest * _LOG_ROOM, 2 * least)
        return Scale(least, most, start, end, log=True)


def _widest(texts: Sequence[str]) -> float:
    return max(map(text_width, texts), default=0.0)
