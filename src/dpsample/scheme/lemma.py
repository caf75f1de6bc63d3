"""The lemma of docs/theory.md, section 5: a bound of the delta that the integer laws spend, at every frequency at once.

Rounding costs each token a few units of 2**-bits, and a row has a bounded number of tokens. So if pi takes private
steps only, every pair of neighbouring rows spends at most

    D + N (3 + 2 E) + (E + 1) (G + 5)     units,

with D the delta that the integers are built with, N a bound of the number of tokens, and G = `MAX_WIDTH` one of the
distance of the bounds of q. That pi does so is checked in integers. q does not decrease, so if one private step leads
from pi_a to q_b, then one leads from every row between a and b to the next; the rest is bisection.
"""

import math
from collections.abc import Callable
from itertools import pairwise

from dpsample.errors import PrivacyViolation
from dpsample.scheme.law import Law
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import MAX_WIDTH

# The conditions of the lemma: e - 1 >= 2**-40, and D >= 2**74 e.
_LEAST_GROWTH_BITS = 40
_LEAST_DELTA_BITS = 74


def support_bound(reporting: Reporting) -> int:
    """Return a bound of the number of rows, after its first, in which a token has positive probability: 5 n + 1.

    n is at least ``ln(1 + 2 (E - 1) / delta) / epsilon``, the number of steps from 0 to 1 if half of delta is lost: (c)
    of the proof. Floats propose it, and integers decide.
    """
    epsilon = min(float(reporting.privacy.epsilon), 64.0)
    log_growth = math.log(math.expm1(epsilon))
    x = log_growth + math.log(2 * reporting.one) - math.log(reporting.delta)
    log_one_plus_exp_x = max(x, 0) + math.log1p(math.exp(-abs(x)))
    n = math.floor(log_one_plus_exp_x / epsilon) + 1
    while not _reaches_one(reporting, n):
        n += 1
    return 5 * n + 1


def _reaches_one(reporting: Reporting, n: int) -> bool:
    """Whether ``E**n``, rounded down, is at least ``1 + 2 (E - 1) / delta``; by repeated squaring."""
    bits = reporting.ratio_bits
    one = 1 << bits
    power = one
    for digit in f"{n:b}":
        power = power * power >> bits
        if digit == "1":
            power = power * reporting.E >> bits
    # both sides times delta, over ratio_bits and bits
    times_delta = power * reporting.delta
    needed = one * reporting.delta + 2 * (reporting.E - one) * reporting.one
    return times_delta >= needed


def delta_bound(reporting: Reporting, grid: int) -> int | None:
    """Return the delta that no pair of rows exceeds if pi takes private steps only, in units of 2**-bits.

    None if the lemma does not apply: if E is too close to 1, or delta too few units.
    """
    E = reporting.E
    one = 1 << reporting.ratio_bits
    is_close_to_one = (E - one) << _LEAST_GROWTH_BITS < one or reporting.inverse >= one
    is_few_units = reporting.delta << reporting.ratio_bits < E << _LEAST_DELTA_BITS
    if is_close_to_one or is_few_units:
        return None
    E_above = (E >> reporting.ratio_bits) + 1
    tokens = (support_bound(reporting) + 2) * grid + 1
    return reporting.delta + tokens * (3 + 2 * E_above) + (E_above + 1) * (MAX_WIDTH + 5)


def check_steps(
    reporting: Law, largest: int, private_step: Callable[[int, int], bool] | None = None
) -> int:
    """Check that pi takes private steps only, up to a frequency; return the number of comparisons.

    `private_step` says whether a step from one pi to another is private; by default, whether `advance` allows it.
    """
    is_private = private_step or (lambda before, now: now <= reporting.advance(before))
    binding = [i for i in reporting.binding.tolist() if i <= largest]
    for i in binding:
        before = reporting.pi(i - 1)
        now = reporting.pi(i)
        q_below, _ = reporting.sampling.bounds(i, reporting.bits)
        if not (before <= now <= q_below and is_private(before, now)):
            raise _violation(reporting, i)
    comparisons = len(binding)
    # the stretches in which pi = q: after one binding row, and before the next
    ends = [0, *binding, largest + 1]
    stretches = [(start, end - 1) for start, end in pairwise(ends) if end - start > 1]
    while stretches:
        a, b = stretches.pop()
        comparisons += 1
        if is_private(reporting.pi(a), reporting.pi(b)):
            continue
        if b - a == 1:
            raise _violation(reporting, b)
        middle = (a + b) // 2
        stretches += [(a, middle), (middle, b)]
    return comparisons


def _violation(reporting: Law, frequency: int) -> PrivacyViolation:
    return PrivacyViolation(
        f"{reporting.per_key} must hold at every frequency; found a reporting probability that is no private step from "
        f"frequency {frequency - 1} to {frequency}; do not use {reporting.sampling} with these parameters"
    )
