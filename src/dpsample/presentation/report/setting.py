"""How a page is made, beside its release: what the publisher states, names of files, and what is left out."""

import datetime
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TypedDict, Unpack

from dpsample.presentation.report.statement import Statement

# The longest top list of a page: longer ones are slower to read than the search box, which has all keys.
TOP = 100
_RELEASE = "release.private.parquet"  # stands for the name of a file that is not known
_BEFORE = "before.private.parquet"


class PageOptions(TypedDict, total=False):
    """The options of a page, as `Release.report` describes them."""

    title: str | None
    about: str | None
    contact: str | None
    date: str | datetime.date | None
    name: str | None
    before_name: str | None
    top: int
    prove: bool


@dataclass(frozen=True)
class PageSetting:
    """The options of a page, checked."""

    statement: Statement = field(default_factory=Statement)
    name: str | None = None  # of the release's file
    before_name: str | None = None  # of the file of an earlier release
    top: int = TOP  # the number of keys in the top list
    prove: bool = True  # whether the proof is run for the page

    @property
    def file(self) -> str:
        """The name of the release's file, for the commands that the page shows."""
        return PurePath(self.name).name if self.name else _RELEASE

    @property
    def before_file(self) -> str:
        """The name of the earlier release's file."""
        return PurePath(self.before_name).name if self.before_name else _BEFORE


def page_setting(**options: Unpack[PageOptions]) -> PageSetting:
    """Check the options of a page.

    >>> page_setting(title="Words", top=3).statement.title
    'Words'
    """
    statement = Statement(
        title=options.get("title"),
        about=options.get("about"),
        contact=options.get("contact"),
        date=options.get("date"),
    )
    return PageSetting(
        statement,
        name=options.get("name"),
        before_name=options.get("before_name"),
        top=options.get("top", TOP),
        prove=options.get("prove", True),
    )
