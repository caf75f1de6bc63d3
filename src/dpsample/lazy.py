"""Libraries that are loaded when they are first used: a small release needs none of them, and would wait for all.

Loading them takes a third of a first release of 1,000 rows. A module imports a library from here by its usual name.
Annotations that name one are strings.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

if TYPE_CHECKING:
    import flint as flint
    import pyarrow.compute as pc
    import pyarrow.csv as arrow_csv
    import pyarrow.feather as feather
    import pyarrow.parquet as pq
else:

    class _Library:
        """A library under its full name, which is imported at the first use of an attribute."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            return getattr(import_module(self._name), attribute)

    flint = _Library("flint")
    pc = _Library("pyarrow.compute")
    arrow_csv = _Library("pyarrow.csv")
    feather = _Library("pyarrow.feather")
    pq = _Library("pyarrow.parquet")


def arrow_function(name: str, *arguments: Any) -> Any:
    """Return the result of a function of Arrow that needs no options.

    pyarrow.compute has it as `call_function`, and imports that from here. It also makes a documented Python function of
    each of Arrow's, which takes 20 ms.
    """
    try:
        from pyarrow._compute import call_function
    except ImportError:  # a version that has it elsewhere
        from pyarrow.compute import call_function
    return call_function(name, list(arguments))


def arrow_numbers(values: NDArray[Any]) -> pa.Array:
    """Return integers or floats as an Arrow array, without a copy. `pa.array` would load numpy.ma, which takes 6 ms.

    >>> arrow_numbers(np.arange(3)).to_pylist()
    [0, 1, 2]
    """
    contiguous = np.ascontiguousarray(values)
    validity = None  # none is null
    buffers = [validity, pa.py_buffer(contiguous)]
    return pa.Array.from_buffers(pa.from_numpy_dtype(contiguous.dtype), len(contiguous), buffers)


__all__ = ["arrow_csv", "arrow_function", "arrow_numbers", "feather", "flint", "pc", "pq"]
