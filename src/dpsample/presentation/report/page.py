"""The report as HTML: sections of words, tables and charts. `content` computes the values."""

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from dpsample import __version__
from dpsample.presentation.pages import Document, Markup, join, tag
from dpsample.presentation.report.changed import changed_section
from dpsample.presentation.report.content import Content
from dpsample.presentation.report.frequencies import frequencies_chart, frequencies_section
from dpsample.presentation.report.keys import search_data, search_section, top_section
from dpsample.presentation.report.limits import label_section, limits_section
from dpsample.presentation.report.privacy import privacy_section
from dpsample.presentation.report.reporting import reporting_chart, reporting_section
from dpsample.presentation.report.statement import Statement
from dpsample.presentation.tables import printable


def page(content: Content) -> str:
    """Return the HTML of the document."""
    sections = _sections(content)
    body = join(
        [
            tag("a", "Skip to the content", href="#content", class_="skip"),
            _header(content, sections),
            tag("main", *(_shown(section) for section in sections), id="content"),
            tag(
                "footer",
                tag("p", f"dpsample {__version__}. This page needs no network and sends no data."),
            ),
        ]
    )
    charts = {"chart-reported": reporting_chart(content)}
    if content.counts:
        charts["chart-frequencies"] = frequencies_chart(content)
    return Document(
        printable(content.title), body, {"keys": search_data(content.listing)}, charts, [_script()]
    ).html()


@dataclass(frozen=True)
class Section:
    """A section of the page: the name of its anchor, its name in the navigation, its title, and what is in it."""

    anchor: str
    short: str
    title: str
    inner: Markup


def _sections(content: Content) -> list[Section]:
    """Return the sections that this release has."""
    sections = [
        ("privacy", "Privacy", "Privacy", privacy_section),
        ("top", "Top keys", "Top keys", top_section),
        ("changed", "Changes", "What changed", changed_section),
        ("search", "Search", "All keys", search_section),
        ("frequencies", "Frequencies", "How frequent keys are", frequencies_section),
        ("reported", "Reporting", "Reporting probability", reporting_section),
        ("limits", "Limits", "What this release cannot show", limits_section),
        ("label", "Label", "Privacy label", label_section),
    ]
    made = []
    for anchor, short, title, make in sections:
        inner: Markup | None = make(content)
        if inner:
            made.append(Section(anchor, short, title, inner))
    return made


def _shown(section: Section) -> Markup:
    return tag("section", tag("h2", section.title), section.inner, id=section.anchor)


def _header(content: Content, sections: list[Section]) -> Markup:
    """Return the title, what the publisher states, and links to the sections."""
    releases = "release" if content.changes is None else "releases"
    follow = f"All numbers follow from the private {releases} alone. This page shows nothing else of the data."
    links = [tag("li", tag("a", section.short, href=f"#{section.anchor}")) for section in sections]
    return tag(
        "header",
        tag("h1", printable(content.title)),
        *_stated(content.statement),
        tag("p", follow, class_="quiet"),
        tag("nav", tag("ul", *links), aria_label="Sections"),
    )


def _stated(statement: Statement) -> list[Markup]:
    """What the publisher says about the data, when, and whom to ask."""
    lines = [tag("p", printable(text, len(text))) for text in statement.paragraphs]
    facts = []
    if statement.date is not None:
        facts.append(join(["Published: ", tag("time", str(statement.date)), ". "]))
    if statement.contact is not None:
        contact = printable(statement.contact)
        link = (
            tag("a", contact, href=statement.link, rel="noreferrer") if statement.link else contact
        )
        facts.append(join(["Contact: ", link]))
    return [*lines, tag("p", *facts)] if facts else lines


@lru_cache
def _script() -> str:
    return files("dpsample.presentation.report").joinpath("report.js").read_text(encoding="utf-8")
