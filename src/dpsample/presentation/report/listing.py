"""The keys that a page can search: those with the largest estimates, as many as it can hold."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dpsample.presentation.asked import Published
from dpsample.presentation.tables import readable
from dpsample.scheme.sampling import Floats, Ints

# A page holds at most this many keys, in at most this many bytes, so that phones open it.
LISTED = 100_000
_BYTES = 3_800_000
_BYTES_OF_KEY = 3  # beyond its text, about: quotes and a comma
_BYTES_OF_NUMBERS = 34  # of the numbers of a run of keys, about


@dataclass(frozen=True)
class Listing:
    """The keys that can be searched, most frequent first.

    Keys of equal numbers, such as of one token, are neighbours: a run, whose numbers are stored once. Each key of a
    release of counted users has numbers of its own.
    """

    columns: dict[str, list[str]]  # the texts of each key column
    runs: list[int]  # the number of keys in each run
    numbers: dict[str, Floats]  # value, low, high of each run; empty for keys only
    left_out: int  # the number of keys that are not listed

    def __len__(self) -> int:
        return sum(self.runs)


def numbers_of(release: Published) -> dict[str, Floats]:
    """Return the estimate and interval of each key, as `Release.each_key` has them; nothing for keys only.

    Those of tokens are in the table.
    """
    if release.terms.keys_only or not len(release):
        return {}
    columns = {"value": "estimate", "low": "low", "high": "high"}
    if release.terms.grid is None:
        numbers = release.each_key().numbers
        return {name: numbers[name].to_numpy() for name in columns}
    table = release.table
    in_table = {}
    for name, column in columns.items():
        in_table[name] = table[column].to_numpy().astype(np.float64)
    return in_table


def listing_of(release: Published, numbers: dict[str, Floats]) -> Listing:
    """List the keys with the largest estimates, as many as a page can hold; `numbers` are `numbers_of` the release."""
    same = _same_numbers(release)
    known = _known(release)
    values = numbers["value"] if numbers else same
    order = np.lexsort((known, -same, -values))[:LISTED]
    starts_run = np.diff(same[order], prepend=np.inf) != 0
    starts_run |= np.diff(known[order], prepend=2) != 0
    first_of_run = np.flatnonzero(starts_run)

    table = release.table.take(pa.array(order))
    columns = {name: readable(table[name]) for name in release.terms.keys}
    n = _fitting(columns, first_of_run)
    first_of_run = first_of_run[first_of_run < n]
    columns = {name: texts[:n] for name, texts in columns.items()}
    left_out = len(release) - n
    if not numbers:
        return Listing(columns, [n], {}, left_out)
    runs = np.diff(first_of_run, append=n).tolist()
    rows = order[first_of_run]
    of_runs = {name: column[rows] for name, column in numbers.items()}
    return Listing(columns, runs, of_runs, left_out)


def _fitting(columns: dict[str, list[str]], first_of_run: Ints) -> int:
    """Return the number of keys, whose texts are in these columns, that a page can hold."""
    n = len(next(iter(columns.values())))
    sizes = np.zeros(n)
    for texts in columns.values():
        sizes += [len(text.encode()) + _BYTES_OF_KEY for text in texts]
    sizes[first_of_run] += _BYTES_OF_NUMBERS
    bytes_up_to = np.cumsum(sizes)
    return int(np.searchsorted(bytes_up_to, _BYTES, side="right"))


def _known(release: Published) -> Floats:
    """Return 1 for known keys, 0 for others."""
    if release.terms.known is None:
        return np.zeros(len(release))
    known: Floats = release.table["known"].to_numpy().astype(float)
    return known


def _same_numbers(release: Published) -> Floats:
    """Return a number for each key; it is equal for keys of equal estimates, and larger for larger ones.

    Tokens have this property. Without tokens, each key has numbers of its own.
    """
    if release.terms.keys_only:
        return np.ones(len(release))
    if release.terms.grid is None:
        return np.arange(len(release), 0.0, -1.0)
    tokens: Floats = release.table["token"].to_numpy()
    return tokens
