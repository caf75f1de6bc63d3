"""The sections of a report with charts: how frequent keys are, and the reporting probability."""

from dpsample.estimators.notes import claim_of
from dpsample.presentation.charts import Panel
from dpsample.presentation.page_charts import page_chart
from dpsample.presentation.pages import Markup, figure, join, table, tag
from dpsample.presentation.report.content import FILE, SHARES, Content
from dpsample.presentation.report.elements import again, claims, column_name, numbers_of, whole
from dpsample.scheme.sampling import Floats, KeepAll


def frequencies_section(content: Content) -> Markup | None:
    """Return the numbers of keys by frequency, and quantiles; None if there are none."""
    if content.top is None or not content.counts:
        return None
    rows = [[f"{i:,}", *numbers_of(estimate)] for i, estimate in content.counts]
    keys = "reported keys" if content.counted else "keys"
    of = "so many users" if content.counted else "each frequency"
    counted = table(
        "Number of reported keys of so many users or more"
        if content.counted
        else "Number of keys in the data of this frequency or more, reported or not",
        [column_name(content), "keys", "95 % interval", ""],
        rows,
        [True, True, True, False],
    )
    first, (last, _) = content.counts[0], content.counts[-1]
    described = (
        f"Line chart: about {whole(first[1].value)} {keys} have {content.terms.kind.estimated} {first[0]:,} or more. "
        f"The number falls up to {last:,}. The table below has all points."
    )
    calls = [f"for at_least in {[i for i, _ in content.counts]}:", "    print(release.count_keys(at_least=at_least))"]
    at_least = content.counts[0][0]
    parts = [
        figure("chart-frequencies", f"Number of {keys} of {of} or more, with 95 % intervals.", described, counted),
        *claims(
            f"for some of these numbers, {claim_of(note)}" for _, estimate in content.counts for note in estimate.notes
        ),
        again(content, calls, ["query", FILE, "--of", f"at-least:{at_least}"]),
    ]
    if content.quantiles is not None:
        q = content.quantiles
        rows = [[f"{100 * share:g} %", *numbers_of(estimate)] for share, (_, estimate) in zip(SHARES, q, strict=True)]
        parts += [
            tag("h3", "Quantiles"),
            table(
                f"{content.terms.kind.estimated.capitalize()} that this share of keys does not exceed",
                ["share of keys", column_name(content), "95 % interval", ""],
                rows,
                [False, True, True, False],
            ),
            *claims(q.notes),
            again(content, [f"print(release.quantiles({list(SHARES)}))"], ["quantiles", FILE, *SHARES]),
        ]
    return join(parts)


def frequencies_chart(content: Content) -> dict[str, object]:
    """Return the chart of the numbers of keys."""
    rows = [
        {
            "line": "keys",
            "x": i,
            "y": e.value,
            "low": max(e.low, 0.5),
            "high": e.high if e.high < 1e15 else e.value,
            "at least": f"{i:,}",
            "number of keys": whole(e.value),
        }
        for i, e in content.counts
        if e.value > 0
    ]
    panel = Panel("", f"{column_name(content)}, at least", "number of keys", log_x=True, log_y=True)
    return page_chart(rows, panel, points=True)


def reporting_section(content: Content) -> Markup | None:
    """Return the reporting probability by frequency; None if all keys are known."""
    if content.terms.known is not None and content.terms.known.only:
        return None
    curve, lines = content.curve, _lines(content)
    ours = curve.pws
    picks = sorted({int((ours < level).sum()) for level in (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)})
    picks = [n for n in picks if n < len(ours)]
    at = curve.frequencies[picks].tolist()
    rows = [[f"{curve.frequencies[n]:,}", *(f"{line[n]:.3g}" for line in lines.values())] for n in picks]
    compared = len(lines) > 1
    sampled = not isinstance(content.terms.sampling, KeepAll)
    users, words_of = content.terms.unit == "user", content.terms.kind.frequency
    more = "" if users else "No private scheme has a larger reporting probability at any frequency."
    if content.terms.sampling.least > 1:
        more = f"It is 0 below {content.terms.sampling.least:,}: the release leaves these keys out."
    if sampled:
        more = "It includes sampling: a key that was not sampled was not reported."
    grows = f"The reporting probability of a key grows with {'the' if users else 'its'} {words_of}. "
    words = [tag("p", grows, more)]
    if compared:
        words.append(
            tag(
                "p",
                "For comparison: the stability-based histogram, the usual method to publish keys",
                " (in its sampled form)" if sampled else "",
                ", at the same privacy, with its published cutoff and with the lowest one that is as private.",
            )
        )
    half, column = content.detection_threshold, "users" if content.terms.discovery else "frequency"
    described = f"Line chart of the reporting probability by {words_of}. " + (
        "It does not reach one half." if half is None else f"In this release it reaches one half at {column} {half:,}."
    )
    names = [column, *lines]
    numbers = table(f"Reporting probability by {words_of}", names, rows, [True] * len(names))
    calls = [
        "from dpsample.scheme import reporting_probabilities",
        f"print(reporting_probabilities({at}, release.sampling, release.per_key))",
    ]
    if compared:
        calls += [
            "from dpsample.comparison.baselines import StabilityHistogram",
            "histogram = StabilityHistogram(release.per_key, release.sampling, tight=True)  # or tight=False",
            f"print(histogram.reported({at}))",
        ]
    return join(
        [
            *words,
            figure("chart-reported", f"Reporting probability by {words_of}.", described, numbers),
            again(content, calls, ["info", FILE, "--format", "json"], "The parameters of the scheme"),
        ]
    )


def _lines(content: Content) -> dict[str, Floats]:
    """Return the curve of this release, and those of the stability-based histogram if the sampling has one."""
    curve = content.curve
    named = {
        "this release": curve.pws,
        "stability-based histogram": curve.sbh,
        "the same, with its lowest cutoff": curve.tight,
    }
    return {name: line for name, line in named.items() if line is not None}


def reporting_chart(content: Content) -> dict[str, object]:
    """Return the chart of the reporting probability."""
    i = content.curve.frequencies
    rows = [
        {"line": name, "x": int(x), "y": float(y), "frequency": f"{x:,}", "probability": f"{y:.3g}", "of": name}
        for name, line in _lines(content).items()
        for x, y in zip(i, line, strict=True)
    ]
    return page_chart(
        rows, Panel("", content.terms.kind.frequency, "probability", log_x=bool(i[-1] > 20 * i[0]), span_y=(0, 1))
    )
