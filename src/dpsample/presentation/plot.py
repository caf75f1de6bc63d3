"""The top keys of a release as a chart, for notebooks and documents: from the release alone."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from dpsample.errors import InvalidValue
from dpsample.files import PathLike, check_file, write_file
from dpsample.presentation.asked import Ranked
from dpsample.presentation.charts import Bar, Caption, Chart, RowChart
from dpsample.presentation.numbers import with_interval
from dpsample.presentation.tables import key_texts
from dpsample.release.terms import Terms


@dataclass(frozen=True, repr=False)
class Plot:
    """A chart as SVG: a notebook shows it, and `write` puts it into a file."""

    chart: Chart

    @property
    def svg(self) -> str:
        """The picture, with a white ground."""
        return str(self.chart.file())

    def write(self, path: PathLike, force: bool = False) -> None:
        """Write the picture, atomically, to a file whose name ends with .svg."""
        check_plot(path, force)
        write_file(path, f"{self.svg}\n".encode(), force)

    def __repr__(self) -> str:
        return f"Plot: {self.chart.caption.title}; write(path) puts it into a file"

    def _repr_svg_(self) -> str:
        return self.svg


def plot(top: Ranked, terms: Terms, reported: int, title: str | None = None) -> Plot:
    """Return a chart with a bar for each key of a top list, and its interval.

    `terms` are those of the release, and `reported` is its number of keys. Without a title, the chart states both.
    """
    stated = title or f"The top {len(top):,} of {reported:,} reported keys"
    return Plot(top_chart("plot", stated, top, terms))


def top_chart(
    name: str, title: str, top: Ranked, terms: Terms, first: int | None = None
) -> RowChart:
    """Return the chart of a top list, or of its `first` keys; `name` is what a page knows it by."""
    estimated = terms.kind.estimated
    measured = f"{estimated[0].upper()}{estimated[1:]}"
    intervals = f"{100 * top.level:g} % intervals {top.intervals}"
    subtitle = f"{measured}, with {intervals}"
    bars = list(_bars(top))[:first]
    listed = [f"{bar.label}: {bar.said}" for bar in bars]
    described = f"Bar chart. {subtitle}: {'; '.join(listed)}."
    return RowChart(Caption(name, title, described, subtitle), bars)


def _bars(top: Ranked) -> Iterator[Bar]:
    """Yield a bar for each key of a top list."""
    keys = key_texts(top.groups)
    rows = top.numbers.to_pylist()
    for key, row in zip(keys, rows, strict=True):
        value = row["value"]
        low = row["low"]
        high = row["high"]
        yield Bar(key, with_interval(value, low, high), value, low, high)


def check_plot(path: PathLike, force: bool = False) -> None:
    """Check, before any work, that a chart can be written: its name ends with .svg."""
    if not os.fspath(path).lower().endswith(".svg"):
        raise InvalidValue(
            f"the name of a chart must end with .svg, not {os.fspath(path)!r}", "rename it"
        )
    check_file(path, force)
