"""zCDP and GDP budgets: conversions against other ways to compute them, and proofs against the integers drawn from."""

import json
import math
import random
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from dp_accounting.pld import privacy_loss_distribution  # type: ignore[import-untyped]
from dp_accounting.rdp import rdp_privacy_accountant  # type: ignore[import-untyped]
from mpmath import mp, mpf  # type: ignore[import-untyped]

import dpsample
from dpsample import InvalidValue, KeepAll, Ppswor, Priority, Privacy, PrivacyViolation, SampleSize, Sampling
from dpsample.accounting.budget import Budget
from dpsample.accounting.gaussian import gaussian_noise, noise_within, scheme_within, set_aside, variance_of
from dpsample.accounting.losses import Losses
from dpsample.accounting.many_keys import certify_many_keys, chosen_per_key, even_chance, noise_atoms
from dpsample.accounting.proof import prove, prove_release
from dpsample.accounting.renyi import ORDERS as RENYI_ORDERS
from dpsample.accounting.renyi import RenyiCurve
from dpsample.cli import cli
from dpsample.definitions import Definition, Gdp, Zcdp
from dpsample.planning import Frequencies, Setting, forecast, smallest_epsilon
from dpsample.planning.setting import planned_sampling
from dpsample.release.terms import Terms
from dpsample.scheme.integer import integer_law
from dpsample.scheme.noise import BITS, KeyNoise
from dpsample.scheme.renyi_steps import RenyiSteps
from dpsample.scheme.reporting import reporting_probabilities

ORDERS = [1 + 10**e for e in np.linspace(-4, 3, 60).tolist()]
BUDGETS = [Privacy.zcdp("0.1", "1e-6"), Privacy.gdp("0.5", "1e-6"), Privacy.zcdp(1, "1e-10"), Privacy.gdp(2, "1e-4")]


@pytest.fixture(autouse=True)
def _digits() -> None:
    mp.dps = 60


def real(x: Fraction) -> mpf:
    return mpf(x.numerator) / x.denominator


def points(n: int, seed: int, low: float, high: float) -> list[tuple[Fraction, Fraction]]:
    """Parameters and deltas, spread over orders of magnitude."""
    draw = random.Random(seed)
    return [
        (Fraction(f"{10 ** draw.uniform(low, high):.4g}"), Fraction(f"{10 ** draw.uniform(-15, -1):.4g}"))
        for _ in range(n)
    ]


def gaussian_delta(mu: mpf, epsilon: mpf) -> mpf:
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


# --- conversions -----------------------------------------------------------------------------------------------------


def test_the_epsilon_of_zcdp_is_the_least_of_all_orders() -> None:
    for rho, delta in points(60, 1, -5, 1):
        epsilon = Zcdp(rho).epsilon(delta)

        def at(alpha: mpf, rho: Fraction = rho, delta: Fraction = delta) -> mpf:
            return real(rho) * alpha + mp.log(1 - 1 / alpha) - (mp.log(real(delta)) + mp.log(alpha)) / (alpha - 1)

        least = min(at(1 + mpf(10) ** (mpf(e) / 100)) for e in range(-300, 900, 12))
        assert epsilon <= max(real(Fraction(1, 10**12)), least * (1 + mpf("1e-9")))
        if epsilon > Fraction(1, 10**12):
            slope = partial(
                lambda u, rho, delta: rho * u**2 + mp.log(delta * (1 + u)), rho=real(rho), delta=real(delta)
            )
            true = at(1 + mp.findroot(slope, mp.sqrt(1 / real(rho))))
            assert true <= real(epsilon) <= true * (1 + mpf("2e-8"))


def test_the_epsilon_of_zcdp_is_not_above_that_of_dp_accounting() -> None:
    orders = np.concatenate([1 + np.geomspace(1e-3, 10, 300), np.arange(12, 3000)])
    for rho, delta in points(60, 2, -4, 0.5):
        theirs = rdp_privacy_accountant.compute_epsilon(orders, float(rho) * orders, float(delta))[0]
        assert float(Zcdp(rho).epsilon(delta)) <= theirs * (1 + 1e-8) + 1e-12
        assert float(Zcdp(rho).epsilon(delta)) >= theirs * 0.99


def test_the_epsilon_of_gdp_is_where_the_profile_of_gaussian_noise_is_delta() -> None:
    for mu, delta in points(100, 3, -4, 0.8):
        epsilon = Gdp(mu).epsilon(delta)
        assert gaussian_delta(real(mu), real(epsilon)) <= real(delta)
        if epsilon > Fraction(1, 10**12):
            assert gaussian_delta(real(mu), real(epsilon) * (1 - mpf("2e-8"))) > real(delta)


def test_the_epsilon_of_gdp_is_between_the_bounds_of_dp_accounting() -> None:
    for mu, delta in [(0.1, 1e-6), (0.5, 1e-6), (1.0, 1e-8), (3.0, 1e-4)]:
        low, high = (
            privacy_loss_distribution.from_gaussian_mechanism(
                1 / mu, pessimistic_estimate=pessimistic, value_discretization_interval=1e-4
            ).get_epsilon_for_delta(delta)
            for pessimistic in (False, True)
        )
        assert low * (1 - 1e-6) <= float(Gdp(mu).epsilon(Fraction(str(delta)))) <= high * (1 + 1e-6)


def randomized_response_divergence(epsilon: mpf, alpha: mpf) -> mpf:
    p = 1 / (1 + mp.exp(-epsilon))
    return mp.log(p**alpha * (1 - p) ** (1 - alpha) + (1 - p) ** alpha * p ** (1 - alpha)) / (alpha - 1)


def test_every_epsilon_has_its_rho_at_every_order_and_no_less() -> None:
    for epsilon in ("1e-3", "0.1", "0.45", "1", "3", "10", "30"):
        rho = real(Zcdp.cost(Fraction(epsilon)))
        for order in ORDERS:
            assert randomized_response_divergence(mpf(epsilon), mpf(order)) <= rho * mpf(order)
        near = 1 + mpf("1e-20")
        assert randomized_response_divergence(mpf(epsilon), near) / near >= rho * (1 - mpf("1e-15"))


def test_every_epsilon_has_its_mu_at_every_test_and_no_less() -> None:
    """The trade-off function of randomized response lies above that of N(0, 1) and N(mu, 1), and touches it."""
    for epsilon in ("1e-3", "0.1", "0.45", "1", "3", "10", "30"):
        mu, e = mp.sqrt(real(Gdp.cost(Fraction(epsilon)))), mpf(epsilon)
        quantile = [mpf(x) / 10 for x in range(-90, 91)]
        for x in [*quantile, -mu / 2]:
            alpha = mp.ncdf(x)  # Phi^-1(alpha) = x, so that G(alpha) = Phi(-x - mu)
            response = max(1 - mp.exp(e) * alpha, mp.exp(-e) * (1 - alpha))
            assert mp.ncdf(-x - mu) <= response + mpf("1e-50")
        vertex = 1 / (1 + mp.exp(e))
        assert abs(mp.ncdf(-mu / 2) - vertex) <= vertex * mpf("1e-13")


@pytest.mark.parametrize("definition", [Zcdp, Gdp])
def test_what_is_allowed_and_what_it_costs_are_inverse(definition: type[Zcdp] | type[Gdp]) -> None:
    last = Fraction(0)
    for value, _ in sorted(points(40, 4, -6, 0.7)):
        whole = definition(value)
        amount = value if definition is Zcdp else value**2
        epsilon = whole.pure()
        assert last <= epsilon
        last = epsilon
        assert amount * (1 - Fraction(1, 10**7)) <= definition.cost(epsilon) <= amount
        assert whole.allows(epsilon)
        assert not whole.allows(epsilon * (1 + Fraction(1, 10**8)))
        assert whole.allows(whole.pure(Fraction(1, 7)), 7)
        assert not whole.allows(whole.pure(Fraction(1, 6)), 7)
        parts = [whole.pure(Fraction(1, 20)), whole.pure(Fraction(1, 10))]
        left = whole.less(parts).value
        left = left if definition is Zcdp else left**2
        assert left + sum(map(definition.cost, parts)) <= amount
        assert left >= amount * Fraction(85, 100) * (1 - Fraction(1, 10**7))
        assert definition.implied([epsilon]).value >= value * (1 - Fraction(1, 10**7))
        assert not definition.implied([epsilon]).allows(epsilon * 2)


def test_epsilon_grows_with_the_parameter_and_falls_with_delta() -> None:
    for make in (Privacy.zcdp, Privacy.gdp):
        grid = [[make(v, d).epsilon for d in ("1e-12", "1e-8", "1e-4")] for v in ("0.01", "0.1", "0.5", "1")]
        for row in grid:
            assert row == sorted(row, reverse=True)
        for column in zip(*grid, strict=True):
            assert list(column) == sorted(column)


# --- the value -------------------------------------------------------------------------------------------------------


def test_a_budget_states_its_definition() -> None:
    zcdp, gdp = Privacy.zcdp(0.1, 1e-6), Privacy.gdp("0.5", "1e-6")
    assert (repr(zcdp), repr(gdp)) == (
        "Privacy.zcdp(rho='0.1', delta='1e-06')",
        "Privacy.gdp(mu='0.5', delta='1e-06')",
    )
    plain = Privacy(zcdp.epsilon, zcdp.delta)
    assert plain != zcdp
    assert hash(plain) != hash(zcdp)
    assert len({plain, zcdp, Privacy.zcdp("1/10", "1e-6")}) == 2
    assert plain.to_json() == {"epsilon": "2.20604636", "delta": "1e-06"}
    assert zcdp.to_json() == {**plain.to_json(), "zcdp": "0.1"}
    assert gdp.to_json()["gdp"] == "0.5"
    for privacy in (zcdp, gdp, plain):
        assert Privacy.from_json(json.loads(json.dumps(privacy.to_json()))) == privacy


@pytest.mark.parametrize(
    "form",
    [
        {"epsilon": "2.2", "delta": "1e-06", "zcdp": "0.1"},
        {"epsilon": "2.20604637", "delta": "1e-06", "zcdp": "0.1"},
        {"delta": "1e-06", "zcdp": "0.1"},
        {"epsilon": "2.20604636", "delta": "1e-06", "zcdp": "0.1", "gdp": "0.1"},
        {"epsilon": "2.20604636", "delta": "1e-06", "rdp": "0.1"},
        {"epsilon": "2.20604636", "delta": "1e-06", "zcdp": "-0.1"},
    ],
)
def test_a_form_that_does_not_fit_is_refused(form: dict[str, str]) -> None:
    with pytest.raises(InvalidValue):
        Privacy.from_json(form)


@pytest.mark.parametrize("make", [Privacy.zcdp, Privacy.gdp])
def test_what_is_no_budget_is_refused(make: Any) -> None:
    for value, delta in [(0, 1e-6), (-1, 1e-6), ("1e-13", 1e-6), ("1e7", 1e-6), (0.1, 0), (0.1, 1), (0.1, "1e-300")]:
        with pytest.raises(InvalidValue):
            make(value, delta)


def test_plain_budgets_are_divided_as_before() -> None:
    budget = Budget(Privacy(1, "1e-6"), size=Fraction(1, 20), total=Fraction(1, 10))
    assert budget.keys == budget.per_key == Privacy("0.85", "1e-6")
    assert budget.spent_on(Fraction(1, 20)) == Fraction(1, 20)


# --- schemes of an epsilon and a delta -------------------------------------------------------------------------------


def outcome(frequency: int, sampling: Sampling, privacy: Privacy) -> dict[Fraction | None, float]:
    """The probability of each token, end to end, from the integers that are drawn from; None: not reported."""
    if frequency == 0:
        return {None: 1.0}
    law = integer_law(frequency, sampling, privacy, 1)
    q = float(sampling.q([frequency])[0])
    tokens: dict[Fraction | None, float] = {
        Fraction(frequency - k): q * float(p) for k, p in enumerate(law.probabilities)
    }
    return {**tokens, None: 1 - q * float(law.reported)}


def without_exceptions(P: np.ndarray, Q: np.ndarray, epsilon: float, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """Laws P0 and Q0 with ratios up to exp(epsilon), P >= (1 - delta) P0 and Q >= (1 - delta) Q0: KOV 2015."""
    P1, Q1 = np.minimum(P, math.exp(epsilon) * Q), np.minimum(Q, math.exp(epsilon) * P)
    less = min(P1.sum(), Q1.sum())
    assert 1 - less <= delta * (1 + 1e-9) + 1e-13
    for law, other in ((P1, Q1), (Q1, P1)):
        if law.sum() > less:
            room = law - math.exp(-epsilon) * other
            law -= room * (law.sum() - less) / room.sum()
    return P1 / less, Q1 / less


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.05"), Priority("0.02")], ids=str)
@pytest.mark.parametrize("whole", [Privacy.zcdp("0.1", "0.01"), Privacy.gdp("0.6", "0.001")], ids=repr)
def test_a_scheme_has_its_definition_outside_of_half_of_delta(sampling: Sampling, whole: Privacy) -> None:
    each = scheme_within(whole, 1)
    assert each.delta == whole.delta / 2
    assert isinstance(whole.definition, Definition)
    for r in range(1, 60):
        before, now = outcome(r - 1, sampling, each), outcome(r, sampling, each)
        tokens = sorted({*before, *now}, key=lambda t: t or 0)
        P, Q = (np.array([law.get(t, 0.0) for t in tokens]) for law in (now, before))
        P0, Q0 = without_exceptions(P, Q, float(each.epsilon), float(each.delta))
        shared = (P0 > 0) & (Q0 > 0)
        assert P0[~shared].sum() < 1e-12
        assert Q0[~shared].sum() < 1e-12
        for a, b in ((P0[shared], Q0[shared]), (Q0[shared], P0[shared])):
            if isinstance(whole.definition, Zcdp):
                for order in ORDERS:
                    loss = np.log(a / b)
                    moment = math.log(float((a * np.exp((order - 1) * (loss - loss.max()))).sum()))
                    divergence = moment / (order - 1) + loss.max()
                    assert divergence <= float(whole.definition.rho) * order + 1e-10 / (order - 1)
            else:
                mu = real(whole.definition.mu)
                for epsilon in np.linspace(-1, 2, 31).tolist():
                    excess = np.maximum(a - math.exp(epsilon) * b, 0).sum()
                    assert excess <= float(gaussian_delta(mu, mpf(epsilon))) + 1e-12


# --- Gaussian noise --------------------------------------------------------------------------------------------------


def rounded_gaussian(variance: Fraction, side: int) -> list[mpf]:
    """Probabilities of -side, ..., side, by mpmath."""
    edge = [mp.erfc((mpf(j) - mpf(1) / 2) / mp.sqrt(2 * real(variance))) / 2 for j in range(1, side + 2)]
    outer = [edge[j - 1] - edge[j] for j in range(side, 0, -1)]
    return [*outer, 1 - 2 * edge[0], *outer[::-1]]


@pytest.mark.parametrize("whole", BUDGETS, ids=repr)
@pytest.mark.parametrize("keys", [1, 3, 50])
def test_noise_is_gaussian_outside_of_what_is_set_aside(whole: Privacy, keys: int) -> None:
    """The proof of docs/budget.md, step by step, for the integers of the table and another library's erfc."""
    noise = noise_within(whole, keys)
    assert noise is not None
    variance, side = variance_of(whole, keys), noise.cells // 2
    aside = set_aside(noise, variance)
    assert aside is not None
    assert keys * aside <= whole.delta / 2
    g = rounded_gaussian(variance, side)
    within, middle = mp.fsum(g), g[side]
    P, Q = ([mpf(n) / 2**BITS for n in part] for part in (noise.table[:-1], noise.table[1:]))  # on the common outputs
    spread = [min(a, b) / (within - middle) for a, b in pairwise(g)]
    assert abs(mp.fsum(spread) - 1) < mpf("1e-40")
    lost = 1 - within + g[0]
    P0 = [a + lost * s for a, s in zip(g[:-1], spread, strict=True)]
    Q0 = [b + lost * s for b, s in zip(g[1:], spread, strict=True)]
    assert abs(mp.fsum(P0) - 1) < mpf("1e-40")
    assert abs(mp.fsum(Q0) - 1) < mpf("1e-40")
    for real_one, ideal in ((P, P0), (Q, Q0)):
        assert all(a >= (1 - real(aside)) * b for a, b in zip(real_one, ideal, strict=True))
    # and these are a post-processing of Gaussian noise: their divergences, and tests, are bounded by its
    for order in ORDERS[::6]:
        moment = mp.fsum(a ** mpf(order) * b ** (1 - mpf(order)) for a, b in zip(P0, Q0, strict=True))
        assert mp.log(moment) / (mpf(order) - 1) <= mpf(order) / (2 * real(variance))
    for epsilon in np.linspace(-2, 4, 13).tolist():
        excess = mp.fsum(max(a - mp.exp(epsilon) * b, 0) for a, b in zip(P0, Q0, strict=True))
        assert excess <= gaussian_delta(1 / mp.sqrt(real(variance)), mpf(epsilon)) + mpf("1e-50")


@pytest.mark.parametrize("whole", BUDGETS[:2], ids=repr)
@pytest.mark.parametrize("keys", [1, 20])
def test_noise_has_the_epsilon_and_delta_by_its_loss_distribution_too(whole: Privacy, keys: int) -> None:
    noise = noise_within(whole, keys)
    assert noise is not None
    delta = (Losses.of_atoms(noise_atoms(noise), noise.delta) ** keys).delta(whole.epsilon)
    assert delta <= whole.delta


@pytest.mark.parametrize("whole", BUDGETS, ids=repr)
def test_noise_is_the_shortest(whole: Privacy) -> None:
    for keys in (1, 10):
        noise = noise_within(whole, keys)
        assert noise is not None
        shorter = gaussian_noise(variance_of(whole, keys), noise.cells // 2 - 1)
        assert shorter is not None
        with pytest.raises(PrivacyViolation, match="must hold for"):
            certify_many_keys(shorter, keys, whole)


def test_a_table_with_one_integer_off_is_refused() -> None:
    whole, keys = Privacy.zcdp("0.1", "1e-6"), 5
    noise = noise_within(whole, keys)
    assert noise is not None
    assert certify_many_keys(noise, keys, whole).delta <= whole.delta
    for at, off in product(range(len(noise.half) - 1), (-1, 1)):
        half = list(noise.half)
        half[at] += off
        with pytest.raises(InvalidValue, match="sum to 2"):
            KeyNoise(noise.cells, tuple(half))
        half[-1] -= 2 * off  # the middle makes up for it
        with pytest.raises(PrivacyViolation):
            certify_many_keys(KeyNoise(noise.cells, tuple(half)), keys, whole)
    for other in (Privacy.zcdp("0.0999", "1e-6"), Privacy.gdp("0.447", "1e-6"), Privacy.zcdp("0.1", "1e-7")):
        with pytest.raises(PrivacyViolation):
            certify_many_keys(noise, keys, other)
    with pytest.raises(PrivacyViolation):
        certify_many_keys(noise, keys + 1, whole)
    with pytest.raises(PrivacyViolation):
        certify_many_keys(KeyNoise.of(np.ones(60)), keys, whole)
    with pytest.raises(PrivacyViolation):
        certify_many_keys(RenyiSteps(Fraction(14), Fraction("0.0001"), Fraction("1e-9")), keys, whole)


def test_a_scheme_beyond_the_budget_is_refused() -> None:
    for whole, keys in product(BUDGETS, (1, 7)):
        each = scheme_within(whole, keys)
        assert certify_many_keys(each, keys, whole).delta <= whole.delta
        for more in (
            Privacy(each.epsilon * (1 + Fraction(1, 10**7)), each.delta),
            Privacy(each.epsilon, each.delta * (1 + Fraction(1, 10**7))),
        ):
            with pytest.raises(PrivacyViolation):
                certify_many_keys(more, keys, whole)


def test_noise_that_needs_finer_integers_or_more_cells_is_not_used() -> None:
    with pytest.warns(dpsample.PrivacyWarning):
        whole = Privacy.zcdp(3, "1e-50")
    assert noise_within(whole, 1) is None
    assert isinstance(chosen_per_key(whole, 1), Privacy)
    assert noise_within(Privacy.zcdp("1e-12", "1e-6"), 1) is None
    with pytest.warns(dpsample.PrivacyWarning):
        assert noise_within(Privacy.gdp(10**5, "1e-6"), 1) is None


def test_the_better_method_is_chosen_from_parameters_alone() -> None:
    whole = Privacy.zcdp("0.1", "1e-6")
    for keys in (1, 2, 50):
        noise, scheme = chosen_per_key(whole, keys), scheme_within(whole, keys)
        assert isinstance(noise, KeyNoise)
        assert even_chance(noise) < even_chance(scheme) / 2
        assert chosen_per_key(whole, keys, True, True) == noise
        assert chosen_per_key(whole, keys, False) == chosen_per_key(whole, keys, False, True) == scheme


# --- releases --------------------------------------------------------------------------------------------------------

ELEMENTS = {f"key {i}": 400 for i in range(20)}
CLICKS = pa.table({"who": [f"user {i}" for i in range(8000)], "key": [f"key {i % 20}" for i in range(8000)]})
OPTIONS: list[dict[str, Any]] = [
    {},
    {"keys_only": True},
    {"total": True},
    {"sampling": Ppswor(1)},
    {"size": SampleSize(10**6), "total": "0.1"},
    {"user": "who", "max_keys_per_user": 1},
    {"user": "who", "max_keys_per_user": 20, "total": True},
    {"user": "who", "max_keys_per_user": 20, "keys_only": True},
    {"user": "who", "max_keys_per_user": 3, "sampling": Ppswor(1)},
]


@pytest.mark.chance("odds 1e-9: one of 20 keys, all far above the threshold, is not sampled or not reported")
@pytest.mark.parametrize(
    ("whole", "options"),
    [((Privacy.zcdp("0.2", "1e-6"), Privacy.gdp("0.6", "1e-6"))[k % 2], options) for k, options in enumerate(OPTIONS)],
    ids=str,
)
def test_a_release_is_made_written_read_and_proved(whole: Privacy, options: dict[str, Any], tmp_path: Path) -> None:
    if "user" in options:
        made = dpsample.release(CLICKS, "key", privacy=whole, **options)
    else:
        made = dpsample.release(ELEMENTS, privacy=whole, **options)
    assert made.privacy == whole
    assert len(made) == 20
    assert "outside of delta 5e-07: epsilon" in repr(made)
    made.write(tmp_path / "release.parquet")
    again = dpsample.read_release(tmp_path / "release.parquet")
    assert again == made
    assert again.privacy.definition == whole.definition
    proof = prove_release(again.terms)
    assert proof.complete
    assert proof.composition is not None
    assert proof.composition.delta <= whole.delta
    assert proof.implied == ()
    page = str(proof)
    assert str(whole.definition) in page
    assert "Also:" not in page
    if not made.keys_only:
        assert made.sum().value > 0
    made.report().write(tmp_path / "release.html")
    bought = again.terms.size and again.terms.size.weights, again.total, again.terms.dropped
    parts = [part.epsilon for part in bought if part]
    assert again.terms.keys_privacy == whole.less(parts)


def test_terms_that_do_not_add_up_are_refused() -> None:
    whole = Privacy.zcdp("0.1", "1e-6")
    good = Terms(whole, KeepAll(), ("query",), per_key=scheme_within(whole, 1))
    assert Terms.from_json(good.to_json(0)) == good
    for each in (whole, Privacy(whole.epsilon, whole.delta), Privacy("0.46", "5e-7"), Privacy("0.45", "6e-7")):
        with pytest.raises(InvalidValue, match="adds up"):
            replace(good, per_key=each)
    noise = noise_within(Privacy.zcdp("0.11", "1e-6"), 1)
    assert noise is not None
    with pytest.raises(PrivacyViolation):
        prove_release(replace(good, per_key=noise, grid=1))
    with pytest.raises(InvalidValue, match="adds up"):  # the noise is for users, or for zCDP and GDP
        Terms(Privacy(1, "1e-6"), KeepAll(), ("query",), per_key=noise, grid=1)


@pytest.mark.chance("certain: nothing of a sample that is drawn is asserted but its terms")
def test_a_sample_of_users_gets_a_method_for_samples() -> None:
    clicks = pa.table({"who": [f"user {i}" for i in range(500)], "key": ["a"] * 500})
    for whole in (Privacy.zcdp("0.2", "1e-6"), Privacy(1, "1e-6")):
        drawn = dpsample.sample(clicks, "key", user="who", max_keys_per_user=20, sampling=Ppswor(1))
        assert isinstance(dpsample.sanitize(drawn, privacy=whole).per_key, Privacy)


@pytest.mark.chance("certain: a ledger and terms, whatever was drawn")
def test_a_ledger_counts_the_epsilon_and_delta(tmp_path: Path) -> None:
    path, whole = tmp_path / "x.ledger", Privacy.zcdp("0.1", "1e-6")
    dpsample.new_ledger(path, "x", Privacy(3, "1e-5"))
    dpsample.release(ELEMENTS, privacy=whole, ledger=path)
    assert dpsample.read_ledger(path).spent[:2] == (whole.epsilon, whole.delta)
    with pytest.raises(dpsample.DpsampleError, match="together"):
        dpsample.release(ELEMENTS, privacy=whole, ledger=path)


def test_the_curve_of_a_definition_is_its_own() -> None:
    zcdp, gdp = RenyiCurve.of_privacy(Privacy.zcdp("0.1", "1e-6")), RenyiCurve.of_privacy(Privacy.gdp("0.5", "1e-6"))
    assert zcdp.delta == gdp.delta == Fraction("5e-7")
    assert zcdp.divergences == tuple(order / 10 for order in RENYI_ORDERS)
    assert gdp.divergences == tuple(order / 8 for order in RENYI_ORDERS)


@pytest.mark.chance("certain: a ledger and terms, whatever was drawn")
def test_a_renyi_ledger_adds_up_rho(tmp_path: Path) -> None:
    path, each = tmp_path / "x.ledger", Privacy.zcdp("0.01", "1e-7")
    dpsample.new_ledger(path, "x", Privacy(3, "1e-5"), account="renyi")
    for _ in range(5):
        dpsample.release(ELEMENTS, privacy=each, ledger=path)
    epsilon = dpsample.read_ledger(path).spent[0]
    together = Privacy.zcdp("0.05", "1e-5").epsilon
    assert float(together) < float(epsilon) < 1.3 * float(together) < 5 * float(each.epsilon) / 2


@pytest.mark.parametrize("keys", [None, 1, 30], ids=str)
@pytest.mark.parametrize("whole", [Privacy.zcdp("0.1", "1e-6"), Privacy.gdp("0.5", "1e-6")], ids=str)
@pytest.mark.chance("certain: the terms of a release do not depend on what is drawn")
def test_a_plan_has_the_laws_of_the_release(whole: Privacy, keys: int | None) -> None:
    rows = pa.table({"u": list(range(200)), "k": ["a"] * 200})
    users: dict[str, Any] = {} if keys is None else {"user": "u", "max_keys_per_user": keys}
    made = dpsample.release(rows, "k", privacy=whole, **users)
    frequencies = {5: 100, 40: 7, 300: 2}
    found = forecast(Frequencies.of(frequencies), Setting(whole, max_keys_per_user=keys))
    assert found.setting.per_key == made.per_key
    pi = reporting_probabilities(list(frequencies), KeepAll(), made.per_key)
    assert found.pws.keys == pytest.approx(float(pi @ list(frequencies.values())), rel=1e-12)
    assert found.pws.nrmse is not None
    assert str(whole) in found.notes
    assert Privacy.from_json({name: found.to_json()[name] for name in whole.to_json()}) == whole


@pytest.mark.parametrize("keys", [None, 20], ids=str)
def test_baselines_are_within_a_defined_budget(keys: int | None) -> None:
    """Randomized response, the worst of a pure epsilon, is within rho / k at each order; half of delta is left."""
    rho, delta = 0.1, 1e-6
    setting = Setting(Privacy.zcdp("0.1", "1e-6"), max_keys_per_user=keys)
    made, each = forecast([200] * 10, setting, errors=False), setting.budget.composed_per_key
    epsilon, k = float(each.epsilon), keys or 1
    assert float(each.delta) == pytest.approx(delta / 2 / k, rel=1e-8)
    worst = max(
        math.log((math.exp(a * epsilon) + math.exp(epsilon - a * epsilon)) / (1 + math.exp(epsilon))) / (a - 1) / a
        for a in np.linspace(1.0001, 200, 200_000)
    )
    assert k * worst == pytest.approx(rho, rel=1e-3)
    cutoff = math.log(1 / float(each.delta)) / epsilon + 1
    reached = 1 - math.exp(-epsilon * (200 - cutoff)) / 2 if cutoff < 200 else math.exp(epsilon * (200 - cutoff)) / 2
    assert {m.method: m.keys for m in made.methods}["SbH"] == pytest.approx(10 * reached, rel=1e-9)


def test_goals_are_for_epsilon_and_delta() -> None:
    setting = Setting(Privacy.zcdp("0.1", "1e-6"))
    with pytest.raises(InvalidValue, match="a goal finds an epsilon"):
        smallest_epsilon([10, 100], setting, "keys>=1")
    sized = Setting(Privacy.zcdp("0.1", "1e-6"), size=SampleSize(10))
    assert isinstance(planned_sampling(sized, Frequencies.of([10, 100])), Ppswor)


def test_a_plan_of_a_defined_budget_on_the_command_line() -> None:
    plan = ["plan", "--zipf", "1", "--keys", "1000", "-d", "1e-6"]
    lines = CliRunner().invoke(cli, [*plan, "--gdp", "0.5,1"]).output.splitlines()
    assert next(line.split()[0] for line in lines if "of elements" in line) == "mu"
    assert [line.split()[0] for line in lines if line.split()[1:2] == ["PWS"]] == ["0.5", "1"]
    assert lines[-1].startswith("Next: dpsample release EVENTS --key KEY --gdp 1 --delta 1e-06 ")
    for bad in (["--gdp", "1", "--epsilon", "1"], ["--zcdp", "1", "--gdp", "1"], ["--zcdp", "1", "--goal", "keys>=1"]):
        done = CliRunner().invoke(cli, [*plan, *bad])
        assert done.exit_code == 2
        assert "found --" in done.output


@pytest.mark.parametrize("defined", [Privacy.zcdp("0.1", "1e-6"), Privacy.gdp("0.5", "1e-6")], ids=str)
def test_a_ledger_has_a_budget_of_epsilon_and_delta(defined: Privacy, tmp_path: Path) -> None:
    path = tmp_path / "x.ledger"
    for account in ("epsilon", "renyi"):
        with pytest.raises(InvalidValue, match=rf"state Privacy\('{float(defined.epsilon)}', '1e-06'\)"):
            dpsample.new_ledger(path, "x", defined, account=account)
    with pytest.raises(InvalidValue, match="the most that each release may spend"):
        dpsample.new_ledger(path, "x", Privacy(10, "1e-4"), each=defined)
    assert not path.exists()
    dpsample.new_ledger(path, "x", Privacy(defined.epsilon, defined.delta), account="renyi")


# --- the other way round, and the command line -----------------------------------------------------------------------


def test_a_plain_budget_states_what_it_implies() -> None:
    proof = prove(Budget(Privacy(1, "1e-6")), KeepAll())
    zcdp, gdp = proof.implied
    assert float(zcdp.value) == pytest.approx(math.tanh(0.5), rel=1e-8)
    assert float(gdp.value) == pytest.approx(-2 * NormalDist().inv_cdf(1 / (1 + math.e)), rel=1e-8)
    assert f"Also:      rho-zCDP with rho = {float(zcdp.value)}, mu-GDP with mu = " in str(proof)
    parted = prove(Budget(Privacy(1, "1e-6"), total=Fraction(1, 2)), KeepAll())
    assert float(parted.implied[0].value) == pytest.approx(2 * 0.5 * math.tanh(0.25), rel=1e-8)
    many = prove(Budget(Privacy(1, "1e-6"), max_keys=5), KeepAll())
    assert many.implied == ()
    assert "Also:" not in str(many)
    assert "implied" not in many.to_json()
    assert prove(Budget(Privacy(1, "1e-6"), max_keys=1), KeepAll()).implied == proof.implied


def invoke(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, arguments)
    return done.exit_code, done.output


def test_certify_on_the_command_line() -> None:
    code, page = invoke("certify", "--epsilon", "1", "--delta", "1e-6")
    assert code == 0
    assert "Also:      rho-zCDP with rho = 0.462117158, mu-GDP with mu = 1.23203539, outside" in page
    code, page = invoke("certify", "--zcdp", "0.1", "--delta", "1e-6", "--max-keys-per-user", "5", "--with-total")
    assert code == 0
    assert "Spent:     zCDP with rho 0.1 outside of delta 5e-07: epsilon 2.20604636, delta 1e-06" in page
    assert "Gaussian noise of variance" in page
    assert "these add up to no more than zCDP with rho 0.1" in page
    sampled = ["--max-keys-per-user", "20", "--scheme", "ppswor", "--tau", "0.1"]
    for budget in (["--gdp", "0.5"], ["--epsilon", "1"]):
        code, page = invoke("certify", *budget, "--delta", "1e-6", *sampled, "--format", "json")
        assert code == 0
        assert "method" not in json.loads(page)["per_key"]
    for wrong in ([], ["--epsilon", "1", "--zcdp", "1"], ["--zcdp", "1", "--gdp", "1"]):
        code, page = invoke("certify", *wrong, "--delta", "1e-6")
        assert code == 2
        assert "a budget is one of --epsilon, --zcdp and --gdp; found" in page


@pytest.mark.chance("odds 1e-9: a key of 300 elements is reported from frequency 20 on")
def test_release_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("events.csv").write_text("word\n" + "the\n" * 300)
    code, page = invoke("release", "events.csv", "-k", "word", "--gdp", "0.5", "-d", "1e-6", "-o", "out.parquet")
    assert code == 0
    assert "Privacy GDP with mu 0.5 outside of delta 5e-07: epsilon 2.32749546, delta 1e-06" in page
    made = dpsample.read_release("out.parquet")
    assert (made.privacy, len(made)) == (Privacy.gdp("0.5", "1e-6"), 1)
    code, page = invoke("verify", "out.parquet", "--require-complete")
    assert code == 0
    assert "GDP with mu 0.5 outside of delta 5e-07" in page
    code, page = invoke("verify", "out.parquet", "--format", "json")
    assert json.loads(page)["privacy"]["gdp"] == "0.5"
