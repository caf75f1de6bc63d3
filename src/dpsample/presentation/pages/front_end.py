"""The chart library's code for browsers (Vega, Vega-Lite, Vega-Embed), from its installed package.

To bundle it takes a second or two, a third of the time of a report. So it is bundled once in a process, and kept in the
user's cache folder. It is read from there only if nobody else can have written it.
"""

import contextlib
import hashlib
import os
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from dpsample.errors import DpsampleError
from dpsample.files import cache_folder, write_cached
from dpsample.presentation.charts import converter

_HASH = 64  # hexadecimal digits before the code in a cached file


@lru_cache(maxsize=1)
def chart_library() -> str:
    """Return the code, about 0.9 MB."""
    library = converter()
    cached = cache_folder() / f"charts-{version('vl-convert-python')}.js"
    code = _read(cached)
    if code is None:
        bundle: str = library.javascript_bundle()
        # it goes inside a <script>: strings that would end it, or open a comment, are written otherwise
        code = bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")
        _cache(cached, code)
    return code


def _read(cached: Path) -> str | None:
    """Return the cached code, if it is complete, and if nobody else can write it."""
    if not hasattr(os, "getuid"):  # Windows, where nothing is cached
        return None
    try:
        for place in (cached.parent, cached):
            state = os.lstat(place)
            if state.st_uid != os.getuid() or state.st_mode & 0o022:
                return None
        content = cached.read_bytes()
    except OSError:
        return None
    digest, code = content[:_HASH], content[_HASH:]
    return code.decode() if digest == hashlib.sha256(code).hexdigest().encode() else None


def _cache(cached: Path, code: str) -> None:
    content = code.encode()
    with contextlib.suppress(OSError, DpsampleError):  # the cache only saves time
        write_cached(cached, hashlib.sha256(content).hexdigest().encode() + content)
