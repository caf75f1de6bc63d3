"""The section of a report that shows what changed since an earlier release: a chart and a table."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from dpsample.presentation.asked import Changed
from dpsample.presentation.charts import Caption, Change, RowChart
from dpsample.presentation.markup import Markup, join, tag
from dpsample.presentation.numbers import whole
from dpsample.presentation.pages import figure, table
from dpsample.presentation.report.content import FILE, Content
from dpsample.presentation.report.elements import again, claims, folded, key_cells
from dpsample.presentation.tables import key_texts, printable, readable

# the columns after those of the keys; one that has the name of a key column has an underscore in the table
_COLUMNS = ["before", "after", "change", "low", "high", "p", "q", "direction"]
_DRAWN = 12  # keys of the chart: they fit on a screen
_ROWS = 40  # keys of the table: further ones changed less
_FIRST = 15  # of these, while the table is folded
# A key that was not reported is drawn at the left end of the chart, which is then at this frequency or lower. Its own
# frequency is unknown.
_LOWEST = 8.0
_HEADS = ["before", "after", "change", "direction"]


def changed_section(content: Content) -> Markup | None:
    """Return the keys that rose or fell; None if there is no earlier release."""
    changes = content.changes
    if changes is None:
        return None
    before = content.setting.before_file
    python = (
        f"before = dpsample.read_release({before!r})",
        "print(dpsample.changes(before, release))",
    )
    compute = again(content, python, ["changes", before, FILE])
    terms = content.terms
    shown = changes_shown(changes, terms.keys, terms.kind.estimated)
    return join([shown, compute])


def changes_shown(changes: Changed, keys: Sequence[str], estimated: str) -> Markup:
    """Return the chart and the table of changes; `estimated` names what is compared."""
    if not len(changes):
        return tag("p", f"None of {changes.tested:,} reported keys is known to have changed.")
    rows = _rows_of(changes, keys)
    marks = _marks(rows)
    chart = RowChart(_caption(changes, rows, estimated), marks, log_from=_log_from(marks))
    counted = (
        "What was counted is compared: ordinary variation from day to day counts as a change. "
        f"At most {100 * changes.fdr:g} % of the listed keys did not change, in the mean."
    )
    about = tag("p", counted, class_="quiet")
    listed = _table(changes, keys, rows)
    return join([figure(chart), about, tag("div", listed, class_="data")])


def _table(changes: Changed, keys: Sequence[str], rows: Sequence[dict[str, Any]]) -> Markup:
    """Return the changes as a table, with the notes on them, folded."""
    shown = len(rows)
    some = f", of {len(changes):,} that changed" if len(changes) > shown else ""
    title = f"The {shown:,} keys with the largest certain changes{some}"
    heads = [*map(printable, keys), *_HEADS]
    are_numbers = [*(False for _ in keys), True, True, True, False]
    cells = _cells(changes, keys, rows)
    listed = table(title, heads, cells, are_numbers, first=_FIRST)
    return folded("The same as a table", listed, *claims(changes.notes))


def _rows_of(changes: Changed, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Return the numbers of the keys that are shown, and the text of each key."""
    listed = changes.table.slice(0, _ROWS)
    numbers = listed.drop_columns(list(keys)).rename_columns(_COLUMNS)
    rows: list[dict[str, Any]] = numbers.to_pylist()
    texts = key_texts(listed.select(keys))
    for row, key in zip(rows, texts, strict=True):
        row["key"] = key
    return rows


def _caption(changes: Changed, rows: Sequence[dict[str, Any]], estimated: str) -> Caption:
    """Return the words of the chart; its title names the key with the largest certain change."""
    most = rows[0]["key"]
    title = f"{len(changes):,} of {changes.tested:,} reported keys changed, {most} most."
    subtitle = (
        f"{estimated[0].upper()}{estimated[1:]}, logarithmic: a ring before, a dot after, "
        "a bar for where the change may end"
    )
    listed = [f"{row['key']}: {_said(row)}" for row in rows[:_DRAWN]]
    described = f"Chart of changes. {'; '.join(listed)}."
    return Caption("changed", title, described, subtitle)


def _marks(rows: Sequence[dict[str, Any]]) -> list[Change]:
    marks = []
    for row in rows[:_DRAWN]:
        low, high = _ends(row)
        before = row["before"]
        after = row["after"]
        marks.append(Change(row["key"], _said(row), before, after, low, high))
    return marks


def _log_from(marks: Sequence[Change]) -> float:
    """Return a number that the logarithmic scale has to show."""
    if any(mark.before is None or mark.after is None for mark in marks):
        return _LOWEST
    return math.inf


def _ends(row: dict[str, Any]) -> tuple[float, float]:
    """Return the interval of where the change leads: to the number after, or back to the one before if that is new."""
    low = row["low"]
    high = row["high"]
    if row["before"] is None:
        after = row["after"]
        return after - high, after - low
    before = row["before"]
    return before + low, before + high


def _said(row: dict[str, Any]) -> str:
    """Say how a key changed."""
    return f"{row['direction']}, {_interval(row)}"


def _interval(row: dict[str, Any]) -> str:
    """Return the interval of a change, with signs."""
    return f"{row['low']:+,.0f} to {row['high']:+,.0f}"


def _cells(
    changes: Changed, keys: Sequence[str], rows: Sequence[dict[str, Any]]
) -> Iterator[list[object]]:
    """Yield the rows of the table: a key, its two estimates, the interval of the change, and its direction."""
    listed = changes.table.slice(0, len(rows))
    columns = [readable(listed[name]) for name in keys]
    for n, row in enumerate(rows):
        change = _interval(row)
        before = _estimate(row["before"])
        after = _estimate(row["after"])
        yield [*key_cells(columns, n), before, after, change, row["direction"]]


def _estimate(value: float | None) -> str:
    return "not reported" if value is None else whole(value)
