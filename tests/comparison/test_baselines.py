"""The baselines' expressions against the paper's printed ones in 80 digits, quadrature, exact sums and own draws."""

import math
import warnings
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import binom

import oracles
from dpsample import CustomSampling, KeepAll, Ppswor, Priority, Privacy, Sampling
from dpsample.comparison.accuracy import Method, accuracy, coverage
from dpsample.comparison.baselines import NonPrivate, SampleAndThreshold, StabilityHistogram
from references import decimal
from support import refused

DIGITS = Context(prec=80, Emin=MIN_EMIN, Emax=MAX_EMAX)
PRIVACIES = [Privacy("0.1", "0.01"), Privacy("0.01", "1e-6"), Privacy(2, "1e-9")]
with warnings.catch_warnings(action="ignore"):  # a delta this large is for study only, and says so
    PRIVACIES += [Privacy("0.5", "0.3")]
    SHOUT = Privacy("0.1", "0.75")
TAUS = ["10", "1", "0.5", "0.1", "0.01", "1e-4", "1e-9"]
Baseline = StabilityHistogram | SampleAndThreshold | NonPrivate
FREQUENCIES = [1, 2, 5, 12, 30, 46, 47, 48, 100, 101, 300, 1000, 1383, 1500, 10_000, 200_000]


def cutoff(privacy: Privacy, tight: bool = False) -> Decimal:
    return -(decimal(privacy.delta) * (1 + tight)).ln() / decimal(privacy.epsilon) + 1


def printed_phi(privacy: Privacy, sampling: Sampling, i: Decimal, T: Decimal) -> Decimal:
    """The reporting probabilities as the paper's appendix prints them."""
    e = decimal(privacy.epsilon)
    if isinstance(sampling, Ppswor):
        tau = decimal(sampling.tau)
        if i <= T:
            return (-e * (T - i)).exp() / 2 * (1 - e / (e + tau) * (-T * tau).exp())
        phi = 1 - (-e * (i - T)).exp() / 2 - e / (2 * (e + tau)) * (-i * tau).exp()
        if e == tau:
            return phi - e * (i - T) * (-e * i).exp() / 2
        return phi + e / (2 * (e - tau)) * ((-e * (i - T) - tau * T).exp() - (-tau * i).exp())
    if isinstance(sampling, Priority) and 1 / decimal(sampling.tau) > T:
        tau = decimal(sampling.tau)
        if i <= T:
            return tau / 2 * ((T + 1 / e) * ((i - T) * e).exp() - ((i - 1 / tau) * e).exp() / e)
        if i < 1 / tau:
            return tau * (i - (e * (i - 1 / tau)).exp() / (2 * e) - (T - 1 / e) / 2 * (e * (T - i)).exp())
        return 1 - tau / (2 * e) * (e * (1 / tau - i)).exp() - tau / 2 * (T - 1 / e) * (e * (T - i)).exp()
    return 1 - (-(i - T) * e).exp() / 2 if i >= T else (e * (i - T)).exp() / 2


def printed_bias(privacy: Privacy, i: Decimal, T: Decimal) -> Decimal:
    e = decimal(privacy.epsilon)
    if i > T:
        return -(-e * (i - T)).exp() * (T - 1 / e) / 2
    return (-e * (T - i)).exp() * (T + 1 / e) / 2 - i


def printed_mse(privacy: Privacy, i: Decimal, T: Decimal) -> Decimal:
    """Without sampling."""
    e = decimal(privacy.epsilon)
    if i > T:
        return 2 / e**2 - (-e * (i - T)).exp() * (T**2 / 2 - i * T + (i - T) / e + 1 / e**2)
    return i**2 + (-e * (T - i)).exp() * (T**2 / 2 - i * T - (i - T) / e + 1 / e**2)


@pytest.mark.parametrize("privacy", PRIVACIES, ids=str)
@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.parametrize("scheme", [Ppswor, Priority])
def test_reporting_and_bias_are_the_printed_ones(
    privacy: Privacy, tight: bool, scheme: Callable[[str], Sampling]
) -> None:
    samplings: list[Sampling] = [KeepAll(), *(scheme(tau) for tau in TAUS)]
    with localcontext(DIGITS):
        T = cutoff(privacy, tight)
        for sampling in samplings:
            errors = StabilityHistogram(privacy, sampling, tight).errors(FREQUENCIES)
            for n, i in enumerate(map(Decimal, FREQUENCIES)):
                phi, bias = printed_phi(privacy, sampling, i, T), printed_bias(privacy, i, T)
                assert abs(Decimal(float(errors.reported[n])) / phi - 1) < Decimal("1e-11"), (sampling, i)
                assert abs(Decimal(float(errors.bias[n])) - bias) <= abs(bias) * Decimal("1e-11") + Decimal("1e-300")


@pytest.mark.parametrize("privacy", PRIVACIES, ids=str)
def test_the_variance_without_sampling_is_the_printed_one(privacy: Privacy) -> None:
    errors = StabilityHistogram(privacy).errors(FREQUENCIES)
    with localcontext(DIGITS):
        T = cutoff(privacy)
        for n, i in enumerate(map(Decimal, FREQUENCIES)):
            variance = printed_mse(privacy, i, T) - printed_bias(privacy, i, T) ** 2
            assert abs(Decimal(float(errors.variance[n])) / variance - 1) < Decimal("1e-10"), i


def by_quadrature(privacy: Privacy, sampling: Sampling, i: int) -> float:
    """The variance that sampling adds, from its definition: x**2 (1 / q - 1) over the density of x = i + Lap."""
    e, tau, T = float(privacy.epsilon), float(sampling.tau), float(cutoff(privacy))  # type: ignore[attr-defined]

    def added(x: float) -> float:
        odds = math.exp(-tau * x) / -math.expm1(-tau * x) if isinstance(sampling, Ppswor) else max(1 / (tau * x) - 1, 0)
        return x**2 * odds * e / 2 * math.exp(-e * abs(x - i))

    # steps of the width over which it falls, so that none is missed
    rate = max(e, tau) if isinstance(sampling, Ppswor) else e
    marks = {T, float(max(i, T)), max(1 / tau, T), *(max(x + k / rate, T) for x in (T, i) for k in range(-60, 61, 3))}
    steps = sorted(marks)
    return math.fsum(
        quad(added, a, b, epsabs=0, epsrel=1e-10)[0]
        for a, b in pairwise(steps)
        if added(a) + added((a + b) / 2) + added(b) > 0
    )


@pytest.mark.parametrize("privacy", PRIVACIES, ids=str)
@pytest.mark.parametrize("scheme", [Ppswor, Priority])
@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
def test_the_variance_of_sampling_agrees_with_quadrature(privacy: Privacy, scheme: Callable[[str], Sampling]) -> None:
    plain = StabilityHistogram(privacy).errors(FREQUENCIES).variance
    for tau in TAUS:
        sampled = StabilityHistogram(privacy, scheme(tau)).errors(FREQUENCIES).variance
        expected = plain + [by_quadrature(privacy, scheme(tau), i) for i in FREQUENCIES]
        np.testing.assert_allclose(sampled, expected, rtol=1e-9, err_msg=f"tau {tau}")


def test_the_variance_of_ppswor_agrees_with_its_series() -> None:
    # 1 / (exp(x) - 1) is the sum of exp(-k x) over k >= 1, and each term has a closed form
    privacy, tau = Privacy("0.1", "0.01"), Fraction(1, 20)
    with localcontext(DIGITS):
        e, T = decimal(privacy.epsilon), cutoff(privacy)

        def square(rate: Decimal, start: Decimal) -> Decimal:
            """The integral of x**2 exp(-rate x) from start on."""
            return (-rate * start).exp() * (start**2 / rate + 2 * start / rate**2 + 2 / rate**3)

        for i in map(Decimal, (1, 40, 60, 200)):
            added = Decimal(0)
            for k in range(1, 80):
                up, down = k * decimal(tau) + e, k * decimal(tau) - e
                start = max(i, T)
                added += (e * i).exp() * square(up, start)
                if i > T:  # at k = 2 the rates cancel, and the integral is that of x**2
                    below = square(down, T) - square(down, i) if down else (i**3 - T**3) / 3
                    added += (-e * i).exp() * below
            variance = printed_mse(privacy, i, T) - printed_bias(privacy, i, T) ** 2 + e / 2 * added
            found = StabilityHistogram(privacy, Ppswor(tau)).errors([int(i)]).variance[0]
            assert abs(Decimal(float(found)) / variance - 1) < Decimal("1e-11")


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("1e-5"), Priority("1e-5"), Ppswor(3)], ids=str)
def test_far_out_nothing_overflows_or_cancels(sampling: Sampling) -> None:
    # epsilon i up to 10**13; warnings are errors. There, what remains is the noise: 2 / epsilon**2
    errors = StabilityHistogram(Privacy(10, "1e-6"), sampling).errors([10**8, 10**12])
    np.testing.assert_allclose(errors.reported, 1, rtol=1e-15)
    assert errors.bias.tolist() == [0, 0]
    np.testing.assert_allclose(errors.variance, 2 / 10**2, rtol=1e-14)


@pytest.mark.parametrize("privacy", PRIVACIES, ids=str)
def test_the_cutoffs_spend_delta_and_half_of_it(privacy: Privacy) -> None:
    # a key of one element is reported or not: that is all that Laplace noise does not hide already
    assert StabilityHistogram(privacy, tight=True).reported([1])[0] == pytest.approx(float(privacy.delta), rel=1e-12)
    assert StabilityHistogram(privacy).reported([1])[0] == pytest.approx(float(privacy.delta) / 2, rel=1e-12)


def test_a_large_delta_has_no_cutoff_below_one() -> None:
    assert StabilityHistogram(SHOUT, tight=True).cutoff == 1  # else estimates could be negative


def test_absent_keys_are_not_reported() -> None:
    methods: list[Method] = [StabilityHistogram(PRIVACIES[0]), SampleAndThreshold(0.05, 9), NonPrivate(Ppswor(1))]
    for method in methods:
        errors = method.errors([0])
        assert [errors.reported[0], errors.bias[0], errors.variance[0]] == [0, 0, 0]


def test_what_is_not_stated_is_refused() -> None:
    for sampling in (Ppswor(1, 2), Priority(1, 1, 9), CustomSampling([0.5])):
        with refused("sampled SbH is stated for"):
            StabilityHistogram(PRIVACIES[0], sampling)
    for method in (StabilityHistogram(PRIVACIES[0]), SampleAndThreshold(0.05, 9)):
        with refused("the frequency itself"):
            method.errors([1], "keys")
    with refused("the rate"):
        SampleAndThreshold(1.0, 3)
    with refused("the threshold"):
        SampleAndThreshold(0.1, 0)
    with refused("the rate must be at most 1 - exp(-epsilon)"):
        SampleAndThreshold(0.5, 9).delta("0.1")


def binomial(n: int, p: Fraction) -> list[Fraction]:
    return [math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]


def thresholded(n: int, p: Fraction, t: int) -> list[Fraction]:
    """What sample-and-threshold publishes of a key of n elements: nothing, or the number of kept ones."""
    row = binomial(n, p)
    return [sum(row[:t], Fraction(0)), *([Fraction(0)] * (t - 1)), *row[t:]]


@pytest.mark.parametrize(
    ("epsilon", "rate", "threshold"),
    [("1", Fraction(1, 4), 5), ("1", Fraction(5, 8), 12), ("0.25", Fraction(1, 8), 6), ("2", Fraction(1, 16), 1)],
)
def test_the_delta_of_sample_and_threshold_is_exact(epsilon: str, rate: Fraction, threshold: int) -> None:
    # both directions, all outcomes, all frequencies up to three times that at which delta is largest
    E = oracles.exponential(Fraction(epsilon), 30)
    rows = [thresholded(n, rate, threshold) for n in range(121)]
    spent = [oracles.delta_spent(a, b, E) for a, b in pairwise(rows)]
    worst = max(spent)
    assert spent.index(worst) < 40
    found = SampleAndThreshold(float(rate), threshold).delta(epsilon)
    assert worst < found < float(worst) * (1 + 1e-8)


@pytest.mark.parametrize(
    ("epsilon", "rate", "threshold"), [(1e-6, 5e-7, 9), (1e-5, 3.77e-6, 9), (1e-3, 5.9e-4, 40), (0.1, 0.05, 25)]
)
def test_delta_is_exact_for_a_tiny_epsilon(epsilon: float, rate: float, threshold: int) -> None:
    """Up to millions of elements: to a hundredth of the margin by which delta is rounded up."""
    method = SampleAndThreshold(rate, threshold)
    with localcontext(DIGITS):
        p, E = Decimal(rate), Decimal(epsilon).exp()
        alpha = 1 - (1 - p) / E
        peak = int(threshold / alpha)
        for n in (threshold, threshold + 1, peak - 1, peak, peak + 1, 2 * peak):
            first = max(int(n * alpha) + 1, threshold)
            kept = range(first, min(first + 300, n) + 1)  # others are below 2**-300 of the first
            spent = sum(math.comb(n, c) * p**c * (1 - p) ** (n - c) * (c - n * alpha) for c in kept) / (n * (1 - alpha))
            [found] = method._spent(np.array([n]), epsilon).tolist()
            assert abs(Decimal(found) / spent - 1) < Decimal("1e-11")


@pytest.mark.parametrize("privacy", [Privacy(1, "1e-6"), Privacy("0.3", "1e-3"), Privacy(3, "1e-9")], ids=str)
def test_what_is_chosen_is_private_and_hardly_more(privacy: Privacy) -> None:
    method = SampleAndThreshold.for_privacy(privacy)
    E, p = oracles.exponential(privacy.epsilon, 30), Fraction(method.rate)
    peak = math.ceil(method.threshold / (1 - (1 - method.rate) * math.exp(-privacy.epsilon)))
    near = [thresholded(n, p, method.threshold) for n in range(max(peak - 6, 0), peak + 6)]
    spent = max(oracles.delta_spent(a, b, E) for a, b in pairwise(near))
    assert privacy.delta * Fraction(99, 100) < spent <= privacy.delta
    assert SampleAndThreshold(method.rate, method.threshold - 1).delta(privacy.epsilon) > privacy.delta


def test_a_rate_up_to_delta_needs_no_threshold() -> None:
    assert SampleAndThreshold(2**-10, 1).delta(1) == pytest.approx(2**-10, rel=1e-8)


def test_the_moments_of_sample_and_threshold_are_exact_sums() -> None:
    rate, threshold = Fraction(3, 16), 7
    frequencies = [1, 6, 7, 8, 20, 36, 37, 38, 39, 60, 100, 250]
    errors = SampleAndThreshold(float(rate), threshold).errors(frequencies)
    for n, i in enumerate(frequencies):
        pairs = [(p, c / rate) for c, p in enumerate(binomial(i, rate)) if c >= threshold]
        reported = sum((p for p, _ in pairs), Fraction(0))
        mean = sum((p * a for p, a in pairs), Fraction(0))
        variance = sum((p * a**2 for p, a in pairs), Fraction(0)) - mean**2
        for found, true in ((errors.reported, reported), (errors.bias, mean - i), (errors.variance, variance)):
            assert found[n] == pytest.approx(float(true), rel=1e-11, abs=0), i
    far = SampleAndThreshold(0.25, threshold).errors([10**12])
    assert [far.reported[0], far.bias[0], far.variance[0]] == [1, 0, 3 * 10**12]


def test_the_non_private_sample_has_the_papers_variance() -> None:
    frequencies = np.array([1, 7, 40, 90])
    sampling = CustomSampling([0] * 6 + [Fraction(1, 8)] * 33 + [1] * 60)
    errors = NonPrivate(sampling).errors(frequencies, "power:2")
    assert errors.reported.tolist() == [0, 0.125, 1, 1]
    assert errors.bias.tolist() == [-1, 0, 0, 0]  # what is never sampled is missed
    assert errors.variance.tolist() == [0, 7**4 * 7, 0, 0]


def drawn(method: Baseline, frequencies: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.float64]:
    """An estimate for each key, drawn as the method is defined; 0 where it is not reported."""
    if isinstance(method, SampleAndThreshold):
        kept = generator.binomial(frequencies, method.rate)
        return np.where(kept >= method.threshold, kept / method.rate, 0.0)
    if isinstance(method, NonPrivate):
        q = method.sampling.q(frequencies)
        return np.where(generator.random(frequencies.shape) < q, frequencies / q, 0.0)
    j = frequencies + generator.laplace(scale=1 / float(method.privacy.epsilon), size=frequencies.shape)
    x = np.maximum(j, method.cutoff)
    sampling = method.sampling
    if isinstance(sampling, Ppswor):
        q = -np.expm1(-float(sampling.tau) * x)
    else:
        q = np.minimum(float(sampling.tau) * x, 1.0) if isinstance(sampling, Priority) else np.ones(x.shape)
    return np.where((j >= method.cutoff) & (generator.random(j.shape) < q), j / q, 0.0)


@pytest.mark.parametrize(
    "method",
    [
        StabilityHistogram(Privacy("0.5", "0.01")),
        StabilityHistogram(Privacy("0.5", "0.01"), Ppswor("0.05"), tight=True),
        StabilityHistogram(Privacy("0.5", "0.01"), Priority("0.05")),
        SampleAndThreshold(0.25, 6),
        NonPrivate(Ppswor("0.05")),
    ],
    ids=repr,
)
def test_draws_follow_the_expressions(method: Baseline) -> None:
    # 2 * 10**5 keys of each of 4 frequencies. The number of reports is binomial: refused if a tail is below 1e-12. Mean
    # and mean square error are sums of so many independent terms: 7 standard deviations have odds of 2.6e-12, by the
    # normal law. Odds of a false alarm, all told: 5e-11.
    n, frequencies = 200_000, np.array([4, 12, 25, 80])
    estimates = drawn(method, np.broadcast_to(frequencies, (n, 4)), np.random.default_rng(17))
    errors = method.errors(frequencies)
    for k, i in enumerate(frequencies.tolist()):
        reports = np.count_nonzero(estimates[:, k])
        assert min(binom.cdf(reports, n, errors.reported[k]), binom.sf(reports - 1, n, errors.reported[k])) > 1e-12
        for terms, mean in ((estimates[:, k], errors.mean[k]), ((estimates[:, k] - i) ** 2, errors.mse[k])):
            assert abs(terms.mean() - mean) <= 7 * terms.std() / math.sqrt(n) + 1e-9 * mean


@pytest.mark.parametrize(("tau", "nrmse"), [("1", 0.480), ("1e-5", 0.483)])
def test_the_papers_error_of_sampled_sbh_comes_out(tau: str, nrmse: float) -> None:
    # 1,000 keys of each frequency 1..200, epsilon = 0.1, delta = 2**-20, priority sampling
    method = StabilityHistogram(Privacy("0.1", Fraction(1, 2**20)), Priority(tau))
    assert accuracy(method, dict.fromkeys(range(1, 201), 1000)).nrmse == pytest.approx(nrmse, abs=5e-4)


def test_a_million_keys_are_quick_to_cover() -> None:
    ranks = np.arange(1, 10**6 + 1)
    found = coverage(StabilityHistogram(Privacy("0.1", "1e-6"), Ppswor("1e-4")), (10**12 / ranks**2).astype(np.int64))
    assert found.keys == 10**6
    assert 0 < found.reported_keys < found.keys
