"""HTML made of elements. Whatever is put into one is text, and escaped, unless an element was made of it before."""

import html
from collections.abc import Iterable, Sequence
from typing import Any

_VOID = {"br", "hr", "input", "meta", "col"}
_LONGEST = 200  # characters of a key that are shown


class Markup(str):
    """HTML that was made by `tag`, or that we wrote ourselves: never anything that came from data."""

    __slots__ = ()


def tag(name: str, /, *content: object, **attributes: object) -> Markup:
    """Make an element. ``class_`` is class, ``aria_label`` aria-label; True is an attribute without a value.

    >>> tag("p", "a < b ", tag("b", "& c"), class_="note", hidden=True, title=None)
    '<p class="note" hidden>a &lt; b <b>&amp; c</b></p>'
    """
    written = "".join(_attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    return Markup(f"<{name}{written}>" if name in _VOID else f"<{name}{written}>{join(content)}</{name}>")


def join(content: Iterable[object], between: str = "") -> Markup:
    """Put elements and texts one after the other."""
    return Markup(between.join(part if isinstance(part, Markup) else html.escape(str(part)) for part in content))


def rows(cells: Iterable[Sequence[object]], numbers: Sequence[bool] = (), cell: str = "td") -> Markup:
    """Make rows of a table; the first cell of each is its header, and those of `numbers` are aligned as such."""
    made = []
    for row in cells:
        each = [
            tag(
                "th" if n == 0 or cell == "th" else "td",
                value,
                scope="col" if cell == "th" else "row" if n == 0 else None,
                class_="number" if n < len(numbers) and numbers[n] else None,
            )
            for n, value in enumerate(row)
        ]
        made.append(tag("tr", *each))
    return join(made)


def table(
    caption: object, names: Sequence[object], cells: Iterable[Sequence[object]], numbers: Sequence[bool] = ()
) -> Markup:
    """Make a table with a caption and headers, in a frame that scrolls sideways where it must.

    >>> print(table("Pets", ["pet", "n"], [["cat", 2]], [False, True]))
    <div class="scroll" role="region" tabindex="0" aria-label="Pets"><table><caption>Pets</caption><thead><tr>...
    """
    head, body = rows([names], numbers, "th"), rows(cells, numbers)
    made = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", body))
    label = html.unescape(caption) if isinstance(caption, Markup) else str(caption)
    return tag("div", made, class_="scroll", role="region", tabindex="0", aria_label=label)


def visible(text: str, longest: int = _LONGEST) -> str:
    """Show what is unseen in a text, as Python writes it: controls, marks of direction, odd spaces. Cut what is long.

    >>> print(visible("a\\u202eb\\x00 c:\\\\d "), visible("x" * 10, 4))
    a\\u202eb\\x00 c:\\\\d\\x20 xxxx… (10 characters)
    """
    if len(text) > longest:
        return f"{visible(text[:longest])}… ({len(text):,} characters)"
    if text.isprintable() and "\\" not in text and text == text.strip():
        return text
    body = text.rstrip(" ")
    shown = "".join(c if c.isprintable() and c != "\\" else repr(c)[1:-1] for c in body)
    shown += "\\x20" * (len(text) - len(body))
    return "\\x20" + shown[1:] if shown.startswith(" ") else shown


def _attribute(name: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'
