"""`changes`: keys that rose or fell between two releases, or between two periods of as many releases.

A key is tested if it was reported at all (`hypotheses`). Coins of keys are independent, so that the procedure of
Benjamini and Hochberg keeps the rate of false discoveries among the keys that it lists. What a false discovery is
depends on the hypothesis: as counted, a key that had exactly the same frequency; beyond chance, one that was as likely.
"""

import html
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dpsample.answers.combinable import check_comparable
from dpsample.answers.hypotheses import Hypothesis, Tested
from dpsample.answers.question import Attributes, Question, Where
from dpsample.answers.release import Release
from dpsample.answers.selection import Rows, Selection
from dpsample.answers.several import Combined, evidence_of_several
from dpsample.answers.several_keys import keys_of
from dpsample.answers.several_tokens import SeveralTokens
from dpsample.answers.several_unreported import largest_unreported
from dpsample.errors import InvalidValue
from dpsample.exact import shown_number
from dpsample.presentation.tables import Formats, html_table, table_lines
from dpsample.scheme.sampling import Floats

FDR = 0.05
_NUMBERS = ("before", "after", "change", "low", "high")
COLUMNS = [*_NUMBERS, "p", "q", "direction"]  # after those of the keys; one that a key column has gets an underscore


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

    def to_pandas(self) -> Any:
        """Return the table as a pandas DataFrame."""
        try:
            return self.table.to_pandas()
        except ImportError:
            raise InvalidValue("this needs pandas", "that it is not installed", "run: pip install pandas") from None

    def lines(self, limit: int | None = 10) -> list[str]:
        """Return what a change is, the first rows, or all, as aligned text, and then the remarks and notes."""
        return [self.about, *table_lines(self.table, _formats(), limit), *self.remarks()]

    def remarks(self) -> list[str]:
        """Return how many keys are listed, and what is claimed of them."""
        listed = (
            f"{len(self):,} of {self.tested:,} reported keys changed, at a rate of false discoveries of {self.fdr:g}"
        )
        return [listed, f"intervals hold for {100 * self.level:g} % of the listed keys in the mean", *self.notes]

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        remarks = "".join(f"<p>{html.escape(line)}</p>" for line in self.remarks())
        return f"<p>{html.escape(self.about)}</p>{html_table(self.table, _formats())}{remarks}"


def changes(
    before: "Release | Combined",
    after: "Release | Combined",
    where: Where = None,
    *,
    fdr: float = FDR,
    level: float = 0.95,
    attributes: Attributes = None,
    of: str = "frequency",
    beyond_chance: bool = False,
) -> Changes:
    """Find the keys whose frequency changed from one release to another, or between two combined ones.

    **What was counted is compared.** The null hypothesis is that a key has exactly the same frequency before and after,
    so that ordinary variation from day to day counts as a change. `beyond_chance` asks what people mostly mean.

    where       the keys that are tested; as for `Release.sum`, with `attributes`
    fdr         the rate of false discoveries: the expected share of the listed keys that did not change
    level       the share of the listed keys whose intervals hold
    of          "frequency"; or "share": of all elements. Then each release has a private total
    beyond_chance  list only changes beyond the variation of independent events that are as likely before and after
                (Poisson). Where one person or machine makes many elements of a key, counts vary more than that

    >>> from dpsample.answers.example import release
    >>> tokens = release.table["token"].to_numpy() + [0, 0, 0, 3000, 0, 0]  # of dog
    >>> later = Release(pa.table({"word": list(release), "token": tokens}).slice(0, 5), release.terms)
    >>> changes(release, later).table.select(["word", "change", "direction"]).to_pylist()
    [{'word': 'dog', 'change': 3000.0, 'direction': 'rose'}, {'word': 'eel', 'change': None, 'direction': 'vanished'}]
    """
    sides = [_releases(before), _releases(after)]
    check_comparable([*sides[0], *sides[1]])
    if any(not isinstance(evidence_of_several(side), SeveralTokens) for side in sides):
        raise InvalidValue("changes are of releases with tokens, without known keys", "compare each_key of both")
    hypothesis = Hypothesis.of((sides[0], sides[1]), of, beyond_chance)
    level, fdr = Question(level=level).level, _check_rate(fdr)
    if len(sides[0]) != len(sides[1]):
        raise InvalidValue(
            "before and after have as many releases",
            f"{len(sides[0]):,} and {len(sides[1]):,}",
            "combine as many on both sides",
        )
    keys, rows = keys_of([*sides[0], *sides[1]])
    [(places, _)] = Selection(Rows(keys), where, attributes=attributes).weighted_rows()[1]
    keys, rows = keys.take(pa.array(places)), rows[places]
    tested = Tested((sides[0], sides[1]), rows, hypothesis)
    p, sign = tested.p_values()
    q = _adjusted(p)
    listed = np.flatnonzero(q <= fdr)
    among = 1 - (1 - level) * len(listed) / max(len(p), 1)
    low, high = tested.intervals(listed, among)
    order = np.argsort(-np.maximum(low, -high), kind="stable")
    listed, low, high = listed[order], low[order], high[order]
    table, values = keys.take(pa.array(listed)), [own[listed] for own in tested.values]
    new, vanished = (np.isnan(value) for value in values)
    direction = np.select([new, vanished, sign[listed] > 0], ["new", "vanished", "rose"], "fell")
    if hypothesis.totals is not None:
        before_total, after_total = hypothesis.totals
        values = [values[0] / before_total, values[1] / after_total]
        low, high = low / after_total, high / after_total
    numbers = (*values, values[1] - values[0], low, high, p[listed], q[listed])
    for name, column in zip(COLUMNS[:-1], numbers, strict=True):
        name = _free(name, table)
        table = table.append_column(
            name, pa.array(column, pa.float64(), from_pandas=name in ("before", "after", "change"))
        )
    table = table.append_column(_free("direction", table), pa.array(direction, pa.string()))
    return Changes(table, len(p), fdr, level, _notes(sides, level), hypothesis.about)


def _releases(side: Any) -> tuple[Release, ...]:
    if isinstance(side, Combined):
        return side.releases
    return (side,)


def _check_rate(fdr: Any) -> float:
    if isinstance(fdr, bool) or not isinstance(fdr, int | float) or not 0 < fdr < 1:
        raise InvalidValue("a rate of false discoveries is between 0 and 1", repr(fdr), "choose one, such as 0.05")
    return float(fdr)


def _adjusted(p: Floats) -> Floats:
    """Return the least rate at which each key is listed (Benjamini and Hochberg)."""
    order = np.argsort(p)
    q = np.empty(len(p))
    raised = p[order] * len(p) / np.arange(1, len(p) + 1)
    q[order] = np.minimum.accumulate(raised[::-1])[::-1]
    return np.minimum(q, 1.0)


def _notes(sides: list[tuple[Release, ...]], level: float) -> tuple[str, ...]:
    """How few elements a new or vanished key probably had where it was not reported."""
    notes = []
    for name, releases in zip(("new: before, probably", "vanished: after, probably"), sides, strict=True):
        most = float(largest_unreported(releases, np.array([1 - level]))[0])
        if np.isfinite(most):
            notes.append(f"{name} below {most + 1:,.0f}")
    return tuple(notes)


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
