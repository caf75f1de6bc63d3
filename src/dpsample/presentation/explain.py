"""In plain words: what a release is, whom it protects, and what can be seen in it.

All of it follows from the release and its public parameters.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from dpsample.accounting.totals import RealizedSize, Total
from dpsample.exact import text
from dpsample.privacy import Privacy
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import CustomSampling, KeepAll, Ppswor, Priority, Sampling

LEVELS = (Fraction(1, 10), Fraction(1, 2), Fraction(99, 100))


def explain_sampling(sampling: Sampling) -> str:
    """Say how keys were sampled.

    >>> print(explain_sampling(Ppswor(tau=1e-4)))
    a key of frequency i was sampled with probability 1 - exp(-0.0001 i) (threshold ppswor)
    """
    if isinstance(sampling, KeepAll):
        return "all keys were kept"
    if isinstance(sampling, CustomSampling):
        return "a key was sampled with the given probability for its frequency"
    assert isinstance(sampling, Ppswor | Priority)
    weight = "i" if sampling.cap is None else f"min(i, {sampling.cap})"
    if sampling.power != 1:
        weight += f"^{text(sampling.power)}"
    if isinstance(sampling, Ppswor):
        q = f"1 - exp(-{text(sampling.tau)} {weight}) (threshold ppswor)"
    else:
        q = f"min(1, {text(sampling.tau)} {weight}) (priority)"
    return f"a key of frequency i was sampled with probability {q}"


def explain_protected(max_keys: int | None = None) -> str:
    """Say whom a release protects.

    >>> print(explain_protected())
    each element: one counted occurrence of a key (in aggregated data one unit of frequency, not one row)
    >>> print(explain_protected(50))
    each user (all rows of one person), who counts in up to 50 keys, once in each
    """
    if max_keys is None:
        return "each element: one counted occurrence of a key (in aggregated data one unit of frequency, not one row)"
    keys = "1 key" if max_keys == 1 else f"up to {max_keys:,} keys, once in each"
    return f"each user (all rows of one person), who counts in {keys}"


def explain_privacy(privacy: Privacy, max_keys: int | None = None) -> str:
    """Say whom the privacy protects, and that it adds up."""
    return (
        f"epsilon {text(privacy.epsilon)}, delta {text(privacy.delta)}, for {explain_protected(max_keys)}, all of "
        "it spent on this release; every further release of the same data adds to it"
    )


def explain_total(total: Total) -> str:
    """Say what is known of a total.

    >>> print(explain_total(Total(5000, Fraction(1, 20), Fraction(1))))
    5,000, with 95 % probability from 4,940 to 5,060; epsilon 0.05 went into it
    """
    low, high = total.interval()
    return (
        f"{total.value:,}, with 95 % probability from {low:,} to {high:,}; epsilon {text(total.epsilon)} went into it"
    )


def explain_size(size: RealizedSize) -> str:
    """Say how tau was found."""
    return (
        f"tau was chosen for about {size.wanted:,} sampled keys at most, from a private total of weights "
        f"({float(size.weights.value):,.0f}), into which epsilon {text(size.weights.epsilon)} went"
    )


def visibility(sampling: Sampling, privacy: Privacy) -> list[tuple[Fraction, int | None]]:
    """Return the frequencies from which on a key is reported with probability 10, 50 and 99 %."""
    return [(level, frequency_reaching(float(level), sampling, privacy)) for level in LEVELS]


def explain_visibility(sampling: Sampling, privacy: Privacy) -> str:
    """Say which frequencies have a fair chance to be reported.

    >>> print(explain_visibility(KeepAll(), Privacy(1, 1e-6)))
    a key is reported with probability 10 % from frequency 13 on, 50 % from 14, 99 % from 18
    """
    known = [f"{float(100 * level):g} % from {i:,}" for level, i in visibility(sampling, privacy) if i is not None]
    if not known:
        return "no key is reported with a probability of 10 % or more"
    known[0] = known[0].replace("from ", "from frequency ") + " on"
    return "a key is reported with probability " + ", ".join(known)


@dataclass(frozen=True)
class Strength:
    """What epsilon and delta allow, in numbers that need no mathematics."""

    factor: float  # by which the probability of anything that is published may change, up to delta
    guess: float  # the probability to guess right whether one element or user is there, instead of 1/2
    one_in: int  # 1 / delta, or a little less

    @staticmethod
    def of(privacy: Privacy) -> "Strength":
        """Return them for a privacy.

        >>> Strength.of(Privacy(1, 1e-6))
        Strength(factor=2.718281828459045, guess=0.731058847..., one_in=1000000)
        """
        epsilon, delta = float(privacy.epsilon), float(privacy.delta)
        factor = math.exp(min(epsilon, 700.0))
        # the best test of presence errs on both sides with probabilities that add up to 2 (1 - delta) / (1 + factor)
        return Strength(factor, min(1 - (1 - delta) / (1 + factor), 1.0), math.floor(1 / privacy.delta))
