"""The part of a report on the reporting probability: how likely a key of each frequency was to be reported."""

from dpsample.presentation.charts import Axis, Caption, Line, LineChart, Point
from dpsample.presentation.markup import Markup, tag
from dpsample.presentation.pages import figure, table
from dpsample.presentation.report.content import FILE, Content
from dpsample.presentation.report.elements import again, folded
from dpsample.scheme.sampling import Floats, KeepAll

# the rows of the table: the first frequencies at which these probabilities are reached
_LEVELS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
_OURS = "this release"
# A range of frequencies that is shorter than this factor is drawn on an even axis, which is easier to read.
_LONG_RANGE = 20
_COMPARED = (
    "from dpsample.comparison.baselines import StabilityHistogram",
    "histogram = StabilityHistogram(release.per_key, release.sampling, tight=True)  # or tight=False",
)


def reporting_section(content: Content) -> Markup | None:
    """Return the reporting probability by frequency; None if all keys are known."""
    known = content.terms.known
    if known is not None and known.only:
        return None
    lines = _lines(content)
    ours = {_OURS: lines[_OURS]}
    shown = figure(_chart(content, ours, "reported"), _table(content, ours))
    parts = [tag("p", _words(content)), shown, _compute(content)]
    if len(lines) > 1:
        parts.append(_comparison(content, lines))
    return tag("div", *parts, id="reported")


def _words(content: Content) -> str:
    """Say what the reporting probability depends on."""
    sampling = content.terms.sampling
    frequency = content.terms.kind.frequency
    users = content.terms.unit == "user"
    more = "" if users else "No private scheme has a larger reporting probability at any frequency."
    if not isinstance(sampling, KeepAll):
        more = "It includes sampling: a key that was not sampled was not reported."
    elif sampling.least > 1:
        more = f"It is 0 below {sampling.least:,}: the release leaves these keys out."
    whose = "the" if users else "its"
    return f"The reporting probability of a key grows with {whose} {frequency}. {more}"


def _comparison(content: Content, lines: dict[str, Floats]) -> Markup:
    """Return the chart with the stability-based histogram, folded: it is about methods, not about these data."""
    form = " (in its sampled form)"
    if isinstance(content.terms.sampling, KeepAll):
        form = ""
    words = (
        f"For comparison: the stability-based histogram, the usual method to publish keys{form}, at the same "
        "privacy, with its published cutoff and with the lowest one that is as private."
    )
    drawn = figure(_chart(content, lines, "compared"), _table(content, lines))
    code = "\n".join([*_COMPARED, f"print(histogram.reported({_shown_frequencies(content)}))"])
    python = tag("pre", content.python(code), tabindex="0", class_="again python")
    return folded("Compare with the usual method", tag("p", words), drawn, python)


def _compute(content: Content) -> Markup:
    calls = [
        "from dpsample.scheme import reporting_probabilities",
        f"print(reporting_probabilities({_shown_frequencies(content)}, release.sampling, release.per_key))",
    ]
    words = ["info", FILE, "--format", "json"]
    return again(content, calls, words, "The parameters of the scheme")


def _shown_places(content: Content) -> list[int]:
    """Return the places in the curve of the first frequencies that reach each level."""
    ours = content.curve.pws
    places = sorted({int((ours < level).sum()) for level in _LEVELS})
    return [place for place in places if place < len(ours)]


def _shown_frequencies(content: Content) -> list[int]:
    places = _shown_places(content)
    frequencies: list[int] = content.curve.frequencies[places].tolist()
    return frequencies


def _table(content: Content, lines: dict[str, Floats]) -> Markup:
    """Return the probabilities of some lines at the frequencies that are shown."""
    rows = []
    for place in _shown_places(content):
        probabilities = [f"{line[place]:.3g}" for line in lines.values()]
        frequency = int(content.curve.frequencies[place])
        rows.append([f"{frequency:,}", *probabilities])
    column = "users" if content.terms.discovery else "frequency"
    title = f"Reporting probability by {content.terms.kind.frequency}"
    heads = [column, *lines]
    return table(title, heads, rows, [True] * len(heads))


def _lines(content: Content) -> dict[str, Floats]:
    """Return the curve of this release, and those of the stability-based histogram if the sampling has one."""
    curve = content.curve
    lines = {_OURS: curve.pws}
    if curve.sbh is not None and curve.tight is not None:
        lines["stability-based histogram"] = curve.sbh
        lines["the same, with its lowest cutoff"] = curve.tight
    return lines


def _chart(content: Content, lines: dict[str, Floats], name: str) -> LineChart:
    """Return the chart of some of these lines."""
    frequencies = content.curve.frequencies.tolist()
    drawn = []
    for line, probabilities in lines.items():
        places = zip(frequencies, probabilities.tolist(), strict=True)
        points = [Point(frequency, pi) for frequency, pi in places]
        drawn.append(Line(line, points))
    log = frequencies[-1] > _LONG_RANGE * frequencies[0]
    x = Axis(content.terms.kind.frequency, log=log)
    y = Axis("probability", span=(0.0, 1.0))
    return LineChart(_caption(content, name), x, y, drawn)


def _caption(content: Content, name: str) -> Caption:
    """Return the words of the chart: its title states where the probability is one half."""
    frequency = content.terms.kind.frequency
    half = content.detection_threshold
    title = "No key is more likely to be shown than to be hidden."
    reached = "It does not reach one half."
    if half is not None:
        least = f"{half:,} users" if content.terms.unit == "user" else f"frequency {half:,}"
        title = f"From {least} on, a key is more likely to be shown than to be hidden."
        reached = f"In this release it reaches one half at {frequency} {half:,}."
    described = f"Line chart of the reporting probability by {frequency}. {reached}"
    return Caption(name, title, described, f"Reporting probability by {frequency}")
