"""What several sections of a report have: numbers, names of columns, notes, and how to compute the same."""

import math
from collections.abc import Callable, Iterable, Sequence

from dpsample.estimators.estimate import Estimate
from dpsample.estimators.notes import claim_of
from dpsample.exact import shown_number
from dpsample.presentation.pages import Markup, tag
from dpsample.presentation.report.content import Content
from dpsample.release.explain import sentence


def column_name(content: Content) -> str:
    """Return the name of the column of what is estimated."""
    return "users" if content.counted else "frequency"


def whole(number: float, rounded: Callable[[float], int] = round) -> str:
    """Write a frequency, or a number of keys: a whole number."""
    return f"{rounded(number):,}" if math.isfinite(number) else shown_number(number)


def interval(low: float, high: float) -> str:
    """Write an interval of whole numbers that has all of it."""
    return f"{whole(low, math.floor)} to {whole(high, math.ceil)}"


def numbers_of(estimate: Estimate) -> list[str]:
    """Return the cells of an estimate: its value, its interval, and whether that is guaranteed."""
    guaranteed = "" if estimate.guaranteed else "not guaranteed"
    return [whole(estimate.value), interval(estimate.low, estimate.high), guaranteed]


def claims(notes: Iterable[str]) -> list[Markup]:
    """Show notes, without advice on arguments and options: a reader of the page has none to set."""
    return [
        tag("p", sentence(claim), class_="quiet") for claim in dict.fromkeys(map(claim_of, notes))
    ]


def key_cells(columns: Sequence[Sequence[str]], row: int) -> list[Markup]:
    """Return the cells of one key, a text for each key column."""
    return [tag("span", column[row], class_="key") for column in columns]


def range_picture(*marks: Markup, width: int, height: int) -> Markup:
    """Return a picture of a number and its interval in a row of a table; screen readers have the numbers."""
    return tag("svg", *marks, width=width, height=height, aria_hidden="true", class_="range")


def interval_mark(low: float, high: float, middle: int, half: int) -> Markup:
    """Draw an interval as an error bar, around the height `middle`."""
    top, bottom = middle - half, middle + half
    path = f"M{low} {top}V{bottom}M{low} {middle}H{high}M{high} {top}V{bottom}"
    return tag("path", d=path, stroke="var(--ink)", stroke_width="1.5", fill="none")


def again(
    content: Content,
    calls: Sequence[str],
    words: Sequence[object],
    command: str = "On the command line",
) -> Markup:
    """Show how to compute the same numbers."""
    return tag(
        "details",
        tag("summary", "Compute these numbers yourself"),
        tag("p", "In Python:"),
        tag("pre", content.python(*calls), tabindex="0", class_="again python"),
        tag("p", f"{command}:"),
        tag("pre", content.command(*words), tabindex="0", class_="again command"),
    )
