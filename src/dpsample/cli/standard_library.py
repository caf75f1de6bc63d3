"""The data of the demo: the sources of Python's own standard library, which are public and on every machine."""

import re
import sysconfig
from pathlib import Path

import pyarrow as pa

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def standard_library() -> pa.Table:
    """Return the elements: each identifier in the sources of the running Python's standard library, and its file."""
    words: list[str] = []
    files: list[str] = []
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        if "site-packages" not in path.parts:
            identifiers = _IDENTIFIER.findall(path.read_text(encoding="utf-8", errors="replace"))
            words += identifiers
            files += [str(path.relative_to(root))] * len(identifiers)
    return pa.table({"word": words, "file": pa.array(files).dictionary_encode()})
