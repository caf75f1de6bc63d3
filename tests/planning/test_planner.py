"""The planner against slow sums of the definitions, against simulated releases, and as a user runs it."""

import json
import math
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

import dpsample
import support
from dpsample import CustomSampling, KeepAll, Ppswor, Priority, Privacy, SampleSize, Sampling
from dpsample.cli import cli
from dpsample.comparison.accuracy import Errors, Pws, accuracy, selection_accuracy
from dpsample.comparison.reporting_curve import curve
from dpsample.estimators import Tally, mle
from dpsample.estimators.calibrated import estimate_sum
from dpsample.estimators.calibration import Calibration
from dpsample.estimators.functional import Functional
from dpsample.estimators.measures import Measure
from dpsample.estimators.sum_functionals import round_up_key_count
from dpsample.planning.earlier import estimated_frequencies
from dpsample.planning.errors import predicted
from dpsample.planning.forecast import Forecast, forecast
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.goals import Goal, default_delta, recommended, settings, smallest_epsilon
from dpsample.planning.setting import Setting, planned_sampling
from dpsample.private.count import count_frequencies
from dpsample.private.randomness import Coins, Words
from dpsample.private.sanitizer import Sanitizer, sampled
from dpsample.scheme import default_grid
from dpsample.scheme.noise import KeyNoise
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.scheme import Scheme
from references import true_pi
from support import refused

ZIPF = Frequencies.zipf(1, 1000)
PUBLIC = Frequencies.of({1: 500, 8: 40, 13: 30, 14: 20, 20: 10, 300: 2}, private=False)


# frequencies


@pytest.mark.parametrize(("alpha", "keys"), [(1, 1000), (0.5, 300), (2, 50), (0, 7), (1, 1)])
def test_zipf_is_its_definition(alpha: float, keys: int) -> None:
    expected = Counter(max(1, round(Decimal(keys / r) ** Decimal(alpha))) for r in range(1, keys + 1))
    made = Frequencies.zipf(alpha, keys)
    assert dict(zip(made.values.tolist(), made.keys.tolist(), strict=True)) == expected
    assert (made.total, made.private) == (keys, False)
    assert made.elements == sum(i * n for i, n in expected.items())


def test_zipf_with_a_number_of_elements() -> None:
    made = Frequencies.zipf(1, 100, elements=10**6)
    harmonic = sum(1 / r for r in range(1, 101))
    assert made.values[-1] == round(10**6 / harmonic)
    assert abs(made.elements - 10**6) <= 50  # each of 100 is rounded by at most one half
    assert Frequencies.zipf(3, 1000, elements=1000).values[0] == 1


@pytest.mark.parametrize("arguments", [(math.nan, 10), (1, 0), (1, True), (-1, 10), (1, 10, 9), (50, 10**6), ("x", 5)])
def test_what_is_no_zipf_distribution_is_refused(arguments: tuple[float, int]) -> None:
    with refused(""):
        Frequencies.zipf(*arguments)


def test_lists_and_mappings_agree_and_show_nothing() -> None:
    listed, mapped = Frequencies.of([7, 3, 7, 7]), Frequencies.of({7: 3, 3: 1, 9: 0})
    for made in (listed, mapped):
        assert (made.values.tolist(), made.keys.tolist(), made.elements) == ([3, 7], [1, 3], 24)
        assert repr(made) == "Frequencies(private)"
    wrongs: list[Any] = [[], [0, 3], {0: 2}, [1.5], {3: -1}, {"a": 2}]
    for wrong in wrongs:
        with refused(""):
            Frequencies.of(wrong)


def test_histograms_are_read(tmp_path: Path) -> None:
    table = pa.table({"keys": [5, 2, 1], "frequency": [3, 100, 3]})
    pq.write_table(table, tmp_path / "h.parquet")
    (tmp_path / "h.csv").write_text("frequency,keys\n3,6\n100,2\n")
    (tmp_path / "rows.json").write_text('[{"frequency": 100, "keys": 2}, {"frequency": 3, "keys": 6}]')
    (tmp_path / "columns.json").write_text('{"frequency": [3, 100], "keys": [6, 2]}')
    with pa.ipc.new_file(tmp_path / "h.arrow", table.schema) as writer:
        writer.write_table(table)
    for name in ("h.parquet", "h.csv", "rows.json", "columns.json", "h.arrow"):
        made = Frequencies.read(tmp_path / name)
        assert (made.values.tolist(), made.keys.tolist(), made.private) == ([3, 100], [6, 2], True)


@pytest.mark.parametrize(
    "content",
    ["frequency,keys\n31337,\n", "frequency\n31337\n", "frequency,keys\n31337,1.5\n", "frequency,keys\n-31337,1\n", ""],
)
def test_what_is_no_histogram_is_refused_without_its_content(content: str, tmp_path: Path) -> None:
    (tmp_path / "h.csv").write_text(content)
    with refused("", hidden=["31337"]):
        Frequencies.read(tmp_path / "h.csv")
    (tmp_path / "h.json").write_text(content)
    with refused("", hidden=["31337"]):
        Frequencies.read(tmp_path / "h.json")
    with refused("must exist"):
        Frequencies.read(tmp_path / "no.csv")
    with refused("ends with"):
        Frequencies.read(Path(__file__))


@pytest.mark.chance("certain: numbers of kept keys do not depend on which")
def test_counting_is_private_and_right() -> None:
    found = count_frequencies(["a"] * 5 + ["b"] * 5 + ["c"])
    assert (found.values.tolist(), found.keys.tolist(), repr(found)) == ([1, 5], [1, 2], "Frequencies(private)")
    table = pa.table({"u": [1, 1, 1, 2, 2, 3], "k": ["a", "b", "c", "a", "a", "a"]})
    assert count_frequencies(table, "k", user="u", max_keys_per_user=3).elements == 5  # a user counts once in a key
    bounded = count_frequencies(table, "k", user="u", max_keys_per_user=1)
    assert (bounded.elements, bounded.total) in {(3, 1), (3, 2)}
    with refused("to protect users"):
        count_frequencies(table, "k", user="u")
    with refused("needs keys"):
        count_frequencies([])


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


def test_quick_looks_at_some_of_many_frequencies() -> None:
    many = Frequencies.of(np.exp(np.random.default_rng(1).normal(5, 2, 20_000)).clip(1).astype(np.int64))
    assert len(many.values) > 2 * len(many.thinned[0])
    for setting in (Setting(Privacy("0.2", "1e-6")), Setting(Privacy(1, "1e-8"), Ppswor("0.001"))):
        slow, quick = (forecast(many, setting, quick=quick) for quick in (False, True))
        assert (quick.pws.keys, quick.pws.share_of_elements) == (slow.pws.keys, slow.pws.share_of_elements)
        for one, other in zip(quick.methods[1:], slow.methods[1:], strict=True):
            assert one.detection_threshold == other.detection_threshold
            for name in ("keys", "share_of_elements", "nrmse", "selection_nrmse"):
                assert getattr(one, name) == pytest.approx(getattr(other, name), rel=0.002)


def test_thinned_frequencies_have_as_many_keys_and_elements() -> None:
    for values in (range(1, 5000), [1, *range(10**6, 10**6 + 3000), 2**62], range(7, 2**40, 2**28)):
        made = Frequencies.of(list(values))
        i, keys = made.thinned
        assert len(i) < min(len(made.values), 5000)
        assert (np.diff(i) > 0).all()
        assert keys.sum() == pytest.approx(made.total, rel=1e-12)
        assert keys @ i == pytest.approx(made.elements, rel=1e-12)
        assert (i[0], i[-1]) == (made.values[0], made.values[-1])
    few = Frequencies.zipf(1, 1000)
    assert few.thinned[0] is few.values


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
    with refused("either a scheme"):
        Setting(privacy, Ppswor(1), SampleSize(30))


def test_weights_of_a_sample_size() -> None:
    size = SampleSize(10, power="0.5", cap=9)
    sampling = planned_sampling(Setting(Privacy(1, "1e-8"), size=size), Frequencies.of({1: 3, 4: 2, 100: 5}))
    assert isinstance(sampling, Ppswor)
    assert sampling.tau == pytest.approx(Fraction(10, 3 * 1 + 2 * 2 + 5 * 3), rel=1e-5)  # six figures, rounded down


def test_a_grid_and_its_default_delta() -> None:
    made = list(settings(["0.1", 1], ["1e-6", "1e-8"], [KeepAll(), SampleSize(5)], [None, 3]))
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


# goals


def three_figures_below(epsilon: Fraction) -> Decimal:
    number = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
    step = Decimal(1).scaleb(number.adjusted() - 2)
    below = number - step
    return below if below.adjusted() == number.adjusted() else number - step / 10


@pytest.mark.parametrize("goal", ["keys>=50", "keys >= 99.5", "elements>=0.5"])
def test_the_smallest_epsilon_for_coverage(goal: str) -> None:
    """By the recurrence in 120 digits: it reaches the goal, and the next smaller epsilon does not."""
    what, bound = goal.replace(" ", "").split(">=")
    found = smallest_epsilon(PUBLIC, Setting(Privacy(1, "1e-5")), goal)
    epsilon = found.setting.privacy.epsilon

    def value(e: Fraction | Decimal) -> Decimal:
        pi = true_pi(KeepAll(), Privacy(e, "1e-5"), 300)
        pairs = list(zip(PUBLIC.values.tolist(), PUBLIC.keys.tolist(), strict=True))
        if what == "keys":
            return sum((n * pi[i] for i, n in pairs), Decimal(0))
        return sum((n * i * pi[i] for i, n in pairs), Decimal(0)) / PUBLIC.elements

    assert value(epsilon) >= Decimal(bound) > value(three_figures_below(epsilon))


@pytest.mark.parametrize(("goal", "name"), [("nrmse<=0.3", "nrmse"), ("selection<=0.4", "selection_nrmse")])
def test_the_smallest_epsilon_for_an_error(goal: str, name: str) -> None:
    setting = Setting(Privacy(1, "1e-6"))
    told: list[tuple[str, int, int | None]] = []
    found = smallest_epsilon(ZIPF, setting, goal, 0.2, lambda *event: told.append(event))
    assert told == [("trying epsilons", n, None) for n in range(1, len(told) + 1)]
    assert len(told) < 25
    bound = float(goal.split("<=")[1])
    assert getattr(found.pws, name) <= bound
    below = Setting(Privacy(three_figures_below(found.setting.privacy.epsilon), "1e-6"))
    assert getattr(forecast(ZIPF, below, 0.2, baselines=False).pws, name) > bound


@pytest.mark.parametrize(
    "goal",
    [
        "",
        "keys",
        "keys<=5",
        "nrmse>=0.1",
        "keys>=nan",
        "keys>=-1",
        "keys>=0",
        "elements>=1.1",
        "users>=5",
        "keys>=1e400",
    ],
)
def test_goals_that_are_none(goal: str) -> None:
    with refused(""):
        Goal.of(goal)


def test_goals_out_of_reach_are_refused_and_private_data_stay_so() -> None:
    setting = Setting(Privacy(1, "1e-6"), Priority("0.001"))
    with refused("within reach") as info:
        smallest_epsilon(PUBLIC, setting, "keys>=602")
    # 0.001 for each of 1,790 elements; those that are alone in their key may show with probability delta only
    assert "1.79 at the best" in str(info.value)
    secret = Frequencies.of({31337: 7})
    with refused("within reach", hidden=["31337", "7"]):
        smallest_epsilon(secret, Setting(Privacy(1, "1e-6")), "keys>=8")
    assert smallest_epsilon(secret, Setting(Privacy(1, "1e-6")), "keys>=1").private


def test_what_shows_itself_shows_nothing_private() -> None:
    for frequencies, told in ((Frequencies.of({31337: 7}), "NOT private"), (PUBLIC, "of 602 keys")):
        found: Forecast = forecast(frequencies, Setting(Privacy(1, "1e-6")), errors=False)
        assert told in repr(found)
        assert "31337" not in repr(found)
        assert found.to_json()["private_input"] is frequencies.private
        json.dumps(found.to_json())
    for share in (0, 1.5, math.nan, True):
        with refused("a share of the keys"):
            forecast(PUBLIC, Setting(Privacy(1, "1e-6")), share)


# a cut, a recommendation, an earlier release


def test_shares_are_relative_to_the_data_before_a_cut() -> None:
    """The sums of exact probabilities, over what all users had; what any method could report follows from it too."""
    cut = Frequencies.of({1: 100, 20: 30, 60: 10})
    uncut = Frequencies.of({2: 100, 25: 30, 90: 12})
    privacy = Privacy(1, "1e-6")
    made = forecast(replace(cut, uncut=uncut), Setting(privacy))
    pi = true_pi(KeepAll(), privacy, 100)
    reported = 100 * pi[1] + 30 * 20 * pi[20] + 10 * 60 * pi[60]
    assert made.pws.share_of_elements == pytest.approx(float(reported) / (200 + 750 + 1080), rel=1e-11)
    keys = float(100 * pi[1] + 30 * pi[20] + 10 * pi[60])
    assert made.pws.keys == pytest.approx(keys, rel=1e-11)
    assert made.pws.share_of_keys == pytest.approx(keys / 142, rel=1e-11)
    assert made.possible == pytest.approx(float(100 * pi[2] + 30 * pi[25] + 12 * pi[90]), rel=1e-11)
    shown = made.to_json()
    assert (shown["elements"], shown["uncut_elements"], shown["uncut_keys"]) == (1300, 2030, 142)
    without = forecast(cut, Setting(privacy))
    ratio = 142 / 140
    for one, other in zip(made.methods, without.methods, strict=True):  # of baselines too
        assert one.share_of_keys * ratio == pytest.approx(other.share_of_keys)


def test_what_a_cut_takes_away_is_an_error() -> None:
    """Keys that are surely reported have no other one: N of 50 keys are selected, each of which lost 1,000."""
    cut = replace(Frequencies.of({4000: 50}), uncut=Frequencies.of({5000: 50}))
    pws = forecast(cut, Setting(Privacy(1, "1e-6")), share=0.2, baselines=False).pws
    assert pws.nrmse == pytest.approx(0.2, rel=1e-3)
    square = sum(math.comb(50, n) * 0.2**n * 0.8 ** (50 - n) * (1000 * n) ** 2 for n in range(51))
    assert pws.selection_nrmse == pytest.approx(math.sqrt(square) / (0.2 * 250_000), rel=1e-3)


@dataclass(frozen=True)
class Made:
    """A forecast, as a recommendation sees it."""

    setting: Setting
    covered: float


def test_what_is_recommended_spends_least_of_what_covers_enough() -> None:
    def made(epsilon: str, covered: float, delta: str = "1e-6", bound: int | None = None) -> Made:
        return Made(Setting(Privacy(epsilon, delta), max_keys_per_user=bound), covered)

    grid = [made("0.1", 0.5), made("0.5", 0.71), made("1", 0.73), made("2", 0.8)]
    assert recommended(grid) is grid[2]  # 0.72 is 90 % of the best
    assert recommended([*grid, made("1", 0.75)]).covered == 0.75
    assert recommended([*grid, made("1", 0.725, "1e-7")]).covered == 0.725
    assert recommended(grid, Goal.of("keys>=5")) is grid[0]
    assert recommended([made("0.1", 0), made("1", 0)]).setting.privacy.epsilon == Fraction(1, 10)
    bounds = [made("1", 0.449, bound=5), made("1", 0.508, bound=10), made("1", 0.503, bound=20)]
    assert recommended(bounds) is bounds[1]


@pytest.mark.chance("odds 2e-8: three of 5,000 single elements show, at delta 1e-6; else seven standard deviations")
@pytest.mark.parametrize(
    ("sampling", "keys", "elements"), [(KeepAll(), 3, 600), (Priority("0.0101"), 120, 7200)], ids=str
)
def test_a_plan_from_an_earlier_release(sampling: Sampling, keys: int, elements: int, tmp_path: Path) -> None:
    """400 keys of frequency 60 and 20 of 1,000 are above the threshold; 5,000 of 1 are below it, and left out.

    Priority samples 60 with probability 0.6: without a division by it there would be 160 keys less.
    """
    data = {f"{i} {n}": i for i, number in ((1, 5000), (60, 400), (1000, 20)) for n in range(number)}
    privacy = Privacy(1, "1e-6")
    release = dpsample.release(data, privacy=privacy, sampling=sampling)
    found, pi = estimated_frequencies(release), true_pi(sampling, privacy, 99)
    assert (found.private, found.known_from) == (False, next(i for i in range(99) if pi[i] >= Decimal("0.5")))
    assert abs(found.total - 420) <= keys
    assert abs(found.elements - 44_000) <= elements
    assert int(found.values.min()) >= found.known_from
    release.write(tmp_path / "r.parquet")
    lines = run("--release", str(tmp_path / "r.parquet"), "-e", "0.5,1").splitlines()
    assert f"Note: keys below frequency {found.known_from} are unknown: all numbers leave them out." in lines
    assert lines[0].startswith("delta 1e-06, for each element")  # that of the release
    assert not any("NOT PRIVATE" in line for line in lines)


@pytest.mark.chance("certain: no key is reported, or none has a token")
def test_releases_that_say_nothing_of_frequencies_are_refused() -> None:
    with refused("a plan needs the tokens"):
        estimated_frequencies(dpsample.release({"a": 5000}, privacy=(1, "1e-6"), keys_only=True))
    with refused("a plan needs keys"):
        estimated_frequencies(dpsample.release({}, privacy=(1, "1e-6")))


# the command


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    """300 users on each of 20 pages, and a page of each user's own, with a secret in its name."""
    who = [u for u in range(300) for _ in range(21)]
    pages = [f"page {p}" if p < 20 else f"secret-{u}" for u in range(300) for p in range(21)]
    pq.write_table(pa.table({"who": who, "page": pages}), tmp_path / "clicks.parquet")
    return tmp_path


def run(*arguments: str) -> str:
    done = CliRunner().invoke(cli, ["plan", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_plan_without_data() -> None:
    lines = run("--zipf", "1", "--keys", "1000", "-e", "0.5,1", "-e", "1", "-d", "1e-6").splitlines()
    assert "private" not in lines[0]
    assert [line.split()[0] for line in lines if " PWS " in line and line.startswith(" ")] == ["0.5", "1"]
    assert lines[-1] == "Next: dpsample release EVENTS --key KEY --epsilon 1 --delta 1e-06 -o OUTPUT.private.parquet"
    assert max(map(len, lines)) <= 120
    assert max(len(line) for line in lines if line.startswith(" ")) <= 100
    for column in ("of elements", "threshold", "total +-", "selection +-", "sample and threshold"):
        assert any(line.startswith(column) for line in lines)


def test_a_plan_as_json_is_what_the_library_says() -> None:
    told = json.loads(
        run("--zipf", "1", "--keys", "1000", "-e", "1", "-d", "1e-6", "--share", "0.2", "--format", "json")
    )
    assert "NOT private" not in told
    expected = forecast(Frequencies.zipf(1, 1000), Setting(Privacy(1, "1e-6")), 0.2).to_json()
    assert told["forecasts"] == [json.loads(json.dumps(expected))]


def test_a_plan_of_data_says_loudly_that_it_is_not_private(clicks: Path) -> None:
    source = [str(clicks / "clicks.parquet"), "--key", "page"]
    lines = run(*source, "--epsilon", "1").splitlines()
    assert lines[0] == lines[-1]
    assert lines[0].startswith("NOT PRIVATE")
    assert "secret" not in "".join(lines)
    assert any("delta was chosen by the number of elements" in line for line in lines)
    assert "delta 1e-05, for each element" in lines[2]  # 6,300 elements
    told = json.loads(run(*source, "--epsilon", "1", "--format", "json"))
    assert next(iter(told)) == "NOT private"
    assert told["forecasts"][0]["private_input"] is True
    pages = next(m for m in told["forecasts"][0]["methods"] if m["method"] == "PWS")
    assert pages["keys"] == pytest.approx(20 + 300 * 1e-5, rel=1e-6)  # a single element shows with probability delta


@pytest.mark.chance("certain: a release's terms do not depend on what is drawn")
def test_the_suggested_command_runs_and_does_what_was_planned(clicks: Path) -> None:
    users = ["--user", "who", "--max-keys-per-user", "21", "--delta", "1e-7", "--goal", "keys>=20"]
    scheme = ["--scheme", "priority", "--sample-size", "6000", "--with-total"]
    told = json.loads(run(str(clicks / "clicks.parquet"), "-k", "page", *users, *scheme, "--format", "json"))
    [planned] = told["forecasts"]
    words = shlex.split(told["release"])
    assert words[:2] == ["dpsample", "release"]
    made = str(clicks / "made.parquet")
    words[words.index("OUTPUT.private.parquet")] = made
    done = support.run(*words[1:], cwd=clicks)
    assert (done.returncode, done.stderr) == (0, "")
    release = dpsample.read_release(made)
    assert release.privacy.to_json() == {"epsilon": planned["epsilon"], "delta": planned["delta"]}
    assert release.per_key.to_json() == planned["per_key"]
    assert (release.unit, release.total is not None) == ("user", True)


@pytest.mark.chance("certain: numbers of kept keys do not depend on which")
def test_a_plan_for_users_has_a_table_for_each_limit(clicks: Path) -> None:
    told = run(str(clicks / "clicks.parquet"), "-k", "page", "--user", "who", "--max-keys-per-user", "3,21", "-e", "1")
    assert "up to 3 keys" in told
    assert "up to 21 keys" in told
    assert "320 keys with 6,300 elements" in told
    assert "with 900 elements" in told


def test_a_histogram_is_as_private_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "h.csv").write_text("frequency,keys\n3,600\n100,20\n")
    lines = run(
        "--histogram", str(tmp_path / "h.csv"), "-e", "1", "--scheme", "ppswor", "--tau", "0.1,0.01"
    ).splitlines()
    assert "If the histogram comes from private data" in lines[0]
    assert lines[0] == lines[-1]
    assert sum("ppswor with tau" in line for line in lines) == 2
    assert any(line.lstrip().startswith("not private") for line in lines)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--zipf", "1"],
        ["--zipf", "nan", "--keys", "5"],
        ["--zipf", "1", "--keys", "5", "--histogram", "h.csv"],
        ["--zipf", "1", "--keys", "5", "--key", "page"],
        ["--histogram", "h.csv", "--keys", "5"],
        ["--histogram", "missing.csv"],
        ["clicks.parquet"],
        ["clicks.parquet", "--key", "nothing"],
        ["clicks.parquet", "--key", "page", "--max-keys-per-user", "5"],
        ["clicks.parquet", "--key", "page", "--goal", "keys>=400"],
        ["clicks.parquet", "--key", "page", "--goal", "keys>=4", "-e", "1"],
        ["--zipf", "1", "--keys", "5", "-e", "1,x"],
        ["--zipf", "1", "--keys", "5", "-e", "1,"],
        ["--zipf", "1", "--keys", "5", "-d", "0"],
        ["--zipf", "1", "--keys", "5", "--tau", "0.1"],
        ["--zipf", "1", "--keys", "5", "--scheme", "ppswor"],
        ["--zipf", "1", "--keys", "5", "--scheme", "ppswor", "--sample-size", "x"],
        ["--zipf", "1", "--keys", "5", "--share", "2"],
        ["--zipf", "1", "--keys", "5", "--goal", "wealth>=1"],
    ],
    ids=" ".join,
)
@pytest.mark.chance("certain: plans are refused before anything is drawn")
def test_bad_plans_are_one_line_and_exit_code_2(arguments: list[str], clicks: Path) -> None:
    done = support.run("plan", *arguments, cwd=clicks)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip()
    for hidden in ("Traceback", "secret", *(["300", "320", "6300", "6,300"] if "clicks.parquet" in arguments else [])):
        assert hidden not in done.stderr
