"""The chart library's code for browsers (Vega, Vega-Lite, Vega-Embed), from its installed package."""

from functools import lru_cache

from dpsample.charts import converter


@lru_cache(maxsize=1)
def chart_library() -> str:
    """Return the code, about 0.9 MB; it takes a second or two to put together, once in a process."""
    code: str = converter().javascript_bundle()
    # it goes inside a <script>: what could end that, or open a comment, is written otherwise in its strings
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")
