"""The chart library's code for browsers (Vega, Vega-Lite, Vega-Embed), from its installed package.

To put it together takes a second or two, a third of the time of a report. So it is done once in a process, and kept in
the user's cache folder, from which it is read only if nobody else can have written it.
"""

import contextlib
import hashlib
import os
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from dpsample.errors import DpsampleError
from dpsample.files import cache_folder, write_file
from dpsample.presentation.charts import converter

_HASH = 64  # hexadecimal digits before the code in a kept file


@lru_cache(maxsize=1)
def chart_library() -> str:
    """Return the code, about 0.9 MB."""
    library = converter()
    kept = cache_folder() / f"charts-{version('vl-convert-python')}.js"
    found = _read(kept)
    if found is None:
        code: str = library.javascript_bundle()
        # it goes inside a <script>: what could end that, or open a comment, is written otherwise in its strings
        found = code.replace("</script", "<\\/script").replace("<!--", "<\\!--")
        _keep(kept, found)
    return found


def _read(kept: Path) -> str | None:
    """Return what is kept, if it is whole, and if it is ours alone to write."""
    try:
        for place in (kept.parent, kept):
            state = os.lstat(place)
            if state.st_uid != os.getuid() or state.st_mode & 0o022:
                return None
        content = kept.read_bytes()
    except OSError:
        return None
    told, code = content[:_HASH], content[_HASH:]
    return code.decode() if told == hashlib.sha256(code).hexdigest().encode() else None


def _keep(kept: Path, code: str) -> None:
    content = code.encode()
    with contextlib.suppress(OSError, DpsampleError):  # it is only for the next time
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(kept, hashlib.sha256(content).hexdigest().encode() + content, force=True)
