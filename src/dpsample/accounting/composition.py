"""Composition: what one user's k keys may reveal together, and how much each key gets of it.

A user is in up to k keys, so adding or removing the user changes up to k frequencies by one, and each key is drawn on
its own: a k-fold composition of (epsilon', delta')-private mechanisms. The optimal composition theorem (Kairouz, Oh and
Viswanath; in the form of Murtagh and Vadhan) says exactly what that costs. With ``E = exp(epsilon')``,

    slack = sum_l C(k, l) max(0, E**(k-l) - exp(epsilon) E**l) / (1 + E)**k
    delta = 1 - (1 - delta')**k (1 - slack)

and no smaller delta holds for all such mechanisms. `composed_delta` proves it: every operation is rounded so that
the result is an upper bound. `per_key` searches in floats, which prove nothing, and then steps down until the proof
goes through. `many_keys` has the certificate.
"""

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dpsample.errors import InvalidValue
from dpsample.exact import exponential_floor, figures_below
from dpsample.privacy import Privacy
from dpsample.scheme.reporting import steps_to_one

# The largest contribution bound. `composed_delta` adds up to as many terms, which takes some seconds.
MOST_KEYS = 100_000
# Bits of the bounds of exp, beyond four for each decimal digit that is computed with.
_BITS = 256
# Decimal digits beyond those that delta needs. They keep what thousands of roundings add far below any delta.
_DIGITS = 60
# `per_key` tries divisions of delta in sixteenths. More of them gain less than the 1 % that it tolerates anyway.
_SHARES = 16
# Figures of epsilon' and delta', which are rounded down so that files state short numbers.
_FIGURES = 6
# Divisions of delta with which keys become visible at up to 1 % above the lowest frequency count as equally good.
_TOLERANCE = 1.01


def composed_delta(each: Privacy, keys: int, epsilon: Fraction) -> Fraction:
    """Return a proved upper bound of the delta of `keys` mechanisms of privacy `each` together, at this epsilon.

    >>> composed_delta(Privacy("0.5", "1e-6"), 1, Fraction(1, 2))
    Fraction(1, 1000000)
    """
    slack = _slack_above(each.epsilon, keys, epsilon, each.delta)
    leaks = _any_leaks(each.delta, keys)
    return min(Fraction(1), leaks + slack - leaks * slack)


def _any_leaks(delta: Fraction, keys: int) -> Fraction:
    """Return an upper bound of ``1 - (1 - delta)**keys``, the probability that any of the mechanisms leaks.

    By the inequalities of Bonferroni, the sum over single mechanisms, pairs and triples is a bound if it is cut after a
    positive term.
    """
    pairs = math.comb(keys, 2)
    triples = math.comb(keys, 3)
    union_bound = keys * delta
    three_terms = union_bound - pairs * delta**2 + triples * delta**3
    return min(Fraction(1), union_bound, three_terms)


def _slack_above(each: Fraction, keys: int, epsilon: Fraction, least_delta: Fraction) -> Fraction:
    """Return an upper bound of the slack of the theorem above, for `keys` mechanisms of epsilon' = `each`.

    Numbers far below `least_delta` do not matter, which determines the number of digits.
    """
    last = _last_positive_term(each, keys, epsilon)
    if last < 0:
        return Fraction(0)
    zeros_of_delta = max(0, -math.floor(math.log10(least_delta)))
    digits = _DIGITS + len(str(keys)) + zeros_of_delta
    up = Context(prec=digits, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
    down = Context(prec=digits, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
    E_low, E_high = _exponential(each, down, up)
    whole_low, _ = _exponential(epsilon, down, up)
    shrink_high = up.divide(Decimal(1), E_low)

    # term l, before it is divided by (1 + E)**k, is at most grown - taken
    grown = _power(E_high, keys, up)  # an upper bound of C(k, l) E**(k-l)
    taken = whole_low  # a lower bound of C(k, l) exp(epsilon) E**l
    total = Decimal(0)
    for l in range(last + 1):  # noqa: E741 - the theorem's own letter
        term = max(Decimal(0), up.subtract(grown, taken))
        total = up.add(total, term)
        # C(k, l + 1) = C(k, l) (k - l) / (l + 1)
        numerator = Decimal(keys - l)
        denominator = Decimal(l + 1)
        grown = up.multiply(up.multiply(grown, shrink_high), numerator)
        grown = up.divide(grown, denominator)
        taken = down.multiply(down.multiply(taken, E_low), numerator)
        taken = down.divide(taken, denominator)
    divisor = _power(down.add(Decimal(1), E_low), keys, down)
    return Fraction(up.divide(total, divisor))


def _last_positive_term(each: Fraction | float, keys: int, epsilon: Fraction | float) -> int:
    """Return the last l with ``(k - l) epsilon' > epsilon + l epsilon'``: later terms of the slack are 0."""
    return math.ceil((keys - epsilon / each) / 2) - 1


def _power(base: Decimal, n: int, context: Context) -> Decimal:
    """Return ``base**n`` by squaring, with every step rounded as the context says.

    `Decimal`'s own power is not always rounded in the direction of the context.
    """
    result = Decimal(1)
    for bit in bin(n)[2:]:
        result = context.multiply(result, result)
        if bit == "1":
            result = context.multiply(result, base)
    return result


def _exponential(x: Fraction, down: Context, up: Context) -> tuple[Decimal, Decimal]:
    """Return a lower and an upper bound of exp(x), from `exponential_floor`, which falls short by less than two."""
    bits = _BITS + 4 * down.prec
    units = exponential_floor(x, bits)
    one = Decimal(1 << bits)
    below = down.divide(down.create_decimal(units), one)
    above = up.divide(up.create_decimal(units + 2), one)
    return below, above


@lru_cache(maxsize=64, typed=True)  # typed, so that True, which is refused, is not taken for 1
def per_key(whole: Privacy, keys: int) -> Privacy:
    """Return the privacy of each key, if a user has up to `keys` keys that together have the privacy `whole`.

    A part of delta is for the keys' own delta', and the rest buys a larger epsilon' by the slack of the theorem. With
    each of 15 divisions, and with basic composition, (epsilon / k, delta / k), keys become visible at about some
    frequency (`steps_to_one`). Among the mechanisms for which it is within 1 % of the lowest, and not above that of
    basic composition, the result is the one with the largest epsilon', since estimates err by about 1 / epsilon'.

    >>> per_key(Privacy(1, 1e-6), 50)
    Privacy(epsilon='0.0335281', delta='1e-08')
    >>> per_key(Privacy(1, 1e-6), 1)
    Privacy(epsilon='1', delta='1e-06')
    """
    check_keys_per_user(keys)
    basic = Privacy(whole.epsilon / keys, whole.delta / keys)
    candidates = [basic]
    divisions = range(1, _SHARES) if keys > 1 else range(0)
    for share in divisions:
        part_of_delta = whole.delta * share / (_SHARES * keys)
        delta = figures_below(part_of_delta, _FIGURES)
        slack = float(whole.delta - keys * delta)
        epsilon = _largest_epsilon(keys, float(whole.epsilon), slack)
        if epsilon > basic.epsilon:
            candidates.append(Privacy(figures_below(Fraction(epsilon), _FIGURES), delta))

    fewest_steps = min(map(steps_to_one, candidates))
    most_steps = min(steps_to_one(basic), _TOLERANCE * fewest_steps)
    visible_early = [each for each in candidates if steps_to_one(each) <= most_steps]
    best = max(visible_early, key=lambda each: each.epsilon)

    decrease = Fraction(1, 10**_FIGURES)
    while composed_delta(best, keys, whole.epsilon) > whole.delta:  # floats were too optimistic
        smaller = figures_below(best.epsilon * (1 - decrease), _FIGURES)
        best = Privacy(max(smaller, basic.epsilon), best.delta)
        decrease *= 2
    return best


def largest_count(each: Privacy, whole: Privacy) -> int:
    """Return the largest number of mechanisms of privacy `each` that are proved to have the privacy `whole` together.

    >>> largest_count(Privacy("0.1", "1e-9"), Privacy(2, "1e-6"))
    24
    """
    by_epsilon = int(whole.epsilon / each.epsilon)
    by_delta = int(whole.delta / each.delta)
    low = min(by_epsilon, by_delta, MOST_KEYS)  # allowed by basic composition
    high = MOST_KEYS + 1
    while high - low > 1:
        middle = (low + high) // 2
        middle = min(middle, 2 * low + 1)  # a proof for a number that is far too large takes long
        if composed_delta(each, middle, whole.epsilon) <= whole.delta:
            low = middle
        else:
            high = middle
    return low


def check_keys_per_user(keys: Any) -> int:
    """Return a contribution bound as an int, after checking that it is a whole number in range."""
    is_whole = isinstance(keys, int | np.integer) and not isinstance(keys, bool)
    if not is_whole or not 1 <= keys <= MOST_KEYS:
        raise InvalidValue(
            f"`max_keys_per_user` must be a whole number from 1 to {MOST_KEYS:,}, not {keys!r}",
            "choose, without looking at the data, about how many keys a typical user has",
        )
    return int(keys)


def _largest_epsilon(keys: int, epsilon: float, slack: float) -> float:
    """Return, in floats, the largest epsilon' of `keys` mechanisms whose slack at this epsilon is at most `slack`.

    The terms of the slack are computed by their logarithms: ``C(k, l) E**(k-l) / (1 + E)**k``, times
    ``1 - exp(epsilon + (2 l - k) epsilon')``.
    """
    ratios = np.arange(keys, 0, -1) / np.arange(1, keys + 1)  # C(k, l) / C(k, l - 1)
    log_ratios = np.log(ratios)
    log_choose = np.concatenate([[0.0], np.cumsum(log_ratios)])  # log C(k, l)

    def slack_of(each: float) -> float:
        """Return the slack of epsilon' = `each`."""
        last = _last_positive_term(each, keys, epsilon)
        # the terms are at most a binomial law, of deviation sqrt(k) / 2: smaller l, 128 deviations off, add nothing
        first = max(0, last - 64 * math.isqrt(keys) - 64)
        l = np.arange(first, last + 1)  # noqa: E741 - the theorem's own letter
        log_divisor = keys * np.logaddexp(0.0, each)
        log_size = log_choose[l] + (keys - l) * each - log_divisor
        size = np.exp(log_size)
        log_quotient = epsilon + (2 * l - keys) * each
        share = -np.expm1(log_quotient)
        return float((size * share).sum())

    low = epsilon / keys  # basic composition, which has no slack
    high = epsilon
    for _ in range(60):  # more halvings than a float has bits
        middle = (low + high) / 2
        if slack_of(middle) <= slack:
            low = middle
        else:
            high = middle
    return low
