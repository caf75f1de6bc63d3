"""The quick series of each figure of the paper, each computed once."""

from functools import cache

import pyarrow as pa

from paper import FIGURES

SETS = {"two sizes": {3: 900, 70: 100}, "many sizes": dict.fromkeys(range(1, 400), 5)}


@cache
def tables(name: str) -> pa.Table:
    """Return the quick series of a figure."""
    return FIGURES[name].series(True, SETS)
