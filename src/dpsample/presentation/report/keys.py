"""The sections of a report that list keys: the top list, and the search of all."""

import math
from collections.abc import Callable

from dpsample.answers.estimates import OF_EACH
from dpsample.presentation.pages import Markup, join, table, tag
from dpsample.presentation.report.content import FILE, Content, Listing
from dpsample.presentation.report.elements import again, claims, column_name, interval, whole
from dpsample.presentation.tables import printable, readable

_FIRST = 15  # rows of the top list, while it is folded
_BAR = 120  # width of the largest bar in the top list


def top_section(content: Content) -> Markup | None:
    """Return the top list; None for keys only."""
    top = content.top
    if top is None:
        return None
    if not len(top):
        return tag("p", "No key was reported.")
    value, low, high, probability = (top.numbers[name].to_pylist() for name in ("value", "low", "high", "probability"))
    keys = [readable(column) for column in top.groups.columns]
    rows = [
        [
            n + 1,
            *(tag("span", column[n], class_="key") for column in keys),
            whole(value[n]),
            interval(low[n], high[n]),
            _share(probability[n]),
            _bar(value[n], low[n], high[n], max(high)),
        ]
        for n in range(len(top))
    ]
    names = [printable(name) for name in top.groups.column_names]
    k = len(top)
    title = f"The {k:,} keys with the largest estimates"
    level = f"{100 * top.level:g} %"
    in_top = f"it is one of the top {k:,}" + (" of the reported keys" if content.counted else "")
    return join(
        [
            tag("p", f"The estimated {content.terms.kind.estimated} of each key, and the probability that {in_top}."),
            table(
                title,
                ["", *names, column_name(content), f"{level} interval {top.intervals}", f"in the top {k:,}", ""],
                rows,
                [True, *(False for _ in names), True, True, True, False],
                first=_FIRST,
            ),
            *claims(top.notes),
            again(content, [f"print(release.top({k}))"], ["top", FILE, "-k", k]),
        ]
    )


def _share(probability: float) -> str:
    percent = 100 * probability
    return "> 99.9 %" if 99.95 <= percent < 100 else f"{percent:.3g} %"


def _bar(value: float, low: float, high: float, largest: float) -> Markup:
    """Draw a bar of the estimate, and its interval as an error bar; screen readers have the numbers."""
    value, low, high = (round(_BAR * n / largest, 2) for n in (value, low, high))
    bar = tag("rect", x="0", y="3", width=value, height="8", fill="currentColor", opacity="0.55")
    ends = tag(
        "path", d=f"M{low} 2V12M{low} 7H{high}M{high} 2V12", stroke="var(--ink)", stroke_width="1.5", fill="none"
    )
    return tag("svg", bar, ends, width=_BAR + 2, height="14", aria_hidden="true", class_="range")


def search_section(content: Content) -> Markup:
    """Return the search box and its table, which the script fills."""
    listing, release = content.listing, content.release
    scope = f"All {len(release):,} reported keys."
    if listing.left_out:
        which = "first" if release.keys_only else "most frequent"
        scope = f"The {len(listing):,} {which} of {len(release):,} reported keys; the release has the rest."
    if not len(release):
        return tag("p", "No key was reported. The data may have no key above the detection threshold.")
    names = [printable(name) for name in listing.columns]
    numbers = [] if release.keys_only else [column_name(content), f"95 % interval {OF_EACH}"]
    heads = [tag("th", name, scope="col") for name in names]
    heads += [tag("th", name, scope="col", class_="number") for name in numbers]
    inner = [
        tag("p", scope, "" if numbers else " This release has keys without frequencies."),
        tag(
            "div",
            tag("label", "Find keys that contain", for_="query"),
            tag("input", type="search", id="query", autocomplete="off", spellcheck="false", maxlength="200"),
            tag("p", id="found", role="status", class_="quiet"),
            tag(
                "div",
                tag(
                    "table",
                    tag("caption", "Keys that were found"),
                    tag("thead", tag("tr", *heads)),
                    tag("tbody", id="matches"),
                ),
                class_="scroll",
                role="region",
                tabindex="0",
                aria_label="Keys that were found",
            ),
            tag("button", "Show more", id="more", type="button", hidden=True),
            class_="screen-only",
            id="finder",
            hidden=True,
        ),
        tag("noscript", tag("p", "The search needs JavaScript.")),
    ]
    if numbers:
        inner.append(
            again(content, ["print(release.each_key())"], ["top", FILE, "-k", len(release), "--format", "csv"])
        )
    return join(inner)


def search_data(listing: Listing) -> dict[str, object]:
    """Return the data of the search; numbers are as they are shown."""
    rounded: dict[str, Callable[[float], int]] = {"value": round, "low": math.floor, "high": math.ceil}
    numbers = {name: [whole(n, rounded[name]) for n in column] for name, column in listing.numbers.items()}
    return {"keys": list(listing.columns.values()), "runs": listing.runs, **numbers}
