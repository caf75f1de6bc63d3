"""What a release is worth: keys reported, missing mass, and errors, against the true frequencies."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def scores(file: Path, frequencies: NDArray[np.int64]) -> dict[str, Any]:
    """Compare a file of `key` and `estimate` with the frequency of each key code."""
    table = pq.read_table(file, columns=["key", "estimate"])
    keys = table["key"].to_numpy()
    estimates = table["estimate"].cast("float64").to_numpy()
    if np.bincount(keys, minlength=1).max() > 1:
        raise ValueError("a release reports each key once")
    true = frequencies[keys].astype(np.float64)
    error = np.abs(estimates - true)
    counted = not np.isnan(estimates).all()
    return {
        "keys": len(keys),
        "missing": 1 - float(true.sum() / frequencies.sum()),
        "mean_absolute_error": float(error.mean()) if counted and len(keys) else None,
        "median_relative_error": float(np.median(error / np.maximum(true, 1))) if counted and len(keys) else None,
        "by_frequency": _by_frequency(frequencies, keys, error if counted else None),
    }


def _by_frequency(
    frequencies: NDArray[np.int64], keys: NDArray[np.int64], error: Floats | None
) -> list[dict[str, float | None]]:
    """Keys, reported keys and the mean relative error of these, by powers of two of the frequency."""
    power = np.frexp(np.maximum(frequencies, 1))[1] - 1
    here = np.bincount(power[frequencies > 0])
    reported = np.bincount(power[keys], minlength=len(here))
    relative = (
        None
        if error is None
        else np.bincount(power[keys], weights=error / np.maximum(frequencies[keys], 1), minlength=len(here))
    )
    return [
        {
            "from": 2**n,
            "keys": int(here[n]),
            "reported": int(reported[n]),
            "relative_error": None if relative is None or not reported[n] else float(relative[n] / reported[n]),
        }
        for n in range(len(here))
        if here[n]
    ]
