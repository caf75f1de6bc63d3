"""Sample and hold: sampling along a stream, in one pass, in memory of the size of the sample.

An element whose key is not held is picked with probability s. From then on its key is held, and its elements are
counted, the picked one among them. So a key of frequency i is held with a count of c, from 1 to i, with probability
``s (1 - s)**(i - c)``, and is not held with probability ``(1 - s)**i``. See docs/theory.md, section 12.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpsample.errors import InvalidValue
from dpsample.exact import Number, exact, exponential_floor, text
from dpsample.privacy import Privacy
from dpsample.scheme.sampling import (
    Floats,
    Sampling,
    as_frequencies,
    bounds_of_exponential,
    decimal_context,
)

if TYPE_CHECKING:
    from dpsample.scheme.law import Law

WORD = 1 << 64  # the number of words of 64 bits
# relative, by which floats of q and 1 - q are moved toward privacy: 32 units in the last place
_MARGIN = 2.0**-48
_BITS_OF_S = 192  # of the integers that s is rounded down from: far more than its 64


@dataclass(frozen=True, init=False, repr=False)
class SampleAndHold(Sampling):
    """Sample and hold: a key of frequency i is held with probability ``q_i = 1 - (1 - s)**i``, as in `Ppswor`.

    s is ``1 - exp(-tau)``, rounded down to a multiple of 2**-64. An element is picked if its 64 random bits, as an
    integer, are below ``s 2**64``: the probability is exact. `dpsample.Stream` draws such samples.

    >>> SampleAndHold(tau=0.01).q([1, 100])
    array([0.00995017, 0.63212056])
    """

    name: ClassVar[str] = "sample and hold"
    tau: Fraction

    def __init__(self, tau: Number) -> None:
        tau = exact(tau, "tau")
        if not Fraction(1, 1 << 50) <= tau <= 32:
            raise InvalidValue(
                f"tau of a stream must be from 2**-50 to 32, not {text(tau)}",
                "choose about (wanted number of held keys) / (number of elements), such as 1e-4",
            )
        object.__setattr__(self, "tau", tau)

    @cached_property
    def picked_words(self) -> int:
        """``s 2**64``: the number of words of 64 bits that pick an element."""
        one = 1 << _BITS_OF_S
        growth_below = exponential_floor(self.tau, _BITS_OF_S)
        growth_above = growth_below + 1
        # s = 1 - exp(-tau) = (exp(tau) - 1) / exp(tau), rounded down
        return ((growth_below - one) << 64) // growth_above

    @property
    def s(self) -> Fraction:
        """The probability of picking an element whose key is not held."""
        return Fraction(self.picked_words, WORD)

    @cached_property
    def log_passed(self) -> float:
        """ln(1 - s), of the probability of passing over an element; accurate for small and for large s."""
        if self.s < Fraction(1, 2):
            return math.log1p(-float(self.s))
        return math.log(float(1 - self.s))

    def __repr__(self) -> str:
        return f"SampleAndHold(tau={text(self.tau)!r})"

    def to_json(self) -> dict[str, Any]:  # noqa: D102
        return {"scheme": self.name, "tau": text(self.tau)}

    def reporting(self, privacy: Privacy) -> "Law":
        """Return the reporting probabilities and token laws: `held`."""
        from dpsample.scheme.held import HeldReporting

        return HeldReporting(self, privacy)

    def q(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        log_not_held = as_frequencies(frequencies) * self.log_passed
        held = -np.expm1(log_not_held)
        return np.asarray(held * (1 - _MARGIN if toward_privacy else 1.0))

    def complement(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        i = as_frequencies(frequencies)
        if not toward_privacy:
            return np.asarray(np.exp(i * self.log_passed))
        log_passed_above = self.log_passed * (1 - _MARGIN)
        absent = np.exp(i * log_passed_above) * (1 + _MARGIN)
        return np.asarray(absent).clip(5e-324, 1.0)

    def bounds(self, frequency: int, bits: int) -> tuple[int, int]:  # noqa: D102
        if frequency == 0:
            return 0, 0
        context = decimal_context(bits)
        passed = context.divide(Decimal(WORD - self.picked_words), Decimal(WORD))
        x = context.multiply(Decimal(-frequency), context.ln(passed))
        return bounds_of_exponential(x, bits)
