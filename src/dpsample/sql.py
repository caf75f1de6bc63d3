"""Names, texts and paths as SQL writes them."""

import glob
from collections.abc import Iterable


def quoted_name(name: str) -> str:
    """Return a name as SQL writes it.

    >>> print(quoted_name('a"b'))
    "a""b"
    """
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def quoted_paths(paths: Iterable[str]) -> str:
    """Return paths as DuckDB writes them, each one literally: no pattern."""
    return f"[{', '.join(quoted_text(glob.escape(path)) for path in paths)}]"
