"""The report as HTML: the finding, then privacy, then what cannot be seen. `content` computes the values."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from dpsample import __version__
from dpsample.presentation.markup import Markup, join, tag
from dpsample.presentation.pages import Document
from dpsample.presentation.report.changed import changed_section
from dpsample.presentation.report.content import Content
from dpsample.presentation.report.finding import finding_section
from dpsample.presentation.report.frequencies import frequencies_section
from dpsample.presentation.report.limits import label_section, limits_section
from dpsample.presentation.report.privacy import privacy_section
from dpsample.presentation.report.search import search_data, search_section
from dpsample.presentation.report.statement import Statement
from dpsample.presentation.tables import printable


@dataclass(frozen=True)
class Section:
    """A section of a page: the name of its anchor, its name in the navigation, its title, and its content."""

    anchor: str
    short: str
    title: str
    inner: Markup


Make = Callable[[Content], Markup | None]
_SECTIONS: tuple[tuple[str, str, str, Make], ...] = (  # anchor, short name, title, content
    ("finding", "Finding", "What the data show", finding_section),
    ("changed", "Changes", "What changed", changed_section),
    ("privacy", "Privacy", "How people are protected", privacy_section),
    ("limits", "Limits", "What cannot be seen", limits_section),
    ("search", "Search", "Find a key", search_section),
    ("frequencies", "Frequencies", "How frequent keys are", frequencies_section),
    ("label", "Label", "Privacy label", label_section),
)


def page(content: Content) -> str:
    """Return the HTML of the document."""
    sections = []
    for anchor, short, title, make in _SECTIONS:
        inner = make(content)
        if inner:
            sections.append(Section(anchor, short, title, inner))
    follow = "All numbers follow from the private release alone. This page shows nothing else of the data."
    if content.changes is not None:
        follow = follow.replace("release alone", "releases alone")
    body = body_of(content.title, content.statement, sections, follow)
    data = {"keys": search_data(content.listing)}
    return Document(printable(content.title), body, data, [script()]).html()


def body_of(title: str, statement: Statement, sections: list[Section], follow: str) -> Markup:
    """Return the body of a page: its header, its sections, and what all pages end with."""
    shown = [tag("section", tag("h2", one.title), one.inner, id=one.anchor) for one in sections]
    ending = f"dpsample {__version__}. This page needs no network and sends no data."
    return join(
        [
            tag("a", "Skip to the content", href="#content", class_="skip"),
            _header(title, statement, sections),
            tag("main", *shown, id="content"),
            tag("footer", tag("p", follow), tag("p", ending)),
        ]
    )


def _header(title: str, statement: Statement, sections: list[Section]) -> Markup:
    """Return the title, what the publisher states, and links to the sections."""
    links = [tag("li", tag("a", section.short, href=f"#{section.anchor}")) for section in sections]
    return tag(
        "header",
        tag("h1", printable(title)),
        *_stated(statement),
        tag("nav", tag("ul", *links), aria_label="Sections"),
    )


def _stated(statement: Statement) -> list[Markup]:
    """Return what the publisher says about the data, when, and whom to ask."""
    lines = [tag("p", printable(text, len(text))) for text in statement.paragraphs]
    facts = []
    if statement.date is not None:
        facts.append(join(["Published: ", tag("time", str(statement.date)), ". "]))
    if statement.contact is not None:
        facts.append(join(["Contact: ", _contact(statement)]))
    if facts:
        lines.append(tag("p", *facts, class_="quiet"))
    return lines


def _contact(statement: Statement) -> object:
    """Return whom to ask, as a link if it is an address."""
    contact = printable(statement.contact or "")
    if statement.link is None:
        return contact
    return tag("a", contact, href=statement.link, rel="noreferrer")


@lru_cache
def script() -> str:
    """Return the code of the search box and of the folded lists."""
    return files("dpsample.presentation.report").joinpath("report.js").read_text(encoding="utf-8")
