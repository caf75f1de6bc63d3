"""The top keys of a release as a chart, for notebooks and documents: from the release alone."""

import os
from typing import Any

from dpsample.answers.question import Attributes, Where
from dpsample.answers.release import Release
from dpsample.errors import InvalidValue
from dpsample.files import PathLike, check_file, write_file
from dpsample.presentation.charts import bar_chart, check_drawing, png, svg
from dpsample.presentation.tables import readable
from dpsample.release.kinds import Counted

_LONGEST = 60  # characters of a key
_FORMATS = (".svg", ".png")


def plot(
    release: Release,
    k: int,
    where: Where = None,
    *,
    title: str | None = None,
    level: float = 0.95,
    attributes: Attributes = None,
) -> Any:
    """Return a bar for each of the top k keys, with its interval. `Release.plot` describes the arguments."""
    check_drawing()
    top = release.top(k, where, level=level, attributes=attributes)
    texts = zip(*(readable(column) for column in top.groups.columns), strict=True)
    keys = [
        ", ".join(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…" for text in row)
        for row in texts
    ]
    numbers = top.numbers.select(["value", "low", "high"]).to_pylist()
    rows = [
        {"key": f"{n}. {key}", **row}
        for n, (key, row) in enumerate(zip(keys, numbers, strict=True), 1)
    ]
    kind = release.terms.kind
    words = kind.estimated if isinstance(kind, Counted) else kind.frequency
    name = title or f"The top {len(rows)} of {len(release):,} reported keys"
    return bar_chart(rows, name, f"{words}, with {100 * level:g} % intervals {top.intervals}")


def check_plot(path: PathLike, force: bool = False) -> None:
    """Check, before any work, that a chart can be written: its name ends with .svg or .png."""
    if not os.fspath(path).lower().endswith(_FORMATS):
        raise InvalidValue(
            f"the name of a chart must end with .svg or .png, not {os.fspath(path)!r}", "rename it"
        )
    check_file(path, force)


def write_plot(chart: Any, path: PathLike, force: bool = False) -> None:
    """Write a chart, atomically, as SVG or PNG."""
    check_plot(path, force)
    image = svg(chart)
    write_file(
        path, png(image) if os.fspath(path).lower().endswith(".png") else image.encode(), force
    )
