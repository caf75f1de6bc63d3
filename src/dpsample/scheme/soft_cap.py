"""Soft caps: samples by frequency up to about a cap, which raw elements can be sampled for, each on its own."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpsample.errors import InvalidValue
from dpsample.exact import MAX_FREQUENCY, Number, exact, text
from dpsample.scheme.sampling import (
    Floats,
    Ppswor,
    Sampling,
    as_frequencies,
    decimal_context,
    decimal_of,
)

_ULP = 2.0**-53


@dataclass(frozen=True, init=False, repr=False)
class SoftCap(Sampling):
    """``q_i = min(1, tau cap) (1 - exp(-i max(1 / cap, tau)))``: by frequency up to about the cap, then level.

    It is the sample of keys with a score below tau, where each element of a key x has a score: an exponential number y
    of its own, or ``b_x / cap`` if ``y <= 1 / cap``, with one uniform number b_x for the key; and a key has the lowest
    score of its elements. So a key is sampled if b_x lets it (`share`), and one of its elements is picked (`picks`).
    A sample of raw elements needs no count of the other keys, as `Ppswor` with a cap does.

    >>> SoftCap(tau=0.01, cap=20).q([1, 20, 1000]).round(4), Ppswor(tau=0.01, cap=20).q([1, 20, 1000]).round(4)
    (array([0.0098, 0.1264, 0.2   ]), array([0.01  , 0.1813, 0.1813]))
    """

    tau: Fraction
    cap: int
    name: ClassVar[str] = "soft cap"

    def __init__(self, tau: Number, cap: int) -> None:
        plain = Ppswor(tau, cap=cap)  # checks both
        if plain.cap is None:
            raise InvalidValue(
                "a soft cap must have a cap, an integer from 1 to 2**63 - 1",
                "use Ppswor without one",
            )
        object.__setattr__(self, "tau", exact(tau, "tau"))
        object.__setattr__(self, "cap", cap)

    @property
    def share(self) -> Fraction:
        """The probability with which a key is let in, however frequent it is."""
        return min(Fraction(1), self.tau * self.cap)

    @property
    def picks(self) -> Ppswor:
        """The scheme by which elements of keys that are let in are picked."""
        return Ppswor(max(Fraction(1, self.cap), self.tau))

    def q(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        below = 1 - 4 * _ULP if toward_privacy else 1.0
        return self.picks.q(frequencies, toward_privacy=toward_privacy) * (
            float(self.share) * below
        )

    def complement(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        absent = self.picks.complement(frequencies, toward_privacy=toward_privacy)
        left = float(1 - self.share) + float(self.share) * absent
        return np.minimum(np.asarray(left) * (1 + 8 * _ULP if toward_privacy else 1.0), 1.0)

    def bounds(self, frequency: int, bits: int) -> tuple[int, int]:  # noqa: D102
        [i] = as_frequencies([frequency]).tolist()
        one, context = 1 << bits, decimal_context(bits)
        if i == 0:
            return 0, 0
        x = self.picks.tau * min(i, MAX_FREQUENCY)
        absent = Decimal(0)
        if x <= bits:
            absent = context.exp(context.minus(decimal_of(x, context)))
        picked = context.subtract(Decimal(1), absent)
        q = context.multiply(decimal_of(self.share, context), picked)
        scaled = int(context.multiply(q, Decimal(one)))
        return max(0, scaled - 2), min(one, scaled + 2)

    def __repr__(self) -> str:
        return f"SoftCap(tau={text(self.tau)!r}, cap={self.cap})"

    def to_json(self) -> dict[str, Any]:  # noqa: D102
        return {"scheme": self.name, "tau": text(self.tau), "cap": self.cap}
