"""Answers against brute force: all frequencies that keys may have, one combination after the other."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsample
import oracles
from dpsample import CustomSampling, KeepAll, Priority, Privacy, Release, Sampling
from dpsample.accounting.totals import Total
from dpsample.estimators.calibration import Calibration
from dpsample.estimators.deviations import Deviations
from dpsample.estimators.estimate import Below, Estimate
from dpsample.estimators.intervals import SumEstimate
from dpsample.estimators.measures import Measure
from dpsample.estimators.spectrum import Spectrum, spectrum
from dpsample.estimators.sum_functionals import sum_functionals
from dpsample.estimators.tally import Tally
from dpsample.questions import quantiles, ranking, sums
from dpsample.release.terms import Terms
from dpsample.scheme import frequency_reaching
from dpsample.scheme.scheme import Scheme
from support import refused

PRIVACY = Privacy("0.8", "0.01")
GRID = 2
SUPPORT = [6, 9, 12, 14, 17, 20]
SHARES = [0.1, 0.3, 0.2, 0.2, 0.15, 0.05]  # of the frequencies, before anything is reported


@cache
def laws(sampling: Sampling) -> list[dict[int, float]]:
    """For each frequency, token -> probability, by the paper's Algorithm 5 in fractions."""
    q = [Fraction(sampling.bounds(i, 128)[0], 1 << 128) for i in range(1, 21)]
    densities = oracles.algorithm_5(q, oracles.exponential(PRIVACY.epsilon, 30), PRIVACY.delta)
    rows = [oracles.cells(density, GRID, i) for i, density in enumerate(densities)]
    return [{cell: float(p) for cell, p in enumerate(row) if cell and p} for row in rows]


def law(cell: int, sampling: Sampling) -> dict[int, float]:
    """Bayes: frequency -> probability, given the token."""
    joint = {i: share * laws(sampling)[i].get(cell, 0.0) for i, share in zip(SUPPORT, SHARES, strict=True)}
    return {i: p / sum(joint.values()) for i, p in joint.items()}


def ends(cell: int, sampling: Sampling, level: float) -> list[int]:
    """The frequencies for which neither so large a token of a reported key, nor so small a one, is too unlikely."""
    held = []
    for i, row in enumerate(laws(sampling)):
        at_least, at_most = (sum(p for c, p in row.items() if side(c)) for side in (cell.__le__, cell.__ge__))
        if row and min(at_least, at_most) >= (1 - level) / 2 * sum(row.values()):
            held.append(i)
    return [min(held), max(held)]


@dataclass
class Known:
    """A prior that is known, so that what follows from it can be computed by hand."""

    sampling: Sampling
    keys: Any
    frequencies: Any = None

    def __post_init__(self) -> None:
        self.frequencies = np.array(SUPPORT if self.frequencies is None else self.frequencies)

    def interval(self, cells: Any, level: float) -> Any:
        return np.array([ends(int(cell), self.sampling, level) for cell in cells]).T

    def posterior(self, cells: Any) -> tuple[Any, Any]:
        rows = [law(int(cell), self.sampling) for cell in cells]
        frequencies = np.array([list(row) for row in rows], np.int64).reshape(-1, len(SUPPORT))
        return frequencies, np.array([list(row.values()) for row in rows]).reshape(-1, len(SUPPORT))


def release_of(cells: dict[Any, int], sampling: Sampling | None = None, privacy: Privacy = PRIVACY) -> Release:
    keys = sorted(cells)
    tokens = [cells[key] / GRID for key in keys]
    table = pa.table({"key": keys, "token": tokens})
    return Release(table, Terms(privacy, sampling or KeepAll(), ("key",), GRID))


SAMPLINGS = [KeepAll(), Priority("0.04"), CustomSampling([Fraction(i, 25) for i in range(1, 21)])]
CELLS = {"a": 24, "b": 19, "c": 19, "d": 12, "e": 3}


@pytest.fixture(params=SAMPLINGS, ids=str)
def sampling(request: pytest.FixtureRequest) -> Any:
    return request.param


def known(monkeypatch: pytest.MonkeyPatch, sampling: Sampling, keys: list[float]) -> None:
    for module in (ranking, quantiles):
        monkeypatch.setattr(module, "spectrum", lambda *_: Known(sampling, np.array(keys)))


def missing(sampling: Sampling, keys: list[float]) -> list[tuple[int, float]]:
    """The number of unreported keys of frequency 14, and its probability: misses until so many were reported."""
    pi = sum(laws(sampling)[14].values())
    r = keys[SUPPORT.index(14)] * pi
    if not r:
        return [(0, 1.0)]
    pmf = [
        math.exp(math.lgamma(n + r) - math.lgamma(r) - math.lgamma(n + 1)) * pi**r * (1 - pi) ** n for n in range(80)
    ]
    assert sum(pmf) > 1 - 1e-9
    return list(enumerate(pmf))


def worlds(sampling: Sampling) -> Iterator[tuple[dict[str, int], float]]:
    """Every combination of frequencies of the reported keys, and its probability."""
    names = list(CELLS)
    options = [law(CELLS[name], sampling).items() for name in names]
    for combination in itertools.product(*options):
        yield dict(zip(names, (i for i, _ in combination), strict=True)), math.prod(p for _, p in combination)


NOBODY = [0.0] * 6
SOME = [0.0, 0.0, 0.0, 4.0, 0.0, 0.0]  # four keys of frequency 14, some of them unreported


@pytest.mark.parametrize("keys", [NOBODY, SOME], ids=["all reported", "some unreported"])
def test_top_and_rank_by_brute_force(sampling: Sampling, keys: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, sampling, keys)
    release = release_of(CELLS, sampling)
    reported: dict[str, dict[tuple[int, bool], float]] = {name: defaultdict(float) for name in CELLS}
    for frequencies, p in worlds(sampling):
        for name, i in frequencies.items():
            reported[name][sum(other > i for other in frequencies.values()), i < 14] += p
    ranks: dict[str, dict[int, float]] = {name: defaultdict(float) for name in CELLS}
    for hidden, share in missing(sampling, keys):  # independent of the reported keys
        for name, numbers in reported.items():
            for (above, rarer), p in numbers.items():
                ranks[name][1 + above + hidden * rarer] += p * share
    means = {name: sum(i * p for i, p in law(cell, sampling).items()) for name, cell in CELLS.items()}
    # the generator is fixed, so these bounds hold always or never; 1,000 draws of a share err by 0.016 at most
    for k in (1, 2, 3, 5, 9):
        best = release.top(k)
        names = best.groups["key"].to_pylist()
        assert names == sorted(CELLS, key=lambda name: (-means[name], name))[:k]
        for name, row in zip(names, best.to_arrow().to_pylist(), strict=True):
            columns = [row.get(CELLS[name], 0.0) for row in laws(sampling)]
            assert row["value"] == np.argmax(columns) if max(columns[:-1]) >= columns[-1] else row["value"] >= 20
            assert row["probability"] == pytest.approx(sum(p for r, p in ranks[name].items() if r <= k), abs=0.02)
    for name in CELLS:
        answer = release.rank(name)
        mean = sum(r * p for r, p in ranks[name].items())
        variance = sum((r - mean) ** 2 * p for r, p in ranks[name].items())
        assert answer.value == pytest.approx(mean, abs=0.15)
        assert answer.standard_error == pytest.approx(math.sqrt(variance), abs=0.15)
        inside = sum(p for r, p in ranks[name].items() if answer.low <= r <= answer.high)
        assert inside > 0.94
        assert sum(p for r, p in ranks[name].items() if answer.low < r < answer.high) < 0.96


def test_the_interval_of_a_key_by_brute_force(sampling: Sampling) -> None:
    answer = spectrum(Tally.of([3, 12]), Scheme(sampling, PRIVACY, GRID))
    for level in (0.5, 0.8, 0.94):  # at 0.95 one of the shares is just the tail
        for cell in (1, 2, 3, 7, 12, 19):
            [low], [high] = answer.interval([cell], level)
            first, last = ends(cell, sampling, level)
            assert low == first
            assert high == last if last < 20 else high >= 20  # the oracle goes no further


def test_intervals_and_comparisons_by_brute_force(sampling: Sampling, monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, sampling, NOBODY)
    release = release_of(CELLS, sampling)
    for level in (0.5, 0.94):  # at 0.95 one of the shares is just the tail
        for name, estimate in release.top(5, level=level):
            each = sorted(law(CELLS[name], sampling).items())
            low, high = ends(CELLS[name], sampling, level)
            assert estimate.low == min(low, estimate.value)
            assert estimate.high == max(high, estimate.value) if high < 20 else estimate.high >= 20  # as far as it goes
            mean = sum(i * p for i, p in each)
            assert estimate.standard_error == pytest.approx(math.sqrt(sum((i - mean) ** 2 * p for i, p in each)))
    for a, b in itertools.permutations(CELLS, 2):
        laws_ = itertools.product(law(CELLS[a], sampling).items(), law(CELLS[b], sampling).items())
        assert release.compare(a, b) == pytest.approx(sum(p * r for (i, p), (j, r) in laws_ if i > j), abs=1e-12)
    assert release.compare("a", "a") == 0


def test_many_keys_of_one_token_are_drawn_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """More keys than frequencies: the number of them above a frequency is binomial."""
    known(monkeypatch, KeepAll(), NOBODY)
    release = release_of({**{f"k{n:02}": 19 for n in range(40)}, "z": 21})
    each, own = law(19, KeepAll()), law(21, KeepAll())
    for k in (1, 5, 10):
        chance = 0.0
        for i, p in own.items():
            above = sum(share for j, share in each.items() if j > i)
            chance += p * sum(math.comb(40, n) * above**n * (1 - above) ** (40 - n) for n in range(k))
        probabilities = {row["key"]: row["probability"] for row in release.top(k).to_arrow().to_pylist()}
        assert probabilities["z"] == pytest.approx(chance, abs=0.03)
    mean = 1 + sum(p * 40 * sum(share for j, share in each.items() if j > i) for i, p in own.items())
    assert release.rank("z").value == pytest.approx(mean, abs=0.3)
    # and among themselves: of k places, one key of 40 alike ones has its share, but for ties
    among = release.rank("k07", where="key <> 'z'")
    ties = sum(p * (1 + 39 * sum(r for j, r in each.items() if j > i)) for i, p in each.items())
    assert among.value == pytest.approx(ties, abs=0.3)


def test_far_from_each_other_all_is_certain() -> None:
    release = release_of({"a": 10**9, "b": 10**6, "c": 10**6 - 2000, "d": 20_000}, privacy=Privacy(1, "1e-6"))
    answer = release.top(2)
    assert answer.groups["key"].to_pylist() == ["a", "b"]
    assert answer.numbers["probability"].to_pylist() == [1, 1]
    assert [release.rank(key).value for key in "abcd"] == [1, 2, 3, 4]
    assert release.rank("c", where="key >= 'b'").value == 2
    assert release.compare("a", "b") == pytest.approx(1)
    assert release.compare("b", "a") == 0


def test_quantiles_by_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [5.0, 40, 30, 20, 4, 1]
    scheme = Calibration.of(Scheme(KeepAll(), PRIVACY, GRID))
    counted_keys = Spectrum(scheme, np.array(SUPPORT), np.array(counts), variance=np.full(6, 10.0))

    def counted(tally: Tally, *terms: Any) -> SumEstimate:
        return SumEstimate(float(counts @ terms[1](SUPPORT)), 1e-9)

    monkeypatch.setattr(quantiles, "spectrum", lambda *_: counted_keys)
    monkeypatch.setattr(quantiles, "estimate_sum", counted)
    least = frequency_reaching(0.5, KeepAll(), PRIVACY)
    assert least == 6
    shares = [0, 0.05, 0.42, 0.5, 0.74, 0.95, 0.99, 1]
    answer = release_of(CELLS).quantiles(shares, at_least=least)
    everyone = [i for i, n in zip(SUPPORT, counts, strict=True) for _ in range(int(n))]
    for share, estimate in answer:
        assert estimate.value == everyone[max(math.ceil(share * len(everyone)) - 1, 0)]
        assert estimate.low <= estimate.value <= estimate.high
        assert estimate.guaranteed
    assert answer[0.5].low < answer[0.5].high  # 45 of 100: the middle may lie either way
    assert f"in keys of frequency {least} or more" in repr(answer)
    assert release_of(CELLS).quantiles(0.01)[0.01].at_least == least + 2  # a little above the threshold
    lower = release_of(CELLS).quantiles(0.01, at_least=5)
    assert lower[0.01].value == 6
    assert release_of(CELLS).quantiles(0.01, at_least=7)[0.01].value == 9
    assert not lower[0.01].guaranteed
    assert "not reported" in " ".join(lower.notes)


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
    monkeypatch.setattr(sums, "estimates", linear)
    monkeypatch.setattr(sums, "Deviations", Squared)
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
    monkeypatch.setattr(sums, "estimates", linear)
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
    monkeypatch.setattr(sums, "estimates", linear)
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
    release = Release(table, Terms(PRIVACY, KeepAll(), ("key",), keys_only=True))
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
        lambda: release.sum(of=Measure("keys", np.sqrt)),
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


@pytest.mark.parametrize(
    ("ask", "rule"),
    [
        (lambda r: r.sum(level=0), "a level"),
        (lambda r: r.sum(level=1), "a level"),
        (lambda r: r.sum(level=math.nan), "a level"),
        (lambda r: r.sum(level="0.9"), "a level"),
        (lambda r: r.sum(level=True), "a level"),
        (lambda r: r.sum(of="nothing"), "what is summed"),
        (lambda r: r.sum(of=lambda i: -i), "never decreases"),
        (lambda r: r.sum(estimator="guess"), "an estimator"),
        (lambda r: r.sum("nothing = 1"), "where is"),
        (lambda r: r.count_keys(at_least=0), "at_least"),
        (lambda r: r.count_keys(at_least=1.5), "at_least"),
        (lambda r: r.mean(at_least="3"), "at_least"),
        (lambda r: r.mean(level=2), "a level"),
        (lambda r: r.top(0), "k is"),
        (lambda r: r.top(-1), "k is"),
        (lambda r: r.top(2.0), "k is"),
        (lambda r: r.top(True), "k is"),
        (lambda r: r.top(1, level=5), "a level"),
        (lambda r: r.rank(3.5j), "where has values"),
        (lambda r: r.rank("a", "key > 'a'"), "the key is among"),
        (lambda r: r.rank("a", level=-1), "a level"),
        (lambda r: r.quantiles([1.5]), "quantiles are"),
        (lambda r: r.quantiles([math.nan]), "quantiles are"),
        (lambda r: r.quantiles("median"), "quantiles are"),
        (lambda r: r.quantiles([[0.5]]), "quantiles are"),
        (lambda r: r.quantiles([0.5], level=0), "a level"),
        (lambda r: r.sum(by="key")["nobody"], "a group is"),
    ],
)
def test_what_is_refused(ask: Any, rule: str) -> None:
    with refused(rule):
        ask(release_of(CELLS))


def test_if_no_key_is_likely_to_be_seen() -> None:
    release = release_of({"a": 9}, CustomSampling(["0.2"] * 30))
    assert release.sum().detection_threshold is None
    with refused("some frequency"):
        release.quantiles([0.5])
    assert not release.quantiles([0.5], at_least=3)[0.5].guaranteed


def test_answers_are_shown_without_commanding_a_terminal() -> None:
    release = release_of({"\x1b[31mred": 30, "<b>": 29, "value": 31})
    for answer in (release.top(3), release.sum(by="key")):
        assert "\x1b" not in repr(answer)
        assert "\\x1b" in repr(answer)
        assert "<b>" not in answer._repr_html_()
        assert "&lt;b&gt;" in answer._repr_html_()
    assert "95 %" in repr(release.sum())
    assert release.sum()._repr_html_().startswith("<p>")


def test_answers_as_tables() -> None:
    table = pa.table({"value": ["a", "b"], "token": [30.0, 40.0]})
    release = Release(table, Terms(PRIVACY, KeepAll(), ("value",), grid=GRID))
    answer = release.top(2)
    assert answer.to_arrow().column_names == ["value", "value_", "standard_error", "low", "high", "probability"]
    assert answer.to_pandas()["value"].tolist() == ["b", "a"]
    assert [key for key, _ in answer] == ["b", "a"]


def test_the_share_of_all_elements() -> None:
    plain = release_of(dict.fromkeys(range(50), 400))
    privacy, part = plain.privacy, Fraction(1, 20)
    terms = replace(
        plain.terms,
        total=Total(20_000, part * privacy.epsilon, Fraction(1)),
        per_key=Privacy((1 - part) * privacy.epsilon, privacy.delta),
    )
    release = Release(plain.table, terms)
    answer = release.sum("key < 10")
    assert answer.share == answer.value / 20_000
    assert "% of all elements" in repr(answer)
    assert release.sum("key < 10", weight="2").share is None
    assert release.count_keys().share is None
    assert plain.sum().share is None


def test_users_are_answered_by_the_privacy_of_each_key() -> None:
    """A release for users has tokens of a smaller epsilon than it promises: estimates must follow from that one."""
    plain = release_of(dict.fromkeys(range(50), 400))
    each, drawn = Privacy("0.1", "1e-4"), plain.table.select(["key", "token"])
    users = Release(drawn, replace(plain.terms, privacy=Privacy(1, "0.01"), per_key=each, unit="user", max_keys=4))
    alone = Release(drawn, replace(plain.terms, privacy=each, per_key=each))
    assert users.table == alone.table != plain.table
    assert users.sum().value == alone.sum().value
    assert users.sum().standard_error == alone.sum().standard_error
    assert users.top(3).numbers["high"].to_pylist() == alone.top(3).numbers["high"].to_pylist()
    assert users.quantiles([0.5], at_least=1)[0.5].value == alone.quantiles([0.5], at_least=1)[0.5].value


def test_a_top_list_by_chance_says_so() -> None:
    same, apart = release_of({n: 200 + n % 7 for n in range(60)}), release_of({n: 200 + 100 * n for n in range(60)})
    assert "compete" in " ".join(same.top(5).notes)
    assert "compete" not in " ".join(apart.top(5).notes)


def test_one_key_has_one_interval() -> None:
    """Whatever is asked: the interval of its row in the table."""
    release = release_of(CELLS)
    for row in release.table.to_pylist():
        key = row["key"]
        wanted = row["estimate"], row["low"], row["high"]
        answers = [release[key], release.each_key()[key], release.top(5)[key], release.sum([key]), release.mean([key])]
        answers += [release.sum(f"key = '{key}'"), release.sum(by="key")[key]]
        for answer in answers:
            assert (answer.value, answer.low, answer.high) == wanted
            assert answer.guaranteed
    twice = release.sum("key = 'a'", weight="2")
    assert (twice.low, twice.high) == (2 * release["a"].low, 2 * release["a"].high)
    assert release.sum("key = 'a' OR true").at_least == release.sum("key LIKE 'a'").at_least == release.sum().at_least


def test_keys_of_a_release_and_those_that_are_not() -> None:
    """A key is unreported with probability 1 - pi: its bound is the last frequency at which that is above 5 %."""
    release = release_of(CELLS)
    assert list(release) == sorted(CELLS)
    assert "a" in release
    assert "nobody" not in release
    unreported = [1 - sum(row.values()) for row in laws(KeepAll())]
    most = max(i for i, p in enumerate(unreported) if p > 0.05)
    answer = release["nobody"]
    assert (answer.low, answer.high, answer.guaranteed) == (0, most, True)
    assert f"probably below {most + 1}" in repr(answer)
    rank = release.rank("nobody")
    assert rank.low >= 1
    assert rank.high == math.inf
    likely = np.array(unreported) / sum(unreported)
    for name, cell in CELLS.items():
        frequencies, p = (
            part[0] for part in spectrum(Tally.of([cell]), Scheme(KeepAll(), PRIVACY, GRID)).posterior([cell])
        )
        chance = sum(q * likely[:i].sum() for i, q in zip(frequencies.tolist(), p.tolist(), strict=True))
        assert release.compare(name, "nobody") == pytest.approx(chance, abs=1e-6)
    pairs = pa.table({"a": [1, 2], "b": ["x", "y"], "token": [30.0, 40.0]})
    two = Release(pairs, Terms(PRIVACY, KeepAll(), ("a", "b"), grid=GRID))
    assert list(two) == [(1, "x"), (2, "y")]
    assert (2, "y") in two
    assert (2, "x") not in two
    assert two.sum("a = 2 AND b = 'y'").low == two[2, "y"].low


def test_what_lies_below_is_apart() -> None:
    """Extrapolated, known by a total, or unknown."""
    plain = release_of({n: 10 + n % 30 for n in range(3000)})
    answer = plain.sum(extrapolate=True)
    assert answer.below is not None
    assert answer.below.kind == "extrapolated"
    assert math.isnan(answer.below.low)
    assert "if the density of keys continues (not guaranteed)" in repr(answer)
    assert plain.count_keys(at_least=30).guaranteed
    assert plain.sum(of="at-least:30").below is None  # rarer keys count 0
    assert plain.sum("false").below == Below()
    part = Fraction(1, 20)
    terms = replace(
        plain.terms,
        total=Total(200_000, part * plain.privacy.epsilon, Fraction(1)),
        per_key=Privacy((1 - part) * plain.privacy.epsilon, plain.privacy.delta),
    )
    release = Release(plain.table.select(["key", "token"]), terms)
    known, half = release.sum(), release.sum(level=0.975)
    ends = release.total.interval(0.975) if release.total else (0, 0)
    assert known.below == Below("known", 200_000 - known.value, ends[0] - half.high, ends[1] - half.low)
    selected = release.sum("key > 5").below
    assert selected is not None
    assert selected.kind == "unknown"


def test_an_own_estimator() -> None:
    release = release_of(CELLS)
    answer = release.sum(estimator=lambda tokens: tokens**2)
    assert answer.value == sum((cell / GRID) ** 2 for cell in CELLS.values())
    assert not answer.guaranteed
    assert "no interval" in repr(answer)
    assert release.sum(estimator="mle").at_least is None
    for wrong in (lambda tokens: tokens[:1], lambda tokens: tokens * math.nan):
        with refused("an estimator returns"):
            release.sum(estimator=wrong)


@pytest.mark.usefixtures("fixed_coins")
@pytest.mark.parametrize("epsilon", ["0.3", "1"])
def test_keys_of_one_frequency(epsilon: str) -> None:
    """All have it as each quantile, and are the first. The spread of their tokens is noise, not an order."""
    made = dpsample.release(dict.fromkeys(map(str, range(1500)), 300), privacy=Privacy(epsilon, "1e-6"))
    shares = made.quantiles([0.1, 0.25, 0.5, 0.75, 0.9]).numbers
    assert all(
        low <= 300 <= high for low, high in zip(*(shares[end].to_pylist() for end in ("low", "high")), strict=True)
    )
    assert shares["value"].to_pylist()[2] == 300
    ranks = [made.rank(key) for key in ("0", "700", "1499")]
    assert all(rank.guaranteed and rank.low == 1 for rank in ranks)


@pytest.mark.usefixtures("fixed_coins")
def test_the_number_of_keys_far_out() -> None:
    """One key is as frequent: its variance is rounding, which must not become the slope of another."""
    words = {f"rare {i}": 2000 // (i + 1) for i in range(300)} | {"self": 63_763}
    made = dpsample.release(words, privacy=Privacy(1, "1e-8"))
    for frequency in range(20_000, 60_000, 500):
        assert made.count_keys(at_least=frequency).high <= 3
