"""Make docs/tutorial.ipynb from docs/tutorial.md: its text, its Python and its outputs, without the terminal.

A cell ends where a result is shown. Run it after a change of the page: python website/notebook.py
"""

import json
import re
from collections.abc import Iterator
from doctest import DocTestParser, Example
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent / "docs" / "tutorial.md"
NOTEBOOK = PAGE.with_suffix(".ipynb")
TERMINAL = re.compile(r"(?:^[^\n]*terminal[^\n]*:\n\n)?^```console\n.*?^```\n\n", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)

Cell = dict[str, Any]


def notebook() -> str:
    """The notebook, as the text of its file."""
    parts = PYTHON.split(TERMINAL.sub("", PAGE.read_text(encoding="utf-8")))  # text, Python, text, ...
    cells = [cell for n, part in enumerate(parts) for cell in (code(part) if n % 2 else [text(part)])]
    numbered = [{"id": f"cell-{n}", **cell} for n, cell in enumerate(cells)]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps({"cells": numbered, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def text(part: str) -> Cell:
    """A cell of text."""
    return {"cell_type": "markdown", "metadata": {}, "source": part.strip().splitlines(keepends=True)}


def code(part: str) -> Iterator[Cell]:
    """Cells of code, each with its output."""
    source = ""
    examples = DocTestParser().get_examples(part)
    for n, example in enumerate(examples, 1):
        source += example.source
        if example.want or n == len(examples):
            yield code_cell(source, example)
            source = ""


def code_cell(source: str, last: Example) -> Cell:
    """A cell whose last statement is an example of the page."""
    metadata = {"tags": ["raises-exception"]} if last.exc_msg else {}
    output = {"name": "stdout", "output_type": "stream", "text": last.want.splitlines(keepends=True)}
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": metadata,
        "outputs": [output] if last.want else [],
        "source": source.strip().splitlines(keepends=True),
    }


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(), encoding="utf-8")
