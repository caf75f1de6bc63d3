"""The section of a report on the reporting probability: how likely a key of each frequency was to be reported."""

from dpsample.presentation.charts import Panel
from dpsample.presentation.page_charts import page_chart
from dpsample.presentation.pages import Markup, figure, join, table, tag
from dpsample.presentation.report.content import FILE, Content
from dpsample.presentation.report.elements import again
from dpsample.scheme.sampling import Floats, KeepAll

_LEVELS = (
    0.01,
    0.05,
    0.1,
    0.25,
    0.5,
    0.75,
    0.9,
    0.95,
    0.99,
)  # the rows of the table: where these are reached
_COMPARED = (
    "from dpsample.comparison.baselines import StabilityHistogram",
    "histogram = StabilityHistogram(release.per_key, release.sampling, tight=True)  # or tight=False",
)


def reporting_section(content: Content) -> Markup | None:
    """Return the reporting probability by frequency; None if all keys are known."""
    known, frequency = content.terms.known, content.terms.kind.frequency
    if known is not None and known.only:
        return None
    half, column = content.detection_threshold, "users" if content.terms.discovery else "frequency"
    reached = "It does not reach one half."
    if half is not None:
        reached = f"In this release it reaches one half at {column} {half:,}."
    described = f"Line chart of the reporting probability by {frequency}. {reached}"

    shown, lines = _shown_points(content), _lines(content)
    frequencies = content.curve.frequencies[shown].tolist()
    probabilities = [[f"{line[n]:.3g}" for line in lines.values()] for n in shown]
    rows = [[f"{i:,}", *row] for i, row in zip(frequencies, probabilities, strict=True)]
    numbers = table(
        f"Reporting probability by {frequency}", [column, *lines], rows, [True] * (1 + len(lines))
    )

    calls = [
        "from dpsample.scheme import reporting_probabilities",
        f"print(reporting_probabilities({frequencies}, release.sampling, release.per_key))",
    ]
    if len(lines) > 1:
        calls += [*_COMPARED, f"print(histogram.reported({frequencies}))"]
    return join(
        [
            *_words(content, compared=len(lines) > 1),
            figure("chart-reported", f"Reporting probability by {frequency}.", described, numbers),
            again(
                content, calls, ["info", FILE, "--format", "json"], "The parameters of the scheme"
            ),
        ]
    )


def _words(content: Content, compared: bool) -> list[Markup]:
    """Return what the reporting probability depends on, and what it is compared with."""
    sampling, frequency = content.terms.sampling, content.terms.kind.frequency
    sampled, users = not isinstance(sampling, KeepAll), content.terms.unit == "user"
    more = "" if users else "No private scheme has a larger reporting probability at any frequency."
    if sampling.least > 1:
        more = f"It is 0 below {sampling.least:,}: the release leaves these keys out."
    if sampled:
        more = "It includes sampling: a key that was not sampled was not reported."
    whose = "the" if users else "its"
    words = [tag("p", f"The reporting probability of a key grows with {whose} {frequency}. ", more)]
    if compared:
        form = " (in its sampled form)" if sampled else ""
        comparison = (
            f"For comparison: the stability-based histogram, the usual method to publish keys{form}, at the same "
            "privacy, with its published cutoff and with the lowest one that is as private."
        )
        words.append(tag("p", comparison))
    return words


def _shown_points(content: Content) -> list[int]:
    """Return the places in the curve of the first frequencies that reach each level."""
    ours = content.curve.pws
    places = sorted({int((ours < level).sum()) for level in _LEVELS})
    return [place for place in places if place < len(ours)]


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
    frequencies = content.curve.frequencies.tolist()
    rows = []
    for name, line in _lines(content).items():
        for i, pi in zip(frequencies, line.tolist(), strict=True):
            shown = {"frequency": f"{i:,}", "probability": f"{pi:.3g}", "of": name}
            rows.append({"line": name, "x": int(i), "y": pi, **shown})
    log_x = (
        frequencies[-1] > 20 * frequencies[0]
    )  # over a short range, an even axis is easier to read
    return page_chart(
        rows, Panel("", content.terms.kind.frequency, "probability", log_x=log_x, span_y=(0, 1))
    )
