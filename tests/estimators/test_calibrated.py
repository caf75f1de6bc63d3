"""The default estimator: against exact laws, in the paper's setting, and how often its intervals hold."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import sys
from dataclasses import asdict
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oracles
from dpsample import CustomSampling, KeepAll, Ppswor, Priority, Privacy, Release, Sampling
from dpsample.comparison.accuracy import Pws, accuracy
from dpsample.estimators import Tally, estimate, mle
from dpsample.estimators.calibrated import estimate_sum
from dpsample.estimators.calibration import Calibration
from dpsample.estimators.cumulative import cumulative_counts, narrow_quantile_intervals
from dpsample.estimators.deviations import Deviations
from dpsample.estimators.estimate import estimates, least_frequency
from dpsample.estimators.functional import Functional
from dpsample.estimators.measures import Measure
from dpsample.estimators.spectrum import spectrum
from dpsample.estimators.tuning import TUNING
from dpsample.private.sanitizer import Sanitizer, sampled
from dpsample.scheme import default_grid, frequency_reaching, reporting_probabilities, token_laws
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import Ints
from dpsample.scheme.scheme import Scheme
from dpsample.scheme.token_columns import supports
from given_coins import GivenCoins
from places import ROOT
from stated_terms import stated_terms

FREQUENCY = Measure.of("frequency")
MEASURES = ["frequency", "keys", "power:0.5", "capped:9"]
SMALL = Privacy("0.8", "0.01")
LAST = 24  # frequencies with exact laws; 60 would take twenty times as long
SCHEMES: list[Sampling] = [KeepAll(), Ppswor("0.05"), Priority("0.04")]


def import_by_path(name: str) -> Any:
    """A benchmark as a module: its folder is no package."""
    path = ROOT / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def drawn(frequencies: Ints, sampling: Sampling, privacy: Privacy, generator: np.random.Generator) -> Tally:
    """The tokens of one release."""

    def coins(n: int) -> GivenCoins:
        return GivenCoins(generator.integers(0, 2**64, n, dtype=np.uint64), int(generator.integers(0, 2**63)))

    sample = frequencies[sampled(frequencies, sampling, coins(len(frequencies)))]
    return Tally.of(sanitizer(sampling, privacy)(sample, coins(len(sample)))[1])


@cache
def sanitizer(sampling: Sampling, privacy: Privacy) -> Sanitizer:
    return Sanitizer(sampling, privacy, default_grid(privacy))


@cache
def exact_laws(sampling: Sampling, m: int, grid: int) -> list[list[Fraction]]:
    E = oracles.exponential(SMALL.epsilon, 30)
    q = [Fraction(sampling.bounds(i, 128)[0], 1 << 128) for i in range(1, m + 1)]
    return [oracles.cells(density, grid, i) for i, density in enumerate(oracles.algorithm_5(q, E, SMALL.delta))]


@pytest.mark.parametrize("sampling", SCHEMES, ids=str)
@pytest.mark.parametrize("of", MEASURES)
@pytest.mark.parametrize("grid", [1, 4])
def test_exact_expectations(sampling: Sampling, of: str, grid: int) -> None:
    """By the exact laws: nearly no bias from the threshold on, never too much below, and the variance that it says."""
    m = 60
    scheme = Calibration.of(Scheme(sampling, SMALL, grid))
    total = Functional(scheme, Measure.of(of), keys=10**5)
    a = total.values(np.arange(1, m * grid + 1, dtype=np.int64))
    spread = total.covariance(total, m)
    pi = reporting_probabilities(range(m + 1), sampling, SMALL)
    assert 2 < scheme.calibration_threshold < LAST
    for i in range(1, LAST):
        p = np.array([float(mass) for mass in exact_laws(sampling, LAST, grid)[i]])[1:]  # of each token
        assert p.sum() == pytest.approx(pi[i], rel=1e-9)
        mean = float(p @ a[: len(p)])
        variance = float(p @ (a[: len(p)] - mean) ** 2) + (1 - pi[i]) * mean**2
        g = float(Measure.of(of)([i])[0])
        if i >= scheme.calibration_threshold:
            assert abs(mean - g) < 0.02 * math.sqrt(variance + g**2)
            assert float(spread(np.array([i]))[0]) == pytest.approx(variance, rel=1e-6)
        else:
            assert mean <= g * (1 + 1e-9)


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("1e-3"), Priority("0.01")], ids=str)
def test_the_support_of_a_token_is_its_column_in_the_laws(sampling: Sampling) -> None:
    privacy, grid = Privacy("0.3", "1e-5"), 4
    tokens = np.array([1, 7, 130, 131, 4000, 4 * 10**9])
    frequencies, mass = supports(tokens, Reporting.of(sampling, privacy), grid)
    for n, token in enumerate(tokens.tolist()):
        for i, probability in list(zip(frequencies[n].tolist(), mass[n].tolist(), strict=True))[::7]:
            law = next(token_laws([i], sampling, privacy, grid))
            expected = law.probabilities[law.cells == token].sum()
            assert probability == pytest.approx(expected, rel=1e-6, abs=1e-16)


@pytest.mark.parametrize("epsilon", ["0.1", "0.25", "0.5"])
def test_a_third_of_the_papers_error_in_the_papers_setting(epsilon: str) -> None:
    """1,000 keys of each frequency from 1 to 200, no sampling: the paper's bias is a quarter at epsilon = 0.1.

    The error was measured as 0.02 of the paper's at most over 30 releases, a sixteenth of what is allowed: by chance
    this fails with odds below 1e-12.
    """
    sampling, privacy = Priority(1), Privacy(epsilon, Fraction(1, 2**20))
    frequencies = np.repeat(np.arange(1, 201), 1000)
    limit = accuracy(Pws(sampling, privacy, mle), dict.fromkeys(range(1, 201), 1000)).nrmse / 3
    generator = np.random.default_rng(1)
    for _ in range(3):
        tally = drawn(frequencies, sampling, privacy, generator)
        total = estimate_sum(tally, Scheme(sampling, privacy, default_grid(privacy)), FREQUENCY)
        assert abs(total.value / frequencies.sum() - 1) < limit


# how often intervals hold: benchmarks/interval_coverage.py measures it, and stores the counts

COVERAGE: Any = import_by_path("interval_coverage")
STORED = json.loads(COVERAGE.SUMMARY.read_text(encoding="utf-8"))


def test_stored_coverage_is_that_of_the_current_tuning() -> None:
    assert STORED["tuning"] == json.loads(json.dumps(asdict(TUNING))), "run benchmarks/interval_coverage.py --store"


@pytest.mark.parametrize("setting", COVERAGE.settings(), ids=lambda s: f"{s.sampling}-{s.epsilon}-{s.population}")
def test_stored_coverage_is_that_of_the_current_code(setting: Any) -> None:
    """The first releases, drawn again, have the stored intervals: a change of any estimate needs a new measurement."""
    for counts in COVERAGE.measure(setting, COVERAGE.FIRST):
        question = [counts[name] for name in ("scheme", "epsilon", "population", "question")]
        [stored] = [old for old in STORED["results"] if question == list(old.values())[:4]]
        assert counts["first_guaranteed"] == stored["first_guaranteed"]
        for name in ("first_low", "first_high"):
            assert counts[name] == pytest.approx(stored[name], rel=1e-6)


def test_intervals_hold() -> None:
    """Sums and numbers of keys have a coverage of 95 %, less 2 points at most, with probability 0.99.

    With a true coverage of 93 % or less, counts as large as these have odds of at most 0.01 in each setting (Clopper
    and Pearson): the smallest defect that this finds with probability 0.99 is 2 points. Where intervals are
    guaranteed in 1,000 releases or more, the same holds for these alone.
    """
    assert len(STORED["results"]) == sum(len(setting.questions) for setting in COVERAGE.settings())
    for counts in STORED["results"]:
        assert COVERAGE.smallest_defect(counts["covered"], counts["releases"]) <= 0.02, counts
        if counts["guaranteed"] >= 1000:
            assert COVERAGE.smallest_defect(counts["guaranteed_covered"], counts["guaranteed"]) <= 0.02, counts


def test_the_smallest_defect_is_that_of_the_binomial_law() -> None:
    """By summing the law: at the bound the counts, or larger ones, have probability 0.01."""
    p = 0.95 - COVERAGE.smallest_defect(190, 200)
    assert sum(math.comb(200, k) * p**k * (1 - p) ** (200 - k) for k in range(190, 201)) == pytest.approx(0.01)


def test_the_docs_have_the_effect_of_each_tuned_number() -> None:
    """benchmarks/results/tuning.md has the table that benchmarks/tuning.py prints, with the current values."""
    table = (ROOT / "benchmarks" / "results" / "tuning.md").read_text(encoding="utf-8")
    for name, value in asdict(TUNING).items():
        if name != "ranking_margin":
            for factor in ("half", "double"):
                assert f"| `{name}` | {value} | {factor} |" in table, name


QUANTILE_SETTINGS = COVERAGE.quantile_settings()


@pytest.mark.parametrize("setting", QUANTILE_SETTINGS, ids=lambda s: f"{s.sampling}-{s.epsilon}-{s.population}")
def test_stored_coverage_of_quantiles_is_that_of_the_current_code(setting: Any) -> None:
    """The first releases, drawn again, have the stored intervals, and no interval became longer when narrowed."""
    names = ("scheme", "epsilon", "population", "interval", "share")
    stored = {tuple(counts[name] for name in names): counts for counts in STORED["quantiles"]}
    lengths = {}
    for counts in COVERAGE.measure_quantiles(setting, COVERAGE.FIRST_LISTED):
        old = stored[tuple(counts[name] for name in names)]
        for name in ("first_low", "first_high"):
            assert counts[name] == pytest.approx(old[name], rel=1e-6)
        lengths[counts["interval"], counts["share"]] = counts["first_high"] - counts["first_low"]
    assert all(lengths["narrowed", share] <= lengths["spectrum", share] for share in COVERAGE.SHARES)


def test_intervals_of_quantiles_hold() -> None:
    """At 95 %, wherever keys have pi >= 0.5, for each setting, share and kind of interval.

    With a true coverage of 93 % or less, counts as large as these have odds of at most 0.01: the smallest defect that
    this finds with probability 0.99 is 2 points.
    """
    assert len(STORED["quantiles"]) == len(QUANTILE_SETTINGS) * len(COVERAGE.SHARES) * 3
    for counts in STORED["quantiles"]:
        assert COVERAGE.smallest_defect(counts["covered"], counts["releases"]) <= 0.02, counts


@pytest.mark.parametrize("sampling", SCHEMES, ids=str)
def test_cumulative_counts_by_exact_laws(sampling: Sampling) -> None:
    """A key from the least frequency on up to the bound counts as one, any other above the threshold as none."""
    grid = 4
    scheme = Calibration.of(Scheme(sampling, SMALL, grid))
    least = scheme.calibration_threshold + 1
    counts = cumulative_counts(scheme, least, 10**5)
    at = counts.frequencies
    values = counts.values
    assert at[0] == least
    assert counts.bias.max() < 0.01
    for i in range(scheme.calibration_threshold, int(at[-1]) // 2):
        p = np.array([float(mass) for mass in exact_laws(sampling, LAST, grid)[i]])[1:]
        counted = values[:, scheme.bins[: len(p)]] @ p
        assert counted == pytest.approx(((least <= i) & (i <= at)).astype(float), abs=0.03)


def test_quantiles_of_many_keys_are_narrow() -> None:
    """To two frequencies at most, where tokens are spread over more.

    1,800 keys have each frequency, and a cumulative count has a standard deviation below 180 keys, as is asserted: by
    chance it is off by one frequency, ten deviations, with odds below 1e-20.
    """
    privacy, shares = Privacy(1, "1e-6"), np.array([0.1, 0.9])
    frequencies = np.repeat(np.arange(14, 42), 1800)
    scheme = Calibration.of(Scheme(KeepAll(), privacy, default_grid(privacy)))
    values = cumulative_counts(scheme, 14, 10**5).values
    variance = (
        values**2 @ scheme.binned_laws.T - (values @ scheme.binned_laws.T) ** 2
    )  # of each count, at each frequency
    assert 1800 * variance[:28, :28].sum(1).max() < 180**2
    tally = drawn(frequencies, KeepAll(), privacy, np.random.default_rng(4))
    estimated = spectrum(tally, Scheme(KeepAll(), privacy, default_grid(privacy)))
    _, low, high = estimated.quantiles(shares, 14, 0.95)
    narrow = narrow_quantile_intervals(tally, estimated.calibration, shares, 14, 0.95, 0.0, (low, high))
    truth = frequencies[np.ceil(shares * len(frequencies)).astype(int) - 1]
    assert ((narrow[0] - 1 <= truth) & (truth <= narrow[1] + 1)).all()
    assert (narrow[1] <= narrow[0] + 2).all()
    assert (high >= low + 3).all()


@pytest.mark.parametrize(("sampling", "epsilon"), [(KeepAll(), "1"), (Priority("0.02"), "0.5")])
def test_keys_below_the_threshold_are_not_mistaken_for_those_at_it(sampling: Sampling, epsilon: str) -> None:
    """With more keys below the detection threshold than above it.

    Answers about the keys from it on say that they cannot distinguish them, and are not guaranteed; a little above it,
    at the default, they are, and no estimate counts the others. The intervals that are not guaranteed hold in all of 8
    releases. The coverage of those that are guaranteed is measured by benchmarks/interval_coverage.py.
    """
    privacy = Privacy(epsilon, "1e-6")
    grid, threshold = default_grid(privacy), frequency_reaching(0.5, sampling, privacy) or 0
    assert threshold == Calibration.of(Scheme(sampling, privacy, grid)).calibration_threshold
    generator = np.random.default_rng(6)
    frequencies = np.floor(threshold / 3 / generator.random(30_000)).clip(max=100 * threshold).astype(np.int64)
    above = np.sort(frequencies[frequencies >= threshold])
    least = threshold + max(2, math.ceil(0.5 / float(privacy.epsilon)))
    middle, upper = above[np.ceil(np.array([0.5, 0.9]) * len(above)).astype(int) - 1].tolist()
    truths = [len(above), float(above.mean()), middle, upper]
    errors = []
    for _ in range(8):
        tally = drawn(frequencies, sampling, privacy, generator)
        cells = np.repeat(tally.cells, tally.keys)
        table = pa.table({"key": np.arange(len(cells)), "token": cells / grid})
        release = Release(table, stated_terms(privacy, sampling, ("key",), grid=grid))
        quantiles = release.quantiles([0.5, 0.9], at_least=threshold)
        number, mean = release.count_keys(at_least=threshold), release.mean(at_least=threshold)
        answers = [number, mean, quantiles[0.5], quantiles[0.9]]
        assert not any(answer.guaranteed for answer in answers)
        assert all("cannot be distinguished" in " ".join(answer.notes) for answer in answers)
        assert all(answer.low <= truth <= answer.high for answer, truth in zip(answers, truths, strict=True))
        default = [release.sum(), release.count_keys(), release.mean(), release.quantiles()[0.5]]
        assert all((answer.guaranteed, answer.at_least) == (True, least) for answer in default)
        errors.append((default[1].value - (frequencies >= least).sum()) / default[1].standard_error)
    assert abs(np.mean(errors)) < 6 / math.sqrt(8)  # odds below 1e-8; at the threshold itself it is biased by more


def test_far_tokens_are_shifts_and_large_ones_work() -> None:
    privacy, grid = Privacy("0.5", "1e-6"), 8
    near, far = (estimate_sum(Tally.of([grid * i]), Scheme(KeepAll(), privacy, grid), FREQUENCY) for i in (5000, 10**9))
    assert far.value - near.value == pytest.approx(10**9 - 5000, abs=1e-3)
    assert (
        near.standard_error > far.standard_error > 0.99 * near.standard_error
    )  # that another key was missed is ever less likely


def test_weights_multiply_values_and_errors() -> None:
    privacy, grid = Privacy(1, "1e-6"), 16
    cells = list(range(100, 900, 3))
    scheme = Scheme(KeepAll(), privacy, grid)
    once, twice = (estimate_sum(Tally.of(cells, weights=[w] * len(cells)), scheme, FREQUENCY) for w in (1.0, 2.0))
    assert twice.above == pytest.approx(2 * once.above)
    assert twice.standard_error == pytest.approx(2 * once.standard_error)
    assert twice.extrapolated == pytest.approx(2 * once.extrapolated)
    assert twice.variance_keys == pytest.approx(once.variance_keys)


def test_a_spike_at_the_threshold_is_not_extrapolated_below_it() -> None:
    """All keys have one frequency, just above it: the spread of tokens does not count as keys below."""
    privacy = Privacy("0.25", "1e-6")
    threshold = Calibration.of(Scheme(KeepAll(), privacy, default_grid(privacy))).calibration_threshold
    frequencies = np.full(5000, threshold + 1)
    tally = drawn(frequencies, KeepAll(), privacy, np.random.default_rng(2))
    total = estimate_sum(tally, Scheme(KeepAll(), privacy, default_grid(privacy)), FREQUENCY)
    # the standard error is 0.02 of it: odds below 1e-12
    assert abs(total.value / frequencies.sum() - 1) < 0.2


def test_nothing_selected_has_an_upper_bound() -> None:
    """Keys of any frequencies are all unreported with the product of their probabilities 1 - pi.

    By brute force over up to three keys: no combination that is unreported with 5 % holds more than the bound.
    """
    privacy = Privacy(1, "1e-6")
    for least in (14, 15, 16):
        answer = estimate(Tally.of([]), Scheme(KeepAll(), privacy, 16), FREQUENCY, level=0.95, least=least)
        i = list(range(least, 30))
        absent = dict(zip(i, reporting_probabilities(i, KeepAll(), privacy, complement=True), strict=True))
        combinations = (c for n in (1, 2, 3) for c in itertools.combinations_with_replacement(i, n))
        most = max([sum(c) for c in combinations if math.prod(absent[k] for k in c) > 0.05], default=0)
        assert (answer.value, answer.low, answer.at_least) == (0.0, 0.0, least)
        assert most <= answer.high <= 1.6 * most
        assert answer.guaranteed == (least == 16)


def test_other_estimators_have_no_interval() -> None:
    privacy, grid = Privacy("0.5", "1e-6"), 8
    tally = Tally.of(list(range(160, 2400, 5)))
    for name in ("mle", "biased_down"):
        other = estimate(tally, Scheme(KeepAll(), privacy, grid), FREQUENCY, name, 0.95)
        assert (other.low, other.high, other.guaranteed, other.at_least) == (-math.inf, math.inf, False, None)
        assert other.keys == tally.total


@pytest.mark.parametrize(
    "sampling", [CustomSampling([Fraction(1, 50)] * 8 + [Fraction(1, 3)] * 30), KeepAll()], ids=str
)
def test_schemes_that_end_or_never_hide_anything(sampling: Sampling) -> None:
    for privacy in (SMALL, Privacy(20, "0.01")):
        tally = Tally.of([4, 9, 30])
        answer = estimate(tally, Scheme(sampling, privacy, 2), FREQUENCY, "calibrated", 0.9)
        assert 0 <= answer.low <= answer.value <= answer.high < math.inf


def test_a_tiny_epsilon_has_an_estimate_and_no_guarantee() -> None:
    privacy = Privacy("0.001", "1e-6")
    answer = estimate(Tally.of([50_000, 70_000]), Scheme(KeepAll(), privacy, 1), FREQUENCY, "calibrated", 0.95)
    assert answer.value == mle([50_000, 70_000], KeepAll(), privacy).sum()
    assert (answer.low, answer.high, answer.guaranteed) == (-math.inf, math.inf, False)
    assert "too small" in answer.notes[0]


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor(tau="0.001")], ids=["all", "ppswor"])
def test_a_number_of_keys_far_beyond_the_table_has_an_interval(sampling: Sampling) -> None:
    """Keys close to the bound may be on either side of it, however frequent they are.

    benchmarks/interval_coverage.py (around a far bound) measures the coverage.
    """
    privacy, bound = Privacy(1, 1e-8), 5000
    generator = np.random.default_rng(1)
    frequencies = generator.integers(bound - 60, bound + 61, 3000)
    tally, grid = drawn(frequencies, sampling, privacy, generator), default_grid(privacy)
    number = estimate(tally, Scheme(sampling, privacy, grid), Measure.of(f"at-least:{bound}"), "calibrated", 0.95)
    assert number.low < number.value < number.high


def test_a_delta_that_is_larger_than_epsilon_has_an_estimate() -> None:
    privacy = Privacy("1e-6", "0.01")
    answer = estimate(Tally.of([50, 300]), Scheme(KeepAll(), privacy, 1), FREQUENCY, "calibrated", 0.95)
    assert 0 <= answer.low <= answer.value <= answer.high < math.inf


@pytest.mark.parametrize("setting", COVERAGE.top_settings(), ids=lambda s: f"{s.sampling}-{s.epsilon}-{s.population}")
def test_stored_coverage_of_top_lists_is_that_of_the_current_code(setting: Any) -> None:
    """The first releases, drawn again, have the stored intervals."""
    counts = COVERAGE.measure_top_list(setting, COVERAGE.FIRST_LISTED)
    names = ("scheme", "epsilon", "frequency")
    [stored] = [old for old in STORED["top_lists"] if all(old[name] == counts[name] for name in names)]
    for name in ("first_low", "first_high"):
        assert counts[name] == pytest.approx(stored[name], rel=1e-6)


def test_intervals_of_a_top_list_hold_even_if_it_is_a_list_by_chance() -> None:
    """Of keys that are all as frequent, those with the largest tokens are listed.

    The share of the ten listed keys whose intervals hold is that of 120 releases. Intervals of the listed keys fail
    about independently: their share was measured to have the variance of a binomial law of 1,200. By that law, a
    true share of 93 % or less has odds of at most 0.01: the smallest defect that this finds with probability 0.99 is 2
    points.
    """
    assert len(STORED["top_lists"]) == len(COVERAGE.top_settings())
    for counts in STORED["top_lists"]:
        assert COVERAGE.smallest_defect(counts["covered"], counts["listed"]) <= 0.02, counts


def test_a_mean_of_few_keys_allows_for_one_that_was_not_reported() -> None:
    """Of six keys the rarest is often missing, and the mean of the others is too large.

    The draws are fixed. An interval that allows for it on its upper side only held in 87 % of 2,000 such releases.
    """
    privacy, generator = Privacy("0.2", "1e-6"), np.random.default_rng(1)
    least, frequencies = 62, np.array([269, 223, 153, 139, 112, 63, 51, 49, 45, 43])
    assert least == least_frequency(Scheme(KeepAll(), privacy), each_key_alike=True)
    tallies = [drawn(frequencies, KeepAll(), privacy, generator) for _ in range(150)]
    summed, counted = (Measure.of(of).from_frequency(least) for of in ("frequency", "keys"))
    grid = default_grid(privacy)
    values, numbers = (
        np.array([e.value for e in estimates(tallies, Scheme(KeepAll(), privacy, grid), of, least=least, keys=6)])
        for of in (summed, counted)
    )
    numbers = np.maximum(numbers, 1e-9)
    deviations = Deviations(tallies, Scheme(KeepAll(), privacy, grid), summed, counted, keys=6)
    low, high = deviations.intervals(values / numbers, numbers, 0.95)
    truth = frequencies[frequencies >= least].mean()
    held = ((low <= truth) & (truth <= high))[numbers > 1]
    assert len(held) > 100
    assert held.mean() > 0.95


def test_a_mean_of_sampled_keys_allows_for_their_uncertain_number() -> None:
    """Of eight keys, those near the least frequency are often not sampled, and the mean of the others is too large.

    The draws are fixed. Without the interval of the number of keys, that of the mean held in 89 % of 1,000 releases.
    """
    privacy, sampling, generator = Privacy(1, "1e-6"), Ppswor("0.01"), np.random.default_rng(1)
    frequencies = np.array([1362, 1198, 605, 330, 315, 275, 184, 72, 65, 55, 38, 37, 27, 23, 20, 18])
    least = least_frequency(Scheme(sampling, privacy), each_key_alike=True)
    assert least == 72
    truth, held = frequencies[frequencies >= least].mean(), []
    for _ in range(60):
        tally = drawn(frequencies, sampling, privacy, generator)
        tokens = np.repeat(tally.cells, tally.keys) / default_grid(privacy)
        table = pa.table({"key": np.arange(len(tokens)), "token": tokens})
        answer = Release(table, stated_terms(privacy, sampling, ("key",), grid=default_grid(privacy))).mean()
        held.append(answer.guaranteed and answer.low <= truth <= answer.high)
    assert np.mean(held) > 0.95
