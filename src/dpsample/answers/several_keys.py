"""The keys of several releases: each once, in order, with its token in each release."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dpsample.estimators.reported import Bools
from dpsample.lazy import pc
from dpsample.release.rows import token_cells
from dpsample.scheme.sampling import Floats, Ints

if TYPE_CHECKING:
    from dpsample.answers.release import Release


def keys_of(releases: "Sequence[Release]") -> tuple[pa.Table, Ints]:
    """Return the keys that any of the releases reports, ascending, and the row of each in each release, or -1: [key,
    release].

    >>> from dpsample.answers.example import release
    >>> keys, places = keys_of([release, release])
    >>> keys["word"].to_pylist()[:2], places[:2]
    (['cat', 'catfish'], array([[0, 0],
           [1, 1]]))
    """
    names = list(releases[0].keys)
    key_columns = [release.table.select(names) for release in releases]
    stacked = pa.concat_tables(key_columns).combine_chunks()
    lengths = [len(release) for release in releases]
    release_of_row = np.repeat(np.arange(len(releases)), lengths)
    row_in_release = np.concatenate([np.arange(length) for length in lengths])

    sort_keys = [(name, "ascending") for name in names]
    order = pc.sort_indices(stacked, sort_keys=sort_keys)
    ascending = stacked.take(order)
    order = order.to_numpy()
    is_new = _differs_from_the_one_before(ascending)
    key_of_row = np.cumsum(is_new) - 1
    keys = int(is_new.sum())
    places = np.full((keys, len(releases)), -1, np.int64)
    places[key_of_row, release_of_row[order]] = row_in_release[order]
    return ascending.filter(pa.array(is_new)), places


def _differs_from_the_one_before(ascending: pa.Table) -> Bools:
    """Whether each row differs from the row before it; the first one does."""
    differs = np.zeros(len(ascending), bool)
    for column in ascending.columns:
        changes = pc.not_equal(column[1:], column[:-1])
        differs[1:] |= changes.to_numpy(zero_copy_only=False)
    differs[:1] = True
    return differs


def reported_frequencies(releases: "Sequence[Release]", places: Ints) -> Floats:
    """Return the sum of the estimates of each key in the releases that report it, by its rows in each release."""
    total = np.zeros(len(places))
    for release, place in zip(releases, places.T, strict=True):
        here = place >= 0
        estimates = release.table["estimate"].to_numpy()
        total[here] += estimates[place[here]]
    return total


def cells_of(releases: "Sequence[Release]", places: Ints) -> Ints:
    """Return the tokens of keys by their rows in each release: [key, release].

    They are in units of 1/grid of each release; 0 is not reported.
    """
    cells = np.zeros_like(places)
    for n, release in enumerate(releases):
        place = places[:, n]
        here = place >= 0
        own = token_cells(release.table["token"], release.grid or 1)
        cells[here, n] = own[place[here]]
    return cells
