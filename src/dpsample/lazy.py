"""Libraries that are loaded when they are first used: a small release needs none of them, and would wait for all.

Loading them takes a third of a first release of 1,000 rows. A module imports a library from here by its usual name.
Annotations that name one are strings.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import flint as flint
    import pyarrow.compute as pc
    import pyarrow.csv as arrow_csv
    import pyarrow.feather as feather
    import pyarrow.parquet as pq
else:

    class _Library:
        """A library under its full name; its attributes are remembered."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            value = getattr(import_module(self._name), attribute)
            setattr(self, attribute, value)
            return value

    flint = _Library("flint")
    pc = _Library("pyarrow.compute")
    arrow_csv = _Library("pyarrow.csv")
    feather = _Library("pyarrow.feather")
    pq = _Library("pyarrow.parquet")

__all__ = ["arrow_csv", "feather", "flint", "pc", "pq"]
