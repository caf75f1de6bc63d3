"""Sample and hold: the scheme of a stream, against exact arithmetic, brute force and a linear program."""

from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
import pytest
from scipy.optimize import linprog

from dpsample import InvalidValue, Privacy, PrivacyViolation, SampleAndHold, Sampling
from dpsample.private.sanitizer import Sanitizer
from dpsample.scheme import certify, certify_table, integer_law, reporting_probabilities, token_law
from dpsample.scheme.held import HeldLaw, HeldReporting
from dpsample.scheme.likelihood import likely_frequencies
from given_coins import GivenCoins
from oracles import exponential
from support import refused

CASES = [  # tau, epsilon, delta: no noise; grow and hold; grow, shrink and hold; nearly all keys held
    ("1e-6", "1", "1e-5"),
    ("1e-3", "1", "1e-6"),
    ("0.05", "0.5", "1e-4"),
    ("1", "0.3", "0.01"),
    ("8", "1", "1e-3"),
]


def slow_phi(sampling: SampleAndHold, privacy: Privacy, last: int) -> list[Fraction]:
    """phi_0, ..., phi_last by the definition, with an E of 50 digits."""
    E, s, delta = exponential(privacy.epsilon), sampling.s, privacy.delta
    phi = [Fraction(0)]
    for _ in range(last):
        x = phi[-1]
        phi.append(min(E * x + delta, 1 - (1 - x - delta) / E, (1 - s) * x + s).limit_denominator(10**60))
    return phi


def drawn_rows(sampling: SampleAndHold, privacy: Privacy, last: int) -> list[list[Fraction]]:
    """P_0, ..., P_last of what is drawn: each held count with its probability, and the integers of its law."""
    s, held = sampling.s, [integer_law(c, sampling, privacy) for c in range(1, last + 1)]
    rows = []
    for i in range(last + 1):
        row = [Fraction(0)] * i
        for law in held[:i]:
            for k, p in enumerate(law.probabilities):
                row[law.frequency - k - 1] += s * (1 - s) ** (i - law.frequency) * p
        rows.append(row)
    return rows


@pytest.mark.parametrize(("tau", "epsilon", "delta"), CASES)
def test_pi_is_the_largest_that_the_map_allows(tau: str, epsilon: str, delta: str) -> None:
    sampling, privacy = SampleAndHold(tau), Privacy(epsilon, delta)
    i = np.arange(80)
    pi, absent = (reporting_probabilities(i, sampling, privacy, complement=c) for c in (False, True))
    phi = slow_phi(sampling, privacy, 79)
    assert pi == pytest.approx([float(p) for p in phi], rel=1e-12, abs=1e-300)
    assert absent == pytest.approx([float(1 - p) for p in phi], rel=1e-11, abs=1e-14)
    law = token_law(40, sampling, privacy)
    expected = [float(phi[41 - t] - phi[40 - t]) for t in range(1, 41)]
    assert np.bincount(law.cells, law.probabilities, 41)[1:] == pytest.approx(expected, rel=1e-9, abs=2e-12)


@pytest.mark.parametrize(("tau", "epsilon", "delta"), CASES)
def test_the_certificate_is_that_of_the_rows_end_to_end(tau: str, epsilon: str, delta: str) -> None:
    """By brute force over held counts, in fractions, beyond the end of the noise."""
    sampling, privacy = SampleAndHold(tau), Privacy(epsilon, delta)
    certificate = certify(sampling, privacy)
    end = certificate.shifts_from
    assert certificate.complete
    assert end is not None
    assert end <= 40
    table = certify_table(drawn_rows(sampling, privacy, end + 4), privacy)
    assert table.delta <= certificate.delta <= table.delta * (1 + Fraction(1, 10**30))
    assert certificate.delta <= privacy.delta


def test_no_scheme_of_one_pass_reports_more() -> None:
    """A linear program over all laws of held counts with two tokens: pi at each frequency is at most phi."""
    E, s, delta, last = 2.0, 0.3, 0.05, 5
    phi = [0.0]
    for _ in range(last):
        phi.append(min(E * phi[-1] + delta, 1 - (1 - phi[-1] - delta) / E, (1 - s) * phi[-1] + s))
    n = 2 * last  # R_c(token), c = 1, ..., last
    rows = np.zeros((last + 1, 3, n + 1))  # P_i of tokens and of nothing, as linear functions of these and of 1
    rows[0, 2, n] = 1
    for i in range(1, last + 1):
        held = np.zeros((3, n + 1))
        held[0, 2 * i - 2] = held[1, 2 * i - 1] = held[2, n] = 1
        held[2] -= held[0] + held[1]
        rows[i] = (1 - s) * rows[i - 1] + s * held
    # for each neighbouring pair, and each set of outcomes: P(set) - E P'(set) <= delta
    sets = [np.array([b >> k & 1 for k in range(3)]) for b in range(1, 8)]
    bounds = [a @ (p - E * q) for x, y in pairwise(rows) for p, q in ((x, y), (y, x)) for a in sets]
    bounds += [(1 - s) * x[2] - y[2] for x, y in pairwise(rows)]  # a held key has a law: R_i(nothing) >= 0
    limits = [delta - b[n] for b in bounds[:-last]] + [-b[n] for b in bounds[-last:]]
    for i in range(1, last + 1):
        reported = rows[i, 0] + rows[i, 1]
        best = linprog(-reported[:n], [b[:n] for b in bounds], limits, bounds=(0, 1))
        assert -best.fun == pytest.approx(phi[i], rel=1e-6)


def test_a_wrong_law_is_not_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    sampling, privacy = SampleAndHold("0.0123"), Privacy(1, "1e-6")
    cuts = HeldReporting(sampling, privacy).noise_cuts
    one = cuts[-1]
    wrong_laws = [
        ((cuts[0] + (one >> 60), *cuts[1:]), "delta is"),  # one part in 10**12 of delta more
        ((cuts[1], *cuts[1:]), "delta is"),
        ((cuts[1], cuts[0], *cuts[2:]), "do not ascend"),
        (cuts[:-1], "do not ascend to one"),
        ((one,), "delta is"),  # counts as they are
    ]
    for n, (wrong, why) in enumerate(wrong_laws):
        monkeypatch.setattr("dpsample.scheme.held._noise_cuts", lambda _, wrong=wrong: wrong)
        monkeypatch.setattr(SampleAndHold, "reporting", lambda self, privacy: HeldReporting(self, privacy))
        other = Privacy(privacy.epsilon, privacy.delta * (1 - Fraction(n, 10**30)))  # else the first one was kept
        with pytest.raises(PrivacyViolation, match=why):
            certify(sampling, other)


def test_noise_is_drawn_from_the_integers() -> None:
    """At each cut point, and one unit of 2**-128 below it: floats cannot tell, integers do."""
    sampling, privacy = SampleAndHold("1e-3"), Privacy(1, "1e-6")
    sanitizer, cuts = Sanitizer(sampling, privacy), HeldReporting(sampling, privacy).noise_cuts
    count = 5
    for k, cut in enumerate(cuts[:-1]):
        for v, noise in ((cut, k + 1), (cut - 1, k)):
            coins = GivenCoins(np.array([v >> 64], np.uint64), rest=v & (2**64 - 1))
            rows, tokens = sanitizer(np.array([count]), coins)
            assert tokens.tolist() == ([count - noise] if noise < count else [])
            assert len(rows) == len(tokens)
    words = np.random.default_rng(1).integers(0, 2**64, 4000, dtype=np.uint64)
    counts = np.arange(4000) % 40 + 1
    rows, tokens = sanitizer(counts, GivenCoins(words))
    laws = [integer_law(int(c), sampling, privacy).token(int(w) << 64) for c, w in zip(counts, words, strict=True)]
    assert [law for law in laws if law is not None] == tokens.tolist()
    assert rows.tolist() == [n for n, law in enumerate(laws) if law is not None]


@pytest.mark.parametrize(("tau", "epsilon", "delta"), CASES[1:])
def test_intervals_cover_every_frequency(tau: str, epsilon: str, delta: str) -> None:
    """By the exact law: at each frequency a reported key's interval holds it with probability 0.95 or more."""
    sampling, privacy = SampleAndHold(tau), Privacy(epsilon, delta)
    tokens = np.arange(1, 3001)
    value, low, high = likely_frequencies(tokens, sampling, privacy)
    assert (low <= value).all()
    assert (value <= high).all()
    assert all((np.diff(x) >= 0).all() for x in (value, low, high))
    reporting = HeldReporting(sampling, privacy)
    for i in (1, 2, 5, 17, 60, 200, 901, 3000):
        mass = -np.diff(reporting.phi(np.arange(i, -1, -1)))  # of tokens 1, ..., i
        assert mass.sum() == pytest.approx(float(reporting.probabilities([i])[0]), rel=1e-9)
        covered = (low[:i] <= i) & (i <= high[:i])
        assert mass @ covered >= 0.95 * mass.sum() * (1 - 1e-9)


def test_every_kth_frequency_has_the_same_laws() -> None:
    sampling, privacy = SampleAndHold("1e-3"), Privacy(1, "1e-6")
    law = HeldLaw.of(sampling, privacy)
    coarse, fine = law.reporting(sampling), HeldReporting(sampling, privacy)
    m = np.arange(1, 500)
    assert (coarse.probabilities(m) == fine.probabilities(m * law.every)).all()
    mass = coarse.columns(np.array([1]), 1, 1)[0][:200, 0]
    tails = np.append(0, np.cumsum(np.diff(fine.phi(np.arange(201 * law.every)))))[:: law.every]
    assert mass == pytest.approx(np.diff(tails)[:200], rel=1e-9)


def test_every_setting_is_certified() -> None:
    for tau in ("1e-12", "1e-4", "0.7", "32"):
        for epsilon, delta in (("0.01", "1e-9"), ("1", "1e-200"), ("20", "1e-6"), ("0.1", "0.01")):
            certificate = certify(SampleAndHold(tau), Privacy(epsilon, delta))
            assert certificate.complete
            assert certificate.delta <= certificate.privacy.delta


def test_s_is_exact_and_survives_json() -> None:
    for tau in ("1e-12", "1e-4", "0.5", "32"):
        sampling = SampleAndHold(tau)
        real = 1 - 1 / exponential(sampling.tau)
        assert 0 <= real - sampling.s < Fraction(2, 2**64)
        assert Sampling.from_json(sampling.to_json()) == sampling
        for i in (1, 7, 10**6):
            low, high = sampling.bounds(i, 200)
            passed = list(accumulate([1 - sampling.s] * min(i, 7), lambda a, b: a * b))
            if i <= 7:
                assert low <= (1 - passed[-1]) * 2**200 <= high
            assert low <= high <= low + 16


def test_refusals() -> None:
    for tau in ("0", "1e-20", "100", "-1"):
        with refused("tau of a stream"):
            SampleAndHold(tau)
    with refused("bounded noise has whole tokens"):
        certify(SampleAndHold("1e-3"), Privacy(1, 1e-6), grid=4)
    with pytest.raises(InvalidValue, match="more than 65,536 values"):
        certify(SampleAndHold(8), Privacy("1e-5", "1e-9"))
