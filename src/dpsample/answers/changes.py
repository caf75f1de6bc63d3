"""`changes`: keys that rose or fell between two releases, or between two periods of as many releases.

A key is tested if it was reported at all (`hypotheses`). Coins of keys are independent, so that the procedure of
Benjamini and Hochberg keeps the rate of false discoveries among the keys that it lists. What a false discovery is
depends on the hypothesis: as counted, a key that had exactly the same frequency; beyond chance, one that was as likely.
"""

import html
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
import pyarrow as pa

from dpsample.answers.combinable import check_comparable
from dpsample.answers.compared import Sides, compared
from dpsample.answers.hypotheses import Hypothesis, Sizes, Tested
from dpsample.answers.question import Attributes, Question, Where, check_options
from dpsample.answers.release import Release
from dpsample.answers.selection import Rows, Selection
from dpsample.answers.several import Combined
from dpsample.answers.several_keys import keys_of
from dpsample.answers.several_parts import USER_DAYS
from dpsample.answers.several_unreported import largest_unreported
from dpsample.errors import InvalidValue
from dpsample.estimators.reported import Bools
from dpsample.exact import shown_number
from dpsample.presentation.tables import Formats, html_table, table_lines
from dpsample.scheme.sampling import Floats

FDR = 0.05
_NUMBERS = ("before", "after", "change", "low", "high")
COLUMNS = [
    *_NUMBERS,
    "p",
    "q",
    "direction",
]  # after those of the keys; one that a key column has gets an underscore


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
            raise InvalidValue(
                "this needs pandas", "that it is not installed", "run: pip install pandas"
            ) from None

    def lines(self, limit: int | None = 10) -> list[str]:
        """Return what a change is, the first rows, or all, as aligned text, and then the remarks and notes."""
        return [self.about, *table_lines(self.table, _formats(), limit), *self.remarks()]

    def remarks(self) -> list[str]:
        """Return how many keys are listed, and what is claimed of them."""
        listed = f"{len(self):,} of {self.tested:,} reported keys changed"
        rate = f"at a rate of false discoveries of {self.fdr:g}"
        return [
            f"{listed}, {rate}",
            f"intervals hold for {100 * self.level:g} % of the listed keys in the mean",
            *self.notes,
        ]

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        remarks = "".join(f"<p>{html.escape(line)}</p>" for line in self.remarks())
        return f"<p>{html.escape(self.about)}</p>{html_table(self.table, _formats())}{remarks}"


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
    sides = _releases(before), _releases(after)
    check_comparable([*sides[0], *sides[1]])
    beyond_chance, of = options.get("beyond_chance", False), options.get("of", "frequency")
    hypothesis = Hypothesis.to_test(sides, of, beyond_chance, options.get("lengths"))
    question = Question(
        where=where, level=options.get("level", 0.95), attributes=options.get("attributes")
    )
    fdr = _check_rate(options.get("fdr", FDR))

    keys, rows = keys_of([*sides[0], *sides[1]])
    [(places, _)] = Selection.of(Rows(keys), question).weighted_rows()[1]
    keys, rows = keys.take(pa.array(places)), rows[places]
    tested = Tested(compared(sides, keys, rows), hypothesis)
    p, sign = tested.p_values()
    q = _adjusted(p)
    listed = np.flatnonzero(q <= fdr)
    among = 1 - (1 - question.level) * len(listed) / max(len(p), 1)
    low, high = tested.intervals(listed, among)
    order = np.argsort(-np.maximum(low, -high), kind="stable")
    listed, low, high = listed[order], low[order], high[order]

    numbers_before, numbers_after = (values[listed] for values in tested.values)
    numbers = _Listed(numbers_before, numbers_after, low, high, p[listed], q[listed]).divided(
        hypothesis.sizes
    )
    table = numbers.appended_to(keys.take(pa.array(listed)), rose=sign[listed] > 0)
    return Changes(
        table, len(p), fdr, question.level, _notes(sides, question.level), hypothesis.about
    )


class _Listed(NamedTuple):
    """The numbers of the listed keys. `before` and `after` are not numbers where no release reported the key."""

    before: Floats
    after: Floats
    low: Floats
    high: Floats
    p: Floats
    q: Floats

    def divided(self, sizes: Sizes | None) -> "_Listed":
        """Return rates or shares."""
        if sizes is None:
            return self
        before, after = self.before / sizes.before, self.after / sizes.after
        return self._replace(
            before=before, after=after, low=self.low / sizes.after, high=self.high / sizes.after
        )

    def appended_to(self, keys: pa.Table, rose: Bools) -> pa.Table:
        """Return the table of changes."""
        new, vanished = np.isnan(self.before), np.isnan(self.after)
        directions = np.select([new, vanished, rose], ["new", "vanished", "rose"], "fell")
        numbers = {**self._asdict(), "change": self.after - self.before}
        table = keys
        for name in COLUMNS[:-1]:
            unknown = name in ("before", "after", "change")
            column = pa.array(numbers[name], pa.float64(), from_pandas=unknown)
            table = table.append_column(_free(name, table), column)
        return table.append_column(_free("direction", table), pa.array(directions, pa.string()))


def _releases(side: Any) -> tuple[Release, ...]:
    if isinstance(side, Combined):
        return side.releases
    return (side,)


def _check_rate(fdr: Any) -> float:
    if isinstance(fdr, bool) or not isinstance(fdr, int | float) or not 0 < fdr < 1:
        raise InvalidValue(f"fdr must be between 0 and 1, not {fdr!r}", "choose one, such as 0.05")
    return float(fdr)


def _adjusted(p: Floats) -> Floats:
    """Return the least rate at which each key is listed (Benjamini and Hochberg)."""
    order = np.argsort(p)
    q = np.empty(len(p))
    raised = p[order] * len(p) / np.arange(1, len(p) + 1)
    q[order] = np.minimum.accumulate(raised[::-1])[::-1]
    return np.minimum(q, 1.0)


def _notes(sides: Sides, level: float) -> tuple[str, ...]:
    """How few elements a new or vanished key probably had where it was not reported, and what users are."""
    notes = []
    for name, releases in zip(
        ("new: before, probably", "vanished: after, probably"), sides, strict=True
    ):
        most = float(largest_unreported(releases, np.array([1 - level]))[0])
        lists_only = any(
            release.terms.known is not None and release.terms.known.only for release in releases
        )
        if np.isfinite(most) and not lists_only:
            gave = (
                ", if all of its users gave it" if releases[0].terms.discovery is not None else ""
            )
            notes.append(f"{name} below {most + 1:,.0f}{gave}")
    several = any(len(side) > 1 for side in sides)
    return (*notes, USER_DAYS) if several and sides[0][0].unit == "user" else tuple(notes)


def _free(name: str, table: pa.Table) -> str:
    while name in table.column_names:
        name += "_"
    return name


def _formats() -> Formats:
    return {
        **dict.fromkeys(_NUMBERS, lambda value: "" if value is None else shown_number(value)),
        **dict.fromkeys(("p", "q"), "{:.2g}".format),
        "direction": str,
    }
