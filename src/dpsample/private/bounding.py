"""Bounding: each user keeps at most so many keys, chosen uniformly with secret coins.

What a user keeps depends on that user's own keys and coins, so adding or removing one user changes at most `limit`
frequencies, by one each. All engines use this module.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from dpsample.private.randomness import Coins

_ROWS = 1 << 17  # sorted at once
_COIN_BITS = 46  # that order a user's keys; ties, one pair in 10**14, are broken by position


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
            order = np.argsort(number << np.uint64(_COIN_BITS) | words, kind="stable")
            kept = order[np.arange(len(users)) - np.repeat(first, sizes) < limit]
            last = kept >= first[-1]
            held, held_words = batch.take(pa.array(kept[last])), words[kept[last]]
            if not last.all():
                yield _keys(batch.take(pa.array(kept[~last])))
    if held is not None:
        yield _keys(held)


def _keys(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(list(range(1, batch.num_columns)))
