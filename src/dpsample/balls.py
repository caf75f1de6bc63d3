"""Ball arithmetic: real functions with proved bounds.

A ball is a midpoint and a radius that together enclose the true value, whatever was rounded (`flint.arb`). Bounds leave
this module as integers or fractions.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsample.exact import rounded_up
from dpsample.lazy import flint

if TYPE_CHECKING:
    from flint import arb

# Bits of a midpoint: twice those of the integers over 2**128 that are proved, so that rounding decides nothing.
_PRECISION = 256


@contextmanager
def precision(bits: int = _PRECISION) -> Iterator[None]:
    """Compute with this many bits inside the context."""
    with flint.ctx.workprec(bits):
        yield


def ball(x: Fraction | int) -> "arb":
    """Return a ball that encloses a fraction."""
    exact = Fraction(x)
    numerator = flint.arb(flint.fmpz(exact.numerator))
    denominator = flint.arb(flint.fmpz(exact.denominator))
    return numerator / denominator


def dyadic(n: int, bits: int) -> "arb":
    """Return n / 2**bits exactly, if n is not longer than the precision."""
    return flint.arb((flint.fmpz(n), flint.fmpz(-bits)))


def ceiling(x: "arb", bits: int) -> int:
    """Return an integer that is proved to be at least ``2**bits * x``."""
    return _scaled(x.upper(), bits, up=True)


def floor(x: "arb", bits: int) -> int:
    """Return an integer that is proved to be at most ``2**bits * x``."""
    return _scaled(x.lower(), bits, up=False)


def figures_above(x: "arb", figures: int = 9) -> Fraction:
    """Return the upper bound of a number, rounded up to this many decimal figures; 0 if the bound is not positive.

    >>> with precision():
    ...     figures_above(ball(Fraction(2, 3)), 3)
    Fraction(667, 1000)
    """
    units = _scaled(x.upper(), _PRECISION, up=True)
    if units <= 0:
        return Fraction(0)
    return rounded_up(Fraction(units, 1 << _PRECISION), figures)


def _scaled(x: "arb", bits: int, up: bool) -> int:
    """Return ``2**bits * x`` as an integer, rounded up or down; x must be one number, with radius 0."""
    if not x.is_finite():
        raise OverflowError("a bound must be finite")
    mantissa_part, exponent_part = x.man_exp()  # x = mantissa * 2**exponent
    mantissa = int(mantissa_part)
    shift = int(exponent_part) + bits
    if shift >= 0:
        return mantissa << shift
    if up:
        return -(-mantissa >> -shift)
    return mantissa >> -shift
