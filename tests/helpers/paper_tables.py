"""The quick series of each figure of the paper, each computed once."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from paper import FIGURES

SETS = {"two sizes": {3: 900, 70: 100}, "many sizes": dict.fromkeys(range(1, 400), 5)}


@pytest.fixture(scope="session")
def tables() -> Callable[[str], pa.Table]:
    """Return the quick series of each figure, each computed once."""
    made: dict[str, pa.Table] = {}

    def table(name: str) -> pa.Table:
        if name not in made:
            made[name] = FIGURES[name].series(True, SETS)
        return made[name]

    return table
