"""The planner against slow sums of the definitions, and against simulated releases."""

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

import dpsample
from dpsample import CustomSampling, KeepAll, Ppswor, Priority, Privacy, SampleSize, Sampling
from dpsample.comparison.accuracy import Errors, Pws, accuracy, selection_accuracy
from dpsample.comparison.reporting_curve import curve
from dpsample.estimators import Tally, mle
from dpsample.estimators.calibrated import estimate_sum
from dpsample.estimators.calibration import Calibration
from dpsample.estimators.functional import Functional
from dpsample.estimators.measures import Measure
from dpsample.estimators.sum_functionals import round_up_key_count
from dpsample.planning.errors import predicted
from dpsample.planning.forecast import forecast
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.grid import Grid, default_delta
from dpsample.planning.setting import Setting, planned_sampling
from dpsample.private.count import count_frequencies
from dpsample.private.randomness import Coins, Words
from dpsample.private.sanitizer import Sanitizer, sampled
from dpsample.scheme import default_grid
from dpsample.scheme.noise import KeyNoise
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.scheme import Scheme
from planned import PUBLIC, ZIPF
from references import true_pi
from support import refused

# expectations


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.05"), Priority("0.013")], ids=str)
def test_coverage_is_the_sum_of_exact_probabilities(sampling: Sampling) -> None:
    privacy = Privacy("0.8", "1e-4")
    pi = true_pi(sampling, privacy, 300)  # 120 digits
    found = forecast(PUBLIC, Setting(privacy, sampling), errors=False).pws
    pairs = list(zip(PUBLIC.values.tolist(), PUBLIC.keys.tolist(), strict=True))
    assert found.keys == pytest.approx(float(sum(n * pi[i] for i, n in pairs)), rel=1e-11)
    assert found.share_of_keys == pytest.approx(found.keys / 602, rel=1e-12)
    elements = sum(n * i * pi[i] for i, n in pairs) / sum(n * i for i, n in pairs)
    assert found.share_of_elements == pytest.approx(float(elements), rel=1e-11)
    assert found.detection_threshold == next(i for i in range(301) if pi[i] >= Decimal("0.5"))
    assert (found.nrmse, found.estimator) == (None, None)


def test_the_baselines_are_their_formulas() -> None:
    epsilon, delta = 0.8, 1e-4
    made = forecast(PUBLIC, Setting(Privacy("0.8", "1e-4")))
    methods = {method.method: method for method in made.methods}
    assert list(methods) == ["PWS", "SbH", "SbH, tight cutoff", "sample and threshold"]
    for name, cutoff in (
        ("SbH", math.log(1 / delta) / epsilon + 1),
        ("SbH, tight cutoff", math.log(1 / (2 * delta)) / epsilon + 1),
    ):

        def phi(i: int, cutoff: float = cutoff) -> float:
            return 1 - math.exp(-epsilon * (i - cutoff)) / 2 if i >= cutoff else math.exp(epsilon * (i - cutoff)) / 2

        expected = sum(phi(i) * n for i, n in zip(PUBLIC.values.tolist(), PUBLIC.keys.tolist(), strict=True))
        assert methods[name].keys == pytest.approx(expected, rel=1e-10)
        assert methods[name].detection_threshold == math.ceil(cutoff)
    assert all(method.keys < made.pws.keys for method in made.methods[1:])
    sampled_ones = forecast(PUBLIC, Setting(Privacy("0.8", "1e-4"), Priority("0.01")))
    open_one = sampled_ones.methods[-1]
    # min(1, 0.01 i) for each key; variance i**2 (1 / q - 1)
    assert (open_one.method, open_one.detection_threshold) == ("not private", 50)
    assert open_one.keys == pytest.approx(0.01 * (500 + 8 * 40 + 13 * 30 + 14 * 20 + 200) + 2)
    variance = sum(n * i * (100 - i) for i, n in {1: 500, 8: 40, 13: 30, 14: 20, 20: 10}.items())
    assert open_one.nrmse == pytest.approx(math.sqrt(variance) / PUBLIC.elements)
    assert open_one.selection_nrmse == pytest.approx(10 * math.sqrt(variance) / PUBLIC.elements)
    capped = forecast(PUBLIC, Setting(Privacy(1, "1e-4"), Priority("0.01", cap=20)), errors=False)
    assert [method.method for method in capped.methods] == ["PWS", "not private"]
    assert (capped.pws.detection_threshold, capped.methods[-1].detection_threshold) == (None, None)
    assert "not stated" in capped.notes[0]
    ends = forecast(PUBLIC, Setting(Privacy(1, "1e-4"), CustomSampling(["0.1"] * 300)), errors=False)
    assert ends.methods[-1].detection_threshold is None


class TwoValues:
    """A method whose estimate of a key is 0, or a value, each with a known probability."""

    def __init__(self, values: dict[int, tuple[Fraction, int]]) -> None:
        self.values = values

    def reported(self, frequencies: ArrayLike) -> NDArray[np.float64]:
        return np.array([float(self.values[i][0]) for i in np.asarray(frequencies).tolist()])

    def errors(self, frequencies: ArrayLike, of: Measure | str = "frequency") -> Errors:
        i = np.asarray(frequencies, np.int64)
        p = self.reported(i)
        value = np.array([float(self.values[f][1]) for f in i.tolist()])
        return Errors(i, i.astype(float), p, p * value - i, p * (1 - p) * value**2)


@pytest.mark.parametrize("share", [Fraction(1), Fraction(1, 3), Fraction(1, 50)])
def test_the_error_of_a_selection_by_enumeration(share: Fraction) -> None:
    """All selections of four keys, and all outcomes of each, in fractions."""
    values = {3: (Fraction(1, 5), 4), 10: (Fraction(1, 2), 17), 12: (Fraction(9, 10), 13)}
    keys = [3, 10, 10, 12]
    mean = square = truth = Fraction(0)
    for chosen, drawn in product(product((0, 1), repeat=4), product((0, 1), repeat=4)):
        p = Fraction(1)
        off = Fraction(0)
        for key, b, hit in zip(keys, chosen, drawn, strict=True):
            chance, value = values[key]
            p *= (share if b else 1 - share) * (chance if hit else 1 - chance)
            off += b * (hit * value - key)
        mean, square = mean + p * off, square + p * off**2
        truth += p * sum(key * b for key, b in zip(keys, chosen, strict=True))
    found = selection_accuracy(TwoValues(values), keys, float(share))
    assert found.bias == pytest.approx(float(mean))
    assert found.mse == pytest.approx(float(square))
    assert found.nrmse == pytest.approx(math.sqrt(square) / float(truth))


# the default estimator's errors


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("1e-3"), Priority("1e-4")], ids=str)
@pytest.mark.parametrize("epsilon", ["0.2", "1"])
def test_where_keys_are_seen_it_is_the_exact_error_of_the_tokens_values(sampling: Sampling, epsilon: str) -> None:
    """Far from the dark nothing is continued, and errors are sums over token laws, here computed by `accuracy`."""
    privacy = Privacy(epsilon, "1e-6")
    grid = default_grid(privacy)
    scheme = Calibration.of(Scheme(sampling, privacy, grid))
    i = np.array([8 * scheme.calibration_threshold, 10 * scheme.calibration_threshold, 5000, 40_000, 10**6])
    keys = np.array([3000.0, 2000.0, 100.0, 30.0, 2.0])
    reported = float(keys @ Pws(sampling, privacy).reported(i))
    total = Functional(scheme, Measure.of("frequency"), round_up_key_count(reported))

    def values(
        cells: ArrayLike, sampling: Sampling, privacy: PerKey, grid: int, of: Measure | str
    ) -> NDArray[np.float64]:
        return total.values(np.asarray(cells, np.int64))

    exact = accuracy(Pws(sampling, privacy, values), dict(zip(i.tolist(), map(int, keys), strict=True)))
    found, estimator = predicted(i, keys, sampling, privacy)
    assert estimator == "calibrated"
    assert found.variance == pytest.approx(exact.variance, rel=0.02)
    assert abs(found.bias - exact.bias) < 0.15 * math.sqrt(exact.variance)


class FastCoins(Coins):
    """Coins for simulations."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def first(self, n: int) -> Words:
        return self._generator.integers(0, 2**64, n, dtype=np.uint64)

    def more(self, row: int, bits: int) -> int:
        return int.from_bytes(self._generator.bytes(-(-bits // 8)), "big") >> (-bits % 8)


def simulated(
    frequencies: NDArray[np.int64], sampling: Sampling, privacy: Privacy, share: float, releases: int
) -> Iterator[float]:
    """By how much a selection's estimated elements are off: real draws of the sanitizer, and the library's answer."""
    grid, generator, coins = default_grid(privacy), np.random.default_rng(3), FastCoins(4)
    sanitizer = Sanitizer(sampling, privacy, grid)
    for _ in range(0, releases, together := 25):  # keys of several releases at once, for they share their laws
        release, key = np.nonzero(generator.random((together, len(frequencies))) < share)
        chosen = frequencies[key]
        drawn = sampled(chosen, sampling, coins)
        rows, cells = sanitizer(chosen[drawn], coins)
        owner = release[drawn][rows]
        for n in range(together):
            tally, truth = Tally.of(cells[owner == n]), float(chosen[release == n].sum())
            yield estimate_sum(tally, Scheme(sampling, privacy, grid), Measure.of("frequency")).value - truth


POPULATIONS = {
    "geometric": np.rint(100 * -np.log1p(-(np.arange(20_000) + 0.5) / 20_000)).astype(np.int64).clip(1),
    "even": np.repeat(np.arange(1, 201), 100),
    "power law": np.rint(20_000 / np.arange(1, 20_001)).astype(np.int64),
}


@pytest.mark.parametrize("share", [1.0, 0.1])
@pytest.mark.parametrize(("sampling", "epsilon"), [(KeepAll(), "0.2"), (KeepAll(), "1"), (Priority("0.01"), "0.5")])
@pytest.mark.parametrize("name", POPULATIONS)
def test_simulated_releases_are_off_as_predicted(name: str, sampling: Sampling, epsilon: str, share: float) -> None:
    """Mean and scatter of 100 releases, whose errors are sums over many keys, and so nearly normal.

    The prediction is approximate: a tenth of the root mean square error is allowed for the bias, and 20 % for the
    standard deviation. Beyond that, the mean of 100 may be off by 5.6 of its standard errors (odds 2.2e-8), and the
    variance as chi-square with 99 degrees of freedom is with odds of 1e-8 on either side: 4.2e-8 in all.
    """
    privacy, releases = Privacy(epsilon, "1e-6"), 100
    frequencies = POPULATIONS[name]
    i, keys = np.unique(frequencies, return_counts=True)
    found, _ = predicted(i, keys.astype(np.float64), sampling, privacy, share)
    off = np.array(list(simulated(frequencies, sampling, privacy, share, releases)))
    deviation = math.sqrt(found.variance)
    assert abs(off.mean() - found.bias) < 5.6 * deviation / math.sqrt(releases) + 0.1 * math.sqrt(found.mse)
    low, high = (math.sqrt(chi2.ppf(p, releases - 1) / (releases - 1)) for p in (1e-8, 1 - 1e-8))
    assert low / 1.2 < off.std(ddof=1) / deviation < high * 1.2


def test_the_quick_table_agrees() -> None:
    privacy, i, keys = Privacy("0.5", "1e-7"), ZIPF.values, ZIPF.counts
    for sampling in (KeepAll(), Ppswor("0.01")):
        slow, quick = (predicted(i, keys, sampling, privacy, 0.5, quick)[0] for quick in (False, True))
        assert quick.nrmse == pytest.approx(slow.nrmse, rel=0.03)


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.01"), Priority("0.003")])
@pytest.mark.parametrize(("epsilon", "delta"), [("0.1", "1e-3"), ("0.15", "1e-6"), ("0.3", "1e-10"), ("3", "1e-12")])
def test_the_quick_table_agrees_on_strides(epsilon: str, delta: str, sampling: Sampling) -> None:
    """Of 1,921 settings with an NRMSE above 0.02, 99.5 % agreed within 5 %, and all within 15 %."""
    for share in (1.0, 0.01):
        slow, quick = (
            predicted(ZIPF.values, ZIPF.counts, sampling, Privacy(epsilon, delta), share, quick)[0]
            for quick in (False, True)
        )
        assert slow.nrmse > 0.02
        assert quick.nrmse == pytest.approx(slow.nrmse, rel=0.06)


def test_a_tiny_epsilon_falls_back_to_mle_as_answers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = Calibration.of(Scheme(KeepAll(), Privacy("0.005", "1e-9"), 1))
    assert not tiny.feasible
    assert not tiny.fits(1)
    monkeypatch.setattr(
        "dpsample.planning.errors.Calibration.fits", lambda self, grid: False
    )  # the truth would take minutes
    privacy, frequencies = Privacy("0.1", "1e-6"), {100: 100, 130: 50, 500: 10}
    found = forecast(Frequencies.of(frequencies), Setting(privacy), share=1, baselines=False)
    exact = accuracy(Pws(KeepAll(), privacy, mle), frequencies)
    assert (found.pws.estimator, "by mle" in found.notes[0]) == ("mle", True)
    assert found.pws.nrmse == pytest.approx(exact.nrmse, rel=0.01)
    assert found.pws.selection_nrmse == found.pws.nrmse
    # where nobody is seen all is missed, a selection's own elements included
    nothing = forecast(Frequencies.of(frequencies), Setting(Privacy("0.001", "1e-14")), share=0.1, baselines=False)
    squares, elements = sum(n * i * i for i, n in frequencies.items()), sum(n * i for i, n in frequencies.items())
    assert nothing.pws.estimator == "mle"
    assert nothing.pws.nrmse == pytest.approx(1, rel=1e-4)
    assert nothing.pws.selection_nrmse == pytest.approx(math.sqrt(1 + 9 * squares / elements**2), rel=1e-4)


def test_mle_between_some_frequencies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsample.planning.errors.Calibration.fits", lambda self, grid: False)
    privacy, frequencies = Privacy("0.1", "1e-6"), dict.fromkeys(range(1, 1000, 3), 10)
    i, keys = np.array(list(frequencies)), np.array(list(frequencies.values()), np.float64)
    for sampling in (KeepAll(), Ppswor("0.01")):
        found, estimator = predicted(i, keys, sampling, privacy)
        exact = accuracy(Pws(sampling, privacy, mle), frequencies)
        assert estimator == "mle"
        assert found.bias == pytest.approx(exact.bias, rel=0.01)
        assert found.variance == pytest.approx(exact.variance, rel=0.05)
        small = Privacy("0.04", "1e-8")  # which quick ones go through in strides of about ten
        slow, quick = (predicted(i, keys, sampling, small, 0.5, quick)[0] for quick in (False, True))
        assert quick.nrmse == pytest.approx(slow.nrmse, rel=0.015)


# settings are those of real releases


@pytest.mark.chance("odds 3e-9: noise beyond 20 scales")
def test_a_setting_spends_as_a_release_does() -> None:
    table = pa.table({"u": [i % 500 for i in range(4000)], "k": [f"key {i % 37}" for i in range(4000)]})
    privacy = Privacy(1, "1e-8")
    setting = Setting(privacy, size=SampleSize(30), max_keys_per_user=4, total=True)
    real = dpsample.release(table, "k", privacy=privacy, size=SampleSize(30), user="u", max_keys_per_user=4, total=True)
    assert setting.per_key == real.per_key
    frequencies = count_frequencies(table, "k", user="u", max_keys_per_user=4)
    planned, drawn = planned_sampling(setting, frequencies), real.sampling
    assert isinstance(planned, Ppswor)
    assert isinstance(drawn, Ppswor)
    weights = 500 * 4
    assert planned.tau == Fraction(30, weights)
    # noise of scale 4 / 0.05 exceeds 20 times that with odds of exp(-20) = 2e-9
    assert Fraction(30, weights + 1600) * Fraction(999_999, 10**6) <= drawn.tau <= Fraction(30, weights - 1600)
    with refused("sampling cannot be combined with size"):
        Setting(privacy, Ppswor(1), SampleSize(30))


def test_weights_of_a_sample_size() -> None:
    size = SampleSize(10, power="0.5", cap=9)
    sampling = planned_sampling(Setting(Privacy(1, "1e-8"), size=size), Frequencies.of({1: 3, 4: 2, 100: 5}))
    assert isinstance(sampling, Ppswor)
    assert sampling.tau == pytest.approx(Fraction(10, 3 * 1 + 2 * 2 + 5 * 3), rel=1e-5)  # six figures, rounded down


def test_a_grid_and_its_default_delta() -> None:
    made = list(Grid(["0.1", 1], ["1e-6", "1e-8"], [KeepAll(), SampleSize(5)], [None, 3]).settings())
    assert len(made) == 16
    assert [float(s.privacy.epsilon) for s in made[:3]] == [0.1, 1, 0.1]
    assert {s.max_keys_per_user for s in made[8:]} == {3}
    for elements, delta in {1: "0.01", 10: "0.01", 11: "0.001", 1000: "1e-4", 1001: "1e-5"}.items():
        assert default_delta(Frequencies.of([1] * elements)) == Fraction(delta)


def test_the_curve_is_what_is_reported() -> None:
    privacy = Privacy("0.5", "1e-6")
    for sampling in (KeepAll(), Ppswor("0.01")):
        drawn = curve(sampling, privacy, points=50)
        assert drawn.frequencies[0] == 1
        assert (np.diff(drawn.frequencies) > 0).all()
        pi = true_pi(sampling, privacy, 100)
        low = drawn.frequencies <= 100
        np.testing.assert_allclose(drawn.pws[low], [float(pi[i]) for i in drawn.frequencies[low]], rtol=1e-11)
        assert drawn.sbh is not None
        assert drawn.tight is not None
        assert (drawn.sbh <= drawn.tight * (1 + 1e-9)).all()
        assert (drawn.tight <= drawn.pws * (1 + 1e-9)).all()
        assert (drawn.pws <= drawn.sampled).all()
        assert drawn.pws[-1] > 0.99
    assert curve(Priority("0.01", cap=20), privacy).sbh is None


def test_baselines_of_many_keys_have_what_composition_gives() -> None:
    whole, keys = Privacy("0.8", "1e-4"), 20
    made = forecast(PUBLIC, Setting(whole, max_keys_per_user=keys))
    assert isinstance(made.setting.per_key, KeyNoise)
    each = made.setting.budget.composed_per_key

    def together(epsilon: float) -> float:
        """The theorem of Kairouz, Oh and Viswanath, for k copies of (epsilon, delta), at the whole epsilon."""
        terms = (
            math.comb(keys, n) * (math.exp((keys - n) * epsilon) - math.exp(0.8 + n * epsilon))
            for n in range(keys)
            if (keys - 2 * n) * epsilon > 0.8
        )
        lost = sum(terms) / (1 + math.exp(epsilon)) ** keys
        return 1 - (1 - float(each.delta)) ** keys * (1 - lost)

    epsilon, delta = float(each.epsilon), float(each.delta)
    assert together(epsilon) <= 1e-4 < together(1.01 * epsilon)
    methods = {method.method: method for method in made.methods}
    assert list(methods) == ["PWS", "SbH", "SbH, tight cutoff", "sample and threshold"]
    cutoff = math.log(1 / delta) / epsilon + 1

    def phi(i: int) -> float:
        return 1 - math.exp(-epsilon * (i - cutoff)) / 2 if i >= cutoff else math.exp(epsilon * (i - cutoff)) / 2

    expected = sum(phi(i) * n for i, n in zip(PUBLIC.values.tolist(), PUBLIC.keys.tolist(), strict=True))
    assert methods["SbH"].keys == pytest.approx(expected, rel=1e-9)
    [note] = made.notes
    assert note == f"with the other methods, each key has epsilon {epsilon:.3g}, delta {delta:.2g}, by composition"
    drawn = curve(KeepAll(), made.setting.per_key, 20, each)
    assert drawn.sbh == pytest.approx([phi(i) for i in drawn.frequencies.tolist()], rel=1e-9)
    assert curve(KeepAll(), made.setting.per_key, 20).sbh is None
