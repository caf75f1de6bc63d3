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
from dpsample.definitions import Definition
from dpsample.exact import figures_below
from dpsample.lazy import flint
from dpsample.privacy import Privacy
from dpsample.scheme.noise import BITS, MOST_CELLS, KeyNoise
from dpsample.scheme.per_key import PerKey

if TYPE_CHECKING:
    from flint import arb, arb_poly

# Bits of the first attempt to round the cells of a table, and of its proof. Small parts of small probabilities are
# compared, of 2**-128 and below.
_PRECISION = 256
# The attempt is repeated with twice the bits until every integer is certain, or this number is exceeded. Then no table
# is made.
_MOST_PRECISION = 4096
# A table is at most this many deviations long on either side: beyond, a normal law has less than 1e-800, and the least
# delta is 1e-200. Longer tables in a file are refused, before anything is computed from them.
_MOST_DEVIATIONS = 64
# Figures of what is set aside, rounded up.
_FIGURES = 9
# From this variance on, cells are computed by a short series, in a quarter of the time of differences of tails.
_WIDE = 1 << 8


def scheme_within(whole: Privacy, keys: int) -> Privacy:
    """Return the (epsilon', delta') of each key, if up to `keys` keys together spend a zCDP or GDP budget.

    >>> scheme_within(Privacy.zcdp("0.1", "1e-6"), 2)
    Privacy(epsilon='0.317...', delta='2.5e-07')
    """
    assert whole.definition is not None
    epsilon = whole.definition.pure(Fraction(1, keys))
    delta = figures_below(whole.aside / keys, _FIGURES)
    return Privacy(epsilon, delta)


@lru_cache(maxsize=64)
def noise_within(whole: Privacy, keys: int) -> KeyNoise | None:
    """Return the shortest Gaussian noise with which up to `keys` keys together spend a zCDP or GDP budget.

    The length is found by bisection. None if it is more than a million cells, or if integers over 2**128 are too
    coarse for the proof.

    >>> print(noise_within(Privacy.zcdp("0.1", "1e-6"), 50))
    bounded noise of 175 cells
    """
    variance = variance_of(whole, keys)
    most_aside = whole.aside / keys
    low = 0
    high = 1  # cells on either side of the middle
    while high <= MOST_CELLS // 2 and not _lost(variance, high) <= most_aside:
        low = high
        high = 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _lost(variance, middle) <= most_aside:
            high = middle
        else:
            low = middle
    if 2 * high + 1 > MOST_CELLS:
        return None
    noise = gaussian_noise(variance, high)
    if noise is None:
        return None
    aside = set_aside(noise, variance)
    if aside is None or aside > most_aside:
        return None
    return noise


def variance_of(whole: Privacy, keys: int) -> Fraction:
    """Return the variance of Gaussian noise with which `keys` keys together spend a zCDP or GDP budget."""
    assert whole.definition is not None
    return keys * whole.definition.variance


def gaussian_noise(variance: Fraction, side: int) -> KeyNoise | None:
    """Return the table of a rounded Gaussian law, cut off `side` cells from its middle.

    Each integer is 2**128 times the probability of its cell, given that none is cut off, rounded up; the middle has the
    rest. Bits are added until every integer is certain, so that the table is the same on every machine. None if the
    middle would not be larger than its neighbour, or if an integer is still uncertain with `_MOST_PRECISION` bits.
    """
    outer = _rounded_cells(variance, side)
    if outer is None:
        return None
    middle = (1 << BITS) - 2 * sum(outer)
    if middle <= outer[-1]:
        return None
    return KeyNoise(2 * side + 1, (*outer, middle))


def _rounded_cells(variance: Fraction, side: int) -> list[int] | None:
    """Return the integers of all cells on one side of the middle, or None if they cannot be made certain."""
    bits = _PRECISION
    while bits <= _MOST_PRECISION:
        with precision(bits):
            cells = gaussian_law(variance, side)
            scale = dyadic(1, -BITS) / _within(variance, side)
            rounded = [(cell * scale).ceil().unique_fmpz() for cell in cells[:-1]]
        certain = [int(n) for n in rounded if n is not None]
        if len(certain) == len(rounded):
            return certain
        bits *= 2
    return None


def set_aside(noise: KeyNoise, variance: Fraction) -> Fraction | None:
    """Return an upper bound of the delta that a key costs with this table, beside the cost of exact Gaussian noise.

    None if it is not the table of Gaussian noise with this variance: if one of its integers is not the one that the law
    gives, or if it has an offset.
    """
    side = noise.cells // 2
    if not may_be_gaussian(noise, variance):
        return None
    with precision(_PRECISION):
        cells = gaussian_law(variance, side)
        within = _within(variance, side)
        for integer, cell in zip(noise.half[:-1], cells[:-1], strict=True):
            exact = cell / within
            is_rounded_up = dyadic(integer, BITS) >= exact and dyadic(integer - 1, BITS) < exact
            if not is_rounded_up:
                return None
        lost = _lost_ball(variance, side)
        # The proof scales all cells by `ratio` to make up for what is lost. The middle, whose integer is what the
        # others leave, must then have as much room above its own cell as its neighbour has (docs/budget.md).
        ratio = 1 / (1 - lost)
        room = ratio / within - 1
        scaled_middle = ratio * dyadic(noise.half[-1], BITS)
        middle_has_room = scaled_middle - cells[-1] >= cells[-2] * room
        if not (room > 0 and middle_has_room):
            return None
        return figures_above(lost, _FIGURES)


def may_be_gaussian(noise: KeyNoise, variance: Fraction) -> bool:
    """Whether a table has a middle, no offset, and a length that some delta asks for.

    This is quick, and is checked before anything is computed from a table that a file states.
    """
    side = noise.cells // 2
    has_middle = noise.cells % 2 == 1
    not_too_long = side**2 <= _MOST_DEVIATIONS**2 * (variance + 1)
    return has_middle and not noise.offset and not_too_long


def delta_within(each: PerKey, keys: int, whole: Privacy) -> Fraction:
    """Return a proved delta of `keys` keys together, at the epsilon of a zCDP or GDP budget; 1 if nothing is proved.

    Half of delta is for the conversion to epsilon. What each key sets aside is added to it.
    """
    assert whole.definition is not None
    aside = _aside_within(each, keys, whole, whole.definition)
    if aside is None:
        return Fraction(1)
    for_conversion = whole.delta - whole.aside
    return min(for_conversion + keys * aside, Fraction(1))


def _aside_within(
    each: PerKey, keys: int, whole: Privacy, definition: Definition
) -> Fraction | None:
    """Return the delta that each key sets aside, or None if `keys` keys are not proved to stay within the budget."""
    if isinstance(each, KeyNoise):
        return set_aside(each, variance_of(whole, keys))
    if not isinstance(each, Privacy) or each.definition is not None:
        return None
    if not definition.allows(each.epsilon, keys):
        return None
    return each.delta


def method_within(each: PerKey, keys: int, whole: Privacy) -> str:
    """Return how `delta_within` proves its delta, in words."""
    assert whole.definition is not None
    if isinstance(each, KeyNoise):
        variance = float(variance_of(whole, keys))
        how = f"by Gaussian noise of variance {variance:.9g}, rounded and cut off"
    else:
        how = f"by the {whole.definition.symbol} that follows from its epsilon"
    return f"{how}, in ball arithmetic"


def _lost(variance: Fraction, side: int) -> Fraction:
    """Return the delta of a table with this many cells on either side, if its integers are good enough, rounded up."""
    with precision(_PRECISION):
        return figures_above(_lost_ball(variance, side), _FIGURES)


def _lost_ball(variance: Fraction, side: int) -> "arb":
    """Return d of the module's docstring, ``1 - (m - g_c) / (m (1 - g_c + g_e))``.

    All terms are written as tails of the normal law, which keep their precision where they are small: with T_j the
    probability of more than j - 1/2, the middle is ``1 - 2 T_1``, the end ``T_side - T_(side+1)``, and the cells of the
    table ``1 - 2 T_(side+1)`` together.
    """
    near = gaussian_tail(variance, 1)
    end = gaussian_tail(variance, side)
    far = gaussian_tail(variance, side + 1)
    return 1 - 2 * (near - far) / ((1 - 2 * far) * (2 * near + end - far))


def gaussian_law(variance: Fraction, side: int) -> "tuple[arb, ...]":
    """Return the probabilities of a rounded Gaussian law, from `side` cells away up to its middle.

    They are computed with the precision of the context.
    """
    return _gaussian_law(variance, side, flint.ctx.prec)


@lru_cache(maxsize=8)  # a table is made, and then proved
def _gaussian_law(variance: Fraction, side: int, bits: int) -> "tuple[arb, ...]":
    with precision(bits):
        # half of a cell, in units in which the density is exp(-t**2) / sqrt(pi)
        unit = 1 / (8 * ball(variance)).sqrt()
        middle = 1 - unit.erfc()
        if variance < _WIDE:
            tails = [((2 * j - 1) * unit).erfc() / 2 for j in range(side + 1, 0, -1)]
            cells = [near - far for far, near in pairwise(tails)]
            return *cells, middle
        scaled_probability = _cell_series(unit, 2 * side * unit, bits)
        squared_width = 4 * unit**2
        squares = [j * j * squared_width for j in range(side, 0, -1)]
        cells = [(-square).exp() * scaled_probability(square) for square in squares]
        return *cells, middle


def _cell_series(unit: "arb", furthest: "arb", bits: int) -> "arb_poly":
    """Return a polynomial in c**2 whose value is exp(c**2) times the probability of the cell around c.

    It is 2 / sqrt(pi) times the integral, from 0 to u = `unit`, of cosh(2 c s) exp(-s**2), a power series in s**2. It
    holds up to c = `furthest`. On the circle abs(s) = 1 the integrand is at most exp(2 c + 1), and so is each of its
    coefficients (Cauchy's estimate). So all terms after the first n are together at most
    ``exp(2 c + 1) u**(2 n + 1) / (1 - u**2)``, which becomes the radius of the first coefficient.
    """
    square = unit**2
    terms = 1
    left_out = (2 * furthest + 1).exp() * unit * square / (1 - square)
    while not left_out < dyadic(1, bits) * unit:
        terms += 1
        left_out *= square
    integrals = [unit ** (2 * k + 1) / (2 * k + 1) for k in range(terms)]  # of s**(2 k)

    def coefficient(m: int) -> "arb":
        """Return the coefficient of c**(2 m): the integral of (2 s)**(2 m) / (2 m)! exp(-s**2), by its power series."""
        series = flint.arb(0)
        for k in range(m, terms):
            sign = (-1) ** (k - m)
            of_exponential = ball(Fraction(sign, math.factorial(k - m)))
            series += of_exponential * integrals[k]
        of_cosh = ball(Fraction(4**m, math.factorial(2 * m)))
        return of_cosh * series

    coefficients = [coefficient(m) for m in range(terms)]
    coefficients[0] += flint.arb(0, left_out.upper())
    return flint.arb_poly([2 / flint.arb.pi().sqrt() * c for c in coefficients])


def _within(variance: Fraction, side: int) -> "arb":
    """Return the probability of all cells of a table: that a rounded Gaussian number is at most `side` in size."""
    return 1 - 2 * gaussian_tail(variance, side + 1)


def gaussian_tail(variance: Fraction, j: int) -> "arb":
    """Return the probability that a Gaussian number of this variance exceeds j - 1/2."""
    start = ball(Fraction(2 * j - 1, 2))
    return (start / (2 * ball(variance)).sqrt()).erfc() / 2
