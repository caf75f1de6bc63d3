"""The page over several releases: the finding, each release, what changed, privacy, and what cannot be seen."""

from collections.abc import Callable, Iterator

from dpsample.exact import text
from dpsample.presentation.asked import Ranked
from dpsample.presentation.charts import Axis, Caption, Line, LineChart, Point
from dpsample.presentation.markup import Markup, join, tag
from dpsample.presentation.numbers import interval, whole
from dpsample.presentation.pages import Document, figure, table
from dpsample.presentation.plot import top_chart
from dpsample.presentation.report.changed import changes_shown
from dpsample.presentation.report.elements import claims, folded
from dpsample.presentation.report.finding import said_of
from dpsample.presentation.report.page import Section, body_of, script
from dpsample.presentation.report.several import Known, SeveralContent
from dpsample.presentation.tables import key_texts, printable
from dpsample.release.explain import (
    explain_protected,
    explain_reporting,
    explain_strength,
    sentence,
)

_BARS = 12  # keys of the bars: they fit on a screen
_LINES = 5  # keys whose lines are drawn: more cross too often to be told apart
_FIRST = 15  # rows of the table, while it is folded
_NOT_REPORTED = "-"
_FOLLOW = (
    "All numbers follow from the private releases alone. This page shows nothing else of the data."
)


def several_page(content: SeveralContent) -> str:
    """Return the HTML of the document."""
    sections = []
    for anchor, (title, make) in _SECTIONS.items():
        inner = make(content)
        if inner:
            sections.append(Section(anchor, title, inner))
    body = body_of(content.title, content.setting.statement, sections, _FOLLOW)
    return Document(printable(content.title), body, scripts=[script()]).html()


def _finding(content: SeveralContent) -> Markup:
    """Return the sentence that the page begins with, and the bars."""
    top = content.top
    if top is None:
        return tag("p", f"{_number_reported(content)} They have no frequencies.", class_="lead")
    if not len(top):
        return tag("p", "No key was reported.", class_="lead")
    lead = tag("p", *_lead(content, top), class_="lead")
    drawn = min(len(top), _BARS)
    title = f"These are the {drawn:,} most frequent keys over all releases."
    chart = top_chart("top", title, top, content.terms, first=_BARS)
    return join([lead, figure(chart), *claims(content.together.cautions)])


def _lead(content: SeveralContent, top: Ranked) -> list[object]:
    """Say how frequent the first key of the list is over all releases, and how many keys there are."""
    [key] = key_texts(top.groups.slice(0, 1))
    [first] = top.numbers.slice(0, 1).to_pylist()
    said = said_of(content.terms, whole(first["value"]))
    ends = interval(first["low"], first["high"])
    releases = len(content.names)
    rest = f" {said} over {releases:,} releases ({ends}). {_number_reported(content)}"
    return [tag("strong", key, class_="key"), rest]


def _number_reported(content: SeveralContent) -> str:
    n = len(content.together)
    return f"{n:,} keys are in at least one of the {len(content.names):,} releases."


def _each(content: SeveralContent) -> Markup | None:
    """Return a line for each of the leading keys, and a table of all of the list; for keys only, a list of keys."""
    top = content.top
    if top is None:
        return _keys_only(content)
    if not len(top):
        return None
    files = content.setting.files
    chart = figure(_lines_chart(content, top))
    listed = tag("div", _table(content, top), class_="data")
    parts = [chart, listed]
    if files:
        command = content.command("top", files, "-k", len(top))
        parts.append(folded("Compute these numbers yourself", tag("pre", command, tabindex="0")))
    return join(parts)


def _keys_only(content: SeveralContent) -> Markup | None:
    """Return the keys that most releases report, and how many do."""
    listed = content.together.table.sort_by([("releases", "descending")])
    listed = listed.slice(0, content.setting.top)
    if not len(listed):
        return None
    keys = key_texts(listed.select(content.together.keys))
    rows = []
    for key, releases in zip(keys, listed["releases"].to_pylist(), strict=True):
        rows.append([tag("span", key, class_="key"), f"{releases:,}"])
    names = ", ".join(map(printable, content.together.keys))
    title = f"{len(rows):,} keys, and the number of releases that report each"
    return table(title, [names, "releases"], rows, [False, True], first=_FIRST)


def _lines_chart(content: SeveralContent, top: Ranked) -> LineChart:
    """Return the chart of the leading keys by release; where a key was not reported, it has no point."""
    keys = key_texts(top.groups)[:_LINES]
    lines = []
    for key, numbers in zip(keys, content.each, strict=False):
        points = list(_points(key, numbers, content.names))
        lines.append(Line(key, points))
    measured = content.terms.kind.estimated
    subtitle = (
        f"{measured[0].upper()}{measured[1:]} in each release, with 95 % intervals of this key"
    )
    described = f"Line chart of {', '.join(keys)}. The table below has all numbers."
    caption = Caption("each", _highest(content, keys[0]), described, subtitle)
    x = Axis("", names=content.names)
    return LineChart(caption, x, Axis(measured), lines, dots=True)


def _points(key: str, numbers: list[Known | None], names: tuple[str, ...]) -> Iterator[Point]:
    for step, known in enumerate(numbers):
        if known is not None:
            said = f"{key}, {names[step]}: {known}"
            yield Point(step, known.value, known.low, known.high, said)


def _highest(content: SeveralContent, key: str) -> str:
    """Return a sentence on the release in which a key, the first of the list, has its largest estimate."""
    most: Known | None = None
    where = ""
    for name, known in zip(content.names, content.each[0], strict=True):
        if known is not None and (most is None or known.value > most.value):
            most = known
            where = name
    if most is None:
        return f"{key} leads over all releases."
    return f"{key} was highest in {where}, at about {whole(most.value)}."


def _table(content: SeveralContent, top: Ranked) -> Markup:
    """Return the estimates of each key: over all releases with its interval, then in each release."""
    names = ", ".join(map(printable, content.together.keys))
    heads = [names, f"all releases (95 % interval {top.intervals})", *content.names]
    title = f"The {len(top):,} keys with the largest estimates; {_NOT_REPORTED}: not reported"
    are_numbers = [False, *(True for _ in heads[1:])]
    shown = table(title, heads, _rows(content, top), are_numbers, first=_FIRST)
    return folded("The same as a table", shown, *claims(top.notes))


def _rows(content: SeveralContent, top: Ranked) -> Iterator[list[object]]:
    keys = key_texts(top.groups)
    for n, row in enumerate(top.numbers.to_pylist()):
        key = tag("span", keys[n], class_="key")
        over_all = Known(row["value"], row["low"], row["high"])
        cells = [_NOT_REPORTED if one is None else whole(one.value) for one in content.each[n]]
        yield [key, over_all, *cells]


def _changed(content: SeveralContent) -> Markup | None:
    """Return what changed from the first release to the last."""
    if content.changes is None:
        return None
    terms = content.terms
    shown = changes_shown(content.changes, terms.keys, terms.kind.estimated)
    first = content.names[0]
    last = content.names[-1]
    between = tag("p", f"From {first} to {last}.")
    files = content.setting.files
    if not files:
        return join([between, shown])
    command = content.command("changes", [files[0], files[-1]])
    compute = folded("Compute these numbers yourself", tag("pre", command, tabindex="0"))
    return join([between, shown, compute])


def _privacy(content: SeveralContent) -> Markup:
    """Return who is protected, what the releases cost together, and the parameters of each."""
    terms = content.terms
    protected = explain_protected(terms.max_keys, terms.unit)
    words = tag("p", f"Each release protects {protected}. Together they spend:")
    together = [tag("li", sentence(line)) for line in content.together.cost]
    heads = ["release", "keys reported", "epsilon", "delta", "detection threshold"]
    are_numbers = [False, True, True, True, True]
    each = table("Each release", heads, _parameters(content), are_numbers)
    exactly = folded("Parameters of each release", *_strengths(content), each)
    return join([words, tag("ul", *together), exactly])


def _parameters(content: SeveralContent) -> Iterator[list[str]]:
    """Yield the parameters of each release."""
    for name, release in zip(content.names, content.together.releases, strict=True):
        stated = release.terms.privacy
        threshold = release.terms.detection_threshold
        cells = [name, f"{len(release):,}", text(stated.epsilon), text(stated.delta)]
        cells.append("never" if threshold is None else f"{threshold:,}")
        yield cells


def _strengths(content: SeveralContent) -> list[Markup]:
    """Return what each release allows an attacker, in the words of its terms; equal ones once."""
    words: dict[str, None] = {}
    for release in content.together.releases:
        terms = release.terms
        _, guess, _ = explain_strength(terms.privacy, terms.unit)
        words[f"From one release, {guess}"] = None
    return [tag("p", sentence(clause)) for clause in words]


def _limits(content: SeveralContent) -> Markup:
    """Return what the releases cannot show."""
    lines = [
        "A key that a release does not list may be in its data: it may have been rare, or not sampled."
    ]
    seen = [explain_reporting(release.terms) for release in content.together.releases]
    lines += map(sentence, dict.fromkeys(seen))
    return tag("ul", *(tag("li", line) for line in lines))


# the anchor of each section, its title, and what makes its content; a section without content is left out
_SECTIONS: dict[str, tuple[str, Callable[[SeveralContent], Markup | None]]] = {
    "finding": ("What the data show", _finding),
    "releases": ("Release by release", _each),
    "changes": ("What changed", _changed),
    "privacy": ("How people are protected", _privacy),
    "limits": ("What cannot be seen", _limits),
}
