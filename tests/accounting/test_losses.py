"""Loss distributions and Rényi curves: against closed forms, an accountant of others, and exact arithmetic."""

import math
import operator
from fractions import Fraction
from functools import cache, reduce
from itertools import pairwise

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as accountant  # type: ignore[import-untyped]
from flint import arb

from dpsample import Privacy
from dpsample.accounting.composition import composed_delta
from dpsample.accounting.losses import BITS, Losses
from dpsample.accounting.renyi import ORDERS, RenyiCurve, conversion
from dpsample.balls import ball, ceiling, figures_above, floor, precision
from dpsample.errors import InvalidValue

mpmath.mp.dps = 60


Atoms = list[tuple[arb, arb]]


def randomized_response(epsilon: Fraction) -> Atoms:
    """The probabilities of both answers, under two neighbouring datasets."""
    likely = 1 / (1 + (-ball(epsilon)).exp())
    return [(likely, 1 - likely), (1 - likely, likely)]


def laplace_noise(epsilon: Fraction, sensitivity: int = 1) -> Atoms:
    """Discrete Laplace noise and its shift: outcomes up to 0, each of 1 to s - 1, and from s on.

    With a = exp(-epsilon / s), the noise x has probability (1 - a) / (1 + a) a**abs(x).
    """
    s, a = sensitivity, (-ball(epsilon / sensitivity)).exp()
    tail = 1 / (1 + a)
    far = (-ball(epsilon)).exp() * tail
    between = [(tail * (1 - a) * a**x, tail * (1 - a) * a ** (s - x)) for x in range(1, s)]
    return [(tail, far), *between, (far, tail)]


class TestAgainstClosedForms:
    @pytest.mark.parametrize(("epsilon", "times"), [("0.1", 100), ("1", 7), ("0.01", 1000)])
    def test_randomized_response_is_the_optimal_composition_theorem(self, epsilon: str, times: int) -> None:
        with precision():
            losses = Losses.of_atoms(randomized_response(Fraction(epsilon))) ** times
        for whole in (times * Fraction(epsilon) / 10, times * Fraction(epsilon) / 4):
            exact = composed_delta(Privacy(epsilon, "1e-190"), times, whole)
            assert exact * (1 - Fraction("1e-9")) <= losses.delta(whole) <= exact * Fraction("1.01") + Fraction("1e-30")

    def test_masses_are_those_of_both_laws(self) -> None:
        """Divided among two grid points, an outcome keeps both of its probabilities."""
        p, q = Fraction(3, 10), Fraction(2, 10)
        with precision():
            losses = Losses.of_atoms([(ball(p), ball(q)), (ball(1 - p), ball(1 - q))])
        assert 0 <= sum(losses.masses) - (1 << BITS) <= 8
        back = mpmath.mpf(0)
        for n, mass in enumerate(losses.masses):
            back += mpmath.mpf(mass) / 2**BITS * mpmath.exp(-mpmath.mpf(losses.first + n) / 2**losses.step)
        assert abs(back - 1) < mpmath.mpf("1e-30")


KINDS = ("response", "laplace")
SIZES = tuple(round(0.022 * 1.37**n, 3) for n in range(13))  # up to 0.96; few, so that each is made once
STEP = 1e-3  # of the other accountant
Part = tuple[str, float, int]  # a kind, its size, and how often


def random_compositions(number: int) -> list[tuple[Part, ...]]:
    """Distinct ones, seeded; each has an epsilon of about 0.3 to 8 all in all."""
    generator = np.random.default_rng(0)
    distinct: dict[tuple[Part, ...], None] = {}
    while len(distinct) < number:
        parts = []
        for kind in generator.permutation(KINDS)[: generator.integers(1, 3)]:
            times = int(generator.choice([1, 2, 5, 20]))
            sizes = [size for size in SIZES if 0.1 <= size * math.sqrt(times) <= 1]
            parts.append((str(kind), float(generator.choice(sizes)), times))
        distinct[tuple(parts)] = None
    return list(distinct)


@cache
def our_part(kind: str, size: float, times: int) -> Losses:
    value = Fraction(str(size))
    with precision():
        atoms = randomized_response(value) if kind == "response" else laplace_noise(value)
    return Losses.of_atoms(atoms) ** times


@cache
def their_part(kind: str, size: float, times: int, pessimistic: bool) -> accountant.PrivacyLossDistribution:
    options = {"pessimistic_estimate": pessimistic, "value_discretization_interval": STEP}
    if kind == "response":
        one = accountant.from_randomized_response(2 / (1 + math.exp(size)), 2, **options)
    else:
        one = accountant.from_discrete_laplace_mechanism(size, **options)
    return one.self_compose(times)


@pytest.mark.xdist_group("losses")  # in one process, for the caches
@pytest.mark.parametrize("block", range(2))
def test_never_below_an_optimistic_nor_far_above_a_pessimistic_accountant(block: int) -> None:
    """Of 80 random compositions, seeded: at the epsilon that dp-accounting states for a delta, and 1 % above it."""
    for parts in random_compositions(80)[40 * block : 40 * (block + 1)]:
        losses = reduce(operator.mul, [our_part(*part) for part in parts])
        low, high = (
            reduce(accountant.PrivacyLossDistribution.compose, [their_part(*part, pessimistic) for part in parts])
            for pessimistic in (False, True)
        )
        for delta in (1e-3, 1e-7):
            optimistic, pessimistic = low.get_epsilon_for_delta(delta), high.get_epsilon_for_delta(delta)
            if optimistic > 1e-9:
                assert losses.delta(Fraction(optimistic - 1e-9)) >= Fraction(str(delta)), parts
            assert losses.delta(Fraction(pessimistic * 1.01 + 1e-9)) <= Fraction(str(delta)), parts


class TestCurves:
    @pytest.mark.parametrize("epsilon", ["0.01", "0.5", "3"])
    def test_divergences_are_upper_bounds_and_tight(self, epsilon: str) -> None:
        curve = RenyiCurve.of_privacy(Privacy(epsilon, "1e-9"))
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        for order, divergence in zip(ORDERS, curve.divergences, strict=True):
            a = mpmath.mpf(order.numerator) / order.denominator
            exact = mpmath.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)
            bound = mpmath.mpf(divergence.numerator) / divergence.denominator
            assert exact <= bound <= exact * (1 + mpmath.mpf("1e-7"))

    def test_laplace_noise_of_a_larger_sensitivity(self) -> None:
        """Against the sum over all outcomes, cut off far out."""
        epsilon, s = 0.7, 4
        with precision():
            curve = RenyiCurve.of_atoms(laplace_noise(Fraction("0.7"), s))
        a = math.exp(-epsilon / s)
        x = np.arange(-4000, 4001)
        p, q = ((1 - a) / (1 + a) * a ** np.abs(x - shift).astype(float) for shift in (0, s))
        keep = (p > 1e-280) & (q > 1e-280)
        for order, divergence in zip(ORDERS, curve.divergences, strict=True):
            if order <= 64:
                logs = float(order) * np.log(p[keep]) + (1 - float(order)) * np.log(q[keep])
                exact = float(np.logaddexp.reduce(logs)) / (float(order) - 1)
                assert exact * (1 - 1e-9) <= float(divergence) <= exact * (1 + 1e-7)

    def test_a_curve_gives_no_epsilon_below_the_exact_one(self) -> None:
        for epsilon, times in (("0.1", 100), ("0.5", 10)):
            curve = RenyiCurve.of_privacy(Privacy(epsilon, "1e-12")) * times
            for delta in (Fraction("1e-3"), Fraction("1e-6"), Fraction("1e-9")):
                assert composed_delta(Privacy(epsilon, "1e-12"), times, curve.epsilon(delta)) <= delta

    def test_divergences_do_not_decrease_with_the_order(self) -> None:
        curve = RenyiCurve.of_privacy(Privacy("0.3", "1e-9"))
        assert all(a <= b for a, b in pairwise(curve.divergences))

    def test_the_json_form(self) -> None:
        curve = RenyiCurve.of_privacy(Privacy("0.3", "1e-9")) + RenyiCurve.of_gaussian(
            Fraction("0.01"), Fraction("1e-20")
        )
        assert RenyiCurve.from_json(curve.to_json()) == curve
        form = curve.to_json()
        form["orders"] = {"2": "1"}
        with pytest.raises(InvalidValue, match="orders that this version of dpsample uses"):
            RenyiCurve.from_json(form)

    def test_a_delta_that_is_set_aside_cannot_be_had_for_less(self) -> None:
        with pytest.raises(InvalidValue, match="which is set aside, not"):
            RenyiCurve.of_privacy(Privacy(1, "1e-6")).epsilon(Fraction("1e-6"))

    @pytest.mark.parametrize("order", [Fraction("1.25"), Fraction(2), Fraction(64), Fraction(1024)])
    @pytest.mark.parametrize("delta", ["0.5", "1e-6", "1e-30"])
    def test_conversions_are_upper_bounds(self, order: Fraction, delta: str) -> None:
        a = mpmath.mpf(order.numerator) / order.denominator
        exact = mpmath.log(1 - 1 / a) - (mpmath.log(mpmath.mpf(delta)) + mpmath.log(a)) / (a - 1)
        found = conversion(order, Fraction(delta))
        found = mpmath.mpf(found.numerator) / found.denominator
        assert exact <= found <= exact + mpmath.mpf("1e-7") * (1 + abs(exact))


def test_bounds_of_balls() -> None:
    with precision():
        third = ball(Fraction(1, 3))
        assert (floor(third, 10), ceiling(third, 10)) == (341, 342)
        assert (floor(-third, 10), ceiling(-third, 10)) == (-342, -341)
        assert figures_above(third, 3) == Fraction(334, 1000)
        assert figures_above(ball(0)) == 0
