"""Noise, drawn exactly: integers and coins only, no floats.

**Tables.** A table has an integer for each value; all of them sum to 2**128. A value is drawn by finding the place of a
uniform integer below 2**128 among the partial sums, `cuts`.

**Discrete Laplace noise.** ``Pr[X = x]`` is proportional to ``exp(-|x| / scale)`` over all integers x. Added to an
integer that one element or user changes by at most s, it is epsilon-private with scale = s / epsilon. Every probability
is exact: exp(-a/b) is never computed, it is drawn (Canonne, Kamath and Steinke, 2020, The Discrete Gaussian for
Differential Privacy, algorithms 1 and 2), from uniform integers that are themselves drawn without bias.
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
    rest_bits = BITS - 64
    inner_cuts = noise.cuts[1:-1]
    # the first 64 bits decide, unless they are equal to those of a cut: then all 128 bits do
    heads = np.array([cut >> rest_bits for cut in inner_cuts], np.uint64)
    places = np.searchsorted(heads, words, side="right")
    undecided = np.flatnonzero(np.isin(words, heads))
    for row in undecided.tolist():
        v = int(words[row]) << rest_bits | coins.more(row, rest_bits)
        places[row] = bisect_right(noise.cuts, v) - 1
    return places.astype(np.int64) - noise.cells // 2


def discrete_laplace(scale: Fraction, coins: Coins) -> int:
    """Draw a number with probability proportional to exp(-|x| / scale).

    >>> from dpsample.private.randomness import SecretCoins
    >>> -400 < discrete_laplace(Fraction(10), SecretCoins()) < 400
    True
    """
    t = scale.numerator
    s = scale.denominator
    while True:
        # rest + t * whole has probability proportional to exp(-y / t); its integer part over s is geometric, as |x| is
        rest = _below(t, coins)
        if not _exponential_coin(Fraction(rest, t), coins):
            continue
        whole = 0
        while _exponential_coin(Fraction(1), coins):
            whole += 1
        size = (rest + t * whole) // s
        negative = _below(2, coins) == 1
        if size or not negative:  # -0 is drawn again: 0 must not be twice as likely
            return -size if negative else size


def noisy_total(truth: int, stated: Total, coins: Coins) -> Total:
    """Return a total with the noise that is stated; `truth` counts in steps of its unit, and is private."""
    noisy = truth + discrete_laplace(stated.scale / stated.unit, coins)
    value = noisy * stated.unit
    return replace(stated, value=int(value) if stated.unit == 1 else value)


def _exponential_coin(x: Fraction, coins: Coins) -> bool:
    """Return True with probability exp(-x), where 0 <= x <= 1.

    Coins of probability x / 1, x / 2, ... are tossed until one fails. That the n-th is the first to fail has the
    probability x**(n - 1) / (n - 1)! - x**n / n!; over odd n, these add up to the series of exp(-x).
    """
    n = 1
    while _below(x.denominator * n, coins) < x.numerator:
        n += 1
    return n % 2 == 1


def _below(n: int, coins: Coins) -> int:
    """Draw a uniform integer from 0 to n - 1: integers of as many bits are drawn until one is below n."""
    bits = (n - 1).bit_length()
    words = -(-bits // 64)
    mask = (1 << bits) - 1
    while True:
        drawn = coins.first(words).tobytes()
        candidate = int.from_bytes(drawn, "little") & mask
        if candidate < n:
            return candidate
