"""Many keys of one user: bounded noise and Rényi steps, against exact arithmetic over all outcomes."""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pyarrow as pa
import pytest

import dpsample
from dpsample import CustomSampling, InvalidValue, KeepAll, Ppswor, Priority, Privacy, PrivacyViolation, Sampling
from dpsample.accounting import noise_search
from dpsample.accounting.composition import per_key
from dpsample.accounting.many_keys import (
    certify_many_keys,
    chosen_per_key,
    curve_of_keys,
    even_chance,
    largest_steps,
    least_noise,
)
from dpsample.accounting.renyi import ORDERS
from dpsample.estimators.calibrated import estimate_sum
from dpsample.estimators.measures import Measure
from dpsample.estimators.tally import Tally
from dpsample.private.sanitizer import Sanitizer
from dpsample.release.proof import prove_release
from dpsample.scheme import integer_law, likeliest_frequencies, reporting_probabilities, token_law, token_laws
from dpsample.scheme.certificate import certify_keys
from dpsample.scheme.noise import BITS, KeyNoise
from dpsample.scheme.per_key import per_key_from_json
from dpsample.scheme.renyi_steps import RenyiSteps
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.scheme import Scheme
from dpsample.scheme.token_columns import exceedances, supports
from given_coins import GivenCoins
from noise_laws import exact_delta, law_of
from stated_terms import stated_terms
from support import refused

mpmath.mp.dps = 50
pytestmark = pytest.mark.filterwarnings("ignore:delta = 0")  # small examples spend much
WHOLE = Privacy(1, "1e-6")
SMALL = KeyNoise.of([1, 4, 12, 30, 44, 30, 12, 4, 1])


def tokens_of(drawn: tuple[Any, Any], keys: int) -> list[int]:
    """The token of each key, 0 if it is not reported."""
    tokens = np.zeros(keys, np.int64)
    tokens[drawn[0]] = drawn[1]
    return tokens.tolist()


class TestBoundedNoise:
    @pytest.mark.parametrize("keys", [1, 2, 3])
    @pytest.mark.parametrize("epsilon", ["0.5", "2", "4"])
    def test_the_certificate_is_the_sum_over_all_outcomes(self, keys: int, epsilon: str) -> None:
        now, before = law_of(SMALL, 40), law_of(SMALL, 39)
        exact = max(exact_delta([pair] * keys, epsilon) for pair in ((now, before), (before, now)))
        proved = float(certify_many_keys(SMALL, keys, Privacy(epsilon, "0.9")).delta)
        assert exact * (1 - 1e-12) <= proved <= exact * 1.01 + 1e-30

    @pytest.mark.parametrize("frequencies", [(1, 1), (3, 40), (9, 5), (10, 2)])
    def test_no_frequencies_cost_more_than_large_ones(self, frequencies: tuple[int, int]) -> None:
        pairs = [(law_of(SMALL, i), law_of(SMALL, i - 1)) for i in frequencies]
        back = [(b, a) for a, b in pairs]
        proved = float(certify_many_keys(SMALL, 2, Privacy(1, "0.9")).delta)
        assert max(exact_delta(pairs, "1"), exact_delta(back, "1")) <= proved * (1 + 1e-12)

    def test_a_broken_table_is_refused(self) -> None:
        noise = least_noise(WHOLE, 20)
        assert noise is not None
        half = list(noise.half)
        half[3] += 1
        with refused("a table of noise must be symmetric, of positive integers that sum to 2**128"):
            KeyNoise(noise.cells, tuple(half))
        half[-1] -= 1 + (1 << (BITS - 12))
        half[3] += 1 << (BITS - 12)
        with pytest.raises(PrivacyViolation, match="does not hold for 20 keys together, since delta may be"):
            certify_many_keys(KeyNoise(noise.cells, tuple(half)), 20, WHOLE)

    @pytest.mark.parametrize("offset", [0, 1, 3])
    def test_the_laws_of_all_modules_are_that_of_the_table(self, offset: int) -> None:
        noise = replace(SMALL, offset=offset)
        for i in (1, 2, 4, 6, 8, 9, 10, 1000, 10**15):
            truth = law_of(noise, i)
            law = token_law(i, KeepAll(), noise)
            assert law.not_reported == pytest.approx(float(truth.get(0, 0)), abs=1e-300)
            assert dict(zip(law.cells.tolist(), law.probabilities.tolist(), strict=True)) == pytest.approx(
                {token: float(p) for token, p in truth.items() if token}
            )
            exact = integer_law(i, KeepAll(), noise)
            drawn = {i - k: p for k, p in enumerate(exact.probabilities)}
            assert drawn == {token: p for token, p in truth.items() if token}
        reported = [float(1 - law_of(noise, i).get(0, Fraction(0))) for i in range(14)]
        assert reporting_probabilities(range(14), KeepAll(), noise) == pytest.approx(reported)
        absent = reporting_probabilities(range(14), KeepAll(), noise, complement=True)
        assert absent == pytest.approx([1 - p for p in reported], abs=1e-15)

    @pytest.mark.parametrize("offset", [0, 1, 3])
    def test_columns_are_those_of_the_table(self, offset: int) -> None:
        """What estimators read: each token at all frequencies, and the frequency at which it is likeliest."""
        noise = replace(SMALL, offset=offset)
        rows = {i: law_of(noise, i) for i in range(1, 40)}
        reporting, tokens = Reporting.of(KeepAll(), noise), np.array([1, 2, 3, 9, 10, 25])
        frequencies, mass = supports(tokens, reporting, 1)
        at, again, above, from_it = exceedances(tokens, reporting, 1)
        assert (again == mass).all()
        for n, token in enumerate(tokens.tolist()):
            column = {i: float(row[token]) for i, row in rows.items() if token in row}
            found = dict(zip(frequencies[n].tolist(), mass[n].tolist(), strict=True))
            assert {i: p for i, p in found.items() if p} == pytest.approx(column)
            assert column[int(likeliest_frequencies([token], KeepAll(), noise)[0])] == max(column.values())
            for i, higher, at_least in zip(at[n].tolist(), above[n].tolist(), from_it[n].tolist(), strict=True):
                reported = 1 - rows[i].get(0, Fraction(0))
                chances = [sum((p for t, p in rows[i].items() if t >= low), Fraction(0)) for low in (token + 1, token)]
                assert [higher, at_least] == pytest.approx([float(chance / reported) for chance in chances])

    @pytest.mark.parametrize("offset", [0, 1, 3])
    def test_drawn_tokens_are_those_of_the_table(self, offset: int) -> None:
        """For evenly spaced coins, by the comparison of integers; keys that share a frequency, and keys alone."""
        noise = replace(SMALL, offset=offset)
        words = np.arange(997, dtype=np.uint64) * np.uint64(2**64 // 997)
        for i in (1, 2, 5, 7, 9, 10, 60):
            numbers = [int(word) << (BITS - 64) for word in words.tolist()]
            differences = [i - bisect_right(noise.cuts, v) + 1 for v in numbers]
            expected = [max(x, 1) if x >= 1 - offset else 0 for x in differences]
            together = Sanitizer(KeepAll(), noise)(np.full(words.size, i), GivenCoins(words))
            alone = [
                Sanitizer(KeepAll(), noise)(np.array([i]), GivenCoins(words[n : n + 1])) for n in range(0, 997, 31)
            ]
            assert tokens_of(together, words.size) == expected
            assert [tokens_of(one, 1)[0] for one in alone] == expected[::31]

    def test_it_is_for_all_keys_and_whole_tokens(self) -> None:
        with refused("bounded noise is for all keys"):
            Reporting.of(Ppswor("0.1"), SMALL)
        with refused("bounded noise has whole tokens"):
            integer_law(3, KeepAll(), SMALL, grid=4)
        with pytest.raises(PrivacyViolation, match="bounded noise is for all keys"):
            certify_keys(Ppswor("0.1"), SMALL)

    def test_at_every_kth_frequency(self) -> None:
        """Coarser noise has the same probability of what lies below, for predictions."""
        noise = least_noise(WHOLE, 50)
        assert noise is not None
        coarse = noise.strided(4)
        fine = noise.below[::4]
        assert np.abs(coarse.below[: len(fine)] - fine[: len(coarse.below)]).max() < 0.05

    @pytest.mark.parametrize("of", ["frequency", "keys"])
    @pytest.mark.parametrize("offset", [0, 5])
    def test_intervals_of_sums_hold(self, of: str, offset: int) -> None:
        """In 190 of 200 simulated releases or more, seeded; with a coverage of 90 %, 190 or more has odds of 0.01."""
        noise = least_noise(WHOLE, 10)
        assert noise is not None
        noise = replace(noise, offset=offset)
        generator = np.random.default_rng(5)
        frequencies = np.floor(90 * (1 - generator.random(1500)) ** -0.9).astype(np.int64)
        measure = Measure.of(of)
        truth, held = float(measure(frequencies).sum()), 0
        for _ in range(200):
            tokens = frequencies - generator.choice(noise.cells, size=len(frequencies), p=noise.probabilities)
            reported = np.maximum(tokens[tokens >= 1 - offset], 1)
            low, high = estimate_sum(Tally.of(reported), Scheme(KeepAll(), noise, 1), measure).interval(0.95)
            held += low <= truth <= high
        assert held >= 190


class TestOffset:
    """Keys that are reported although their noise exceeds their frequency by a little."""

    NOISE = KeyNoise.of([2, 11, 60, 4000, 60000, 60000, 4000, 60, 11, 2], offset=1)

    @staticmethod
    def pairs(noise: KeyNoise, frequencies: Sequence[int]) -> list[Any]:
        return [(law_of(noise, i), law_of(noise, i - 1)) for i in frequencies]

    @pytest.mark.parametrize("keys", [1, 2, 3])
    @pytest.mark.parametrize("epsilon", ["0.5", "2", "4", "12"])
    def test_the_certificate_is_the_worst_of_new_and_other_keys(self, keys: int, epsilon: str) -> None:
        """Exactly, over all outcomes, in both directions. The proof gives away an order of delta squared."""
        worst = 0.0
        for new in range(keys + 1):
            pairs = self.pairs(self.NOISE, [1] * new + [40] * (keys - new))
            worst = max(worst, exact_delta(pairs, epsilon), exact_delta([(b, a) for a, b in pairs], epsilon))
        proved = float(certify_many_keys(self.NOISE, keys, Privacy(epsilon, "0.9")).delta)
        assert worst * (1 - 1e-12) <= proved <= worst * 1.01

    @pytest.mark.parametrize("offset", [1, 2, 3])
    @pytest.mark.parametrize("epsilon", ["1", "5"])
    def test_no_frequencies_cost_more(self, offset: int, epsilon: str) -> None:
        noise = replace(SMALL, offset=offset)
        proved = float(certify_many_keys(noise, 2, Privacy(epsilon, "0.99")).delta)
        for frequencies in product((1, 2, 3, 5, 9, 11, 30), repeat=2):
            pairs = self.pairs(noise, frequencies)
            found = max(exact_delta(pairs, epsilon), exact_delta([(b, a) for a, b in pairs], epsilon))
            assert found <= proved * (1 + 1e-12)

    def test_new_keys_can_cost_more_than_others(self) -> None:
        """Which is why both are counted: at a large epsilon, the ends are all that costs."""
        proved = certify_many_keys(self.NOISE, 3, Privacy(20, "0.9")).delta
        assert proved >= 3 * self.NOISE.new_key > 3 * self.NOISE.delta

    @pytest.mark.parametrize("keys", [21, 33])
    def test_many_keys_by_ranges(self, keys: int) -> None:
        """No number of new keys costs more than the certificate says, and one number costs nearly as much."""
        plain, whole = least_noise(WHOLE, 50), Privacy(1, "0.9")
        assert plain is not None
        noise = replace(plain, offset=2)
        proved = certify_many_keys(noise, keys, whole).delta
        costs = [
            j * noise.new_key + (certify_many_keys(plain, keys - j, whole).delta if j < keys else 0)
            for j in range(0, keys + 1, 4)
        ]
        assert max(costs) <= proved <= 1.3 * max(*costs, keys * noise.new_key)

    def test_the_curve_sets_new_keys_aside(self) -> None:
        curve = curve_of_keys(self.NOISE, 5, Privacy(20, "0.5"))
        plain = curve_of_keys(replace(self.NOISE, offset=0), 5, Privacy(20, "0.5"))
        assert curve.divergences == plain.divergences
        assert (curve.delta, plain.delta) == (5 * self.NOISE.new_key, 5 * self.NOISE.delta)
        assert self.NOISE.new_key == law_of(self.NOISE, 1)[1]

    def test_gaussian_noise_has_none(self) -> None:
        """The proof of zCDP and GDP does not count new keys."""
        whole = Privacy.zcdp("0.1", "1e-6")
        noise = chosen_per_key(whole, 5)
        assert isinstance(noise, KeyNoise)
        certify_many_keys(noise, 5, whole)
        with pytest.raises(PrivacyViolation, match="does not hold for 5 keys together"):
            certify_many_keys(replace(noise, offset=1), 5, whole)

    def test_the_json_form_states_it_if_there_is_one(self) -> None:
        assert self.NOISE.to_json()["offset"] == 1
        assert "offset" not in SMALL.to_json()
        assert per_key_from_json(self.NOISE.to_json()) == self.NOISE != replace(self.NOISE, offset=0)
        assert "with offset 1" in str(self.NOISE)
        assert "cut off below 0, with a token of at least 1" in str(certify_keys(KeepAll(), self.NOISE))

    @pytest.mark.parametrize("offset", [-1, 4, 10**9, "1", 1.0, True, None])
    def test_a_wrong_one_is_refused(self, offset: Any) -> None:
        with refused("the offset of noise must be a whole number before the middle of its table"):
            per_key_from_json(SMALL.to_json() | {"offset": offset})


def coin(p: Fraction) -> dict[bool, Fraction]:
    return {True: p, False: 1 - p}


def moment(p: Fraction, q: Fraction, order: Fraction) -> Any:
    """exp((order - 1) D) of two coins, in many digits."""
    a = mpmath.mpf(order.numerator) / order.denominator
    pairs = ((p, q), (1 - p, 1 - q))
    exact = [[mpmath.mpf(x.numerator) / x.denominator for x in pair] for pair in pairs]
    return sum(x**a * y ** (1 - a) for x, y in exact)


class TestRenyiSteps:
    STEPS = RenyiSteps(Fraction(12), Fraction("0.05"), Fraction("1e-7"))

    @pytest.mark.parametrize(
        "sampling", [KeepAll(), Ppswor("0.02"), Priority("0.01"), CustomSampling([0.001, 0.2, 0.9])]
    )
    def test_every_step_diverges_by_no_more(self, sampling: Sampling) -> None:
        reporting, steps = Reporting.of(sampling, self.STEPS), self.STEPS
        limit = mpmath.exp((mpmath.mpf(12) - 1) * mpmath.mpf("0.05"))
        pi = [Fraction(reporting.pi(i), reporting.one) for i in range(min(sampling.largest, 120) + 1)]
        for before, now in pairwise(pi):
            assert before <= now
            if before == 0:
                assert now <= steps.delta
            elif now == 1:
                assert 1 - before <= steps.delta
            else:
                assert max(moment(now, before, steps.order), moment(before, now, steps.order)) <= limit

    def test_no_larger_step_is_allowed(self) -> None:
        reporting, limit = Reporting.of(KeepAll(), self.STEPS), mpmath.exp(11 * mpmath.mpf("0.05"))
        for i in range(2, 60):
            before, now = (Fraction(reporting.pi(j), reporting.one) for j in (i - 1, i))
            if now < 1:
                more = (
                    now * (1 + Fraction(1, 10**8)) if now < Fraction(1, 2) else 1 - (1 - now) * (1 - Fraction(1, 10**8))
                )
                assert max(moment(more, before, Fraction(12)), moment(before, more, Fraction(12))) > limit

    def test_keys_at_any_frequencies_have_the_privacy_together(self) -> None:
        """Exactly, over all outcomes of three keys at mixed frequencies, in both directions."""
        steps = largest_steps(Privacy(2, "1e-3"), 3)
        assert steps is not None
        reporting = Reporting.of(KeepAll(), steps)
        pi = [Fraction(reporting.pi(i), reporting.one) for i in range(60)]
        certify_many_keys(steps, 3, Privacy(2, "1e-3"))
        generator = np.random.default_rng(3)
        levels = [*(3 * [i] for i in range(1, 30)), *generator.integers(1, 30, (60, 3)).tolist()]
        for chosen in levels:
            pairs = [(coin(pi[i]), coin(pi[i - 1])) for i in chosen]
            assert exact_delta(pairs, "2") <= 1e-3
            assert exact_delta([(b, a) for a, b in pairs], "2") <= 1e-3

    @pytest.mark.parametrize("sampling", [KeepAll(), Ppswor("1e-4"), Priority("0.3")])
    def test_certificates_cover_every_frequency(self, sampling: Sampling) -> None:
        certificate = certify_keys(sampling, self.STEPS)
        assert certificate.complete
        assert certificate.comparisons > 10
        assert "every frequency is covered" in str(certificate)
        assert certificate.to_json()["holds"] == "at every frequency"

    def test_a_function_is_known_where_it_was_called(self) -> None:
        assert not certify_keys(CustomSampling(lambda i: np.minimum(i / 1e3, 1)), self.STEPS).complete

    def test_a_larger_step_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        steps = replace(self.STEPS, divergence=Fraction("0.0501"))
        reporting = Reporting.of(KeepAll(), steps)
        right = reporting.pi
        monkeypatch.setattr(reporting, "pi", lambda i: right(i) * 11 // 10 if i == 9 else right(i))
        with pytest.raises(PrivacyViolation, match="no private step"):
            certify_keys(KeepAll(), steps)

    def test_what_costs_more_is_refused(self) -> None:
        with pytest.raises(PrivacyViolation, match="does not hold for 500 keys together"):
            certify_many_keys(self.STEPS, 500, WHOLE)


class TestChoice:
    """At (1, 1e-6): the numbers of users at which a key has an even chance."""

    @pytest.mark.parametrize(("keys", "most"), [(3, 37), (10, 64), (50, 122), (100, 162), (1000, 453)])
    def test_with_values(self, keys: int, most: int) -> None:
        each = chosen_per_key(WHOLE, keys)
        assert even_chance(each) <= most
        assert certify_many_keys(each, keys, WHOLE).delta <= WHOLE.delta

    @pytest.mark.parametrize(
        ("epsilon", "keys", "most"), [("1", 4, 27), ("3", 4, 11), ("8", 5, 6), ("8", 10, 8), ("1", 10, 40)]
    )
    def test_with_an_offset(self, epsilon: str, keys: int, most: int) -> None:
        """At a delta of 1e-4: as low as Gaussian noise with a threshold (`benchmarks/many_keys.py`), or lower."""
        whole = Privacy(epsilon, "1e-4")
        each = chosen_per_key(whole, keys)
        assert isinstance(each, KeyNoise)
        assert each.offset > 0
        assert even_chance(each) <= most
        assert certify_many_keys(each, keys, whole).delta <= whole.delta
        assert keys * each.new_key <= whole.delta * Fraction("0.6001")  # what ledgers set aside

    @pytest.mark.parametrize(("keys", "most"), [(10, 53), (50, 90), (100, 114), (1000, 278)])
    def test_keys_only(self, keys: int, most: int) -> None:
        each = chosen_per_key(WHOLE, keys, keys_only=True)
        assert isinstance(each, RenyiSteps)
        assert even_chance(each) <= most
        certify_many_keys(each, keys, WHOLE)
        assert chosen_per_key(WHOLE, keys, all_keys=False, keys_only=True) == each

    @pytest.mark.parametrize("privacy", [WHOLE, Privacy("0.1", "1e-9"), Privacy(3, "1e-4")])
    def test_never_worse_than_the_theorem(self, privacy: Privacy) -> None:
        for keys in (1, 2, 3, 8):
            theorem = per_key(privacy, keys)
            assert even_chance(chosen_per_key(privacy, keys)) <= even_chance(theorem)
            assert even_chance(chosen_per_key(privacy, keys, keys_only=True)) <= even_chance(theorem)
            assert chosen_per_key(privacy, keys, all_keys=False) == theorem  # samples with values have this alone

    @pytest.mark.parametrize(
        ("epsilon", "delta", "keys"),
        [("0.05", "1e-12", 5), ("0.05", "1e-3", 50), ("1", "1e-6", 50), ("1", "1e-6", 10), ("10", "1e-12", 20)],
    )
    def test_predictions_are_close(self, epsilon: str, delta: str, keys: int) -> None:
        """Of long noise within 3 %; of short noise within two users."""
        whole = Privacy(epsilon, delta)
        exact, quick = least_noise(whole, keys), least_noise(whole, keys, quick=True)
        assert exact is not None
        assert quick is not None
        assert abs(even_chance(quick) - even_chance(exact)) <= max(0.03 * even_chance(exact), 2)

    @pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-12), (0.05, 1e-3), (1.0, 1e-6)])
    def test_long_laws_follow_the_differential_equation(self, epsilon: float, delta: float) -> None:
        """Against the recursion, cell by cell."""
        order = noise_search.orders_near(epsilon, delta)[4]
        for deviation in (60, 200):
            slope = 2 * order * (order - 1) / deviation**2
            exact, smooth = (
                shape(order, slope, delta / 50, 1 << 20)
                for shape in (noise_search.recursive_shape, noise_search.smooth_shape)
            )
            assert exact is not None
            assert smooth is not None
            assert abs(len(exact) - len(smooth)) <= 2
            middle = slice(len(exact) // 4, len(exact) // 2)
            shift = (len(smooth) - len(exact)) // 2
            assert smooth[middle.start + shift : middle.stop + shift] == pytest.approx(exact[middle], rel=0.01)

    @pytest.mark.parametrize(
        ("epsilon", "delta", "keys"), [("0.1", "1e-12", 20), ("1", "1e-6", 50), ("3", "1e-12", 5), ("10", "1e-12", 200)]
    )
    def test_floats_have_digits_for_a_small_delta(self, epsilon: str, delta: str, keys: int) -> None:
        """Against the certificate, which is in integers. Without a tilt, errors are of the order of 1e-12."""
        whole = Privacy(epsilon, delta)
        noise = least_noise(whole, keys)
        assert noise is not None
        proved = certify_many_keys(replace(noise, offset=0), keys, whole).delta
        law = replace(noise, offset=0).probabilities
        assert noise_search.delta_in_floats(law, float(epsilon), keys) == pytest.approx(float(proved), rel=0.02)

    def test_curves_bound_the_law(self) -> None:
        """The Rényi divergences of the keys together, from the table in many digits."""
        curve = curve_of_keys(SMALL, 5, Privacy(20, "0.5"))
        p = [mpmath.mpf(n) / (1 << BITS) for n in SMALL.table]
        for order, divergence in zip(ORDERS, curve.divergences, strict=True):
            a = mpmath.mpf(order.numerator) / order.denominator
            total = sum(x**a * y ** (1 - a) for x, y in zip(p[1:], p, strict=False)) / (1 - p[0])
            exact = 5 * mpmath.log(total) / (a - 1)
            bound = mpmath.mpf(divergence.numerator) / divergence.denominator
            assert exact <= bound <= exact * (1 + mpmath.mpf("1e-7"))
        assert curve.delta == 5 * SMALL.delta

    def test_one_known_order_lowers_the_smaller_ones(self) -> None:
        curve = curve_of_keys(TestRenyiSteps.STEPS, 10, WHOLE)
        plain = curve_of_keys(WHOLE, 1, WHOLE)
        for order, ours, others in zip(ORDERS, curve.divergences, plain.divergences, strict=True):
            assert ours == (min(others, Fraction("0.5")) if order <= 12 else others)


class TestFiles:
    @pytest.mark.parametrize("each", [SMALL, TestRenyiSteps.STEPS, Privacy("0.1", "1e-9")])
    def test_the_json_form(self, each: Any) -> None:
        assert per_key_from_json(each.to_json()) == each

    def test_an_unknown_method_is_refused(self) -> None:
        with refused("keys are drawn with an epsilon and delta, or by one of bounded noise, Rényi steps"):
            per_key_from_json({"method": "magic"})

    @pytest.mark.parametrize(
        "change",
        [
            lambda form: form | {"cells": 4},
            lambda form: form | {"half": form["half"][:-1]},
            lambda form: form | {"half": ["0", *form["half"][1:]]},
            lambda form: form | {"cells": "9"},
        ],
    )
    def test_a_damaged_table_is_refused(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        with pytest.raises((InvalidValue, TypeError)):
            per_key_from_json(change(SMALL.to_json()))

    def test_terms_refuse_a_method_where_it_cannot_be(self) -> None:
        for each, options in ((SMALL, {}), (TestRenyiSteps.STEPS, {"max_keys": 3})):
            with refused("what keys and totals spent does not add up to the privacy of the release"):
                stated_terms(WHOLE, KeepAll(), ("k",), grid=1, per_key=each, **options)

    @pytest.mark.chance("certain: what is compared does not depend on what is drawn")
    @pytest.mark.parametrize(
        ("options", "method"),
        [
            ({}, KeyNoise),
            ({"keys_only": True}, RenyiSteps),
            ({"keys_only": True, "sampling": Ppswor("0.05")}, RenyiSteps),
            ({"sampling": Ppswor("0.05")}, Privacy),
        ],
    )
    def test_releases_say_which_and_are_proved(self, options: dict[str, Any], method: type, tmp_path: Path) -> None:
        table = pa.table({"u": np.arange(6000) // 3, "k": np.arange(6000) % 40})
        made = dpsample.release(table, "k", privacy=WHOLE, user="u", max_keys_per_user=6, **options)
        assert isinstance(made.per_key, method)
        for name in ("r.parquet", "r.csv", "r.arrow"):
            made.write(tmp_path / name)
            assert dpsample.read_release(tmp_path / name) == made
        proof = prove_release(made.terms)
        assert proof.complete
        assert proof.composition is not None
        assert proof.composition.delta <= WHOLE.delta
        assert "Keys of one user together:" in str(proof)
        assert "Curve:     Rényi divergence at most" in str(proof)


@pytest.mark.chance("odds 1e-9: 400 keys, each above the threshold by ten deviations")
def test_answers_from_bounded_noise() -> None:
    """Tokens, estimates, top lists, quantiles and ranks work as on any other law."""
    table = pa.table({"u": np.tile(np.arange(900), 400), "k": np.repeat(np.arange(400), 900)})
    small = pa.table({"u": np.arange(4000) % 1000, "k": np.full(4000, 7)})
    made = dpsample.release(
        pa.concat_tables([table, small]), "k", privacy=Privacy(4, "1e-6"), user="u", max_keys_per_user=400
    )
    noise = made.per_key
    assert isinstance(noise, KeyNoise)
    assert len(made) == 400
    total = made.sum()
    deviation = math.sqrt(400) * math.sqrt(2) / noise.epsilon
    assert abs(total.value - (400 * 900 + 100)) < 10 * deviation
    assert abs(made.quantiles([0.5]).numbers["value"][0].as_py() - 900) < 12 * math.sqrt(2) / noise.epsilon
    assert len(made.top(5)) == 5
    law = next(token_laws([900], KeepAll(), noise))
    assert abs(made.table["token"].to_numpy().mean() - float(law.probabilities @ law.tokens)) < deviation
