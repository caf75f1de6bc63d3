"""Sums from bounded noise: biases that cancel out, by the law of the noise itself, and answers with a bound."""

import importlib
import math
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpsample import KeepAll, Privacy, Release
from dpsample.accounting.budget import Budget
from dpsample.estimators import Tally
from dpsample.estimators.calibrated import estimate_sum
from dpsample.estimators.calibration import Calibration, calibration_for
from dpsample.estimators.estimate import least_frequency
from dpsample.estimators.functional import Functional
from dpsample.estimators.measures import Measure
from dpsample.estimators.sum_functionals import sum_functionals
from dpsample.estimators.tuning import TUNING
from dpsample.private.tokens import terms_of
from dpsample.scheme import frequency_reaching
from dpsample.scheme.noise import KeyNoise
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.scheme import Scheme
from places import ROOT

BOUNDS = [("1", 3), ("1", 10), ("1", 30), ("4", 10)]
LAST = 3000  # frequencies
FREQUENCIES: Ints = np.arange(1, LAST + 1, dtype=np.int64)


def noise_of(epsilon: str, keys: int) -> KeyNoise:
    noise = Budget(Privacy(epsilon, "1e-6"), keys).per_key
    assert isinstance(noise, KeyNoise)
    return noise


def deviation(noise: KeyNoise) -> float:
    z = np.arange(noise.cells)
    return math.sqrt(float(noise.probabilities @ z**2) - float(noise.probabilities @ z) ** 2)


def sum_of(noise: KeyNoise, of: str) -> tuple[Functional, int]:
    """The values of tokens for a sum over keys from the default least frequency on, and this frequency."""
    least = least_frequency(Scheme(KeepAll(), noise), each_key_alike=True)
    measure = Measure.of(of).from_frequency(least)
    scheme = calibration_for(measure, Calibration.of(Scheme(KeepAll(), noise, 1)))
    assert scheme.balanced
    return sum_functionals(scheme, measure, 1000, 1 << 14).total, least


def biases(noise: KeyNoise, total: Functional) -> tuple[Floats, Floats]:
    """The bias of one key at each frequency, and pi: a token is i - z, or 1 if that is within the offset below 1."""
    values = np.append(0.0, total.values(FREQUENCIES))
    bias, pi = np.zeros((2, LAST))
    for n, i in enumerate(FREQUENCIES.tolist()):
        difference = i - np.arange(noise.cells)
        reported = difference >= 1 - noise.offset
        tokens = np.maximum(difference[reported], 1)
        bias[n] = noise.probabilities[reported] @ values[tokens] - total.function(np.array([i]))[0]
        pi[n] = noise.probabilities[reported].sum()
    return bias, pi


@pytest.fixture(scope="module")
def shapes() -> dict[str, Any]:
    folder = str(ROOT / "benchmarks")
    sys.path.insert(0, folder)
    try:
        return {"of": importlib.import_module("answer_coverage").shapes}
    finally:
        sys.path.remove(folder)


@pytest.mark.parametrize("of", ["frequency", "keys"])
@pytest.mark.parametrize(("epsilon", "keys"), BOUNDS)
def test_biases_cancel_out_over_keys_by_zipfs_law(epsilon: str, keys: int, of: str) -> None:
    """Numbers of keys that fall as the square of the frequency; far above, values are not corrected."""
    noise = noise_of(epsilon, keys)
    total, least = sum_of(noise, of)
    bias, _ = biases(noise, total)
    numbers = 1 / FREQUENCIES[: 3 * least] ** 2
    whole = float(numbers @ total.function(FREQUENCIES[: 3 * least]))
    # a table of every second frequency is interpolated
    assert abs(float(numbers @ bias[: 3 * least])) < (1e-3 if total.calibration.spacing == 1 else 1e-2) * whole
    assert float(numbers @ np.abs(bias[: 3 * least])) > 0.1 * whole  # there is something to cancel out


@pytest.mark.parametrize("of", ["frequency", "keys"])
@pytest.mark.parametrize(("epsilon", "keys"), BOUNDS)
def test_rare_keys_that_are_reported_add_little(epsilon: str, keys: int, of: str) -> None:
    """On average over the tokens of a key that is rarer than the threshold by two deviations of the noise."""
    noise = noise_of(epsilon, keys)
    total, least = sum_of(noise, of)
    bias, pi = biases(noise, total)
    threshold = frequency_reaching(0.5, KeepAll(), noise)
    assert threshold is not None
    rare = max(round(threshold - 2 * deviation(noise)), 1)
    one = float(total.function(np.array([least]))[0])
    assert np.abs(bias[:rare] / pi[:rare]).max() < 0.25 * one


@pytest.mark.parametrize("of", ["frequency", "keys"])
@pytest.mark.parametrize(("epsilon", "keys"), BOUNDS)
def test_intervals_have_room_for_what_does_not_cancel_out(
    epsilon: str, keys: int, of: str, shapes: dict[str, Any]
) -> None:
    """In nine shapes of data: all that is not noise is within the bias that the interval allows for."""
    noise = noise_of(epsilon, keys)
    total, _ = sum_of(noise, of)
    bias, _ = biases(noise, total)
    threshold = frequency_reaching(0.5, KeepAll(), noise)
    assert threshold is not None
    for name, frequencies in shapes["of"](threshold / 14).items():
        numbers = np.bincount(np.minimum(frequencies, LAST + 1), minlength=LAST + 2)[1:-1]
        share = np.where(threshold > FREQUENCIES, 1.0, TUNING.unbalanced_share)
        room = float(numbers @ (share * np.abs(bias)))
        room += 1e-9 * float(numbers @ total.function(FREQUENCIES))  # rounding
        room += math.sqrt(TUNING.unbalanced_variance * float(numbers @ bias**2))
        assert abs(float(numbers @ bias)) < room, name


def test_the_allowance_of_an_estimate_is_that_of_its_keys() -> None:
    """Keys of which each token comes as often as it is drawn: the sum over them is the mean over releases."""
    noise = noise_of("1", 10)
    total, least = sum_of(noise, "keys")
    bias, _ = biases(noise, total)
    numbers = np.rint(1e7 / FREQUENCIES[:LAST] ** 2).astype(np.int64)
    expected = np.zeros(LAST + 1)
    for i, number in zip(FREQUENCIES.tolist(), numbers.tolist(), strict=True):
        difference = i - np.arange(noise.cells)
        reported = difference >= 1 - noise.offset
        np.add.at(expected, np.maximum(difference[reported], 1), number * noise.probabilities[reported])
    cells = np.flatnonzero(np.rint(expected))
    tally = Tally.of(np.repeat(cells, np.rint(expected[cells]).astype(np.int64)))
    found = estimate_sum(tally, Scheme(KeepAll(), noise, 1), Measure.of(f"at-least:{least}"))
    truth = int(numbers[least - 1 :].sum())
    assert found.above == pytest.approx(truth, rel=0.01)
    threshold = frequency_reaching(0.5, KeepAll(), noise)
    assert threshold is not None
    share = np.where(threshold > FREQUENCIES, 1.0, TUNING.unbalanced_share)
    assert found.bias_allowance == pytest.approx(float(numbers @ (share * np.abs(bias))), rel=0.2)
    assert found.extrapolated == 0


def test_answers_with_a_bound_are_guaranteed() -> None:
    """Whatever the tokens are: nothing is extrapolated."""
    terms = terms_of(Budget(Privacy(1, "1e-6"), 10), KeepAll(), ["key"])
    tokens = np.random.default_rng(2).integers(1, 400, 500).astype(float)
    release = Release(pa.table({"key": np.arange(500), "token": tokens}), terms)
    assert isinstance(release.per_key, KeyNoise)
    least = 63 + math.ceil(2.83 / math.sqrt(2) * deviation(release.per_key))  # two deviations, and a little
    for answer in (release.sum(), release.count_keys(), release.mean(), *(a for _, a in release.quantiles([0.5]))):
        assert answer.guaranteed
        assert answer.at_least == least
    assert release.sum(at_least=64).guaranteed
    assert not release.sum(at_least=20).guaranteed


@pytest.mark.parametrize(("epsilon", "delta", "keys"), [("1", "0.01", 3), ("4", "0.01", 5), ("8", "0.01", 5)])
def test_rare_frequencies_may_be_one(epsilon: str, delta: str, keys: int) -> None:
    """Where the threshold is within three deviations of 1, rare frequencies are next to each other, or the same."""
    noise = Budget(Privacy(epsilon, delta), keys).per_key
    assert isinstance(noise, KeyNoise)
    threshold = frequency_reaching(0.5, KeepAll(), noise)
    assert threshold is not None
    assert threshold - 3 * deviation(noise) < 1
    total, least = sum_of(noise, "frequency")
    assert np.abs(total.table_values[:least]).max() < 5 * least
