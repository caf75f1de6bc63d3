"""HTML made of elements. The content of an element is text, and escaped, unless it is an element itself."""

import html
from collections.abc import Iterable, Sequence
from typing import Any

_VOID = {"br", "hr", "input", "meta", "col"}


class Markup(str):
    """HTML that `tag` made, or that stands in the code: never anything that came from data."""

    __slots__ = ()


def tag(name: str, /, *content: object, **attributes: object) -> Markup:
    """Make an element. ``class_`` is class, ``aria_label`` aria-label; True is an attribute without a value.

    >>> tag("p", "a < b ", tag("b", "& c"), class_="note", hidden=True, title=None)
    '<p class="note" hidden>a &lt; b <b>&amp; c</b></p>'
    """
    written = "".join(
        _attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items()
    )
    return Markup(
        f"<{name}{written}>" if name in _VOID else f"<{name}{written}>{join(content)}</{name}>"
    )


def join(content: Iterable[object], between: str = "") -> Markup:
    """Concatenate elements and texts."""
    return Markup(
        between.join(
            part if isinstance(part, Markup) else html.escape(str(part)) for part in content
        )
    )


def rows(
    cells: Iterable[Sequence[object]], numbers: Sequence[bool] = (), cell: str = "td"
) -> Markup:
    """Make rows of a table; the first cell of each is its header, and those of `numbers` are aligned as such."""
    lines = []
    for row in cells:
        line = []
        for n, value in enumerate(row):
            is_number = n < len(numbers) and numbers[n]
            scope = "col" if cell == "th" else "row" if n == 0 else None
            line.append(
                tag(
                    "th" if scope else "td",
                    value,
                    scope=scope,
                    class_="number" if is_number else None,
                )
            )
        lines.append(tag("tr", *line))
    return join(lines)


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
    cells = list(cells)
    bodies = [tag("tbody", rows(cells[:first], numbers))]
    if first is not None and len(cells) > first:
        bodies.append(tag("tbody", rows(cells[first:], numbers), class_="rest"))
    element = tag(
        "table", tag("caption", caption), tag("thead", rows([names], numbers, "th")), *bodies
    )
    label = html.unescape(caption) if isinstance(caption, Markup) else str(caption)
    return tag("div", element, class_="scroll", role="region", tabindex="0", aria_label=label)


def _attribute(name: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'
