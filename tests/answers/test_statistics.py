"""Answers against brute force: all frequencies that keys may have, one combination after the other."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from brute_force import CELLS, GRID, PRIVACY, laws, release_of
from dpsample import CustomSampling, KeepAll, Priority, Privacy, Sampling
from dpsample.answers import token_order, token_quantiles
from dpsample.estimators.calibration import Calibration
from dpsample.estimators.intervals import SumEstimate
from dpsample.estimators.spectrum import Spectrum, spectrum
from dpsample.estimators.tally import Tally
from dpsample.scheme import frequency_reaching
from dpsample.scheme.scheme import Scheme

SUPPORT = [6, 9, 12, 14, 17, 20]
SHARES = [0.1, 0.3, 0.2, 0.2, 0.15, 0.05]  # of the frequencies, before anything is reported


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


SAMPLINGS = [KeepAll(), Priority("0.04"), CustomSampling([Fraction(i, 25) for i in range(1, 21)])]


@pytest.fixture(params=SAMPLINGS, ids=str)
def sampling(request: pytest.FixtureRequest) -> Any:
    return request.param


def known(monkeypatch: pytest.MonkeyPatch, sampling: Sampling, keys: list[float]) -> None:
    for module in (token_order, token_quantiles):
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

    monkeypatch.setattr(token_quantiles, "spectrum", lambda *_: counted_keys)
    monkeypatch.setattr(token_quantiles, "estimate_sum", counted)
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
