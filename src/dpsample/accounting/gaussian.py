"""Gaussian noise for keys: what each key gets of a budget that is stated as zCDP or GDP, and its proof.

privacy         k copies of an (epsilon', delta')-private scheme, by the exact zCDP or GDP of epsilon'
Gaussian noise  without sampling: bounded noise whose table is a rounded Gaussian law, cut off

A frequency plus rounded Gaussian noise is a post-processing of the frequency plus Gaussian noise. A table ends, which
costs a delta for each key. With g the probability of a cell under the rounded Gaussian law, m that of all cells of the
table, c its middle and e either end, it costs at most

    d = 1 - (m - g_c) / (m (1 - g_c + g_e))

if every integer but the middle one is g / m, rounded up (`set_aside` checks it). The proof is in docs/budget.md, "zCDP
and GDP budgets".
"""

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from dpsample.balls import ball, dyadic, figures_above, precision
from dpsample.exact import figures_below
from dpsample.lazy import flint
from dpsample.privacy import Privacy
from dpsample.scheme.noise import BITS, MOST_CELLS, KeyNoise
from dpsample.scheme.per_key import PerKey

if TYPE_CHECKING:
    from flint import arb, arb_poly

_PRECISION = 256  # bits, at first: what is compared are small parts of small probabilities
_MOST_PRECISION = 4096
_MOST_DEVIATIONS = 64  # of a table: no shorter delta can be asked for than such a one has
_FIGURES = 9
_WIDE = (
    1 << 8
)  # variance from which on cells are summed by a short series, in a quarter of the time of tails


def scheme_within(whole: Privacy, keys: int) -> Privacy:
    """Return the (epsilon', delta') of each of up to `keys` keys that together have a zCDP or GDP budget.

    >>> scheme_within(Privacy.zcdp("0.1", "1e-6"), 2)
    Privacy(epsilon='0.317...', delta='2.5e-07')
    """
    assert whole.definition is not None
    return Privacy(
        whole.definition.pure(Fraction(1, keys)), figures_below(whole.aside / keys, _FIGURES)
    )


@lru_cache(maxsize=64)
def noise_within(whole: Privacy, keys: int) -> KeyNoise | None:
    """Return the shortest Gaussian noise with which up to `keys` keys together have a zCDP or GDP budget.

    None if that would be longer than a million cells, or needs finer integers.

    >>> print(noise_within(Privacy.zcdp("0.1", "1e-6"), 50))
    bounded noise of 175 cells
    """
    variance, most = variance_of(whole, keys), whole.aside / keys
    low, high = 0, 1
    while high <= MOST_CELLS // 2 and not _lost(variance, high) <= most:
        low, high = high, 2 * high
    while high - low > 1:  # cells on either side of the middle
        middle = (low + high) // 2
        low, high = (low, middle) if _lost(variance, middle) <= most else (middle, high)
    if 2 * high + 1 > MOST_CELLS:
        return None
    noise = gaussian_noise(variance, high)
    aside = None if noise is None else set_aside(noise, variance)
    return noise if aside is not None and aside <= most else None


def variance_of(whole: Privacy, keys: int) -> Fraction:
    """Return the variance of Gaussian noise with which `keys` keys have a zCDP or GDP budget."""
    assert whole.definition is not None
    return keys * whole.definition.variance


def gaussian_noise(variance: Fraction, side: int) -> KeyNoise | None:
    """Return the table of a rounded Gaussian law, cut off `side` cells from its middle.

    Each integer is 2**128 times the probability of its cell, given that none is cut off, rounded up; the middle has the
    rest. Bits are added until all are certain, so that the table is the same on every machine. None if the middle would
    have no more than its neighbour, or if no number of bits makes all certain.
    """
    bits = _PRECISION
    while bits <= _MOST_PRECISION:
        with precision(bits):
            cells = gaussian_law(variance, side)
            scale = dyadic(1, -BITS) / _within(variance, side)
            outer = [(g * scale).ceil().unique_fmpz() for g in cells[:-1]]
        if None not in outer:
            break
        bits *= 2
    else:
        return None
    half = [int(n) for n in outer if n is not None]
    middle = (1 << BITS) - 2 * sum(half)
    return KeyNoise(2 * side + 1, (*half, middle)) if middle > half[-1] else None


def set_aside(noise: KeyNoise, variance: Fraction) -> Fraction | None:
    """Return the delta that a key costs with this noise, besides that of Gaussian noise of this variance, rounded up.

    None if it is not the table of that noise: if an integer is not the one that the law gives, or it has an offset.
    """
    side = noise.cells // 2
    if not may_be_gaussian(noise, variance):
        return None
    with precision(_PRECISION):
        cells, within = gaussian_law(variance, side), _within(variance, side)
        for n, g in zip(noise.half[:-1], cells[:-1], strict=True):
            exact = g / within
            if not (dyadic(n, BITS) >= exact and dyadic(n - 1, BITS) < exact):
                return None
        lost = _lost_ball(variance, side)
        # the middle, which has the rest, must have as much room as its neighbour
        ratio = 1 / (1 - lost)
        room = ratio / within - 1
        if not (room > 0 and ratio * dyadic(noise.half[-1], BITS) - cells[-1] >= cells[-2] * room):
            return None
        return figures_above(lost, _FIGURES)


def may_be_gaussian(noise: KeyNoise, variance: Fraction) -> bool:
    """Whether a table has a middle, no offset, and a length that some delta asks for: this is looked at first."""
    side = noise.cells // 2
    return (
        noise.cells % 2 == 1
        and not noise.offset
        and side**2 <= _MOST_DEVIATIONS**2 * (variance + 1)
    )


def delta_within(each: PerKey, keys: int, whole: Privacy) -> Fraction:
    """Return a proved delta of `keys` keys together at the epsilon of a zCDP or GDP budget; 1 if nothing is proved.

    Half of delta is for the conversion; what is set aside comes on top.
    """
    assert whole.definition is not None
    aside: Fraction | None = None
    if isinstance(each, KeyNoise):
        aside = set_aside(each, variance_of(whole, keys))
    elif (
        isinstance(each, Privacy)
        and each.definition is None
        and whole.definition.allows(each.epsilon, keys)
    ):
        aside = each.delta
    return (
        Fraction(1) if aside is None else min(whole.delta - whole.aside + keys * aside, Fraction(1))
    )


def method_within(each: PerKey, keys: int, whole: Privacy) -> str:
    """State how that was proved."""
    assert whole.definition is not None
    if isinstance(each, KeyNoise):
        how = f"by Gaussian noise of variance {float(variance_of(whole, keys)):.9g}, rounded and cut off"
    else:
        how = f"by the {whole.definition.symbol} that follows from its epsilon"
    return f"{how}, in ball arithmetic"


def _lost(variance: Fraction, side: int) -> Fraction:
    """What a table of this length costs, if its integers are good enough."""
    with precision(_PRECISION):
        return figures_above(_lost_ball(variance, side), _FIGURES)


def _lost_ball(variance: Fraction, side: int) -> "arb":
    """1 - (m - g_c) / (m (1 - g_c + g_e)), by tails, which keep their precision where they are small."""
    near, end, far = (gaussian_tail(variance, j) for j in (1, side, side + 1))
    return 1 - 2 * (near - far) / ((1 - 2 * far) * (2 * near + end - far))


def gaussian_law(variance: Fraction, side: int) -> "tuple[arb, ...]":
    """The probabilities of a rounded Gaussian law, from `side` cells away up to its middle, at this precision."""
    return _gaussian_law(variance, side, flint.ctx.prec)


@lru_cache(maxsize=8)  # a table is made, and then proved
def _gaussian_law(variance: Fraction, side: int, bits: int) -> "tuple[arb, ...]":
    with precision(bits):
        unit = (
            1 / (8 * ball(variance)).sqrt()
        )  # half of a cell, of a variable with density exp(-t**2) / sqrt(pi)
        middle = 1 - unit.erfc()
        if variance < _WIDE:
            tails = [((2 * j - 1) * unit).erfc() / 2 for j in range(side + 1, 0, -1)]
            cells = [near - far for far, near in pairwise(tails)]
            return *cells, middle
        density = _cell_series(unit, 2 * side * unit, bits)
        step = 4 * unit**2
        squares = [j * j * step for j in range(side, 0, -1)]
        cells = [(-square).exp() * density(square) for square in squares]
        return *cells, middle


def _cell_series(unit: "arb", furthest: "arb", bits: int) -> "arb_poly":
    """A polynomial in c**2 that is exp(c**2) times the probability of the cell around c, up to `furthest`.

    It is 2 / sqrt(pi) times the integral, from 0 to u = `unit`, of cosh(2 c s) exp(-s**2), a power series in s**2. On
    the circle abs(s) = 1 that function is at most exp(2 c + 1), and so is each of its coefficients. All terms after
    the first n are together at most ``exp(2 c + 1) u**(2 n + 1) / (1 - u**2)``: a radius of the first coefficient.
    """
    n, square = 1, unit**2
    left_out = (2 * furthest + 1).exp() * unit * square / (1 - square)
    while not left_out < dyadic(1, bits) * unit:
        n += 1
        left_out *= square
    powers = [unit ** (2 * k + 1) / (2 * k + 1) for k in range(n)]  # integrals of s**(2 k)

    def coefficient(m: int) -> "arb":
        """The integral of the term (2 c s)**(2 m) of the cosh times exp(-s**2), as a series."""
        series = flint.arb(0)
        for k in range(m, n):
            sign = (-1) ** (k - m)
            series += ball(Fraction(sign, math.factorial(k - m))) * powers[k]
        return ball(Fraction(4**m, math.factorial(2 * m))) * series

    coefficients = [coefficient(m) for m in range(n)]
    coefficients[0] += flint.arb(0, left_out.upper())
    return flint.arb_poly([2 / flint.arb.pi().sqrt() * c for c in coefficients])


def _within(variance: Fraction, side: int) -> "arb":
    return 1 - 2 * gaussian_tail(variance, side + 1)


def gaussian_tail(variance: Fraction, j: int) -> "arb":
    """The probability of more than j - 1/2."""
    return (ball(Fraction(2 * j - 1, 2)) / (2 * ball(variance)).sqrt()).erfc() / 2
