"""Keys of a stream that were counted elsewhere, a batch at a time: from which element on they are held. NOT private.

Elements of a key that is not held are picked with probability s each. So the first picked one is the g-th, with
probability ``s (1 - s)**(g - 1)``; if none of the n elements of a batch is picked, the elements of the next batch are
independent of them. A key with n elements in a batch therefore needs one number u, uniform in [0, 1): g is the least
integer with ``u < q_g = 1 - (1 - s)**g``, and the key is held with n - g + 1 elements if g <= n.
"""

from bisect import bisect_left

import numpy as np

from dpsample.private.randomness import Coins, Words
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.sampling import Ints

_CLOSE = 2.0**-40  # relative: far above the error of two logarithms
_FINE = 1408  # bits to which a decision is exact, as for other samples
_NEVER = 2.0**62  # no batch has as many elements


def held_counts(frequencies: Ints, sampling: SampleAndHold, coins: Coins) -> Ints:
    """Return how many elements of keys that are not held count, from the picked one on; 0 if none is picked.

    >>> from dpsample.private.randomness import StreamCoins
    >>> held_counts(np.array([10, 10, 10]), SampleAndHold("0.1"), StreamCoins(bytes(32)))  # a public key: an example
    array([3, 3, 0])
    """
    words = coins.first(len(frequencies))
    low, high = _passed(words, sampling)
    first = low + 1
    undecided = (low < high) & (low < frequencies)
    for row in np.flatnonzero(undecided).tolist():
        u = int(words[row]) << (_FINE - 64) | coins.more(row, _FINE - 64)
        last = min(int(high[row]), int(frequencies[row]))
        candidates = range(int(first[row]), last + 1)
        first[row] += bisect_left(candidates, True, key=lambda g: u < sampling.bounds(g, _FINE)[0])
    counts: Ints = np.maximum(frequencies - first + 1, 0)
    return counts


def _passed(words: Words, sampling: SampleAndHold) -> tuple[Ints, Ints]:
    """Bound how many elements pass before the picked one: the whole part of ``log(1 - u) / log(1 - s)``.

    The first 64 bits of u are a word w: u is from ``w 2**-64`` to ``(w + 1) 2**-64``, and 1 - u accordingly.
    """
    w = words.astype(np.float64)
    rest = (~words).astype(np.float64)

    def bound(more: float, scale: float) -> Ints:
        u = (w + more) * 2.0**-64
        left = (rest + 1 - more) * 2.0**-64  # 1 - u, where that is small
        with np.errstate(divide="ignore"):
            log = np.where(u < 0.5, np.log1p(-u), np.log(left))
        passed = (log / sampling.log_passed * scale).clip(0, _NEVER)
        whole: Ints = np.floor(passed).astype(np.int64)
        return whole

    return bound(0.0, 1 - _CLOSE), bound(1.0, 1 + _CLOSE)
