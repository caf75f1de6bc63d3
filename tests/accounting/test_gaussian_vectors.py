"""Gaussian noise on vectors: against sums over all outcomes, and drawn from its integers."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from scipy import stats

from dpsample import PrivacyViolation
from dpsample.accounting.gaussian import gaussian_law
from dpsample.accounting.vectors import VectorNoise, certify_vector_noise
from dpsample.balls import precision
from dpsample.private.noise import from_table
from dpsample.scheme.noise import BITS, KeyNoise
from given_coins import GivenCoins
from support import refused

mpmath.mp.dps = 50


def delta_of(noise: KeyNoise, change: tuple[int, ...], epsilon: float) -> float:
    """The exact delta of coordinates that change by so much: the sum over all outcomes, from the integers."""
    p = {z - noise.cells // 2: n for z, n in enumerate(noise.table)}
    one, factor = 1 << BITS, Fraction(math.exp(epsilon))
    total = Fraction(0)
    for outcome in product(*(range(min(p), max(p) + 1) for _ in change)):
        a = math.prod((p[z] for z in outcome), start=1)
        b = math.prod((p.get(z - s, 0) for z, s in zip(outcome, change, strict=True)), start=1)
        total += max(Fraction(a) - factor * b, Fraction(0))
    return float(total / one ** len(change))


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The delta of Gaussian noise (Balle and Wang, 2018)."""
    normal = stats.norm.cdf
    return float(normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("change", [(3,), (1,), (2, 2), (-3,), (1, -1)])
def test_no_change_within_the_length_costs_more_than_is_proved(change: tuple[int, ...]) -> None:
    """Small tables, with much set aside, in which the cut-off matters."""
    noise = VectorNoise.of(Fraction(1), Fraction(1, 50), length=3)
    assert sum(s * s for s in change) <= 9
    stage = certify_vector_noise(noise)
    for epsilon in (0.5, 1.0, 2.0):
        exact = delta_of(noise.noise, change, epsilon)
        proved = gaussian_delta(epsilon, math.sqrt(float(stage.square))) + float(stage.delta)
        assert exact <= proved * (1 + 1e-9)
        assert exact > 0


def test_the_ends_of_all_coordinates_are_set_aside() -> None:
    """A change of 1 in each of length**2 coordinates, of which each may fall off the end of its table.

    With the probability that one does, the outcome has no counterpart, at every epsilon. At epsilon 8 all else costs
    less than 1e-300.
    """
    length = 20
    noise = VectorNoise.of(Fraction("0.04"), Fraction("1e-3"), length)
    end = mpmath.mpf(noise.noise.half[0]) / (1 << BITS)
    found = 1 - (1 - end) ** length**2
    assert gaussian_delta(8, 0.2) < 1e-300
    proved = certify_vector_noise(noise).delta
    assert found <= mpmath.mpf(proved.numerator) / proved.denominator
    assert found > proved / length**2  # of one coordinate it would be too little


def test_the_table_is_the_rounded_normal_law() -> None:
    noise = VectorNoise.of(Fraction("0.04"), Fraction("1e-15"), length=2)
    scale = mpmath.sqrt(2 * mpmath.mpf(noise.variance.numerator) / noise.variance.denominator)
    side = noise.side
    for z in range(-side, side + 1, 7):
        exact = (mpmath.erf((z + mpmath.mpf(1) / 2) / scale) - mpmath.erf((z - mpmath.mpf(1) / 2) / scale)) / 2
        drawn = mpmath.mpf(noise.noise.table[z + side]) / 2**BITS
        assert abs(drawn - exact) <= exact * mpmath.mpf("1e-13") + mpmath.mpf(2) ** -120


@pytest.mark.parametrize("variance", [Fraction(256), Fraction(10**7, 3)])
@pytest.mark.parametrize("bits", [128, 256])
def test_cells_of_wide_noise_hold_the_differences_of_tails(variance: Fraction, bits: int) -> None:
    """A series with a remainder, against another library's erfc: each ball holds the true number, and is narrow."""
    side = math.isqrt(int(60 * variance))
    with precision(bits), mpmath.workdps(200):
        law = gaussian_law(variance, side)
        scale = mpmath.sqrt(mpmath.mpf(variance.numerator) / variance.denominator * 2)
        for j in (*range(1, 8), *range(8, side, side // 50), side):
            edges = ((j + mpmath.mpf(sign) / 2) / scale for sign in (-1, 1))
            near, far = (mpmath.erfc(edge) / 2 for edge in edges)
            cell = law[side - j]
            middle, radius = (mpmath.mpf(part.str(120, radius=False)) for part in (cell.mid(), cell.rad()))
            assert abs(middle - (near - far)) <= radius
            assert radius <= (near - far) * mpmath.mpf(2) ** (24 - bits)


def test_a_broken_table_is_refused_or_costs_more() -> None:
    noise = VectorNoise.of(Fraction("0.25"), Fraction("1e-12"))
    aside = certify_vector_noise(noise).delta
    half = list(noise.noise.half)
    moved = half[-3] // 1000
    half[-3] -= moved
    half[-1] += 2 * moved
    broken = KeyNoise(noise.noise.cells, tuple(half))
    assert certify_vector_noise(noise, broken).delta > 1000 * aside
    half[-3] //= 4
    half[-1] = (1 << BITS) - 2 * sum(half[:-1])
    with pytest.raises(PrivacyViolation, match="far below the probability of its cell"):
        certify_vector_noise(noise, KeyNoise(noise.noise.cells, tuple(half)))
    with pytest.raises(PrivacyViolation, match="another number of cells than its noise states"):
        certify_vector_noise(noise, KeyNoise.of([1, 2, 1]))
    with refused("noise of vectors must have a length"):
        replace(noise, length=noise.side)


def test_it_can_be_made_again() -> None:
    noise = VectorNoise.of(Fraction("0.25"), Fraction("1e-12"))
    assert VectorNoise.from_json(noise.to_json()) == noise


def test_what_cannot_be_made_is_refused() -> None:
    with refused("mu**2 of Gaussian noise must be above 0 and at most 25"):
        VectorNoise.of(Fraction(26), Fraction("1e-9"))
    with refused("integers of 128 bits are too coarse"):
        VectorNoise.of(Fraction(1), Fraction("1e-45"))


def test_values_are_drawn_by_comparing_integers() -> None:
    """At each cut, the integer below it and the integer at it draw different values: 64 bits alone cannot tell."""
    table = VectorNoise.of(Fraction(1), Fraction("1e-9"), length=4).noise
    low = (1 << (BITS - 64)) - 1
    for place, cut in enumerate(table.cuts[1:-1]):
        for v, value in ((cut - 1, place), (cut, place + 1)):
            word = np.array([v >> (BITS - 64)], np.uint64)
            assert from_table(table, 1, GivenCoins(word, v & low)).tolist() == [value - table.cells // 2]
