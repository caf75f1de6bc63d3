"""Concordance and Kendall's tau against their definitions; and what a grid loses against the optimum."""

from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import oracles
from dpsample import CustomSampling, KeepAll, Ppswor, Priority, Privacy, Sampling
from dpsample.scheme import concordance, default_grid, kendall_tau
from references import true_q_fractions
from strategies import privacies, schemes
from support import refused

ROWS = 10


def oracle_rows(sampling: Sampling, privacy: Privacy, grid: int) -> list[list[Fraction]]:
    q, E = true_q_fractions(sampling, ROWS), oracles.exponential(privacy.epsilon, 30)
    return [oracles.cells(density, grid, i) for i, density in enumerate(oracles.algorithm_5(q, E, privacy.delta))]


@settings(max_examples=20)
@given(schemes(length=ROWS), privacies(epsilon=("0.1", "4"), delta=("1e-9", "1e-2")), st.sampled_from([1, 2]))
def test_concordance_is_its_definition(sampling: Sampling, privacy: Privacy, grid: int) -> None:
    rows = oracle_rows(sampling, privacy, grid)
    pairs = list(combinations(range(ROWS + 1), 2))
    found = concordance([j for _, j in pairs], [i for i, _ in pairs], sampling, privacy, grid)
    for (i, j), value in zip(pairs, found.tolist(), strict=True):
        assert value == pytest.approx(float(oracles.concordance(rows[j], rows[i])), rel=1e-12)


def test_concordance_of_arrays() -> None:
    sampling, privacy = Ppswor("0.1"), Privacy(1, "1e-3")
    table = concordance(np.arange(5)[:, None], np.arange(4), sampling, privacy, 2)
    assert table.shape == (5, 4)
    assert np.diag(table) == pytest.approx(0.5)
    assert table[3, 2] == table[2, 3] == concordance(3, 2, sampling, privacy, 2)  # the order of a pair does not matter
    assert np.shape(concordance([], [], sampling, privacy)) == (0,)
    assert np.shape(concordance(2, 3, sampling, privacy)) == ()


def test_concordance_of_far_frequencies() -> None:
    scheme: Any = (KeepAll(), Privacy("0.5", "1e-6"))
    assert concordance(10**12, 5, *scheme) == pytest.approx(1, abs=1e-12)
    assert concordance(10**12 + 3, 10**12, *scheme) == pytest.approx(float(concordance(1003, 1000, *scheme)), rel=1e-12)


def test_concordance_uses_the_default_grid() -> None:
    privacy = Privacy(2, "1e-3")
    fine = concordance(9, 8, KeepAll(), privacy, default_grid(privacy))
    assert concordance(9, 8, KeepAll(), privacy) == fine
    assert fine > concordance(9, 8, KeepAll(), privacy, 1)


# Kendall's tau.


@settings(max_examples=20)
@given(
    schemes(length=ROWS),
    privacies(epsilon=("0.1", "4"), delta=("1e-9", "1e-2")),
    st.sampled_from([1, 2]),
    st.lists(st.integers(0, ROWS), min_size=2, max_size=14).filter(lambda keys: len(set(keys)) > 1),
)
def test_tau_is_the_mean_over_pairs(sampling: Sampling, privacy: Privacy, grid: int, keys: list[int]) -> None:
    rows = oracle_rows(sampling, privacy, grid)
    values = [oracles.concordance(rows[max(a, b)], rows[min(a, b)]) for a, b in combinations(keys, 2) if a != b]
    expected = 2 * sum(values, Fraction(0)) / len(values) - 1
    assert kendall_tau(keys, sampling, privacy, grid) == pytest.approx(float(expected), abs=1e-12)


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.003"), Priority("1e-3", "0.5")], ids=repr)
def test_tau_of_100_000_keys(sampling: Sampling) -> None:
    """Few distinct frequencies, so that every pair of them can be taken on its own, with its weight."""
    rng = np.random.default_rng(3)
    distinct = np.unique((10 ** rng.uniform(0, 5, 70)).astype(np.int64))
    keys = rng.choice(distinct, 100_000, p=np.arange(1, len(distinct) + 1) / np.arange(1, len(distinct) + 1).sum())
    privacy = Privacy("0.5", "1e-6")
    frequencies, counts = np.unique(keys, return_counts=True)
    low, high = np.triu_indices(len(frequencies), 1)
    pairs = counts[low].astype(float) * counts[high]
    mean = pairs @ concordance(frequencies[high], frequencies[low], sampling, privacy) / pairs.sum()
    assert kendall_tau(keys, sampling, privacy) == pytest.approx(2 * mean - 1, abs=1e-12)


def test_tau_of_100_000_distinct_frequencies() -> None:
    """Far out, where the concordance of a pair depends on its distance alone, and is 1 from some distance on."""
    n, start, privacy = 100_000, 10**9, Privacy(1, "1e-6")
    distance = np.arange(1, 100)
    near = concordance(start + distance, start, KeepAll(), privacy)
    assert near[-1] == pytest.approx(1, abs=1e-12)
    pairs = n * (n - 1) / 2
    lost = ((n - distance) * (1 - near)).sum()
    found = kendall_tau(np.arange(start, start + n), KeepAll(), privacy)
    assert found == pytest.approx(2 * (pairs - lost) / pairs - 1, abs=1e-10)


@pytest.mark.parametrize("keys", [[], [5], [5, 5, 5]])
def test_tau_needs_two_different_frequencies(keys: list[int]) -> None:
    with refused("a rank correlation needs two different frequencies"):
        kendall_tau(keys, KeepAll(), Privacy(1, "1e-6"))


@pytest.mark.parametrize("keys", [[1.5, 2], [-41, 2], [True, False]])
def test_bad_frequencies_are_refused(keys: list[Any]) -> None:
    with refused("frequencies must be integers", hidden=[41]):
        kendall_tau(keys, KeepAll(), Privacy(1, "1e-6"))
    with refused("frequencies must be integers", hidden=[41]):
        concordance(keys, 1, KeepAll(), Privacy(1, "1e-6"))


# The optimum, and what a grid loses.


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.2"), CustomSampling(["0.02"] * 4 + ["0.5"] * 6)], ids=repr)
@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_no_grid_beats_algorithm_5(sampling: Sampling, epsilon: str) -> None:
    """Corollary 5.1: every pair is at least as concordant under the refined densities; a finer grid comes closer."""
    privacy = Privacy(epsilon, "1e-2")
    q, E = true_q_fractions(sampling, ROWS), oracles.exponential(privacy.epsilon, 30)
    optimum = oracles.refine(oracles.algorithm_5(q, E, privacy.delta))
    pairs = list(combinations(range(1, ROWS + 1), 2))
    best = np.array([float(oracles.concordance(optimum[j], optimum[i])) for i, j in pairs])
    lost = []
    for grid in (1, 2, 4, 8, 64):
        found = concordance([j for _, j in pairs], [i for i, _ in pairs], sampling, privacy, grid)
        assert (found <= best + 1e-12).all()
        lost.append(float((best - found).max()))
    assert all(fine <= coarse for coarse, fine in pairwise(lost))
    assert lost[-1] < lost[0] / 500


def interesting_pairs(sampling: Sampling, privacy: Privacy) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Neighbours and pairs up to 2 / epsilon apart: where pi grows, and where q grows after that."""
    epsilon = float(privacy.epsilon)
    grows = 2 * np.log(1 / float(privacy.delta)) / epsilon
    lows = np.unique(np.linspace(1, grows, 32).astype(np.int64))
    if not isinstance(sampling, KeepAll):
        lows = np.union1d(lows, np.geomspace(1, 5000, 12).astype(np.int64))
    apart = np.unique(np.maximum(1, np.array([0.5, 1, 1.5, 2]) / epsilon).astype(np.int64))
    high, low = np.broadcast_arrays(lows[:, None] + apart, lows[:, None])
    return high.ravel(), low.ravel()


@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-9"])
@pytest.mark.parametrize("epsilon", ["0.1", "0.25", "0.5", "2"])
@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.01")], ids=repr)
def test_the_default_grid_loses_less_than_a_thousandth(sampling: Sampling, epsilon: str, delta: str) -> None:
    """Against a grid 8 times as fine, which itself loses about 1/64 as much."""
    privacy = Privacy(epsilon, delta)
    high, low = interesting_pairs(sampling, privacy)
    fine = concordance(high, low, sampling, privacy, 8 * default_grid(privacy))
    lost = fine - concordance(high, low, sampling, privacy)
    assert lost.max() < 1e-3
    assert lost.min() > -1e-12


@pytest.mark.parametrize(
    ("sampling", "epsilon", "delta", "low"),
    [
        (KeepAll(), "1", "1.7782794e-8", 18),
        (KeepAll(), "1.9", "3.1622777e-4", 9),
        (Ppswor("0.01"), "1.75", "5.6234133e-4", 3732),
        (KeepAll(), "2", "1e-8", 11),
        (Ppswor("0.01"), "2", "3.1622777e-5", 3156),
    ],
    ids=repr,
)
def test_the_worst_pairs_that_a_search_found(sampling: Sampling, epsilon: str, delta: str, low: int) -> None:
    """Over epsilon in [0.5, 2], 25 deltas from 1e-3 to 1e-9 and five schemes."""
    privacy = Privacy(epsilon, delta)
    fine = concordance(low + 1, low, sampling, privacy, 512)
    assert fine - concordance(low + 1, low, sampling, privacy) < 1e-3
