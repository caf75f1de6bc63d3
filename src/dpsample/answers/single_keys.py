"""What a release tells of single keys: by the law of their own scheme, which a coordinated sample has for each key."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpsample.answers.selection import Selection
from dpsample.release.key_hash import first_frequencies
from dpsample.release.rows import added_elements, token_cells
from dpsample.scheme.likelihood import likely_frequencies
from dpsample.scheme.sampling import Ints, KeepAll, Sampling

if TYPE_CHECKING:
    from dpsample.answers.release import Release


def key_frequencies(release: "Release", rows: Ints, level: float) -> tuple[Any, Any, Any]:
    """Return the likeliest frequency of the key of each row, and the ends of its confidence interval."""
    own = getattr(release, "frequencies", None)  # of a stream, which is asked in steps
    if own is not None:
        found: tuple[Any, Any, Any] = own(rows, level)
        return found
    assert release.grid is not None
    table = release.table.take(pa.array(rows))
    cells = token_cells(table["token"], release.grid)
    scheme = release.sampling.sanitized_as, release.per_key, release.grid, level
    if release.sampling.seed is None:
        return likely_frequencies(cells, *scheme)
    added = added_elements(key_batch(table), release.terms)
    value, low, high = likely_frequencies(cells + added * release.grid, *scheme)
    return value - added, low - added, high - added


def scheme_of_key(release: "Release", key: Any) -> Sampling:
    """Return the scheme by which a key was reported, or was not.

    In a coordinated sample the hash of the key is known: all keys were kept from its first frequency on.
    """
    if release.sampling.seed is None:
        return release.sampling
    [first] = first_frequencies(key_batch(Selection(release, [key]).chosen_keys), release.sampling)
    return KeepAll(at_least=int(first))


def key_batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table as one batch."""
    columns = [pa.concat_arrays(column.chunks) if column.num_chunks else column.combine_chunks() for column in table]
    return pa.RecordBatch.from_arrays(columns, names=table.column_names)
