"""A release in a notebook: its privacy in words, its top keys, and the reporting probability by frequency.

It is fast, and needs no chart library: a notebook shows it whenever a cell ends with a release.
"""

import numpy as np
import pyarrow.compute as pc

from dpsample.exact import shown_number
from dpsample.presentation.explain import (
    explain_amount,
    explain_counts,
    explain_discovery,
    explain_kept,
    explain_privacy,
    explain_reporting,
    frequency_words,
)
from dpsample.presentation.pages.markup import Markup, join, tag
from dpsample.presentation.tables import printable, readable
from dpsample.release.release import Release
from dpsample.scheme.reporting import frequency_reaching, reporting_probabilities

_ROWS = 10
_LEFT_OUT = ("measured", "_error")  # what estimates and their bounds follow from
_WIDTH, _HEIGHT = 300, 80


def display(release: Release) -> str:
    """Return the view, as HTML."""
    n = f"{len(release):,} key{'' if len(release) == 1 else 's'}"
    terms = release.terms
    lines = [
        explain_privacy(terms.privacy, terms.max_keys, terms.unit),
        *([explain_discovery(terms.discovery)] if terms.discovery else []),
        *([explain_counts(terms.counts), *map(explain_amount, terms.counts.amounts)] if terms.counts else []),
        *([explain_kept(terms.max_keys)] if terms.max_keys and not terms.keys_only else []),
        explain_reporting(terms),
    ]
    head = tag("p", tag("strong", "Private release"), f": {n}", *(join([tag("br"), line]) for line in lines))
    return str(tag("div", head, _top(release), _curve(release)))


def _top(release: Release) -> Markup:
    table, title = release.table, "First keys"
    if not release.keys_only:
        title = "Keys with the largest estimates"
        by = "estimate" if release.grid is None else "token"  # the same order, and finer
        table = table.take(pc.select_k_unstable(table, _ROWS, [(by, "descending")]))
    numbers = [name for name in release.terms.numbers if not name.endswith(_LEFT_OUT)]
    table = table.slice(0, _ROWS).select([*release.keys, *numbers])
    columns = [readable(table[name]) for name in release.keys]
    columns += [[shown_number(v) for v in table[name].to_pylist()] for name in numbers]
    names = tag("tr", *(tag("th", printable(name), scope="col") for name in table.column_names))
    rows = [tag("tr", *(tag("td", value) for value in row)) for row in zip(*columns, strict=True)]
    more = len(release) - len(rows)
    rest = [tag("p", f"... and {more:,} more; release.report() shows all of it")] if more > 0 else []
    return join([tag("table", tag("caption", title), tag("thead", names), tag("tbody", *rows)), *rest])


def _curve(release: Release) -> Markup:
    """Draw the reporting probability, from the frequency at which it is 1 % to the one at which it is 99 %."""
    low, high = (frequency_reaching(level, release.sampling, release.per_key) for level in (0.01, 0.99))
    if low is None or high is None:
        return Markup()
    i = np.unique(np.geomspace(max(low - 1, 1), high + 1, 60).astype(np.int64))
    pi = reporting_probabilities(i, release.sampling, release.per_key)
    x = np.log(i / i[0]) / np.log(i[-1] / i[0]) * _WIDTH
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, 2 + (1 - pi) * (_HEIGHT - 4), strict=True))
    caption = f"Reporting probability by {frequency_words(release.terms)}, from {i[0]:,} (left) to {i[-1]:,} (right)"
    line = tag("polyline", points=points, fill="none", stroke="#0072B2", stroke_width="2")
    base = tag("path", d=f"M0 {_HEIGHT - 1}H{_WIDTH}", stroke="#888888", fill="none")
    image = tag("svg", tag("title", caption), line, base, width=_WIDTH, height=_HEIGHT, role="img", aria_label=caption)
    return tag("figure", image, tag("figcaption", caption))
