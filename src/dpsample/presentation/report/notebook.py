"""A release in a notebook: its privacy in words, its top keys, and the reporting probability by frequency.

It is fast: a notebook shows it whenever a cell ends with a release.
"""

import numpy as np

from dpsample.exact import shown_number
from dpsample.lazy import pc
from dpsample.presentation.asked import Published
from dpsample.presentation.charts import NARROW, Axis, Caption, Line, LineChart, Point
from dpsample.presentation.markup import Markup, join, tag
from dpsample.presentation.tables import html_table
from dpsample.release.facts import Topic
from dpsample.scheme.reporting import frequency_reaching, reporting_probabilities

_ROWS = 10
_TOPICS = (
    Topic.WARNING,
    Topic.PRIVACY,
    Topic.FOUND,
    Topic.CHOSEN,
    Topic.COUNTED,
    Topic.SUMMED,
    Topic.KEPT,
    Topic.SEEN,
)
_POINTS = 60  # of the curve, at most: enough for it to look smooth
# The curve is drawn from the frequency that is reported with the first of these probabilities to that with the second.
_FIRST = 0.01
_LAST = 0.99


def display(release: Published) -> str:
    """Return the view, as HTML."""
    n = len(release)
    keys = "1 key" if n == 1 else f"{n:,} keys"
    facts = release.terms.facts(n).words(*_TOPICS)
    lines = [join([tag("br"), words]) for words in facts]
    made_for_tests = release.terms.made_for_tests
    name = "Test release (NOT private)" if made_for_tests else "Private release"
    head = tag("p", tag("strong", name), f": {keys}", *lines)
    return str(tag("div", head, _top(release), _curve(release)))


def _top(release: Published) -> Markup:
    """Return the keys with the largest estimates, or the first keys of a release of keys only."""
    table = release.table
    title = "First keys"
    if not release.terms.keys_only:
        title = "Keys with the largest estimates"
        # tokens have the order of the estimates, and differ where these are rounded to the same
        by = "estimate" if release.terms.grid is None else "token"
        first_rows = pc.select_k_unstable(table, _ROWS, [(by, "descending")])
        table = table.take(first_rows)
    numbers = _shown_numbers(release)
    columns = [*release.terms.keys, *numbers]
    first = table.slice(0, _ROWS).select(columns)
    shown = Markup(html_table(first, dict.fromkeys(numbers, shown_number), title))
    more = len(release) - _ROWS
    if more <= 0:
        return shown
    return join([shown, tag("p", f"... and {more:,} more; release.report() shows all of it")])


def _shown_numbers(release: Published) -> list[str]:
    """Return the columns of estimates and intervals, without the columns that these follow from."""
    shown = {"estimate", "low", "high"}
    for amount in release.terms.amounts:
        shown |= set(amount.columns) - {amount.error, f"{amount.name}_measured"}
    return [name for name in release.terms.numbers if name in shown]


def _curve(release: Published) -> Markup:
    """Draw the reporting probability; nothing if some probability is never reached."""
    terms = release.terms
    low = frequency_reaching(_FIRST, terms.sampling, terms.per_key)
    half = frequency_reaching(0.5, terms.sampling, terms.per_key)
    high = frequency_reaching(_LAST, terms.sampling, terms.per_key)
    if low is None or half is None or high is None:
        return Markup()
    evenly = np.geomspace(max(low - 1, 1), high + 1, _POINTS)
    frequencies = np.unique(evenly.astype(np.int64))
    probabilities = reporting_probabilities(frequencies, terms.sampling, terms.per_key)
    places = zip(frequencies.tolist(), probabilities.tolist(), strict=True)
    points = [Point(frequency, probability) for frequency, probability in places]

    words = terms.kind.frequency
    title = f"Reporting probability by {words}: one half at {half:,}"
    caption = Caption("release", title, f"Line chart. {title}.")
    x = Axis(words, log=True)
    y = Axis("probability", span=(0.0, 1.0))
    chart = LineChart(caption, x, y, [Line("this release", points)])
    return tag("figure", tag("figcaption", title), chart.svg(NARROW))
