"""Charts: marks stand where their numbers are, and everybody can read them, wide or narrow."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from dpsample.presentation.charts import (
    NARROW,
    WIDE,
    Axis,
    Bar,
    Caption,
    Change,
    Chart,
    Line,
    LineChart,
    Point,
    RowChart,
)
from dpsample.presentation.charts.drawing import DASHES, cut, text_width
from dpsample.presentation.charts.lines import _apart
from dpsample.presentation.charts.scale import Scale, even_ticks, log_ticks, tick_text
from support import refused

SVG = "{http://www.w3.org/2000/svg}"
CAPTION = Caption("pets", "Cats lead.", "Bars: cat 100, dog 50.", "Number of pets")
BARS = [Bar("cat", "100 (80 to 120)", 100, 80, 120), Bar("dog", "50 (45 to 55)", 50, 45, 55)]
TWO_LINES = [
    Line("up", [Point(1, 10, 5, 20, "ten"), Point(10, 100, 50, 200)]),
    Line("down", [Point(1, 100), Point(10, 10)]),
]
STEPS = Line("a", [Point(0, 1), Point(1, 3)])
CHARTS: dict[str, Chart] = {
    "bars": RowChart(CAPTION, BARS),
    "changes": RowChart(
        CAPTION,
        [
            Change("cat", "rose", 10, 40, 35, 45),
            Change("dog", "new", None, 20, 8, 12),
            Change("eel", "gone", 9, None, 0, 3),
        ],
        log_from=8,
    ),
    "lines": LineChart(CAPTION, Axis("x", log=True), Axis("y", log=True), TWO_LINES, dots=True),
    "steps": LineChart(
        CAPTION, Axis("", names=("Monday", "Tuesday")), Axis("y"), [Line("a", [Point(0, 1), Point(1, 3)])]
    ),
    "no rows": RowChart(CAPTION, []),
    "no points": LineChart(CAPTION, Axis("x", log=True), Axis("y", log=True), [Line("a", [])]),
    "one point": LineChart(CAPTION, Axis("x", log=True), Axis("y"), [Line("a", [Point(5, 5)])], dots=True),
}


def drawn(chart: Chart, width: int = WIDE) -> ElementTree.Element:
    """The picture, parsed: so it is well-formed XML."""
    return ElementTree.fromstring(str(chart.svg(width)))


def texts(picture: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in picture.iter(f"{SVG}text")]


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("name", CHARTS)
def test_every_picture_has_a_title_a_description_and_no_style(name: str, width: int) -> None:
    picture = drawn(CHARTS[name], width)
    assert picture.get("role") == "img"
    words = {element.get("id"): element.text for element in picture if element.get("id")}
    assert words[picture.get("aria-labelledby")] == CAPTION.title
    assert words[picture.get("aria-describedby")] == CAPTION.described
    for element in picture.iter():
        assert "style" not in element.attrib
        assert not [attribute for attribute in element.attrib if attribute.startswith("on")]
        assert "nan" not in " ".join(element.attrib.values()).lower()


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("name", CHARTS)
def test_all_marks_are_inside_the_picture(name: str, width: int) -> None:
    picture = drawn(CHARTS[name], width)
    height = float(picture.get("height", "0"))
    for element in picture.iter(f"{SVG}circle"):
        assert 0 <= float(element.get("cx", "-1")) <= width
        assert 0 <= float(element.get("cy", "-1")) <= height
    for element in picture.iter(f"{SVG}text"):
        x = float(element.get("x", "-1"))
        room = text_width(element.text or "")
        before = {"end": room, "middle": room / 2}.get(element.get("text-anchor", "start"), 0)
        assert x - before >= -1, element.text
        assert x - before + room <= width + 1, element.text
        assert 0 <= float(element.get("y", "-1")) <= height


def test_a_bar_is_as_long_as_its_number() -> None:
    for width in (WIDE, NARROW):
        picture = drawn(CHARTS["bars"], width)
        paths = [element.get("d", "") for element in picture.iter(f"{SVG}path") if element.get("class") == "fill-1"]
        ends = [re.fullmatch(r"M([\d.]+) [\d.]+H([\d.]+)v11H[\d.]+z", path) for path in paths]
        lengths = [float(end[2]) - float(end[1]) for end in ends if end]
        assert lengths[0] / lengths[1] == pytest.approx(2, rel=0.01)
        assert texts(picture) == ["cat", "100 (80 to 120)", "dog", "50 (45 to 55)"]


def test_points_are_even_by_magnitude_on_logarithmic_axes() -> None:
    points = [Point(10.0**n, 10.0**n) for n in range(1, 5)]
    chart = LineChart(CAPTION, Axis("x", log=True), Axis("y", log=True), [Line("a", points)])
    line = drawn(chart).find(f"{SVG}polyline")
    assert line is not None
    places = [tuple(map(float, place.split(","))) for place in line.get("points", "").split()]
    steps = set()
    for (before_x, before_y), (x, y) in pairwise(places):
        steps.add((round(x - before_x), round(y - before_y)))
    assert len({x for x, _ in steps}) <= 2
    assert len({y for _, y in steps}) <= 2
    assert all(x > 0 > y for x, y in steps)


def test_lines_differ_by_colour_and_dash_and_are_named() -> None:
    for width in (WIDE, NARROW):
        picture = drawn(CHARTS["lines"], width)
        lines = list(picture.iter(f"{SVG}polyline"))
        assert [line.get("class") for line in lines] == ["stroke-1", "stroke-2"]
        assert len({line.get("stroke-dasharray") for line in lines}) == 2
        assert {"up", "down"} <= {*texts(picture)}
    assert len({*DASHES}) == len(DASHES)
    with refused("at most 8 lines"):
        LineChart(CAPTION, Axis("x"), Axis("y"), [Line(str(n), []) for n in range(9)])


def test_an_interval_that_reaches_zero_is_drawn_on_a_logarithmic_axis() -> None:
    points = [Point(1, 10, 0, 20), Point(2, 5, 0, 1e6)]
    chart = LineChart(CAPTION, Axis("x"), Axis("y", log=True), [Line("a", points)], dots=True)
    assert "nan" not in str(chart.svg()).lower()


def test_a_file_has_its_title_and_its_colours() -> None:
    picture = ElementTree.fromstring(str(CHARTS["bars"].file()))
    assert texts(picture)[:2] == [CAPTION.title, CAPTION.subtitle]
    ground = picture.find(f"{SVG}rect")
    assert ground is not None
    assert ground.get("fill") == "#ffffff"
    assert picture.get("color") == "#444444"
    assert {element.get("fill") for element in picture.iter(f"{SVG}path")} == {"#0072B2", "none"}


def test_text_is_only_text() -> None:
    bar = Bar("</text><script>alert(1)</script>", "<b>", 1, 1, 1)
    picture = RowChart(Caption("a", "<i>", '"&'), [bar]).svg()
    assert "<script" not in picture
    assert texts(ElementTree.fromstring(str(picture))) == [bar.label, "<b>"]


@pytest.mark.parametrize("low", [1e-6, 0.5, 1, 7, 300])
@pytest.mark.parametrize("factor", [1.2, 3, 20, 1e3, 1e9])
def test_ticks_are_few_round_and_in_range(low: float, factor: float) -> None:
    high = low * factor
    room = (high - low) / 1000  # of an even axis: a tick at an end may be rounded past it
    for ticks, least in ((log_ticks(low, high), 0.999 * low), (even_ticks(low, high), low - room)):
        assert 1 <= len(ticks) <= 8
        assert ticks == sorted(ticks)
        assert all(least <= tick <= 1.001 * high for tick in ticks)
        assert all(float(f"{tick:.6g}") == pytest.approx(tick, rel=1e-12) for tick in ticks)
        assert len({tick_text(tick) for tick in ticks}) == len(ticks)


def test_numbers_beyond_a_scale_stand_at_its_ends() -> None:
    scale = Scale(1, 100, 0, 200, log=True)
    assert [scale(value) for value in (0, 1, 10, 100, 1e9)] == [0, 0, 100, 200, 200]
    assert Scale(5, 5, 0, 10)(5) == 5


def test_names_beside_lines_do_not_touch() -> None:
    placed = _apart([10, 11, 12, 95, 99], 100)
    assert all(after - before >= 16 for before, after in pairwise(placed))
    assert max(placed) <= 100


def test_long_names_are_cut() -> None:
    assert text_width(cut("字" * 100, 120)) <= 120
    assert text_width("字") == pytest.approx(2 * text_width("a"))
    assert math.isfinite(text_width(""))
