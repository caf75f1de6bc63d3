"""Sampling probabilities against their definitions, at 120 digits; and the checks of frequencies and of q."""

import dataclasses
import json
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsample import InvalidValue, KeepAll, Ppswor, Priority, Sampling
from dpsample.exact import MAX_FREQUENCY
from references import FUZZ, PRECISE, relative, true_q
from strategies import schemes
from support import refused

TAUS = ["1e-15", "3.7e-9", "1e-6", "0.001", "1/3", "0.9999999", "1", "10"]
POWERS = ["0", "0.1", "0.5", "1", "2"]
EVERYWHERE = sorted({*range(20), *(10**k for k in range(19)), *(2**k - 1 for k in range(64)), MAX_FREQUENCY})


def interesting(sampling: Ppswor | Priority) -> list[int]:
    """Frequencies of all magnitudes, and those around tau * i**power = 1, 30 and 100, where q leaves or meets 1."""
    found = set(EVERYWHERE)
    if sampling.power:
        for level in (1, 30, 100):
            centre = (Decimal(level) / Decimal(float(sampling.tau))).ln() / Decimal(float(sampling.power))
            if centre < 43:
                near = int(centre.exp())
                found |= {near + k for k in (-1000, -30, -2, -1, 0, 1, 2, 30, 1000)}
    return sorted(i for i in found if 0 <= i <= MAX_FREQUENCY)


@pytest.fixture(params=[Ppswor, Priority])
def scheme(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize("cap", [None, 1, 1000])
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("tau", TAUS)
def test_q_and_its_complement_are_accurate(scheme: Any, tau: str, power: str, cap: int | None) -> None:
    sampling = scheme(tau, power, cap)
    frequencies = interesting(sampling)
    true = [true_q(sampling, i) for i in frequencies]
    for found, (q, _) in zip(sampling.q(frequencies).tolist(), true, strict=True):
        assert relative(found, q) < 1e-13
    for found, (_, absent) in zip(sampling.complement(frequencies).tolist(), true, strict=True):
        assert abs(Decimal(found) - absent) <= Decimal("1e-13") * absent + Decimal("1e-37")


@pytest.mark.parametrize("cap", [None, 1000])
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("tau", TAUS)
def test_rounding_toward_privacy(scheme: Any, tau: str, power: str, cap: int | None) -> None:
    sampling = scheme(tau, power, cap)
    frequencies = interesting(sampling)
    low = sampling.q(frequencies, toward_privacy=True).tolist()
    high = sampling.complement(frequencies, toward_privacy=True).tolist()
    with localcontext(PRECISE):
        for i, q_found, absent_found in zip(frequencies, low, high, strict=True):
            q, absent = true_q(sampling, i)
            assert Decimal(q_found) <= q * (1 + FUZZ)
            assert relative(q_found, q) < 1e-13
            assert 0 <= absent_found <= 1
            if absent > Decimal("1e-300"):  # below that floats have no digits left
                assert Decimal(absent_found) >= absent * (1 - FUZZ)
            if absent > Decimal("1e-40"):
                assert relative(absent_found, absent) < 1e-12


def test_keep_all() -> None:
    assert KeepAll().q([0, 1, MAX_FREQUENCY]).tolist() == [0, 1, 1]
    assert KeepAll().complement([0, 1, MAX_FREQUENCY]).tolist() == [1, 0, 0]
    assert KeepAll().bounds(0, 100) == (0, 0)
    assert KeepAll().bounds(7, 100) == (2**100, 2**100)


def check_bounds(sampling: Sampling, i: int, bits: int) -> tuple[int, int]:
    low, high = sampling.bounds(i, bits)
    with localcontext(PRECISE):
        scaled = true_q(sampling, i)[0] * 2**bits
        assert 0 <= low <= scaled * (1 + FUZZ)
        assert scaled * (1 - FUZZ) <= high <= 2**bits
    assert high - low <= 4
    return low, high


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("tau", TAUS)
def test_bounds_enclose_the_truth(scheme: Any, tau: str, power: str) -> None:
    sampling = scheme(tau, power)
    for i in interesting(sampling):
        for bits in (64, 128, 192):
            check_bounds(sampling, i, bits)


@pytest.mark.parametrize("digits", [3, 500])
def test_bounds_do_not_depend_on_the_callers_decimal_context(scheme: Any, digits: int) -> None:
    sampling = scheme("1/3", "0.5")
    expected = [sampling.bounds(i, 192) for i in (1, 2, 7, 1000)]
    with localcontext(prec=digits):
        assert [sampling.bounds(i, 192) for i in (1, 2, 7, 1000)] == expected


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("tau", ["1e-15", "1e-6", "1/3"])
def test_bounds_do_not_decrease(scheme: Any, tau: str, power: str) -> None:
    sampling = scheme(tau, power, 10**17)
    frequencies = sorted({*interesting(sampling), *(i + k for i in interesting(sampling)[:-1] for k in (1, 2, 3))})
    found = [sampling.bounds(i, 128) for i in frequencies]
    for (low, high), (next_low, next_high) in pairwise(found):
        assert low <= next_low
        assert high <= next_high


@settings(max_examples=30)
@given(schemes(length=40), st.sampled_from([64, 128, 192]), st.lists(st.integers(0, 40), min_size=1, max_size=8))
def test_bounds_of_any_scheme(sampling: Sampling, bits: int, frequencies: list[int]) -> None:
    found = [check_bounds(sampling, i, bits) for i in sorted(frequencies)]
    for (low, high), (next_low, next_high) in pairwise(found):
        assert low <= next_low
        assert high <= next_high


@pytest.mark.parametrize(
    "make",
    [
        lambda: Ppswor(10**400).q([1])[0] == 1,
        lambda: Priority(10**400).complement([1])[0] == 0,
        lambda: Ppswor(1, 10**400).q([1, 2])[1] == 1,
        lambda: Priority("1e-400").q([1])[0] < 1e-300,
        lambda: Ppswor("1e-400").complement([1])[0] == 1,
        lambda: Ppswor(1, "1e-400").q([5])[0] == -np.expm1(-1.0),
    ],
)
def test_outlandish_parameters_are_refused_or_right(make: Callable[[], bool]) -> None:
    try:
        right = make()
    except InvalidValue:
        return
    assert right


# Values: checked, frozen, equal, written.


@pytest.mark.parametrize("tau", [0, -1, "-1e-9", 0.0], ids=repr)
def test_tau_must_be_above_0(scheme: Any, tau: Any) -> None:
    with refused("tau must be above 0"):
        scheme(tau)


def test_power_must_not_be_negative(scheme: Any) -> None:
    with refused("power must be at least 0"):
        scheme(1, "-0.5")


@pytest.mark.parametrize("power", ["64.1", 65, "1e5", "10000000.1"], ids=repr)
def test_power_is_bounded(scheme: Any, power: Any) -> None:
    with refused("power must be at most 64"):
        scheme("0.0005", power)


@pytest.mark.parametrize("power", ["63.9", "64", "191/3"])
def test_with_the_largest_power_floats_are_close_to_the_integers(scheme: Any, power: str) -> None:
    """Within 2**-40, a thousandth of the distance from a cut within which the sanitizer decides in integers."""
    for tau in ("1e-70", "1e-40", "1e-20", "0.0005"):  # a reference has 120 digits
        sampling = scheme(tau, power)
        for i in (1, 2, 3, 5, 7, 97, 255, 1000, 49_999):
            q, _ = true_q(sampling, i)
            for found in (float(sampling.q([i])[0]), float(sampling.q([i], toward_privacy=True)[0])):
                assert relative(found, q) < 2.0**-40


@pytest.mark.parametrize("cap", [0, -1, 2**63, True, 2.0, "5"], ids=repr)
def test_cap_must_be_a_frequency(scheme: Any, cap: Any) -> None:
    with refused("cap must be an integer from 1 to 2**63 - 1, or None"):
        scheme(1, 1, cap)


@pytest.mark.parametrize("bad", [True, None, "much", float("nan"), float("inf"), b"1"], ids=repr)
@pytest.mark.parametrize("name", ["tau", "power"])
def test_what_is_no_number_is_refused_by_name(scheme: Any, name: str, bad: Any) -> None:
    values: dict[str, Any] = {"tau": 1, name: bad}
    with refused(f"{name} must be"):
        scheme(**values)


def test_schemes_are_values(scheme: Any) -> None:
    assert scheme(0.1, 0.5, 7) == scheme("0.1", Fraction(1, 2), 7)
    assert hash(scheme(0.1)) == hash(scheme("1/10", "1.0"))
    assert scheme(0.1) != scheme(0.1, cap=7)
    assert scheme(0.1) != scheme(0.1, 2)
    assert len({Ppswor(1), Priority(1), KeepAll()}) == 3
    assert KeepAll() == KeepAll()
    with pytest.raises(dataclasses.FrozenInstanceError):
        scheme(0.1).tau = 2


def test_a_cap_stops_the_weight(scheme: Any) -> None:
    capped, free = scheme("1e-4", 2, 50), scheme("1e-4", 2)
    assert capped.q([49, 50, 51, MAX_FREQUENCY]).tolist() == free.q([49, 50, 50, 50]).tolist()
    assert capped.bounds(10**12, 128) == free.bounds(50, 128)


@settings(max_examples=60)
@given(
    st.one_of(
        schemes(length=12),
        st.builds(
            Ppswor,
            st.fractions(min_value=Fraction(1, 10**20), max_value=100),
            st.fractions(min_value=0, max_value=5),
            st.one_of(st.none(), st.integers(1, MAX_FREQUENCY)),
        ),
    )
)
def test_json_round_trips_exactly(sampling: Sampling) -> None:
    form = json.loads(json.dumps(sampling.to_json()))
    again = Sampling.from_json(form)
    assert again == sampling
    assert type(again) is type(sampling)
    assert hash(again) == hash(sampling)
    assert again.bounds(7, 256) == sampling.bounds(7, 256)


@pytest.mark.parametrize(
    "form",
    [None, [], "ppswor", {}, {"scheme": "pps"}, {"scheme": None}, {"tau": "1"}, {"scheme": ["ppswor"]}],
    ids=repr,
)
def test_json_of_an_unknown_scheme_is_refused(form: Any) -> None:
    with refused(
        "the JSON form of a sampling scheme must name one of keep all, ppswor, priority, soft cap, custom, sample and "
        "hold"
    ):
        Sampling.from_json(form)


@pytest.mark.parametrize(
    "form",
    [
        {"scheme": "ppswor"},
        {"scheme": "keep all", "tau": "1"},
        {"scheme": "priority", "tau": "1", "rate": "2"},
        {"scheme": "custom", "values": ["1"]},
    ],
    ids=repr,
)
def test_json_with_other_fields_is_refused(form: Any) -> None:
    with refused("own fields"):
        Sampling.from_json(form)
