"""The beginning of a report: the finding in a sentence, then the bars, then the same keys as a table."""

from collections.abc import Iterator

from dpsample.presentation.asked import Ranked
from dpsample.presentation.markup import Markup, join, tag
from dpsample.presentation.numbers import interval, whole
from dpsample.presentation.pages import figure, table
from dpsample.presentation.plot import top_chart
from dpsample.presentation.report.content import FILE, Content
from dpsample.presentation.report.elements import (
    again,
    claims,
    column_name,
    folded,
    key_cells,
)
from dpsample.presentation.tables import key_texts, printable, readable
from dpsample.release.terms import Terms

# Bars that are drawn: they fit on a screen with the sentence above them.
_BARS = 12
_FIRST = 15  # rows of the table, while it is folded
# A probability from here on is shown as certain: if all are, the column says nothing and is left out.
_CERTAIN = 0.9995


def finding_section(content: Content) -> Markup:
    """Return the sentence that the page begins with, and the chart and table of the top keys."""
    top = content.top
    words = tag("p", *finding(content), class_="lead")
    if top is None or not len(top):
        return words
    title = _chart_title(content, top)
    chart = top_chart("top", title, top, content.terms, first=_BARS)
    k = len(top)
    summary = f"The same {k:,} keys as a table" if k > 1 else "The same as a table"
    about = _about(content, top)
    listed = folded(summary, about, _table(content, top), *claims(top.notes))
    compute = again(content, [f"print(release.top({k}))"], ["top", FILE, "-k", k])
    return join([words, figure(chart), tag("div", listed, class_="data"), compute])


def finding(content: Content) -> list[object]:
    """Return the finding: the key that leads the list, and how many keys are shown."""
    top = content.top
    shown = _number_shown(content)
    if top is None:
        return [f"{shown} This release has keys without frequencies."]
    if not len(top):
        return ["No key was reported: none was frequent enough to be shown."]
    [key] = key_texts(top.groups.slice(0, 1))
    [first] = top.numbers.slice(0, 1).to_pylist()
    number = whole(first["value"])
    ends = interval(first["low"], first["high"])
    said = said_of(content.terms, number)
    return [tag("strong", key, class_="key"), f" {said} ({ends}). {shown}"]


def said_of(terms: Terms, number: str) -> str:
    """Say how frequent a key is.

    >>> from dpsample.answers.example import release
    >>> said_of(release.terms, "5,005")
    'occurs about 5,005 times'
    """
    if terms.unit == "element":
        return f"occurs about {number} times"
    if terms.counts is not None:
        return f"is shared by about {number} users"
    return f"was kept by about {number} users"


def _number_shown(content: Content) -> str:
    """Say how many keys are reported, and why."""
    n = len(content.release)
    columns = " and ".join(map(printable, content.terms.keys))
    values = f"value of {columns}" if n == 1 else f"values of {columns}"
    if len(content.terms.keys) > 1:
        values = f"combination of {columns}" if n == 1 else f"combinations of {columns}"
    known = content.terms.known
    if known is not None and known.only:
        were = "was" if n == 1 else "were"
        return f"{n:,} {values} {were} listed in advance, and each is shown."
    has = "has" if n == 1 else "have"
    if content.terms.unit == "user":
        return f"{n:,} {values} {has} enough users to be shown."
    return f"{n:,} {values} {'is' if n == 1 else 'are'} frequent enough to be shown."


def _chart_title(content: Content, top: Ranked) -> str:
    """Return the title of the bars: a sentence."""
    drawn = min(len(top), _BARS)
    reported = len(content.release)
    if drawn == 1:
        return "This is the only reported key."
    if drawn == reported:
        return f"These are all {drawn:,} reported keys, the most frequent first."
    return f"These are the {drawn:,} most frequent of {reported:,} reported keys."


def _about(content: Content, top: Ranked) -> Markup:
    """Say what the table has."""
    each = f"The estimated {content.terms.kind.estimated} of each key"
    if not _tells_places(content, top):
        return tag("p", f"{each}.")
    in_top = f"it is one of the top {len(top):,}" + (
        " of the reported keys" if content.counted else ""
    )
    return tag("p", f"{each}, and the probability that {in_top}.")


def _table(content: Content, top: Ranked) -> Markup:
    """Return the top list as a table."""
    names = [printable(name) for name in top.groups.column_names]
    interval_head = f"{100 * top.level:g} % interval {top.intervals}"
    heads = ["place", *names, column_name(content), interval_head]
    numbers = [True, *(False for _ in names), True, True]
    tells_places = _tells_places(content, top)
    if tells_places:
        heads.append(f"in the top {len(top):,}")
        numbers.append(True)
    title = f"The {len(top):,} keys with the largest estimates"
    return table(title, heads, _rows(top, tells_places), numbers, first=_FIRST)


def _rows(top: Ranked, tells_places: bool) -> Iterator[list[object]]:
    """Yield the rows of the top list: a place, a key and its numbers."""
    columns = [readable(column) for column in top.groups.columns]
    for n, row in enumerate(top.numbers.to_pylist()):
        cells: list[object] = [n + 1, *key_cells(columns, n), whole(row["value"])]
        cells.append(interval(row["low"], row["high"]))
        if tells_places:
            cells.append(_share(row["probability"]))
        yield cells


def _tells_places(content: Content, top: Ranked) -> bool:
    """Whether the probabilities to be in the list say anything: not if all keys are in it, or all are certain."""
    if len(top) >= len(content.release):
        return False
    probabilities = top.numbers["probability"].to_pylist()
    return any(probability < _CERTAIN for probability in probabilities)


def _share(probability: float) -> str:
    percent = 100 * probability
    return "> 99.9 %" if 99.95 <= percent < 100 else f"{percent:.3g} %"
