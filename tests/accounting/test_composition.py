"""What k keys reveal together: the certified bound against brute force in exact fractions, and the search."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsample import Ppswor, Privacy, PrivacyViolation
from dpsample.accounting.composition import composed_delta, largest_count, per_key
from dpsample.accounting.many_keys import certify_many_keys
from dpsample.scheme import integer_law
from dpsample.scheme.reporting import steps_to_one
from references import PRECISE, decimal
from strategies import decimals
from support import refused


def brute_force(each: Privacy, keys: int, epsilon: Fraction) -> Decimal:
    """The smallest delta of k worst-case mechanisms, by summing over all 4**k outcomes.

    The worst (epsilon', delta')-private mechanism tells the truth outright with probability delta', and otherwise by
    randomized response (Kairouz, Oh and Viswanath): outcomes "surely 0", "0", "1", "surely 1".
    """
    with localcontext(PRECISE):
        E, d = decimal(each.epsilon).exp(), decimal(each.delta)
        if_0 = [d, (1 - d) * E / (1 + E), (1 - d) / (1 + E), Decimal(0)]
        if_1 = list(reversed(if_0))
        whole = decimal(epsilon).exp()
        found = Decimal(0)
        for outcome in product(range(4), repeat=keys):
            p, q = (math.prod((law[o] for o in outcome), start=Decimal(1)) for law in (if_0, if_1))
            found += max(Decimal(0), p - whole * q)
        return found


@pytest.mark.parametrize("keys", [1, 2, 3, 4, 5])
@settings(max_examples=12)
@given(decimals("0.01", "2"), decimals("1e-12", "0.2"), st.fractions(0, 1, max_denominator=50))
def test_the_bound_is_the_brute_force_sum(keys: int, epsilon: Fraction, delta: Fraction, part: Fraction) -> None:
    each = Privacy(epsilon, min(delta, Fraction(1, 100)))
    whole = keys * epsilon * part
    found, true = decimal(composed_delta(each, keys, whole)), brute_force(each, keys, whole)
    assert Fraction(found) >= Fraction(true) * (1 - Fraction(1, 10**100))  # a bound; the brute force has 120 digits
    assert found <= true * (1 + Decimal("1e-9")) + Decimal("1e-60") + decimal(4 * (keys * each.delta) ** 4)


def test_large_numbers_of_keys_against_exact_fractions() -> None:
    """The sum of the theorem term by term, E and exp(epsilon) to 120 digits; C(k, l) as an integer."""
    for keys, epsilon in ((50, "0.0335"), (100, "0.0233"), (1000, "0.0073")):
        each = Privacy(epsilon, "1e-9")
        with localcontext(PRECISE):
            E, whole, d = decimal(each.epsilon).exp(), Decimal(1).exp(), decimal(each.delta)
            terms = (
                math.comb(keys, n) * max(Decimal(0), E ** (keys - n) - whole * E**n) / (1 + E) ** keys
                for n in range(keys + 1)
            )
            true = 1 - (1 - d) ** keys * (1 - sum(terms, Decimal(0)))
        found = decimal(composed_delta(each, keys, Fraction(1)))
        assert true <= found <= true * (1 + Decimal("1e-12"))


@pytest.mark.parametrize("keys", [2, 3])
def test_the_scheme_itself_keeps_the_whole(keys: int) -> None:
    """The very integers that are drawn from: all outcomes of k keys whose frequencies change by one, exactly."""
    whole = Privacy(1, "0.01")
    each = per_key(whole, keys)
    sampling = Ppswor("0.5")
    E = Fraction(PRECISE.exp(Decimal(1)))
    laws = {}
    for i in range(1, 6):
        law = integer_law(i, sampling, each, 1)
        q = Fraction(sampling.bounds(i, 200)[0], 1 << 200)
        laws[i] = {i - k: q * p for k, p in enumerate(law.probabilities)}
        laws[i][0] = 1 - sum(laws[i].values(), Fraction(0))
    laws[0] = {0: Fraction(1)}
    for rows in ((1, 2, 3), (1, 1, 1), (5, 5, 5), (2, 5, 4)):
        pairs = [(laws[r], laws[r - 1]) for r in rows[:keys]]
        up = down = Fraction(0)
        for outcome in product(*(sorted({*a, *b}) for a, b in pairs)):
            with_user, without = (
                math.prod(
                    (pair[n].get(o, Fraction(0)) for pair, o in zip(pairs, outcome, strict=True)), start=Fraction(1)
                )
                for n in (0, 1)
            )
            up += max(Fraction(0), with_user - E * without)
            down += max(Fraction(0), without - E * with_user)
        assert max(up, down) <= whole.delta + Fraction(1, 10**50)


@pytest.mark.parametrize(("keys", "least"), [(50, "0.033"), (100, "0.023")])
def test_what_a_key_gets_at_1_and_1e_6(keys: int, least: str) -> None:
    whole = Privacy(1, 1e-6)
    found = per_key(whole, keys)
    assert found.epsilon >= Fraction(least)
    assert certify_many_keys(found, keys, whole).delta <= whole.delta


@settings(max_examples=25)
@given(decimals("0.05", "5"), decimals("1e-12", "1e-3"), st.integers(1, 300))
def test_a_key_never_gets_less_than_its_share(epsilon: Fraction, delta: Fraction, keys: int) -> None:
    whole = Privacy(epsilon, delta)
    found, basic = per_key(whole, keys), Privacy(epsilon / keys, delta / keys)
    assert composed_delta(found, keys, epsilon) <= delta
    assert found.epsilon >= basic.epsilon
    assert steps_to_one(found) <= steps_to_one(basic)


def test_the_search_leaves_little_unused() -> None:
    """A thousandth more of epsilon' cannot be proved any more, and indeed does not hold."""
    whole = Privacy(1, 1e-6)
    for keys in (30, 50, 200, 2000):
        found = per_key(whole, keys)
        with pytest.raises(PrivacyViolation, match="does not hold for"):
            certify_many_keys(Privacy(found.epsilon * Fraction(1001, 1000), found.delta), keys, whole)


def test_too_much_is_refused() -> None:
    for each, keys in ((Privacy(1, 1e-6), 2), (Privacy("0.5", "6e-7"), 2), (Privacy("0.04", "1e-9"), 50)):
        with pytest.raises(PrivacyViolation, match="does not hold for"):
            certify_many_keys(each, keys, Privacy(1, 1e-6))
    assert certify_many_keys(Privacy("0.5", "5e-7"), 2, Privacy(1, 1e-6)).keys == 2  # basic composition


def test_how_many_fit() -> None:
    whole = Privacy(1, 1e-6)
    for each in (Privacy("0.02", "1e-9"), Privacy("0.3", "1e-7"), Privacy(1, 1e-6)):
        count = largest_count(each, whole)
        assert composed_delta(each, count, whole.epsilon) <= whole.delta
        assert composed_delta(each, count + 1, whole.epsilon) > whole.delta
    assert largest_count(Privacy(2, 1e-6), whole) == 0


@pytest.mark.parametrize("keys", [0, -1, 1.5, True, "3", 100_001], ids=repr)
def test_the_number_of_keys_is_checked(keys: int) -> None:
    with refused("max_keys_per_user must be a whole number"):
        per_key(Privacy(1, 1e-6), keys)
