"""Releases that are so small that all frequencies can be tried."""

from fractions import Fraction
from functools import cache
from typing import Any

import pyarrow as pa

import oracles
from dpsample import KeepAll, Privacy, Release, Sampling
from stated_terms import stated_terms

PRIVACY = Privacy("0.8", "0.01")
GRID = 2


@cache
def laws(sampling: Sampling) -> list[dict[int, float]]:
    """For each frequency, token -> probability, by the paper's Algorithm 5 in fractions."""
    q = [Fraction(sampling.bounds(i, 128)[0], 1 << 128) for i in range(1, 21)]
    densities = oracles.algorithm_5(q, oracles.exponential(PRIVACY.epsilon, 30), PRIVACY.delta)
    rows = [oracles.cells(density, GRID, i) for i, density in enumerate(densities)]
    return [{cell: float(p) for cell, p in enumerate(row) if cell and p} for row in rows]


def release_of(cells: dict[Any, int], sampling: Sampling | None = None, privacy: Privacy = PRIVACY) -> Release:
    keys = sorted(cells)
    tokens = [cells[key] / GRID for key in keys]
    table = pa.table({"key": keys, "token": tokens})
    return Release(table, stated_terms(privacy, sampling or KeepAll(), ("key",), GRID))


CELLS = {"a": 24, "b": 19, "c": 19, "d": 12, "e": 3}
