"""Sums, means and groups against plain sums of token values."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsample
from brute_force import CELLS, GRID, PRIVACY, release_of
from dpsample import KeepAll, Privacy, Release
from dpsample.answers import token_sums
from dpsample.estimators.calibration import Calibration
from dpsample.estimators.deviations import Deviations
from dpsample.estimators.estimate import Estimate
from dpsample.estimators.intervals import SumEstimate
from dpsample.estimators.measures import Measure
from dpsample.estimators.sum_functionals import sum_functionals
from dpsample.estimators.tally import Tally
from dpsample.scheme import frequency_reaching
from dpsample.scheme.scheme import Scheme
from stated_terms import stated_terms
from support import refused


def linear(tallies: list[Tally], *terms: Any) -> list[Estimate]:
    """An estimator that is known: each key's share is g of its token, and the number of keys has no error."""
    of, _, level, least = terms[1:]
    values = [float(tally.weights @ of.from_frequency(least)(tally.cells)) for tally in tallies]
    return [Estimate(v, 1.0, v, v, level, keys=t.total, at_least=least) for v, t in zip(values, tallies, strict=True)]


class Squared(Deviations):
    """Its error, with a standard error of a tenth of each deviation from the mean."""

    def __init__(self, tallies: list[Tally], *terms: Any) -> None:
        self.tallies, (self.summed, self.counted) = tallies, terms[1:]

    def at(self, means: Any) -> list[SumEstimate]:
        deviations = [
            self.summed(t.cells) - v * self.counted(t.cells) for t, v in zip(self.tallies, means, strict=True)
        ]
        return [
            SumEstimate(float(t.weights @ d), math.sqrt(float(t.squares @ d**2)) / 10)
            for t, d in zip(self.tallies, deviations, strict=True)
        ]


@pytest.mark.parametrize("first", [1.0, -2.0, -4.0])
def test_the_error_of_a_mean_is_that_of_a_ratio(first: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_sums, "estimates", linear)
    monkeypatch.setattr(token_sums, "Deviations", Squared)
    weights = {"a": first, "b": 2.0, "c": 0.5, "d": 3.0, "e": 1.0}
    answer = release_of(CELLS).mean(weight=weights, at_least=10, of="power:2")
    chosen = [name for name in CELLS if CELLS[name] >= 10]
    total = sum(weights[name] for name in chosen)
    mean = sum(weights[name] * CELLS[name] ** 2 for name in chosen) / total
    error = math.hypot(*(weights[name] * (CELLS[name] ** 2 - mean) for name in chosen)) / total / 10
    assert answer.value == pytest.approx(mean)
    assert answer.standard_error == pytest.approx(error)
    # Fieller: at an end, the deviations from it add up to 1.96 of their standard errors
    for end, sign in ((answer.low, 1), (answer.high, -1)):
        if 0 < end < math.inf:
            parts = [weights[name] * (CELLS[name] ** 2 - end) for name in chosen]
            assert sum(parts) * sign == pytest.approx(0.1959964 * math.hypot(*parts), rel=1e-6)
    assert first < 0 or 0 < answer.low < mean < answer.high


def test_the_variance_of_deviations_is_that_of_their_token_values() -> None:
    """Of S - v N by exact laws: the variance at each frequency, summed over keys that are all of one frequency.

    Far above the threshold token values are S(token) - v N(token), and the variance of a key's is known exactly.
    """
    scheme = Calibration.of(Scheme(KeepAll(), PRIVACY, GRID))
    keys, summed = Measure.of("keys").from_frequency(8), Measure.of("frequency").from_frequency(8)
    law = next(iter(scheme.laws_beyond(np.array([60]))))
    keys_ = np.rint(law.probabilities * 1e6).astype(np.int64)
    tally = Tally(law.cells, keys_, *[keys_.astype(float)] * 2)
    [found] = Deviations([tally], Scheme(KeepAll(), PRIVACY, GRID), summed, keys).at(np.array([35.0]))
    mean = law.probabilities @ law.cells
    variance = law.probabilities @ (law.cells - mean) ** 2 / GRID**2
    assert found.above == pytest.approx((60 - 35) * 1e6, rel=1e-3)
    assert found.standard_error**2 == pytest.approx(variance * 1e6, rel=0.02)


def test_groups_add_up_to_the_whole() -> None:
    """Their token values are the same. Alone, each has values for fewer keys: they differ by less than an interval."""
    release = release_of({n: 30 + n % 17 + n % 5 for n in range(400)})
    answer = release.sum(by="key % 7", weight="1 + key % 3")
    assert len(answer) == 7
    assert sum(answer.numbers["value"].to_pylist()) == pytest.approx(release.sum(weight="1 + key % 3").value, rel=1e-12)
    for group, estimate in answer:
        alone = release.sum(f"key % 7 = {group}", "1 + key % 3")
        assert alone.low <= estimate.value <= alone.high
        assert answer[group] == estimate


def test_each_group_is_answered_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_sums, "estimates", linear)
    release = release_of(dict.fromkeys(range(1830), 40))  # group g has g + 1 keys
    answer = release.sum(by="floor((sqrt(8 * key + 1) - 1) / 2)::INTEGER")
    assert answer.numbers["keys"].to_pylist() == list(range(1, 61))
    assert answer.numbers["value"].to_pylist() == [40.0 * n for n in range(1, 61)]


def test_groups_share_what_does_not_depend_on_them() -> None:
    """The token values of sum and number, and of their variances, are computed once for all groups."""
    release = release_of({n: 30 + n % 17 + n % 5 for n in range(400)}, privacy=Privacy("0.83", "0.01"))
    start = sum_functionals.cache_info().misses
    answers = release.mean(by="key % 8", of=np.sqrt)
    assert len(set(answers.numbers["value"].to_pylist())) == 8
    assert sum_functionals.cache_info().misses - start == 2


def test_what_is_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_sums, "estimates", linear)
    release = release_of(CELLS)
    least = frequency_reaching(0.5, KeepAll(), PRIVACY) or 0
    assert release.sum().at_least == least + 2  # a little above the threshold
    assert release.sum().value == sum(cell for cell in CELLS.values() if cell >= least + 2)
    assert release.sum(at_least=1).value == sum(CELLS.values())
    assert release.sum(of="keys").value == release.count_keys().value == 4
    assert release.count_keys(at_least=19).value == release.sum(of="at-least:19").value == 3
    assert release.count_keys("key > 'b'", at_least=4).value == 2
    assert release.count_keys(weight={"a": 2.5}).value == 2.5
    assert release.sum(["a", "e"], {"a": 2.0, "b": 5.0}, "capped:20").value == 40
    assert release.sum(of=np.sqrt, where="key >= 'a' AND key < 'b'").value == pytest.approx(math.sqrt(24))
    assert release.sum(of=Measure.of("frequency"), by=["key > 'c'", "left(key, 0)"])[False, ""].value == 24 + 19 + 19


@pytest.mark.chance("odds 1e-9: tokens err by at most 28, so the mean of 2,000 by 4")
def test_a_whole_release() -> None:
    """2,000 frequencies from 100 to 300: tokens err by at most 28, so their mean by 4 with odds below 1e-9."""
    frequencies = {f"k{n:04}": 100 + (n * 7919) % 201 for n in range(2000)}
    release = dpsample.release(frequencies, privacy=Privacy(1, "1e-6"))
    truth = sum(frequencies.values())
    for estimator in (None, "mle"):
        answer = release.sum(estimator=estimator)
        assert answer.value == pytest.approx(truth, rel=0.02)
        assert (answer.keys, answer.detection_threshold, answer.level) == (2000, 14, 0.95)
    assert release.count_keys().value == pytest.approx(2000, rel=0.01)
    assert release.mean().value == pytest.approx(truth / 2000, rel=0.02)
    assert release.quantiles([0.5])[0.5].value == pytest.approx(200, abs=12)
    assert release.rank("k0000").value > 1800  # of frequency 100
    assert release.compare(max(frequencies, key=lambda k: frequencies[k]), "k0000") > 0.999
    again = dpsample.Release(release.table, release.terms)
    assert again.top(7).to_arrow() == release.top(7).to_arrow()


def test_keys_only() -> None:
    table = pa.table({"key": ["a", "b", "c"]})
    release = Release(table, stated_terms(PRIVACY, KeepAll(), ("key",), keys_only=True))
    answer = release.count_keys("key > 'a'")
    assert (answer.value, answer.low, answer.high, answer.guaranteed) == (2, 2, math.inf, False)
    assert math.isnan(answer.standard_error)
    assert "keys only" in answer.notes[0]
    assert release.sum(of="at-least:1").value == 3  # that is 1 for each key
    assert release.count_keys(by="key")["b"].value == 1
    weighted = release.count_keys(weight={"a": 2.0, "b": -3.0})
    assert (weighted.value, weighted.low) == (-1, -math.inf)
    for ask in (
        lambda: release.sum(),
        lambda: release.sum(of=Measure.of(np.sqrt)),
        lambda: release.count_keys(at_least=3),
        lambda: release.mean(),
        lambda: release.quantiles([0.5]),
        lambda: release.top(1),
        lambda: release.rank("a"),
        lambda: release.compare("a", "b"),
    ):
        with refused("needs tokens"):
            ask()


def test_nothing_selected() -> None:
    for release, where in (
        (release_of(CELLS), "false"),
        (Release(release_of(CELLS).table.slice(0, 0), release_of(CELLS).terms), None),
    ):
        for answer in (release.sum(where), release.count_keys(where)):
            assert (answer.value, answer.keys, answer.low) == (0, 0, 0)
            assert answer.high < math.inf
        assert math.isnan(release.mean(where).value)
        assert len(release.top(3, where)) == 0
        assert release.top(3, where).to_arrow().column_names[:2] == ["key", "value"]
        assert len(release.sum(where, by="key")) == 0
        [(_, median)] = release.quantiles([0.5], where)
        assert math.isnan(median.value)
        assert not median.guaranteed
        assert len(release.quantiles([], where)) == 0
        if len(release):
            with refused("the key "):
                release.rank("a", where)
