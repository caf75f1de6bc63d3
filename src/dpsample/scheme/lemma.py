"""The lemma of docs/theory.md, section 5: which delta the integer laws spend, at every frequency at once.

Rounding costs each token a few units of 2**-bits, and a row has a bounded number of tokens. So if pi takes private
steps only, every pair of neighbouring rows spends at most

    D + N (3 + 2 E) + (E + 1) (G + 5)     units,

with D the delta that the integers are built with, N a bound of the number of tokens, and G = `MAX_WIDTH` one of the
distance of the bounds of q. That pi does so is checked in integers. q does not decrease, so if one private step leads
from pi_a to q_b, then so it does from every row between a and b to the next; the rest is bisection.
"""

import math
from collections.abc import Callable
from itertools import pairwise

from dpsample.errors import PrivacyViolation
from dpsample.scheme.law import Law
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import MAX_WIDTH


def support_bound(reporting: Reporting) -> int:
    """Return a bound of the number of rows, after its first, in which a token has positive probability: 5 n + 1.

    n is at least ``ln(1 + 2 (E - 1) / delta) / epsilon``, the number of steps from 0 to 1 if half of delta is lost.
    Floats propose it, and integers decide.
    """
    epsilon = min(float(reporting.privacy.epsilon), 64.0)
    x = math.log(math.expm1(epsilon)) + math.log(2 * reporting.one) - math.log(reporting.delta)
    log_one_plus_exp = max(x, 0) + math.log1p(math.exp(-abs(x)))
    n = math.floor(log_one_plus_exp / epsilon) + 1
    while not _reaches_one(reporting, n):
        n += 1
    return 5 * n + 1


def _reaches_one(reporting: Reporting, n: int) -> bool:
    """Whether ``E**n``, rounded down, is at least ``1 + 2 (E - 1) / delta``."""
    bits, one = reporting.ratio_bits, 1 << reporting.ratio_bits
    power = one
    for digit in f"{n:b}":
        power = power * power >> bits
        if digit == "1":
            power = power * reporting.E >> bits
    return (
        power * reporting.delta >= one * reporting.delta + 2 * (reporting.E - one) * reporting.one
    )


def delta_bound(reporting: Reporting, grid: int) -> int | None:
    """Return the delta that no pair of rows exceeds if pi takes private steps only, in units of 2**-bits.

    None if the lemma does not apply: if E is too close to 1, or delta too few units.
    """
    E, inverse, one = reporting.E, reporting.inverse, 1 << reporting.ratio_bits
    close_to_one = (E - one) << 40 < one or inverse >= one
    few_units = reporting.delta << reporting.ratio_bits < E << 74
    if close_to_one or few_units:
        return None
    ratio = (E >> reporting.ratio_bits) + 1
    tokens = (support_bound(reporting) + 2) * grid + 1
    return reporting.delta + tokens * (3 + 2 * ratio) + (ratio + 1) * (MAX_WIDTH + 5)


def check_steps(
    reporting: Law, largest: int, private_step: Callable[[int, int], bool] | None = None
) -> int:
    """Check that pi takes private steps only, up to a frequency; return how many comparisons that took.

    `private_step` says whether a step from one pi to another is; by default, whether `advance` allows it.
    """
    private_step = private_step or (lambda before, now: now <= reporting.advance(before))
    pi, bounds, bits = reporting.pi, reporting.sampling.bounds, reporting.bits
    binding = [i for i in reporting.binding.tolist() if i <= largest]
    for i in binding:
        before, now, q = pi(i - 1), pi(i), bounds(i, bits)[0]
        if not (before <= now <= q and private_step(before, now)):
            raise _violation(reporting, i)
    steps = len(binding)
    # the stretches in which pi = q: after one binding row, and before the next
    ends = [0, *binding, largest + 1]
    intervals = [(a, b - 1) for a, b in pairwise(ends) if b - a > 1]
    while intervals:
        a, b = intervals.pop()
        steps += 1
        if not private_step(pi(a), pi(b)):
            if b - a == 1:
                raise _violation(reporting, b)
            middle = (a + b) // 2
            intervals += [(a, middle), (middle, b)]
    return steps


def _violation(reporting: Law, frequency: int) -> PrivacyViolation:
    return PrivacyViolation(
        f"{reporting.per_key} must hold at every frequency; found a reporting probability that is no private step from "
        f"frequency {frequency - 1} to {frequency}; do not use {reporting.sampling} with these parameters"
    )
