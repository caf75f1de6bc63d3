"""Releases of given tokens, to combine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dpsample import KeepAll, Privacy, Release, Sampling
from dpsample.scheme import default_grid
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import Ints
from stated_terms import stated_terms

PRIVACY = Privacy(1, "1e-6")


def release_of(
    frequencies: Ints, seed: int, privacy: Privacy = PRIVACY, sampling: Sampling | None = None, **terms: Any
) -> Release:
    """A release of keys k0, k1, ... of these frequencies, with public coins."""
    sampling = sampling or KeepAll()
    reporting, grid = Reporting.of(sampling, privacy), default_grid(privacy)
    v = np.random.default_rng(seed).random(len(frequencies))
    seen = (frequencies > 0) & (v < reporting.probabilities(frequencies))
    cells = reporting.locate(frequencies[seen], v[seen], grid)[0]
    keys = np.array([f"k{n:05d}" for n in range(len(frequencies))])[seen]
    return Release(
        pa.table({"key": keys, "token": cells / grid}), stated_terms(privacy, sampling, ("key",), grid=grid, **terms)
    )
