"""zCDP and GDP budgets: conversions against other ways to compute them."""

import json
import random
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution  # type: ignore[import-untyped]
from dp_accounting.rdp import rdp_privacy_accountant  # type: ignore[import-untyped]
from mpmath import mp, mpf  # type: ignore[import-untyped]

from defined_budgets import ORDERS, gaussian_delta, real
from dpsample import InvalidValue, Privacy
from dpsample.accounting.budget import Budget
from dpsample.definitions import Gdp, Zcdp


@pytest.fixture(autouse=True)
def _digits() -> None:
    mp.dps = 60


def points(n: int, seed: int, low: float, high: float) -> list[tuple[Fraction, Fraction]]:
    """Parameters and deltas, spread over orders of magnitude."""
    draw = random.Random(seed)
    return [
        (Fraction(f"{10 ** draw.uniform(low, high):.4g}"), Fraction(f"{10 ** draw.uniform(-15, -1):.4g}"))
        for _ in range(n)
    ]


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
