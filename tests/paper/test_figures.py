"""The paper's figures against numbers of the paper and exact oracles."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import oracles
from dpsample import KeepAll, Ppswor, Priority, Privacy, Sampling
from dpsample.comparison.accuracy import Pws, accuracy
from dpsample.comparison.baselines import StabilityHistogram
from dpsample.estimators import mle
from dpsample.scheme import concordance, kendall_tau
from paper import FIGURES, estimated, ordered, reported
from paper.breakpoints import algorithm_5, delta_spent
from paper.figures import curve
from paper_tables import tables
from references import true_q_fractions

pytestmark = pytest.mark.chance("certain: figures are computed, or drawn with fixed seeds")


def test_zipf_is_that_of_the_papers_scripts() -> None:
    # int(n**alpha / rank**alpha), rank by rank
    for n, alpha in ((50, 1), (50, 2), (300, 0.5)):
        ranks = sorted(int(n**alpha / rank**alpha) for rank in range(1, n + 1))
        found = reported.zipf(n, alpha)
        assert sorted(i for i, keys in found.items() for _ in range(keys)) == ranks


def test_the_ratio_as_delta_falls_is_the_known_one() -> None:
    delta, ratio = curve(tables("zipf"), "Ratio of PWS to SbH", "Zipf, α = 1")
    np.testing.assert_allclose(np.log10(delta), np.arange(0, -9, -1), atol=1e-12)
    np.testing.assert_allclose(ratio, [1.71, 3.14, 2.84, 1.97, 1.55, 1.38, 1.29, 1.24, 1.20], atol=0.005)
    # at delta = 1 there is nothing to protect: all keys are reported
    assert curve(tables("zipf"), "Zipf, α = 2", "PWS")[1][0] == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("alpha", "gains"),
    [("0.5", [232.0, 419, 2365, 2260]), ("1", [97.3, 95.1, 115, 68.3]), ("2", [37.2, 28.8, 13.9, 4.0])],
)
def test_the_gains_as_tau_falls_are_the_known_ones(
    alpha: str,
    gains: list[float],
) -> None:
    tau, found = curve(tables("zipf-sampled"), "Gain over SbH", f"Zipf, α = {alpha}")
    for wanted, gain in zip([10, 0.01, 0.001, 0.0001], gains, strict=True):
        assert found[np.isclose(tau, wanted)][0] == pytest.approx(gain, abs=0.5 if gain > 110 else 0.05)


def test_reporting_probabilities_are_the_papers_expressions() -> None:
    table = tables("reporting")
    E, delta = math.exp(0.1), 0.01
    i, pws = curve(table, "ε = 0.1, δ = 0.01", "PWS")
    low = i <= 18  # up to L + 1 = 18.8 it is a geometric sum
    np.testing.assert_allclose(pws[low], delta * (E ** i[low] - 1) / (E - 1), rtol=1e-12)
    i, sbh = curve(table, "ε = 0.1, δ = 0.01", "SbH")
    T = math.log(1 / delta) / 0.1 + 1
    np.testing.assert_allclose(sbh, np.where(i < T, np.exp(0.1 * (i - T)) / 2, 1 - np.exp(-0.1 * (i - T)) / 2))
    i, ratio = curve(table, "Ratio, ε = 0.01, δ = 1e-06", "PWS ÷ SbH")
    np.testing.assert_allclose(ratio[:3], 2 * i[:3], rtol=0.02)


def test_sampled_reporting_lies_between_sbh_and_the_sample() -> None:
    for panel, tau in (("τ = 0.1", 0.1), ("τ = 0.001", 0.001)):
        i, q = curve(tables("sampled-reporting"), panel, "not private")
        np.testing.assert_allclose(q, 1 - np.exp(-tau * i), rtol=1e-9)
        pws = curve(tables("sampled-reporting"), panel, "PWS")[1]
        assert pws[0] == pytest.approx(min(0.001, 1 - math.exp(-tau)), rel=1e-9)  # delta, or q where that is less
        assert (curve(tables("sampled-reporting"), panel, "SbH")[1] <= pws * (1 + 1e-9)).all()


def test_real_data_are_reported_as_their_frequencies_say() -> None:
    # 900 keys of frequency 3 and 100 of 70, at delta = 1e-3: pi by Algorithm 3, as a sum of two
    privacy = Privacy("0.1", "1e-3")
    pi = oracles.algorithm_3([Fraction(1)] * 70, oracles.exponential(privacy.epsilon, 30), privacy.delta)
    delta, share = curve(tables("real"), "two sizes", "PWS")
    assert share[np.isclose(delta, 1e-3)][0] == pytest.approx(0.9 * float(pi[3]) + 0.1 * float(pi[70]), rel=1e-9)


def test_the_errors_are_the_known_ones() -> None:
    tau, ours = curve(tables("nrmse"), "ε = 0.1", "PWS, MLE")
    for wanted, nrmse in ((1, 0.2513), (1e-5, 0.0721)):
        assert ours[np.isclose(tau, wanted, rtol=1e-6)][0] == pytest.approx(nrmse, abs=5e-5)
    assert curve(tables("nrmse"), "ε = 0.1", "sampled SbH")[1][0] == pytest.approx(0.480, abs=5e-4)
    tau, private = curve(tables("nrmse"), "ε = 0.5", "not private")
    # the sum of i**2 (1 / q - 1) over 1,000 keys of each frequency, at tau = 1e-4
    variance = sum(1000 * i**2 * (1 / (i * 1e-4) - 1) for i in range(1, 201))
    expected = math.sqrt(variance) / sum(1000 * i for i in range(1, 201))
    assert private[np.isclose(tau, 1e-4, rtol=1e-6)][0] == pytest.approx(expected, rel=1e-9)


def test_bias_and_variance_are_sums_over_the_tokens_of_algorithm_4() -> None:
    privacy, sampling = Privacy("0.5", Fraction(1, 2**20)), Priority("0.0001")
    E = oracles.exponential(privacy.epsilon, 30)
    x, bias = curve(tables("bias"), "PWS, MLE, ε = 0.5", "τ = 0.0001")
    i = int(x[(x > 12) & (x < 20)][0])
    row = oracles.algorithm_4(true_q_fractions(sampling, i), E, privacy.delta)[i]
    a = mle(range(1, i + 1), sampling, privacy)
    mean = sum(float(p) * e for p, e in zip(row[1:], a, strict=True))
    assert bias[x == i][0] == pytest.approx(mean / i - 1, rel=1e-9)
    # without sampling, SbH's bias at low frequencies is -1 and its variance nearly 0
    assert curve(tables("bias"), "PWS, MLE, ε = 0.5", "sampled SbH, any τ")[1][0] == pytest.approx(-1, abs=1e-4)
    x, open_ = curve(tables("variance"), "Normalised variance, τ = 0.001", "not private")
    np.testing.assert_allclose(open_, 1 / np.minimum(0.001 * x, 1) - 1, rtol=1e-9)


def test_the_order_is_that_of_the_laws() -> None:
    privacy = Privacy(1, "1e-6")
    low, found = curve(tables("order"), "Pairs 1 apart, ε = 1", "PWS, Algorithm 4")
    np.testing.assert_allclose(
        found, concordance(low.astype(int) + 1, low.astype(int), KeepAll(), privacy, 1), rtol=1e-9
    )
    for panel, sampling in ordered.PANELS.items():
        epsilon, tau = curve(tables("order"), panel, "PWS, Algorithm 4")
        expected = [kendall_tau(range(1, 61), sampling, Privacy(str(e), "1e-6"), 1) for e in epsilon]
        np.testing.assert_allclose(tau, expected, rtol=1e-9)


def test_the_order_of_sbh_is_that_of_draws() -> None:
    # 2 * 10**5 draws of a pair; a mean of values 0, 1/2, 1: 6.5 standard deviations have odds of 8e-11 for each of 4
    n, generator, i = 200_000, np.random.default_rng(5), np.array([18, 25])
    for sampling in (KeepAll(), Ppswor("0.05")):
        method = StabilityHistogram(Privacy("0.5", "1e-3"), sampling)
        laws = ordered._sbh(i, method, 32)
        np.testing.assert_allclose(laws.sum(axis=1), 1, rtol=1e-12)
        np.testing.assert_allclose(1 - laws[:, 0], method.reported(i), rtol=1e-3)
        # the noisy frequency itself, not the estimate: larger noise, larger outcome
        noisy = i + generator.laplace(scale=2, size=(n, 2))
        q = -np.expm1(-0.05 * noisy) if isinstance(sampling, Ppswor) else 1.0
        seen = np.where((noisy >= method.cutoff) & (generator.random((n, 2)) < q), noisy, 0.0)
        right = (seen[:, 1] > seen[:, 0]) + (seen[:, 1] == seen[:, 0]) / 2
        assert abs(right.mean() - ordered._pairs(laws)[0]) < 6.5 * right.std() / math.sqrt(n) + 1e-3


def test_simulated_releases_have_the_exact_error() -> None:
    # MLE as an estimator of whole releases. The squared error is (bias + noise)**2; with 400 runs its mean is within 7
    # of its own standard deviations: odds of 3e-12 by the normal law, of which the mean of 400 terms is close enough.
    keys, sampling, privacy = {20: 200, 60: 100}, Priority("0.02"), Privacy("0.5", "1e-4")

    def total(cells: "np.ndarray[tuple[int], np.dtype[np.int64]]", s: Sampling, p: Privacy, grid: int) -> float:
        return float(mle(cells, s, p, grid).sum())

    runs = 400
    found = estimated.simulated_nrmse(total, keys, sampling, privacy, runs) ** 2
    exact = accuracy(Pws(sampling, privacy), keys)
    mse, variance = exact.mse / exact.truth**2, exact.variance / exact.truth**2
    spread = math.sqrt(2 * variance**2 + 4 * variance * (mse - variance))  # of the square of a normal variable
    assert abs(found - mse) < 7 * spread / math.sqrt(runs)


def test_an_estimator_of_whole_releases_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    # one that knows the truth has no error but what it adds: 1 %
    truth = sum(i * n for i, n in estimated.SELECTION.items())
    monkeypatch.setitem(estimated.FITTED, "oracle", lambda cells, sampling, privacy, grid: 1.01 * truth)
    monkeypatch.setattr(estimated, "decades", lambda *_: ["1", *["0.1"] * 5, "0.001"])
    table = estimated.nrmse(quick=True)
    tau, found = curve(table, "ε = 0.5", "oracle")
    assert tau.tolist() == [1, 0.001]
    np.testing.assert_allclose(found, 0.01, rtol=1e-9)
    assert FIGURES["nrmse"].panels(table)


# Algorithm 5 by its breakpoints.


@pytest.mark.filterwarnings("ignore::dpsample.PrivacyWarning")
@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.1"), Priority("0.02")], ids=str)
@pytest.mark.parametrize(("epsilon", "delta"), [("0.5", "0.01"), ("2", "0.001")])
def test_rows_and_breakpoints_are_those_of_algorithm_5(sampling: Sampling, epsilon: str, delta: str) -> None:
    privacy, m = Privacy(epsilon, delta), 18
    E = oracles.exponential(privacy.epsilon, 30)
    for printed in (False, True):
        exact = oracles.algorithm_5(true_q_fractions(sampling, m), E, privacy.delta, corrected=not printed)
        rows = algorithm_5(m, sampling, privacy, printed)
        assert len(rows[m].x) - 1 <= 3 * m
        for i in range(1, m + 1):
            for grid in (1, 4):
                cells = oracles.cells(exact[i], grid, i)
                S = np.interp(np.arange(i * grid + 1) / grid, rows[i].x, rows[i].S)
                np.testing.assert_allclose(-np.diff(S), [float(p) for p in cells[1:]], atol=1e-11)
        refined = oracles.refine(exact)
        spent = max(max(oracles.delta_spent(a, b, E), oracles.delta_spent(b, a, E)) for a, b in pairwise(refined))
        assert delta_spent(rows, privacy) == pytest.approx(float(spent), rel=1e-8)
        assert printed or spent <= privacy.delta
