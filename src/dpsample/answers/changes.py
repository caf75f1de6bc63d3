"""`changes`: keys that rose or fell between two releases, or between two periods of as many releases.

A key is tested if it was reported at all (`hypotheses`). Coins of keys are independent, so that the procedure of
Benjamini and Hochberg keeps the rate of false discoveries among the keys that it lists. What a false discovery is
depends on the hypothesis: as counted, a key that had exactly the same frequency; beyond chance, one that was as likely.
"""

import html
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
import pyarrow as pa

from dpsample.answers.combinable import check_comparable
from dpsample.answers.compared import Sides, compared
from dpsample.answers.evidence import level_among
from dpsample.answers.hypotheses import Hypothesis, Sizes, Tested
from dpsample.answers.question import Attributes, Question, Where, check_options
from dpsample.answers.release import Release
from dpsample.answers.selection import Rows, Selection
from dpsample.answers.several import Combined, releases_of
from dpsample.answers.several_evidence import USER_DAYS
from dpsample.answers.several_keys import keys_of
from dpsample.answers.several_unreported import largest_unreported
from dpsample.answers.unreported import Silence
from dpsample.errors import InvalidValue
from dpsample.estimators.reported import Bools
from dpsample.exact import shown_number
from dpsample.extras import not_installed
from dpsample.presentation.tables import Formats, html_table, table_lines
from dpsample.scheme.sampling import Floats

FDR = 0.05
_NUMBERS = ("before", "after", "change", "low", "high")
# The columns after those of the keys. One that a key column has gets an underscore.
COLUMNS = [*_NUMBERS, "p", "q", "direction"]


@dataclass(frozen=True, eq=False, repr=False)
class Changes:
    """Keys that rose or fell, the largest certain changes first.

    table    key column(s); `before` and `after`, the estimates, null if no release reported the key; `change` and its
             interval `low` to `high`; `p` (of two sides), `q` (the least rate of false discoveries at which the key is
             listed), and `direction`: rose, fell, new (not reported before) or vanished (not reported after). Of
             shares, numbers are shares of all elements
    tested   how many keys were tested: those that were reported before or after
    fdr      the expected share of the listed keys that did not change is at most this
    level    the intervals of this share of the listed keys hold, in the mean
    about    what a change is: of what was counted or of shares, beyond chance or not
    """

    table: pa.Table
    tested: int
    fdr: float
    level: float
    notes: tuple[str, ...] = ()
    about: str = ""

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def to_arrow(self) -> pa.Table:
        """Return the table."""
        return self.table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the table by the Arrow C stream interface, which DuckDB, polars and pandas read."""
        return self.table.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Return the table as a pandas DataFrame."""
        try:
            return self.table.to_pandas()
        except ImportError:
            raise not_installed("this needs pandas, which is not installed", "pandas") from None

    def lines(self, limit: int | None = 10) -> list[str]:
        """Return what a change is, the first rows, or all, as aligned text, and then the remarks and notes."""
        rows = table_lines(self.table, _formats(), limit)
        return [self.about, *rows, *self.remarks()]

    def remarks(self) -> list[str]:
        """Return how many keys are listed, and what is claimed of them."""
        changed = f"{len(self):,} of {self.tested:,} reported keys changed"
        listed = f"{changed}, at a rate of false discoveries of {self.fdr:g}"
        intervals = f"intervals hold for {100 * self.level:g} % of the listed keys in the mean"
        return [listed, intervals, *self.notes]

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        table = html_table(self.table, _formats())
        about = f"<p>{html.escape(self.about)}</p>"
        remarks = [f"<p>{html.escape(line)}</p>" for line in self.remarks()]
        return about + table + "".join(remarks)


class ChangesOptions(TypedDict, total=False):
    """The options of `changes`."""

    fdr: float
    level: float
    attributes: Attributes
    of: str
    beyond_chance: bool
    lengths: tuple[float, float] | None


def changes(
    before: "Release | Combined",
    after: "Release | Combined",
    where: Where = None,
    **options: Unpack[ChangesOptions],
) -> Changes:
    """Find the keys whose frequency changed from one release to another, or between two combined ones.

    **What was counted is compared.** The null hypothesis is that a key has exactly the same frequency before and after,
    so that ordinary variation from day to day counts as a change. `beyond_chance` asks what people mostly mean. If the
    two sides have different numbers of releases, or `lengths` are stated, rates are compared.

    where       the keys that are tested; as for `Release.sum`, with `attributes`
    fdr         the rate of false discoveries: the expected share of the listed keys that did not change
    level       the share of the listed keys whose intervals hold
    of          "frequency"; or "share": of all elements. Then each release has a private total
    beyond_chance  list only changes beyond the variation of independent events that are as likely before and after
                (Poisson). Where one person or machine makes many elements of a key, counts vary more than that
    lengths     how long before and after are, such as (7, 30) days; numbers are then those of one day. By default, the
                numbers of releases

    >>> from dpsample.answers.example import release
    >>> tokens = release.table["token"].to_numpy() + [0, 0, 0, 3000, 0, 0]  # of dog
    >>> later = Release(pa.table({"word": list(release), "token": tokens}).slice(0, 5), release.terms)
    >>> changes(release, later).table.select(["word", "change", "direction"]).to_pylist()
    [{'word': 'dog', 'change': 3000.0, 'direction': 'rose'}, {'word': 'eel', 'change': None, 'direction': 'vanished'}]
    """
    check_options(options, ChangesOptions)
    sides = Sides(releases_of(before), releases_of(after))
    check_comparable(sides.all)
    hypothesis = Hypothesis.to_test(
        sides,
        of=options.get("of", "frequency"),
        beyond_chance=options.get("beyond_chance", False),
        lengths=options.get("lengths"),
    )
    level = options.get("level", 0.95)
    question = Question(where=where, level=level, attributes=options.get("attributes"))
    fdr = _check_rate(options.get("fdr", FDR))

    keys, tested = _tested(sides, question, hypothesis)
    found = tested.p_values()
    q = adjusted(found.p)
    listed = np.flatnonzero(q <= fdr)
    # intervals of chosen keys hold in the mean if they have the level of Benjamini and Yekutieli (2005)
    number_tested = len(q)
    rivals = max(number_tested, 1)
    among = level_among(question.level, len(listed), rivals)
    low, high = tested.intervals(listed, among)

    certain_change = np.maximum(low, -high)
    order = np.argsort(-certain_change, kind="stable")
    listed = listed[order]
    numbers = _Listed(
        before=tested.before[listed],
        after=tested.after[listed],
        low=low[order],
        high=high[order],
        p=found.p[listed],
        q=q[listed],
    )
    numbers = numbers.divided(hypothesis.sizes)
    listed_keys = keys.take(pa.array(listed))
    table = numbers.appended_to(listed_keys, found.rises[listed])
    notes = _notes(sides, question.level)
    return Changes(table, number_tested, fdr, question.level, notes, hypothesis.about)


def _tested(sides: Sides, question: Question, hypothesis: Hypothesis) -> tuple[pa.Table, Tested]:
    """Return the keys that a question selects among those that any release reports, and what is known of each."""
    keys, places = keys_of(sides.all)
    _, [(rows, _)] = Selection.of(Rows(keys), question).weighted_rows()
    selected = keys.take(pa.array(rows))
    both_sides = compared(sides, selected, places[rows])
    return selected, Tested(both_sides, hypothesis)


class _Listed(NamedTuple):
    """The numbers of the listed keys. `before` and `after` are not numbers where no release reported the key."""

    before: Floats
    after: Floats
    low: Floats
    high: Floats
    p: Floats
    q: Floats

    def divided(self, sizes: Sizes | None) -> "_Listed":
        """Return rates or shares. The interval is that of after less `sizes.ratio` times before."""
        if sizes is None:
            return self
        return self._replace(
            before=self.before / sizes.before,
            after=self.after / sizes.after,
            low=self.low / sizes.after,
            high=self.high / sizes.after,
        )

    def appended_to(self, keys: pa.Table, rises: Bools) -> pa.Table:
        """Return the table of changes: keys, numbers, and which of the keys rose."""
        numbers = {**self._asdict(), "change": self.after - self.before}
        table = keys
        for name in COLUMNS[:-1]:
            may_be_unknown = name in ("before", "after", "change")
            column = pa.array(numbers[name], pa.float64(), from_pandas=may_be_unknown)
            table = table.append_column(_free(name, table), column)
        is_new = np.isnan(self.before)
        has_vanished = np.isnan(self.after)
        cases = [is_new, has_vanished, rises]
        directions = np.select(cases, ["new", "vanished", "rose"], "fell")
        column = pa.array(directions, pa.string())
        return table.append_column(_free("direction", table), column)


def _check_rate(fdr: Any) -> float:
    is_number = isinstance(fdr, int | float) and not isinstance(fdr, bool)
    if not is_number or not 0 < fdr < 1:
        raise InvalidValue(f"fdr must be between 0 and 1, not {fdr!r}", "choose one, such as 0.05")
    return float(fdr)


def adjusted(p: Floats) -> Floats:
    """Return the least rate of false discoveries at which each key is listed (Benjamini and Hochberg).

    >>> adjusted(np.array([0.04, 0.01, 0.03]))
    array([0.04, 0.03, 0.04])
    """
    order = np.argsort(p)
    places = np.arange(1, len(p) + 1)
    raised = p[order] * len(p) / places
    descending = raised[::-1]
    least_so_far = np.minimum.accumulate(descending)
    q = np.empty(len(p))
    q[order] = least_so_far[::-1]
    return np.minimum(q, 1.0)


def _notes(sides: Sides, level: float) -> tuple[str, ...]:
    """Return how few elements a new or vanished key probably had where it was not reported, and what users are."""
    notes = _note_of_missed("new: before, probably", sides.before, level)
    notes += _note_of_missed("vanished: after, probably", sides.after, level)
    several = any(len(side) > 1 for side in sides)
    if several and sides.before[0].unit == "user":
        notes.append(USER_DAYS)
    return tuple(notes)


def _note_of_missed(name: str, releases: tuple[Release, ...], level: float) -> list[str]:
    """Return the note on keys that these releases do not report, if anything is known of them."""
    silences = [Silence.of(release.terms) for release in releases]
    if any(silence.only_listed for silence in silences):
        return []
    missed = np.array([1 - level])
    [most] = largest_unreported(releases, missed).tolist()
    if not math.isfinite(most):
        return []
    gave = ", if all of its users gave it" if silences[0].discovered else ""
    return [f"{name} below {most + 1:,.0f}{gave}"]


def _free(name: str, table: pa.Table) -> str:
    """Return a name that no column has: this one, or with underscores."""
    while name in table.column_names:
        name += "_"
    return name


def _shown(value: float | None) -> str:
    return "" if value is None else shown_number(value)


def _formats() -> Formats:
    formats: dict[str, Callable[[Any], str]] = {"direction": str}
    formats |= dict.fromkeys(_NUMBERS, _shown)
    formats |= dict.fromkeys(("p", "q"), "{:.2g}".format)
    return formats
