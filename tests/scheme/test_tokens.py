"""Token laws against Algorithms 4 and 5, row by row; and that a row is the same wherever it is computed from.

How exact floats can be: a probability is a difference of two tails. It is compared to 1e-12 of itself, or of delta
where that is larger: a residue far below delta is what nearly equal numbers leave.
"""

import math
import tracemalloc
from fractions import Fraction
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import oracles
from dpsample import CustomSampling, KeepAll, Ppswor, Priority, Privacy, Sampling
from dpsample.scheme import TokenLaw, default_grid, integer_law, integer_laws, token_law, token_laws
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.tokens import support_length
from references import true_q_fractions
from strategies import privacies, schemes, weighted
from support import refused

ROWS = 16  # of the oracles
# Tokens of a small epsilon are spread over thousands of frequencies, of which these rows are the first: such an epsilon
# is an example, and the random ones are larger.
SMALL = Privacy("0.01", "1e-6")


def oracle_rows(sampling: Sampling, privacy: Privacy, grid: int, rows: int = ROWS) -> list[list[Fraction]]:
    q, E = true_q_fractions(sampling, rows), oracles.exponential(privacy.epsilon)
    if grid == 1:
        return oracles.algorithm_4(q, E, privacy.delta)
    densities = oracles.algorithm_5(q, E, privacy.delta)
    return [oracles.cells(density, grid, i) for i, density in enumerate(densities)]


def dense(law: TokenLaw) -> list[float]:
    """The law as a row of the oracles: not reported, then every cell up to the frequency."""
    row = np.zeros(law.frequency * law.grid + 1)
    row[law.cells] = law.probabilities
    row[0] = law.not_reported
    return row.tolist()


def check_rows(sampling: Sampling, privacy: Privacy, grid: int, beside_the_tail: bool = False) -> None:
    """Each probability to 1e-12 of itself or delta; with `beside_the_tail`, of the tail above it if that is larger."""
    expected = oracle_rows(sampling, privacy, grid)
    for i, law in enumerate(token_laws(range(ROWS + 1), sampling, privacy, grid)):
        tail = Fraction(0)
        for found, true in reversed(list(zip(dense(law), expected[i], strict=True))):
            tail += true
            scale = max(true, privacy.delta, tail if beside_the_tail else 0)
            assert abs(Fraction(found) - true) <= scale / 10**12


# Algorithms 4 and 5.


@settings(max_examples=30)
@given(st.one_of(st.just(KeepAll()), weighted()), privacies(epsilon=("0.01", "4")))
def test_grid_1_is_algorithm_4(sampling: Sampling, privacy: Privacy) -> None:
    check_rows(sampling, privacy, 1)


@settings(max_examples=20)
@given(st.one_of(st.just(KeepAll()), weighted()), privacies(epsilon=("0.1", "4")), st.sampled_from([2, 4, 8]))
@example(Ppswor("0.1"), SMALL, 4)
def test_a_finer_grid_is_algorithm_5_in_cells(sampling: Sampling, privacy: Privacy, grid: int) -> None:
    check_rows(sampling, privacy, grid)


@settings(max_examples=25)
@given(schemes(length=ROWS), privacies(epsilon=("0.1", "4")), st.sampled_from([1, 2, 4]))
@example(CustomSampling(["1e-7"] * 3 + ["0.001"] * 5 + ["0.5"] * 8), SMALL, 2)
def test_any_q(sampling: Sampling, privacy: Privacy, grid: int) -> None:
    """Where q grows by irregular steps, tiny probabilities lie between large ones: compared beside their tails."""
    check_rows(sampling, privacy, grid, beside_the_tail=True)


STAIRS = CustomSampling(["0.001"] * 4 + ["0.01"] * 4 + ["0.5"] * 8)


@pytest.mark.parametrize("grid", [1, 2, 4, 8])
@pytest.mark.parametrize("delta", ["1e-2", "1e-6", "1e-15"])
@pytest.mark.parametrize("epsilon", ["0.5", "3"])
@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.1"), Priority("0.1"), STAIRS], ids=repr)
def test_examples(sampling: Sampling, epsilon: str, delta: str, grid: int) -> None:
    check_rows(sampling, Privacy(epsilon, delta), grid)


@pytest.mark.parametrize("grid", [1, 8])
@pytest.mark.parametrize("epsilon", ["6", "9", "12", "17"])
@pytest.mark.parametrize("sampling", [KeepAll(), Priority("0.4", "0.5")], ids=repr)
def test_a_large_epsilon(sampling: Sampling, epsilon: str, grid: int) -> None:
    check_rows(sampling, Privacy(epsilon, "2e-7"), grid)


@pytest.mark.parametrize("grid", [1, 4])
def test_q_that_grows_a_little_faster_than_privacy_allows(grid: int) -> None:
    check_rows(
        CustomSampling([Fraction(21, 10) ** k / 10**4 for k in range(12)] + [1] * 4), Privacy("0.7", "1e-8"), grid
    )


@settings(max_examples=5)
@given(schemes(length=ROWS), privacies(epsilon=("0.1", "20")), st.sampled_from([1, 8]))
@example(KeepAll(), SMALL, 1)
@example(CustomSampling(["1e-7"] * 3 + ["0.001"] * 5 + ["0.5"] * 8), SMALL, 8)
def test_tails_keep_their_relative_precision(sampling: Sampling, privacy: Privacy, grid: int) -> None:
    """For every epsilon: what a sanitizer compares with is good to 1e-13 of itself."""
    expected = oracle_rows(sampling, privacy, grid)
    for i, found in Reporting.of(sampling, privacy).boundaries(np.arange(1, ROWS + 1), grid):
        tail = Fraction(0)
        for k, S in enumerate(found.tolist()):
            assert abs(Fraction(S) - tail) <= tail / 10**13
            tail += expected[i][-1 - k] if k < i * grid else 0


# What a law is.


@settings(max_examples=40)
@given(schemes(length=60), privacies(epsilon=("0.03", "4")), st.sampled_from([1, 2, 8]), st.integers(0, 60))
def test_a_law_is_a_law(sampling: Sampling, privacy: Privacy, grid: int, frequency: int) -> None:
    law = token_law(frequency, sampling, privacy, grid)
    assert (law.frequency, law.grid) == (frequency, grid)
    assert law.cells.dtype == np.int64
    assert len(law.cells) == len(law.probabilities) == len(law.tokens)
    assert (np.diff(law.cells) > 0).all()
    assert (np.diff(law.tokens) > 0).all()
    assert (law.cells > 0).all()
    assert (law.cells <= frequency * grid).all()
    assert (law.tokens * grid == law.cells).all()
    assert (law.probabilities > 0).all()
    assert 0 <= law.not_reported <= 1
    assert math.fsum([*law.probabilities.tolist(), law.not_reported]) == pytest.approx(1, abs=1e-12)
    assert law.reported == pytest.approx(math.fsum(law.probabilities.tolist()), rel=1e-14)


def test_tokens_are_integers_only_on_grid_1() -> None:
    assert token_law(5, KeepAll(), Privacy(1, "1e-3"), 1).tokens.dtype == np.int64
    fine = token_law(5, KeepAll(), Privacy(1, "1e-3"), 4)
    assert fine.tokens.dtype == np.float64
    assert fine.tokens[-1] == 5
    assert fine.tokens[-2] == 4.75


def test_frequency_0_is_never_reported() -> None:
    law = token_law(0, Ppswor("0.1"), Privacy(1, "1e-3"), 2)
    assert law.not_reported == 1
    assert law.cells.size == law.probabilities.size == 0


def test_a_law_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        token_law(5, KeepAll(), Privacy(1, "1e-3")).frequency = 6  # type: ignore[misc]


@settings(max_examples=30)
@given(schemes(length=80), privacies(epsilon=("0.05", "4")), st.sampled_from([1, 4]), st.integers(1, 79))
def test_a_larger_frequency_has_larger_tokens(sampling: Sampling, privacy: Privacy, grid: int, frequency: int) -> None:
    """Stochastic dominance: every tail grows with the frequency, "not reported" being the lowest token."""
    below, above = token_laws([frequency, frequency + 1], sampling, privacy, grid)
    cells = np.union1d(below.cells, above.cells)

    def tail(law: TokenLaw) -> NDArray[np.float64]:
        sums = np.append(np.cumsum(law.probabilities[::-1])[::-1], 0.0)
        return sums[np.searchsorted(law.cells, cells)]

    assert (tail(above) >= tail(below) * (1 - 1e-12)).all()
    assert below.not_reported >= above.not_reported * (1 - 1e-12)


@settings(max_examples=20)
@given(schemes(length=80), privacies(epsilon=("0.1", "4")), st.integers(1, 80))
def test_a_finer_grid_refines_a_coarser_one(sampling: Sampling, privacy: Privacy, frequency: int) -> None:
    coarse, fine = (token_law(frequency, sampling, privacy, grid) for grid in (2, 8))
    merged = np.zeros(2 * frequency + 1)
    np.add.at(merged, -(-fine.cells // 4), fine.probabilities)
    expected = np.zeros(2 * frequency + 1)
    expected[coarse.cells] = coarse.probabilities
    np.testing.assert_allclose(merged, expected, rtol=1e-11, atol=1e-11 * float(privacy.delta))


# Locality: the same bits, however a row is reached.


def same(a: TokenLaw, b: TokenLaw) -> bool:
    return (
        (a.frequency, a.grid, a.not_reported) == (b.frequency, b.grid, b.not_reported)
        and np.array_equal(a.cells, b.cells)
        and np.array_equal(a.probabilities, b.probabilities)
    )


@pytest.mark.parametrize("grid", [1, 8])
@pytest.mark.parametrize(
    "sampling",
    [
        KeepAll(),
        Ppswor("1e-3"),
        Priority("1e-6"),
        Ppswor("0.01", "0.5"),
        CustomSampling(lambda i: "0.01" if i < 500 else 1),
    ],
    ids=repr,
)
def test_rows_are_the_same_alone_in_batches_and_in_any_order(sampling: Sampling, grid: int) -> None:
    privacy = Privacy("0.5", "1e-9")
    rng = np.random.default_rng(11)
    far = [10**6 - 3, 10**6 - 1, 10**6, 10**9, 10**15]
    frequencies = [*rng.permutation(np.r_[0:200:3, 490:700:7]).tolist(), *far, 5, 5, 10**15]
    alone = [token_law(i, sampling, privacy, grid) for i in frequencies]
    batch = list(token_laws(frequencies, sampling, privacy, grid))
    assert all(map(same, alone, batch))
    backward = list(token_laws(frequencies[::-1], sampling, privacy, grid))
    assert all(map(same, alone, reversed(backward)))


@pytest.mark.parametrize("grid", [1, 4])
@pytest.mark.parametrize(
    "sampling",
    [
        KeepAll(),
        Priority("0.02"),
        Ppswor("0.3"),
        Ppswor("0.1", cap=30),
        Priority("0.001", 0),
        CustomSampling(lambda i: "1/3"),
    ],
    ids=repr,
)
def test_from_where_pi_is_constant_rows_are_shifts(sampling: Sampling, grid: int) -> None:
    """Below that row each is computed on its own, above it they are shifted: no seam shows."""
    privacy = Privacy("0.5", "1e-6")
    steady = Reporting.of(sampling, privacy).constant_from + support_length(privacy)
    first = token_law(steady - 3, sampling, privacy, grid)
    for i in (steady - 2, steady - 1, steady, steady + 1, steady + 1000, 10**12, 2**60):
        law = token_law(i, sampling, privacy, grid)
        assert np.array_equal(law.cells, first.cells + (i - first.frequency) * grid)
        np.testing.assert_allclose(law.probabilities, first.probabilities, rtol=1e-13, atol=0)
        assert law.not_reported == pytest.approx(first.not_reported, rel=1e-12, abs=1e-30)


def check_against_integers(law: TokenLaw, sampling: Sampling, privacy: Privacy, tolerance: float = 1e-12) -> None:
    exact = integer_law(law.frequency, sampling, privacy, law.grid)
    q = Fraction(sampling.bounds(law.frequency, 256)[0], 1 << 256)
    expected = dict(enumerate(q * p for p in exact.probabilities))
    found = dict(zip((law.frequency * law.grid - law.cells).tolist(), law.probabilities.tolist(), strict=True))
    for k in {*expected, *found}:
        p = expected.get(k, Fraction(0))
        assert abs(Fraction(found.get(k, 0.0)) - p) <= max(p, privacy.delta) * Fraction(tolerance)


@pytest.mark.parametrize("frequency", [1, 7, 300, 12_345, 10**12, 2**63 - 1])
@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("1e-4"), Priority("1e-4", 2)], ids=repr)
def test_large_frequencies(sampling: Sampling, frequency: int) -> None:
    privacy = Privacy("0.3", "1e-6")
    law = token_law(frequency, sampling, privacy)
    assert law.tokens[-1] == frequency
    check_against_integers(law, sampling, privacy)


@pytest.mark.parametrize(
    ("sampling", "epsilon", "frequency"),
    [
        (KeepAll(), "0.01", 2500),
        (KeepAll(), "0.01", 3100),
        (KeepAll(), "0.01", 10**9),
        (Ppswor("1e-3"), "0.01", 1700),
        (Priority("1e-3"), "0.02", 990),
        (KeepAll(), "0.05", 10**9),
    ],
    ids=repr,
)
def test_the_smallest_epsilon_and_delta(sampling: Sampling, epsilon: str, frequency: int) -> None:
    """Up to 6,000 tokens to a row, and as many steps from the oldest token's first frequency."""
    privacy = Privacy(epsilon, "1e-15")
    check_against_integers(token_law(frequency, sampling, privacy), sampling, privacy, tolerance=2e-12)


@pytest.mark.parametrize(
    "sampling",
    [
        Ppswor("1e-18"),
        Priority("1e-20"),
        Ppswor("1e-8", "0.5"),
        Priority("1e-12", "0.5"),
        CustomSampling(lambda i: "1e-9"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("frequency", [5, 10**12, 2**63 - 1])
def test_schemes_that_never_become_constant(sampling: Sampling, frequency: int) -> None:
    privacy = Privacy(1, "1e-6")
    check_against_integers(token_law(frequency, sampling, privacy), sampling, privacy)


def test_many_rows_in_little_memory() -> None:
    """2,000 frequencies up to 10**15 that are not shifts of one another, a block at a time."""
    frequencies = np.unique((10 ** np.random.default_rng(5).uniform(0, 15, 2000)).astype(np.int64))
    sampling, privacy = Priority("1e-15"), Privacy("0.5", "1e-6")
    tracemalloc.start()
    tokens = sum(len(law.cells) for law in token_laws(frequencies, sampling, privacy, default_grid(privacy)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert tokens > 5 * 10**4
    assert peak < 32 * 2**20


# Checks.


@pytest.mark.parametrize("grid", [0, -1, 3, 6, 12, 2048, 2**40, True, 2.0, "8", None, np.float64(4)], ids=repr)
def test_a_grid_is_a_power_of_two(grid: Any) -> None:
    with refused("grid must be a power of two"):
        token_law(5, KeepAll(), Privacy(1, "1e-6"), grid)


@pytest.mark.parametrize("grid", [2, 1024, np.int64(8)], ids=repr)
def test_other_grids_are_allowed(grid: Any) -> None:
    law = token_law(2, KeepAll(), Privacy(1, "1e-3"), grid)
    assert len(law.cells) == 2 * grid


def test_tokens_fit_an_integer() -> None:
    privacy = Privacy(1, "1e-6")
    assert token_law(2**59, KeepAll(), privacy, 8).cells[-1] == 2**62
    with refused("with grid 8 frequencies must be at most 1152921504606846975", hidden=[2**60 + 41]):
        token_law(2**60 + 41, KeepAll(), privacy, 8)


@pytest.mark.parametrize("frequency", [-41, 41.0, True, "41", None, 2**63 + 41], ids=repr)
def test_bad_frequencies_are_refused(frequency: Any) -> None:
    with refused("frequencies must be integers from 0 to 2**63 - 1", hidden=[41]):
        token_law(frequency, KeepAll(), Privacy(1, "1e-6"))


def test_beyond_the_end_of_a_sequence() -> None:
    sampling = CustomSampling(["0.1"] * 5)
    assert token_law(5, sampling, Privacy(1, "1e-6")).frequency == 5
    for beyond in (6, 10**12):
        with refused("every frequency must be within the sequence of q"):
            token_law(beyond, sampling, Privacy(1, "1e-6"))


def test_laws_come_in_the_order_given() -> None:
    frequencies = [9, 2, 10**9, 2, 7]
    laws = token_laws(frequencies, KeepAll(), Privacy(1, "1e-6"))
    assert [law.frequency for law in laws] == frequencies
    assert list(token_laws([], KeepAll(), Privacy(1, "1e-6"))) == []
    shaped = token_laws(np.array([[3, 1], [2, 3]], np.uint8), KeepAll(), Privacy(1, "1e-6"))
    assert [law.frequency for law in shaped] == [3, 1, 2, 3]


def test_rows_agree_with_their_neighbours_in_integers() -> None:
    """Consecutive integer rows, computed one from the other, and float rows, each computed from its own births."""
    sampling, privacy = Ppswor("0.01", 2), Privacy("0.4", "1e-7")
    rows = islice(integer_laws(1, sampling, privacy, 2), 150)
    for exact, law in zip(rows, token_laws(range(1, 151), sampling, privacy, 2), strict=True):
        assert exact.frequency == law.frequency
        q = Fraction(sampling.bounds(law.frequency, 256)[0], 1 << 256)
        cut = dict(enumerate(pairwise((0, *exact.cuts))))
        for k, p in zip((2 * law.frequency - law.cells).tolist(), law.probabilities.tolist(), strict=True):
            low, high = cut[k]
            assert (
                abs(Fraction(p) - q * Fraction(high - low, 1 << exact.bits)) <= max(Fraction(p), privacy.delta) / 10**12
            )
