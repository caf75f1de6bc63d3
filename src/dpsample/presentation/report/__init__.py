"""A release as a page that anybody can read: from the release alone.

    statement    what only the publisher knows: title, description, date, contact
    content      the content of the page, as values
    page         the same as HTML, by sections:
    privacy      what is protected, how strongly, and the proof
    keys         the top list, and the search of all keys
    changed      keys that rose or fell since an earlier release
    frequencies  how frequent keys are
    reporting    how likely a key of each frequency was to be reported
    limits       what cannot be seen, and the privacy label
    elements     what several sections have
    report.js    the search box and the folded lists, in the browser
    notebook     a small view of a release, for notebooks

`Release.report()` and `dpsample report` make this page. Charts need ``pip install 'dpsample[report]'``.
"""

import html
import os
from dataclasses import dataclass

from dpsample.answers.release import Release
from dpsample.errors import InvalidValue
from dpsample.files import PathLike, check_file, write_file
from dpsample.presentation.charts import converter
from dpsample.presentation.report.content import TOP, Content, content_of
from dpsample.presentation.report.notebook import display
from dpsample.presentation.report.page import page
from dpsample.presentation.report.statement import Statement

__all__ = ["Content", "Report", "Statement", "check_report", "content_of", "display", "make_report"]


@dataclass(frozen=True, repr=False)
class Report:
    """A page: one HTML document that needs no other file and no network. Notebooks show it in a frame."""

    html: str

    def write(self, path: PathLike, force: bool = False) -> None:
        """Write the page, atomically, to a file whose name ends with .html."""
        check_report(path, force)
        write_file(path, self.html.encode(), force)

    def __repr__(self) -> str:
        return f"Report: a page of {len(self.html.encode()) / 1e6:.1f} MB; write(path) puts it into a file"

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
    release: Release,
    statement: Statement | None = None,
    *,
    name: str | None = None,
    top: int = TOP,
    prove: bool = True,
    before: Release | None = None,
    before_name: str | None = None,
) -> Report:
    """Make the page of a release. `Release.report` describes the arguments."""
    converter()
    stated = {"name": name, "before_name": before_name}
    return Report(
        page(content_of(release, statement, top=top, prove=prove, before=before, **stated))
    )
