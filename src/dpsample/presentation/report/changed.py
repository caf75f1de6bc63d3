"""The section of a report that shows what changed since an earlier release: a table with a picture in each row."""

import math
from typing import Any

from dpsample.periods.changes import COLUMNS
from dpsample.presentation.pages import Markup, join, table, tag
from dpsample.presentation.report.content import FILE, Content
from dpsample.presentation.report.elements import again, claims, column_name, whole
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
    python = f"before = dpsample.read_release({content.before!r})", "print(dpsample.changes(before, release))"
    compute = again(content, python, ["changes", content.before, FILE])
    if not len(changes):
        return join([tag("p", f"None of {changes.tested:,} reported keys is known to have changed."), compute])
    rows = changes.table.slice(0, _ROWS)
    names = list(content.release.keys)
    keys = [readable(rows[name]) for name in names]
    listed = rows.drop_columns(names).rename_columns(COLUMNS).to_pylist()
    scale = _Scale([row[name] for row in listed for name in ("before", "after") if row[name] is not None])
    cells = [
        [
            *(tag("span", column[n], class_="key") for column in keys),
            _estimate(row["before"]),
            _estimate(row["after"]),
            f"{row['low']:+,.0f} to {row['high']:+,.0f}",
            row["direction"],
            _picture(row, scale),
        ]
        for n, row in enumerate(listed)
    ]
    shown = f", of {len(changes):,} that changed" if len(changes) > len(rows) else ""
    title = f"The {len(rows):,} keys with the largest certain changes{shown}"
    heads = [*map(printable, names), "before", "after", "change", "", f"{column_name(content)}, before to after"]
    right = [*(False for _ in names), True, True, True, False, False]
    of = f"{100 * changes.fdr:g} %"
    about = (
        f"The {content.terms.kind.estimated} of each key in an earlier release and in this one, and the interval of "
        "the change. What was counted is compared: ordinary variation from day to day counts as a change. Of "
        f"{changes.tested:,} reported keys, {len(changes):,} are listed as changed; at most {of} of the listed ones "
        "did not change, in the mean. In the picture, a ring is before, a dot is after, and the bar is where the "
        "change may end; the scale is logarithmic."
    )
    return join([tag("p", about), table(title, heads, cells, right, first=_FIRST), *claims(changes.notes), compute])


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
    start, end = row["before"], row["after"]
    here, there = (scale(value if value is not None else 0.0) for value in (start, end))
    fixed = end if start is None else start  # the change is drawn from a number that was reported
    low, high = sorted(scale(fixed + sign) for sign in _ends(row))
    line = tag("path", d=f"M{here} 9H{there}", stroke="currentColor", stroke_width="2", fill="none", opacity="0.55")
    bar = tag("path", d=f"M{low} 4V14M{low} 9H{high}M{high} 4V14", stroke="var(--ink)", stroke_width="1.5", fill="none")
    ring = tag("circle", cx=here, cy="9", r="4", fill="var(--ground)", stroke="currentColor", stroke_width="2")
    dot = tag("circle", cx=there, cy="9", r="4", fill="currentColor")
    marks = [line, bar, *([ring] if start is not None else []), *([dot] if end is not None else [])]
    return tag("svg", *marks, width=_WIDTH, height="18", aria_hidden="true", class_="range")


def _ends(row: dict[str, Any]) -> tuple[float, float]:
    """How far the ends of the interval are from the number that is drawn: after from before, or before from after."""
    return (-row["high"], -row["low"]) if row["before"] is None else (row["low"], row["high"])
