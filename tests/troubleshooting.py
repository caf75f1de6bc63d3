"""docs/guides/troubleshooting.md: every refusal of the library with its remedy, by area.

python tests/troubleshooting.py    # writes the page anew
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from refusals import PROOF, Refusal, refusals

PAGE = Path(__file__).parent.parent / "docs" / "guides" / "troubleshooting.md"

# title -> what it is about, and the modules, by the beginnings of their paths
AREAS: Mapping[str, tuple[str, Sequence[str]]] = {
    "Sources": (
        "What is read, and how it is written. [Sources](../command-line.md#sources).",
        (
            "private/kinds",
            "private/inputs",
            "private/source",
            "private/formats",
            "private/dialect",
            "private/arrow",
            "private/engine/duckdb/tables",
            "private/engine/duckdb/errors",
            "private/engine/duckdb/databases",
            "private/engine/duckdb/numbering",
        ),
    ),
    "Columns, keys and frequencies": (
        "What the columns of a source hold. No message shows a value of them.",
        ("private/python_objects", "private/engine/errors", "private/engine/columns", "private/engine/duckdb/columns"),
    ),
    "Privacy": (
        "Epsilon, delta, and what they are spent on. [Choose epsilon](choose-epsilon.md).",
        ("privacy", "definitions", "exact", "accounting/budget", "accounting/totals"),
    ),
    "Users": (
        "A release that protects users. [Few or many keys](few-or-many-keys.md).",
        (
            "private/request",
            "private/checks",
            "private/count",
            "private/assignment",
            "planning/setting",
            "accounting/composition",
            "accounting/discovery",
            "accounting/amounts",
        ),
    ),
    "Known keys": (
        "A public list of keys. [Known keys](../python.md#known-keys).",
        ("private/known", "accounting/known"),
    ),
    "Samples": (
        "Sampling schemes, and samples that are sanitized. [Choose a sample](choose-a-sample.md).",
        ("scheme/sampling", "scheme/soft_cap", "scheme/registered", "private/sample", "private/sanitizer"),
    ),
    "Streams": (
        "One pass over a stream. [Streams](../stream.md).",
        ("private/stream", "scheme/holding", "scheme/held"),
    ),
    "Ledgers": (
        "Budgets over many releases. [A ledger](../budget.md#a-ledger), [a daily pipeline](daily-pipeline.md).",
        (
            "accounting/ledger",
            "accounting/balance",
            "accounting/rules",
            "accounting/filters",
            "accounting/renyi",
            "accounting/parts",
        ),
    ),
    "Outputs": (
        "Where a release, a sample or a page is written. Nothing is left behind by an output that fails.",
        ("files/outputs", "files/atomic", "files/metadata", "files/csv", "files/tables"),
    ),
    "Files that are read": (
        "A release, a sample or a list from a file. [Every field](../format.md).",
        ("files/reading", "release"),
    ),
    "Questions": (
        "Answers from a release. [Answers](../answers.md).",
        ("questions", "estimators"),
    ),
    "Several releases": ("A period, and what changed. [Over time](../over-time.md).", ("periods",)),
    "Plans": ("Forecasts before a release, and the page with sliders. [Planning](../planning.md).", ("planning",)),
    "Reports and charts": ("A release as a page. [Reports](../report.md).", ("presentation",)),
    "Spark": ("Releases on a cluster. [Spark](../spark.md).", ("spark", "private/engine/spark")),
    "Memory, threads and temporary files": (
        "What the machine needs. [Large data](../command-line.md#large-data).",
        ("private/engine/duckdb/engine", "private/engine/duckdb/statements"),
    ),
    "The command line": (
        "Options that do not go together. `--help` of each command has them all.",
        ("cli",),
    ),
    "Comparisons, and the paper": (
        "Baselines, accuracy and figures. [Accuracy](../accuracy.md).",
        ("comparison", "paper"),
    ),
    "The mathematics": (
        "Functions that other parts call. These are seen by those who call them directly. [The scheme](../scheme.md).",
        ("scheme", "accounting"),
    ),
}
PROOFS = "Proofs that fail"

HEAD = """\
# Troubleshooting: every refusal, with its remedy

A refusal has three parts, on one line: the rule, what was found, and the remedy.

    dpsample: a level is above 0 and below 1; found 2.0; choose one such as 0.95

Search this page for the first words of the message. A word in capital letters stands for what the message names. Words
in brackets are there in some cases. A slash divides alternatives. On the command line, a message names options in place
of the arguments of Python: `--drop-null` in place of `drop_null=True`.

- **Nothing was released.** A refusal comes before any output. If there is a ledger, a refused release costs nothing,
  unless the message says that its privacy is spent.
- **No message shows a key or a frequency.** This is why some say only "another" or "at least one".
- **A warning** is no refusal. There are two: an epsilon above 20, and a delta above 0.01, protect next to nothing.
- **Exit codes** are 2 for what is refused, and 1 for what the machine could not do.
- **An unexpected error** is shown by its kind alone. `DPSAMPLE_TRACEBACK=1` shows all of it, on your own terminal: it
  may quote your data.

`tests/troubleshooting.py` collects the messages below from the source code. A test keeps the page up to date.
"""
TAIL = """
**Next:** [limits](limits.md), [the glossary](../glossary.md), [privacy](../privacy.md).
"""


def area_of(refusal: Refusal) -> str:
    """The title of the section that a refusal is in; a module of no area is an error."""
    if refusal.module == PROOF:
        return PROOFS
    path = refusal.module.removesuffix(".py")
    for title, (_, beginnings) in AREAS.items():
        if path.startswith(tuple(beginnings)):
            return title
    raise KeyError(f"AREAS in {__file__} must name an area for {path}")


def page() -> str:
    """The page of all refusals, by area."""
    by_area: dict[str, dict[tuple[str, str, str], None]] = {}
    for refusal in refusals():
        by_area.setdefault(area_of(refusal), {})[refusal.rule, refusal.found, refusal.remedy] = None
    sections = [(title, about) for title, (about, _) in AREAS.items()]
    sections.append((PROOFS, "A guarantee was checked and does not hold. [What is proved](../scheme.md#certificates)."))
    lines = [HEAD]
    for title, about in sections:
        lines += [f"## {title}", about, "", "| the rule | what was found | the remedy |", "| --- | --- | --- |"]
        lines += [f"| {' | '.join(map(_cell, row))} |" for row in by_area.pop(title)]
        lines.append("")
    assert not by_area, by_area.keys()
    return "\n".join(lines).rstrip() + "\n" + TAIL


def _cell(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", text).replace("<", "&lt;").strip()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
