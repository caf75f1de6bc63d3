"""The section of a report that finds any of its keys: a search box, and the data that its script reads."""

import math
from collections.abc import Callable

from dpsample.presentation.markup import Markup, join, tag
from dpsample.presentation.numbers import whole
from dpsample.presentation.report.content import FILE, Content
from dpsample.presentation.report.elements import again, column_name
from dpsample.presentation.report.listing import Listing
from dpsample.presentation.tables import printable

# how each number is rounded, so that an interval holds what it held
_ROUNDED: dict[str, Callable[[float], int]] = {
    "value": round,
    "low": math.floor,
    "high": math.ceil,
}


def search_section(content: Content) -> Markup:
    """Return the search box and its table, which the script fills."""
    if not len(content.release):
        return tag(
            "p", "No key was reported. The data may have no key above the detection threshold."
        )
    without_script = tag("p", "The search needs JavaScript.")
    parts = [tag("p", _scope(content)), _finder(content), tag("noscript", without_script)]
    if not content.terms.keys_only:
        words = ["top", FILE, "-k", len(content.release), "--format", "csv"]
        parts.append(again(content, ["print(release.each_key())"], words))
    return join(parts)


def _scope(content: Content) -> str:
    """Say which keys can be searched."""
    n = len(content.release)
    keys_only = content.terms.keys_only
    scope = f"All {n:,} reported keys."
    if content.listing.left_out:
        which = "first" if keys_only else "most frequent"
        listed = len(content.listing)
        scope = f"The {listed:,} {which} of {n:,} reported keys; the release has the rest."
    if keys_only:
        scope += " This release has keys without frequencies."
    return scope


def _finder(content: Content) -> Markup:
    """Return the search box, and a table for what it finds."""
    title = "Keys that were found"
    caption = tag("caption", title)
    head = tag("thead", tag("tr", *_heads(content)))
    found = tag("table", caption, head, tag("tbody", id="matches"))
    field = tag(
        "input",
        type="search",
        id="query",
        autocomplete="off",
        spellcheck="false",
        maxlength="200",
    )
    parts = [
        tag("label", "Find keys that contain", for_="query"),
        field,
        tag("p", id="found", role="status", class_="quiet"),
        tag("div", found, class_="scroll", role="region", tabindex="0", aria_label=title),
        tag("button", "Show more", id="more", type="button", hidden=True),
    ]
    return tag("div", *parts, class_="screen-only", id="finder", hidden=True)


def _heads(content: Content) -> list[Markup]:
    heads = [tag("th", printable(name), scope="col") for name in content.listing.columns]
    if content.terms.keys_only:
        return heads
    for name in (column_name(content), "95 % interval of this key"):
        heads.append(tag("th", name, scope="col", class_="number"))
    return heads


def search_data(listing: Listing) -> dict[str, object]:
    """Return the data of the search; numbers are as they are shown."""
    columns = list(listing.columns.values())
    found: dict[str, object] = {"keys": columns, "runs": listing.runs}
    for name, column in listing.numbers.items():
        found[name] = [whole(number, _ROUNDED[name]) for number in column]
    return found
