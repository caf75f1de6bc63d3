"""What all charts have: the picture with its title and description, texts, colours and dashes.

Lines differ by colour and by dash. The hues are those of Okabe and Ito, which colour-blind people can distinguish; each
is darkened or lightened until it has a contrast of at least 3 to 1 with the ground of a page, light or dark (tested).
"""

import unicodedata
from abc import ABC, abstractmethod
from dataclasses import dataclass

from dpsample.presentation.markup import Markup, tag

# Widths of the two pictures of a chart, in pixels: the column of a page on a wide screen, and on a phone of 390 pixels.
WIDE = 720
NARROW = 340

LIGHT = ("#0072B2", "#D55E00", "#A87400", "#000000", "#B5568C", "#2D8DC0", "#008562", "#6E6E6E")
DARK = ("#66B8F2", "#FF9A4D", "#F2C14E", "#F2F2F2", "#E8A3CB", "#9AD4F5", "#3DD6A5", "#A0A0A0")
DASHES = (None, "7 3", "2 2", "8 3 2 3", "4 2 1 2", "14 2 2 2", "12 3", "1 4")
_INK = {False: "#444444", True: "#C4CAD1"}
_GRID = {False: "#E3E6EA", True: "#33393F"}

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
SIZE = 12  # of all texts: the least that is comfortable to read
_SVG = "http://www.w3.org/2000/svg"
_LINE = 17  # the height of a line of text
_MARGIN = 16  # around a picture in a file
_MEAN_WIDTH = 0.56  # of a character, as a share of the size: about that of the fonts above, for words and digits


@dataclass(frozen=True)
class Caption:
    """The words of a chart."""

    name: str  # by which a page knows the chart; no other chart of the page has it
    title: str  # a sentence: what the chart shows
    described: str  # the same in words, for readers who do not see it
    subtitle: str = ""  # what is measured, and how sure it is


@dataclass(frozen=True)
class Picture:
    """The marks of a chart, and the size of what they are drawn on."""

    marks: list[Markup]
    width: int
    height: int


class Chart(ABC):
    """A chart: its caption, and how it is drawn."""

    caption: Caption

    @abstractmethod
    def draw(self, width: int) -> Picture:
        """Draw the marks, in a picture of this width."""

    def svg(self, width: int = WIDE) -> Markup:
        """Return the picture for a page, whose style sheet colours it and whose figure has its title."""
        return self._element(self.draw(width))

    def file(self) -> Markup:
        """Return the picture with its title, dark on white, for where no style sheet is."""
        inside = self.draw(WIDE)
        below_title = _MARGIN + _LINE
        head = [label(self.caption.title, _MARGIN, below_title, weight="600")]
        top = below_title + _MARGIN
        if self.caption.subtitle:
            head.append(label(self.caption.subtitle, _MARGIN, below_title + _LINE))
            top += _LINE
        width = inside.width + 2 * _MARGIN
        height = top + inside.height + _MARGIN
        ground = tag("rect", width=width, height=height, fill="#ffffff")
        below = f"translate({_MARGIN} {top})"
        moved = tag("g", *inside.marks, transform=below)
        whole = Picture([ground, *head, moved], width, height)
        return self._element(whole, _INK[False])

    def _element(self, picture: Picture, color: str | None = None) -> Markup:
        """Return a picture as an element; `color` is that of its texts, where no style sheet states one."""
        title_id = f"{self.caption.name}-{picture.width}-title"
        words_id = f"{self.caption.name}-{picture.width}-words"
        title = tag("title", self.caption.title, id=title_id)
        words = tag("desc", self.caption.described, id=words_id)
        size = {
            "viewBox": f"0 0 {picture.width} {picture.height}",
            "width": picture.width,
            "height": picture.height,
        }
        spoken = {"role": "img", "aria_labelledby": title_id, "aria_describedby": words_id}
        look = {"color": color, "font_family": FONT, "font_size": SIZE}
        return tag("svg", title, words, *picture.marks, xmlns=_SVG, **size, **spoken, **look)


def label(
    words: str, x: float, y: float, anchor: str = "start", weight: str | None = None
) -> Markup:
    """Return a text whose baseline starts, has its middle, or ends at a place."""
    end = None if anchor == "start" else anchor
    return tag("text", words, x=x, y=y, text_anchor=end, font_weight=weight, fill="currentColor")


def grid_line(path: str) -> Markup:
    """Return a line of the grid."""
    return tag("path", d=path, class_="grid", stroke=_GRID[False], fill="none")


def stroke(number: int) -> dict[str, str]:
    """Return the attributes of a line: its class, and its colour where no style sheet is."""
    return {"class_": f"stroke-{number + 1}", "stroke": LIGHT[number], "fill": "none"}


def fill(number: int) -> dict[str, str]:
    """Return the attributes of an area: its class, and its colour where no style sheet is."""
    return {"class_": f"fill-{number + 1}", "fill": LIGHT[number]}


def interval(low: float, high: float, middle: float, half: float) -> Markup:
    """Return an interval as an error bar that lies: a line from end to end, with caps."""
    cap = f"{middle - half}V{middle + half}"
    path = f"M{low} {cap}M{low} {middle}H{high}M{high} {cap}"
    return tag("path", d=path, stroke="currentColor", stroke_width="1.5", fill="none")


def text_width(words: str) -> float:
    """Return about how wide a text is, in pixels; characters of East Asia are twice as wide as others."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in words)
    return (len(words) + wide) * _MEAN_WIDTH * SIZE


def cut(words: str, width: float) -> str:
    """Cut a text that is wider than this.

    >>> cut("a long name of a key", 80), cut("short", 80)
    ('a long nam…', 'short')
    """
    if text_width(words) <= width:
        return words
    kept = words
    while kept and text_width(f"{kept}…") > width:
        kept = kept[:-1]
    return f"{kept.rstrip()}…"


def page_colors(dark: bool = False) -> dict[str, str]:
    """Return the variables that hold the colours of charts in a page, on a light or dark ground.

    >>> page_colors()["chart-1"], page_colors(dark=True)["chart-1"]
    ('#0072B2', '#66B8F2')
    """
    colors = {"chart-ink": _INK[dark], "chart-grid": _GRID[dark]}
    for number, color in enumerate(DARK if dark else LIGHT, 1):
        colors[f"chart-{number}"] = color
    return colors


def color_rules() -> str:
    """Return the rules of a style sheet that give marks the colours of the page."""
    rules = [".chart { color: var(--chart-ink) }", ".grid { stroke: var(--chart-grid) }"]
    for number in range(1, len(LIGHT) + 1):
        rules.append(f".stroke-{number} {{ stroke: var(--chart-{number}) }}")
        rules.append(f".fill-{number} {{ fill: var(--chart-{number}) }}")
    return "\n".join(rules)
