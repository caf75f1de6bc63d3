"""Strategies of Hypothesis for schemes and privacy."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from hypothesis import strategies as st

from browser import browser as browser
from chance import fixed_coins as fixed_coins
from dpsample import CustomSampling, KeepAll, Ppswor, Priority, Privacy, Sampling
from support import refused as refused


def decimals(low: str, high: str) -> st.SearchStrategy[Fraction]:
    """Numbers of four digits between two bounds, evenly spread over their magnitudes."""
    low_exponent, high_exponent = Decimal(low).adjusted(), Decimal(high).adjusted()
    return (
        st.builds(
            lambda digits, exponent: Fraction(Decimal(digits).scaleb(exponent - 3)),
            st.integers(1000, 9999),
            st.integers(low_exponent, high_exponent),
        )
        .filter(lambda v: v >= Fraction(low))
        .filter(lambda v: v <= Fraction(high))
    )


def privacies(
    epsilon: tuple[str, str] = ("0.01", "20"), delta: tuple[str, str] = ("1e-15", "1e-2")
) -> st.SearchStrategy[Privacy]:
    return st.builds(Privacy, decimals(*epsilon), decimals(*delta))


POWERS = [Fraction(0), Fraction(1, 2), Fraction(1), Fraction(2)]


def weighted() -> st.SearchStrategy[Sampling]:
    """Ppswor and Priority over many magnitudes of tau, with and without a cap."""
    return st.builds(
        lambda scheme, tau, power, cap: scheme(tau, power, cap),
        st.sampled_from([Ppswor, Priority]),
        decimals("1e-9", "5"),
        st.sampled_from(POWERS),
        st.one_of(st.none(), st.integers(1, 300)),
    )


def staircases(length: int, lowest: str = "1e-17") -> st.SearchStrategy[Sampling]:
    """q that is constant, jumps and rises in stairs, possibly below any delta, up to a last frequency."""
    levels = st.lists(
        st.one_of(decimals(lowest, "1"), st.just(Fraction(0)), st.just(Fraction(1))), min_size=1, max_size=6
    )
    places = st.lists(st.integers(1, length), min_size=6, max_size=6)

    def build(levels: list[Fraction], places: list[int]) -> Sampling:
        starts = [1, *sorted(places)]
        stairs = sorted(levels)
        return CustomSampling(
            [stairs[min(sum(s <= i for s in starts) - 1, len(stairs) - 1)] for i in range(1, length + 1)]
        )

    return st.builds(build, levels, places)


def slopes(length: int) -> st.SearchStrategy[Sampling]:
    """q that grows by irregular factors and falls short of 1 by irregular ones, step after step."""

    def build(start: Fraction, factors: list[int]) -> Sampling:
        q, values = start, list[Fraction]()
        for n in range(length):
            factor = Fraction(factors[n % len(factors)], 16)
            # in units of 2**-60: with unlike denominators the oracles would drown in digits
            q = Fraction(int(min(q * factor, 1 - (1 - q) / factor) * 2**60), 2**60)
            values.append(max([*values[-1:], q]))
        return CustomSampling(values)

    return st.builds(build, decimals("1e-12", "0.5"), st.lists(st.integers(16, 40), min_size=1, max_size=12))


def schemes(length: int) -> st.SearchStrategy[Sampling]:
    """Every kind of scheme; those that are sequences end at `length`."""
    return st.one_of(st.just(KeepAll()), weighted(), staircases(length), slopes(length))
