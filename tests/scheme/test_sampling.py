"""Sampling probabilities against their definitions, at 120 digits; and the checks of frequencies and of q."""

import dataclasses
import json
import pickle
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsample import CustomSampling, InvalidValue, KeepAll, Ppswor, Priority, Privacy, Sampling
from dpsample.exact import MAX_FREQUENCY
from dpsample.scheme import reporting_probabilities
from dpsample.scheme.sampling import as_frequencies
from references import FUZZ, PRECISE, relative, true_q
from strategies import decimals, schemes
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
    with refused("power must be at most 64: with a larger one floats are too far from the certified integers"):
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
        "a sampling scheme's JSON form names one of keep all, ppswor, priority, soft cap, custom, sample and hold"
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


# CustomSampling.


def test_a_sequence_is_exact() -> None:
    sampling = CustomSampling(["1/3", 0.5, "0.5", 1])
    assert sampling.q([0, 1, 2, 3, 4]).tolist() == [0, 1 / 3, 0.5, 0.5, 1]
    assert sampling.complement([0, 1, 4]).tolist() == [1, 2 / 3, 0]
    assert sampling.bounds(1, 10) == (341, 342)
    assert sampling.bounds(2, 10) == (512, 512)
    assert sampling.largest == 4


@settings(max_examples=30)
@given(st.lists(decimals("1e-20", "1"), min_size=1, max_size=20))
def test_a_sequence_rounds_toward_privacy(values: list[Fraction]) -> None:
    values.sort()
    sampling, i = CustomSampling(values), range(1, len(values) + 1)
    low = sampling.q(i, toward_privacy=True).tolist()
    high = sampling.complement(i, toward_privacy=True).tolist()
    for found, absent, q in zip(low, high, values, strict=True):
        assert q * (1 - Fraction(1, 2**50)) <= Fraction(found) <= q
        assert Fraction(absent) >= 1 - q
        assert Fraction(absent) <= (1 - q) * (1 + Fraction(1, 2**50))


@pytest.mark.parametrize("use", ["q", "complement", "bounds"])
def test_beyond_the_end_of_a_sequence_nothing_is_known(use: str) -> None:
    sampling = CustomSampling(["0.1", "0.2"])
    with refused("every frequency must be within the sequence of q", hidden=[41]):
        sampling.bounds(41, 64) if use == "bounds" else getattr(sampling, use)([1, 41])


@pytest.mark.parametrize(
    ("q", "rule"),
    [
        ([], "q must have at least one value"),
        (["0.5", "0.4"], "q must not decrease"),
        (["0.5", "0.5", "0.499999999999999999999"], "q must not decrease"),
        (["-0.1"], "q must lie in [0, 1]"),
        (["0.5", "1.000000000000000000001"], "q must lie in [0, 1]"),
        ([True], "q must be an int"),
        ([None], "q must be an int"),
        ([float("nan")], "q must be a finite number"),
        (5, "q must be"),
        (None, "q must be"),
    ],
    ids=repr,
)
def test_a_bad_sequence_is_refused(q: Any, rule: str) -> None:
    with refused(rule):
        CustomSampling(q)


def test_a_function_is_asked_once_for_each_frequency() -> None:
    asked: list[int] = []

    def half(i: int) -> str:
        asked.append(i)
        return "0.5"

    sampling = CustomSampling(half)
    assert sampling.q([[3, 5], [5, 0]]).tolist() == [[0.5, 0.5], [0.5, 0.0]]
    sampling.bounds(3, 64)
    assert sorted(asked) == [3, 5]
    assert all(type(i) is int for i in asked)
    assert sampling.largest == MAX_FREQUENCY


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        (lambda i: "1.1", "q must lie in [0, 1]"),
        (lambda i: -0.1, "q must lie in [0, 1]"),
        (lambda i: "x", "q must be a number at every frequency"),
        (lambda i: None, "q must be a number at every frequency"),
        (lambda i: {}[i], "q must be a number at every frequency"),
        (lambda i: Fraction(1, i), "q must not decrease"),
    ],
)
def test_a_function_is_checked_on_every_frequency_that_is_used(function: Any, rule: str) -> None:
    with refused(rule):
        CustomSampling(function).q([2, 9, 4])
    with refused(rule):
        sampling = CustomSampling(function)
        sampling.bounds(2, 64)
        sampling.bounds(9, 64)


def test_a_function_must_not_decrease_from_one_call_to_the_next() -> None:
    sampling = CustomSampling(lambda i: "0.5" if i == 10 else "0.9" if i == 7 else "0.1")
    sampling.q([10])
    sampling.q([3])
    with refused("q must not decrease"):
        sampling.q([7])


@pytest.mark.parametrize("bad", ["2", "0.1"])
def test_a_refused_function_stays_refused(bad: str) -> None:
    sampling = CustomSampling(lambda i: bad if i == 5 else "0.5")
    sampling.q([3])
    with refused("q must"):
        sampling.q([5])
    with refused("q must"):
        sampling.q([5])


@pytest.mark.parametrize(
    "function",
    [
        lambda i: Fraction(i + 41, 41),
        lambda i: -i,
        lambda i: Fraction(1, i),
        lambda i: f"{i} is wrong",
        lambda i: {}[i],
        lambda i: [i],
    ],
)
def test_what_a_function_returns_or_raises_is_not_shown(function: Any) -> None:
    """It was called with a private frequency, and what it returns may be as good as that."""
    with refused("q must", hidden=[4177, 4178, 4241]) as refusal:
        CustomSampling(function).q([4177, 4241])
    assert refusal.value.__cause__ is None
    assert refusal.value.__context__ is None


THRESHOLD = 1  # what `from_threshold` reads; a notebook's global


def from_threshold(i: int) -> int:
    return int(i >= THRESHOLD)


def test_what_a_function_returned_before_is_not_used_for_a_new_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    """pi of a scheme in which all keys are kept must not serve one that keeps them from frequency 30 on."""
    privacy = Privacy(1, "1e-6")
    kept, first = CustomSampling(from_threshold), reporting_probabilities([29, 30], KeepAll(), privacy).tolist()
    assert reporting_probabilities([29, 30], kept, privacy).tolist() == pytest.approx(first)
    monkeypatch.setitem(globals(), "THRESHOLD", 30)
    changed = CustomSampling(from_threshold)
    assert changed != kept
    assert changed == changed
    assert reporting_probabilities([29, 30], changed, privacy).tolist() == pytest.approx([0, 1e-6])
    # the first one still is what it was, or refuses: it has seen a larger q below 30
    assert reporting_probabilities([29, 30], kept, privacy).tolist() == pytest.approx(first)
    monkeypatch.setitem(globals(), "THRESHOLD", 10**6)
    with refused("q must not decrease"):
        kept.q([20_000])  # beyond what was looked up, and called now


def test_a_copy_of_a_function_s_scheme_shares_nothing_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpickled where the function is another one, as on a worker that is used again, it has a pi of its own."""
    privacy = Privacy(1, "1e-6")
    sampling = CustomSampling(from_threshold)
    reporting_probabilities([30], sampling, privacy)
    sent = pickle.dumps(sampling)
    assert pickle.loads(sent) != pickle.loads(sent)
    monkeypatch.setitem(globals(), "THRESHOLD", 30)
    copy = pickle.loads(sent)
    assert copy not in (sampling, pickle.loads(sent))
    assert reporting_probabilities([29, 30], copy, privacy).tolist() == pytest.approx([0, 1e-6])
    # nor does it take along which frequencies there were
    sampling.q([4177])
    assert 4177 not in pickle.loads(pickle.dumps(sampling))._seen
    values = CustomSampling(["0.1", "0.2"])
    assert pickle.loads(pickle.dumps(values)) == values


def test_a_function_cannot_be_written() -> None:
    with refused("a scheme that travels with a sample must be written as values"):
        CustomSampling(lambda i: 1).to_json()


def test_custom_schemes_are_values() -> None:
    assert CustomSampling([0.1, 1]) == CustomSampling(["0.1", 1.0])
    assert hash(CustomSampling([0.1, 1])) == hash(CustomSampling(["0.1", 1.0]))
    assert CustomSampling([0.1, 1]) != CustomSampling([0.1, 1, 1])
    assert "0.1" not in repr(CustomSampling([0.1, 1]))


# Frequencies.


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_every_integer_type(kind: str) -> None:
    largest = min(int(np.iinfo(kind).max), MAX_FREQUENCY)
    found = as_frequencies(np.array([0, 5, largest], kind))
    assert found.dtype == np.int64
    assert found.tolist() == [0, 5, largest]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3, 1, 3], [3, 1, 3]),
        ((2**63 - 1, 0), [2**63 - 1, 0]),
        (range(3), [0, 1, 2]),
        (7, 7),
        (np.int16(7), 7),
        (np.array(7, np.uint64), 7),
        ([[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        (np.array([1, 2**63 - 1], object), [1, 2**63 - 1]),
        ([], []),
        (np.zeros((0, 3), np.int32), []),
        (np.arange(12, dtype=np.uint16).reshape(3, 4)[::2, ::-2], [[3, 1], [11, 9]]),
    ],
    ids=repr,
)
def test_shapes_and_containers(values: Any, expected: Any) -> None:
    found = as_frequencies(values)
    assert found.dtype == np.int64
    assert found.shape == np.shape(values)
    assert found.tolist() == expected


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor(0.1), Priority(0.1, 2), CustomSampling(lambda i: 1)], ids=repr)
@pytest.mark.parametrize("values", [7, [], [[1, 2, 3]], np.zeros((0, 2), int), np.array(3, np.int8)], ids=repr)
def test_q_has_the_shape_of_the_frequencies(sampling: Sampling, values: Any) -> None:
    assert np.shape(sampling.q(values)) == np.shape(values)
    assert np.shape(sampling.complement(values)) == np.shape(values)


@pytest.mark.parametrize(
    "values",
    [
        [41.0, 7.5],
        np.array([41], np.float32),
        [True, False],
        np.array(True),
        ["41"],
        [None, 41],
        [41, "x"],
        [41 + 0j],
        np.array(["2041-01-01"], "datetime64[D]"),
        [-41, 2],
        np.array([-41], np.int8),
        [2**63 + 41],
        np.array([2**63 + 41], np.uint64),
        [2**64 + 41],
        [-(2**70) - 41],
        np.array([41, -41], object),
        [Fraction(41)],
        [Decimal(41)],
    ],
    ids=repr,
)
def test_other_frequencies_are_refused_without_showing_them(values: Any) -> None:
    with refused("frequencies must be integers from 0 to 2**63 - 1", hidden=[41, 9223372036854775849]):
        as_frequencies(values)


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor(0.1), Priority(0.1), CustomSampling(["0.1"])], ids=repr)
@pytest.mark.parametrize("use", ["q", "complement"])
def test_every_scheme_checks_its_frequencies(sampling: Sampling, use: str) -> None:
    for bad in ([1.0], [-41], [2**63]):
        with refused("frequencies must be integers", hidden=[41]):
            getattr(sampling, use)(bad)


def test_bools_and_ragged_lists_are_no_frequencies() -> None:
    with refused("frequencies must be integers"):
        KeepAll().q([1, True])
    with refused("frequencies must be integers"):
        KeepAll().q([[1, 2], [3]])
