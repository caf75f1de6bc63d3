"""Sample and hold: sampling along a stream, in one pass, in memory of the size of the sample.

An element whose key is not held is picked with probability s. From then on its key is held, and its elements are
counted, the picked one among them. So a key of frequency i is held with a count of c, from 1 to i, with probability
``s (1 - s)**(i - c)``, and is not held with probability ``(1 - s)**i``.
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
from dpsample.scheme.sampling import Floats, Sampling, as_frequencies, decimal_context

if TYPE_CHECKING:
    from dpsample.privacy import Privacy
    from dpsample.scheme.law import Law

WORD = 1 << 64


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
        """``s 2**64``: how many of the 2**64 words of 64 bits pick an element."""
        bits = 192
        grown = exponential_floor(self.tau, bits)  # at most one below 2**bits exp(tau)
        return ((grown - (1 << bits)) << 64) // (grown + 1)

    @property
    def s(self) -> Fraction:
        """The probability of picking an element whose key is not held."""
        return Fraction(self.picked_words, WORD)

    @cached_property
    def log_passed(self) -> float:
        """The logarithm of 1 - s."""
        return (
            math.log1p(-float(self.s)) if self.s < Fraction(1, 2) else math.log(float(1 - self.s))
        )

    def __repr__(self) -> str:
        return f"SampleAndHold(tau={text(self.tau)!r})"

    def to_json(self) -> dict[str, Any]:  # noqa: D102
        return {"scheme": self.name, "tau": text(self.tau)}

    def reporting(self, privacy: "Privacy") -> "Law":
        """Return the reporting probabilities and token laws: `held`."""
        from dpsample.scheme.held import HeldReporting

        return HeldReporting(self, privacy)

    def q(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        held = -np.expm1(as_frequencies(frequencies) * self.log_passed)
        return np.asarray(held * (1 - 2.0**-48 if toward_privacy else 1.0))

    def complement(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        i = as_frequencies(frequencies)
        if not toward_privacy:
            return np.asarray(np.exp(i * self.log_passed))
        margin = 2.0**-48
        absent = np.exp(i * (self.log_passed * (1 - margin))) * (1 + margin)
        return np.asarray(absent).clip(5e-324, 1.0)

    def bounds(self, frequency: int, bits: int) -> tuple[int, int]:  # noqa: D102
        if frequency == 0:
            return 0, 0
        one, context = 1 << bits, decimal_context(bits)
        passed = context.divide(Decimal(WORD - self.picked_words), Decimal(WORD))
        x = context.multiply(Decimal(-frequency), context.ln(passed))
        if x > bits:  # exp(-bits) < 2**-bits
            return one - 1, one
        absent = int(
            context.multiply(context.exp(context.minus(x)), Decimal(one))
        )  # within one unit
        return max(0, one - absent - 2), min(one, one - absent + 1)
