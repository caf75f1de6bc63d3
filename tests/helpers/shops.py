"""A release of shops in cities, and attributes of both."""

from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from dpsample import KeepAll, Privacy, Release
from dpsample.answers.selection import Rows, Selection
from stated_terms import stated_terms

GRID = 8
SHOPS = [(city, shop) for city in ("Nuuk", "Oslo", "Rome", "Ürgüp") for shop in range(-2, 9)]
CELLS = {key: 1 + (37 * n) % 19 for n, key in enumerate(SHOPS)}


def made(keys: list[Any], names: tuple[str, ...], keys_only: bool = False, cells: Any = None) -> Release:
    columns: dict[str, Any] = {name: [key[n] for key in keys] for n, name in enumerate(names)}
    terms = stated_terms(Privacy(1, "1e-6"), KeepAll(), names, grid=GRID, keys_only=keys_only)
    if not keys_only:
        tokens = [cells[key] / GRID for key in keys]
        columns |= {"token": tokens}
    return Release(pa.table(columns), terms)


@pytest.fixture
def shops() -> Release:
    return made(SHOPS, ("city", "shop"), cells=CELLS)


ATTRIBUTES = pa.table(
    {
        "city": [c for c, _ in SHOPS if c != "Nuuk"],
        "shop": [s for c, s in SHOPS if c != "Nuuk"],
        "size": [s / 4 for c, s in SHOPS if c != "Nuuk"],
        "kind": ["a" if s % 2 else "b" for c, s in SHOPS if c != "Nuuk"],
    }
)


def selection_of(release: Release, *arguments: Any, **options: Any) -> Selection:
    """A selection of keys of a release."""
    return Selection(Rows.of(release.table, release.terms), *arguments, **options)
