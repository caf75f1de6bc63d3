"""Estimates: an answer of several rows, each with its error."""

import html
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Below, Estimate
from dpsample.exact import shown_number
from dpsample.presentation.tables import Formats, html_table, table_lines


@dataclass(frozen=True, eq=False, repr=False)
class Estimates:
    """One estimate for each group, key or quantile, in the order of the rows.

    >>> groups, numbers = pa.table({"city": ["Oslo", "Rome"]}), {"value": [90.5, 80.0], "standard_error": [0.5, 1.0]}
    >>> ends = {"low": [89.0, 78.0], "high": [92.0, 82.0], "below": [31.0, 27.5]}
    >>> answer = Estimates(groups, pa.table({**numbers, **ends}), 0.95, 14, at_least=16)
    >>> answer
    city    value  low  high  below
    'Oslo'  90.5   89   92    31
    'Rome'  80     78   82    27.5
    in keys of frequency 16 or more, with 95 % intervals
    below: about so much in rarer keys if the density of keys continues (not guaranteed)
    >>> answer["Rome"].value
    80.0
    """

    groups: pa.Table
    numbers: pa.Table
    level: float
    detection_threshold: int | None
    notes: tuple[str, ...] = field(default=())
    at_least: int | None = None  # the answer is about keys of this frequency or more

    def to_arrow(self) -> pa.Table:
        """Return one table; a column of numbers gets an underscore if a column of the groups has its name."""
        table = self.groups
        for name, column in zip(self.numbers.column_names, self.numbers.columns, strict=True):
            while name in table.column_names:
                name += "_"
            table = table.append_column(name, column)
        return table

    def to_pandas(self) -> Any:
        """Return the table as a pandas DataFrame."""
        try:
            return self.to_arrow().to_pandas()
        except ImportError:
            raise InvalidValue("this needs pandas", "that it is not installed", "run: pip install pandas") from None

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
        raise InvalidValue("a group is one of the answer's", repr(group), "iterate over the answer to see all")

    def _estimate(self, n: int) -> Estimate:
        numbers = {name: self.numbers[name][n].as_py() for name in self.numbers.column_names if name != "probability"}
        below = Below("extrapolated", numbers.pop("below")) if "below" in numbers else None
        return Estimate(
            **numbers,
            level=self.level,
            detection_threshold=self.detection_threshold,
            notes=self.notes,
            at_least=self.at_least,
            below=below,
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
    def _guaranteed(self) -> bool:
        names = self.numbers.column_names
        return "guaranteed" not in names or bool(pc.all(self.numbers["guaranteed"], min_count=0).as_py())

    def _shown(self) -> pa.Table:
        """The table, without what would say the same in each row, and without standard errors beside intervals."""
        hidden = {"standard_error", *(["guaranteed"] if self._guaranteed else [])}
        table, first = self.to_arrow(), self.groups.num_columns
        names = zip(self.numbers.column_names, table.column_names[first:], strict=True)
        return table.select([*table.column_names[:first], *(shown for name, shown in names if name not in hidden)])

    def _formats(self) -> Formats:
        names = self.to_arrow().column_names[self.groups.num_columns :]
        return {
            name: shown_number
            for name, field in zip(names, self.numbers.schema, strict=True)
            if pa.types.is_floating(field.type)
        }

    def _remarks(self) -> list[str]:
        intervals = f"{100 * self.level:g} % intervals{'' if self._guaranteed else ', not all guaranteed'}"
        if self.at_least is not None:
            intervals = f"in keys of frequency {self.at_least:,} or more, with {intervals}"
        if self.detection_threshold == 0:
            intervals += "; all of these keys are known, and reported"
        lines = [intervals, *self.notes]
        if "below" in self.numbers.column_names:
            lines.insert(1, "below: about so much in rarer keys if the density of keys continues (not guaranteed)")
        return lines


def about_each(keys: int) -> str:
    """What a table of single keys is about."""
    return "1 reported key" if keys == 1 else f"{keys:,} reported keys, each by itself"
