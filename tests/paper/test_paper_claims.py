"""The paper's claims, each with the numbers that are measured."""

import math
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import oracles
from dpsample import CustomSampling, KeepAll, Ppswor, Privacy
from dpsample.comparison.accuracy import Pws
from dpsample.comparison.baselines import StabilityHistogram
from dpsample.estimators import mle
from dpsample.scheme import concordance, steps_to_one, token_laws
from paper import CLAIMS
from paper.finding import CORRECTED, HOLDS, INTEGRAL, LOOSE, Finding
from paper.reported import integral
from places import TESTS
from references import true_q_fractions

pytestmark = pytest.mark.chance("certain: figures are computed, or drawn with fixed seeds")


@pytest.fixture(scope="session")
def findings() -> Callable[[str], Finding]:
    """Return what is found of each claim, each measured once."""
    made: dict[str, Finding] = {}

    def finding(name: str) -> Finding:
        if name not in made:
            made[name] = next(claim for claim in CLAIMS if claim.name == name).measure()
        return made[name]

    return finding


# Claims: the numbers, from elsewhere.


def test_every_claim_is_linked_to_tests_that_exist() -> None:
    for claim in CLAIMS:
        assert claim.tests
        for test in claim.tests:
            file, name = test.split("::")
            assert re.search(rf"^def {name}\(", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE), test
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)


@pytest.mark.parametrize(
    ("name", "verdict", "numbers"),
    [
        ("gain without sampling", CORRECTED, ["9.5 to 214 %"]),
        ("gain with sampling", CORRECTED, ["232.0 %", "97.3 %", "95.1 %", "37.2 %", "13.9 %", "86 %", "71 %", "29 %"]),
        ("ratio of probabilities", CORRECTED, ["2.00 to 200.96", "2/ε = 200", "= 201.00"]),
        ("certainty", CORRECTED, ["from 1705", "from 2695"]),
        ("few positions", INTEGRAL, ["8 at", "= 7.71"]),
        ("closed form of π", CORRECTED, ["0.17"]),
        ("closed form of tokens", HOLDS, []),
        ("breakpoints", HOLDS, []),
        ("Lemma niceq", HOLDS, ["fails in 0 of 100"]),
        ("lower frequencies", CORRECTED, ["from 155", "1.4 at τ = 1,", "4.3 at τ = 1e-05", "155.0 at τ = 1e-06"]),
        ("sweet spot", HOLDS, ["0.2513 at τ = 1,", "0.0721 at τ = 1e-5", "0.480 at"]),
        ("no loss at τ = δ", HOLDS, ["100.0 %"]),
        ("Algorithm 5 is private", CORRECTED, ["1.39 δ", "1.63 δ", "1.86 δ", "corrected, 1.000 δ"]),
        ("cutoff of SbH", LOOSE, ["0.500 δ", "1.000 δ"]),
        ("best order", CORRECTED, ["0.500501", "0.501000"]),
        ("no unbiased estimator", CORRECTED, ["2, 2, 4, 4, 6, 6", "1,000,000 and -718,282"]),
        ("order of a key", CORRECTED, ["0.3689", "0.4223"]),
        ("constraints of priority sampling", HOLDS, ["in 0 of 85", "in 5 of 15"]),
        ("orders of magnitude", HOLDS, ["201 times", "26 times"]),
        ("variance at frequency 1", CORRECTED, ["999,999"]),
        ("Ghosh et al.", CORRECTED, ["0.531 and 0.368", "0.368 and 0.368"]),
        ("biased-down", CORRECTED, ["345,546 and 334,448"]),
    ],
)
def test_the_numbers_of_each_claim(
    name: str, verdict: str, numbers: list[str], findings: Callable[[str], Finding]
) -> None:
    # each number is pinned by the tests that the claim is linked to, or below
    assert findings(name).verdict == verdict
    assert (verdict != CORRECTED) or findings(name).conclusion.startswith("false as stated; holds if ")
    for number in numbers:
        assert number in findings(name).text


def test_all_claims_have_pinned_numbers() -> None:
    marks = test_the_numbers_of_each_claim.pytestmark  # type: ignore[attr-defined]
    assert {case[0] for case in marks[0].args[1]} == {claim.name for claim in CLAIMS}


def test_the_ratio_of_probabilities_has_its_own_limit() -> None:
    # pi / phi = 2 (1 - exp(-epsilon i)) / (1 - exp(-epsilon)) for i <= L, from the paper's expressions of both
    privacy = Privacy("0.01", "1e-6")
    i = np.arange(1, 852)
    ratio = Pws(KeepAll(), privacy).reported(i) / StabilityHistogram(privacy).reported(i)
    np.testing.assert_allclose(ratio, 2 * -np.expm1(-0.01 * i) / -math.expm1(-0.01), rtol=1e-9)
    assert 2 / 0.01 < ratio[-1] < 2 / -math.expm1(-0.01)


def test_where_reporting_becomes_certain() -> None:
    E, privacy = oracles.exponential(Fraction(1, 10), 40), Privacy("0.1", "0.01")
    pi = oracles.algorithm_3([Fraction(1)] * 60, E, privacy.delta)
    L = steps_to_one(privacy)
    assert pi.index(Fraction(1)) == 2 * math.ceil(L) + 1 == 37
    found = Pws(KeepAll(), privacy).reported([36, 37])
    assert found[0] < 1 - 1e-4
    assert found[1] == pytest.approx(1, abs=1e-12)


def test_more_positions_than_printed() -> None:
    privacy = Privacy("1.6", "0.0031")
    pi = oracles.algorithm_3([Fraction(1)] * 20, oracles.exponential(privacy.epsilon, 40), privacy.delta)
    L = steps_to_one(privacy)
    assert sum(p < 1 for p in pi[1:]) == 8 == 2 * math.ceil(L) > 2 * L + 1


@pytest.mark.parametrize(("epsilon", "L"), [("0.2", 7), ("1", 3)])
def test_the_closed_form_of_tokens(epsilon: str, L: int) -> None:
    privacy = integral(epsilon, L)
    assert steps_to_one(privacy) == pytest.approx(L, abs=1e-9)
    for law in token_laws([1, L, 3 * L, 10**9], KeepAll(), privacy):
        for cell, p in zip(law.cells.tolist(), law.probabilities.tolist(), strict=True):
            back = law.frequency - cell
            power = back if back <= L else 2 * L - back
            expected = float(privacy.delta) * math.exp(float(epsilon) * power) if back <= 2 * L else 0.0
            assert p == pytest.approx(expected, rel=1e-8, abs=1e-12)


def test_how_much_lower_frequencies_may_be() -> None:
    # bias from the definition, on the table of Algorithm 4: within a tenth from 113 on without sampling, not at 112
    privacy = Privacy("0.1", Fraction(1, 2**20))
    laws = list(token_laws([112, 113, 114, 130], KeepAll(), privacy))
    bias = [float(law.probabilities @ mle(law.cells, KeepAll(), privacy)) / law.frequency - 1 for law in laws]
    assert abs(bias[0]) > 0.1 > max(abs(b) for b in bias[1:])
    # SbH by the paper's expression, T = 20 ln(2) / epsilon + 1: within a tenth from 155 on
    T = 200 * math.log(2) + 1
    assert [math.exp(-0.1 * (i - T)) * (T - 10) / 2 / i > 0.1 for i in (154, 155)] == [True, False]


def test_nothing_is_lost_where_tau_is_delta() -> None:
    E, delta = oracles.exponential(Fraction(1, 10), 30), Fraction(1, 1000)
    q = true_q_fractions(Ppswor("0.001"), 60)
    assert oracles.algorithm_3(q, E, delta)[1:] == q
    more = true_q_fractions(Ppswor("0.01"), 60)
    assert oracles.algorithm_3(more, E, delta)[1:] != more


def test_reporting_less_may_order_better() -> None:
    """A counter-example to Corollary 5.1, exactly: what is reported of frequency 1 is above a 2 that is not."""
    E, delta = oracles.exponential(Fraction(1), 30), Fraction(1, 100)
    q = [Fraction(1, 1000), Fraction(2, 1000)]
    rows = oracles.algorithm_4(q, E, delta)
    silent = [rows[0], [Fraction(1), Fraction(0)], [1 - q[1], Fraction(0), q[1]]]  # frequency 1 is never reported
    for table in (rows, silent):
        for a, b in pairwise(table):
            a = [*a, Fraction(0)]
            assert max(oracles.delta_spent(a, b, E), oracles.delta_spent(b, a, E)) <= delta
        assert all(1 - row[0] <= q_i for row, q_i in zip(table[1:], q, strict=True))
    best, other = (oracles.concordance(table[2], table[1]) for table in (rows, silent))
    assert (best, other) == (Fraction(500501, 10**6), Fraction(501, 1000))
    found = concordance(2, 1, CustomSampling(q), Privacy(1, "0.01"), 1)
    assert float(found) == pytest.approx(float(best), rel=1e-12)
