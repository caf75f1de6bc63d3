"""The sections of a report that list keys: the top list, and the search of all."""

import math
from collections.abc import Callable, Iterator

from dpsample.answers.estimates import OF_EACH, Estimates
from dpsample.presentation.pages import Markup, join, table, tag
from dpsample.presentation.report.content import FILE, Content, Listing
from dpsample.presentation.report.elements import (
    again,
    claims,
    column_name,
    interval,
    interval_mark,
    key_cells,
    range_picture,
    whole,
)
from dpsample.presentation.tables import printable, readable

_FIRST = 15  # rows of the top list, while it is folded
_BAR = 120  # width of the largest bar in the top list
_BAR_LOOK = {"height": "8", "fill": "currentColor", "opacity": "0.55"}


def top_section(content: Content) -> Markup | None:
    """Return the top list; None for keys only."""
    top = content.top
    if top is None:
        return None
    if not len(top):
        return tag("p", "No key was reported.")
    k, names = len(top), [printable(name) for name in top.groups.column_names]
    in_top = f"it is one of the top {k:,}" + (" of the reported keys" if content.counted else "")
    interval_name = f"{100 * top.level:g} % interval {top.intervals}"
    listed = table(
        f"The {k:,} keys with the largest estimates",
        ["", *names, column_name(content), interval_name, f"in the top {k:,}", ""],
        _top_rows(top),
        [True, *(False for _ in names), True, True, True, False],
        first=_FIRST,
    )
    return join(
        [
            tag(
                "p",
                f"The estimated {content.terms.kind.estimated} of each key, and the probability that {in_top}.",
            ),
            listed,
            *claims(top.notes),
            again(content, [f"print(release.top({k}))"], ["top", FILE, "-k", k]),
        ]
    )


def _top_rows(top: Estimates) -> Iterator[list[object]]:
    """Yield the rows of the top list: a key, its numbers, and a bar of its estimate."""
    columns = [readable(column) for column in top.groups.columns]
    numbers = top.numbers.to_pylist()
    largest = max(row["high"] for row in numbers)
    for n, row in enumerate(numbers, 1):
        value = whole(row["value"])
        ends = interval(row["low"], row["high"])
        share = _share(row["probability"])
        bar = _bar(row, largest)
        yield [n, *key_cells(columns, n - 1), value, ends, share, bar]


def _share(probability: float) -> str:
    percent = 100 * probability
    return "> 99.9 %" if 99.95 <= percent < 100 else f"{percent:.3g} %"


def _bar(row: dict[str, float], largest: float) -> Markup:
    """Draw a bar of the estimate, and its interval as an error bar; screen readers have the numbers."""
    scale = _BAR / largest
    low = round(scale * row["low"], 2)
    high = round(scale * row["high"], 2)
    width = round(scale * row["value"], 2)
    bar = tag("rect", x="0", y="3", width=width, **_BAR_LOOK)
    ends = interval_mark(low, high, middle=7, half=5)
    return range_picture(bar, ends, width=_BAR + 2, height=14)


def search_section(content: Content) -> Markup:
    """Return the search box and its table, which the script fills."""
    listing, release = content.listing, content.release
    if not len(release):
        return tag(
            "p", "No key was reported. The data may have no key above the detection threshold."
        )
    scope = f"All {len(release):,} reported keys."
    if listing.left_out:
        which = "first" if release.keys_only else "most frequent"
        scope = f"The {len(listing):,} {which} of {len(release):,} reported keys; the release has the rest."
    if release.keys_only:
        scope += " This release has keys without frequencies."
    parts = [
        tag("p", scope),
        _finder(content),
        tag("noscript", tag("p", "The search needs JavaScript.")),
    ]
    if not release.keys_only:
        words = ["top", FILE, "-k", len(release), "--format", "csv"]
        parts.append(again(content, ["print(release.each_key())"], words))
    return join(parts)


def _finder(content: Content) -> Markup:
    """Return the search box, and a table for what it finds."""
    search = {
        "type": "search",
        "id": "query",
        "autocomplete": "off",
        "spellcheck": "false",
        "maxlength": "200",
    }
    heads = [tag("th", printable(name), scope="col") for name in content.listing.columns]
    if not content.release.keys_only:
        numbers = column_name(content), f"95 % interval {OF_EACH}"
        heads += [tag("th", name, scope="col", class_="number") for name in numbers]
    title = "Keys that were found"
    body = tag(
        "table", tag("caption", title), tag("thead", tag("tr", *heads)), tag("tbody", id="matches")
    )
    return tag(
        "div",
        tag("label", "Find keys that contain", for_="query"),
        tag("input", **search),
        tag("p", id="found", role="status", class_="quiet"),
        tag("div", body, class_="scroll", role="region", tabindex="0", aria_label=title),
        tag("button", "Show more", id="more", type="button", hidden=True),
        class_="screen-only",
        id="finder",
        hidden=True,
    )


def search_data(listing: Listing) -> dict[str, object]:
    """Return the data of the search; numbers are as they are shown."""
    rounded: dict[str, Callable[[float], int]] = {
        "value": round,
        "low": math.floor,
        "high": math.ceil,
    }
    numbers = {
        name: [whole(n, rounded[name]) for n in column] for name, column in listing.numbers.items()
    }
    return {"keys": list(listing.columns.values()), "runs": listing.runs, **numbers}
