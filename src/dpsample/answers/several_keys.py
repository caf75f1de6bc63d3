"""The keys of several releases: each once, in order, with its token in each release."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dpsample.lazy import pc
from dpsample.release.rows import token_cells
from dpsample.scheme.sampling import Ints

if TYPE_CHECKING:
    from dpsample.answers.release import Release


def keys_of(releases: "Sequence[Release]") -> tuple[pa.Table, Ints]:
    """Return the keys that any of the releases reports, ascending, and the row of each in each release, or -1: [key,
    release].

    >>> from dpsample.answers.example import release
    >>> keys, rows = keys_of([release, release])
    >>> keys["word"].to_pylist()[:2], rows[:2]
    (['cat', 'catfish'], array([[0, 0],
           [1, 1]]))
    """
    names = list(releases[0].keys)
    stacked = pa.concat_tables(
        [release.table.select(names) for release in releases]
    ).combine_chunks()
    lengths = [len(release) for release in releases]
    owner, row = (
        np.repeat(np.arange(len(releases)), lengths),
        np.concatenate([np.arange(n) for n in lengths]),
    )
    order = pc.sort_indices(stacked, sort_keys=[(name, "ascending") for name in names])
    stacked, order = stacked.take(order), order.to_numpy()
    new = np.zeros(len(stacked), bool)
    for column in stacked.columns:
        new[1:] |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    new[:1] = True
    rows = np.full((int(new.sum()), len(releases)), -1, np.int64)
    rows[np.cumsum(new) - 1, owner[order]] = row[order]
    return stacked.filter(pa.array(new)), rows


def cells_of(releases: "Sequence[Release]", rows: Ints) -> Ints:
    """Return the tokens of keys, in units of 1/grid of each release; 0 is not reported: [key, release]."""
    cells = np.zeros_like(rows)
    for n, release in enumerate(releases):
        reported = rows[:, n] >= 0
        cells[reported, n] = token_cells(release.table["token"], release.grid or 1)[
            rows[reported, n]
        ]
    return cells
