"""Strides: a scheme at every k-th frequency, which is a scheme again.

k steps of ``pi -> E pi + delta`` are one step of the same form, and so are k steps of its mirror image, which shrinks
1 - pi:

    epsilon' = k epsilon        delta' = delta (E**k - 1) / (E - 1)        q'_m = q_{k m}

So pi at frequency k m is pi' at m, up to the stride in which growing turns to shrinking: there, and after it, pi' is a
little above pi. The same goes for laws of tokens: one law of the strided scheme stands for k of the other.
How large a table is depends on epsilon', so with strides a small epsilon needs none that is larger. For predictions,
not for releases.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from numpy.typing import ArrayLike

from dpsample.errors import InvalidValue
from dpsample.privacy import Privacy
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import Floats, Ints, KeepAll, Sampling, as_frequencies
from dpsample.scheme.tokens import support_length

_LARGEST_DELTA = 0.01  # of a strided scheme: with a larger one, predictions are no longer those of the scheme itself


@dataclass(frozen=True)
class Strided(Sampling):
    """The probability of being sampled at every k-th frequency."""

    sampling: Sampling
    k: int

    @property
    def largest(self) -> int:  # noqa: D102
        return self.sampling.largest // self.k

    @property
    def least(self) -> int:  # noqa: D102
        return -(-self.sampling.least // self.k)

    @property
    def monotone(self) -> bool:  # noqa: D102
        return self.sampling.monotone

    def q(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        return self.sampling.q(self._unstrided(frequencies), toward_privacy=toward_privacy)

    def complement(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        return self.sampling.complement(self._unstrided(frequencies), toward_privacy=toward_privacy)

    def bounds(self, frequency: int, bits: int) -> tuple[int, int]:  # noqa: D102
        return self.sampling.bounds(self.k * frequency, bits)

    def to_json(self) -> dict[str, Any]:  # noqa: D102
        raise InvalidValue(
            f"a scheme at every {self.k}-th frequency is for predictions, and cannot be written",
            "write the scheme itself",
        )

    def _unstrided(self, frequencies: ArrayLike) -> Ints:
        """Return the frequencies of the scheme itself."""
        return self.k * as_frequencies(frequencies)


def strided(sampling: Sampling, privacy: PerKey, rows: int) -> tuple[Sampling, PerKey, int]:
    """Return the scheme at every k-th frequency, and k, with which the support of a token is about `rows` long.

    k is 1, and the scheme the same, where the support is no longer than that, or there is no such scheme.

    >>> from dpsample import KeepAll
    >>> from dpsample.scheme.reporting import reporting_probabilities
    >>> every, privacy, k = strided(KeepAll(), Privacy("0.05", 1e-8), 120)
    >>> privacy.epsilon, k
    (Fraction(1, 4), 5)
    >>> reporting_probabilities([40, 59, 70], every, privacy).round(4)
    array([0.0043, 0.4966, 0.9678])
    >>> reporting_probabilities([200, 295, 350], KeepAll(), Privacy("0.05", 1e-8)).round(4)
    array([0.0043, 0.4966, 0.9678])
    """
    itself = sampling, privacy, 1
    k = min(round(support_length(privacy) / rows), sampling.largest)
    if (
        k <= 1 or sampling.seed is not None
    ):  # the laws of a coordinated sample are mixtures, which strides do not mix
        return itself
    if not isinstance(privacy, Privacy):
        coarser = privacy.strided(k)
        if coarser is None:
            return itself
        return KeepAll(-(-sampling.least // k)), coarser, k
    k = min(k, _longest_stride(privacy))
    if k <= 1:
        return itself
    epsilon = float(privacy.epsilon)
    growth = math.expm1(k * epsilon) / math.expm1(epsilon)
    delta = privacy.delta * Fraction(growth)
    return Strided(sampling, k), Privacy(k * privacy.epsilon, delta), k


def _longest_stride(privacy: Privacy) -> int:
    """Return the largest k with which delta' is at most `_LARGEST_DELTA`."""
    epsilon = float(privacy.epsilon)
    growth = _LARGEST_DELTA * math.expm1(epsilon) / float(privacy.delta)
    return math.floor(math.log1p(growth) / epsilon)
