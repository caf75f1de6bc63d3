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

_CLOSE = (
    2.0**-40
)  # relative: far above the error of two logarithms; a larger one would decide more keys exactly
_FINE = 1408  # bits to which a decision is exact, as in `sanitizer`
_NEVER = 2.0**62  # no batch has as many elements


def held_counts(frequencies: Ints, sampling: SampleAndHold, coins: Coins) -> Ints:
    """Return the counts of keys that were not held: their elements from the first picked one on; 0 if none is picked.

    `frequencies` are the elements of each key in the batch. The counts are n - g + 1 of the module's docstring.

    >>> from dpsample.private.randomness import StreamCoins
    >>> held_counts(np.array([10, 10, 10]), SampleAndHold("0.1"), StreamCoins(bytes(32)))  # a public key: an example
    array([3, 3, 0])
    """
    words = coins.first(len(frequencies))
    passed_at_least, passed_at_most = _passed(words, sampling)
    first = passed_at_least + 1  # g
    undecided = (passed_at_least < passed_at_most) & (passed_at_least < frequencies)
    for row in np.flatnonzero(undecided).tolist():
        u = int(words[row]) << (_FINE - 64) | coins.more(row, _FINE - 64)
        last = min(int(passed_at_most[row]), int(frequencies[row]))
        candidates = range(int(first[row]), last + 1)
        first[row] += _place_of_picked(candidates, u, sampling)
    counts: Ints = np.maximum(frequencies - first + 1, 0)
    return counts


def _place_of_picked(candidates: range, u: int, sampling: SampleAndHold) -> int:
    """Return the place of g among candidates, in exact integers; their number if the picked one comes later."""

    def is_picked_by(g: int) -> bool:
        q_below, _ = sampling.bounds(g, _FINE)
        return u < q_below

    return bisect_left(candidates, True, key=is_picked_by)


def _passed(words: Words, sampling: SampleAndHold) -> tuple[Ints, Ints]:
    """Bound the number of elements that pass before the picked one, the integer part of ``log(1 - u) / log(1 - s)``.

    The first 64 bits of u are a word w, so u lies between ``w * 2**-64`` and ``(w + 1) * 2**-64``.
    """
    w = words.astype(np.float64)
    complement = (~words).astype(np.float64)  # 2**64 - 1 - w

    def bound(more: float, scale: float) -> Ints:
        """Return the integer part for u = (w + more) / 2**64, times a scale that covers the error of floats."""
        u = (w + more) * 2.0**-64
        rest = (complement + 1 - more) * 2.0**-64  # 1 - u, exact where that is small
        with np.errstate(divide="ignore"):
            log_rest = np.where(u < 0.5, np.log1p(-u), np.log(rest))
        passed = log_rest / sampling.log_passed * scale
        whole: Ints = np.floor(passed.clip(0, _NEVER)).astype(np.int64)
        return whole

    at_least = bound(0.0, 1 - _CLOSE)
    at_most = bound(1.0, 1 + _CLOSE)
    return at_least, at_most
