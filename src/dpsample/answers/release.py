"""Release: the only publishable object, and its file.

A release is a table of keys, each with an estimate of its frequency and its token, or with its number of users, sorted
by key, together with its terms. This module imports nothing that can see private data: what follows a release is
post-processing.
"""

from collections.abc import Iterable
from functools import cached_property, partial
from typing import Any, Unpack

import pyarrow as pa

from dpsample.accounting.dropped import Kept
from dpsample.accounting.totals import Total
from dpsample.answers.answers import Answers
from dpsample.answers.evidence import Evidence
from dpsample.answers.question import Attributes, Where, check_options
from dpsample.errors import InvalidValue
from dpsample.extras import not_installed
from dpsample.files import PathLike, Rows, kind_of, read_table, rebatch, write_table
from dpsample.presentation.plot import Plot, plot
from dpsample.presentation.report import (
    PageOptions,
    Report,
    check_report,
    display,
    make_report,
    page_setting,
)
from dpsample.presentation.tables import table_lines
from dpsample.privacy import Privacy
from dpsample.release.facts import Topic
from dpsample.release.made_for_tests import are_allowed, require_allowed
from dpsample.release.rows import checked_rows, release_schema
from dpsample.release.terms import VERSION, Terms
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import Sampling

# how the columns of whole numbers are printed
_WHOLE_NUMBER = "{:,.0f}".format
_FORMATS = dict.fromkeys(("estimate", "low", "high"), _WHOLE_NUMBER)
# the facts that a print of a release shows, in this order
_TOPICS = (
    Topic.WARNING,
    Topic.PRIVACY,
    Topic.SAMPLED,
    Topic.FOUND,
    Topic.CHOSEN,
    Topic.KNOWN,
    Topic.PART,
    Topic.READ,
    Topic.TOKENS,
    Topic.KEPT,
    Topic.COUNTED,
    Topic.SUMMED,
    Topic.TOTAL,
)


class Release(Answers):
    """Keys that may be published, with tokens and estimates, and their terms.

    Rows ascend strictly by key: strings by their UTF-8 bytes, several keys column by column. So their order reveals
    nothing, and no key occurs twice. Tokens are positive multiples of 1/grid. The other numbers follow from them, so
    that the table need not have them; if it does, they are checked.

    >>> from dpsample import KeepAll, Privacy
    >>> from dpsample.release.kinds import Tokens
    >>> table = pa.table({"query": ["cat", "dog"], "token": [31.5, 12.125]})
    >>> privacy = Privacy(1, 1e-6)
    >>> Release(table, Terms(privacy, ("query",), Tokens(KeepAll(), privacy)))
    Release: 2 keys, with estimates of their frequencies
      privacy   epsilon 1, delta 1e-06, for each element
      sampled   KeepAll()
      tokens    in steps of 1/8
    query  estimate  low  high  token
    'cat'  45        42   48    31.5
    'dog'  26        23   28    12.125
    """

    def __init__(self, table: pa.Table, terms: Terms) -> None:
        given, schema = release_schema(table.schema, terms)
        batches = rebatch(table.select(given.names).to_batches(), given)
        self._table = pa.Table.from_batches(checked_rows(batches, terms), schema)
        self._terms = terms

    @property
    def table(self) -> pa.Table:
        """The rows, as an Arrow table: key column(s), estimate, low, high (95 %), token.

        Of counted users: key column(s), estimate, low, high (95 %), measured, standard_error; then each amount, rows or
        the sum of a column: of clipped amounts with their interval, and the interval of amounts up to eight times the
        clip.
        """
        return self._table

    @property
    def terms(self) -> Terms:
        """The public parameters of the release."""
        return self._terms

    @property
    def privacy(self) -> Privacy:
        """The epsilon and delta that the release spent."""
        return self._terms.privacy

    @property
    def unit(self) -> str:
        """The unit of privacy: element or user."""
        return self._terms.unit

    @property
    def per_key(self) -> PerKey:
        """The privacy parameters that each key's token was drawn with; estimates follow from them."""
        return self._terms.per_key

    @property
    def total(self) -> Total | None:
        """The private total of elements, if the release has one; at user level, of the keys that users kept.

        Without a contribution bound, each user counts with at most `sensitivity` keys.
        """
        return self._terms.bought.total

    @property
    def kept(self) -> Kept | None:
        """The share of their keys that users kept, if the release has a contribution bound and a total."""
        return self._terms.bought.kept

    @property
    def sampling(self) -> Sampling:
        """The sampling scheme of the keys."""
        return self._terms.sampling

    @property
    def grid(self) -> int | None:
        """The grid: tokens are multiples of 1/grid; None if there are no tokens."""
        return self._terms.grid

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return self._terms.keys

    @property
    def keys_only(self) -> bool:
        """Whether there are keys and no numbers."""
        return self._terms.keys_only

    @property
    def metadata(self) -> dict[str, Any]:
        """The terms and the number of rows, as a file states them."""
        return self._terms.to_json(len(self))

    def write(self, path: PathLike, force: bool = False, format: str | None = None) -> None:
        """Write the release, atomically: Parquet, or CSV or Arrow with a JSON sidecar."""
        if self._terms.made_for_tests:
            require_allowed("written")
        rows = Rows(self._table.to_batches(), self._table.schema)
        write_table(path, rows, self.metadata, force=force, format=format)

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        try:
            return self._table.to_pandas()
        except ImportError:
            raise _missing("pandas") from None

    def to_polars(self) -> Any:
        """Return the rows as a polars DataFrame."""
        try:
            import polars
        except ImportError:
            raise _missing("polars") from None
        return polars.from_arrow(self._table)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the rows by the Arrow C stream interface, which DuckDB, polars and pandas read."""
        return self._table.__arrow_c_stream__(requested_schema)

    def report(
        self,
        path: PathLike | None = None,
        *,
        force: bool = False,
        before: "Release | None" = None,
        **options: Unpack[PageOptions],
    ) -> Report:
        """Return a page that shows the release; with a `path`, which ends with .html, also write it.

        force   replace a file of this name
        before  an earlier release: the page shows which keys rose or fell since
        title   the title of the page; by default, the key columns
        about   what the data are; an empty line begins a new paragraph
        contact whom to ask; an address of mail or of the web becomes a link
        date    the day of publication, as YYYY-MM-DD; the page has no date unless it is stated
        name    the name of the release's file, for the commands that the page shows
        top     the number of keys in the top list
        prove   run the proof of its privacy, or do not

        >>> from dpsample.answers.example import release
        >>> release.report(title="Words", about="Words of a story.", date="2026-11-16", top=3)
        Report: a page of ... MB; write(path) puts it into a file
        """
        from dpsample.answers.changes import changes  # which imports this module

        check_options(options, PageOptions)
        if self._terms.made_for_tests:
            require_allowed("shown as a page")
            options["title"] = self._titled(options.get("title"))
            options["prove"] = False  # nothing of it is private
        setting = page_setting(**options)
        if path is not None:
            check_report(path, force)
        changed = None if before is None else changes(before, self)
        report = make_report(self, setting, changed)
        if path is not None:
            report.write(path, force=force)
        return report

    def plot(
        self,
        k: int = 20,
        where: Where = None,
        *,
        title: str | None = None,
        level: float = 0.95,
        attributes: Attributes = None,
    ) -> Plot:
        """Return a chart of the top k keys, with intervals, as SVG. Notebooks show it; its `write` makes a file.

        `title` is the title of the chart. The other arguments are those of `top`.

        >>> from dpsample.answers.example import release
        >>> release.plot(3)
        Plot: The top 3 of 6 reported keys; write(path) puts it into a file
        """
        top = self.top(k, where, level=level, attributes=attributes)
        if self._terms.made_for_tests:
            title = self._titled(title)
        return plot(top, self._terms, len(self), title)

    def _titled(self, title: str | None) -> str:
        """Return the title of a page or a chart of a release that was made for tests."""
        return f"NOT private, made for tests: {title or ', '.join(self.keys)}"

    @cached_property
    def evidence(self) -> Evidence:
        # with the first question: whoever makes or writes a release alone does not load what answers
        from dpsample.answers.by_kind import evidence_of

        return evidence_of(self._table, self._terms)

    def __len__(self) -> int:
        # without evidence, which takes long for some terms that a file may state
        return int(self._table.num_rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Release):
            return NotImplemented
        has_same_rows = bool(self._table.equals(other._table))
        return has_same_rows and self._terms == other._terms

    __hash__ = None  # type: ignore[assignment] # as for other containers

    def __repr__(self) -> str:
        number = len(self)
        plural = "" if number == 1 else "s"
        name = "Test release (NOT private)" if self._terms.made_for_tests else "Release"
        head = f"{name}: {number:,} key{plural}, {self._terms.kind.contents}"
        facts = self._terms.facts(number, visibility=False).about(*_TOPICS)
        lines = [f"  {fact.topic.value:9} {fact.brief}" for fact in facts]
        rows = table_lines(self._table, _FORMATS)
        return "\n".join([head, *lines, *rows])

    def _repr_html_(self) -> str:
        return display(self)


def read_release(path: PathLike, *, format: str | None = None) -> Release:
    """Read a release file, or a folder of parts, and check all of it.

    What is not private is refused: a sample; and a release that was made for tests, except within
    `dpsample.testing.allowed()`.
    """
    kind = "release"
    if are_allowed() and kind_of(path) == "test release":
        kind = "test release"
    table, metadata = read_table(path, kind, VERSION, format=format)
    terms = Terms.from_json(metadata)
    if table.num_rows != metadata.get("rows"):
        raise InvalidValue(
            "a release must have the number of rows that its metadata state",
            "get it again from where it was written",
        )
    if sorted(table.column_names) != sorted(terms.columns):
        expected = ", ".join(map(repr, terms.columns))
        present = ", ".join(map(repr, table.column_names))
        raise InvalidValue(
            f"a release has the columns {expected}, not {present}",
            "get it again from where it was written",
        )
    return Release(table, terms)


def write_release(
    path: PathLike,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    terms: Terms,
    *,
    force: bool = False,
    format: str | None = None,
) -> int:
    """Write a release from a stream of batches in key order, without holding it; return its number of rows.

    Batches have the columns `terms.columns`, or only the keys and tokens among them; `schema` states their types, also
    if there are no batches.
    """
    if terms.made_for_tests:
        require_allowed("written")
    given, schema = release_schema(schema, terms)
    terms.to_json(0)  # refuses a scheme that cannot be written before any work is done
    check = partial(checked_rows, terms=terms)
    rows = Rows(batches, schema, given, check)
    return write_table(path, rows, terms.to_json, force=force, format=format)


def _missing(package: str) -> InvalidValue:
    """Return the refusal of what needs a package that is not installed."""
    return not_installed(f"this needs {package}, which is not installed", package)
