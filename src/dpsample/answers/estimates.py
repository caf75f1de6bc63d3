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
from dpsample.extras import not_installed
from dpsample.lazy import pc
from dpsample.presentation.tables import Formats, html_table, table_lines

# The columns of a value and its interval: in reported keys, and in all keys.
_REPORTED = ("reported", "reported_low", "reported_high")
_IN_ALL = ("value", "low", "high")


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
    # of single keys: which intervals these are, `OF_EACH` or those `of_the_top` k
    intervals: str = ""
    # of totals: what is said of all keys if that is no estimate (`Reported.others`)
    others: str = ""

    def to_arrow(self) -> pa.Table:
        """Return one table; a column of numbers gets an underscore if a column of the groups has its name."""
        table = self.groups
        for name in self.numbers.column_names:
            table = table.append_column(_free(name, table), self.numbers[name])
        return table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the table by the Arrow C stream interface, which DuckDB, polars and pandas read."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Return the table as a pandas DataFrame."""
        try:
            return self.to_arrow().to_pandas()
        except ImportError:
            raise not_installed("this needs pandas, which is not installed", "pandas") from None

    def __len__(self) -> int:
        return int(self.numbers.num_rows)

    def __iter__(self) -> Iterator[tuple[Any, Estimate]]:
        """Yield each group, a tuple if it has several columns, and its estimate."""
        for n, group in enumerate(self._groups()):
            yield group[0] if len(group) == 1 else group, self._estimate(n)

    def __getitem__(self, group: Any) -> Estimate:
        """Return the estimate of a group, a tuple if it has several columns."""
        wanted = (group,) if self.groups.num_columns == 1 else tuple(group)
        for n, values in enumerate(self._groups()):
            if values == wanted:
                return self._estimate(n)
        raise InvalidValue(
            f"the answer has no group {group!r}", "iterate over the answer to see all"
        )

    def _groups(self) -> Iterator[tuple[Any, ...]]:
        """Yield the values of each group."""
        columns = [column.to_pylist() for column in self.groups.columns]
        return zip(*columns, strict=True)

    def _estimate(self, n: int) -> Estimate:
        """The estimate of a row."""
        row = {name: self.numbers[name][n].as_py() for name in self.numbers.column_names}
        row.pop("probability", None)
        reported = None
        if self.is_total:
            value, low, high = (row.pop(name) for name in _REPORTED)
            reported = Reported(value, math.nan, low, high, self.others)
        below = Below("extrapolated", row.pop("below")) if "below" in row else None
        return Estimate(
            **row,
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
        table = html_table(self._shown(), self._formats())
        remarks = [f"<p>{html.escape(line)}</p>" for line in self._remarks()]
        return table + "".join(remarks)

    @property
    def is_total(self) -> bool:
        """Whether these are totals, in reported keys and in all keys."""
        return "reported" in self.numbers.column_names

    @property
    def _all_guaranteed(self) -> bool:
        if "guaranteed" not in self.numbers.column_names:
            return True
        return bool(pc.all(self.numbers["guaranteed"], min_count=0).as_py())

    def _shown(self) -> pa.Table:
        """The table, without what would say the same in each row, and without standard errors beside intervals."""
        hidden = {"standard_error"}
        if self._all_guaranteed:
            hidden.add("guaranteed")
        if self.is_total:
            return self._shown_totals(hidden)
        table = self.groups
        for name in self.numbers.column_names:
            if name in hidden:
                continue
            shown = name
            if self.intervals and name in ("low", "high"):
                shown = f"{name} {self.intervals}"
            table = table.append_column(_free(shown, table), self.numbers[name])
        return table

    def _shown_totals(self, hidden: set[str]) -> pa.Table:
        """Totals of groups: a column of what is in the reported keys, and one of what is in all keys."""
        parts = {"in reported keys": _REPORTED}
        if not self.others:
            parts[in_all_keys(self.at_least)] = _IN_ALL
        table = self.groups
        for name, columns in parts.items():
            table = table.append_column(_free(name, table), self._with_intervals(columns))
        hidden = hidden.union(_REPORTED, _IN_ALL)
        for name in self.numbers.column_names:
            if name not in hidden:
                table = table.append_column(_free(name, table), self.numbers[name])
        return table

    def _with_intervals(self, names: tuple[str, str, str]) -> pa.Array:
        """Values with their intervals, as text: from the columns of values, lower ends and upper ends."""
        columns = [self.numbers[name].to_pylist() for name in names]
        texts = []
        for value, low, high in zip(*columns, strict=True):
            texts.append(f"{shown_number(value)} ({shown_number(low)} to {shown_number(high)})")
        return pa.array(texts, pa.string())

    def _formats(self) -> Formats:
        """How numbers are written; the texts of totals are written as they are."""
        shown = self._shown()
        formats: dict[str, Any] = {}
        for column in list(shown.schema)[self.groups.num_columns :]:
            if pa.types.is_floating(column.type):
                formats[column.name] = shown_number
            elif pa.types.is_string(column.type):
                formats[column.name] = str
        return formats

    def _remarks(self) -> list[str]:
        """What the intervals are, what the answer is about, and the notes."""
        of = f" {self.intervals}" if self.intervals else ""
        intervals = f"{100 * self.level:g} % intervals{of}"
        if not self._all_guaranteed:
            intervals += ", not all guaranteed"
        if self.is_total:
            intervals = f"with {intervals}"
        elif self.at_least is not None:
            intervals = f"in keys of frequency {self.at_least:,} or more, with {intervals}"
        if self.detection_threshold == 0:
            intervals += "; all of these keys are known, and reported"
        lines = [intervals]
        if "below" in self.numbers.column_names:
            lines.append("below: extrapolated amount in rarer keys (not guaranteed)")
        if self.is_total and self.others:
            lines.append(f"in all keys: {self.others}")
        return [*lines, *self.notes]


def _free(name: str, table: pa.Table) -> str:
    """Return a name that no column has: this one, or with underscores."""
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
    """Return what a table of single keys is about."""
    return "1 reported key" if keys == 1 else f"{keys:,} {called}, each by itself"
