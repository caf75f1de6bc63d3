"""What several test modules share: exact references in `decimal`, and strategies for schemes and privacy.

The references read a scheme's parameters and share no code with the library. They work at 120 digits; the
recurrence of pi loses at most about log10(1/delta) of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import chance
import clusters
import dpsample.privacy
from browser import browser as browser
from chance import fixed_coins as fixed_coins
from dpsample import CustomSampling, KeepAll, Ppswor, Priority, Privacy, Sampling
from support import refused as refused

collect_ignore = ["vectors/make.py"]  # run once, by hand

settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    max_examples=25,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow],  # by the clock: on a busy machine anything is
)
settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    """All tests are watched, the examples in docstrings and docs among them."""
    config.pluginmanager.register(chance)


DIGITS = 120
PRECISE = Context(prec=DIGITS, Emin=MIN_EMIN, Emax=MAX_EMAX)
FUZZ = Decimal(10) ** -90  # relative: far above the references' error, far below the library's


@pytest.fixture(autouse=True)
def _forget_warnings() -> Iterator[None]:
    """Each test starts as a fresh process does: no PrivacyWarning has been given yet."""
    before = set(dpsample.privacy._warned)
    dpsample.privacy._warned.clear()
    yield
    dpsample.privacy._warned.clear()
    dpsample.privacy._warned.update(before)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clusters.Cluster]:
    """A Spark cluster. What uses it is marked xdist_group("spark"), so that there is one."""
    if clusters.java() is None and not os.environ.get("CI"):
        pytest.skip("no Java to run Spark with")
    if os.environ.get("PYTEST_XDIST_WORKER"):
        try:
            (tmp_path_factory.getbasetemp().parent / "cluster").mkdir()
        except FileExistsError:
            pytest.fail("another process has a cluster already: run pytest with --dist loadgroup")
    with clusters.cluster() as made:
        yield made


@pytest.fixture(scope="session")
def spark(cluster: clusters.Cluster) -> Iterator[Any]:
    """A session on the cluster."""
    session = clusters.session(cluster)
    yield session
    session.stop()


def decimal(value: Fraction | int) -> Decimal:
    """A rational number to 120 digits."""
    return PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator))


def true_q(sampling: Sampling, i: int) -> tuple[Decimal, Decimal]:
    """q_i and 1 - q_i from their definitions, each to about 100 digits of its own."""
    with localcontext(PRECISE):
        if i == 0:
            return Decimal(0), Decimal(1)
        if isinstance(sampling, KeepAll):
            kept = i >= sampling.at_least
            return Decimal(int(kept)), Decimal(int(not kept))
        if isinstance(sampling, CustomSampling):
            if sampling.values is not None:
                q = sampling.values[i - 1]
            else:
                assert sampling.function is not None
                q = Fraction(str(sampling.function(i)))
            return decimal(q), decimal(1 - q)
        assert isinstance(sampling, Ppswor | Priority)
        weight = i if sampling.cap is None else min(i, sampling.cap)
        if sampling.power.denominator == 1:
            x = decimal(sampling.tau * weight ** int(sampling.power))
        else:
            x = decimal(sampling.tau) * (decimal(sampling.power) * Decimal(weight).ln()).exp()
        if isinstance(sampling, Priority):
            return min(x, Decimal(1)), max(1 - x, Decimal(0))
        absent = (-x).exp()
        return 1 - absent, absent


def true_qs(sampling: Sampling, frequencies: Iterable[int]) -> list[Decimal]:
    return [true_q(sampling, i)[0] for i in frequencies]


def follow(qs: Iterable[Decimal], privacy: Privacy, pi: Decimal) -> list[Decimal]:
    """pi of consecutive frequencies with these q, when that of the one before them is `pi`."""
    with localcontext(PRECISE):
        E, delta = decimal(privacy.epsilon).exp(), decimal(privacy.delta)
        found = []
        for q in qs:
            pi = min(q, E * pi + delta, 1 - (1 - pi - delta) / E)
            found.append(pi)
        return found


def true_pi(sampling: Sampling, privacy: Privacy, largest: int) -> list[Decimal]:
    """pi_0, ..., pi_largest: Algorithm 3 in 120 digits."""
    return [Decimal(0), *follow(true_qs(sampling, range(1, largest + 1)), privacy, Decimal(0))]


def true_q_fractions(sampling: Sampling, largest: int) -> list[Fraction]:
    """q_1, ..., q_largest for `oracles`: exact where q is rational, else to 60 digits."""
    if isinstance(sampling, CustomSampling) and sampling.values is not None:
        return list(sampling.values[:largest])
    short = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)
    return [Fraction(short.plus(q)) for q in true_qs(sampling, range(1, largest + 1))]


def relative(found: float, true: Decimal, least: Decimal = Decimal(0)) -> float:
    """The error of `found`, relative to the true value or, if that is larger, to `least`."""
    error = abs(Decimal(found) - true)
    return float(error / max(true, least)) if error else 0.0


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
