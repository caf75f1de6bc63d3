"""The integer laws that a sanitizer draws from, against Algorithm 5 in exact fractions.

The scheme is built for a delta that is smaller by one part in 2**50, so it is compared with the oracle for that delta:
then only the rounding of the integers remains. One unit that is lost at a token's first frequency grows with
its tail, so errors are relative: 2**-bits / delta, which is at most 2**-75, per step.

pi never exceeds the optimum. A single tail may, by a hair: where pi_{i-1} was rounded down, fewer of the tokens up to x
have to be kept at i, so more of them may move above x. It is the certificate that decides about privacy.
"""

from fractions import Fraction
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from dpsample import CustomSampling, KeepAll, Ppswor, Priority, Privacy, Sampling
from dpsample.scheme import IntegerLaw, default_grid, integer_law, integer_laws, reporting_probabilities
from dpsample.scheme.reporting import Reporting
from references import true_q_fractions
from strategies import privacies, schemes
from support import refused

ROWS = 14
MARGIN = 1 - Fraction(1, 2**50)


def check_row(law: IntegerLaw, row: list[Fraction], q: Fraction, pi: Fraction) -> None:
    """The cuts of row i against the cells of an oracle's, for a q given to about 60 digits."""
    unit, error = Fraction(1, 2**law.bits), Fraction(1, 2**70)
    tail = Fraction(0)
    for k, mass in enumerate(reversed(row[1:])):
        tail += mass
        found = q * unit * law.cuts[min(k, len(law.cuts) - 1)]
        assert found <= tail + error * pi
        assert found >= tail * (1 - error) - 4 * unit
    assert len(law.cuts) <= len(row) - 1


@settings(max_examples=30)
@given(schemes(length=ROWS), privacies(), st.sampled_from([1, 2, 4]))
def test_end_to_end_it_is_the_oracle(sampling: Sampling, privacy: Privacy, grid: int) -> None:
    q, E = true_q_fractions(sampling, ROWS), oracles.exponential(privacy.epsilon, 60)
    exact = oracles.algorithm_5(q, E, privacy.delta * MARGIN)
    most = oracles.algorithm_3(q, E, privacy.delta)
    for i, law in enumerate(islice(integer_laws(1, sampling, privacy, grid), ROWS), 1):
        assert law.frequency == i
        row = oracles.cells(exact[i], grid, i)
        check_row(law, row, q[i - 1], 1 - row[0])
        # what is reported: never above the optimum, and below it by the margin only
        reported = q[i - 1] * law.reported
        assert reported <= most[i] * (1 + Fraction(1, 10**55))
        assert reported >= most[i] * (1 - Fraction(1, 2**49)) - Fraction(4, 2**law.bits)


@pytest.mark.parametrize("delta", ["1e-2", "1e-6", "1e-15"])
@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.2", "0.5"), Priority("0.1", 2)], ids=repr)
def test_grid_1_is_algorithm_4(sampling: Sampling, delta: str) -> None:
    privacy = Privacy("1.5", delta)
    q, E = true_q_fractions(sampling, 25), oracles.exponential(privacy.epsilon, 60)
    table = oracles.algorithm_4(q, E, privacy.delta * MARGIN)
    for i, law in enumerate(islice(integer_laws(1, sampling, privacy, 1), 25), 1):
        check_row(law, table[i], q[i - 1], 1 - table[i][0])


@settings(max_examples=40)
@given(schemes(length=50), privacies(epsilon=("0.05", "20")), st.sampled_from([1, 8]), st.integers(1, 50))
def test_cuts_ascend_and_never_report_more_than_was_sampled(
    sampling: Sampling, privacy: Privacy, grid: int, frequency: int
) -> None:
    law = integer_law(frequency, sampling, privacy, grid)
    assert all(type(cut) is int for cut in law.cuts)
    assert all(a <= b for a, b in pairwise((0, *law.cuts, 2**law.bits)))
    assert len(law.cuts) <= frequency * grid
    # 2**-bits is far below any delta
    assert Fraction(1, 2**law.bits) < privacy.delta / 2**75


@settings(max_examples=30)
@given(schemes(length=50), privacies(epsilon=("0.05", "20")), st.integers(1, 50))
def test_the_probabilities_are_those_of_the_cuts(sampling: Sampling, privacy: Privacy, frequency: int) -> None:
    law = integer_law(frequency, sampling, privacy, 2)
    assert len(law.probabilities) == len(law.cuts)
    assert sum(law.probabilities) == law.reported
    assert 0 <= law.reported <= 1
    for k, cut in enumerate(law.cuts):
        assert sum(law.probabilities[: k + 1]) == Fraction(cut, 2**law.bits)
    q = Fraction(sampling.bounds(frequency, 300)[0], 2**300)
    pi = reporting_probabilities(frequency, sampling, privacy)
    assert float(q * law.reported) == pytest.approx(float(pi), rel=1e-12)


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.1"), CustomSampling(["0.01"] * 5 + ["1"] * 25)], ids=repr)
@pytest.mark.parametrize("frequency", [1, 2, 9, 30])
def test_a_number_draws_the_token_between_its_cuts(sampling: Sampling, frequency: int) -> None:
    """At every cut and on both sides of it: token k, counted from the highest, is drawn by cuts[k-1] <= v < cuts[k]."""
    law = integer_law(frequency, sampling, Privacy(1, "1e-4"), 4)
    lower = 0
    for k, cut in enumerate(law.cuts):
        if cut > lower:
            token = frequency - Fraction(k, 4)
            assert law.token(lower) == token
            assert law.token(cut - 1) == token
            assert law.token(cut) != token
        lower = cut
    if lower < 2**law.bits:
        assert law.token(lower) is None
        assert law.token(2**law.bits - 1) is None
    assert law.token(0) == frequency


@settings(max_examples=25)
@given(
    schemes(length=120),
    privacies(epsilon=("0.2", "20")),
    st.sampled_from([1, 4]),
    st.integers(1, 100),
    st.integers(0, 20),
)
def test_a_row_is_the_same_wherever_the_computation_starts(
    sampling: Sampling, privacy: Privacy, grid: int, start: int, steps: int
) -> None:
    there = start + steps
    assert next(islice(integer_laws(start, sampling, privacy, grid), steps, None)) == integer_law(
        there, sampling, privacy, grid
    )
    assert next(islice(integer_laws(1, sampling, privacy, grid), there - 1, None)) == integer_law(
        there, sampling, privacy, grid
    )


@pytest.mark.parametrize(
    ("sampling", "centre"),
    [
        (Priority("1e-6"), 10**6),
        (Ppswor("1e-13", 2), 10**6),
        (CustomSampling(lambda i: "0.1" if i < 10**7 else "0.9"), 10**7),
    ],
    ids=repr,
)
def test_far_apart_windows_agree_to_the_last_bit(sampling: Sampling, centre: int) -> None:
    privacy = Privacy(2, "1e-9")
    early = {law.frequency: law for law in islice(integer_laws(centre - 60, sampling, privacy, 2), 120)}
    for i in (centre - 60, centre - 9, centre - 1, centre, centre + 1, centre + 9, centre + 59):
        assert integer_law(i, sampling, privacy, 2) == early[i]


@pytest.mark.parametrize("sampling", [KeepAll(), Priority("0.05"), Ppswor("0.1", cap=40)], ids=repr)
def test_where_pi_is_constant_all_rows_have_the_same_cuts(sampling: Sampling) -> None:
    privacy = Privacy("0.5", "1e-6")
    first = Reporting.of(sampling, privacy).constant_from + 200
    expected = integer_law(first, sampling, privacy, 2).cuts
    for i in (first + 1, first + 777, 10**12, 2**61):
        assert integer_law(i, sampling, privacy, 2).cuts == expected


def test_the_largest_frequency() -> None:
    privacy = Privacy(1, "1e-6")
    laws = integer_laws(2**63 - 2, KeepAll(), privacy, 1)
    assert [next(laws).frequency, next(laws).frequency] == [2**63 - 2, 2**63 - 1]
    with refused("with grid 1 frequencies must be at most 9223372036854775807"):
        next(laws)
    with refused("with grid 2 frequencies must be at most"):
        integer_law(2**62, KeepAll(), privacy, 2)


def test_the_default_grid() -> None:
    for epsilon in ("0.05", "0.5", "2"):
        privacy = Privacy(epsilon, "1e-6")
        assert integer_law(5, KeepAll(), privacy).grid == default_grid(privacy)


@pytest.mark.parametrize("frequency", [0, -41, True, 41.0, "41", None], ids=repr)
def test_only_a_sampled_key_has_a_law(frequency: Any) -> None:
    with refused("the frequency of a sampled key must be an integer of at least 1", hidden=[41]):
        integer_law(frequency, KeepAll(), Privacy(1, "1e-6"), 1)


@pytest.mark.parametrize("grid", [0, 3, True, 2.0], ids=repr)
def test_the_grid_is_checked(grid: Any) -> None:
    with refused("grid must be a power of two"):
        integer_law(5, KeepAll(), Privacy(1, "1e-6"), grid)


def test_a_sequence_ends() -> None:
    sampling = CustomSampling(["0.1"] * 3)
    laws = integer_laws(2, sampling, Privacy(1, "1e-6"), 1)
    assert [next(laws).frequency, next(laws).frequency] == [2, 3]
    with refused("every frequency must be within the sequence of q"):
        next(laws)


def test_a_key_that_is_never_sampled_is_never_reported() -> None:
    law = integer_law(2, CustomSampling([0, 0, 0]), Privacy(1, "1e-6"), 2)
    assert law.reported == 0
    assert law.token(0) is None


def test_a_frequency_of_any_integer_type() -> None:
    sampling, privacy = KeepAll(), Privacy(1, "1e-6")
    of_numpy = integer_law(np.int64(5), sampling, privacy, 1)  # type: ignore[arg-type,unused-ignore]
    assert of_numpy == integer_law(5, sampling, privacy, 1)
