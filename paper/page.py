"""The page: one Markdown text, and the same as HTML that needs no other file and no network."""

import base64
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpsample import __version__
from paper.claims import Claim
from paper.figures import Figure
from paper.finding import CORRECTED, FAILS, HOLDS, INTEGRAL, LOOSE, Finding

SIGNS = {HOLDS: "✓", INTEGRAL: "✓", LOOSE: "✓", CORRECTED: "✗", FAILS: "✗"}
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff }
body { max-width: 68rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 3rem; border-top: 1px solid #ddd; padding-top: 1rem }
table { border-collapse: collapse; font-size: 14px }
td, th { border: 1px solid #ddd; padding: .35rem .6rem; text-align: left; vertical-align: top }
th { background: #f5f5f5 }
table { table-layout: fixed; width: 100% }
th:nth-child(1) { width: 11% }
th:nth-child(2) { width: 21% }
th:nth-child(4) { width: 15% }
th:nth-child(5) { width: 20% }
code { font-size: 85%; overflow-wrap: anywhere }
img { max-width: 100%; height: auto }
"""


@dataclass(frozen=True)
class Drawn:
    """A figure that was drawn."""

    figure: Figure
    finding: Finding
    note: str


def markdown(drawn: Sequence[Drawn], claims: Mapping[str, tuple[Claim, Finding]], quick: bool) -> str:
    """Return the page."""
    parts = [
        "# The paper, reproduced and corrected",
        "*Differentially Private Weighted Sampling* (Cohen, Geri, Sarlos, Stemmer, AISTATS 2021, "
        "[arXiv:2010.13048](https://arxiv.org/abs/2010.13048)): its figures and claims, "
        f"computed by dpsample {__version__}"
        + (" on coarse grids (`--quick`)." if quick else ".")
        + " All numbers are exact expectations, not simulations, but one line: “PWS, calibrated” in the figure of the "
        "error of a sum, which is simulated. SbH is the paper's baseline, "
        "the stability-based histogram; “tight cutoff” is the same with the smallest cutoff that is as private.",
    ]
    if claims:
        parts += ["## Claims", _table(claims)]
    for item in drawn:
        parts.append(_section(item))
    return "\n\n".join(parts) + "\n"


def _table(claims: Mapping[str, tuple[Claim, Finding]]) -> str:
    rows = ["| claim | the paper says | we find | verdict | tests |", "| --- | --- | --- | --- | --- |"]
    for claim, finding in claims.values():
        tests = "<br>".join(f"`{test}`" for test in claim.tests)
        rows.append(
            f"| **{claim.name}** | {_cell(claim.says)} | {_cell(finding.text)} | {_verdict(finding)} | {tests} |"
        )
    return "\n".join(rows)


def _section(item: Drawn) -> str:
    figure, finding = item.figure, item.finding
    parts = [
        f"## {figure.title}",
        f"![{figure.title}](figures/{figure.name}.svg)",
        f"*{figure.paper[0].upper()}{figure.paper[1:]}. {figure.parameters}*",
        f"- **The paper says:** {_cell(figure.says)}\n- **We find:** {_cell(finding.text)}\n"
        f"- **Verdict:** {_verdict(finding)}",
        f"Series: [CSV](figures/{figure.name}.csv) (panel, line, x, y); [PNG](figures/{figure.name}.png), "
        f"[SVG](figures/{figure.name}.svg); alone: `dpsample paper --figure {figure.name} -o FOLDER`.",
    ]
    return "\n\n".join([*parts, *([f"**Note:** {item.note}"] if item.note else [])])


def as_html(text: str, images: Mapping[str, str]) -> str:
    """Return the page as HTML with its images (SVG by name) inside."""
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    for name, image in images.items():
        data = base64.b64encode(image.encode()).decode()
        body = body.replace(f'src="figures/{name}.svg"', f'src="data:image/svg+xml;base64,{data}"')
    title = html.escape(text.splitlines()[0].lstrip("# "))
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head>\n<body>\n{body}</body></html>\n'
    )


def _verdict(finding: Finding) -> str:
    return f"{SIGNS[finding.verdict]} {_cell(finding.conclusion)}"


def _cell(text: str) -> str:
    """Escape what Markdown would take for its own."""
    return re.sub(r"([|*_])", r"\\\1", text)
