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

# Numbers that are read are at most 1e300 in magnitude. Floats reach little further, and exact arithmetic with larger
# numbers takes ever longer.
_LARGEST_EXPONENT = 300
# A number in a file has at most this many characters and bits, so that a hostile file cannot take long to read. No
# parameter that a person states comes near these limits.
_MOST_DIGITS = 1000
_MOST_BITS = 4096
# Integers from here on are written as a power of ten where they are one, since people miscount zeros.
_LONG_INTEGER = 10**15

MAX_FREQUENCY = 2**63 - 1

Number: TypeAlias = int | float | str | Decimal | Fraction


def exact(value: Any, name: str) -> Fraction:
    """Read a number exactly.

    >>> exact(0.1, "tau"), exact("1e-6", "tau"), exact("1/3", "tau")
    (Fraction(1, 10), Fraction(1, 1000000), Fraction(1, 3))
    """
    is_numpy_scalar = getattr(value, "shape", None) == () and hasattr(value, "item")
    if is_numpy_scalar:
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
    """Return the exact value of a number. Raise a ValueError, before any long computation, if it is out of bounds."""
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
    least = Fraction(1, 10**_LARGEST_EXPONENT)
    most = 10**_LARGEST_EXPONENT
    if number and not least <= abs(number) <= most:
        raise ValueError
    return number


def _shown(value: int | float | str | Decimal | Fraction) -> str:
    """Return a number as it was written, or "one of many digits" if that takes more than about 60 characters."""
    if isinstance(value, int | Fraction):
        longest = max(abs(value.numerator), value.denominator)
        if longest >= 10**60:  # repr of millions of digits takes minutes
            return "one of many digits"
    written = repr(value)
    return written if len(written) <= 60 else "one of many digits"


def text(value: Fraction) -> str:
    """Return the shortest exact text: a decimal where there is one, else a ratio.

    >>> text(Fraction(1, 1000000)), text(Fraction(5, 2)), text(Fraction(1, 3))
    ('1e-06', '2.5', '1/3')
    """
    if value.denominator == 1 and abs(value) < _LONG_INTEGER:
        return str(value.numerator)
    decimal = _text_of_a_float(value) or _text_of_a_decimal(value)
    return decimal or f"{value.numerator}/{value.denominator}"


def _text_of_a_float(value: Fraction) -> str | None:
    """Return the shortest text of the nearest float if that is exactly this number, else None."""
    try:
        shortest = repr(float(value))
    except OverflowError:
        return None
    is_exact = shortest != "inf" and Fraction(shortest) == value
    return shortest if is_exact else None


def _text_of_a_decimal(value: Fraction) -> str | None:
    """Return an integer and a power of ten, such as 12e-7, or None if the number has no finite decimal form.

    A fraction has one if its denominator has no prime factors but 2 and 5.
    """
    rest = value.denominator
    powers = {2: 0, 5: 0}
    for prime in powers:
        while rest % prime == 0:
            rest //= prime
            powers[prime] += 1
    if rest != 1:
        return None
    places = max(powers.values())
    digits = value.numerator * 10**places // value.denominator
    return f"{digits}e-{places}"


def shown_number(number: float) -> str:
    """Write a float for people: four figures, or no decimal places of a large number.

    >>> [shown_number(n) for n in (1234567.891, 0.0123456, 12.0, float("nan"), float("inf"))]
    ['1,234,568', '0.01235', '12', 'unknown', 'any']
    """
    if math.isnan(number):
        return "unknown"
    if math.isinf(number):
        return "any" if number > 0 else "-any"
    if abs(number) >= 1000:
        return f"{number:,.0f}"
    return f"{number:.4g}"


def unit_of_figures(value: Fraction, figures: int) -> Fraction:
    """Return the value of the last digit of a positive number that is written with this many figures."""
    first_place = math.floor(math.log10(value))
    return Fraction(10) ** (first_place - figures + 1)


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
    units = math.ceil(value / unit)
    return units * unit


@lru_cache(maxsize=256)
def exponential_floor(x: Fraction, bits: int) -> int:
    """Return a proved lower bound of ``2**bits * exp(x)`` for x >= 0, as an integer.

    Every term of ``sum x**k / k!`` is positive, and each one here is rounded down, so the sum cannot
    exceed the true value. One rounding changes the sum by at most exp(x), and there are fewer than 2**62 terms: the
    ``64 + 4 x`` guard bits hold all of that, so the result falls short by less than two.

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
    """Return the level of an interval as a float, after checking that it is a probability between 0 and 1."""
    is_number = isinstance(level, int | float) and not isinstance(level, bool)
    if not is_number or not 0 < level < 1:
        raise InvalidValue(
            f"level must be between 0 and 1, not {level!r}", "choose one such as 0.95"
        )
    return float(level)
