"""Claims of the paper's proofs and side remarks, measured: where an exception was found, the case is the smallest one.

`docs/errata.md` has what holds instead, and `tests/paper/test_errata.py` the counterexamples in exact arithmetic.
"""

import math
import warnings
from fractions import Fraction

import numpy as np

from dpsample.comparison.baselines import StabilityHistogram
from dpsample.estimators import unbiased
from dpsample.privacy import Privacy
from dpsample.scheme.ordinal import concordance_with_all
from dpsample.scheme.reporting import Reporting, reporting_probabilities, steps_to_one
from dpsample.scheme.sampling import Floats, KeepAll, Ppswor, Priority
from dpsample.scheme.tokens import token_law
from paper.finding import CORRECTED, FAILS, HOLDS, Finding
from paper.reported import integral, study


def no_unbiased() -> Finding:
    """Look for an unbiased estimator that is never negative, and for a negative value."""
    never = _unbiased(6, study("0.1", "0.5"))
    negative = _unbiased(2, study("1", "1e-6"))
    condition = "some h ≤ L + 1 exceeds 1/(1 − exp(−ε)), as it does for δ below about ε/(2e)"
    return Finding(
        f"at (0.1, 0.5) the unbiased values of the first tokens are {', '.join(f'{a:.0f}' for a in never)}, and so on: "
        f"none is negative; at (1, 1e-6) they are {negative[0]:,.0f} and {negative[1]:,.0f}",
        CORRECTED if never.min() >= 0 > negative.min() else HOLDS,
        condition,
    )


def _unbiased(last: int, privacy: Privacy) -> Floats:
    """The unbiased estimates of the integer tokens up to the last one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return unbiased(range(1, last + 1), KeepAll(), privacy)


def one_key_among_others() -> Finding:
    """Compare the printed formula for a key of frequency 3 between 5 and 2 with the definition, on fine tokens."""
    privacy = study("1", "0.01")
    right = concordance_with_all(3, [5, 2], KeepAll(), privacy, 1 << 10)
    printed = right - _left_out(privacy)
    return Finding(
        f"for a key of frequency 3 among keys of 5 and 2, at (1, 0.01), without sampling: {printed:.4f} by the formula "
        f"without its factor f(α), {right:.4f} by the definition: if neither the key nor a more frequent one is "
        "reported, the pair counts one half, and the formula leaves that out",
        CORRECTED if right - printed > 1e-3 else HOLDS,
        "1 − f_y(0) is replaced by 1 − f_y(0)/2 in the first term, and the integral has no factor f(α)",
    )


def _left_out(privacy: Privacy) -> float:
    """What the first term of the printed formula lacks: neither the key nor the more frequent one is reported."""
    unreported = reporting_probabilities([3, 5, 2], KeepAll(), privacy, complement=True)
    key, higher, lower = unreported.tolist()
    return float(key * (higher / 2) * (lower / 2))


def priority_constraints(cases: int = 100) -> Finding:
    """Count random cases of priority sampling in which growth binds after q did, within and beyond the condition."""
    generator = np.random.default_rng(11)
    within, beyond, tried = 0, 0, 0
    for _ in range(cases):
        epsilon, delta, tau = (float(f"{10**u:.3g}") for u in generator.uniform((-1, -6, -5), (0.3, -2, 0)))
        power = float(f"{generator.uniform(0.1, 3):.2g}")
        binds_again = growth_after_q(Priority(str(tau), str(power)), study(str(epsilon), str(delta)))
        if power <= 1 or tau >= delta:
            tried += 1
            within += binds_again
        else:
            beyond += binds_again
    return Finding(
        f"it binds again in {within} of {tried} random cases within the condition, and in {beyond} of {cases - tried} "
        "cases with p > 1 and τ < δ (ε 0.1 to 2, δ 1e-6 to 1e-2, τ 1e-5 to 1, p 0.1 to 3)",
        HOLDS if within == 0 else FAILS,
    )


def growth_after_q(sampling: Priority, privacy: Privacy, rows: int = 400) -> bool:
    """Return whether pi = exp(epsilon) pi + delta < q at a frequency after one at which pi = q."""
    i = np.arange(1, rows + 1)
    q = sampling.q(i)
    pi = reporting_probabilities(i, sampling, privacy)
    before = np.append(0.0, pi[:-1])
    E, delta = math.exp(float(privacy.epsilon)), float(privacy.delta)
    grow = E * before + delta
    shrink = 1 + (before + delta - 1) / E
    at_q = pi >= q * (1 - 1e-9)
    grows = (grow < q * (1 - 1e-9)) & (grow <= shrink)
    q_has_bound = np.append(False, np.logical_or.accumulate(at_q)[:-1])
    return bool((grows & q_has_bound).any())


def orders_of_magnitude() -> Finding:
    """Compare the reporting probabilities of low frequencies with those of SbH, with and without sampling."""
    whole = study("0.01", "1e-6")
    i = np.arange(1, math.floor(steps_to_one(whole)) + 1)
    most = float((reporting_probabilities(i, KeepAll(), whole) / StabilityHistogram(whole).reported(i)).max())
    privacy, sampled = study("0.1", "0.001"), Ppswor("0.001")
    first = reporting_probabilities([1], sampled, privacy)[0] / StabilityHistogram(privacy, sampled).reported([1])[0]
    return Finding(
        f"up to {most:.0f} times without sampling at (0.01, 1e-6), as 2/ε says; {first:.0f} times at frequency 1 with "
        "ppswor, τ = 0.001, at (0.1, 0.001)",
        HOLDS if most > 100 and first > 10 else CORRECTED,
        "ε is small, or keys are sampled",
    )


def least_variance() -> Finding:
    """State the least variance of an unbiased estimate for a key of frequency 1: one value 1/delta, or 0."""
    delta = Fraction("1e-6")
    least = delta * (1 / delta) ** 2 - 1
    return Finding(
        f"a value 1/δ with probability δ, and else 0, has the variance 1/δ − 1: {int(least):,} at δ = 1e-6",
        CORRECTED,
        "1/δ is replaced by 1/δ − 1",
    )


def geometric_far_out() -> Finding:
    """Measure the ratios next to the mode of a row far out, for an L that is not integral, and for one that is."""
    loose, whole = Privacy("1", "1e-200"), integral("1", 450)
    away = _ratios_at_mode(loose)
    both = _ratios_at_mode(whole)
    return Finding(
        f"at ε = 1, δ = 1e-200 (L = {steps_to_one(loose):.2f}) the probabilities beside the mode are "
        f"{max(away):.3f} and {min(away):.3f} of it; where L is integral, {max(both):.3f} and {min(both):.3f}; "
        f"the geometric law has exp(−ε) = {math.exp(-1):.3f}",
        CORRECTED if max(away) > 0.5 else HOLDS,
        "L is integral",
    )


def _ratios_at_mode(privacy: Privacy) -> tuple[float, float]:
    """The probabilities of the two tokens beside the likeliest one, over its own, at a frequency far out."""
    far = 4 * Reporting.of(KeepAll(), privacy).constant_from
    law = token_law(far, KeepAll(), privacy, 1)
    mode = int(law.probabilities.argmax())
    low, top, high = law.probabilities[mode - 1 : mode + 2].tolist()
    return low / top, high / top
