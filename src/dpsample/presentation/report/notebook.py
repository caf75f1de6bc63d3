"""A release in a notebook: its privacy in words, its top keys, and the reporting probability by frequency.

It is fast, and needs no chart library: a notebook shows it whenever a cell ends with a release.
"""

import numpy as np
import pyarrow.compute as pc

from dpsample.answers.release import Release
from dpsample.exact import shown_number
from dpsample.presentation.pages.markup import Markup, join, tag
from dpsample.presentation.tables import html_table
from dpsample.release.facts import Topic
from dpsample.scheme.reporting import frequency_reaching, reporting_probabilities

_ROWS = 10
_TOPICS = Topic.PRIVACY, Topic.FOUND, Topic.CHOSEN, Topic.COUNTED, Topic.SUMMED, Topic.KEPT, Topic.SEEN
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 320, 100, 48, 36, 8  # of the curve, and of the room for its axes


def display(release: Release) -> str:
    """Return the view, as HTML."""
    n = f"{len(release):,} key{'' if len(release) == 1 else 's'}"
    lines = release.terms.facts(len(release)).words(*_TOPICS)
    head = tag("p", tag("strong", "Private release"), f": {n}", *(join([tag("br"), line]) for line in lines))
    return str(tag("div", head, _top(release), _curve(release)))


def _top(release: Release) -> Markup:
    table, title = release.table, "First keys"
    if not release.keys_only:
        title = "Keys with the largest estimates"
        by = "estimate" if release.grid is None else "token"  # the same order, and finer
        table = table.take(pc.select_k_unstable(table, _ROWS, [(by, "descending")]))
    of_amounts = {name for amount in release.terms.amounts for name in amount.columns}
    errors = {name for amount in release.terms.amounts for name in (amount.error, f"{amount.name}_measured")}
    shown_of = (of_amounts - errors) | {"estimate", "low", "high"}
    numbers = [name for name in release.terms.numbers if name in shown_of]  # not what these follow from
    table = table.slice(0, _ROWS).select([*release.keys, *numbers])
    shown = html_table(table, dict.fromkeys(numbers, shown_number), title)
    more = len(release) - len(table)
    rest = [tag("p", f"... and {more:,} more; release.report() shows all of it")] if more > 0 else []
    return join([Markup(shown), *rest])


def _curve(release: Release) -> Markup:
    """Draw the reporting probability, from the frequency at which it is 1 % to the one at which it is 99 %."""
    reached = [frequency_reaching(level, release.sampling, release.per_key) for level in (0.01, 0.5, 0.99)]
    if None in reached:
        return Markup()
    low, half, high = map(int, filter(None, reached))
    i = np.unique(np.geomspace(max(low - 1, 1), high + 1, 60).astype(np.int64))
    pi = reporting_probabilities(i, release.sampling, release.per_key)

    def x(frequency: int) -> float:
        return round(_LEFT + float(np.log(frequency / i[0]) / np.log(i[-1] / i[0])) * _WIDTH, 1)

    def y(probability: float) -> float:
        return round(_TOP + (1 - probability) * _HEIGHT, 1)

    points = " ".join(f"{x(a)},{y(b)}" for a, b in zip(i.tolist(), pi.tolist(), strict=True))
    line = tag("polyline", points=points, fill="none", stroke="#0072B2", stroke_width="2", stroke_linejoin="round")
    levels = {0.0: "0 %", 0.5: "50 %", 1.0: "100 %"}
    grid = "".join(f"M{_LEFT} {y(level)}h{_WIDTH}" for level in levels) + f"M{x(half)} {y(0)}v-{_HEIGHT}"
    words = release.terms.kind.frequency
    marks = [
        *(tag("text", text, x=_LEFT - 6, y=y(level) + 4, text_anchor="end") for level, text in levels.items()),
        tag("text", f"{i[0]:,}", x=_LEFT, y=y(0) + 15),
        tag("text", f"{half:,}", x=x(half), y=y(0) + 15, text_anchor="middle"),
        tag("text", f"{i[-1]:,}", x=_LEFT + _WIDTH, y=y(0) + 15, text_anchor="end"),
        tag("text", words, x=_LEFT + _WIDTH / 2, y=y(0) + 31, text_anchor="middle"),
    ]
    caption = f"Reporting probability by {words}"
    image = tag(
        "svg",
        tag("title", caption),
        tag("path", d=grid, stroke="currentColor", opacity="0.25", fill="none"),
        line,
        tag("g", *marks, fill="currentColor", font_size="12", font_family="sans-serif"),
        width=_LEFT + _WIDTH + 8,
        height=_TOP + _HEIGHT + _BOTTOM,
        role="img",
        aria_label=f"{caption}: one half at {half:,}",
    )
    return tag("figure", tag("figcaption", caption), image)
