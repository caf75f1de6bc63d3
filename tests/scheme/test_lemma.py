"""The lemma of docs/theory.md, section 5, against rows that are checked one by one, and pi with one integer off.

Integers over 2**128 are too fine for rounding to show. So the lemma is also held against integers over 2**4 to 2**13,
where rounding is most of what a row spends.
"""

import random
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from dpsample import CustomSampling, KeepAll, Ppswor, Priority, Privacy, PrivacyViolation, Sampling
from dpsample.scheme import certify
from dpsample.scheme.integer import advance
from dpsample.scheme.lemma import check_steps, delta_bound, support_bound
from dpsample.scheme.reporting import Reporting
from strategies import privacies, schemes, slopes, staircases

WIDTH = 3  # units between the bounds of q, in the tests with coarse integers


def coarse(bits: int, E: str, delta: int) -> Reporting:
    """The integers of a `Reporting` without a scheme, over 2**bits; pi_0 = 0, and the rest is to be chosen."""
    reporting = object.__new__(Reporting)
    reporting.bits, reporting.one, reporting.ratio_bits = bits, 1 << bits, bits + 8
    reporting.E = int(Fraction(E) * (1 << reporting.ratio_bits))
    reporting.inverse = (1 << 2 * reporting.ratio_bits) // reporting.E + 1
    reporting.delta, reporting._q, reporting._bound = delta, {}, {0: 0}
    return reporting


def choose_pi(reporting: Reporting, i: int, numbers: random.Random, bold: float) -> int:
    """Some pi_i that is a private step from pi_{i-1}: the largest with probability `bold`, or none, or any."""
    low, high = reporting.pi(i - 1), reporting.advance(reporting.pi(i - 1))
    assert low <= high <= reporting.one
    stays = numbers.random() < 0.5
    reporting._bound[i] = high if numbers.random() < bold else low if stays else numbers.randint(low, high)
    return reporting._bound[i]


def end_to_end(tails: list[int], reporting: Reporting, i: int, numbers: random.Random) -> list[Fraction]:
    """The exact probabilities of the tokens, highest first: the cuts, times any q within its bounds."""
    low = min(reporting.one, reporting.pi(i) + numbers.choice([0, 0, 1, 5, reporting.one]))
    high = min(reporting.one, low + numbers.randint(0, WIDTH))
    q = Fraction(low + (high - low) * Fraction(numbers.randint(0, 4), 4), reporting.one)
    cuts = [(t << reporting.bits) // max(high, 1) for t in tails]
    return [q * Fraction(b - a, reporting.one) for a, b in pairwise(cuts)]


@pytest.mark.parametrize("seed", range(8))
def test_no_pair_of_rows_of_coarse_integers_spends_more_than_the_lemma_says(seed: int) -> None:
    """Any pi of private steps, any q above it: spent - D <= N (3 + 2 E) + (E + 1) (G + 5), with the true number N."""
    numbers = random.Random(seed)
    for _ in range(60):
        bits, grid, bold = numbers.randint(4, 13), numbers.choice([1, 1, 2, 4]), numbers.random()
        most = max(3, (1 << bits) // numbers.choice([1, 2, 4, 20, 100]))
        E = numbers.choice(["1.06", "1.1", "1.3", "1.7", "2", "2.7", "5", "9.7", "40"])
        reporting = coarse(bits, E, numbers.randint(2, most))
        ratio = Fraction(reporting.E, 1 << reporting.ratio_bits)
        tails, before = [0], list[Fraction]()
        for i in range(1, 40):
            pi = choose_pi(reporting, i, numbers, bold)
            tails = advance(tails, i, reporting, grid)
            assert tails == sorted(tails)
            assert pi - 1 <= tails[-1] <= pi
            now = end_to_end(tails, reporting, i, numbers)
            # the k-th token from the top is the (k - grid)-th of the row before
            rows = [now, [Fraction(0)] * grid + before]
            tokens = max(map(len, rows))
            full = [[1 - sum(row, Fraction(0)), *row, *[Fraction(0)] * (tokens - len(row))] for row in rows]
            spent = oracles.delta_spent(full[1], full[0], ratio) * reporting.one
            assert spent <= reporting.delta + tokens * (3 + 2 * ratio) + (ratio + 1) * (WIDTH + 5)
            before = now


@pytest.mark.parametrize("seed", range(4))
def test_no_token_has_a_longer_support_than_the_bound(seed: int) -> None:
    """The mass of a row's tokens is followed from their first frequency until all of it is in the oldest tail, pi."""
    numbers = random.Random(seed)
    for _ in range(8):
        epsilon, bold = numbers.choice(["0.1", "0.3", "1", "3"]), numbers.random() ** 2
        reporting = coarse(40, str(float(oracles.exponential(Fraction(epsilon)))), 2 ** numbers.randint(12, 34))
        reporting.privacy = Privacy(epsilon, Fraction(1, 1000))  # of which the bound reads epsilon alone
        bound, longest = support_bound(reporting), 0
        followed: dict[int, int] = {}  # first frequency of a token -> the largest tail above it
        for i in range(1, 250):
            pi = choose_pi(reporting, i, numbers, bold)
            followed = {h: advance([t], i, reporting, 1)[-1] for h, t in followed.items()} | {i: 0}
            longest = max([longest, *(i - h for h, t in followed.items() if t < pi)])
            followed = {h: t for h, t in followed.items() if t < pi}
        assert longest <= bound


@pytest.mark.parametrize("privacy", [("0.05", "1e-6"), ("0.3", "1e-12"), (1, "1e-6"), (5, "0.01"), (9, "1e-30")])
def test_the_steps_from_0_to_1_are_enough_in_exact_arithmetic(privacy: tuple[str, str]) -> None:
    """Of the number n that the bound has, one less would be too few: it is the least."""
    reporting = Reporting(KeepAll(), Privacy(*privacy))
    ratio, n = Fraction(reporting.E, 1 << reporting.ratio_bits), (support_bound(reporting) - 1) // 5
    least = 1 + 2 * (ratio - 1) * reporting.one / reporting.delta
    assert ratio ** (n - 1) < least <= ratio**n


@settings(max_examples=25)
@given(
    st.one_of(schemes(length=200), staircases(200), slopes(200)),
    privacies(epsilon=("0.2", "20"), delta=("1e-30", "1e-2")),
    st.sampled_from([1, 2, 8]),
)
def test_every_row_spends_at_most_what_the_lemma_says(sampling: Sampling, privacy: Privacy, grid: int) -> None:
    certificate = certify(sampling, privacy, grid)
    assert certificate.complete
    assert certificate.bound is not None
    assert certificate.delta <= certificate.bound <= privacy.delta
    largest = min(sampling.largest, 200)
    one_by_one = certify(sampling, privacy, grid, frequencies=range(1, largest + 1))
    assert one_by_one.bound is None
    assert one_by_one.delta <= certificate.bound
    reporting = Reporting.of(sampling, privacy)
    assert all(reporting.pi(i) <= reporting.advance(reporting.pi(i - 1)) for i in range(1, largest + 1))


@pytest.mark.parametrize(
    "sampling",
    [
        Ppswor("1e-4"),
        Priority("1e-4"),
        Ppswor("1e-3", "0.5"),
        Priority("1e-9", 2),
        Ppswor("1e-7", "0.3", cap=10**6),
        Priority("1e-6", "1.7", cap=10**5),
        Ppswor("1e-18"),
        Priority("1e-20"),
        Ppswor("0.3", 0),
    ],
    ids=repr,
)
def test_rows_far_between_the_spans_spend_at_most_what_the_lemma_says(sampling: Sampling) -> None:
    privacy, numbers = Privacy(1, "1e-8"), random.Random(1)
    certificate = certify(sampling, privacy, 4)
    assert certificate.complete
    assert certificate.bound is not None
    last = int(Reporting.of(sampling, privacy).binding.max(initial=1))
    starts = [last, *(int(10 ** numbers.uniform(0, 17)) for _ in range(8))]
    far = certify(sampling, privacy, 4, frequencies=[range(a, a + 3) for a in starts])
    assert far.delta <= certificate.bound <= privacy.delta


@pytest.fixture
def forged(monkeypatch: pytest.MonkeyPatch) -> Callable[[Reporting], None]:
    """Let `certify` read pi from another `Reporting` than that of the scheme."""
    return lambda reporting: monkeypatch.setattr(Reporting, "of", lambda sampling, privacy: reporting)


@pytest.mark.parametrize("off", [1, 2**40, -(2**40)])
@pytest.mark.parametrize("place", [0, 3, -2])
@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("1e-3"), Priority("1e-6")], ids=repr)
def test_pi_with_one_integer_off_is_refused(
    sampling: Sampling, place: int, off: int, forged: Callable[[Reporting], None]
) -> None:
    """Too large a pi is no private step; after one that is too small, the next one is none."""
    reporting = Reporting(sampling, Privacy(1, "1e-8"))
    reporting._bound[int(reporting.binding[place])] += off
    forged(reporting)
    with pytest.raises(PrivacyViolation, match="found a reporting probability that is no private step"):
        certify(sampling, Privacy(1, "1e-8"), 1)


@pytest.mark.parametrize("place", [0, 5, -2])
@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("1e-3"), Priority("1e-6")], ids=repr)
def test_a_binding_frequency_that_was_overlooked_is_refused(
    sampling: Sampling, place: int, forged: Callable[[Reporting], None]
) -> None:
    reporting = Reporting(sampling, Privacy(1, "1e-8"))
    del reporting._bound[int(reporting.binding[place])]
    reporting.binding = reporting.binding[reporting.binding != reporting.binding[place]]
    forged(reporting)
    with pytest.raises(PrivacyViolation, match="found a reporting probability that is no private step"):
        certify(sampling, Privacy(1, "1e-8"), 1)


def test_reporting_more_than_was_sampled_is_refused(forged: Callable[[Reporting], None]) -> None:
    reporting = Reporting(Priority("0.001"), Privacy(1, "1e-2"))
    assert reporting.binding.size == 0
    reporting._bound[5] = reporting.q(5) + 1  # a private step all the same
    reporting.binding = np.array([5])
    forged(reporting)
    with pytest.raises(PrivacyViolation, match="no private step from frequency 4 to 5"):
        certify(Priority("0.001"), Privacy(1, "1e-2"), 1)


def test_a_function_holds_at_the_checked_frequencies() -> None:
    """It may decrease, or jump, where nobody calls it; so not even a constant one is complete."""
    for function in (lambda i: "0.5", lambda i: "0.001" if i < 1000 else "0.9"):
        certificate = certify(CustomSampling(function), Privacy(1, "1e-6"), 1)
        assert (certificate.complete, certificate.bound, certificate.shifts_from) == (False, None, None)
        text = str(certificate)
        assert "holds at the checked frequencies for CustomSampling(<function>)" in text
        assert text.endswith("other frequencies are not covered")


def test_a_sequence_is_covered_up_to_its_end() -> None:
    sampling = CustomSampling(["1e-5"] * 900 + ["0.3"] * 900)
    certificate = certify(sampling, Privacy(1, "1e-6"), 1)
    assert certificate.complete
    assert certificate.pairs < 1800
    assert "holds for" in str(certificate)


def test_the_lemma_does_not_apply_to_more_tokens_than_the_margin_pays_for() -> None:
    """Epsilon 1e-4: a million rows of support. With steps of 1/64 that is more than 2**-50 of delta."""
    reporting = coarse(128, "1.0001", 2**75)
    reporting.privacy = Privacy("1e-4", Fraction(2**75, 2**128 - 2**78))
    allowed = reporting.privacy.delta * reporting.one
    few, many = delta_bound(reporting, 1), delta_bound(reporting, 64)
    assert few is not None
    assert many is not None
    assert few - reporting.delta < (many - reporting.delta) / 60
    assert few < allowed < many


def test_private_steps_are_few_to_check() -> None:
    """Up to 2**63 - 1 frequencies, in a few thousand comparisons."""
    for sampling in (Ppswor("1e-4"), Priority("1e-9", 2), Ppswor("1e-12", "0.5")):
        reporting = Reporting.of(sampling, Privacy("0.1", "1e-6"))
        assert check_steps(reporting, sampling.largest) < 5000
