"""A plan as one page with sliders, which shows the forecasts that were made and computes nothing.

explore      a plan -> its page
Page         the page, to be written to a file
check_page   checks the name of that file, before any work

A slider stands at each epsilon, delta or contribution bound of the plan. The page is as private as the plan: of private
data it holds exact numbers. Its title then says so, and so must the name of its file.
"""

import os
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from dpsample import __version__
from dpsample.errors import InvalidValue
from dpsample.files import PathLike, check_file, write_file
from dpsample.planning.charts import Placed, charts
from dpsample.planning.columns import columns, legend
from dpsample.planning.command import EVENTS, KEY, USER
from dpsample.planning.content import Axis, axes, content
from dpsample.planning.plan import HISTOGRAM, UNCOVERED, Plan
from dpsample.presentation.markup import Markup, join, tag
from dpsample.presentation.pages import Document, figure, table
from dpsample.release.explain import sentence

_OWNER_ONLY = 0o600  # the mode of a file with exact private numbers
_TITLE = "What would a release contain?"


@dataclass(frozen=True, repr=False)
class Page:
    """A page with sliders: one HTML document that needs no other file and no network."""

    html: str
    private: bool  # whether it holds exact numbers of private data

    def write(self, path: PathLike, force: bool = False) -> None:
        """Write the page, atomically; one of private data for the owner alone, in a file whose name says so."""
        check_page(path, self.private, force)
        write_file(path, self.html.encode(), force, _OWNER_ONLY if self.private else None)

    def __repr__(self) -> str:
        content = "NOT private" if self.private else f"{len(self.html):,} characters"
        return f"Page({content}); write(path) saves it"


def check_page(path: PathLike, private: bool, force: bool = False) -> None:
    """Check, before any work, that a page can be written.

    Its name ends with .html, so that no page replaces a release; of private data, it has the words not-private.
    """
    name = os.path.basename(os.fspath(path)).lower()
    if not name.endswith(".html"):
        raise InvalidValue(f"the name of a page must end with .html, not as {os.fspath(path)!r}")
    if private and "not-private" not in name:
        raise InvalidValue(
            "the page of a plan of private data holds exact numbers, and its name must say so",
            "choose a name such as plan.not-private.html",
        )
    check_file(path, force)


def explore(plan: Plan) -> Page:
    """Return the page of a plan.

    >>> from dpsample import Privacy
    >>> from dpsample.planning import Frequencies, Grid, forecast
    >>> frequencies, grid = Frequencies.zipf(1, 1000), Grid(["0.5", 1], ["1e-6", "1e-8"])
    >>> page = explore(Plan([forecast(frequencies, setting) for setting in grid.settings()]))
    >>> page.write("plan.html")  # doctest: +SKIP
    """
    title = f"NOT PRIVATE: {_TITLE}" if plan.notice else _TITLE
    data = {"plan": content(plan)}
    scripts = [_own("page.js")]
    styles = [_own("page.css")]
    document = Document(title, _body(plan), data, scripts, styles)
    return Page(document.html(), plan.notice not in (None, HISTOGRAM))


def _body(plan: Plan) -> Markup:
    """Return the page's header, its sections, and its footer."""
    drawn = join(map(_shown_at, charts(plan)))
    sections = [_section("setting", "Setting", _controls(axes(plan)))]
    sections.append(_section("numbers", "What to expect", _numbers(plan)))
    sections.append(_section("charts", "In charts", drawn))
    sections.append(_section("methods", "Method by method", _methods(plan)))
    sections.append(_section("release", "Make this release", _release(plan)))
    described = f"{plan.described}: " if plan.described else ""
    data = tag("p", described, tag("span", id="data"), ".", class_="quiet")
    warning = _warning(plan)
    header = tag("header", warning, tag("h1", _TITLE), data)
    ending = f"dpsample {__version__}. This page shows forecasts and spends no budget. It needs no network."
    footer = tag("footer", warning, tag("p", ending))
    skip = tag("a", "Skip to the numbers", href="#numbers", class_="skip")
    return join([skip, header, tag("main", *sections), footer])


def _section(name: str, title: str, content: Markup) -> Markup:
    return tag("section", tag("h2", title), content, id=name)


def _warning(plan: Plan) -> Markup:
    """Return how private the page is; nothing for public frequencies."""
    if plan.notice is None:
        return join([])
    return tag("p", tag("strong", plan.notice), " ", UNCOVERED, class_="warning")


def _controls(sliders: list[Axis]) -> Markup:
    """Return a control for each axis with several positions, and a line of text for the others."""
    controls = []
    fixed = []
    for axis in sliders:
        if len(axis.labels) == 1:
            fixed.append(tag("p", tag("strong", axis.title), " ", *axis.labels))
        elif axis.name == "sampling":
            controls.append(_list(axis))
        else:
            controls.append(_slider(axis))
    trouble = tag("p", id="trouble", role="alert", class_="bad")
    form = tag("form", *controls, trouble, autocomplete="off")
    below = tag("div", *fixed, class_="fixed")
    return join([form, below, tag("div", id="meaning")])


def _list(axis: Axis) -> Markup:
    """Return a list to choose from, for texts that are too long for a slider."""
    label = tag("label", axis.title, for_=axis.name)
    options = []
    for n, words in enumerate(axis.labels):
        options.append(tag("option", words, value=n))
    chosen = tag("select", *options, id=axis.name, data_axis=axis.name)
    return tag("div", label, chosen, class_="one")


def _slider(axis: Axis) -> Markup:
    label = tag("label", axis.title, for_=axis.name)
    value = tag("output", id=f"value-{axis.name}", for_=axis.name, aria_hidden="true")
    last = len(axis.labels) - 1
    slider = tag(
        "input",
        type="range",
        id=axis.name,
        max=last,
        data_axis=axis.name,
        aria_describedby="meaning",
    )
    return tag("div", label, value, slider, class_="one")


def _numbers(plan: Plan) -> Markup:
    """Return empty places for the numbers of the release, and a status that is read aloud."""
    summary = tag("p", id="summary", role="status", class_="unseen")
    facts = []
    for column in columns(plan.forecasts):
        meaning = tag("span", sentence(column.meaning))
        name = tag("dt", tag("strong", column.title), meaning)
        facts.append(tag("div", name, tag("dd", data_fact=column.head)))
    return join([summary, tag("dl", *facts, class_="facts")])


def _shown_at(placed: Placed) -> Markup:
    """Return a chart and its table, which the script shows at its position."""
    numbers = [True] * len(placed.heads)
    points = table(placed.chart.caption.title, placed.heads, placed.rows, numbers)
    return tag("div", figure(placed.chart, points), data_at=placed.position, hidden=True)


def _methods(plan: Plan) -> Markup:
    """Return a table of all methods without its rows, and what its words mean."""
    heads = [column.head for column in columns(plan.forecasts)]
    are_numbers = [False, *(True for _ in heads)]
    methods = table(
        "All private methods have the same privacy", ["method", *heads], [], are_numbers
    )
    meanings = legend(plan.forecasts).items()
    listed = []
    for name, words in meanings:
        listed.append(tag("div", tag("dt", name), tag("dd", words)))
    summary = tag("summary", "What the columns and methods mean")
    explained = tag("details", summary, tag("dl", *listed), class_="legend")
    return join([methods, tag("div", id="notes"), explained])


def _release(plan: Plan) -> Markup:
    """Return the places of the command and of the Python that make the release."""
    stand = "OUTPUT stands for the name of the file to write."
    if plan.source is None:
        stand = f"{EVENTS}, {KEY}, {USER} and OUTPUT stand for your file, its columns, and the file to write."
    spends = tag("p", f"This release spends the privacy that is set above. {stand}")
    return join([spends, _code("command", "On the command line"), _code("python", "In Python")])


def _code(name: str, title: str) -> Markup:
    """Return the place of some code, with a button that copies it."""
    code = tag("pre", id=name, tabindex="0", aria_label=title)
    button = tag("button", "Copy", type="button", data_copies=name, aria_label=f"Copy: {title}")
    status = tag("span", role="status", class_="good")
    return tag("div", tag("h3", title), code, button, status)


@lru_cache
def _own(name: str) -> str:
    return files("dpsample.planning").joinpath(name).read_text(encoding="utf-8")
