"""The paper's figures and claims: against numbers of the paper and exact oracles, and the command as a user runs it."""

import csv
import json
import math
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from fractions import Fraction
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import oracles
import support
from dpsample import CustomSampling, InvalidValue, KeepAll, Ppswor, Priority, Privacy, Sampling
from dpsample.comparison.accuracy import Pws, accuracy
from dpsample.comparison.baselines import StabilityHistogram
from dpsample.estimators import mle
from dpsample.files import atomic_folder
from dpsample.presentation import charts
from dpsample.scheme import concordance, kendall_tau, steps_to_one, token_laws
from paper import CLAIMS, FIGURES, data, estimated, ordered, reported
from paper.__main__ import paper
from paper.breakpoints import algorithm_5, delta_spent
from paper.figures import curve, titles
from paper.finding import CORRECTED, HOLDS, INTEGRAL, LOOSE, Finding
from paper.reported import integral
from places import TESTS
from references import true_q_fractions
from support import refused

pytestmark = pytest.mark.chance("certain: figures are computed, or drawn with fixed seeds")

SETS = {"two sizes": {3: 900, 70: 100}, "many sizes": dict.fromkeys(range(1, 400), 5)}


@pytest.fixture(scope="session")
def tables() -> Callable[[str], pa.Table]:
    """Return the quick series of each figure, each computed once."""
    made: dict[str, pa.Table] = {}

    def table(name: str) -> pa.Table:
        if name not in made:
            made[name] = FIGURES[name].series(True, SETS)
        return made[name]

    return table


@pytest.fixture(scope="session")
def findings() -> Callable[[str], Finding]:
    """Return what is found of each claim, each measured once."""
    made: dict[str, Finding] = {}

    def finding(name: str) -> Finding:
        if name not in made:
            made[name] = next(claim for claim in CLAIMS if claim.name == name).measure()
        return made[name]

    return finding


# Series.


def test_zipf_is_that_of_the_papers_scripts() -> None:
    # int(n**alpha / rank**alpha), rank by rank
    for n, alpha in ((50, 1), (50, 2), (300, 0.5)):
        ranks = sorted(int(n**alpha / rank**alpha) for rank in range(1, n + 1))
        found = reported.zipf(n, alpha)
        assert sorted(i for i, keys in found.items() for _ in range(keys)) == ranks


def test_the_ratio_as_delta_falls_is_the_known_one(tables: Callable[[str], pa.Table]) -> None:
    delta, ratio = curve(tables("zipf"), "Ratio of PWS to SbH", "Zipf, α = 1")
    np.testing.assert_allclose(np.log10(delta), np.arange(0, -9, -1), atol=1e-12)
    np.testing.assert_allclose(ratio, [1.71, 3.14, 2.84, 1.97, 1.55, 1.38, 1.29, 1.24, 1.20], atol=0.005)
    # at delta = 1 there is nothing to protect: all keys are reported
    assert curve(tables("zipf"), "Zipf, α = 2", "PWS")[1][0] == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("alpha", "gains"),
    [("0.5", [232.0, 419, 2365, 2260]), ("1", [97.3, 95.1, 115, 68.3]), ("2", [37.2, 28.8, 13.9, 4.0])],
)
def test_the_gains_as_tau_falls_are_the_known_ones(
    alpha: str, gains: list[float], tables: Callable[[str], pa.Table]
) -> None:
    tau, found = curve(tables("zipf-sampled"), "Gain over SbH", f"Zipf, α = {alpha}")
    for wanted, gain in zip([10, 0.01, 0.001, 0.0001], gains, strict=True):
        assert found[np.isclose(tau, wanted)][0] == pytest.approx(gain, abs=0.5 if gain > 110 else 0.05)


def test_reporting_probabilities_are_the_papers_expressions(tables: Callable[[str], pa.Table]) -> None:
    table = tables("reporting")
    E, delta = math.exp(0.1), 0.01
    i, pws = curve(table, "ε = 0.1, δ = 0.01", "PWS")
    low = i <= 18  # up to L + 1 = 18.8 it is a geometric sum
    np.testing.assert_allclose(pws[low], delta * (E ** i[low] - 1) / (E - 1), rtol=1e-12)
    i, sbh = curve(table, "ε = 0.1, δ = 0.01", "SbH")
    T = math.log(1 / delta) / 0.1 + 1
    np.testing.assert_allclose(sbh, np.where(i < T, np.exp(0.1 * (i - T)) / 2, 1 - np.exp(-0.1 * (i - T)) / 2))
    i, ratio = curve(table, "Ratio, ε = 0.01, δ = 1e-06", "PWS ÷ SbH")
    np.testing.assert_allclose(ratio[:3], 2 * i[:3], rtol=0.02)


def test_sampled_reporting_lies_between_sbh_and_the_sample(tables: Callable[[str], pa.Table]) -> None:
    for panel, tau in (("τ = 0.1", 0.1), ("τ = 0.001", 0.001)):
        i, q = curve(tables("sampled-reporting"), panel, "not private")
        np.testing.assert_allclose(q, 1 - np.exp(-tau * i), rtol=1e-9)
        pws = curve(tables("sampled-reporting"), panel, "PWS")[1]
        assert pws[0] == pytest.approx(min(0.001, 1 - math.exp(-tau)), rel=1e-9)  # delta, or q where that is less
        assert (curve(tables("sampled-reporting"), panel, "SbH")[1] <= pws * (1 + 1e-9)).all()


def test_real_data_are_reported_as_their_frequencies_say(tables: Callable[[str], pa.Table]) -> None:
    # 900 keys of frequency 3 and 100 of 70, at delta = 1e-3: pi by Algorithm 3, as a sum of two
    privacy = Privacy("0.1", "1e-3")
    pi = oracles.algorithm_3([Fraction(1)] * 70, oracles.exponential(privacy.epsilon, 30), privacy.delta)
    delta, share = curve(tables("real"), "two sizes", "PWS")
    assert share[np.isclose(delta, 1e-3)][0] == pytest.approx(0.9 * float(pi[3]) + 0.1 * float(pi[70]), rel=1e-9)


def test_the_errors_are_the_known_ones(tables: Callable[[str], pa.Table]) -> None:
    tau, ours = curve(tables("nrmse"), "ε = 0.1", "PWS, MLE")
    for wanted, nrmse in ((1, 0.2513), (1e-5, 0.0721)):
        assert ours[np.isclose(tau, wanted, rtol=1e-6)][0] == pytest.approx(nrmse, abs=5e-5)
    assert curve(tables("nrmse"), "ε = 0.1", "sampled SbH")[1][0] == pytest.approx(0.480, abs=5e-4)
    tau, private = curve(tables("nrmse"), "ε = 0.5", "not private")
    # the sum of i**2 (1 / q - 1) over 1,000 keys of each frequency, at tau = 1e-4
    variance = sum(1000 * i**2 * (1 / (i * 1e-4) - 1) for i in range(1, 201))
    expected = math.sqrt(variance) / sum(1000 * i for i in range(1, 201))
    assert private[np.isclose(tau, 1e-4, rtol=1e-6)][0] == pytest.approx(expected, rel=1e-9)


def test_bias_and_variance_are_sums_over_the_tokens_of_algorithm_4(tables: Callable[[str], pa.Table]) -> None:
    privacy, sampling = Privacy("0.5", Fraction(1, 2**20)), Priority("0.0001")
    E = oracles.exponential(privacy.epsilon, 30)
    x, bias = curve(tables("bias"), "PWS, MLE, ε = 0.5", "τ = 0.0001")
    i = int(x[(x > 12) & (x < 20)][0])
    row = oracles.algorithm_4(true_q_fractions(sampling, i), E, privacy.delta)[i]
    a = mle(range(1, i + 1), sampling, privacy)
    mean = sum(float(p) * e for p, e in zip(row[1:], a, strict=True))
    assert bias[x == i][0] == pytest.approx(mean / i - 1, rel=1e-9)
    # without sampling, SbH's bias at low frequencies is -1 and its variance nearly 0
    assert curve(tables("bias"), "PWS, MLE, ε = 0.5", "sampled SbH, any τ")[1][0] == pytest.approx(-1, abs=1e-4)
    x, open_ = curve(tables("variance"), "Normalised variance, τ = 0.001", "not private")
    np.testing.assert_allclose(open_, 1 / np.minimum(0.001 * x, 1) - 1, rtol=1e-9)


def test_the_order_is_that_of_the_laws(tables: Callable[[str], pa.Table]) -> None:
    privacy = Privacy(1, "1e-6")
    low, found = curve(tables("order"), "Pairs 1 apart, ε = 1", "PWS, Algorithm 4")
    np.testing.assert_allclose(
        found, concordance(low.astype(int) + 1, low.astype(int), KeepAll(), privacy, 1), rtol=1e-9
    )
    for panel, sampling in ordered.PANELS.items():
        epsilon, tau = curve(tables("order"), panel, "PWS, Algorithm 4")
        expected = [kendall_tau(range(1, 61), sampling, Privacy(str(e), "1e-6"), 1) for e in epsilon]
        np.testing.assert_allclose(tau, expected, rtol=1e-9)


def test_the_order_of_sbh_is_that_of_draws() -> None:
    # 2 * 10**5 draws of a pair; a mean of values 0, 1/2, 1: 6.5 standard deviations have odds of 8e-11 for each of 4
    n, generator, i = 200_000, np.random.default_rng(5), np.array([18, 25])
    for sampling in (KeepAll(), Ppswor("0.05")):
        method = StabilityHistogram(Privacy("0.5", "1e-3"), sampling)
        laws = ordered._sbh(i, method, 32)
        np.testing.assert_allclose(laws.sum(axis=1), 1, rtol=1e-12)
        np.testing.assert_allclose(1 - laws[:, 0], method.reported(i), rtol=1e-3)
        # the noisy frequency itself, not the estimate: larger noise, larger outcome
        noisy = i + generator.laplace(scale=2, size=(n, 2))
        q = -np.expm1(-0.05 * noisy) if isinstance(sampling, Ppswor) else 1.0
        seen = np.where((noisy >= method.cutoff) & (generator.random((n, 2)) < q), noisy, 0.0)
        right = (seen[:, 1] > seen[:, 0]) + (seen[:, 1] == seen[:, 0]) / 2
        assert abs(right.mean() - ordered._pairs(laws)[0]) < 6.5 * right.std() / math.sqrt(n) + 1e-3


def test_simulated_releases_have_the_exact_error() -> None:
    # MLE as an estimator of whole releases. The squared error is (bias + noise)**2; with 400 runs its mean is within 7
    # of its own standard deviations: odds of 3e-12 by the normal law, of which the mean of 400 terms is close enough.
    keys, sampling, privacy = {20: 200, 60: 100}, Priority("0.02"), Privacy("0.5", "1e-4")

    def total(cells: "np.ndarray[tuple[int], np.dtype[np.int64]]", s: Sampling, p: Privacy, grid: int) -> float:
        return float(mle(cells, s, p, grid).sum())

    runs = 400
    found = estimated.simulated_nrmse(total, keys, sampling, privacy, runs) ** 2
    exact = accuracy(Pws(sampling, privacy), keys)
    mse, variance = exact.mse / exact.truth**2, exact.variance / exact.truth**2
    spread = math.sqrt(2 * variance**2 + 4 * variance * (mse - variance))  # of the square of a normal variable
    assert abs(found - mse) < 7 * spread / math.sqrt(runs)


def test_an_estimator_of_whole_releases_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    # one that knows the truth has no error but what it adds: 1 %
    truth = sum(i * n for i, n in estimated.SELECTION.items())
    monkeypatch.setitem(estimated.FITTED, "oracle", lambda cells, sampling, privacy, grid: 1.01 * truth)
    monkeypatch.setattr(estimated, "decades", lambda *_: ["1", *["0.1"] * 5, "0.001"])
    table = estimated.nrmse(quick=True)
    tau, found = curve(table, "ε = 0.5", "oracle")
    assert tau.tolist() == [1, 0.001]
    np.testing.assert_allclose(found, 0.01, rtol=1e-9)
    assert FIGURES["nrmse"].panels(table)


# Algorithm 5 by its breakpoints.


@pytest.mark.filterwarnings("ignore::dpsample.PrivacyWarning")
@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.1"), Priority("0.02")], ids=str)
@pytest.mark.parametrize(("epsilon", "delta"), [("0.5", "0.01"), ("2", "0.001")])
def test_rows_and_breakpoints_are_those_of_algorithm_5(sampling: Sampling, epsilon: str, delta: str) -> None:
    privacy, m = Privacy(epsilon, delta), 18
    E = oracles.exponential(privacy.epsilon, 30)
    for printed in (False, True):
        exact = oracles.algorithm_5(true_q_fractions(sampling, m), E, privacy.delta, corrected=not printed)
        rows = algorithm_5(m, sampling, privacy, printed)
        assert len(rows[m].x) - 1 <= 3 * m
        for i in range(1, m + 1):
            for grid in (1, 4):
                cells = oracles.cells(exact[i], grid, i)
                S = np.interp(np.arange(i * grid + 1) / grid, rows[i].x, rows[i].S)
                np.testing.assert_allclose(-np.diff(S), [float(p) for p in cells[1:]], atol=1e-11)
        refined = oracles.refine(exact)
        spent = max(max(oracles.delta_spent(a, b, E), oracles.delta_spent(b, a, E)) for a, b in pairwise(refined))
        assert delta_spent(rows, privacy) == pytest.approx(float(spent), rel=1e-8)
        assert printed or spent <= privacy.delta


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


# Figures and the page.


@pytest.mark.parametrize("name", FIGURES)
def test_what_is_drawn_is_the_table(name: str, tables: Callable[[str], pa.Table]) -> None:
    figure, table = FIGURES[name], tables(name)
    assert np.isfinite(table["x"].to_numpy()).all()
    assert np.isfinite(table["y"].to_numpy()).all()
    chart = json.loads(charts.line_chart(table.to_pylist(), figure.panels(table), figure.columns).to_json())
    drawn = []
    for panel in chart["concat"]:
        assert panel["encoding"]["x"]["title"]
        assert panel["encoding"]["y"]["title"]
        drawn += panel["data"]["values"] if "values" in panel["data"] else chart["datasets"][panel["data"]["name"]]
    key = ("panel", "line", "x", "y")
    assert sorted(tuple(row[k] for k in key) for row in drawn) == sorted(
        tuple(r[k] for k in key) for r in table.to_pylist()
    )
    colors = chart["concat"][0]["encoding"]["color"]["scale"]
    assert colors["domain"] == list(dict.fromkeys(table["line"].to_pylist()))
    assert figure.finding(table).verdict in {HOLDS, CORRECTED}


@pytest.mark.parametrize("name", [name for name, figure in FIGURES.items() if figure.needs_data])
def test_data_that_are_reported_for_certain_can_be_drawn(name: str) -> None:
    figure = FIGURES[name]
    table = figure.series(True, {"huge": {10**6: 3}, **SETS})
    assert "</svg>" in charts.svg(charts.line_chart(table.to_pylist(), figure.panels(table), figure.columns))
    assert figure.finding(table).verdict == CORRECTED


def test_no_two_lines_look_alike() -> None:
    # sRGB to relative luminance: neighbours in the order of use differ in grey, all differ in dash
    def grey(color: str) -> float:
        r, g, b = ((int(color[k : k + 2], 16) / 255) ** 2.2 for k in (1, 3, 5))
        return float(0.2126 * r + 0.7152 * g + 0.0722 * b)

    assert len({tuple(dash) for _, dash in charts.STYLES}) == len(charts.STYLES)
    assert len({color for color, _ in charts.STYLES}) == len(charts.STYLES)
    for (a, _), (b, _) in pairwise(charts.STYLES):
        assert abs(grey(a) - grey(b)) > 0.05
    with refused("at most"):
        charts.styles([str(n) for n in range(20)])


class Links(HTMLParser):
    """Collects what a page would load, and where it links to."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in {"src", "srcset", "data", "poster"} or (name == "href" and tag != "a"):
                self.loaded.append(value or "")
            elif name == "href":
                self.linked.append(value or "")


def run(*arguments: str, cwd: Path) -> support.Completed:
    return support.run(*arguments, cwd=cwd, command=paper, DPSAMPLE_CACHE=str(cwd / "no-such-cache"))


def test_the_command_makes_the_whole_page(tmp_path: Path) -> None:
    done = run("-o", "out", "--quick", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    out = tmp_path / "out"
    assert {p.name for p in (out / "figures").iterdir()} == {
        f"{n}.{kind}" for n in FIGURES for kind in ("png", "svg", "csv")
    }
    for name in FIGURES:
        assert (out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "</svg>" in (out / "figures" / f"{name}.svg").read_text()
    page, text = (out / "index.html").read_text(), (out / "index.md").read_text()
    links = Links()
    links.feed(page)
    assert len(links.loaded) == len(FIGURES)  # nothing is loaded from anywhere
    assert all(link.startswith("data:image/svg+xml;base64,") for link in links.loaded)
    assert not links.tags & {"script", "link", "iframe", "object"}
    assert "@import" not in page
    assert "url(" not in page
    assert all((out / link).is_file() for link in links.linked if link != "https://arxiv.org/abs/2010.13048")
    for figure in FIGURES.values():
        assert figure.title in text
        assert figure.title in page
    for claim in CLAIMS:
        assert f"**{claim.name}**" in text
    # no npm set in the cache, and --quick does not use the network: the page says so
    assert "Drawn without npm dependencies: dependent-packages@2.2.2 is not in the cache" in text
    with open(out / "claims-and-figures.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [*FIGURES, *(claim.name for claim in CLAIMS)]


def test_one_figure_and_the_readers_own_data(tmp_path: Path) -> None:
    (tmp_path / "words.csv").write_text("word\n" + "a\n" * 500 + "b\n" * 300 + "secret\n")
    done = run("-o", "out", "--figure", "real", "--quick", "--data", "words.csv", "--key", "word", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "NOT private" in done.stdout
    assert (tmp_path / "out").stat().st_mode & 0o077 == 0
    text = (tmp_path / "out" / "index.md").read_text()
    assert "Your data: 801 elements, 3 keys." in text
    assert "as private as they are" in text
    assert "## Claims" not in text
    with open(tmp_path / "out" / "figures" / "real.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["panel"], row["line"]) == ("Your data", "PWS")]
    # at delta = 1e-8 two of three keys are certain, and the third is next to never reported
    assert float(rows[-1]["y"]) == pytest.approx(2 / 3, abs=1e-6)
    assert "secret" not in "".join(path.read_text() for path in (tmp_path / "out").rglob("*.[mch][dst]*"))


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["-o", "out", "--figure", "no-such"], "figures are"),
        (["-o", "out", "--data", "words.csv"], "go together"),
        (["-o", "out", "--figure", "real", "--quick", "--data", "missing.csv", "--key", "word"], "missing.csv"),
        (["-o", "out", "--figure", "zipf", "--data", "words.csv", "--key", "word"], "own data go with"),
        (["-o", "words.csv", "--quick"], "is not overwritten"),
        (["-o", "words.csv", "--quick", "--force"], "only a folder"),
        (["-o", "no/such/out", "--quick"], "in one that exists"),
    ],
    ids=lambda a: " ".join(a[-3:]) if isinstance(a, list) else "",
)
def test_what_cannot_be_is_refused_before_any_work(arguments: list[str], rule: str, tmp_path: Path) -> None:
    (tmp_path / "words.csv").write_text("word\na\n")
    before = sorted(tmp_path.iterdir())
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert rule in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_without_altair_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in ("altair", "vl_convert"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            done = CliRunner().invoke(paper, ["-o", str(tmp_path / "out"), "--quick"])
            assert isinstance(done.exception, InvalidValue)
            assert "pip install 'dpsample[report]'" in str(done.exception)
    assert list(tmp_path.iterdir()) == []


# Data.


def test_an_unknown_file_in_the_cache_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DPSAMPLE_CACHE", str(tmp_path))
    (tmp_path / data.FILE).write_bytes(b"something else")
    with pytest.raises(data.Unavailable, match="not the known file"):
        data.npm(fetch=False)


@pytest.mark.parametrize("npm", ["missing", "failing", "forging"])
def test_what_cannot_be_fetched_is_left_out(npm: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DPSAMPLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    if npm != "missing":
        program = tmp_path / "npm"
        program.write_text("#!/bin/sh\n" + ("exit 1\n" if npm == "failing" else f'echo forged > "$4/{data.FILE}"\n'))
        program.chmod(0o755)
    reason = {"missing": "not installed", "failing": "failed", "forging": "another file"}[npm]
    with pytest.raises(data.Unavailable, match=reason):
        data.npm()
    assert not (tmp_path / "cache").exists()


def test_the_standard_library_is_counted() -> None:
    found = data.library()
    assert max(found) > 10_000  # "self"
    assert sum(found.values()) > 10_000


# A folder, whole or not at all.


def test_a_folder_appears_whole(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with atomic_folder(target, "mark") as folder:
        (folder / "mark").write_text("1")
        assert not target.exists()
    assert (target / "mark").read_text() == "1"
    with pytest.raises(InvalidValue, match="not overwritten"), atomic_folder(target, "mark"):
        pass
    with pytest.raises(ZeroDivisionError), atomic_folder(target, "mark", force=True) as folder:
        (folder / "mark").write_text(str(1 / 0))
    assert (target / "mark").read_text() == "1"
    with atomic_folder(target, "mark", force=True) as folder:
        (folder / "mark").write_text("3")
    assert (target / "mark").read_text() == "3"
    assert list(tmp_path.iterdir()) == [target]


def test_only_a_folder_of_ours_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "precious").write_text("keep")
    with pytest.raises(InvalidValue, match="only a folder"), atomic_folder(tmp_path / "home", "mark", force=True):
        pass
    assert (tmp_path / "home" / "precious").read_text() == "keep"
    (tmp_path / "empty").mkdir()
    with atomic_folder(tmp_path / "empty", "mark") as folder:
        (folder / "mark").touch()
    assert (tmp_path / "empty" / "mark").exists()


def test_what_a_dead_process_left_is_swept_and_a_living_one_is_not(tmp_path: Path) -> None:
    target, entered, leave = tmp_path / "out", threading.Event(), threading.Event()
    dies = "import os, sys; from dpsample.files import atomic_folder\n"
    dies += "with atomic_folder(sys.argv[1], 'mark'): os._exit(0)"
    subprocess.run([sys.executable, "-c", dies, str(target)], check=True)  # inside, as after kill -9
    assert len(list(tmp_path.iterdir())) == 1

    def hold() -> None:
        with atomic_folder(target, "mark") as folder:
            (folder / "mark").touch()
            entered.set()
            leave.wait(30)

    def late() -> None:
        with pytest.raises(InvalidValue, match="not overwritten"):
            hold()

    other = threading.Thread(target=late)
    other.start()
    entered.wait(30)
    assert len(list(tmp_path.iterdir())) == 1  # the dead one's is gone, the living one's is there
    with atomic_folder(target, "mark") as folder:
        (folder / "mark").write_text("first")
    leave.set()
    other.join()
    assert (target / "mark").read_text() == "first"
    assert list(tmp_path.iterdir()) == [target]


def test_the_titles_of_panels_are_all_drawn(tables: Callable[[str], pa.Table]) -> None:
    for name, figure in FIGURES.items():
        assert [panel.title for panel in figure.panels(tables(name))] == titles(tables(name))
