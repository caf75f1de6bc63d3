"""Docstrings as Markdown: examples become code, and aligned lists of arguments become lists of definitions."""

import re
from collections.abc import Iterator
from typing import Any

from griffe import Extension, Object

from dpsample.release.options import with_keywords

ITEM = re.compile(r"(\S.*?) {2,}(?=\S)")


def definitions(lines: list[str]) -> Iterator[str]:
    """The lines of a list ``name  meaning``, whose meanings are in one column, as Markdown; nothing if it is none."""
    first = ITEM.match(lines[0])
    if first is None:
        return
    column = first.end()
    if any(line[column - 1 : column].strip() or not line[column:].strip() for line in lines):
        return
    for line in lines:
        if name := line[:column].strip():
            yield f"\n`{name}`\n:   {line[column:]}"
        else:
            yield f"    {line[column:].strip()}"


def as_markdown(docstring: str) -> str:
    r"""A docstring of ours as Markdown.

    >>> as_markdown("Add.\n\n>>> 1 + 1\n2")
    'Add.\n\n```pycon\n>>> 1 + 1\n2\n```'
    >>> print(as_markdown("size  how many\nuser  whose\n      they are"))
    `size`
    :   how many
    <BLANKLINE>
    `user`
    :   whose
        they are
    """
    parts = []
    for part in re.split(r"\n{2,}", docstring.strip("\n")):
        lines = part.split("\n")
        if part.startswith(">>> "):
            parts.append(f"```pycon\n{part}\n```")
        else:
            parts.append("\n".join(definitions(lines)).strip() or part)
    return "\n\n".join(parts)


class Docstrings(Extension):
    """Does so to each docstring that is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(with_keywords(obj.docstring.value))
