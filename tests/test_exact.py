"""How numbers are read and written exactly, and the lower bound of exp that every certificate rests on."""

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsample.exact import exact, exponential_floor, text
from support import refused

TENTH = Fraction(1, 10)


@pytest.mark.parametrize(
    "value",
    [0.1, "0.1", "1e-1", "1/10", " 0.10 ", Decimal("0.1"), Fraction(1, 10), np.float64(0.1)],
    ids=repr,
)
def test_one_tenth_is_one_tenth_however_it_is_written(value: Any) -> None:
    assert exact(value, "x") == TENTH


@pytest.mark.parametrize(
    "value", [3, "3", 3.0, Decimal(3), Fraction(3), np.int8(3), np.uint64(3), np.array(3)], ids=repr
)
def test_whole_numbers(value: Any) -> None:
    assert exact(value, "x") == 3


@given(st.floats(min_value=-1e300, max_value=1e300).filter(lambda x: x == 0 or abs(x) >= 1e-300))
def test_a_float_is_the_decimal_that_it_prints_as(value: float) -> None:
    assert exact(value, "x") == Fraction(Decimal(repr(value)))
    assert float(exact(value, "x")) == value


@pytest.mark.parametrize(
    "value",
    [True, False, np.True_, None, b"1", 1j, [1], (1,), {"x": 1}, object(), np.array([1.0, 2.0])],
    ids=lambda v: type(v).__name__,
)
def test_other_types_are_refused_by_name(value: Any) -> None:
    with refused("tau must be an int, float, decimal string, Decimal or Fraction"):
        exact(value, "tau")


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        Decimal("NaN"),
        Decimal("-Infinity"),
        np.float64("nan"),
        "nan",
        "inf",
        "",
        "ten",
        "0x1",
        "1/0",
        "1e",
        "0.1.2",
        "1 2",
    ],
    ids=repr,
)
def test_what_is_no_finite_number_is_refused(value: Any) -> None:
    with refused("tau must be a finite number"):
        exact(value, "tau")


@pytest.mark.parametrize(
    "value",
    [5e-324, 1e301, -1e301, "1e301", "1e-301", "1e999999999", Decimal("1e-999999999"), 10**301, Fraction(1, 10**301)],
    ids=str,
)
def test_what_no_float_could_follow_is_refused(value: Any) -> None:
    with refused("tau must be a finite number, 0 or between 1e-300 and 1e300 in magnitude"):
        exact(value, "tau")


@pytest.mark.parametrize("value", [0, -1, "-1e300", "-1e-300", 1e-300, "0e-999"], ids=str)
def test_zero_and_negative_numbers_are_numbers(value: Any) -> None:
    assert exact(value, "x") == Fraction(str(value) if value != "0e-999" else 0)


def test_a_number_of_many_digits_is_not_repeated() -> None:
    with refused("x must be a finite number") as refusal:
        exact(Fraction(1, 10**400), "x")
    assert len(str(refusal.value)) < 200


fractions = st.one_of(
    st.fractions(),
    st.fractions(min_value=0, max_value=1, max_denominator=10**40),
    st.decimals(min_value="-1e30", max_value="1e30", allow_nan=False).map(Fraction),
    st.builds(lambda n, k: Fraction(n) * Fraction(10) ** k, st.integers(-(10**20), 10**20), st.integers(-250, 250)),
    st.builds(lambda n, k: Fraction(n, 2**k), st.integers(-(10**20), 10**20), st.integers(0, 300)),
)


@given(fractions)
def test_text_is_exact(value: Fraction) -> None:
    assert exact(text(value), "x") == value
    assert Fraction(text(value)) == value


@given(fractions)
def test_text_is_a_decimal_where_there_is_one(value: Fraction) -> None:
    odd = value.denominator
    while odd % 2 == 0:
        odd //= 2
    while odd % 5 == 0:
        odd //= 5
    assert ("/" in text(value)) == (odd != 1)


@pytest.mark.parametrize(
    ("value", "written"),
    [("0.1", "0.1"), ("1e-6", "1e-06"), ("20", "20"), ("1/3", "1/3"), ("2.5", "2.5"), ("-0.5", "-0.5"), ("0", "0")],
)
def test_text_is_short(value: str, written: str) -> None:
    assert text(Fraction(value)) == written


@given(st.fractions(min_value=0, max_value=64, max_denominator=10**12), st.integers(1, 500))
def test_exponential_floor_is_a_lower_bound_within_one(x: Fraction, bits: int) -> None:
    with localcontext(Context(prec=300, Emin=MIN_EMIN, Emax=MAX_EMAX)):  # 180 digits before the point at most
        true = (Decimal(x.numerator) / Decimal(x.denominator)).exp() * 2**bits
        short = true - exponential_floor(x, bits)
    assert Decimal("-1e-50") < short < 1 + Decimal("1e-50")
