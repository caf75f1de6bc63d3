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

MOST_KEYS = 100_000
_BITS = 256  # of the bounds of exp
_DIGITS = 60  # beyond those of delta
_SHARES = 16  # into which delta is divided
_FIGURES = 6  # of epsilon' and delta', rounded down


def composed_delta(each: Privacy, keys: int, epsilon: Fraction) -> Fraction:
    """Return a proved upper bound of the delta, at this epsilon, of `keys` mechanisms of privacy `each` together.

    >>> composed_delta(Privacy("0.5", "1e-6"), 1, Fraction(1, 2))
    Fraction(1, 1000000)
    """
    slack = _slack_above(each.epsilon, keys, epsilon, each.delta)
    leaks = _any_leaks(each.delta, keys)
    return min(Fraction(1), leaks + slack - leaks * slack)


def _any_leaks(delta: Fraction, keys: int) -> Fraction:
    """Bound ``1 - (1 - delta)**keys`` from above: an alternating series, cut after a positive term."""
    pairs = math.comb(keys, 2)
    triples = math.comb(keys, 3)
    first = keys * delta
    series = first - pairs * delta**2 + triples * delta**3
    return min(Fraction(1), first, series)


def _slack_above(each: Fraction, keys: int, epsilon: Fraction, least: Fraction) -> Fraction:
    """Bound the slack from above; `least` says how small a number still matters."""
    # the terms that count are those with (k - l) each > epsilon + l each
    last = math.ceil((keys - epsilon / each) / 2) - 1
    if last < 0:
        return Fraction(0)
    digits = _DIGITS + len(str(keys)) + max(0, -math.floor(math.log10(least)))
    up = Context(prec=digits, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
    down = Context(prec=digits, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
    E_low, E_high = _exponential(each, down, up)
    whole_low = _exponential(epsilon, down, up)[0]
    shrink_high = up.divide(Decimal(1), E_low)
    # term l, before division by (1 + E)**k: high of C(k, l) E**(k-l), low of C(k, l) exp(epsilon) E**l
    more, less = _power(E_high, keys, up), whole_low
    total = Decimal(0)
    for l in range(last + 1):  # noqa: E741 - the theorem's own letter
        term = max(Decimal(0), up.subtract(more, less))
        total = up.add(total, term)
        # C(k, l + 1) = C(k, l) (k - l) / (l + 1)
        numerator, denominator = Decimal(keys - l), Decimal(l + 1)
        more = up.multiply(up.multiply(more, shrink_high), numerator)
        more = up.divide(more, denominator)
        less = down.multiply(down.multiply(less, E_low), numerator)
        less = down.divide(less, denominator)
    divisor = _power(down.add(Decimal(1), E_low), keys, down)
    return Fraction(up.divide(total, divisor))


def _power(base: Decimal, n: int, context: Context) -> Decimal:
    """Multiply, each step rounded the context's way; its own power is only almost always rounded right."""
    result = Decimal(1)
    for bit in bin(n)[2:]:
        result = context.multiply(result, result)
        if bit == "1":
            result = context.multiply(result, base)
    return result


def _exponential(x: Fraction, down: Context, up: Context) -> tuple[Decimal, Decimal]:
    """Proved bounds of exp(x): a partial sum of positive terms, which falls short by less than two units."""
    bits = _BITS + 4 * down.prec
    units = exponential_floor(x, bits)
    one = Decimal(1 << bits)
    below = down.divide(down.create_decimal(units), one)
    above = up.divide(up.create_decimal(units + 2), one)
    return below, above


@lru_cache(maxsize=64, typed=True)  # True is no number of keys
def per_key(whole: Privacy, keys: int) -> Privacy:
    """Return the privacy that each of a user's up to `keys` keys gets, so that all together have `whole`.

    Delta is divided: one part for the keys' own delta', the rest buys a larger epsilon'. Keys become visible at about
    frequency L (`steps_to_one`). Of 16 divisions, those count whose L is within 1 % of the lowest, and not above that
    of basic composition, (epsilon / k, delta / k); the one with the largest epsilon' is taken, since estimates err by
    about 1 / epsilon'.

    >>> per_key(Privacy(1, 1e-6), 50)
    Privacy(epsilon='0.0335281', delta='1e-08')
    >>> per_key(Privacy(1, 1e-6), 1)
    Privacy(epsilon='1', delta='1e-06')
    """
    check_keys_per_user(keys)
    basic = Privacy(whole.epsilon / keys, whole.delta / keys)
    candidates = [basic]
    for share in range(1, _SHARES if keys > 1 else 0):
        delta = figures_below(whole.delta * share / (_SHARES * keys), _FIGURES)
        epsilon = _largest_epsilon(keys, float(whole.epsilon), float(whole.delta - keys * delta))
        if epsilon > basic.epsilon:
            candidates.append(Privacy(figures_below(Fraction(epsilon), _FIGURES), delta))
    most = min(steps_to_one(basic), 1.01 * min(map(steps_to_one, candidates)))
    best = max((c for c in candidates if steps_to_one(c) <= most), key=lambda c: c.epsilon)
    step = Fraction(1, 10**_FIGURES)
    while composed_delta(best, keys, whole.epsilon) > whole.delta:  # floats were too bold
        smaller = figures_below(best.epsilon * (1 - step), _FIGURES)
        best = Privacy(max(smaller, basic.epsilon), best.delta)
        step *= 2
    return best


def largest_count(each: Privacy, whole: Privacy) -> int:
    """Return how many mechanisms of privacy `each` are proved to be together as private as `whole`.

    >>> largest_count(Privacy("0.1", "1e-9"), Privacy(2, "1e-6"))
    24
    """
    low, high = (
        min(int(whole.epsilon / each.epsilon), int(whole.delta / each.delta), MOST_KEYS),
        MOST_KEYS + 1,
    )
    while high - low > 1:
        middle = min((low + high) // 2, 2 * low + 1)  # numbers that are far too large take long
        if composed_delta(each, middle, whole.epsilon) <= whole.delta:
            low = middle
        else:
            high = middle
    return low


def check_keys_per_user(keys: Any) -> int:
    """Check the number of keys per user."""
    if (
        isinstance(keys, bool)
        or not isinstance(keys, int | np.integer)
        or not 1 <= keys <= MOST_KEYS
    ):
        raise InvalidValue(
            f"`max_keys_per_user` is a whole number from 1 to {MOST_KEYS:,}",
            repr(keys),
            "choose, without looking at the data, about how many keys a typical user has",
        )
    return int(keys)


def _largest_epsilon(keys: int, epsilon: float, slack: float) -> float:
    """The largest epsilon' for this slack, in floats."""
    log_ratios = np.log(np.arange(keys, 0, -1) / np.arange(1, keys + 1))
    log_choose = np.concatenate([[0.0], np.cumsum(log_ratios)])  # log C(k, l)

    def spent(each: float) -> float:
        """The slack of this epsilon'."""
        last = math.ceil((keys - epsilon / each) / 2) - 1
        first = max(0, last - 64 * math.isqrt(keys) - 64)  # smaller terms vanish
        l = np.arange(first, last + 1)  # noqa: E741 - the theorem's own letter
        log_divisor = keys * np.logaddexp(0.0, each)
        log_size = log_choose[l] + (keys - l) * each - log_divisor
        size = np.exp(log_size)
        share = -np.expm1(epsilon + (2 * l - keys) * each)
        return float((size * share).sum())

    low, high = epsilon / keys, epsilon
    for _ in range(60):
        middle = (low + high) / 2
        if spent(middle) <= slack:
            low = middle
        else:
            high = middle
    return low
