"""A release as a page that anybody can read: from the release alone.

    content     all that the page says, as values
    page        the same as HTML
    report.js   the search box, and lists that unfold, in the browser
    notebook    a small view of a release, for notebooks

`Release.report()` and `dpsample report` make it. Charts need ``pip install 'dpsample[report]'``.
"""

import html
from dataclasses import dataclass

from dpsample.files import PathLike, write_file
from dpsample.presentation.charts import check_drawing
from dpsample.presentation.report.content import TOP, Content, content_of
from dpsample.presentation.report.notebook import display
from dpsample.presentation.report.page import page
from dpsample.release.release import Release

__all__ = ["Content", "Report", "content_of", "display", "make_report"]


@dataclass(frozen=True, repr=False)
class Report:
    """A page: one HTML document that needs no other file and no network. Notebooks show it in a frame of its own."""

    html: str

    def write(self, path: PathLike, force: bool = False) -> None:
        """Write the page, whole or not at all."""
        write_file(path, self.html.encode(), force)

    def __repr__(self) -> str:
        return f"Report: a page of {len(self.html.encode()) / 1e6:.1f} MB; write(path) puts it into a file"

    def _repr_html_(self) -> str:
        # the frame runs the page's own scripts, and has no access to the notebook
        return (
            '<iframe title="Report of a private release" sandbox="allow-scripts" width="100%" height="800" '
            f'srcdoc="{html.escape(self.html)}"></iframe>'
        )


def make_report(
    release: Release, *, title: str | None = None, name: str | None = None, top: int = TOP, prove: bool | None = None
) -> Report:
    """Make the page of a release.

    `name` is that of the release's file, for the commands that the page shows; `top` is how many keys the top list has.
    `prove` runs the proof of its privacy, or not; by default, it is run where it takes seconds.
    """
    check_drawing()
    return Report(page(content_of(release, title=title, name=name, top=top, prove=prove)))
