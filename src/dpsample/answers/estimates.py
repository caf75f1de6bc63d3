"""Estimates: an answer of several rows, each with its error."""

import html
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Below, Estimate, in_all_keys
from dpsample.estimators.reported import Reported
from dpsample.exact import shown_number
from dpsample.lazy import pc
from dpsample.presentation.tables import Formats, html_table, table_lines

_REPORTED = ("reported", "reported_low", "reported_high")


@dataclass(frozen=True, eq=False, repr=False)
class Estimates:
    """One estimate for each group, key or quantile, in the order of the rows.

    >>> groups, numbers = pa.table({"city": ["Oslo", "Rome"]}), {"value": [90.5, 80.0], "standard_error": [0.5, 1.0]}
    >>> ends = {"low": [89.0, 78.0], "high": [92.0, 82.0], "keys": [3, 2]}
    >>> shown = {"reported": [91.0, 79.0], "reported_low": [87.0, 70.0], "reported_high": [93.0, 81.5]}
    >>> answer = Estimates(groups, pa.table({**shown, **numbers, **ends}), 0.95, 14, at_least=16)
    >>> answer
    city    in reported keys  in all keys of frequency 16 or more  keys
    'Oslo'  91 (87 to 93)     90.5 (89 to 92)                      3
    'Rome'  79 (70 to 81.5)   80 (78 to 82)                        2
    with 95 % intervals
    >>> answer["Rome"].value
    80.0
    """

    groups: pa.Table
    numbers: pa.Table
    level: float
    detection_threshold: int | None
    notes: tuple[str, ...] = field(default=())
    at_least: int | None = None  # the answer is about keys of this frequency or more
    intervals: str = (
        ""  # of single keys: which intervals these are, `OF_EACH` or those `of_the_top` k
    )
    others: str = (
        ""  # of totals, what is said of all keys if that is no estimate (`Reported.others`)
    )

    def to_arrow(self) -> pa.Table:
        """Return one table; a column of numbers gets an underscore if a column of the groups has its name."""
        table = self.groups
        for name, column in zip(self.numbers.column_names, self.numbers.columns, strict=True):
            table = table.append_column(_free(name, table), column)
        return table

    def to_pandas(self) -> Any:
        """Return the table as a pandas DataFrame."""
        try:
            return self.to_arrow().to_pandas()
        except ImportError:
            raise InvalidValue(
                "this needs pandas, which is not installed", "run: pip install pandas"
            ) from None

    def __len__(self) -> int:
        return int(self.numbers.num_rows)

    def __iter__(self) -> Iterator[tuple[Any, Estimate]]:
        """Yield each group, a tuple if it has several columns, and its estimate."""
        columns = [column.to_pylist() for column in self.groups.columns]
        for n, group in enumerate(zip(*columns, strict=True)):
            yield group[0] if len(group) == 1 else group, self._estimate(n)

    def __getitem__(self, group: Any) -> Estimate:
        """Return the estimate of a group, a tuple if it has several columns."""
        wanted = (group,) if self.groups.num_columns == 1 else tuple(group)
        columns = [column.to_pylist() for column in self.groups.columns]
        for n, row in enumerate(zip(*columns, strict=True)):
            if row == wanted:
                return self._estimate(n)
        raise InvalidValue(
            f"the answer has no group {group!r}", "iterate over the answer to see all"
        )

    def _estimate(self, n: int) -> Estimate:
        numbers = {
            name: self.numbers[name][n].as_py()
            for name in self.numbers.column_names
            if name != "probability"
        }
        reported = None
        if "reported" in numbers:
            value, low, high = (numbers.pop(name) for name in _REPORTED)
            reported = Reported(value, math.nan, low, high, self.others)
        below = Below("extrapolated", numbers.pop("below")) if "below" in numbers else None
        return Estimate(
            **numbers,
            level=self.level,
            detection_threshold=self.detection_threshold,
            notes=self.notes,
            at_least=self.at_least,
            below=below,
            reported=reported,
        )

    def lines(self, limit: int | None = 10) -> list[str]:
        """Return the first rows, or all, as aligned text, then what they are about, and the notes."""
        return [*table_lines(self._shown(), self._formats(), limit), *self._remarks()]

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        remarks = "".join(f"<p>{html.escape(line)}</p>" for line in self._remarks())
        return html_table(self._shown(), self._formats()) + remarks

    @property
    def is_total(self) -> bool:
        """Whether these are totals, in reported keys and in all keys."""
        return "reported" in self.numbers.column_names

    @property
    def _guaranteed(self) -> bool:
        names = self.numbers.column_names
        return "guaranteed" not in names or bool(
            pc.all(self.numbers["guaranteed"], min_count=0).as_py()
        )

    def _shown(self) -> pa.Table:
        """The table, without what would say the same in each row, and without standard errors beside intervals."""
        hidden = {"standard_error", *(["guaranteed"] if self._guaranteed else [])}
        if self.is_total:
            return self._shown_totals(hidden | {*_REPORTED, "value", "low", "high"})
        table = self.groups
        for name, column in zip(self.numbers.column_names, self.numbers.columns, strict=True):
            if name in hidden:
                continue
            if self.intervals and name in ("low", "high"):
                name = f"{name} {self.intervals}"
            table = table.append_column(_free(name, table), column)
        return table

    def _shown_totals(self, hidden: set[str]) -> pa.Table:
        """Totals of groups: a column of what is in the reported keys, and one of what is in all keys."""
        parts = {"in reported keys": _REPORTED}
        if not self.others:
            parts[in_all_keys(self.at_least)] = ("value", "low", "high")
        table = self.groups
        for name, columns in parts.items():
            table = table.append_column(_free(name, table), self._with_intervals(columns))
        for name in self.numbers.column_names:
            if name not in hidden:
                table = table.append_column(_free(name, table), self.numbers[name])
        return table

    def _with_intervals(self, names: tuple[str, str, str]) -> pa.Array:
        value, low, high = (self.numbers[name].to_pylist() for name in names)
        rows = zip(value, low, high, strict=True)
        return pa.array(
            [f"{shown_number(v)} ({shown_number(a)} to {shown_number(b)})" for v, a, b in rows],
            pa.string(),
        )

    def _formats(self) -> Formats:
        """How numbers are written; the texts of totals are written as they are."""
        shown = self._shown()
        fields = list(shown.schema)[self.groups.num_columns :]
        formats: dict[str, Any] = {}
        for field_ in fields:
            if pa.types.is_floating(field_.type):
                formats[field_.name] = shown_number
            elif pa.types.is_string(field_.type):
                formats[field_.name] = str
        return formats

    def _remarks(self) -> list[str]:
        of = f" {self.intervals}" if self.intervals else ""
        intervals = f"{100 * self.level:g} % intervals{of}{'' if self._guaranteed else ', not all guaranteed'}"
        if self.is_total:
            intervals = f"with {intervals}"
        elif self.at_least is not None:
            intervals = f"in keys of frequency {self.at_least:,} or more, with {intervals}"
        if self.detection_threshold == 0:
            intervals += "; all of these keys are known, and reported"
        lines = [intervals, *self.notes]
        if self.is_total and self.others:
            lines.insert(1, f"in all keys: {self.others}")
        if "below" in self.numbers.column_names:
            lines.insert(1, "below: extrapolated amount in rarer keys (not guaranteed)")
        return lines


def _free(name: str, table: pa.Table) -> str:
    while name in table.column_names:
        name += "_"
    return name


OF_EACH = "of this key"


def of_the_top(k: int) -> str:
    """Say that intervals hold for the keys of a list together, and so are longer than that of each key.

    >>> of_the_top(10)
    'of the top 10 together'
    """
    return f"of the top {k:,} together"


def about_each(keys: int, called: str = "reported keys") -> str:
    """What a table of single keys is about."""
    return "1 reported key" if keys == 1 else f"{keys:,} {called}, each by itself"
