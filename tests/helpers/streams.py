"""Batches that a stream counts, and a slow count of the same."""

from typing import Any

import pyarrow as pa

from dpsample import Privacy

PRIVACY = Privacy(1, "1e-6")


def slow(keys: list[Any], words: list[int], picked_words: int) -> dict[Any, int]:
    """Sample and hold, element by element."""
    held: dict[Any, int] = {}
    for key, word in zip(keys, words, strict=True):
        if key in held:
            held[key] += 1
        elif word < picked_words:
            held[key] = 1
    return held


def held_by(table: pa.Table) -> dict[Any, int]:
    *columns, counts = [column.to_pylist() for column in table.columns]
    keys = columns[0] if len(columns) == 1 else zip(*columns, strict=True)
    return dict(zip(keys, counts, strict=True))
