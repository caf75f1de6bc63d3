"""Bounding: each user keeps a bounded number of keys, chosen uniformly with secret coins.

What a user keeps depends on that user's own keys and coins, so adding or removing one user changes at most `limit`
frequencies, by one each. All engines use this module.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsample.private.derived_coins import encoded
from dpsample.private.pairs import Flags, numbered
from dpsample.private.randomness import Coins, Words

Rows = NDArray[np.intp]

_ROWS = (
    1 << 17
)  # of a piece that is sorted at once: numbers of users fit into the 18 bits above the coins
# bits of the coins that order a user's keys; ties, one pair of keys in 10**14, are broken by the keys themselves
_COIN_BITS = 46


def choose(batches: Iterable[pa.RecordBatch], limit: int, coins: Coins) -> Iterator[pa.RecordBatch]:
    """Let each user keep `limit` keys: those with the smallest of uniform numbers.

    Batches have the number of a user first, and then the columns of a key; a user's keys are distinct and follow one
    another. The batches that are returned have the keys that users keep, without the users.

    >>> from dpsample.private.randomness import SecretCoins
    >>> batch = pa.record_batch({"user": [1, 1, 1, 2], "key": ["a", "b", "c", "a"]})
    >>> sum(kept.num_rows for kept in choose([batch], 2, SecretCoins()))
    3
    """
    # the rows that the last user keeps so far, and their words: the user may go on in the next batch
    held: pa.RecordBatch | None = None
    held_words = np.zeros(0, np.uint64)
    for piece in _pieces(batches):
        fresh = coins.first(piece.num_rows)
        words = np.append(held_words, fresh >> np.uint64(64 - _COIN_BITS))
        batch = piece if held is None else _together(held, piece)
        kept, is_last_user = _kept_rows(batch, words, limit)
        held = batch.take(pa.array(kept[is_last_user]))
        held_words = words[kept[is_last_user]]
        if not is_last_user.all():
            of_others = batch.take(pa.array(kept[~is_last_user]))
            yield _keys(of_others)
    if held is not None:
        yield _keys(held)


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches in pieces that are short enough to be sorted at once."""
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS):
            yield batch.slice(start, _ROWS)


def _together(first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
    """Return one batch of the rows of two."""
    table = pa.Table.from_batches([first, second]).combine_chunks()
    [batch] = table.to_batches()
    return batch


def _kept_rows(batch: pa.RecordBatch, words: Words, limit: int) -> tuple[Rows, Flags]:
    """Return the rows that users keep, by user and word, and which of these rows are the last user's."""
    users = batch.column(0).to_numpy(zero_copy_only=False)
    begins = np.append(True, users[1:] != users[:-1])
    starts = np.flatnonzero(begins)
    number = numbered(begins) - 1  # of each row's user, from 0 on
    by_user_and_word = number.astype(np.uint64) << np.uint64(_COIN_BITS) | words
    order = _ordered(by_user_and_word, batch)
    rank = np.arange(len(users)) - starts[number]  # among the words of the user
    kept = order[rank < limit]
    return kept, kept >= starts[-1]


def _ordered(numbers: Words, batch: pa.RecordBatch) -> Rows:
    """Return the order of rows by their numbers, and of equal numbers by key.

    Equal numbers must not go by position, which depends on other users.
    """
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    for number in np.unique(repeated):
        start, end = np.searchsorted(ordered, [number, number + np.uint64(1)])
        tied = order[start:end]
        keys = encoded(_keys(batch.take(pa.array(tied))))
        by_key = sorted(range(len(tied)), key=keys.__getitem__)
        order[start:end] = tied[by_key]
    return order


def _keys(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns of the key, which follow the user."""
    key_columns = list(range(1, batch.num_columns))
    return batch.select(key_columns)
