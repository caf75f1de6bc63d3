"""Discrete Laplace noise: its law, exactly where bits can be enumerated and by counts elsewhere."""

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from dpsample.private.noise import _below, _exponential_coin, discrete_laplace
from dpsample.private.randomness import Coins, SecretCoins, Words
from given_coins import GivenCoins

pytestmark = pytest.mark.chance("odds 1e-9: some 25 counts, each refused if a binomial tail is below 1e-11")


class _Batched(Coins):
    """Secret coins, drawn in bulk: one call for each word would take most of a test's time."""

    def __init__(self) -> None:
        self._source, self._words, self._at = SecretCoins(), np.zeros(0, np.uint64), 0

    def first(self, n: int) -> Words:
        if self._at + n > len(self._words):
            self._words, self._at = self._source.first(1 << 16), 0
        self._at += n
        return self._words[self._at - n : self._at]

    def more(self, row: int, bits: int) -> int:
        raise AssertionError("not used")


def test_integers_below_n_are_uniform() -> None:
    for n in (1, 2, 3, 5, 8, 1000):
        bits = (n - 1).bit_length()
        accepted = Counter(_below(n, GivenCoins(np.array([v, 0], np.uint64))) for v in range(n))
        assert accepted == Counter(range(n))
        for v in range(n, 1 << bits):  # rejected, and drawn anew: the next word is 0
            assert _below(n, GivenCoins(np.array([v, 0], np.uint64))) == 0
    huge = 10**40  # more than two words
    assert max(_below(huge, SecretCoins()) for _ in range(200)) > huge // 2  # odds 2**-200
    assert _below(huge, GivenCoins(np.array([5, 7, 0], np.uint64))) == 5 + (7 << 64)


@pytest.mark.parametrize(("a", "b"), [(1, 2), (3, 4), (2, 3)])
def test_the_exponential_coin_is_the_series(a: int, b: int) -> None:
    """By enumeration of all its draws up to n = 6: heads with probability sum_n (-x)**n / n!, up to the rest."""
    heads = rest = Fraction(0)
    x = Fraction(a, b)
    for n in range(1, 7):  # the first n that fails
        reached = math.prod((x / m for m in range(1, n)), start=Fraction(1))
        heads += reached * (1 - x / n) * (n % 2)
        rest = reached * x / n
    assert abs(float(heads) - math.exp(-x)) <= float(rest)
    # and the function does that: for each n, draws that pass n - 1 times and then fail
    for n, top in product(range(1, 7), (0, a * 1 - 1)):
        words = [top] * (n - 1) + [b * n - 1]  # below a, so that it goes on; then the largest, which is not below a
        if b * n - 1 >= a:
            assert _exponential_coin(x, GivenCoins(np.array(words, np.uint64))) is (n % 2 == 1)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(37, 5), Fraction(10**30, 10**29)], ids=str)
def test_the_law_of_the_noise(scale: Fraction) -> None:
    # counts of each value, and of the tails, are binomial; a tail below 1e-11 is refused: 30 values, odds 1e-9 in all
    n, coins = 30_000, _Batched()
    drawn = Counter(discrete_laplace(scale, coins) for _ in range(n))
    a = math.exp(-1 / scale)
    cut = min(10, math.ceil(4 * scale))
    probabilities = {x: (1 - a) / (1 + a) * a ** abs(x) for x in range(-cut, cut + 1)}
    probabilities |= {"below": a ** (cut + 1) / (1 + a), "above": a ** (cut + 1) / (1 + a)}  # type: ignore[dict-item]
    assert sum(probabilities.values()) == pytest.approx(1)
    seen = Counter("below" if x < -cut else "above" if x > cut else x for x in drawn.elements())
    for x, p in probabilities.items():
        assert min(stats.binom.cdf(seen[x], n, p), stats.binom.sf(seen[x] - 1, n, p)) > 1e-11


def test_the_ratio_that_privacy_needs() -> None:
    """Exactly exp(1 / scale) between neighbours: the law is geometric on each side, so it suffices to know its form."""
    scale = Fraction(5, 2)
    # |x| = (rest + 5 whole) // 2, rest uniform below 5 kept with exp(-rest / 5): weights of the ten first values
    weight = [math.exp(-m / 5) for m in range(20)]
    sizes = [weight[2 * x] + weight[2 * x + 1] for x in range(10)]
    for x in range(9):
        assert sizes[x] / sizes[x + 1] == pytest.approx(math.exp(1 / scale), rel=1e-12)
