"""`changes`: keys that rose or fell between two releases, or between two periods of as many releases.

A key is tested if it was reported at all. The difference of its frequencies has a confidence distribution, as their sum
has (`totals`). Releases that do not report the key are allowed what `unreported` allows. The p-value is the least level
at which the interval of the difference excludes 0. Coins of keys are independent, so that the procedure of Benjamini
and Hochberg keeps the rate of false discoveries among the keys that it lists.
"""

import html
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.exact import check_level, shown_number
from dpsample.periods.checks import check_comparable
from dpsample.periods.combined import Combined, KeyRows
from dpsample.periods.keys import cells_of, keys_of
from dpsample.periods.totals import Confidence, KeyTotals, Side, blocks, most_unreported
from dpsample.periods.unreported import SMALLEST, largest_unreported
from dpsample.presentation.tables import Formats, html_table, table_lines
from dpsample.questions.selection import Attributes, Selection, Where
from dpsample.release.release import Release
from dpsample.scheme.sampling import Floats, Ints

FDR = 0.05
_TAILS = np.geomspace(SMALLEST, 0.25, 160)  # where releases miss a key, p-values are rounded up to 4 times one of these
_NUMBERS = ("before", "after", "change", "low", "high")
COLUMNS = [*_NUMBERS, "p", "q", "direction"]  # after those of the keys; one that a key column has gets an underscore


@dataclass(frozen=True, eq=False, repr=False)
class Changes:
    """Keys that rose or fell, the largest certain changes first.

    table    key column(s); `before` and `after`, the estimates, null if no release reported the key; `change` and its
             interval `low` to `high`; `p`, `q` (the least rate of false discoveries at which the key is listed), and
             `direction`: rose, fell, new (not reported before) or vanished (not reported after)
    tested   how many keys were tested: those that were reported before or after
    fdr      the expected share of the listed keys that did not change is at most this
    level    the intervals of this share of the listed keys hold, in the mean
    """

    table: pa.Table
    tested: int
    fdr: float
    level: float
    notes: tuple[str, ...] = ()

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
        """Return the first rows, or all, as aligned text, then what they are about, and the notes."""
        return [*table_lines(self.table, _formats(), limit), *self.remarks()]

    def remarks(self) -> list[str]:
        """Return what the rows are about, in words."""
        about = (
            f"{len(self):,} of {self.tested:,} reported keys changed, at a rate of false discoveries of {self.fdr:g}"
        )
        return [about, f"intervals hold for {100 * self.level:g} % of the listed keys in the mean", *self.notes]

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        remarks = "".join(f"<p>{html.escape(line)}</p>" for line in self.remarks())
        return html_table(self.table, _formats()) + remarks


def changes(
    before: "Release | Combined",
    after: "Release | Combined",
    where: Where = None,
    *,
    fdr: float = FDR,
    level: float = 0.95,
    attributes: Attributes = None,
) -> Changes:
    """Find the keys whose frequency changed from one release to another, or between two combined ones.

    The null hypothesis is that a key has the same frequency before and after, so both have as many releases.

    where       the keys that are tested; as for `Release.sum`, with `attributes`
    fdr         the rate of false discoveries: the expected share of the listed keys that did not change
    level       the share of the listed keys whose intervals hold

    >>> from dpsample.release.example import release
    >>> tokens = release.table["token"].to_numpy() + [0, 0, 0, 3000, 0, 0]  # of dog
    >>> later = Release(pa.table({"word": list(release), "token": tokens}).slice(0, 5), release.terms)
    >>> changes(release, later).table.select(["word", "change", "direction"]).to_pylist()
    [{'word': 'dog', 'change': 3000.0, 'direction': 'rose'}, {'word': 'eel', 'change': None, 'direction': 'vanished'}]
    """
    sides = [_releases(before), _releases(after)]
    check_comparable([*sides[0], *sides[1]])
    level, fdr = check_level(level), _check_rate(fdr)
    if len(sides[0]) != len(sides[1]):
        raise InvalidValue(
            "before and after have as many releases",
            f"{len(sides[0]):,} and {len(sides[1]):,}",
            "combine as many on both sides",
        )
    keys, rows = keys_of([*sides[0], *sides[1]])
    [(places, _)] = Selection(
        KeyRows(keys, sides[0][0].keys, sides[0][0].terms), where, attributes=attributes
    ).weighted_rows()[1]
    keys, rows = keys.take(pa.array(places)), rows[places]
    tested = _Tested(sides, rows)
    p = tested.p_values()
    q = _adjusted(p)
    listed = np.flatnonzero(q <= fdr)
    among = 1 - (1 - level) * len(listed) / max(len(p), 1)
    low, high = tested.intervals(listed, among)
    order = np.argsort(-np.maximum(low, -high), kind="stable")
    listed, low, high = listed[order], low[order], high[order]
    table, values = keys.take(pa.array(listed)), [own[listed] for own in tested.values]
    new, vanished = (np.isnan(value) for value in values)
    direction = np.select([new, vanished, low > 0], ["new", "vanished", "rose"], "fell")
    numbers = (*values, values[1] - values[0], low, high, p[listed], q[listed])
    for name, column in zip(COLUMNS[:-1], numbers, strict=True):
        name = _free(name, table)
        table = table.append_column(
            name, pa.array(column, pa.float64(), from_pandas=name in ("before", "after", "change"))
        )
    table = table.append_column(_free("direction", table), pa.array(direction, pa.string()))
    return Changes(table, len(p), fdr, level, _notes(sides, level))


class _Tested:
    """The keys that are tested, and their tokens on both sides."""

    def __init__(self, sides: list[tuple[Release, ...]], rows: Ints) -> None:
        self.releases, n = sides, len(sides[0])
        parts = [rows[:, :n], rows[:, n:]]
        self.cells = [cells_of(own, part) for own, part in zip(sides, parts, strict=True)]
        self.values = []  # before and after; not a number if no release reported the key
        for own, part, cells in zip(sides, parts, self.cells, strict=True):
            values = KeyTotals(own, part, cells).values
            self.values.append(np.where(cells.any(1), values, np.nan))

    def _confidence(self, keys: Ints, upper: bool) -> Confidence:
        """The confidence distributions of after minus before, of the reported frequencies."""
        before, after = (cells[keys] for cells in self.cells)
        return Confidence([Side(self.releases[1], after), Side(self.releases[0], before, -1)], upper)

    def _missed(self, side: int, keys: Ints, probabilities: Floats) -> tuple[Floats, Any]:
        """The most elements in releases of a side that miss a key, [key, probability], and whether there are any."""
        missed = self.cells[side][keys] == 0
        return most_unreported(self.releases[side], missed, probabilities), missed.any(1)

    def _blocks(self, keys: Ints) -> Any:
        return (keys[part] for part in blocks(len(keys), self.releases))

    def p_values(self) -> Floats:
        """Return the p-value of each key: twice the smaller of those against a rise and a fall."""
        p = np.ones(len(self.cells[0]))
        for keys in self._blocks(np.arange(len(p))):
            lower, upper = self._confidence(keys, upper=False), self._confidence(keys, upper=True)
            rise = self._one_sided(keys, 0, lambda bound, law=lower: law.below(bound))
            fall = self._one_sided(keys, 1, lambda bound, law=upper: 1 - law.below(-bound))
            p[keys] = np.minimum(2 * np.minimum(rise, fall), 1.0)
        return np.maximum(p, SMALLEST)

    def _one_sided(self, keys: Ints, side: int, confidence: Any) -> Floats:
        """The p-value against a change that the releases of one side may hide. Half of it goes to what they miss."""
        bounds, missing = self._missed(side, keys, _TAILS)
        enough = confidence(bounds) <= _TAILS
        split = np.where(enough.any(1), 2 * _TAILS[np.argmax(enough, axis=1)], 1.0)
        return np.where(missing, split, confidence(np.zeros((len(keys), 1)))[:, 0])

    def intervals(self, keys: Ints, level: float) -> tuple[Floats, Floats]:
        """Return the ends of the intervals of the differences of some keys."""
        tail = (1 - level) / 2
        low, high = np.zeros((2, len(keys)))
        for part in self._blocks(np.arange(len(keys))):
            for side, upper in ((0, False), (1, True)):
                bounds, missing = self._missed(side, keys[part], np.array([tail / 2]))
                own, law = np.where(missing, tail / 2, tail), self._confidence(keys[part], upper)
                if upper:
                    high[part] = law.highest(own) + bounds[:, 0]
                else:
                    low[part] = law.lowest(own) - bounds[:, 0]
        return low, high


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
