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

_PRECISION = 256  # bits of a midpoint


@contextmanager
def precision(bits: int = _PRECISION) -> Iterator[None]:
    """Compute with this many bits inside the context."""
    with flint.ctx.workprec(bits):
        yield


def ball(x: Fraction | int) -> "arb":
    """Enclose a fraction."""
    x = Fraction(x)
    numerator = flint.arb(flint.fmpz(x.numerator))
    denominator = flint.arb(flint.fmpz(x.denominator))
    return numerator / denominator


def dyadic(n: int, bits: int) -> "arb":
    """Return n / 2**bits exactly, if n is not longer than the precision."""
    return flint.arb((flint.fmpz(n), flint.fmpz(-bits)))


def ceiling(x: "arb", bits: int) -> int:
    """Return an integer that is proved to be at least 2**bits x."""
    return _scaled(x.upper(), bits, up=True)


def floor(x: "arb", bits: int) -> int:
    """Return an integer that is proved to be at most 2**bits x."""
    return _scaled(x.lower(), bits, up=False)


def figures_above(x: "arb", figures: int = 9) -> Fraction:
    """Round the upper bound of a number up to this many decimal figures; 0 if that is not positive.

    >>> with precision():
    ...     figures_above(ball(Fraction(2, 3)), 3)
    Fraction(667, 1000)
    """
    value = Fraction(_scaled(x.upper(), _PRECISION, up=True), 1 << _PRECISION)
    return rounded_up(value, figures) if value > 0 else Fraction(0)


def _scaled(x: "arb", bits: int, up: bool) -> int:
    if not x.is_finite():
        raise OverflowError("a bound must be finite")
    mantissa, exponent = (int(part) for part in x.man_exp())
    shift = exponent + bits
    if shift >= 0:
        return mantissa << shift
    return -(-mantissa >> -shift) if up else mantissa >> -shift
