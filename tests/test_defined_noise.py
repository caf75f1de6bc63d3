"""Proofs of zCDP and GDP against the integers that are drawn from."""

import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from mpmath import mp, mpf  # type: ignore[import-untyped]

import dpsample
from defined_budgets import ORDERS, gaussian_delta, real
from dpsample import InvalidValue, KeepAll, Ppswor, Priority, Privacy, PrivacyViolation, Sampling
from dpsample.accounting.gaussian import gaussian_noise, noise_within, scheme_within, set_aside, variance_of
from dpsample.accounting.losses import Losses
from dpsample.accounting.many_keys import certify_many_keys, chosen_per_key, even_chance, noise_atoms
from dpsample.definitions import Definition, Zcdp
from dpsample.scheme.integer import integer_law
from dpsample.scheme.noise import BITS, KeyNoise
from dpsample.scheme.renyi_steps import RenyiSteps


@pytest.fixture(autouse=True)
def _digits() -> None:
    mp.dps = 60


BUDGETS = [Privacy.zcdp("0.1", "1e-6"), Privacy.gdp("0.5", "1e-6"), Privacy.zcdp(1, "1e-10"), Privacy.gdp(2, "1e-4")]


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
                    assert divergence <= float(whole.definition.value) * order + 1e-10 / (order - 1)
            else:
                mu = real(whole.definition.value)
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
        with pytest.raises(PrivacyViolation, match="does not hold for"):
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
