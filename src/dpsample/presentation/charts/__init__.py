"""Charts as SVG, drawn in Python: static, with a title and a description in words, and without a library.

A chart is drawn twice for a page, wide and narrow, and the style sheet shows the one that fits. Each mark has a class,
by which the style sheet of a page colours it for light and dark, and the colour itself, for a file and a notebook.

    scale     numbers to places, and the ticks of an axis
    drawing   what all charts have: the picture, its texts and colours
    lines     lines by a number, with intervals
    bars      a row for each key: a bar with its interval, or a change from before to after
"""

from dpsample.presentation.charts.bars import Bar, Change, RowChart
from dpsample.presentation.charts.drawing import NARROW, WIDE, Caption, Chart, page_colors
from dpsample.presentation.charts.lines import Axis, Line, LineChart, Point

__all__ = [
    "NARROW",
    "WIDE",
    "Axis",
    "Bar",
    "Caption",
    "Change",
    "Chart",
    "Line",
    "LineChart",
    "Point",
    "RowChart",
    "page_colors",
]
