"""Composed steps: against a recurrence in 50 digits, against dp-accounting, and without noise against the paper's."""

from dataclasses import replace
from fractions import Fraction

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution  # type: ignore[import-untyped]

from dpsample import KeepAll, Ppswor, Privacy, PrivacyViolation
from dpsample.private.sanitizer import Sanitizer
from dpsample.scheme import reporting_probabilities
from dpsample.scheme.certificate import certify_keys
from dpsample.scheme.composed_steps import ComposedSteps
from dpsample.scheme.per_key import PerKey, per_key_from_json
from dpsample.scheme.renyi_steps import RenyiSteps
from dpsample.scheme.reporting import Reporting
from given_coins import GivenCoins
from support import refused

SETTINGS = [("1", "1e-6", "0.01"), ("0.5", "1e-4", "0.01"), ("3", "1e-8", "0.2"), ("0.1", "1e-6", "0.0002")]


def steps(setting: tuple[str, str, str]) -> ComposedSteps:
    return ComposedSteps(*map(Fraction, setting))


def spent(p: mpmath.mpf, r: mpmath.mpf, epsilon: mpmath.mpf, mu: mpmath.mpf) -> mpmath.mpf:
    """The delta of a coin of p against one of r, beside N(mu, 1) against N(0, 1): the integral, in closed form."""

    def noise(e: mpmath.mpf) -> mpmath.mpf:
        return mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)

    total = mpmath.mpf(0)
    for a, b in ((p, r), (1 - p, 1 - r)):
        if a:
            total += a * (noise(epsilon - mpmath.log(a / b)) if b else 1)
    return total


def optimum(setting: tuple[str, str, str], rows: int) -> list[mpmath.mpf]:
    """Pi by bisection in 50 digits: the largest next coin that neither direction forbids."""
    with mpmath.workdps(50):
        epsilon, delta, square = (mpmath.mpf(x) for x in setting)
        mu, pi = mpmath.sqrt(square), [mpmath.mpf(0)]
        for _ in range(rows):
            low, high = pi[-1], mpmath.mpf(1)
            for _ in range(60):
                middle = (low + high) / 2
                worst = max(spent(middle, pi[-1], epsilon, mu), spent(pi[-1], middle, epsilon, mu))
                low, high = (middle, high) if worst <= delta else (low, middle)
            pi.append(low)
    return pi


@pytest.mark.parametrize("setting", SETTINGS[:3])
def test_pi_is_the_optimum_to_eight_figures_and_never_above_it(setting: tuple[str, str, str]) -> None:
    exact = optimum(setting, 22)
    found = reporting_probabilities(np.arange(23), KeepAll(), steps(setting))
    for i in range(1, 23):
        assert found[i] <= float(exact[i]) * (1 + 1e-12)
        # each step loses up to 1e-8, and what is lost early grows
        assert found[i] >= float(exact[i]) * (1 - 1e-6)


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_coin_beside_noise_has_the_privacy_by_dp_accounting(setting: tuple[str, str, str]) -> None:
    """Its optimistic estimate is a lower bound: it must not exceed delta; and it is used up, to 3 % of delta."""
    scheme = steps(setting)
    epsilon, delta, mu = float(scheme.epsilon), float(scheme.delta), float(scheme.square) ** 0.5
    width = epsilon / 2000
    gaussian = privacy_loss_distribution.from_gaussian_mechanism(
        1 / mu, pessimistic_estimate=False, value_discretization_interval=width
    )
    pi = reporting_probabilities(np.arange(400), KeepAll(), scheme)
    used = []
    for i in (2, int(scheme.steps) // 2, int(scheme.steps), int(scheme.steps) + 2):
        coin = privacy_loss_distribution.from_two_probability_mass_functions(
            {0: np.log1p(-pi[i - 1]), 1: np.log(pi[i - 1])},
            {0: np.log1p(-pi[i]), 1: np.log(pi[i])},
            pessimistic_estimate=False,
            value_discretization_interval=width,
        )
        used.append(coin.compose(gaussian).get_delta_for_epsilon(epsilon))
        assert used[-1] <= delta * (1 + 1e-6)
    assert max(used) > 0.97 * delta


def test_with_next_to_no_noise_these_are_the_steps_of_the_paper() -> None:
    paper = reporting_probabilities(np.arange(60), KeepAll(), Privacy("0.5", "1e-6"))
    composed = reporting_probabilities(
        np.arange(60), KeepAll(), ComposedSteps(Fraction("0.5"), Fraction("1e-6"), Fraction("1e-12"))
    )
    assert (composed <= paper * (1 + 1e-12)).all()
    assert (composed >= paper * (1 - 1e-3)).all()


def test_the_certificate_checks_every_step_and_refuses_larger_ones() -> None:
    scheme = steps(SETTINGS[0])
    assert certify_keys(KeepAll(), scheme).complete
    reporting = Reporting.of(KeepAll(), scheme)
    bolder = replace(scheme, square=scheme.square * Fraction(101, 100))  # the same pi beside more noise
    for i in range(2, 30):
        before, now = reporting.pi(i - 1), reporting.pi(i)
        if before < now < reporting.one:
            assert scheme.proves(now, before, reporting.bits)
            assert not bolder.proves(now, before, reporting.bits)
            assert not scheme.proves(now + (now >> 20), before, reporting.bits)


def test_a_wrong_pi_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    scheme = steps(("0.9", "1e-6", "0.01"))
    reporting = Reporting.of(KeepAll(), scheme)
    monkeypatch.setitem(vars(reporting)["_bound"], 7, reporting.pi(7) + (reporting.pi(7) >> 20))
    with pytest.raises(PrivacyViolation, match="frequency 6 to 7"):
        certify_keys(KeepAll(), scheme)


def test_parameters() -> None:
    scheme = steps(SETTINGS[0])
    assert per_key_from_json(scheme.to_json()) == scheme
    with refused("composed steps are for all keys"):
        Reporting.of(Ppswor(tau="0.1"), scheme)
    for wrong in (("1", "1e-6", "0"), ("0", "1e-6", "0.01"), ("1", "0", "0.01"), ("1", "1e-6", "0.06")):
        with refused("leaves nothing of epsilon"):
            steps(wrong)


@pytest.mark.parametrize(
    "scheme", [steps(SETTINGS[0]), RenyiSteps(Fraction(14), Fraction("0.02"), Fraction("1e-7"))], ids=["one", "many"]
)
def test_keys_only_are_decided_by_pi_itself_where_the_first_bits_do_not_tell(scheme: PerKey) -> None:
    reporting = Reporting.of(KeepAll(), scheme)
    sanitizer = Sanitizer(KeepAll(), scheme, 1, keys_only=True)
    frequency = 12
    cut, more = reporting.pi(frequency), reporting.bits - 64
    word, rest = cut >> more, cut & ((1 << more) - 1)
    for rest_of_coin, reported in ((rest - 1, True), (rest, False)):
        if rest_of_coin < 0:
            continue
        coins = GivenCoins(np.array([word], np.uint64), rest_of_coin)
        rows, _ = sanitizer(np.array([frequency]), coins)
        assert (len(rows) == 1) == reported
