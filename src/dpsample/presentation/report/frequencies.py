"""The section of a report on how frequent keys are: the number of keys from each frequency on, and quantiles."""

from dpsample.estimators.notes import claim_of
from dpsample.presentation.charts import Panel
from dpsample.presentation.page_charts import page_chart
from dpsample.presentation.pages import Markup, figure, join, table, tag
from dpsample.presentation.report.content import FILE, SHARES, Content
from dpsample.presentation.report.elements import again, claims, column_name, numbers_of, whole

_LEAST_DRAWN = 0.5  # the lower end of an interval that reaches 0, on a logarithmic axis
_MOST_DRAWN = 1e15  # an upper end above this is not drawn: it would flatten the chart


def frequencies_section(content: Content) -> Markup | None:
    """Return the numbers of keys by frequency, and quantiles; None if there are none."""
    if content.top is None or not content.counts:
        return None
    return join([_numbers_of_keys(content), *_quantiles(content)])


def _numbers_of_keys(content: Content) -> Markup:
    """Return a chart and a table of the number of keys from each frequency on."""
    keys, each = (
        ("reported keys", "so many users") if content.counted else ("keys", "each frequency")
    )
    title = "Number of keys in the data of this frequency or more, reported or not"
    if content.counted:
        title = "Number of reported keys of so many users or more"
    rows = [[f"{frequency:,}", *numbers_of(estimate)] for frequency, estimate in content.counts]
    heads = [column_name(content), "keys", "95 % interval", ""]
    counted = table(title, heads, rows, [True, True, True, False])

    (first, most), (last, _) = content.counts[0], content.counts[-1]
    described = (
        f"Line chart: about {whole(most.value)} {keys} have {content.terms.kind.estimated} {first:,} or more. "
        f"The number falls up to {last:,}. The table below has all points."
    )
    caption = f"Number of {keys} of {each} or more, with 95 % intervals."
    notes = [
        f"for some of these numbers, {claim_of(note)}"
        for _, number in content.counts
        for note in number.notes
    ]
    frequencies = [frequency for frequency, _ in content.counts]
    calls = [f"for at_least in {frequencies}:", "    print(release.count_keys(at_least=at_least))"]
    return join(
        [
            figure("chart-frequencies", caption, described, counted),
            *claims(notes),
            again(content, calls, ["query", FILE, "--of", f"at-least:{first}"]),
        ]
    )


def _quantiles(content: Content) -> list[Markup]:
    """Return the quantiles of frequencies, if they can be estimated."""
    quantiles = content.quantiles
    if quantiles is None:
        return []
    named = zip(SHARES, quantiles, strict=True)
    rows = [[f"{100 * share:g} %", *numbers_of(estimate)] for share, (_, estimate) in named]
    title = f"{content.terms.kind.estimated.capitalize()} that this share of keys does not exceed"
    heads = ["share of keys", column_name(content), "95 % interval", ""]
    return [
        tag("h3", "Quantiles"),
        table(title, heads, rows, [False, True, True, False]),
        *claims(quantiles.notes),
        again(content, [f"print(release.quantiles({list(SHARES)}))"], ["quantiles", FILE, *SHARES]),
    ]


def frequencies_chart(content: Content) -> dict[str, object]:
    """Return the chart of the numbers of keys."""
    rows = []
    for frequency, number in content.counts:
        if number.value > 0:
            row = {
                "line": "keys",
                "x": frequency,
                "y": number.value,
                "low": max(number.low, _LEAST_DRAWN),
                "high": number.high if number.high < _MOST_DRAWN else number.value,
                "at least": f"{frequency:,}",
                "number of keys": whole(number.value),
            }
            rows.append(row)
    panel = Panel("", f"{column_name(content)}, at least", "number of keys", log_x=True, log_y=True)
    return page_chart(rows, panel, points=True)
