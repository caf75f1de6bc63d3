"""The section of a report on how frequent keys are: the number of keys from each frequency on, and quantiles."""

from dpsample.estimators.notes import claim_of
from dpsample.presentation.charts import Axis, Caption, Line, LineChart, Point
from dpsample.presentation.markup import Markup, join, tag
from dpsample.presentation.numbers import whole
from dpsample.presentation.pages import figure, table
from dpsample.presentation.report.content import FILE, SHARES, Content
from dpsample.presentation.report.elements import (
    again,
    claims,
    column_name,
    estimate_cells,
    estimate_heads,
)

_MOST_DRAWN = 1e15  # an upper end above this is not drawn: it would flatten the chart


def frequencies_section(content: Content) -> Markup | None:
    """Return the numbers of keys by frequency, and quantiles; None if there are none."""
    if content.top is None or not content.counts:
        return None
    return join([_numbers_of_keys(content), *_quantiles(content)])


def _numbers_of_keys(content: Content) -> Markup:
    """Return a chart and a table of the number of keys from each frequency on."""
    estimates = [estimate for _, estimate in content.counts]
    rows = []
    for (frequency, _), cells in zip(content.counts, estimate_cells(estimates), strict=True):
        rows.append([f"{frequency:,}", *cells])
    title = "Number of keys in the data of this frequency or more, reported or not"
    if content.counted:
        title = "Number of reported keys of this number of users or more"
    heads = [column_name(content), *estimate_heads(estimates, "keys")]
    counted = table(title, heads, rows, [True, True, True, False])

    notes = []
    for estimate in estimates:
        notes += [f"for some of these numbers, {claim_of(note)}" for note in estimate.notes]
    frequencies = [frequency for frequency, _ in content.counts]
    calls = [f"for at_least in {frequencies}:", "    print(release.count_keys(at_least=at_least))"]
    compute = again(content, calls, ["query", FILE, "--of", f"at-least:{frequencies[0]}"])
    chart = figure(frequencies_chart(content), counted)
    return join([chart, *claims(notes), compute])


def frequencies_chart(content: Content) -> LineChart:
    """Return the chart of the numbers of keys."""
    points = []
    for frequency, number in content.counts:
        if number.value > 0:
            high = number.high if number.high < _MOST_DRAWN else number.value
            said = f"{frequency:,} or more: about {whole(number.value)} keys"
            points.append(Point(frequency, number.value, number.low, high, said))
    x = Axis(f"{column_name(content)}, at least", log=True)
    y = Axis("number of keys", log=True)
    return LineChart(_caption(content), x, y, [Line("keys", points)], dots=True)


def _caption(content: Content) -> Caption:
    """Return the words of the chart: its title states its first point."""
    first, most = content.counts[0]
    last, _ = content.counts[-1]
    keys = "reported keys" if content.counted else "keys"
    number = whole(most.value)
    if content.counted:
        title = f"About {number} reported keys have {first:,} users or more."
    else:
        title = f"About {number} keys have a frequency of {first:,} or more, reported or not."
    described = (
        f"Line chart: about {number} {keys} have {content.terms.kind.estimated} {first:,} or more. "
        f"The number falls up to {last:,}. The table below has all points."
    )
    each = "this number of users" if content.counted else "this frequency"
    subtitle = f"Number of {keys} of {each} or more, with 95 % intervals"
    return Caption("frequencies", title, described, subtitle)


def _quantiles(content: Content) -> list[Markup]:
    """Return the quantiles of frequencies, if they can be estimated."""
    quantiles = content.quantiles
    if quantiles is None:
        return []
    estimates = [estimate for _, estimate in quantiles]
    rows = []
    for share, cells in zip(SHARES, estimate_cells(estimates), strict=True):
        rows.append([f"{100 * share:g} %", *cells])
    title = f"{content.terms.kind.estimated.capitalize()} that this share of keys does not exceed"
    heads = ["share of keys", *estimate_heads(estimates, column_name(content))]
    calls = [f"print(release.quantiles({list(SHARES)}))"]
    shown = table(title, heads, rows, [False, True, True, False])
    compute = again(content, calls, ["quantiles", FILE, *SHARES])
    return [tag("h3", "Quantiles"), shown, *claims(quantiles.notes), compute]
