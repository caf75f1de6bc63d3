"""A release of each kind, made from stated numbers: for tests of what every question does, whatever the release is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from counted import made
from dpsample import KeepAll, Ppswor, Privacy, Release, SampleAndHold, combine
from dpsample.accounting.budget import Budget
from dpsample.accounting.known import Known, added_to_known
from dpsample.accounting.parts import Part
from dpsample.answers.several import Combined
from dpsample.private.tokens import terms_of
from stated_terms import stated_terms

PRIVACY = Privacy(1, "1e-6")
GRID = 16
TOKENS = [1.0, 1.5, 2.0, 4.5, 7.25, 9.0, 12.5, 20.0, 26.5, 40.0, 41.0, 77.0, 120.5, 300.0, 305.25, 900.0]
NAMES = [f"{'a' if n < 5 else 'b'}{n:02d}" for n in range(len(TOKENS))]
KEY = "b13"  # reported by each kind


def of_tokens(tokens: list[float] | None = None, **terms: Any) -> Release:
    """A release of some tokens; by default of all keys, as elements."""
    stated = {"sampling": KeepAll(), "grid": GRID, **terms}
    table = pa.table({"key": NAMES, "token": TOKENS if tokens is None else tokens})
    return Release(table, stated_terms(PRIVACY, keys=("key",), **stated))


def bounded() -> Release:
    """Users with a contribution bound of ten keys: noise is bell-shaped."""
    terms = terms_of(Budget(PRIVACY, 10), KeepAll(), ["key"])
    grid = terms.grid or 1
    tokens = np.round(np.array(TOKENS) * grid).clip(1) / grid
    return Release(pa.table({"key": NAMES, "token": tokens}), terms)


def known(only: bool) -> Release:
    """The first half of the keys are known ones, or all are."""
    listed = [only or n < len(NAMES) // 2 for n in range(len(NAMES))]
    terms = stated_terms(
        PRIVACY, KeepAll(), ("key",), grid=GRID, known=Known(sum(listed), only, added_to_known(PRIVACY))
    )
    return Release(pa.table({"key": NAMES, "token": TOKENS, "known": listed}), terms)


def kinds() -> dict[str, Release | Combined]:
    """Return a release of each kind."""
    single: dict[str, Release] = {
        "tokens": of_tokens(),
        "sampled": of_tokens(sampling=Ppswor("0.01")),
        "coordinated": of_tokens([t + 2000 for t in TOKENS], sampling=Ppswor("0.01", seed="public")),
        "bounded": bounded(),
        "keys only": Release(pa.table({"key": NAMES}), stated_terms(PRIVACY, KeepAll(), ("key",), keys_only=True)),
        "stream": of_tokens([float(round(t)) for t in TOKENS], sampling=SampleAndHold("0.1"), grid=1),
        "counted": made([float(10 * t) for t in TOKENS], [5.0] * len(TOKENS), NAMES),
        "known": known(only=True),
        "known and others": known(only=False),
    }
    parts = [of_tokens(part=Part("day", day)) for day in ("1", "2")]
    weeks = {f"several, {name}": several(release) for name, release in single.items()}
    mixed = combine(single["stream"], single["known and others"])
    return {**single, "several": combine(*parts), **weeks, "several, mixed": mixed}


def several(release: Release) -> Release | Combined:
    """The release of a kind, and a later one that does not report the two first keys; of known keys, with all."""
    terms, table = release.terms, release.table
    numbers = {"token": 1.0} if terms.grid else {"measured": 3.0, "standard_error": 0.0} if terms.counts else {}
    columns = {name: pa.array(table[name].to_numpy() + more) for name, more in numbers.items()}
    listed = {"known": table["known"]} if terms.known is not None else {}
    later = pa.table({"key": table["key"], **columns, **listed})
    if "measured" in columns:
        return combine(release, made(columns["measured"].to_numpy()[2:], [5.0] * len(NAMES[2:]), NAMES[2:]))
    return combine(release, Release(later if listed else later.slice(2), terms))


SINGLE_KINDS_WITH_NUMBERS = [
    "tokens",
    "sampled",
    "coordinated",
    "bounded",
    "stream",
    "counted",
    "known",
    "known and others",
]
KINDS_WITH_NUMBERS = [
    *SINGLE_KINDS_WITH_NUMBERS,
    "several",
    *(f"several, {name}" for name in SINGLE_KINDS_WITH_NUMBERS),
    "several, mixed",
]
