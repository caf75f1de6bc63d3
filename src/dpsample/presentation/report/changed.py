"""The section of a report that shows what changed since an earlier release: a table with a picture in each row."""

import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from dpsample.answers.changes import COLUMNS, Changes
from dpsample.presentation.pages import Markup, join, table, tag
from dpsample.presentation.report.content import FILE, Content
from dpsample.presentation.report.elements import (
    again,
    claims,
    column_name,
    interval_mark,
    key_cells,
    range_picture,
    whole,
)
from dpsample.presentation.tables import printable, readable

_ROWS = 40  # keys that are shown
_FIRST = 15  # of these, while the list is folded
_WIDTH = 220  # of a picture
_LOWEST = 8.0  # frequency at the left end, if no number is lower


def changed_section(content: Content) -> Markup | None:
    """Return the keys that rose or fell; None if there is no earlier release."""
    changes = content.changes
    if changes is None:
        return None
    python = (
        f"before = dpsample.read_release({content.before!r})",
        "print(dpsample.changes(before, release))",
    )
    compute = again(content, python, ["changes", content.before, FILE])
    if not len(changes):
        return join(
            [
                tag("p", f"None of {changes.tested:,} reported keys is known to have changed."),
                compute,
            ]
        )
    shown = min(len(changes), _ROWS)
    some = f", of {len(changes):,} that changed" if len(changes) > shown else ""
    title = f"The {shown:,} keys with the largest certain changes{some}"
    names = list(content.release.keys)
    heads = [
        *map(printable, names),
        "before",
        "after",
        "change",
        "",
        f"{column_name(content)}, before to after",
    ]
    right = [*(False for _ in names), True, True, True, False, False]
    listed = table(title, heads, list(_rows(changes, names)), right, first=_FIRST)
    of = f"{100 * changes.fdr:g} %"
    about = (
        f"The {content.terms.kind.estimated} of each key in an earlier release and in this one, and the interval of "
        "the change. What was counted is compared: ordinary variation from day to day counts as a change. Of "
        f"{changes.tested:,} reported keys, {len(changes):,} are listed as changed; at most {of} of the listed ones "
        "did not change, in the mean. In the picture, a ring is before, a dot is after, and the bar is where the "
        "change may end; the scale is logarithmic."
    )
    return join([tag("p", about), listed, *claims(changes.notes), compute])


def _rows(changes: Changes, names: list[str]) -> Iterator[list[object]]:
    """Yield the rows of the table: a key, its two estimates, the change, and a picture of it."""
    listed = changes.table.slice(0, _ROWS)
    columns = [readable(listed[name]) for name in names]
    numbers = listed.drop_columns(names).rename_columns(COLUMNS)
    scale = _Scale([*_reported(numbers["before"]), *_reported(numbers["after"])])
    for n, row in enumerate(numbers.to_pylist()):
        before = _estimate(row["before"])
        after = _estimate(row["after"])
        low, high = row["low"], row["high"]
        change = f"{low:+,.0f} to {high:+,.0f}"
        picture = _picture(row, scale)
        yield [*key_cells(columns, n), before, after, change, row["direction"], picture]


def _reported(column: pa.ChunkedArray) -> list[float]:
    """Return the estimates of reported keys."""
    numbers: list[float] = column.drop_null().to_pylist()
    return numbers


def _estimate(value: float | None) -> str:
    return "not reported" if value is None else whole(value)


class _Scale:
    """Places of frequencies in a picture, logarithmic."""

    def __init__(self, values: list[float]) -> None:
        self.low = max(min([_LOWEST, *values]), 1.0)
        self.span = math.log(max([*values, 2 * self.low]) * 1.3 / self.low)

    def __call__(self, value: float) -> float:
        place = math.log(max(value, self.low) / self.low) / self.span
        return round(8 + (_WIDTH - 16) * min(place, 1.0), 2)


def _picture(row: dict[str, Any], scale: _Scale) -> Markup:
    """A ring for before, a dot for after, and the interval of the change as a bar; screen readers have the numbers."""
    before, after = row["before"], row["after"]
    start, end = scale(before or 0.0), scale(after or 0.0)
    fixed = (
        after if before is None else before
    )  # the change is drawn from a number that was reported
    low, high = sorted(scale(fixed + change) for change in _ends(row))

    line = {"stroke": "currentColor", "stroke_width": "2", "fill": "none", "opacity": "0.55"}
    marks = [tag("path", d=f"M{start} 9H{end}", **line)]
    marks.append(interval_mark(low, high, middle=9, half=5))
    if before is not None:
        ring = {"fill": "var(--ground)", "stroke": "currentColor", "stroke_width": "2"}
        marks.append(tag("circle", cx=start, cy="9", r="4", **ring))
    if after is not None:
        marks.append(tag("circle", cx=end, cy="9", r="4", fill="currentColor"))
    return range_picture(*marks, width=_WIDTH, height=18)


def _ends(row: dict[str, Any]) -> tuple[float, float]:
    """How far the ends of the interval are from the number that is drawn: after from before, or before from after."""
    return (-row["high"], -row["low"]) if row["before"] is None else (row["low"], row["high"])
