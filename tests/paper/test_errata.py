"""Counterexamples to sentences of the paper, in exact arithmetic, what holds instead, and the pages that list them."""

from __future__ import annotations

import importlib
import math
import re
import warnings
from collections.abc import Sequence
from fractions import Fraction
from itertools import groupby, pairwise

import numpy as np
import pytest

import oracles
from dpsample import KeepAll, Ppswor, Priority, Privacy
from dpsample.comparison.baselines import StabilityHistogram
from dpsample.estimators import unbiased
from dpsample.scheme import concordance_with_all, reporting_probabilities, steps_to_one, token_law
from paper import estimated
from paper.reported import integral, study
from places import ROOT, TESTS

ONE = Fraction(1)
Rows = list[list[Fraction]]

pytestmark = pytest.mark.chance("certain: exact arithmetic, or drawn with fixed seeds")


def unbiased_of(rows: Rows) -> list[Fraction]:
    """The unbiased estimates of the tokens 1, 2, ... of integer rows: the system is triangular."""
    values: list[Fraction] = []
    for i, row in enumerate(rows[1:], 1):
        so_far = sum((p * a for p, a in zip(row[1:i], values, strict=True)), Fraction(0))
        values.append((i - so_far) / row[i])
    return values


# Lemma F.1, which says that there is none.


@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "1", "3"])
def test_an_unbiased_estimator_that_is_never_negative(epsilon: str) -> None:
    """At delta = 1/2, from frequency 2 on, a key has either of the two highest tokens: 2, 2, 4, 4, ... is right."""
    delta, E = Fraction(1, 2), oracles.exponential(Fraction(epsilon))
    rows = oracles.algorithm_4([ONE] * 12, E, delta)
    assert [sum(row[1:], Fraction(0)) for row in rows] == oracles.algorithm_3([ONE] * 12, E, delta)  # optimal
    for before, row in pairwise(rows):
        assert oracles.delta_spent([*before, Fraction(0)], row, E) <= delta  # private
    for i, row in enumerate(rows[2:], 2):
        assert row[i - 1 :] == [delta, delta]  # so for all i: the next row is this one, shifted
    assert unbiased_of(rows) == [2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12]


@pytest.mark.parametrize(("E", "delta"), [("3/2", "1/100"), ("11/10", "1/300"), ("2", "1/1000"), ("21/20", "1/10")])
def test_up_to_L_plus_1_the_unbiased_estimate_is_linear(E: str, delta: str) -> None:
    """(h - E (h - 1)) / delta, which is negative if and only if h > 1 / (1 - 1 / E): one change of the sign."""
    ratio, spent = Fraction(E), Fraction(delta)
    rows = oracles.algorithm_4([ONE] * 24, ratio, spent)
    pi = oracles.algorithm_3([ONE] * 24, ratio, spent)
    grows = [h for h in range(1, 25) if all(pi[k] == ratio * pi[k - 1] + spent for k in range(1, h + 1))]
    assert len(grows) >= 2
    for h, value in zip(grows, unbiased_of(rows), strict=False):
        assert value == (h - ratio * (h - 1)) / spent
        assert (value < 0) == (h > 1 / (1 - 1 / ratio))


@pytest.mark.filterwarnings("ignore:unbiased")
@pytest.mark.parametrize(
    ("epsilon", "delta", "first_negative"),
    [("0.1", "0.5", None), ("0.1", "0.03", None), ("0.1", "0.02", 11), ("0.01", "0.001", 101), ("1", "1e-6", 2)],
)
def test_the_condition_decides_near_its_limit(epsilon: str, delta: str, first_negative: int | None) -> None:
    """From delta = 0.02 on down, at epsilon 0.1, some h up to L + 1 is above 1 / (1 - exp(-epsilon)) = 10.5."""
    privacy = study(epsilon, delta)
    found = unbiased(range(1, 151), KeepAll(), privacy)
    negative = np.flatnonzero(found < 0)
    limit = 1 / -math.expm1(-float(epsilon))
    exceeded = math.floor(steps_to_one(privacy) + 1) > limit
    assert exceeded == (first_negative is not None)
    assert (int(negative[0]) + 1 if len(negative) else None) == first_negative


def test_the_lemma_is_sufficient_and_not_necessary() -> None:
    """At (1, 0.3) no h up to L + 1 exceeds 1 / (1 - exp(-1)), and yet Algorithm 4 needs a negative value, later."""
    rows = oracles.algorithm_4([ONE] * 6, oracles.exponential(ONE), Fraction(3, 10))
    signs = [value < 0 for value in unbiased_of(rows)]
    assert signs == [False, False, False, True, False, True]


def test_signs_come_in_runs() -> None:
    """Not alternating: at (1, 1e-6) the second to the 14th token, up to L + 1 = 14.04, are all negative."""
    rows = oracles.algorithm_4([ONE] * 27, oracles.exponential(ONE), Fraction("1e-6"))
    values = unbiased_of(rows)
    runs = [len(list(run)) for _, run in groupby(values, key=lambda value: value < 0)]
    assert runs[:2] == [1, 13]
    assert max(runs[2:]) > 10
    with warnings.catch_warnings(action="ignore"):
        found = unbiased(range(1, 28), KeepAll(), Privacy(1, "1e-6"))
    np.testing.assert_allclose(found[:14], [float(value) for value in values[:14]], rtol=1e-9)


# The order of one key among others.


def among_others(rows: Rows, key: int, higher: Sequence[int], lower: Sequence[int]) -> Fraction:
    """The definition: a sum over the key's token, 0 if it is not reported, where a tie counts one half."""
    width = max(map(len, rows))
    laws = [row + [Fraction(0)] * (width - len(row)) for row in rows]
    total = Fraction(0)
    for token in range(width):
        in_order = laws[key][token]
        for y in higher:
            in_order *= sum(laws[y][token + 1 :], Fraction(0)) + laws[y][token] / 2
        for z in lower:
            in_order *= sum(laws[z][:token], Fraction(0)) + laws[z][token] / 2
        total += in_order
    return total


@pytest.mark.parametrize(
    ("key", "higher", "lower"), [(3, [5], [2]), (4, [5, 6], [1, 3]), (6, [], [5, 2]), (1, [2], [])]
)
def test_a_key_among_others_is_its_definition(key: int, higher: list[int], lower: list[int]) -> None:
    privacy = study("1", "0.01")
    rows = oracles.algorithm_4([ONE] * 6, oracles.exponential(ONE), privacy.delta)
    found = concordance_with_all(key, higher + lower, KeepAll(), privacy, 1)
    assert found == pytest.approx(float(among_others(rows, key, higher, lower)), rel=1e-12)


def test_a_key_among_others_of_its_own_frequency_is_even() -> None:
    assert concordance_with_all(3, [3, 3], KeepAll(), Privacy(1, "1e-6")) == pytest.approx(1 / 4)
    assert concordance_with_all(3, [], KeepAll(), Privacy(1, "1e-6")) == pytest.approx(1)


def test_the_printed_formula_of_one_key_leaves_out_ties() -> None:
    """A key of 3 among 5 and 2, at (1, 0.01): neither it nor the key of 5 is reported with probability 0.22."""
    E, delta = oracles.exponential(ONE), Fraction(1, 100)
    rows = oracles.refine(oracles.algorithm_5([ONE] * 6, E, delta))
    right = among_others(rows, 3, [5], [2])
    f = [row[0] for row in rows]  # not reported
    reported = right - f[3] * (1 - f[5] / 2) * (f[2] / 2)
    printed = f[3] * (1 - f[5]) * (f[2] / 2) + reported
    assert round(float(right), 4) == 0.4223
    assert round(float(printed), 4) == 0.3689
    assert round(float(concordance_with_all(3, [5, 2], KeepAll(), study("1", "0.01"), 1 << 10)), 4) == 0.4223


# Where constraints bind, with priority sampling.


def growth_after_q(q: list[Fraction], E: Fraction, delta: Fraction) -> bool:
    """Whether pi = E pi + delta is below q at a frequency after one at which pi = q."""
    pi = oracles.algorithm_3(q, E, delta)
    q_has_bound = False
    for before, now, sampled in zip(pi, pi[1:], q, strict=False):
        if q_has_bound and now == E * before + delta < sampled:
            return True
        q_has_bound |= now == sampled
    return False


def powers(tau: Fraction, half_powers: int, rows: int = 60) -> list[Fraction]:
    """min(1, tau i**(half_powers / 2)), rounded down to 2**-90."""
    scale = 1 << 90
    roots = [Fraction(math.isqrt(i**half_powers * scale * scale), scale) for i in range(1, rows + 1)]
    return [min(ONE, tau * root) for root in roots]


def test_once_q_binds_growth_does_not_with_priority_sampling() -> None:
    generator = np.random.default_rng(5)
    tried = 0
    for _ in range(150):
        E = 1 + Fraction(int(generator.integers(1, 1000)), 500)
        delta = Fraction(1, int(10 ** generator.uniform(1, 4)))
        tau = Fraction(1, int(10 ** generator.uniform(0.3, 4.5)))
        for half_powers in (1, 2, 3, 4, 6):
            if half_powers <= 2 or tau >= delta:
                tried += 1
                assert not growth_after_q(powers(tau, half_powers), E, delta)
    assert tried > 400
    # beyond the condition it happens: p = 2, tau < delta
    assert any(
        growth_after_q(powers(Fraction(1, 2000), 4), 1 + Fraction(k, 50), Fraction(1, 1000)) for k in range(1, 20)
    )


# Side remarks.


@pytest.mark.parametrize("delta", ["1/2", "1/100", "1/1000000"])
def test_the_least_variance_at_frequency_1(delta: str) -> None:
    """Reported with probability p <= delta, and 1 on average: the variance is at least 1 / p - 1, with equality."""
    reported = Fraction(delta)
    value = 1 / reported
    assert reported * value == 1
    assert reported * value**2 - 1 == 1 / reported - 1 < 1 / reported


def test_tokens_far_out_are_geometric_for_an_integral_L_alone() -> None:
    def beside(privacy: Privacy) -> list[float]:
        law = token_law(10**5, KeepAll(), privacy, 1)
        mode = int(law.probabilities.argmax())
        return [float(law.probabilities[mode + step] / law.probabilities[mode]) for step in (-1, 1)]

    assert sorted(beside(integral("1", 450))) == pytest.approx([math.exp(-1)] * 2, rel=1e-9)
    assert max(beside(Privacy(1, "1e-200"))) > 0.5 > min(beside(Privacy(1, "1e-200")))
    # in exact arithmetic, with E = 2: delta = 1/46 has L = 4, and the row far out is symmetric
    symmetric = oracles.algorithm_4([ONE] * 16, Fraction(2), Fraction(1, 46))[-1]
    around = [p for p in symmetric[1:] if p]
    assert around == around[::-1]
    askew = oracles.algorithm_4([ONE] * 16, Fraction(2), Fraction(1, 60))[-1]
    around = [p for p in askew[1:] if p]
    assert around != around[::-1]


def test_low_frequencies_are_reported_far_more_often() -> None:
    whole, low = Privacy("0.01", "1e-6"), range(1, 852)
    without = reporting_probabilities(low, KeepAll(), whole) / StabilityHistogram(whole).reported(low)
    assert without.max() == pytest.approx(200.96, abs=0.01)
    privacy, sampling = study("0.1", "0.001"), Ppswor("0.001")
    first = reporting_probabilities([1], sampling, privacy) / StabilityHistogram(privacy, sampling).reported([1])
    assert first[0] == pytest.approx(26, abs=1)


# A peak of the default estimator's error.


def test_the_peak_at_tau_0_001_is_where_the_data_end() -> None:
    """Keys up to 200 end within reach of the extrapolation from frequency 93, up to 263; keys up to 300 do not."""
    privacy = study("0.1", estimated.DELTA)

    def error(last: int, tau: str) -> float:
        keys = dict.fromkeys(range(1, last + 1), 1000)
        return estimated.simulated_nrmse(estimated.calibrated_sum, keys, Priority(tau), privacy, 3)

    assert error(200, "0.001") > 0.04
    assert error(300, "0.001") < 0.02
    assert error(200, "0.00032") < 0.04


# The pages.

PAGE = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
MAP = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")


def rows_of(page: str) -> list[list[str]]:
    lines = [line for line in page.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]
    return [row for row in cells if not set(row[0]) <= set("- ") and row[0] not in ("The paper says", "the paper")]


def assert_tests_exist(cell: str) -> None:
    named = re.findall(r"`([\w/]*test_\w+\.py)::(\w+)`", cell)
    assert named, cell
    for file, function in named:
        text = (TESTS / file).read_text(encoding="utf-8")
        assert f"def {function}(" in text, f"{file}::{function}"


def test_each_erratum_names_a_test_that_exists() -> None:
    errata = rows_of(PAGE)
    stated = re.search(r"(\d+) sentences of the paper do not hold, and (\d+)", PAGE)
    assert stated is not None
    assert len(errata) == int(stated[1]) + int(stated[2])
    for row in errata:
        assert len(row) == 3
        assert_tests_exist(row[2])


def test_the_map_names_functions_and_tests_that_exist() -> None:
    rows = rows_of(MAP)
    assert len(rows) >= 30
    for item, functions, tests in rows:
        assert item
        for path in re.findall(r"`((?:dpsample|paper)[\w.]*)`", functions):
            module, _, name = path.rpartition(".")
            found = importlib.import_module(module)
            assert hasattr(found, name), path
        assert_tests_exist(tests)
