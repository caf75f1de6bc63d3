"""A release as a page that anybody can read: from the release alone.

    statement    what only the publisher knows: title, description, date, contact
    setting      how a page is made: the statement, names of files, and what is left out
    content      the content of the page, as values
    listing      the keys that the page can search
    page         the same as HTML, by sections:
    finding      the finding in a sentence, the bars, and the top list
    changed      keys that rose or fell since an earlier release
    privacy      who is protected, how strongly, and the proof
    limits       what cannot be seen, and the privacy label
    reporting    how likely a key of each frequency was to be reported
    search       the search of all keys
    frequencies  how frequent keys are
    elements     what several sections have
    several      the content of a page over several releases, as of a week
    several_page  the same as HTML
    report.js    the search box and the folded lists, in the browser
    notebook     a small view of a release, for notebooks

`Release.report()` and `dpsample report` make this page.
"""

import html
import os
from dataclasses import dataclass

from dpsample.errors import InvalidValue
from dpsample.files import PathLike, check_file, write_file
from dpsample.presentation.asked import Changed, Published, Together
from dpsample.presentation.report.content import Content, content_of
from dpsample.presentation.report.notebook import display
from dpsample.presentation.report.page import page
from dpsample.presentation.report.setting import PageOptions, PageSetting, page_setting
from dpsample.presentation.report.several import SeveralSetting, several_content
from dpsample.presentation.report.several_page import several_page
from dpsample.presentation.report.statement import Statement

__all__ = [
    "Content",
    "PageOptions",
    "PageSetting",
    "Report",
    "SeveralSetting",
    "Statement",
    "check_report",
    "content_of",
    "display",
    "make_report",
    "make_report_of_several",
    "page_setting",
]


@dataclass(frozen=True, repr=False)
class Report:
    """A page: one HTML document that needs no other file and no network. Notebooks show it in a frame."""

    html: str

    def write(self, path: PathLike, force: bool = False) -> None:
        """Write the page, atomically, to a file whose name ends with .html."""
        check_report(path, force)
        write_file(path, self.html.encode(), force)

    def __repr__(self) -> str:
        megabytes = len(self.html.encode()) / 1e6
        return f"Report: a page of {megabytes:.1f} MB; write(path) puts it into a file"

    def _repr_html_(self) -> str:
        # the frame runs the page's own scripts, and has no access to the notebook
        return (
            '<iframe title="Report of a private release" sandbox="allow-scripts" width="100%" height="800" '
            f'srcdoc="{html.escape(self.html)}"></iframe>'
        )


def check_report(path: PathLike, force: bool = False) -> None:
    """Check, before any work, that a report can be written: its name ends with .html.

    So no option makes a report replace a release, whatever its name.
    """
    if not os.fspath(path).lower().endswith(".html"):
        raise InvalidValue(
            f"the name of a report must end with .html, not {os.fspath(path)!r}", "rename it"
        )
    check_file(path, force)


def make_report(
    release: Published, setting: PageSetting | None = None, changes: Changed | None = None
) -> Report:
    """Make the page of a release; `changes` are those since an earlier release."""
    return Report(page(content_of(release, setting, changes)))


def make_report_of_several(
    together: Together,
    setting: SeveralSetting | None = None,
    changes: Changed | None = None,
) -> Report:
    """Make the page of several releases; `changes` are those from the first release to the last."""
    content = several_content(together, setting or SeveralSetting(), changes)
    return Report(several_page(content))
