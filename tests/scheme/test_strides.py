"""Strides: every k-th frequency of a scheme is a scheme of its own."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpsample import CustomSampling, KeepAll, Ppswor, Priority, Privacy, Sampling
from dpsample.scheme.coarsening import Strided, strided
from dpsample.scheme.reporting import reporting_probabilities, steps_to_one
from dpsample.scheme.tokens import support_length, token_law
from support import refused


def grown(privacy: Privacy, k: int) -> Fraction:
    """delta', by k steps of x -> E x + delta from 0."""
    x, E = Fraction(0), Fraction(math.exp(float(privacy.epsilon)))
    for _ in range(k):
        x = E * x + privacy.delta
    return x


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.001"), Ppswor("0.02"), Priority("0.003", "0.5")])
@pytest.mark.parametrize(("epsilon", "delta"), [("0.05", "1e-8"), ("0.02", "1e-12"), ("0.01", "1e-3")])
def test_probabilities_are_those_of_every_kth_frequency(epsilon: str, delta: str, sampling: Sampling) -> None:
    privacy = Privacy(epsilon, delta)
    every, less, k = strided(sampling, privacy, 100)
    assert k > 1
    assert less.epsilon == k * privacy.epsilon
    assert float(less.delta) == pytest.approx(float(grown(privacy, k)), rel=1e-9)
    m = np.arange(1, 400)
    assert (every.q(m) == sampling.q(k * m)).all()
    found, true = reporting_probabilities(m, every, less), reporting_probabilities(k * m, sampling, privacy)
    growing = k * m <= steps_to_one(privacy)
    assert found[growing] == pytest.approx(true[growing], rel=1e-9)
    assert (found >= true * (1 - 1e-9)).all()
    assert (found - true).max() < 0.01


def test_tokens_are_those_of_every_kth_frequency() -> None:
    privacy = Privacy("0.02", "1e-8")
    every, less, k = strided(Ppswor("0.01"), privacy, 100)
    for m in (40, 70, 200):
        coarse, fine = token_law(m, every, less, 8), token_law(k * m, Ppswor("0.01"), privacy, 1)
        moments = []
        for law, unit in ((coarse, float(k)), (fine, 1.0)):
            at, p = unit * (law.tokens - 1 / (2 * law.grid)), law.probabilities / law.reported  # middles of cells
            mean = float(p @ at)
            moments.append([mean, math.sqrt(float(p @ (at - mean) ** 2))])
        assert moments[0][0] == pytest.approx(moments[1][0], abs=0.1 / float(privacy.epsilon))
        assert moments[0][1] == pytest.approx(moments[1][1], rel=0.03)


def test_a_token_lives_as_long_as_asked_for_unless_delta_is_large() -> None:
    for epsilon in ("0.0005", "0.004", "0.03"):
        for delta in ("1e-12", "1e-6"):
            _, less, _ = strided(KeepAll(), Privacy(epsilon, delta), 100)
            assert 60 < support_length(less) < 150
    _, less, k = strided(KeepAll(), Privacy("0.001", "0.004"), 5)
    assert k == 2
    assert less.delta <= Fraction(1, 100)


def test_what_needs_no_stride_is_left_alone() -> None:
    privacy = Privacy(1, "1e-6")
    assert strided(KeepAll(), privacy, 100) == (KeepAll(), privacy, 1)
    short = CustomSampling([Fraction(1, 2)])  # of one frequency
    assert strided(short, Privacy("0.001", "1e-6"), 100)[2] == 1
    longer = Strided(CustomSampling([Fraction(n, 10) for n in range(1, 10)]), 4)
    assert (longer.largest, longer.bounds(2, 10)) == (2, CustomSampling([Fraction(4, 5)]).bounds(1, 10))
    with refused("is for predictions, and cannot be written"):
        longer.to_json()
