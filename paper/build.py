"""Writes everything into a folder: figures as PNG, SVG and CSV, and a page as Markdown and HTML."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from dpsample.errors import InvalidValue
from dpsample.files import PathLike, atomic_folder
from dpsample.files.metadata import failures
from paper import data
from paper.charts import check_drawing, line_chart, png, svg
from paper.claims import CLAIMS, Claim
from paper.figures import FIGURES, Figure
from paper.finding import Finding
from paper.page import Drawn, as_html, markdown
from paper.reported import Spread

Progress = Callable[[str, int, int | None], None]
MARK = "claims-and-figures.csv"


def build(
    output: PathLike,
    *,
    figures: Sequence[str] = (),
    quick: bool = False,
    own: Callable[[], Spread] | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> list[str]:
    """Draw the named figures into a new folder, or all of them and the table of claims; return the figures' names.

    `quick` uses coarse grids, and no network. `own` counts how many keys of your own data have each frequency; they are
    drawn as one more set of real data. A page with your own data is as private as they are: do not publish it.
    """
    report = progress or (lambda stage, done, total: None)
    unknown = [name for name in figures if name not in FIGURES]
    if unknown:
        raise InvalidValue(f"{unknown[0]!r} is no figure", f"name one of {', '.join(FIGURES)}")
    chosen = [figure for name, figure in FIGURES.items() if not figures or name in figures]
    if own and not any(figure.needs_data for figure in chosen):
        raise InvalidValue(f"your data cannot be drawn in the figure {chosen[0].name!r}", "draw real or real-sampled")
    check_drawing()
    with atomic_folder(output, MARK, force, private=own is not None) as folder:
        sets, note = _data(chosen, quick, own, report)
        drawn, images = _draw(folder / "figures", chosen, quick, sets, note, report)
        claims = {} if figures else _measure(report)
        text = markdown(drawn, claims, quick)
        with failures(folder):
            (folder / "index.md").write_text(text, encoding="utf-8")
            (folder / "index.html").write_text(as_html(text, images), encoding="utf-8")
            pa.csv.write_csv(_verdicts(drawn, claims), folder / MARK)
    return [figure.name for figure in chosen]


def _draw(
    folder: Path, chosen: Sequence[Figure], quick: bool, sets: dict[str, Spread], note: str, report: Progress
) -> tuple[list[Drawn], dict[str, str]]:
    """Draw the figures into a folder; return them, and their images by name."""
    drawn, images = [], {}
    folder.mkdir()
    for n, figure in enumerate(chosen):
        report("figures", n, len(chosen))
        table = figure.series(quick, sets)
        images[figure.name] = _write(folder, figure, table)
        drawn.append(Drawn(figure, figure.finding(table), note if figure.needs_data else ""))
    report("figures", len(chosen), len(chosen))
    return drawn, images


def _measure(report: Progress) -> dict[str, tuple[Claim, Finding]]:
    """Measure all claims."""
    claims = {}
    for n, claim in enumerate(CLAIMS):
        report("claims", n, len(CLAIMS))
        claims[claim.name] = (claim, claim.measure())
    report("claims", len(CLAIMS), len(CLAIMS))
    return claims


def _verdicts(drawn: Sequence[Drawn], claims: dict[str, tuple[Claim, Finding]]) -> pa.Table:
    """Return one row for each figure and claim."""
    stated = [("figure", item.figure.name, item.figure.says, item.finding) for item in drawn]
    stated += [("claim", claim.name, claim.says, finding) for claim, finding in claims.values()]
    rows = [(kind, name, says, finding.text, finding.conclusion) for kind, name, says, finding in stated]
    names = ("kind", "name", "paper", "found", "verdict")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def _write(folder: Path, figure: Figure, table: pa.Table) -> str:
    """Write a figure's files; the CSV has what is drawn, to the last bit."""
    chart = line_chart(table.to_pylist(), figure.panels(table), figure.columns)
    image = svg(chart)
    with failures(folder):
        (folder / f"{figure.name}.svg").write_text(image, encoding="utf-8")
        (folder / f"{figure.name}.png").write_bytes(png(image))
        pa.csv.write_csv(table, folder / f"{figure.name}.csv")
    return image


def _data(
    chosen: Sequence[Figure], quick: bool, own: Callable[[], Spread] | None, report: Progress
) -> tuple[dict[str, Spread], str]:
    """Return the real data sets, and a note about them."""
    if not any(figure.needs_data for figure in chosen):
        return {}, ""
    report("data", 0, 1)
    sets: dict[str, Spread] = {}
    notes = []
    if own is not None:
        sets["Your data"] = own()
        notes.append("“Your data” were drawn without privacy: this page is as private as they are.")
    sets[data.LIBRARY] = data.library()
    try:
        sets[data.NPM] = data.npm(fetch=not quick)
    except data.Unavailable as reason:
        notes.append(f"Drawn without {data.NPM}: {reason}. Recipe: `npm pack {data.PACKAGE}` in the cache folder.")
    report("data", 1, 1)
    return sets, " ".join([*(_size(name, keys) for name, keys in sets.items()), *notes])


def _size(name: str, keys: Spread) -> str:
    return f"{name}: {sum(i * n for i, n in keys.items()):,} elements, {sum(keys.values()):,} keys."
