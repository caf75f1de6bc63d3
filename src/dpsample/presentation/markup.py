"""HTML and SVG made of elements. The content of an element is text, and escaped, unless it is an element itself."""

import html
from collections.abc import Iterable
from typing import Any

# elements that have no content, and so no end tag
_VOID = {"br", "hr", "input", "meta", "col"}


class Markup(str):
    """HTML that `tag` made, or that stands in the code: never anything that came from data."""

    __slots__ = ()


def tag(name: str, /, *content: object, **attributes: object) -> Markup:
    """Make an element. ``class_`` is class, ``aria_label`` aria-label; True is an attribute without a value.

    >>> tag("p", "a < b ", tag("b", "& c"), class_="note", hidden=True, title=None)
    '<p class="note" hidden>a &lt; b <b>&amp; c</b></p>'
    """
    written = [_attribute(given, value) for given, value in attributes.items()]
    opening = f"<{name}{''.join(written)}>"
    if name in _VOID:
        return Markup(opening)
    return Markup(f"{opening}{join(content)}</{name}>")


def join(content: Iterable[object], between: str = "") -> Markup:
    """Concatenate elements and texts."""
    return Markup(between.join(map(_escaped, content)))


def _escaped(part: object) -> str:
    """Return an element as it is, and a text escaped."""
    return part if isinstance(part, Markup) else html.escape(str(part))


def _attribute(given: str, value: Any) -> str:
    """Write an attribute with a space before it; nothing for None and False."""
    if value is None or value is False:
        return ""
    name = given.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{html.escape(str(value))}"'
