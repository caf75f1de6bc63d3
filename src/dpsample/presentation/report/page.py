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
    """A section of a page: its anchor, whose name the navigation shows, its title, and its content."""

    anchor: str
    title: str
    inner: Markup


Make = Callable[[Content], Markup | None]
# the anchor of each section, and what makes its content; a section without content is left out
_SECTIONS: dict[str, Make] = {
    "finding": finding_section,
    "changes": changed_section,
    "privacy": privacy_section,
    "limits": limits_section,
    "search": search_section,
    "frequencies": frequencies_section,
    "label": label_section,
}
_TITLES = {
    "finding": "What the data show",
    "changes": "What changed",
    "privacy": "How people are protected",
    "limits": "What cannot be seen",
    "search": "Find a key",
    "frequencies": "How frequent keys are",
    "label": "Privacy label",
}
_FOLLOW = (
    "All numbers follow from the private release alone. This page shows nothing else of the data."
)
_FOLLOW_SEVERAL = (
    "All numbers follow from the private releases alone. This page shows nothing else of the data."
)


def page(content: Content) -> str:
    """Return the HTML of the document."""
    sections = []
    for anchor, make in _SECTIONS.items():
        inner = make(content)
        if inner:
            sections.append(Section(anchor, _TITLES[anchor], inner))
    follow = _FOLLOW if content.changes is None else _FOLLOW_SEVERAL
    body = body_of(content.title, content.statement, sections, follow)
    data = {"keys": search_data(content.listing)}
    document = Document(printable(content.title), body, data, [script()])
    return document.html()


def body_of(title: str, statement: Statement, sections: list[Section], follow: str) -> Markup:
    """Return the body of a page: its header, its sections, and what all pages end with."""
    shown = []
    for section in sections:
        heading = tag("h2", section.title)
        shown.append(tag("section", heading, section.inner, id=section.anchor))
    ending = f"dpsample {__version__}. This page needs no network and sends no data."
    skip = tag("a", "Skip to the content", href="#content", class_="skip")
    header = _header(title, statement, sections)
    main = tag("main", *shown, id="content")
    footer = tag("footer", tag("p", follow), tag("p", ending))
    return join([skip, header, main, footer])


def _header(title: str, statement: Statement, sections: list[Section]) -> Markup:
    """Return the title, what the publisher states, and links to the sections."""
    links = []
    for section in sections:
        link = tag("a", section.anchor.capitalize(), href=f"#{section.anchor}")
        links.append(tag("li", link))
    heading = tag("h1", printable(title))
    navigation = tag("nav", tag("ul", *links), aria_label="Sections")
    return tag("header", heading, *_stated(statement), navigation)


def _stated(statement: Statement) -> list[Markup]:
    """Return what the publisher says about the data, when, and whom to ask."""
    lines = [tag("p", printable(text, len(text))) for text in statement.paragraphs]
    facts = []
    if statement.date is not None:
        day = tag("time", str(statement.date))
        facts.append(join(["Published: ", day, ". "]))
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
