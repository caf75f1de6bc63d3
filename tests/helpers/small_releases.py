"""Releases of a few keys, and their rows."""

from typing import Any

import pyarrow as pa

from dpsample import Ppswor, Privacy
from dpsample.answers.release import Release
from stated_terms import stated_terms

FORMATS = ["parquet", "csv", "arrow"]
PRIVACY = Privacy(1, 1e-6)
TERMS = stated_terms(PRIVACY, Ppswor(tau="0.25"), ("query",))


def rows(keys: dict[str, Any], *, grid: int = 8, keys_only: bool = False) -> pa.Table:
    """Keys with tokens: what else a release has follows from these."""
    arrays = {name: keys[name] if isinstance(keys[name], pa.Array) else pa.array(keys[name]) for name in keys}
    n = len(next(iter(arrays.values())))
    tokens = pa.array([1 / grid + i for i in range(n)], pa.float64())
    return pa.table(arrays if keys_only else {**arrays, "token": tokens})


def small() -> Release:
    terms = stated_terms(PRIVACY, Ppswor(tau="0.25"), ("query", "day"))
    return Release(rows({"query": ["=a", "b", "b"], "day": pa.array([3, 1, 2], pa.int32())}), terms)
