"""Estimators against their literal definitions on exact tables, and against the paper's own error."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from dpsample import CustomSampling, KeepAll, Ppswor, Priority, Privacy, Sampling
from dpsample.comparison.accuracy import Pws
from dpsample.estimators import biased_down, inverse_probability, mle, unbiased
from dpsample.estimators.measures import Measure
from dpsample.scheme import likeliest_frequencies, reporting_probabilities, token_law, token_laws
from references import true_q_fractions
from strategies import privacies
from support import refused

STAIRS = [Fraction(1, 50)] * 8 + [Fraction(1, 3)] * 12 + [Fraction(9, 10)] * 30


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.05"), Priority("0.04"), CustomSampling(STAIRS)], ids=str)
@pytest.mark.parametrize("grid", [1, 4])
def test_the_likeliest_frequency_has_the_largest_probability(sampling: Sampling, grid: int) -> None:
    privacy = Privacy("0.8", "0.01")
    m, E = 45, oracles.exponential(privacy.epsilon, 30)
    q = [Fraction(sampling.bounds(i, 128)[0], 1 << 128) for i in range(1, m + 1)]
    densities = oracles.algorithm_5(q, E, privacy.delta)
    rows = [oracles.cells(density, grid, i) for i, density in enumerate(densities)]
    tokens = range(1, 20 * grid)  # their supports end before row m
    assert all(len(row) <= t or row[t] == 0 for t in tokens for row in rows[m:])
    for token, i in zip(tokens, likeliest_frequencies(list(tokens), sampling, privacy, grid).tolist(), strict=True):
        column = [row[token] if token < len(row) else Fraction(0) for row in rows]
        assert column[i] >= max(column) * (1 - Fraction(1, 10**9))  # a tie may go either way


def test_estimates_divide_by_the_reporting_probability() -> None:
    sampling, privacy = Ppswor("0.01"), Privacy(1, "1e-6")
    tokens = np.array([[1, 40], [900, 1]])
    i = likeliest_frequencies(tokens, sampling, privacy)
    expected = i / reporting_probabilities(i, sampling, privacy)
    assert mle(tokens, sampling, privacy).tolist() == expected.tolist()


def test_far_out_a_token_is_a_shift() -> None:
    sampling, privacy = Priority("0.001"), Privacy("0.3", "1e-7")
    near, far = (
        likeliest_frequencies([base * 8 + k for k in range(8)], sampling, privacy, 8) for base in (5000, 10**9)
    )
    assert (far - 10**9).tolist() == (near - 5000).tolist()


@pytest.mark.parametrize(("tau", "nrmse"), [("1", 0.2513), ("1e-5", 0.0721)])
def test_the_papers_error_comes_out(tau: str, nrmse: float) -> None:
    # 1,000 keys of each frequency 1..200, epsilon = 0.1, delta = 2**-20, priority sampling
    sampling, privacy = Priority(tau), Privacy("0.1", Fraction(1, 2**20))
    bias = variance = 0.0
    for law in token_laws(range(1, 201), sampling, privacy):
        a = mle(law.cells, sampling, privacy)
        mean = float(law.probabilities @ a)
        bias += 1000 * (mean - law.frequency)
        variance += 1000 * (float(law.probabilities @ a**2) - mean**2)
    assert np.sqrt(bias**2 + variance) / (1000 * 200 * 201 / 2) == pytest.approx(nrmse, abs=5e-5)


SCHEMES = [KeepAll(), Ppswor("0.05"), Priority("0.04"), CustomSampling(STAIRS)]


def exact_rows(sampling: Sampling, privacy: Privacy, grid: int, m: int) -> list[list[Fraction]]:
    """Rows 0 to m of the exact table: not reported, then the tokens of ((k-1)/grid, k/grid]."""
    E = oracles.exponential(privacy.epsilon, 30)
    densities = oracles.algorithm_5(true_q_fractions(sampling, m), E, privacy.delta)
    return [oracles.cells(density, grid, i) for i, density in enumerate(densities)]


def literal_biased_down(rows: list[list[Fraction]], g: list[Fraction], tokens: int) -> list[Fraction]:
    """Appendix D as printed: each estimate from all before it, over all rows in which the token occurs."""
    a = [Fraction(0)]
    for j in range(1, tokens + 1):
        needs = []
        for i, row in enumerate(rows):
            if j < len(row) and row[j] > 0:
                brought = sum((a[h] * row[h] for h in range(1, j)), Fraction(0))
                needs.append((g[i] - brought) / (1 - row[0] - sum(row[1:j], Fraction(0))))
        a.append(min(needs) if needs else Fraction(0))
    return a[1:]


@pytest.mark.parametrize("sampling", SCHEMES, ids=str)
@pytest.mark.parametrize(("grid", "of"), [(1, "frequency"), (2, "frequency"), (1, "keys"), (1, "power:2")])
def test_biased_down_is_appendix_d(sampling: Sampling, grid: int, of: str) -> None:
    privacy, m, last = Privacy("0.8", "0.01"), 40, 18
    rows = exact_rows(sampling, privacy, grid, m)
    tokens = last * grid
    assert all(row[t] == 0 for row in rows[m:] for t in range(1, tokens + 1))  # their supports end before row m
    g = [Fraction(float(x)) for x in Measure.of(of)(range(m + 1))]
    expected = literal_biased_down(rows, g, tokens)
    estimates = biased_down(range(1, tokens + 1), sampling, privacy, grid, of)
    np.testing.assert_allclose(estimates, [float(a) for a in expected], rtol=1e-10)


@pytest.mark.parametrize(
    "sampling",
    [KeepAll(), Ppswor("0.05"), Ppswor("1e-5"), Priority("0.01"), CustomSampling([0] * 9 + [1] * 400)],
    ids=str,
)
@pytest.mark.parametrize("of", ["frequency", "keys", "log1p"])
def test_biased_down_never_overestimates(sampling: Sampling, of: str) -> None:
    frequencies = np.arange(1, 400)
    errors = Pws(sampling, Privacy("0.3", "1e-7"), biased_down, grid=2).errors(frequencies, of)
    assert (errors.bias <= 1e-9 * errors.truth).all()
    assert (errors.mean > 0.5 * errors.truth)[-100:].all()  # as 0 would


@given(privacies(("0.05", "5"), ("1e-12", "1e-2")), st.sampled_from([1, 2, 4]))
def test_without_sampling_biased_down_does_not_decrease(privacy: Privacy, grid: int) -> None:
    estimates = biased_down(range(1, 1000), KeepAll(), privacy, grid)
    assert (np.diff(estimates) >= -1e-9 * estimates[1:]).all()
    assert estimates[-1] > 1.5 * estimates[0]


def test_appendix_d_may_decrease() -> None:
    # The paper's lemma says "non-decreasing" of every g. Exactly, in fractions: the number of keys, sampled by stairs.
    privacy, m = Privacy("0.8", "0.01"), 40
    rows = exact_rows(CustomSampling(STAIRS), privacy, 1, m)
    a = literal_biased_down(rows, [Fraction(0), *[Fraction(1)] * m], 18)
    assert min(a) < a[0] / 2
    # ... and the frequency itself: the supports of the first two quarter-steps end at rows 5 and 6, which needs less
    rows = exact_rows(Priority("2.99e-6"), Privacy("0.201", "1.86e-6"), 4, 9)
    assert [max(i for i, row in enumerate(rows[1:], start=1) if row[j] > 0) for j in (1, 2)] == [5, 6]
    a = literal_biased_down(rows, [Fraction(i) for i in range(10)], 2)
    assert a[1] < a[0] * Fraction(97, 100)


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.05"), Priority("0.04")], ids=str)
@pytest.mark.parametrize("of", ["frequency", "keys"])
def test_unbiased_solves_the_triangular_system(sampling: Sampling, of: str) -> None:
    privacy, m = Privacy("0.8", "0.01"), 30
    rows = exact_rows(sampling, privacy, 1, m)
    g = [Fraction(float(x)) for x in Measure.of(of)(range(m + 1))]
    a = [Fraction(0)]
    for i in range(1, m + 1):
        a.append((g[i] - sum((a[j] * rows[i][j] for j in range(1, i)), Fraction(0))) / rows[i][i])
    with pytest.warns(UserWarning, match="variance is enormous"):
        estimates = unbiased(range(1, m + 1), sampling, privacy, 1, of)
    np.testing.assert_allclose(estimates, [float(x) for x in a[1:]], rtol=1e-9)
    assert estimates.min() < 0
    with pytest.warns(UserWarning, match="negative"):  # finer tokens: that of their first frequency
        finer = unbiased(range(1, 4 * m + 1), sampling, privacy, 4, of)
    assert finer.tolist() == np.repeat(estimates, 4).tolist()


@pytest.mark.filterwarnings("ignore:unbiased")
@pytest.mark.parametrize("grid", [1, 4])
def test_unbiased_is_unbiased_at_a_price(grid: int) -> None:
    frequencies = range(1, 40)
    sampling, privacy = Ppswor("0.05"), Privacy("0.8", "0.001")
    errors = Pws(sampling, privacy, unbiased, grid).errors(frequencies)
    noise = 1e-12 * np.sqrt(errors.variance)  # of floats: estimates are that large
    assert (np.abs(errors.bias) < noise + 1e-9).all()
    assert (errors.variance[:20] > 100 * Pws(sampling, privacy, mle, grid).errors(frequencies).variance[:20]).all()
    assert errors.variance[0] == pytest.approx(1 / 0.001 - 1)  # a key of one element is seen with probability delta


def test_sequential_estimators_state_their_limits() -> None:
    privacy = Privacy(1, "1e-6")
    with refused("biased_down takes tokens up to 4194304", hidden=[5_000_001]):
        biased_down([1, 5_000_001], KeepAll(), privacy)
    with refused("unbiased takes tokens up to 4194304", hidden=[5_000_001]):
        unbiased([1, 5_000_001], KeepAll(), privacy)
    with refused("has no unbiased estimate, or one above 1e150"):  # grows as exp(epsilon)
        unbiased([2000], KeepAll(), privacy)
    with refused("has no unbiased estimate"):  # nothing that is never sampled can be estimated without bias
        unbiased([3], CustomSampling([0, "0.5", "0.5"]), privacy)
    with refused("biased_down takes tokens up to 50"):
        biased_down([51], CustomSampling(STAIRS), privacy)


@pytest.mark.filterwarnings("ignore:unbiased")
def test_where_sampling_alone_is_private_unbiased_is_inverse_probability() -> None:
    sampling, privacy = Priority("1e-13"), Privacy("0.1", "1e-6")  # q <= delta: tokens are the frequencies
    tokens = np.array([1, 77, 50_000])
    np.testing.assert_allclose(unbiased(tokens, sampling, privacy), inverse_probability(tokens, sampling), rtol=1e-12)
    np.testing.assert_allclose(
        biased_down(tokens, sampling, privacy), inverse_probability(tokens, sampling), rtol=1e-12
    )


def test_a_larger_table_holds_the_smaller() -> None:
    sampling, privacy = Ppswor("0.001"), Privacy(1, "1e-6")
    few = biased_down([[5, 900]], sampling, privacy)
    assert few.shape == (1, 2)
    assert few[0].tolist() == biased_down([5, 900, 20_000], sampling, privacy)[:2].tolist()
    assert biased_down([], sampling, privacy).shape == (0,)


def test_estimates_are_kept_apart_by_all_that_they_depend_on() -> None:
    def estimates(*arguments: Any) -> list[float]:
        return [round(x, 9) for x in biased_down([40, 400], *arguments).tolist()]

    privacy = Privacy(1, "1e-6")
    settings = [
        (KeepAll(), privacy),
        (Ppswor("0.01"), privacy),
        (Priority("0.01"), privacy),
        (KeepAll(), Privacy("0.5", "1e-6")),
        (KeepAll(), Privacy(1, "1e-7")),
        (KeepAll(), privacy, 2),
        (KeepAll(), privacy, 1, "power:2"),
        (KeepAll(), privacy, 1, np.sqrt),
    ]
    first = [estimates(*setting) for setting in settings]
    assert first == [estimates(*setting) for setting in settings]
    assert len({tuple(values) for values in first}) == len(settings)


def test_inverse_probability_is_the_papers() -> None:
    estimates = inverse_probability([[1, 50], [100, 200]], Priority("0.01"))
    assert estimates.tolist() == [[100, 100], [100, 200]]
    assert inverse_probability([1, 2], CustomSampling([0, "0.25"]), "keys").tolist() == [0, 4]


@pytest.mark.filterwarnings("ignore:unbiased")
def test_the_variance_of_unbiased_is_a_number_wherever_it_estimates() -> None:
    privacy = Privacy(1, "1e-6")
    errors = Pws(KeepAll(), privacy, unbiased, 1).errors([300, 320])
    assert np.isfinite(errors.variance).all()
    assert errors.variance[1] > 1e12 * errors.variance[0]  # grows as exp(2 epsilon i)
    with refused("has no unbiased estimate"):
        Pws(KeepAll(), privacy, unbiased, 1).errors([400])


def test_the_likeliest_frequency_lies_within_a_sequence_of_q() -> None:
    """A release of a frequency near the end of the sequence failed by chance, once its tokens were drawn."""
    sampling, privacy = CustomSampling(["0.5"] * 40), Privacy(1, "0.001")
    laws = [token_law(i, sampling, privacy, 2) for i in range(1, 41)]
    cells = sorted({int(cell) for law in laws for cell, p in zip(law.cells, law.probabilities, strict=True) if p > 0})
    likeliest = likeliest_frequencies(cells, sampling, privacy, 2)
    assert max(cells) == 80
    for cell, frequency in zip(cells, likeliest.tolist(), strict=True):
        column = [dict(zip(law.cells.tolist(), law.probabilities.tolist(), strict=True)).get(cell, 0.0) for law in laws]
        assert column[frequency - 1] >= max(column) * (1 - 1e-9)
    assert np.isfinite(mle(np.array(cells), sampling, privacy, 2)).all()
