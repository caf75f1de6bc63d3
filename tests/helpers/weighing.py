"""A random weighing of keys, for tests of amounts."""

from __future__ import annotations

import numpy as np

from dpsample.private.users.keys_each import FewKeys
from dpsample.private.users.lengths import most_lost
from dpsample.private.users.weighing import Clip, Weighing, groups_of, head_of


def weighing_of(rng: np.random.Generator, keys: int) -> Weighing:
    """A clip, a head and weights that publish nothing impossible."""
    popularity = rng.uniform(5, 300, keys)
    head = head_of(popularity, float(rng.uniform(1, 8)))
    length = int(rng.integers(8, 200))
    base = float((1 / popularity[~head]).min())
    square, longest = base * float(rng.uniform(0.5, 4)), base * 2.0 ** rng.integers(0, 5)
    weights = np.maximum(np.round(length / np.sqrt(popularity * (square + 0.05))), 1).astype(np.int64)
    while int((weights[head] ** 2).sum()) > length**2 * 3 // 4:
        head[np.flatnonzero(head)[0]] = False
    own, groups = int((weights[head] ** 2).sum()), int(rng.integers(1, 4))
    clip = Clip(square, longest, most_lost(square, longest), groups)
    few = FewKeys(float(rng.uniform(1, 4)), 100.0, 50.0, 90.0)
    of_keys = groups_of(popularity, head, groups)
    return Weighing(popularity, head, weights, length, length**2 - own, clip, of_keys, few)
