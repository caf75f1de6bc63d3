"""Bounding: each user keeps a bounded number of keys, chosen uniformly with secret coins.

What a user keeps depends on that user's own keys and coins, so adding or removing one user changes at most `limit`
frequencies, by one each. All engines use this module.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsample.private.derived_coins import encoded
from dpsample.private.randomness import Coins, Words

_ROWS = 1 << 17  # sorted at once
_COIN_BITS = 46  # that order a user's keys; ties, one pair in 10**14, are broken by the keys themselves


def choose(batches: Iterable[pa.RecordBatch], limit: int, coins: Coins) -> Iterator[pa.RecordBatch]:
    """Let each user keep `limit` keys: those with the smallest of uniform numbers.

    Batches have the number of a user first, and then the columns of a key; a user's keys are distinct and follow one
    another. What comes out are the keys that are kept, without the user.

    >>> from dpsample.private.randomness import SecretCoins
    >>> batch = pa.record_batch({"user": [1, 1, 1, 2], "key": ["a", "b", "c", "a"]})
    >>> sum(kept.num_rows for kept in choose([batch], 2, SecretCoins()))
    3
    """
    held: pa.RecordBatch | None = None  # the last user's keys so far, who may go on in the next batch
    held_words = np.zeros(0, np.uint64)
    for whole in batches:
        for start in range(0, whole.num_rows, _ROWS):
            batch = whole.slice(start, _ROWS)
            words = np.append(held_words, coins.first(batch.num_rows) >> np.uint64(64 - _COIN_BITS))
            if held is not None:
                [batch] = pa.Table.from_batches([held, batch]).combine_chunks().to_batches()
            users = batch.column(0).to_numpy(zero_copy_only=False)
            first = np.flatnonzero(np.append(True, users[1:] != users[:-1]))
            sizes = np.diff(np.append(first, len(users)))
            number = np.repeat(np.arange(len(first), dtype=np.uint64), sizes)
            order = _ordered(number << np.uint64(_COIN_BITS) | words, batch)
            kept = order[np.arange(len(users)) - np.repeat(first, sizes) < limit]
            last = kept >= first[-1]
            held, held_words = batch.take(pa.array(kept[last])), words[kept[last]]
            if not last.all():
                yield _keys(batch.take(pa.array(kept[~last])))
    if held is not None:
        yield _keys(held)


def _ordered(numbers: Words, batch: pa.RecordBatch) -> NDArray[np.intp]:
    """Return the order of rows by their numbers; equal ones by key, never by position, which depends on other users."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    for number in np.unique(ordered[1:][ordered[1:] == ordered[:-1]]):
        start, end = np.searchsorted(ordered, number, "left"), np.searchsorted(ordered, number, "right")
        tied = order[start:end]
        keys = encoded(_keys(batch.take(pa.array(tied))))
        order[start:end] = tied[sorted(range(len(tied)), key=keys.__getitem__)]
    return order


def _keys(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(list(range(1, batch.num_columns)))
