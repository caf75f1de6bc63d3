"""The certificate of a stream: an exact check of the integers that the tokens of held keys are drawn from.

Rows are those of `certify`, end to end: that of a key of frequency i is ``P_i = sum over c of s (1 - s)**(i - c) R_c``.
With phi as in `held`, computed from the very integers of R_c and from s, in integers that bound it from both
sides, token i - k has the probability ``m_k = phi_{k+1} - phi_k`` in row i, and "not reported" has 1 - phi_i. For the
rows i - 1 and i, the two sums are

    up   = sum over k < i of max(0, m_k - E m_{k-1})
    down = sum over 0 < k < i of max(0, m_{k-1} - E m_k) + max(0, (1 - phi_{i-1}) - E (1 - phi_i)).

Once the noise has ended both stay as they are (the lemma of docs/theory.md, section 12), so that finitely many rows
cover all.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from dpsample.errors import PrivacyViolation
from dpsample.scheme.held import HeldReporting
from dpsample.scheme.holding import WORD

_MORE_BITS = 128  # of the bounds of phi than the cuts have


class _Bounds(NamedTuple):
    """Integers below and above a probability."""

    low: int
    high: int


def spent_by_rows(reporting: HeldReporting, E: int, ratio_bits: int) -> Iterator[tuple[int, int]]:
    """Yield bounds of both sums of the rows i - 1 and i, for i = 1 up to the end of the noise.

    `E` is a lower bound of exp(epsilon) over 2**ratio_bits. The sums are in units of 2**-(bits + 128 + ratio_bits).
    """
    cuts = reporting.noise_cuts
    ascend = all(before <= cut for before, cut in pairwise((0, *cuts)))
    if not cuts or not ascend or cuts[-1] != reporting.one:
        raise PrivacyViolation(
            "the noise of held keys has no law, since its integers do not ascend to one; do not use this scheme"
        )
    one = reporting.one << _MORE_BITS
    up = 0
    down = 0
    mass_before = _Bounds(0, 0)  # of m_{i-2}
    phi_before = _Bounds(0, 0)  # of phi_{i-1}
    for phi in _bounds_of_phi(cuts, reporting.hold.picked_words):
        # m_{i-1} is the only probability that row i adds to both sums
        mass = _Bounds(max(phi.low - phi_before.high, 0), phi.high - phi_before.low)
        up += max(0, (mass.high << ratio_bits) - E * mass_before.low)
        down += max(0, (mass_before.high << ratio_bits) - E * mass.low)
        absent_before = one - phi_before.low
        absent_now = one - phi.high
        by_absent = max(0, (absent_before << ratio_bits) - E * absent_now)
        yield up, down + by_absent
        mass_before = mass
        phi_before = phi


def _bounds_of_phi(cuts: Iterable[int], picked: int) -> Iterator[_Bounds]:
    """Yield bounds of phi_1, phi_2, ..., over 2**(bits + 128): ``phi = (1 - s) phi + s rho``."""
    low = 0
    high = 0
    for rho in cuts:
        picked_share = picked * rho << _MORE_BITS
        low = ((WORD - picked) * low + picked_share) // WORD
        high = -(-((WORD - picked) * high + picked_share) // WORD)
        yield _Bounds(low, high)
