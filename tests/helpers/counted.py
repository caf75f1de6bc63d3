"""Releases of counted users, made from known numbers and seeded noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dpsample import KeepAll, Privacy, Release
from dpsample.accounting.choice import capacity_cap
from dpsample.accounting.counts import COUNT_PARTS, COUNT_SHARE, Counts
from dpsample.accounting.discovery import Discovery
from dpsample.accounting.look import Look
from dpsample.accounting.totals import Total
from dpsample.accounting.user_budget import LOOK_SHARE, UserBudget
from dpsample.accounting.vectors import VectorNoise
from dpsample.release.rows import counted
from dpsample.release.terms import Terms
from stated_terms import stated_terms

BUDGET = UserBudget(Privacy(5, "1e-5"), look=LOOK_SHARE, counts=COUNT_SHARE)
LOOK = Look((9000, 500, 20, *[0] * (len(Look.EDGES) - 3)), BUDGET.privacy.share(LOOK_SHARE))
NOISE = tuple(VectorNoise.of(BUDGET.square * share, BUDGET.aside, 1) for share in COUNT_PARTS.values())


def terms_of(
    clipped: float = 0.0, groups: Any = (), total: Total | None = None, keys: tuple[str, ...] = ("key",), **more: Any
) -> Terms:
    """The terms of a release of counted users."""
    each = BUDGET.one_key()
    discovery = Discovery("one-key", 1, capacity_cap(each), LOOK)
    given: dict[str, Any] = {"discovery": discovery, "counts": Counts(NOISE, clipped, groups), "per_key": each, **more}
    return stated_terms(BUDGET.privacy, KeepAll(), keys, total=total, **given)


def made(values: Any, errors: Any, names: list[str] | None = None, **options: Any) -> Release:
    """A release of these numbers; keys are in the order of the numbers."""
    names = [f"k{n:05d}" for n in range(len(values))] if names is None else names
    table = counted(pa.table({"key": pa.array(names, pa.string())}), np.array(values, float), np.array(errors, float))
    return Release(table, terms_of(**options))
