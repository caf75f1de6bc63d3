"""Draw docs/images/beside.svg: the plain table and the release of docs/tutorial.md, side by side, with its numbers.

Run it after a change of the page: python website/picture.py
"""

import re
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

PAGE = Path(__file__).parent.parent / "docs" / "tutorial.md"
PICTURE = PAGE.parent / "images" / "beside.svg"
ROW = re.compile(r"^(\S.*?) +([\d,]+) +from ([\d,]+) to ([\d,]+) +truth +([\d,]+)$", re.MULTILINE)
LEAK = "Leaving a Violent Marriage"

WIDTH, HEIGHT, LINE = 840, 318, 34
TOP = 112  # of the first row's text
STYLE = """
  svg { font: 15px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
  .card { fill: #ffffff; stroke: #d0d7de; } .head { font-weight: 600; font-size: 17px; fill: #1f2328; }
  .text { fill: #1f2328; } .quiet { fill: #59636e; font-size: 13px; } .number { text-anchor: end; }
  .leak { fill: #ffebe9; } .leaks { fill: #b3261e; font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    .card { fill: #151b23; stroke: #3d444d; } .head, .text { fill: #f0f6fc; } .quiet { fill: #9198a1; }
    .leak { fill: #5c1d1a; } .leaks { fill: #ffaba3; }
  }"""


@dataclass(frozen=True)
class Row:
    """A title: its released estimate and interval, and its true number of borrowers."""

    title: str
    estimate: int
    low: int
    high: int
    truth: int


def rows(page: str) -> list[Row]:
    """The titles that the page compares with the truth, in its order."""
    return [Row(title, *(int(n.replace(",", "")) for n in numbers)) for title, *numbers in ROW.findall(page)]


def text(x: float, y: float, content: str, kind: str = "text") -> str:
    """A line of text at a place."""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(content)}</text>'


def card(x: float, width: float, heading: str, note: str) -> list[str]:
    """A box with a heading, and a note below it."""
    box = f'<rect x="{x:g}" y="0.5" width="{width:g}" height="{HEIGHT - 1}" rx="10" class="card"/>'
    return [box, text(x + 20, 36, heading, "head"), text(x + 20, 60, note, "quiet")]


def plain_table(titles: list[Row]) -> list[str]:
    """The left side: true numbers, the last of one borrower."""
    drawn = card(0.5, 380, "GROUP BY title", "borrowers of each title: every rare row exposes someone")
    for n, row in enumerate(titles):
        drawn += [text(20, TOP + n * LINE, row.title), text(360, TOP + n * LINE, f"{row.truth:,}", "text number")]
    last = TOP + len(titles) * LINE
    drawn.append(f'<rect x="10" y="{last - 22}" width="361" height="32" rx="6" class="leak"/>')
    return [*drawn, text(20, last, LEAK, "leaks"), text(360, last, "1", "leaks number")]


def release(titles: list[Row]) -> list[str]:
    """The right side: estimates with their intervals, and no row of one borrower."""
    drawn = card(400.5, 439, "dpsample release", "epsilon 1 for each borrower: estimates and 95 % intervals")
    for n, row in enumerate(titles):
        y = TOP + n * LINE
        interval = f"{row.low:,} to {row.high:,}"
        drawn += [text(420, y, row.title), text(670, y, f"{row.estimate:,}", "text number")]
        drawn.append(text(820, y, interval, "quiet number"))
    rare = "a title of one borrower shows with probability at most 1e-9"
    return [*drawn, text(420, TOP + len(titles) * LINE, rare, "quiet")]


def picture() -> str:
    """The picture, as the text of its file."""
    titles = rows(PAGE.read_text(encoding="utf-8"))
    label = f"A plain table lists {LEAK} with one borrower. The private release has the common titles, with intervals."
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" '
        f'aria-label="{label}"><style>{STYLE}\n</style>'
    )
    return "\n".join([head, *plain_table(titles), *release(titles), "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
