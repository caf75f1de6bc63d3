"""Parts of pages: tables that scroll by themselves, and charts with their titles."""

import html
from collections.abc import Iterable, Sequence

from dpsample.presentation.charts import NARROW, WIDE, Chart
from dpsample.presentation.markup import Markup, join, tag


def figure(chart: Chart, alternative: Markup | None = None) -> Markup:
    """Show a chart: its title and subtitle, a wide and a narrow picture, and the same as a table, folded."""
    caption = chart.caption
    words = [tag("strong", caption.title)]
    if caption.subtitle:
        words.append(tag("span", caption.subtitle))
    parts = [tag("figcaption", *words)]
    parts.append(tag("div", chart.svg(WIDE), class_="chart wide"))
    parts.append(tag("div", chart.svg(NARROW), class_="chart narrow"))
    if alternative is not None:
        summary = tag("summary", "The same as a table")
        parts.append(tag("details", summary, alternative))
    return tag("figure", *parts, id=f"chart-{caption.name}")


def rows(
    cells: Iterable[Sequence[object]], numbers: Sequence[bool] = (), cell: str = "td"
) -> Markup:
    """Make rows of a table; the first cell of each is its header, and those of `numbers` are aligned as such.

    With ``cell="th"``, all cells are headers: of columns.
    """
    return join(_row(values, numbers, cell) for values in cells)


def _row(values: Sequence[object], numbers: Sequence[bool], cell: str) -> Markup:
    made = []
    for n, value in enumerate(values):
        is_number = n < len(numbers) and numbers[n]
        number = "number" if is_number else None
        if cell == "th":
            made.append(tag("th", value, scope="col", class_=number))
        elif n == 0:
            made.append(tag("th", value, scope="row", class_=number))
        else:
            made.append(tag("td", value, class_=number))
    return tag("tr", *made)


def table(
    caption: object,
    names: Sequence[object],
    cells: Iterable[Sequence[object]],
    numbers: Sequence[bool] = (),
    first: int | None = None,
) -> Markup:
    """Make a table with a caption and headers, in a frame that scrolls sideways if it is too wide.

    Rows after the `first` ones are in a second body, which a script may fold.

    >>> print(table("Pets", ["pet", "n"], [["cat", 2]], [False, True]))
    <div class="scroll" role="region" tabindex="0" aria-label="Pets"><table><caption>Pets</caption><thead><tr>...
    """
    listed = list(cells)
    bodies = [tag("tbody", rows(listed[:first], numbers))]
    if first is not None and len(listed) > first:
        bodies.append(tag("tbody", rows(listed[first:], numbers), class_="rest"))
    head = tag("thead", rows([names], numbers, "th"))
    element = tag("table", tag("caption", caption), head, *bodies)
    label = html.unescape(caption) if isinstance(caption, Markup) else str(caption)
    return tag("div", element, class_="scroll", role="region", tabindex="0", aria_label=label)
