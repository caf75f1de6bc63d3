"""Quoting: names, texts and paths as they are written in SQL."""

import glob
from collections.abc import Iterable


def quoted_name(name: str) -> str:
    """Return the name of a column or table in double quotes.

    >>> print(quoted_name('a"b'))
    "a""b"
    """
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """Return a text in single quotes.

    >>> print(quoted_text("it's"))
    'it''s'
    """
    return "'" + text.replace("'", "''") + "'"


def quoted_paths(paths: Iterable[str]) -> str:
    """Return a list of paths for DuckDB, escaped so that none is taken for a pattern of file names."""
    literal = [quoted_text(glob.escape(path)) for path in paths]
    return f"[{', '.join(literal)}]"
