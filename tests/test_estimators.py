"""The paper's estimator against its definition, and against the paper's own error."""

from fractions import Fraction

import numpy as np
import pytest

import oracles
from dpsample import CustomSampling, KeepAll, Ppswor, Priority, Privacy, Sampling
from dpsample.estimators import mle
from dpsample.scheme import likeliest_frequencies, reporting_probabilities, token_laws

STAIRS = [Fraction(1, 50)] * 8 + [Fraction(1, 3)] * 12 + [Fraction(9, 10)] * 30


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.05"), Priority("0.04"), CustomSampling(STAIRS)], ids=str)
@pytest.mark.parametrize("grid", [1, 4])
def test_the_likeliest_frequency_has_the_largest_probability(sampling: Sampling, grid: int) -> None:
    privacy = Privacy("0.8", "0.01")
    m, E = 45, oracles.exponential(privacy.epsilon, 30)
    q = [Fraction(sampling.bounds(i, 128)[0], 1 << 128) for i in range(1, m + 1)]
    densities = oracles.algorithm_5(q, E, privacy.delta)
    rows = [oracles.cells(density, grid, i) for i, density in enumerate(densities)]
    tokens = range(1, 20 * grid)  # these have died out before row m
    assert all(len(row) <= t or row[t] == 0 for t in tokens for row in rows[m:])
    for token, i in zip(tokens, likeliest_frequencies(list(tokens), sampling, privacy, grid).tolist(), strict=True):
        column = [row[token] if token < len(row) else Fraction(0) for row in rows]
        assert column[i] >= max(column) * (1 - Fraction(1, 10**9))  # a tie may go either way


def test_estimates_divide_by_the_reporting_probability() -> None:
    sampling, privacy = Ppswor("0.01"), Privacy(1, "1e-6")
    tokens = np.array([[1, 40], [900, 1]])
    i = likeliest_frequencies(tokens, sampling, privacy)
    expected = i / reporting_probabilities(i, sampling, privacy)
    assert mle(tokens, sampling, privacy).tolist() == expected.tolist()


def test_far_out_a_token_is_a_shift() -> None:
    sampling, privacy = Priority("0.001"), Privacy("0.3", "1e-7")
    near, far = (
        likeliest_frequencies([base * 8 + k for k in range(8)], sampling, privacy, 8) for base in (5000, 10**9)
    )
    assert (far - 10**9).tolist() == (near - 5000).tolist()


@pytest.mark.parametrize(("tau", "nrmse"), [("1", 0.2513), ("1e-5", 0.0721)])
def test_the_papers_error_comes_out(tau: str, nrmse: float) -> None:
    # 1,000 keys of each frequency 1..200, epsilon = 0.1, delta = 2**-20, priority sampling
    sampling, privacy = Priority(tau), Privacy("0.1", Fraction(1, 2**20))
    bias = variance = 0.0
    for law in token_laws(range(1, 201), sampling, privacy):
        a = mle(law.cells, sampling, privacy)
        mean = float(law.probabilities @ a)
        bias += 1000 * (mean - law.frequency)
        variance += 1000 * (float(law.probabilities @ a**2) - mean**2)
    assert np.sqrt(bias**2 + variance) / (1000 * 200 * 201 / 2) == pytest.approx(nrmse, abs=5e-5)
