"""A release in a notebook: its privacy in words, its top keys, and the reporting probability by frequency.

It is fast, and needs no chart library: a notebook shows it whenever a cell ends with a release.
"""

from dataclasses import dataclass

import numpy as np

from dpsample.answers.release import Release
from dpsample.exact import shown_number
from dpsample.lazy import pc
from dpsample.presentation.pages.markup import Markup, join, tag
from dpsample.presentation.tables import html_table
from dpsample.release.facts import Topic
from dpsample.scheme.reporting import frequency_reaching, reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints

_ROWS = 10
_TOPICS = (
    Topic.PRIVACY,
    Topic.FOUND,
    Topic.CHOSEN,
    Topic.COUNTED,
    Topic.SUMMED,
    Topic.KEPT,
    Topic.SEEN,
)
_WIDTH, _HEIGHT = 320, 100  # of the curve
_LEFT, _BOTTOM, _TOP = 48, 36, 8  # room for its axes
_POINTS = 60  # of the curve, at most
_LEVELS = {0.0: "0 %", 0.5: "50 %", 1.0: "100 %"}  # labelled probabilities


def display(release: Release) -> str:
    """Return the view, as HTML."""
    n = len(release)
    keys = "1 key" if n == 1 else f"{n:,} keys"
    facts = release.terms.facts(n).words(*_TOPICS)
    lines = [join([tag("br"), words]) for words in facts]
    head = tag("p", tag("strong", "Private release"), f": {keys}", *lines)
    return str(tag("div", head, _top(release), _curve(release)))


def _top(release: Release) -> Markup:
    """Return the keys with the largest estimates, or the first keys of a release of keys only."""
    table, title = release.table, "First keys"
    if not release.keys_only:
        title = "Keys with the largest estimates"
        by = "estimate" if release.grid is None else "token"  # the same order, and finer
        table = table.take(pc.select_k_unstable(table, _ROWS, [(by, "descending")]))
    numbers = _shown_numbers(release)
    first = table.slice(0, _ROWS).select([*release.keys, *numbers])
    shown = html_table(first, dict.fromkeys(numbers, shown_number), title)
    more = len(release) - _ROWS
    rest = (
        [tag("p", f"... and {more:,} more; release.report() shows all of it")] if more > 0 else []
    )
    return join([Markup(shown), *rest])


def _shown_numbers(release: Release) -> list[str]:
    """Return the columns of estimates and intervals, without the columns that these follow from."""
    shown = {"estimate", "low", "high"}
    for amount in release.terms.amounts:
        shown |= set(amount.columns) - {amount.error, f"{amount.name}_measured"}
    return [name for name in release.terms.numbers if name in shown]


@dataclass(frozen=True)
class _Curve:
    """The reporting probability by frequency, from about 1 % to about 99 %, and the frequency of one half."""

    frequencies: Ints
    probabilities: Floats
    half: int

    @property
    def ends(self) -> tuple[int, int]:
        """The lowest and the highest frequency."""
        return int(self.frequencies[0]), int(self.frequencies[-1])

    def x(self, frequency: int) -> float:
        """The place of a frequency in the picture."""
        low, high = self.ends
        return round(_LEFT + float(np.log(frequency / low) / np.log(high / low)) * _WIDTH, 1)

    def y(self, probability: float) -> float:
        """The place of a probability in the picture."""
        return round(_TOP + (1 - probability) * _HEIGHT, 1)

    def line(self) -> Markup:
        """Return the curve."""
        places = zip(self.frequencies.tolist(), self.probabilities.tolist(), strict=True)
        points = " ".join(f"{self.x(i)},{self.y(pi)}" for i, pi in places)
        look = {
            "fill": "none",
            "stroke": "#0072B2",
            "stroke_width": "2",
            "stroke_linejoin": "round",
        }
        return tag("polyline", points=points, **look)

    def grid(self) -> Markup:
        """Return a line across at each labelled probability, and one up to the frequency of one half."""
        across = "".join(f"M{_LEFT} {self.y(level)}h{_WIDTH}" for level in _LEVELS)
        up = f"M{self.x(self.half)} {self.y(0)}v-{_HEIGHT}"
        return tag("path", d=across + up, stroke="currentColor", opacity="0.25", fill="none")

    def labels(self, words: str) -> Markup:
        """Return the labels of both axes."""
        low, high = self.ends
        below, right = self.y(0) + 15, _LEFT + _WIDTH
        marks = []
        for level, percent in _LEVELS.items():
            height = self.y(level) + 4
            marks.append(tag("text", percent, x=_LEFT - 6, y=height, text_anchor="end"))
        marks.append(tag("text", f"{low:,}", x=_LEFT, y=below))
        marks.append(
            tag("text", f"{self.half:,}", x=self.x(self.half), y=below, text_anchor="middle")
        )
        marks.append(tag("text", f"{high:,}", x=right, y=below, text_anchor="end"))
        middle = _LEFT + _WIDTH / 2
        marks.append(tag("text", words, x=middle, y=below + 16, text_anchor="middle"))
        return tag("g", *marks, fill="currentColor", font_size="12", font_family="sans-serif")


def _curve_of(release: Release) -> _Curve | None:
    """Return the curve of a release; None if some probability is never reached."""
    sampling, per_key = release.sampling, release.per_key
    low, half, high = (frequency_reaching(level, sampling, per_key) for level in (0.01, 0.5, 0.99))
    if low is None or half is None or high is None:
        return None
    evenly = np.geomspace(max(low - 1, 1), high + 1, _POINTS)
    frequencies = np.unique(evenly.astype(np.int64))
    probabilities = reporting_probabilities(frequencies, sampling, per_key)
    return _Curve(frequencies, probabilities, half)


def _curve(release: Release) -> Markup:
    """Draw the reporting probability, from the frequency at which it is 1 % to the one at which it is 99 %."""
    curve = _curve_of(release)
    if curve is None:
        return Markup()
    words = release.terms.kind.frequency
    caption = f"Reporting probability by {words}"
    image = tag(
        "svg",
        tag("title", caption),
        curve.grid(),
        curve.line(),
        curve.labels(words),
        width=_LEFT + _WIDTH + 8,
        height=_TOP + _HEIGHT + _BOTTOM,
        role="img",
        aria_label=f"{caption}: one half at {curve.half:,}",
    )
    return tag("figure", tag("figcaption", caption), image)
