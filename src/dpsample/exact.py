"""Exact numbers: how parameters are read and written, and bounds of the exponential function.

A parameter is a rational number. A float stands for the decimal that it prints as, so that ``0.1``
and ``"0.1"`` are the same number, one tenth, and what a person reads is what is used.
"""

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

from dpsample.errors import InvalidValue

_LARGEST_EXPONENT = 300  # floats go little further, and exact arithmetic would take ever longer
_MOST_DIGITS = 1000  # of a number as it is written: what follows from a file must not take long
_MOST_BITS = 4096  # of a numerator or a denominator

MAX_FREQUENCY = 2**63 - 1

Number: TypeAlias = int | float | str | Decimal | Fraction


def exact(value: Any, name: str) -> Fraction:
    """Read a number exactly.

    >>> exact(0.1, "tau"), exact("1e-6", "tau"), exact("1/3", "tau")
    (Fraction(1, 10), Fraction(1, 1000000), Fraction(1, 3))
    """
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # a numpy scalar
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal | Fraction):
        raise InvalidValue(
            f"{name} must be an int, float, decimal string, Decimal or Fraction, not {type(value).__name__}",
            f"write it as a number or a string such as {name}='0.1'",
        )
    try:
        return _within_bounds(value)
    except (ValueError, ArithmeticError):
        pass
    magnitudes = f"between 1e-{_LARGEST_EXPONENT} and 1e{_LARGEST_EXPONENT} in magnitude"
    raise InvalidValue(
        f"{name} must be a finite number, 0 or {magnitudes}, not {_shown(value)}",
        f"write it as a number or a string such as {name}='0.1'",
    )


def _within_bounds(value: int | float | str | Decimal | Fraction) -> Fraction:
    """Return a number that is not too long, too large or too small; others raise a ValueError, at no cost."""
    if isinstance(value, str) and len(value) > _MOST_DIGITS:
        raise ValueError
    if isinstance(value, float | str | Decimal) and "/" not in str(value):
        decimal = Decimal(repr(value) if isinstance(value, float) else value)
        if decimal and abs(decimal.adjusted()) > _LARGEST_EXPONENT:
            raise ValueError
        value = Fraction(decimal)
    number = Fraction(value)
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > _MOST_BITS:
        raise ValueError
    if number and not Fraction(1, 10**_LARGEST_EXPONENT) <= abs(number) <= 10**_LARGEST_EXPONENT:
        raise ValueError
    return number


def _shown(value: int | float | str | Decimal | Fraction) -> str:
    """Return a number as it was written, unless that is long."""
    if isinstance(value, int | Fraction) and max(abs(value.numerator), value.denominator) >= 10**60:
        return "one of many digits"
    written = repr(value)
    return written if len(written) <= 60 else "one of many digits"


def text(value: Fraction) -> str:
    """Return the shortest exact text: a decimal where there is one, else a ratio.

    >>> text(Fraction(1, 1000000)), text(Fraction(5, 2)), text(Fraction(1, 3))
    ('1e-06', '2.5', '1/3')
    """
    if (
        value.denominator == 1 and abs(value) < 10**15
    ):  # longer integers are written in powers of ten
        return str(value.numerator)
    return (
        _text_of_a_float(value)
        or _text_of_a_decimal(value)
        or f"{value.numerator}/{value.denominator}"
    )


def _text_of_a_float(value: Fraction) -> str | None:
    """The shortest text of the nearest float, if it is exactly this number."""
    try:
        shortest = repr(float(value))
    except OverflowError:
        return None
    return shortest if shortest != "inf" and Fraction(shortest) == value else None


def _text_of_a_decimal(value: Fraction) -> str | None:
    """The number as an integer and a power of ten, if its denominator has no prime factors but 2 and 5."""
    rest = value.denominator
    powers = {2: 0, 5: 0}
    for prime in powers:
        while rest % prime == 0:
            rest //= prime
            powers[prime] += 1
    if rest != 1:
        return None
    places = max(powers.values())
    return f"{value.numerator * 10**places // value.denominator}e-{places}"


def shown_number(number: float) -> str:
    """Write a float for people: four figures, or no decimal places of a large number.

    >>> [shown_number(n) for n in (1234567.891, 0.0123456, 12.0, float("nan"), float("inf"))]
    ['1,234,568', '0.01235', '12', 'unknown', 'any']
    """
    if math.isnan(number):
        return "unknown"
    if math.isinf(number):
        return "any" if number > 0 else "-any"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def unit_of_figures(value: Fraction, figures: int) -> Fraction:
    """Return the value of the last digit of a positive number that is written with this many figures."""
    return Fraction(10) ** (math.floor(math.log10(value)) - figures + 1)


def figures_below(value: Fraction, figures: int) -> Fraction:
    """Round a positive number down to this many decimal figures.

    >>> figures_below(Fraction(2, 3), 3)
    Fraction(333, 500)
    """
    unit = unit_of_figures(value, figures)
    return value // unit * unit


def rounded_up(value: Fraction, figures: int) -> Fraction:
    """Round a positive number up to this many decimal figures.

    >>> rounded_up(Fraction(2, 3), 3)
    Fraction(667, 1000)
    """
    unit = unit_of_figures(value, figures)
    return -(-value // unit) * unit


@lru_cache(maxsize=256)
def exponential_floor(x: Fraction, bits: int) -> int:
    """Return a proved lower bound of ``2**bits * exp(x)`` for x >= 0, as an integer.

    Every term of ``sum x**k / k!`` is positive, and each one here is rounded down, so the sum cannot
    exceed the true value. Enough guard bits are carried for it to fall short by at most one.

    >>> exponential_floor(Fraction(1), 10), 2**10 * 2.718281828
    (2783, 2783.520591872)
    """
    guard = 64 + 4 * int(x)
    term = total = 1 << (bits + guard)
    k = 0
    while term:
        k += 1
        term = term * x.numerator // (x.denominator * k)
        total += term
    return total >> guard


def check_level(level: float) -> float:
    """Check the probability with which an interval is to hold."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise InvalidValue(
            f"level must be between 0 and 1, not {level!r}", "choose one such as 0.95"
        )
    return float(level)
