"""Certificates: every scheme has one, they say what is true, and schemes that are broken on purpose have none."""

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from dpsample import CustomSampling, KeepAll, Ppswor, Priority, Privacy, PrivacyViolation, Sampling
from dpsample.scheme import IntegerLaw, certify, certify_table, default_grid, integer_law, integer_laws
from dpsample.scheme.reporting import Reporting
from references import true_q
from strategies import privacies, slopes, staircases
from support import refused


@pytest.fixture
def forge(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Make `certify` check other integer laws than those of the scheme."""
    module = sys.modules["dpsample.scheme.certificate"]  # as an attribute of its package, that name is the function

    def replace(forged: Any) -> None:
        monkeypatch.setattr(module, "integer_laws", forged)

    return replace


# Every scheme certifies.


@pytest.mark.parametrize("delta", ["1e-2", "1e-4", "1e-6", "1e-9", "1e-12", "1e-15"])
@pytest.mark.parametrize(
    "sampling",
    [
        KeepAll(),
        Ppswor("0.01"),
        Priority("0.01"),
        Ppswor("1e-6"),
        Priority("1e-4"),
        Ppswor("1e-3", 2),
        Priority("0.05", "0.5"),
        Ppswor("0.3", 0),
        Priority("1e-7", 0),
        Ppswor("0.001", 1, cap=500),
        CustomSampling(["1e-5"] * 20 + ["0.3"] * 20 + ["0.31"] * 20),
        CustomSampling(["1e-16"] * 10 + ["1"] * 30),
    ],
    ids=repr,
)
@pytest.mark.parametrize(("epsilon", "grid"), [("0.7", 1), ("3", 4)])
def test_every_scheme_certifies(sampling: Sampling, delta: str, epsilon: str, grid: int) -> None:
    privacy = Privacy(epsilon, delta)
    certificate = certify(sampling, privacy, grid)
    assert 0 < certificate.delta <= privacy.delta


@pytest.mark.parametrize("delta", ["1e-2", "1e-6", "1e-12", "1e-15"])
@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "2", "10", "20"])
@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.01")], ids=repr)
def test_every_epsilon_certifies(sampling: Sampling, epsilon: str, delta: str) -> None:
    privacy = Privacy(epsilon, delta)
    assert certify(sampling, privacy, 1).delta <= privacy.delta


@pytest.mark.filterwarnings("ignore::dpsample.PrivacyWarning")
@pytest.mark.parametrize("epsilon", ["25", "40", "64", "100"])
@pytest.mark.parametrize("delta", ["1e-2", "1e-9", "1e-15"])
def test_an_epsilon_that_warns_still_certifies(epsilon: str, delta: str) -> None:
    for sampling in (KeepAll(), Ppswor("0.01")):
        assert certify(sampling, Privacy(epsilon, delta), 1).delta <= Fraction(delta)


@pytest.mark.parametrize("sampling", [Ppswor("1e-8", "0.5"), Ppswor("1e-18"), Priority("1e-20")], ids=repr)
@pytest.mark.parametrize("grid", [1, None])
def test_a_scheme_that_never_becomes_constant_certifies(sampling: Sampling, grid: int | None) -> None:
    certificate = certify(sampling, Privacy(1, "1e-6"), grid)
    assert certificate.shifts_from is None
    assert certificate.complete


@settings(max_examples=30)
@given(st.one_of(staircases(60), slopes(60)), privacies(epsilon=("0.1", "20")), st.sampled_from([1, 2, 8]))
def test_any_q_certifies(sampling: Sampling, privacy: Privacy, grid: int) -> None:
    certificate = certify(sampling, privacy, grid, frequencies=range(1, 61))
    assert certificate.delta <= privacy.delta
    assert certificate.complete
    assert certify(sampling, privacy, grid).delta <= certificate.delta


# What a certificate says.


def exact_row(law: IntegerLaw | None, q: Fraction, length: int) -> list[Fraction]:
    """An integer law as a row of the oracles: not reported, then the cells 1, 2, ..."""
    if law is None:
        return [Fraction(1)]
    cells = law.frequency * law.grid
    row = [Fraction(0)] * (length + 1)
    for k, p in enumerate(law.probabilities):
        row[cells - k] = q * p
    row[0] = 1 - q * law.reported
    return row


@settings(max_examples=25)
@given(staircases(10), privacies(epsilon=("0.1", "5")), st.sampled_from([1, 2]))
def test_the_delta_found_is_what_the_rows_spend(sampling: Sampling, privacy: Privacy, grid: int) -> None:
    """The rows are laid out in fractions, from the cut points alone; q is rational, so nothing is rounded."""
    E = oracles.exponential(privacy.epsilon, 90)
    assert isinstance(sampling, CustomSampling)
    assert sampling.values is not None
    laws: list[IntegerLaw | None] = [None, *islice(integer_laws(1, sampling, privacy, grid), 10)]
    rows = [exact_row(law, q, 10 * grid) for law, q in zip(laws, [Fraction(0), *sampling.values], strict=True)]
    spent = [oracles.delta_spent(rows[r - 1], rows[r], E) for r in range(1, 11)]
    certificate = certify(sampling, privacy, grid, frequencies=range(1, 11))
    # its lower bound of E and its bounds of q make it a little larger, and never smaller
    assert max(spent) * (1 - Fraction(1, 10**80)) <= certificate.delta
    assert certificate.delta <= max(spent) + Fraction(1, 2**150) + privacy.delta / 2**100
    assert certificate.delta <= privacy.delta
    assert spent[certificate.at - 1] >= certificate.delta * (1 - Fraction(1, 2**60))


@pytest.mark.parametrize("epsilon", ["0.3", "1", "4"])
def test_keep_all_is_certified_completely_and_spends_nearly_all(epsilon: str) -> None:
    privacy = Privacy(epsilon, "1e-6")
    certificate = certify(KeepAll(), privacy, 2)
    assert certificate.complete
    assert certificate.shifts_from is not None
    assert certificate.checked == (range(1, certificate.shifts_from + 1),)
    assert certificate.pairs == certificate.shifts_from
    # the optimum spends all; the margin is one part in 2**50
    assert privacy.delta * (1 - Fraction(1, 2**49)) < certificate.delta <= privacy.delta


@pytest.mark.parametrize("sampling", [KeepAll(), Priority("0.02"), Ppswor("0.05", 1, cap=60)], ids=repr)
def test_rows_are_shifts_from_where_it_says(sampling: Sampling) -> None:
    privacy = Privacy("0.5", "1e-6")
    start = certify(sampling, privacy, 2).shifts_from
    assert start is not None
    expected = integer_law(start, sampling, privacy, 2).cuts
    for i in (start + 1, start + 2, 2 * start + 7, 10**15):
        assert integer_law(i, sampling, privacy, 2).cuts == expected
    # and the rows before it are not all alike
    assert integer_law(start // 3, sampling, privacy, 2).cuts != expected


@pytest.mark.parametrize(
    "sampling",
    [KeepAll(), Ppswor("1e-3"), Priority("1e-6"), CustomSampling(lambda i: "0.001" if i < 10**9 else "0.9")],
    ids=repr,
)
def test_every_frequency_at_which_privacy_binds_is_checked(sampling: Sampling) -> None:
    privacy = Privacy(3, "1e-8")
    certificate = certify(sampling, privacy, 1)
    binding = Reporting.of(sampling, privacy).binding.tolist()
    assert binding
    assert all(any(i in span for span in certificate.checked) for i in binding)
    # and beyond them pairs of all magnitudes, up to where rows are shifts of one another
    end = certificate.shifts_from or sampling.largest
    for magnitude in range(1, end.bit_length()):
        assert any(span.start < 2 ** (magnitude + 1) and span.stop > 2**magnitude for span in certificate.checked)
    assert all(a.stop < b.start for a, b in zip(certificate.checked, certificate.checked[1:], strict=False))
    assert certificate.pairs == sum(len(span) for span in certificate.checked)


def test_chosen_frequencies() -> None:
    privacy = Privacy(1, "1e-6")
    certificate = certify(Ppswor("0.01"), privacy, 1, frequencies=range(5, 9))
    assert certificate.checked == (range(5, 9),)
    assert certificate.pairs == 4
    assert not certificate.complete
    assert certificate.shifts_from is None
    assert certificate.at in range(5, 9)
    several = certify(Ppswor("0.01"), privacy, 1, frequencies=[range(1, 3), range(1000, 1002)])
    assert several.pairs == 4
    assert not several.complete


def test_a_sequence_is_complete_when_all_of_it_was_checked() -> None:
    sampling, privacy = CustomSampling(["0.1"] * 10), Privacy(1, "1e-6")
    assert certify(sampling, privacy, 1, frequencies=range(1, 11)).complete
    assert not certify(sampling, privacy, 1, frequencies=range(1, 10)).complete
    assert not certify(sampling, privacy, 1, frequencies=range(2, 11)).complete


@pytest.mark.parametrize(
    "frequencies", [range(5), range(1, 10, 2), range(-3, 2), range(1, 2**63 + 1), [5], 5], ids=repr
)
def test_bad_ranges_are_refused(frequencies: Any) -> None:
    with refused("frequencies must be"):
        certify(KeepAll(), Privacy(1, "1e-6"), 1, frequencies=frequencies)


def test_the_grid_is_checked_and_has_a_default() -> None:
    privacy = Privacy(1, "1e-3")
    with refused("grid must be a power of two"):
        certify(KeepAll(), privacy, 3)
    assert certify(KeepAll(), privacy).grid == default_grid(privacy)


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    certificate = certify(KeepAll(), Privacy(1, "1e-3"), 1, progress=lambda done, total: told.append((done, total)))
    assert told == [(n, certificate.pairs) for n in range(1, certificate.pairs + 1)]


def test_the_json_form() -> None:
    certificate = certify(Ppswor("0.01"), Privacy("0.5", "1e-6"), 2)
    form = json.loads(json.dumps(certificate.to_json()))
    assert form["privacy"] == {"epsilon": "0.5", "delta": "1e-06"}
    assert Sampling.from_json(form["sampling"]) == Ppswor("0.01")
    assert form["grid"] == 2
    assert Fraction(form["delta_found"]) == certificate.delta
    assert float(form["delta_found_decimal"]) == pytest.approx(1e-6, rel=1e-9)
    assert [range(a, b + 1) for a, b in form["checked"]] == list(certificate.checked)
    assert form["complete"] is certificate.complete
    assert form["shifts_from"] == certificate.shifts_from
    assert form["at_frequency"] == certificate.at


def test_the_text_says_what_was_and_what_was_not_checked() -> None:
    whole = str(certify(KeepAll(), Privacy(1, "1e-6"), 1))
    assert "every frequency is covered" in whole
    part = str(certify(KeepAll(), Privacy(1, "1e-6"), 1, frequencies=range(3, 5)))
    assert "every frequency is covered" not in part
    assert "3-4" in part
    assert "the given table" in str(certify_table([[], ["0.001"]], Privacy(1, "0.01")))


# Broken on purpose: no certificate.


@pytest.mark.filterwarnings("ignore::dpsample.PrivacyWarning")
@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.01"), Priority("0.01")], ids=repr)
@pytest.mark.parametrize("delta", ["1e-2", "1e-6", "1e-12", "1e-15"])
def test_a_delta_too_large_by_one_part_in_a_billion(
    sampling: Sampling, delta: str, forge: Callable[[Any], None]
) -> None:
    privacy = Privacy(1, delta)
    slack = Fraction(999_999_999, 10**9)

    def for_more(first: int, sampling: Sampling, privacy: Privacy, grid: int) -> Iterator[IntegerLaw]:
        return integer_laws(first, sampling, Privacy(privacy.epsilon, privacy.delta / slack), grid)

    forge(for_more)
    with pytest.raises(PrivacyViolation, match=r"does not hold: delta is .* do not use"):
        certify(sampling, privacy, 1)

    def for_less(first: int, sampling: Sampling, privacy: Privacy, grid: int) -> Iterator[IntegerLaw]:
        return integer_laws(first, sampling, Privacy(privacy.epsilon, privacy.delta * slack), grid)

    forge(for_less)
    assert certify(sampling, privacy, 1).delta < privacy.delta * (1 - Fraction(9, 10**10))


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.01")], ids=repr)
def test_an_epsilon_too_large_by_one_part_in_a_billion(sampling: Sampling, forge: Callable[[Any], None]) -> None:
    def for_more(first: int, sampling: Sampling, privacy: Privacy, grid: int) -> Iterator[IntegerLaw]:
        return integer_laws(first, sampling, Privacy(privacy.epsilon * Fraction(10**9 + 1, 10**9), privacy.delta), grid)

    forge(for_more)
    with pytest.raises(PrivacyViolation):
        certify(sampling, Privacy(1, "1e-6"), 1)


@pytest.mark.parametrize(
    ("drawn_by", "assumed"),
    [
        (Ppswor("0.001", 2), Ppswor("0.001")),
        (Priority("0.001", 2), Priority("0.001")),
        (KeepAll(), Ppswor("0.01")),
        (Ppswor("0.0100001"), Ppswor("0.01")),
        (Ppswor("0.01"), Priority("0.01")),
    ],
    ids=repr,
)
def test_a_sample_sanitized_as_if_drawn_by_another_scheme(
    drawn_by: Sampling, assumed: Sampling, forge: Callable[[Any], None]
) -> None:
    """The cut points are those for `assumed`; the key was in fact sampled with the q of `drawn_by`."""

    def other(first: int, sampling: Sampling, privacy: Privacy, grid: int) -> Iterator[IntegerLaw]:
        return integer_laws(first, assumed, privacy, grid)

    forge(other)
    with pytest.raises(PrivacyViolation):
        certify(drawn_by, Privacy("0.5", "1e-6"), 1)


def raised(laws: Iterator[IntegerLaw], frequency: int, k: int, by: int) -> Iterator[IntegerLaw]:
    for law in laws:
        if law.frequency == frequency:
            cuts = list(law.cuts)
            cuts[k] += by
            yield dataclasses.replace(law, cuts=tuple(cuts))
        else:
            yield law


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("0.2"), Priority("0.1")], ids=repr)
@pytest.mark.parametrize("frequency", [1, 4, 9, 20])
def test_no_cut_may_be_raised(sampling: Sampling, frequency: int, forge: Callable[[Any], None]) -> None:
    """Each tail is the largest that privacy allows: a billionth of delta more, anywhere, and the certificate fails."""
    privacy, grid = Privacy("0.8", "1e-5"), 2
    law = integer_law(frequency, sampling, privacy, grid)
    by = int(privacy.delta / 10**9 * 2**law.bits / Fraction(true_q(sampling, frequency)[0])) + 1
    spans = range(max(1, frequency - 2), frequency + 3)
    forge(lambda first, sampling, privacy, grid: integer_laws(first, sampling, privacy, grid))
    certify(sampling, privacy, grid, frequencies=spans)
    for k in range(len(law.cuts)):
        forge(
            lambda first, sampling, privacy, grid, k=k: raised(
                integer_laws(first, sampling, privacy, grid), frequency, k, by
            )
        )
        with pytest.raises(PrivacyViolation):
            certify(sampling, privacy, grid, frequencies=spans)


def test_reporting_more_than_was_sampled(forge: Callable[[Any], None]) -> None:
    sampling, privacy = (
        Priority("0.001"),
        Privacy(1, "1e-2"),
    )  # q is below delta up to 10: all that is sampled is reported
    law = integer_law(5, sampling, privacy, 1)
    assert law.reported > Fraction(999, 1000)
    room = 2**law.bits - law.cuts[-1]
    forge(lambda first, sampling, privacy, grid: raised(integer_laws(first, sampling, privacy, grid), 5, -1, room + 1))
    with pytest.raises(PrivacyViolation, match="must not be reported more often than it is sampled"):
        certify(sampling, privacy, 1, frequencies=range(3, 8))


# Tables from outside.


def table_of(densities: list[oracles.Density]) -> list[list[Fraction]]:
    return [row[1:] for row in oracles.refine(densities)]


@pytest.mark.filterwarnings("ignore::dpsample.PrivacyWarning")
@pytest.mark.parametrize(("epsilon", "delta"), [("0.405", "1/60"), ("1", "1e-3"), ("2", "1e-3")])
def test_the_papers_algorithm_5_as_printed_is_not_private(epsilon: str, delta: str) -> None:
    """And the corrected one is, to within the digits of E. Without sampling, 12 rows suffice to show it."""
    privacy = Privacy(epsilon, delta)
    E = oracles.exponential(privacy.epsilon)
    q = [Fraction(1)] * 12
    with pytest.raises(PrivacyViolation, match="do not use this table"):
        certify_table(table_of(oracles.algorithm_5(q, E, privacy.delta, corrected=False)), privacy)
    nearly = privacy.delta * (1 - Fraction(1, 10**12))
    certificate = certify_table(table_of(oracles.algorithm_5(q, E, nearly, corrected=True)), privacy)
    assert nearly * (1 - Fraction(1, 10**12)) <= certificate.delta <= privacy.delta
    assert certificate.complete


@pytest.mark.parametrize("q", [["1"] * 12, ["0.001"] * 4 + ["0.4"] * 4 + ["0.9"] * 4], ids=["all", "stairs"])
def test_a_table_for_a_delta_too_large_by_one_part_in_a_billion(q: list[str]) -> None:
    privacy, values = Privacy("0.8", "1e-3"), [Fraction(v) for v in q]
    E = oracles.exponential(privacy.epsilon)

    def table(delta: Fraction) -> list[list[Fraction]]:
        return [row[1:] for row in oracles.algorithm_4(values, E, delta)]

    with pytest.raises(PrivacyViolation):
        certify_table(table(privacy.delta * (1 + Fraction(1, 10**9))), privacy)
    certificate = certify_table(table(privacy.delta * (1 - Fraction(1, 10**9))), privacy)
    assert privacy.delta * (1 - Fraction(2, 10**9)) < certificate.delta <= privacy.delta


def test_the_delta_of_a_table_is_that_of_its_rows() -> None:
    rows = [[], ["0.01"], ["0.02", "0.01"], ["0.05", "0.01", "0.01"]]
    privacy = Privacy("0.7", "0.01")
    E = oracles.exponential(privacy.epsilon)
    full = [[1 - sum(map(Fraction, row), Fraction(0)), *map(Fraction, row)] for row in rows]
    spent = [oracles.delta_spent(full[r - 1], full[r], E) for r in (1, 2, 3)]
    with pytest.raises(PrivacyViolation, match="between rows 2 and 3"):
        certify_table(rows, privacy)
    certificate = certify_table(rows[:3], privacy)
    assert abs(certificate.delta - max(spent[:2])) < Fraction(1, 10**45)
    assert certificate.checked == (range(1, 3),)
    assert (certificate.sampling, certificate.grid, certificate.shifts_from) == (None, None, None)
    assert certificate.complete


def test_a_table_is_taken_exactly() -> None:
    """The float 0.01 is a little more than one hundredth, and so is what it spends."""
    with pytest.raises(PrivacyViolation):
        certify_table([[], [0.01]], Privacy(1, "0.01"))
    for hundredth in ("0.01", Decimal("0.01"), Fraction(1, 100), "1/100"):
        assert certify_table([[], [hundredth]], Privacy(1, "0.01")).delta == Fraction(1, 100)
    assert certify_table([[], [np.float64(0.0078125)]], Privacy(1, "0.01")).delta == Fraction(1, 128)


def test_a_sampled_histogram_from_outside() -> None:
    """Uniform sampling, then truncated geometric noise: too much delta for the claim, and enough for another."""
    epsilon, cutoff = 1.0, 8
    ratio = float(np.exp(-epsilon))
    rows = []
    for i in range(12):
        noise = np.array([ratio ** abs(j - i) for j in range(-60, 80)]) * (1 - ratio) / (1 + ratio)
        kept = noise[60 + cutoff :] * (1 - 1e-15)
        rows.append([] if i == 0 else kept.tolist())
    with pytest.raises(PrivacyViolation):
        certify_table(rows, Privacy(epsilon, "1e-4"))
    assert certify_table(rows, Privacy(epsilon, "1e-3")).pairs == 11


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        ([], "a table must have at least two rows"),
        ([[]], "a table must have at least two rows"),
        ([[], ["0.6", "0.5"]], "each row must hold probabilities that sum to at most 1"),
        ([[], ["-0.1", "0.2"]], "each row must hold probabilities that sum to at most 1"),
        ([["1.0000000000000000000000001"], []], "each row must hold probabilities that sum to at most 1"),
        ([[], ["much"]], ""),
        ([[], [float("nan")]], ""),
        ([[], [float("inf")]], ""),
        ([[], [None]], ""),
        ([[], [True]], ""),
        ([5, 6], ""),
        (5, ""),
    ],
    ids=repr,
)
def test_bad_tables_are_refused(rows: Any, rule: str) -> None:
    with refused(rule):
        certify_table(rows, Privacy(1, "0.01"))


def test_the_row_that_is_wrong_is_named() -> None:
    with refused("each row") as refusal:
        certify_table([[], ["0.001"], ["0.9", "0.9"]], Privacy(1, "0.01"))
    assert "row 2" in str(refusal.value)
