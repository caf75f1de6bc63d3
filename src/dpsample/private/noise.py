"""Noise, drawn exactly: integers and coins only, no floats.

**Tables.** A value is the place of a uniform integer below 2**128 among the sums of a table's integers.

**Discrete Laplace noise.**

``Pr[X = x]`` is proportional to ``exp(-|x| / scale)`` over all integers x. Added to an integer that one element or user
changes by at most s, it is epsilon-private with scale = s / epsilon. Every probability is exact: exp(-a/b) is never
computed, it is drawn (Canonne, Kamath and Steinke, 2020), from uniform integers that are themselves drawn without bias.
"""

from bisect import bisect_right
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dpsample.accounting.totals import Total
from dpsample.private.randomness import Coins
from dpsample.scheme.noise import BITS, KeyNoise
from dpsample.scheme.sampling import Ints


def from_table(noise: KeyNoise, n: int, coins: Coins) -> Ints:
    """Draw n values around 0 from a symmetric table; `cells` is odd.

    >>> from dpsample.private.randomness import StreamCoins
    >>> from_table(KeyNoise.of([1, 2, 1]), 8, StreamCoins(bytes(32)))  # a key that everybody knows: for an example
    array([ 0,  0,  0,  0,  0, -1,  0,  0])
    """
    words = coins.first(n)
    more = BITS - 64
    inner = noise.cuts[1:-1]
    # the first 64 bits decide, unless they are those of a cut, which the other 64 then tell
    heads = np.array([cut >> more for cut in inner], np.uint64)
    places = np.searchsorted(heads, words, side="right")
    undecided = np.flatnonzero(np.isin(words, heads))
    for row in undecided.tolist():
        v = int(words[row]) << more | coins.more(row, more)
        places[row] = bisect_right(noise.cuts, v) - 1
    return places.astype(np.int64) - noise.cells // 2


def discrete_laplace(scale: Fraction, coins: Coins) -> int:
    """Draw a number with probability proportional to exp(-|x| / scale).

    >>> from dpsample.private.randomness import SecretCoins
    >>> -400 < discrete_laplace(Fraction(10), SecretCoins()) < 400
    True
    """
    t, s = scale.numerator, scale.denominator
    while True:
        # |x| is geometric: the integer part of (rest + t * whole) / s, which has density proportional to exp(-/t)
        rest = _below(t, coins)
        if not _exponential_coin(Fraction(rest, t), coins):
            continue
        whole = 0
        while _exponential_coin(Fraction(1), coins):
            whole += 1
        size = (rest + t * whole) // s
        negative = _below(2, coins) == 1
        if size or not negative:  # 0 has one sign
            return -size if negative else size


def noisy_total(truth: int, stated: Total, coins: Coins) -> Total:
    """Return a private total as it was stated, with its value: the true one, in units, plus discrete Laplace noise."""
    value = (truth + discrete_laplace(stated.scale / stated.unit, coins)) * stated.unit
    return replace(stated, value=int(value) if stated.unit == 1 else value)


def _exponential_coin(x: Fraction, coins: Coins) -> bool:
    """True with probability exp(-x), 0 <= x <= 1: whether the first n with a failed coin of x / n is odd."""
    n = 1
    while _below(x.denominator * n, coins) < x.numerator:
        n += 1
    return n % 2 == 1


def _below(n: int, coins: Coins) -> int:
    """Draw a uniform integer from 0 to n - 1."""
    bits = (n - 1).bit_length()
    words = -(-bits // 64)
    mask = (1 << bits) - 1
    while True:
        drawn = int.from_bytes(coins.first(words).tobytes(), "little")
        if drawn & mask < n:
            return drawn & mask
