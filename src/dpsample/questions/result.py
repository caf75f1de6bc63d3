"""Estimates: an answer of several rows, each with its error."""

import html
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate
from dpsample.exact import shown_number
from dpsample.presentation.tables import Formats, html_table, table_lines


@dataclass(frozen=True, eq=False, repr=False)
class Estimates:
    """One estimate for each group, key or quantile, in the order of the rows.

    >>> groups, numbers = pa.table({"city": ["Oslo", "Rome"]}), {"value": [9.5, 8.0], "standard_error": [0.5, 1.0]}
    >>> answer = Estimates(groups, pa.table({**numbers, "low": [8.5, 6.0], "high": [10.5, 10.0]}), 0.95, 14)
    >>> answer
    city    value  standard_error  low  high
    'Oslo'  9.5    0.5             8.5  10.5
    'Rome'  8      1               6    10
    95 % intervals; below frequency 14 keys are unlikely to be reported
    >>> answer["Rome"].value
    8.0
    """

    groups: pa.Table
    numbers: pa.Table
    level: float
    detection_threshold: int | None
    notes: tuple[str, ...] = field(default=())

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
        return Estimate(**numbers, level=self.level, detection_threshold=self.detection_threshold, notes=self.notes)

    def lines(self, limit: int | None = 10) -> list[str]:
        """Return the first rows, or all, as aligned text, then the level, the detection threshold and the notes."""
        return [*table_lines(self.to_arrow(), self._formats(), limit), *self._remarks()]

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        remarks = "".join(f"<p>{html.escape(line)}</p>" for line in self._remarks())
        return html_table(self.to_arrow(), self._formats()) + remarks

    def _formats(self) -> Formats:
        names = self.to_arrow().column_names[self.groups.num_columns :]
        return {
            name: shown_number
            for name, field in zip(names, self.numbers.schema, strict=True)
            if pa.types.is_floating(field.type)
        }

    def _remarks(self) -> list[str]:
        guaranteed = (
            "guaranteed" not in self.numbers.column_names or pc.all(self.numbers["guaranteed"], min_count=0).as_py()
        )
        detection = (
            "no key is likely to be reported"
            if self.detection_threshold is None
            else "all of these keys are known, and reported"
            if self.detection_threshold == 0
            else f"below frequency {self.detection_threshold:,} keys are unlikely to be reported"
        )
        level = f"{100 * self.level:g} % intervals{'' if guaranteed else ', not all guaranteed'}"
        return [f"{level}; {detection}", *self.notes]
