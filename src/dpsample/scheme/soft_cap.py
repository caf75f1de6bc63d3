"""Soft caps: samples by frequency up to about a cap, which raw elements can be sampled for, each on its own."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpsample.errors import InvalidValue
from dpsample.exact import MAX_FREQUENCY, Number, text
from dpsample.scheme.sampling import (
    Floats,
    Ppswor,
    Sampling,
    as_frequencies,
    decimal_context,
    decimal_of,
)

# floats of q and 1 - q are moved toward privacy by a few of these for each operation
_ULP = 2.0**-53


@dataclass(frozen=True, init=False, repr=False)
class SoftCap(Sampling):
    """``q_i = min(1, tau cap) (1 - exp(-i max(1 / cap, tau)))``: by frequency up to about the cap, then level.

    A key is sampled if its lowest score is below tau. Each of its elements has a score: an exponential number y of its
    own, or ``b / cap`` if ``y <= 1 / cap``, with one uniform number b for the key. This comes to two conditions: b lets
    the key in, with probability `share`, and one of its elements is picked, as `picks` does (docs/theory.md, section 4,
    Soft caps). Raw elements can be sampled one by one; `Ppswor` with a cap must first count the elements of each key.

    >>> SoftCap(tau=0.01, cap=20).q([1, 20, 1000]).round(4), Ppswor(tau=0.01, cap=20).q([1, 20, 1000]).round(4)
    (array([0.0098, 0.1264, 0.2   ]), array([0.01  , 0.1813, 0.1813]))
    """

    tau: Fraction
    cap: int
    name: ClassVar[str] = "soft cap"

    def __init__(self, tau: Number, cap: int) -> None:
        checked = Ppswor(tau, cap=cap)
        if checked.cap is None:
            raise InvalidValue(
                "a soft cap must have a cap, an integer from 1 to 2**63 - 1",
                "use Ppswor without one",
            )
        object.__setattr__(self, "tau", checked.tau)
        object.__setattr__(self, "cap", cap)

    @property
    def share(self) -> Fraction:
        """The probability with which a key is let in, whatever its frequency."""
        return min(Fraction(1), self.tau * self.cap)

    @property
    def picks(self) -> Ppswor:
        """The scheme that picks elements of the keys that are let in."""
        return Ppswor(max(Fraction(1, self.cap), self.tau))

    def q(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        picked = self.picks.q(frequencies, toward_privacy=toward_privacy)
        below = 1 - 4 * _ULP if toward_privacy else 1.0
        return picked * (float(self.share) * below)

    def complement(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        not_picked = self.picks.complement(frequencies, toward_privacy=toward_privacy)
        not_let_in = float(1 - self.share)
        absent = np.asarray(not_let_in + float(self.share) * not_picked)
        above = 1 + 8 * _ULP if toward_privacy else 1.0
        return np.minimum(absent * above, 1.0)

    def bounds(self, frequency: int, bits: int) -> tuple[int, int]:  # noqa: D102
        [i] = as_frequencies([frequency]).tolist()
        if i == 0:
            return 0, 0
        one = 1 << bits
        context = decimal_context(bits)
        x = self.picks.tau * min(i, MAX_FREQUENCY)
        not_picked = Decimal(0)
        if x <= bits:  # otherwise it is below 2**-bits
            not_picked = context.exp(context.minus(decimal_of(x, context)))
        picked = context.subtract(Decimal(1), not_picked)
        q = context.multiply(decimal_of(self.share, context), picked)
        scaled = int(context.multiply(q, Decimal(one)))
        return max(0, scaled - 2), min(one, scaled + 2)

    def __repr__(self) -> str:
        return f"SoftCap(tau={text(self.tau)!r}, cap={self.cap})"

    def to_json(self) -> dict[str, Any]:  # noqa: D102
        return {"scheme": self.name, "tau": text(self.tau), "cap": self.cap}
