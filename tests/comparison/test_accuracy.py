"""Exact accuracy against literal definitions on exact tables, against real releases, and against the paper."""

import math
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import ArrayLike, NDArray

import dpsample
import oracles
from dpsample import KeepAll, Ppswor, Priority, Privacy, Sampling, Source
from dpsample.comparison.accuracy import Accuracy, Method, Pws, accuracy, coverage
from dpsample.comparison.baselines import NonPrivate, SampleAndThreshold, StabilityHistogram
from dpsample.estimators import biased_down, mle
from dpsample.estimators.measures import Measure
from dpsample.scheme import default_grid
from dpsample.scheme.per_key import PerKey
from references import true_q_fractions
from support import refused

PAPER = dict.fromkeys(range(1, 201), 1000)  # 1,000 keys of each frequency 1..200


def zipf(n: int, alpha: float) -> NDArray[np.int64]:
    frequencies: NDArray[np.int64] = np.floor(n**alpha / np.arange(1, n + 1) ** alpha).astype(np.int64)
    return frequencies


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.05"), Priority("0.02")], ids=str)
@pytest.mark.parametrize("grid", [1, 4])
@pytest.mark.parametrize("of", ["frequency", "keys", "power:2"])
def test_errors_are_those_of_the_exact_tables(sampling: Sampling, grid: int, of: str) -> None:
    privacy, m = Privacy("0.8", "0.01"), 24
    E = oracles.exponential(privacy.epsilon, 30)
    densities = oracles.algorithm_5(true_q_fractions(sampling, m), E, privacy.delta)
    errors = Pws(sampling, privacy, grid=grid).errors(range(1, m + 1), of)
    for i in range(1, m + 1):
        row = oracles.cells(densities[i], grid, i)
        a = [Fraction(0), *map(Fraction, mle(range(1, len(row)), sampling, privacy, grid, of).tolist())]
        g = Fraction(float(Measure.of(of)(i)))
        mean = sum((p * x for p, x in zip(row, a, strict=True)), Fraction(0))
        mse = sum((p * (x - g) ** 2 for p, x in zip(row, a, strict=True)), Fraction(0))
        assert errors.truth[i - 1] == g
        assert errors.reported[i - 1] == pytest.approx(float(1 - row[0]), rel=1e-11)
        assert errors.bias[i - 1] == pytest.approx(float(mean - g), rel=1e-9, abs=1e-9 * float(g))
        assert errors.variance[i - 1] == pytest.approx(float(mse - (mean - g) ** 2), rel=1e-9)
        assert errors.mse[i - 1] == pytest.approx(float(mse), rel=1e-9)


def test_any_function_of_tokens_is_an_estimator() -> None:
    def token_itself(
        cells: ArrayLike, sampling: Sampling, privacy: PerKey, grid: int, of: object
    ) -> NDArray[np.float64]:
        return np.asarray(cells) / grid

    # without sampling and at delta = 0.01, E = e, rows are 0.01, then 0.0272 and 0.01, ...
    errors = Pws(KeepAll(), Privacy(1, "0.01"), token_itself, grid=1).errors([[1], [2]])
    e = math.e
    assert errors.mean.tolist() == [[pytest.approx(0.01)], [pytest.approx(0.01 * e + 0.02)]]
    assert errors.variance[1, 0] == pytest.approx(0.01 * e + 0.04 - (0.01 * e + 0.02) ** 2)


def test_far_out_errors_are_shifts() -> None:
    method = Pws(KeepAll(), Privacy("0.5", "1e-6"))
    errors = method.errors([10**3, 10**6, 10**12])
    np.testing.assert_allclose(errors.bias, errors.bias[0], atol=1e-3)  # a float of 10**12 has steps of 1e-4
    np.testing.assert_allclose(errors.variance, errors.variance[0], rtol=1e-3)


def test_a_list_a_mapping_and_a_sum_of_parts_agree() -> None:
    method = Pws(Ppswor("0.01"), Privacy("0.5", "1e-6"))
    frequencies = [3, 50, 3, 800, 50, 3]
    whole = accuracy(method, frequencies)
    assert whole == accuracy(method, {3: 3, 50: 2, 800: 1})
    parts = accuracy(method, {3: 3}) + accuracy(method, {50: 2, 800: 1})
    for name in ("truth", "bias", "variance", "mse", "nrmse", "mean"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-12)
    assert (whole.coverage.keys, whole.coverage.elements, whole.truth) == (6, 909, 909)
    single = method.errors([3, 50, 800])
    assert whole.bias == pytest.approx(single.bias @ [3, 2, 1])
    assert whole.variance == pytest.approx(single.variance @ [3, 2, 1])
    assert whole.coverage.reported_elements == pytest.approx((single.reported * [3, 50, 800]) @ [3, 2, 1])
    assert coverage(method, frequencies).share_of_keys == pytest.approx(single.reported @ [3, 2, 1] / 6)


def test_weights_select_and_weigh() -> None:
    method = NonPrivate(Priority("0.01"))
    chosen = accuracy(method, [3, 50, 50, 800], weights=[0, 1, 0, 1])
    assert chosen == accuracy(method, [50, 800])
    # 50**2 (1 / 0.5 - 1) = 2500, once with weight 2 and once with -1
    weighted = accuracy(method, [50, 50], weights=[2, -1])
    assert (weighted.truth, weighted.bias, weighted.variance) == (50, 0, 5 * 2500)
    with refused("one for each frequency"):
        accuracy(method, [50, 50], weights=[1])
    with refused("one for each frequency"):
        accuracy(method, [50], weights=[math.nan])
    with refused("weights go with a list"):
        accuracy(method, {50: 2}, weights=[1])


def test_nothing_has_no_error() -> None:
    found = accuracy(Pws(KeepAll(), Privacy(1, "1e-6")), [])
    assert (found.truth, found.bias, found.variance, found.coverage.share_of_elements) == (0, 0, 0, 0)
    assert math.isnan(found.nrmse)


@pytest.mark.chance("odds 3e-11: sums of 20,000 independent terms, beyond 7 standard deviations")
@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.02")], ids=str)
def test_real_releases_have_this_accuracy(sampling: Sampling) -> None:
    # 20,000 keys of each frequency: number of reports, sum of estimates and sum of squared errors are sums of so many
    # independent terms; 7 standard deviations have odds of 2.6e-12 by the normal law. Odds of a false alarm: 3e-11.
    n, frequencies, privacy = 20_000, [12, 30, 100], Privacy("0.5", "1e-4")
    keys = np.arange(3 * n)
    data = pa.table({"key": keys, "n": np.repeat(frequencies, n)})
    release = dpsample.release(Source(data, key="key", frequency="n"), privacy=privacy, sampling=sampling)
    drawn = np.zeros(3 * n)
    tokens = release.table["token"].to_numpy()
    grid = default_grid(privacy)
    for estimator in (mle, biased_down):
        errors = Pws(sampling, privacy, estimator).errors(frequencies)
        estimates = estimator((tokens * grid).astype(np.int64), sampling, privacy, grid)
        drawn[release.table["key"].to_numpy()] = estimates
        for k, i in enumerate(frequencies):
            mine = drawn[k * n : (k + 1) * n]
            for terms, mean in (
                (mine > 0, errors.reported[k]),
                (mine, errors.mean[k]),
                ((mine - i) ** 2, errors.mse[k]),
            ):
                assert abs(terms.mean() - mean) <= 7 * terms.std() / math.sqrt(n) + 1e-9 * mean


@pytest.mark.parametrize(("tau", "nrmse"), [("1", 0.2513), ("1e-5", 0.0721)])
def test_the_papers_error_of_mle_comes_out(tau: str, nrmse: float) -> None:
    found = accuracy(Pws(Priority(tau), Privacy("0.1", Fraction(1, 2**20)), grid=1), PAPER)
    assert found.nrmse == pytest.approx(nrmse, abs=5e-5)


@pytest.mark.parametrize(
    ("alpha", "tight", "gains"),
    [
        (0.5, False, "232.0 419 2365 2260"),
        (1, False, "97.3 95.1 115 68.3"),
        (2, False, "37.2 28.8 13.9 4.0"),
        (0.5, True, "86"),
        (1, True, "71"),
        (2, True, "29"),
    ],
)
def test_the_gain_in_reported_keys_over_sampled_sbh(alpha: float, tight: bool, gains: str) -> None:
    # percent, at tau = 10, 0.01, 0.001, 1e-4, Zipf over 10**5 keys; the paper states 230, 97 and 37 for the first
    privacy, frequencies = Privacy("0.1", "0.001"), zipf(10**5, alpha)
    for tau, gain in zip(["10", "0.01", "0.001", "1e-4"], map(Decimal, gains.split()), strict=False):
        ours, theirs = (
            coverage(method, frequencies).reported_keys
            for method in (Pws(Ppswor(tau), privacy), StabilityHistogram(privacy, Ppswor(tau), tight))
        )
        last = float(Decimal(1).scaleb(int(gain.as_tuple().exponent)))
        assert 100 * (ours / theirs - 1) == pytest.approx(float(gain), abs=0.5 * last)


def test_the_ratio_of_reported_keys_without_sampling() -> None:
    ratios = [3.14, 2.84, 1.97, 1.55, 1.38, 1.29, 1.24, 1.20]
    frequencies = zipf(10**5, 1)
    for k, ratio in enumerate(ratios, 1):
        with warnings.catch_warnings(action="ignore"):  # a delta above 0.01 is not for use
            privacy = Privacy("0.1", f"1e-{k}")
        ours, theirs = (
            coverage(method, frequencies).reported_keys
            for method in (Pws(KeepAll(), privacy), StabilityHistogram(privacy))
        )
        assert ours / theirs == pytest.approx(ratio, abs=0.005)


def test_no_private_method_reports_more() -> None:
    privacy, frequencies = Privacy("0.5", "1e-6"), np.arange(1, 400)
    pi = Pws(KeepAll(), privacy).reported(frequencies)
    for method in (
        StabilityHistogram(privacy),
        StabilityHistogram(privacy, tight=True),
        SampleAndThreshold.for_privacy(privacy),
    ):
        assert (method.reported(frequencies) <= pi * (1 + 1e-9)).all()
    for sampling in (Ppswor("0.01"), Priority("0.01")):
        pi = Pws(sampling, privacy).reported(frequencies)
        assert (pi <= NonPrivate(sampling).reported(frequencies)).all()


def test_a_table_of_methods_is_a_few_lines() -> None:
    privacy, sampling = Privacy("0.5", "1e-6"), Priority("0.1")
    methods: list[Method] = [
        Pws(sampling, privacy),
        Pws(sampling, privacy, biased_down),
        StabilityHistogram(privacy, sampling),
        SampleAndThreshold.for_privacy(privacy),
        NonPrivate(sampling),
    ]
    table: list[Accuracy] = [accuracy(method, PAPER) for method in methods]
    assert len({row.nrmse for row in table}) == len(table)
    assert min(table, key=lambda row: row.nrmse) is table[-1]
