"""Pieces of a Markdown page: tables, paragraphs, items and numbers."""

import math
import textwrap


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table; all columns but the first are to the right."""
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *rows])


def figure(value: float | None, form: str = "{:.3g}") -> str:
    """A number as text; a dash if there is none."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else form.format(value)


def prose(*sentences: str, indent: str = "") -> str:
    """A paragraph in lines of at most 120 characters."""
    text = " ".join(sentences)
    return textwrap.fill(text, 120, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def item(text: str) -> str:
    """An item of a list, in lines of at most 120 characters."""
    return textwrap.fill(f"- {text}", 120, subsequent_indent="  ", break_on_hyphens=False)
