"""Exact references in `decimal`, at 120 digits: they read a scheme's parameters and share no code with the library.

The recurrence of pi loses at most about log10(1/delta) of the digits.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction

from browser import browser as browser
from chance import fixed_coins as fixed_coins
from dpsample import CustomSampling, KeepAll, Ppswor, Priority, Privacy, Sampling
from support import refused as refused

DIGITS = 120
PRECISE = Context(prec=DIGITS, Emin=MIN_EMIN, Emax=MAX_EMAX)
FUZZ = Decimal(10) ** -90  # relative: far above the references' error, far below the library's


def decimal(value: Fraction | int) -> Decimal:
    """A rational number to 120 digits."""
    return PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator))


def true_q(sampling: Sampling, i: int) -> tuple[Decimal, Decimal]:
    """q_i and 1 - q_i from their definitions, each to about 100 digits of its own."""
    with localcontext(PRECISE):
        if i == 0:
            return Decimal(0), Decimal(1)
        if isinstance(sampling, KeepAll):
            kept = i >= sampling.at_least
            return Decimal(int(kept)), Decimal(int(not kept))
        if isinstance(sampling, CustomSampling):
            if sampling.values is not None:
                q = sampling.values[i - 1]
            else:
                assert sampling.function is not None
                q = Fraction(str(sampling.function(i)))
            return decimal(q), decimal(1 - q)
        assert isinstance(sampling, Ppswor | Priority)
        weight = i if sampling.cap is None else min(i, sampling.cap)
        if sampling.power.denominator == 1:
            x = decimal(sampling.tau * weight ** int(sampling.power))
        else:
            x = decimal(sampling.tau) * (decimal(sampling.power) * Decimal(weight).ln()).exp()
        if isinstance(sampling, Priority):
            return min(x, Decimal(1)), max(1 - x, Decimal(0))
        absent = (-x).exp()
        return 1 - absent, absent


def true_qs(sampling: Sampling, frequencies: Iterable[int]) -> list[Decimal]:
    return [true_q(sampling, i)[0] for i in frequencies]


def follow(qs: Iterable[Decimal], privacy: Privacy, pi: Decimal) -> list[Decimal]:
    """pi of consecutive frequencies with these q, when that of the one before them is `pi`."""
    with localcontext(PRECISE):
        E, delta = decimal(privacy.epsilon).exp(), decimal(privacy.delta)
        found = []
        for q in qs:
            pi = min(q, E * pi + delta, 1 - (1 - pi - delta) / E)
            found.append(pi)
        return found


def true_pi(sampling: Sampling, privacy: Privacy, largest: int) -> list[Decimal]:
    """pi_0, ..., pi_largest: Algorithm 3 in 120 digits."""
    return [Decimal(0), *follow(true_qs(sampling, range(1, largest + 1)), privacy, Decimal(0))]


def true_q_fractions(sampling: Sampling, largest: int) -> list[Fraction]:
    """q_1, ..., q_largest for `oracles`: exact where q is rational, else to 60 digits."""
    if isinstance(sampling, CustomSampling) and sampling.values is not None:
        return list(sampling.values[:largest])
    short = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)
    return [Fraction(short.plus(q)) for q in true_qs(sampling, range(1, largest + 1))]


def relative(found: float, true: Decimal, least: Decimal = Decimal(0)) -> float:
    """The error of `found`, relative to the true value or, if that is larger, to `least`."""
    error = abs(Decimal(found) - true)
    return float(error / max(true, least)) if error else 0.0
