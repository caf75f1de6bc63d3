"""Reporting probabilities against Algorithm 3: accurate, never above the optimum, and optimal."""

import math
import tracemalloc
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import oracles
from dpsample import CustomSampling, InvalidValue, KeepAll, Ppswor, Priority, Privacy, Sampling
from dpsample.exact import MAX_FREQUENCY
from dpsample.scheme import closed_form, frequency_reaching, reporting_probabilities, steps_to_one
from dpsample.scheme.reporting import Reporting
from references import FUZZ, PRECISE, decimal, relative, true_pi, true_q, true_q_fractions, true_qs
from strategies import decimals, privacies, schemes, slopes, staircases, weighted
from support import refused


def check(
    frequencies: list[int], true: list[Decimal], sampling: Sampling, privacy: Privacy, tolerance: float = 1e-12
) -> None:
    """pi and 1 - pi are accurate, and on the safe side.

    The last 1 - pi before 0 is what a subtraction of delta leaves, which may be anything; its error, like that of all
    others, is measured against delta where that is larger.
    """
    found = reporting_probabilities(frequencies, sampling, privacy).tolist()
    absent = reporting_probabilities(frequencies, sampling, privacy, complement=True).tolist()
    delta = decimal(privacy.delta)
    with localcontext(PRECISE):
        for pi, not_pi, exact in zip(found, absent, true, strict=True):
            assert relative(pi, exact) <= tolerance
            assert Decimal(pi) <= exact * (1 + FUZZ)
            assert relative(not_pi, 1 - exact, least=delta) <= tolerance
            assert Decimal(not_pi) >= (1 - exact) * (1 - FUZZ) - FUZZ


def test_the_references_agree() -> None:
    """Algorithm 3 as transcribed in fractions, and the 120 digits that the tests of long rows rest on."""
    for sampling in (KeepAll(), Ppswor("0.3", "0.5"), Priority("0.01", 2)):
        privacy = Privacy("0.7", "1e-5")
        exact = oracles.algorithm_3(
            true_q_fractions(sampling, 40), oracles.exponential(privacy.epsilon, 80), privacy.delta
        )
        for fast, slow in zip(true_pi(sampling, privacy, 40), exact, strict=True):
            assert abs(Fraction(fast) - slow) <= slow / 10**50


# Every family of q, over the whole range of epsilon and delta.


@settings(max_examples=60)
@given(schemes(length=30), privacies())
@example(CustomSampling(["0.3"] * 30), Privacy("0.5", "1e-4"))  # constant
@example(CustomSampling(["1e-7"] * 15 + ["1"] * 15), Privacy("0.5", "1e-4"))  # q below delta, then a jump
@example(CustomSampling(["1e-4"] * 30), Privacy("0.5", "1e-4"))  # q is delta
@example(CustomSampling([0] * 10 + ["0.5"] * 20), Privacy("1", "1e-6"))
def test_it_is_algorithm_3_and_never_above_it(sampling: Sampling, privacy: Privacy) -> None:
    frequencies = list(range(31))
    E = oracles.exponential(privacy.epsilon, 60)
    q = true_q_fractions(sampling, 30)
    exact = oracles.algorithm_3(q, E, privacy.delta)
    # pi grows with E and with q: so this is above the true optimum, by a hair
    hair = 1 + Fraction(1, 10**55)
    above = oracles.algorithm_3([v * hair for v in q], E * hair, privacy.delta)
    found = reporting_probabilities(frequencies, sampling, privacy).tolist()
    absent = reporting_probabilities(frequencies, sampling, privacy, complement=True).tolist()
    for pi, not_pi, true, most in zip(found, absent, exact, above, strict=True):
        assert Fraction(pi) <= most
        assert Fraction(pi) >= true * (1 - Fraction(1, 10**12))
        assert Fraction(not_pi) >= 1 - most
        assert Fraction(not_pi) - (1 - true) <= max(1 - true, privacy.delta) / 10**12


@settings(max_examples=25)
@given(st.one_of(st.just(KeepAll()), weighted(), staircases(400), slopes(400)), privacies())
def test_it_is_exact_along_whole_stretches(sampling: Sampling, privacy: Privacy) -> None:
    last = min(2 * math.ceil(steps_to_one(privacy)) + 20, sampling.largest, 1500)
    check(list(range(last + 1)), true_pi(sampling, privacy, last), sampling, privacy)


@pytest.mark.parametrize("delta", ["1e-2", "1e-6", "1e-15"])
@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "1", "20"])
@pytest.mark.parametrize(
    "sampling", [KeepAll(), Ppswor("1e-3"), Priority("0.05", "0.5"), Ppswor("1e-15", 2), Priority("1e-15")], ids=repr
)
def test_the_corners_of_the_range(sampling: Sampling, epsilon: str, delta: str) -> None:
    privacy = Privacy(epsilon, delta)
    last = 2 * math.ceil(steps_to_one(privacy)) + 20
    check(list(range(last + 1)), true_pi(sampling, privacy, last), sampling, privacy)


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("1e-4")], ids=repr)
def test_a_tiny_epsilon(sampling: Sampling) -> None:
    privacy = Privacy("0.001", "1e-15")
    last = 2 * math.ceil(steps_to_one(privacy)) + 20  # 54,000 or so
    true = true_pi(sampling, privacy, last)
    some = sorted({*range(0, last, 37), *range(last - 200, last + 1)})
    check(some, [true[i] for i in some], sampling, privacy, tolerance=1e-10)


# Stretches far out, found without walking there.


def follow_integers(q: list[Fraction], privacy: Privacy, pi: Fraction) -> list[Fraction]:
    """Algorithm 3 from a given pi on, in integers over 2**400, rounded to the nearest."""
    one = 1 << 400
    E = int(oracles.exponential(privacy.epsilon, 120) * one)
    delta = int(privacy.delta * one)
    value, found = int(pi * one), []
    for q_i in q:
        grow = (E * value >> 400) + delta
        shrink = one - ((one - value - delta) << 400) // E
        value = min(int(q_i * one), grow, shrink)
        found.append(Fraction(value, one))
    return found


@pytest.mark.parametrize(
    ("sampling", "meets", "privacy"),
    [
        (Priority("1e-6"), 10**6, Privacy("0.1", "1e-9")),
        (Priority("1e-6"), 10**6, Privacy("2", "1e-12")),
        (Priority("1e-12", 2), 10**6, Privacy("0.05", "1e-9")),
        (Priority("1e-9"), 10**9, Privacy("0.1", "1e-15")),
        (CustomSampling(lambda i: "0.001" if i < 10**15 else "0.999"), 10**15, Privacy("0.1", "1e-6")),
        (CustomSampling(lambda i: 0 if i < 2**62 else "1e-3"), 2**62, Privacy("1", "1e-15")),
    ],
    ids=repr,
)
def test_privacy_binds_far_out(sampling: Sampling, meets: int, privacy: Privacy) -> None:
    start = meets - 3000
    frequencies = list(range(start + 1, meets + 1000))
    with localcontext(PRECISE):
        q = [Fraction(true_q(sampling, i)[0]) for i in [start, *frequencies]]
    true = follow_integers(q[1:], privacy, q[0])
    # it is right to start with pi = q: for long, nothing else happens
    assert all(pi >= q_i * (1 - Fraction(1, 2**300)) for pi, q_i in zip(true[:1000], q[1:1001], strict=True))
    # and then privacy binds
    binding = [i for i, pi, q_i in zip(frequencies, true, q[1:], strict=True) if pi < q_i * (1 - Fraction(1, 10**9))]
    assert binding
    assert set(binding) <= set(Reporting.of(sampling, privacy).binding.tolist())
    check(frequencies, [decimal(pi) for pi in true], sampling, privacy)


def test_the_largest_frequencies() -> None:
    frequencies = [2**63 - 1, 2**63 - 2, 2**62, 10**18]
    privacy = Privacy("0.1", "1e-9")
    for sampling in (KeepAll(), Ppswor("1e-19"), Priority("1e-19"), Ppswor("1e-12", "0.5"), Priority("3e-38", 2)):
        check(frequencies, true_qs(sampling, frequencies), sampling, privacy)


def test_a_sequence_ends() -> None:
    for sampling in (CustomSampling(["0.1"] * 3), CustomSampling([1] * 20_000)):
        privacy = Privacy(1, "1e-6")
        for complement in (False, True):
            assert reporting_probabilities([sampling.largest], sampling, privacy, complement=complement).shape == (1,)
            for beyond in (sampling.largest + 1, 2**62):
                with refused("every frequency must be within the sequence of q", hidden=[2**62]):
                    reporting_probabilities([1, beyond], sampling, privacy, complement=complement)


# Optimality: nobody reports more.


@pytest.mark.parametrize(
    ("q", "epsilon", "delta"),
    [
        (["1"] * 6, "0.5", "0.01"),
        (["1"] * 5, "1.5", "0.001"),
        (["0.02", "0.02", "0.9", "0.9", "0.9"], "1", "0.01"),
        (["0.005", "0.3", "0.3", "0.95", "1"], "0.7", "0.01"),
        (["0.1", "0.2", "0.3", "0.4", "0.5"], "0.3", "0.05"),
        (["0.95", "0.96", "0.999", "1"], "0.2", "0.2"),
    ],
)
@pytest.mark.filterwarnings("ignore::dpsample.PrivacyWarning")
def test_no_private_scheme_reports_any_frequency_more(q: list[str], epsilon: str, delta: str) -> None:
    privacy, values = Privacy(epsilon, delta), [Fraction(v) for v in q]
    E = oracles.exponential(privacy.epsilon)
    found = reporting_probabilities(range(len(q) + 1), CustomSampling(q), privacy)
    for i in range(1, len(q) + 1):
        for tokens in (1, 3):
            most = oracles.largest_reporting(values, E, privacy.delta, frequency=i, tokens=tokens)
            assert found[i] == pytest.approx(most, abs=1e-8)


# Order, repeats, shapes, types, and how they are served.

MIXED = [
    KeepAll(),
    Ppswor("1e-5"),
    Priority("1e-6"),
    Ppswor("1e-9", 2, cap=10**6),
    CustomSampling(lambda i: "1e-4" if i < 10**7 else 1),
]


@pytest.mark.parametrize("sampling", MIXED, ids=repr)
@pytest.mark.parametrize("complement", [False, True])
def test_each_frequency_on_its_own(sampling: Sampling, complement: bool) -> None:
    """Whatever array a frequency comes in, its pi is the same float."""
    privacy = Privacy("0.1", "1e-9")
    rng = np.random.default_rng(7)
    spread = (10 ** rng.uniform(0, 18, 60)).astype(np.int64)
    some = np.unique(np.append(spread, [0, 1, 16_383, 16_384, 2**63 - 1]))
    alone = np.array([reporting_probabilities(i, sampling, privacy, complement=complement) for i in some.tolist()])
    # longer than one step of the computation, low and high frequencies mixed, with repeats
    order = rng.integers(0, len(some), 200_000)
    order[:70_000] = np.sort(order[:70_000])
    mixed = reporting_probabilities(some[order], sampling, privacy, complement=complement)
    assert mixed.dtype == np.float64
    assert (mixed == alone[order]).all()
    shaped = reporting_probabilities(some[order].reshape(100, 50, 40), sampling, privacy, complement=complement)
    assert (shaped == mixed.reshape(100, 50, 40)).all()


@pytest.mark.parametrize(
    "values", [7, [], [[1, 2], [3, 4]], np.zeros((0, 2), np.uint8), np.array(3, np.int8), range(4)]
)
@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.1"), CustomSampling(["1"] * 9)], ids=repr)
def test_shapes_are_kept(sampling: Sampling, values: Any) -> None:
    found = reporting_probabilities(values, sampling, Privacy(1, "1e-6"))
    assert np.shape(found) == np.shape(values)


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_every_integer_type(kind: str) -> None:
    privacy, values = Privacy("0.5", "1e-6"), [0, 1, 60, 127]
    found = reporting_probabilities(np.array(values, kind), Ppswor("0.1"), privacy)
    assert found.tolist() == reporting_probabilities(values, Ppswor("0.1"), privacy).tolist()


@pytest.mark.parametrize("values", [[41.5], [True], [-41], [2**63], ["41"], [None]], ids=repr)
def test_bad_frequencies_are_refused(values: Any) -> None:
    with refused("frequencies must be integers from 0 to 2**63 - 1", hidden=[41]):
        reporting_probabilities(values, KeepAll(), Privacy(1, "1e-6"))


def test_an_endless_walk_is_refused() -> None:
    with refused("less than ten million frequencies"):
        reporting_probabilities([1], KeepAll(), Privacy("1e-9", "1e-9"))


@pytest.mark.filterwarnings("ignore::dpsample.PrivacyWarning")
@pytest.mark.parametrize(
    ("epsilon", "delta", "expected"),
    [
        ("1", "1e-400", 0.0),
        ("1e-400", "1", 1.0),
        ("1e400", "1e-6", 1e-6),
        ("1e6", "1e-6", 1e-6),
        ("1", "1", 1.0),
        ("1e-6", "1", 1.0),
    ],
)
def test_outlandish_privacy_is_refused_or_right(epsilon: str, delta: str, expected: float) -> None:
    try:
        found = reporting_probabilities([1], KeepAll(), Privacy(epsilon, delta))[0]
    except InvalidValue:
        return
    assert found == pytest.approx(expected, rel=1e-12)


# Structure.


@settings(max_examples=60)
@given(schemes(length=300), privacies(epsilon=("0.05", "20")))
def test_privacy_binds_at_few_frequencies(sampling: Sampling, privacy: Privacy) -> None:
    """At most 2 ceil(L), however large frequencies become."""
    most = 2 * math.ceil(steps_to_one(privacy))
    assert len(Reporting.of(sampling, privacy).binding) <= most
    last = min(300, sampling.largest)
    true = true_pi(sampling, privacy, last)
    with localcontext(PRECISE):
        below = sum(pi < q * (1 - FUZZ) for pi, q in zip(true[1:], true_qs(sampling, range(1, last + 1)), strict=True))
    assert below <= most


@settings(max_examples=40)
@given(schemes(length=200), privacies(epsilon=("0.05", "20")))
def test_pi_does_not_decrease(sampling: Sampling, privacy: Privacy) -> None:
    last = min(1500, sampling.largest)
    reporting = Reporting.of(sampling, privacy)
    integers = [reporting.pi(i) for i in range(last + 1)]
    assert all(before <= now for before, now in pairwise(integers))
    pi = reporting_probabilities(range(last + 1), sampling, privacy)
    absent = reporting_probabilities(range(last + 1), sampling, privacy, complement=True)
    # each float is rounded toward privacy by up to some units in its last place, and not all by as many
    assert (pi[1:] >= pi[:-1] * (1 - 1e-14)).all()
    assert (absent[1:] <= absent[:-1] * (1 + 1e-13)).all()


@settings(max_examples=30)
@given(decimals("1e-6", "5"), privacies(epsilon=("0.05", "5"), delta=("1e-12", "1e-2")))
def test_ppswor_by_frequency_crosses_once(tau: Fraction, privacy: Privacy) -> None:
    """Lemma niceq: pi is that of KeepAll up to where it meets q, and q from there on."""
    sampling = Ppswor(tau)
    last = 2 * math.ceil(steps_to_one(privacy)) + 40
    frequencies = list(range(1, last + 1))
    free = true_pi(KeepAll(), privacy, last)[1:]
    q = true_qs(sampling, frequencies)
    crossing = next(k for k, (p, v) in enumerate(zip(free, q, strict=True)) if v <= p)
    check(frequencies, free[:crossing] + q[crossing:], sampling, privacy)


def test_priority_sampling_crosses_more_than_once() -> None:
    """So the shortcut of lemma niceq is not to be used there, and a walk from the first crossing on is needed."""
    sampling, privacy = Priority("0.1"), Privacy("1", "1e-3")
    true = true_pi(sampling, privacy, 60)
    q = [Decimal(0), *true_qs(sampling, range(1, 61))]
    meets = [pi >= v * (1 - FUZZ) for pi, v in zip(true, q, strict=True)][1:]
    changes = sum(a != b for a, b in pairwise(meets))
    assert changes >= 2
    check(list(range(61)), true, sampling, privacy)


# The closed form.


@pytest.mark.parametrize("delta", ["1e-2", "3e-4", "1e-6", "1e-12"])
@pytest.mark.parametrize("epsilon", ["0.05", "0.3", "1", "4"])
def test_the_closed_form(epsilon: str, delta: str) -> None:
    privacy = Privacy(epsilon, delta)
    last = 2 * math.ceil(steps_to_one(privacy)) + 5
    frequencies = [*range(last + 1), MAX_FREQUENCY]
    true = [*true_pi(KeepAll(), privacy, last), Decimal(1)]
    found = closed_form(frequencies, privacy).tolist()
    absent = closed_form(frequencies, privacy, complement=True).tolist()
    with localcontext(PRECISE):
        for pi, not_pi, exact in zip(found, absent, true, strict=True):
            assert relative(pi, exact) < 1e-12
            assert relative(not_pi, 1 - exact, least=decimal(privacy.delta)) < 1e-11


@pytest.mark.filterwarnings("ignore::dpsample.PrivacyWarning")
@pytest.mark.parametrize("epsilon", ["0.2", "1"])
@pytest.mark.parametrize("L", [3, 7])
def test_the_second_branch_of_the_closed_form_as_corrected(epsilon: str, L: int) -> None:
    """For an integral L: 1 - pi_i = delta (E**(2L+1-i) - 1) / (E - 1). Printed is the exponent 2L+2-i."""
    with localcontext(PRECISE):
        E = Decimal(epsilon).exp()
        delta = (E - 1) / (E**L * (E + 1) - 2)  # L = ln((E - 1 + 2 delta) / (delta (E + 1))) / epsilon, solved
        privacy = Privacy(epsilon, Fraction(delta))
        assert steps_to_one(privacy) == pytest.approx(L, abs=1e-12)
        for i in range(L + 1, 2 * L + 2):
            absent = delta * (E ** (2 * L + 1 - i) - 1) / (E - 1)
            printed = delta * (E ** (2 * L + 2 - i) - 1) / (E - 1)
            by_formula = float(closed_form([i], privacy, complement=True)[0])
            by_recurrence = float(reporting_probabilities([i], KeepAll(), privacy, complement=True)[0])
            assert relative(by_formula, absent, least=delta) < 1e-12
            assert relative(by_recurrence, absent, least=delta) < 1e-12
            assert printed - absent >= delta * (1 - FUZZ)


@given(privacies())
def test_steps_to_one(privacy: Privacy) -> None:
    with localcontext(PRECISE):
        E, delta = decimal(privacy.epsilon).exp(), decimal(privacy.delta)
        L = ((E - 1 + 2 * delta) / (delta * (E + 1))).ln() / decimal(privacy.epsilon)
    assert steps_to_one(privacy) == pytest.approx(float(L), rel=1e-12)


@settings(max_examples=30)
@given(schemes(length=60), privacies(epsilon=("0.1", "20")), st.sampled_from([1e-3, 0.1, 0.5, 0.99]))
def test_the_frequency_that_reaches_a_level(sampling: Sampling, privacy: Privacy, level: float) -> None:
    found = frequency_reaching(level, sampling, privacy)
    if found is None:
        assert reporting_probabilities(sampling.largest, sampling, privacy) < level
    else:
        assert reporting_probabilities(found, sampling, privacy) >= level
        assert reporting_probabilities(found - 1, sampling, privacy) < level


# Size.


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("1e-8"), Priority("1e-8")], ids=repr)
def test_memory_does_not_depend_on_the_largest_frequency(sampling: Sampling) -> None:
    """Zipf with alpha = 2 and 10**6 keys: frequencies up to 10**12, in a few times the memory of the result."""
    n = 10**6
    frequencies = n**2 // np.arange(1, n + 1) ** 2
    assert frequencies[0] == 10**12
    tracemalloc.start()
    found = reporting_probabilities(frequencies, sampling, Privacy("0.1", "1e-6"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20  # the result is 8 MB
    some = [0, 1, 10, 999, 9_999, 300_000, n - 1]
    some_frequencies = [int(frequencies[k]) for k in some]
    last = 1000
    true = true_pi(sampling, Privacy("0.1", "1e-6"), last)
    for k, i in zip(some, some_frequencies, strict=True):
        expected = true[i] if i <= last else true_q(sampling, i)[0]
        assert relative(float(found[k]), expected) < 1e-12
