"""The certificate of a stream: an exact check of the integers that the tokens of held keys are drawn from.

Rows are those of `certify`: end to end, so that of a key of frequency i they are ``P_i = sum over c of s (1 - s)**(i -
c) R_c``. With phi as in `held`, computed from the very integers of R_c and from s, in integers that bound it from both
sides, token i - k has the probability ``m_k = phi_{k+1} - phi_k`` in row i, and "not reported" has 1 - phi_i. For the
rows i - 1 and i, the two sums are

    up   = sum over k < i of max(0, m_k - E m_{k-1})
    down = sum over 0 < k < i of max(0, m_{k-1} - E m_k) + max(0, (1 - phi_{i-1}) - E (1 - phi_i)).

From the row on at which the noise ends, both stay as they are (docs/theory.md), so that finitely many rows are all.
"""

from collections.abc import Iterable, Iterator

from dpsample.errors import PrivacyViolation
from dpsample.scheme.held import HeldReporting
from dpsample.scheme.holding import WORD


def spent_by_rows(reporting: HeldReporting, E: int, ratio_bits: int) -> Iterator[tuple[int, int]]:
    """Yield bounds of both sums of the rows i - 1 and i, for i = 1 up to the end of the noise.

    `E` is a lower bound of exp(epsilon) over 2**ratio_bits. The sums are in units of 2**-(bits + 128 + ratio_bits).
    """
    cuts, one, picked = reporting.noise_cuts, reporting.one << 128, reporting.hold.picked_words
    if (
        not cuts
        or cuts[-1] != reporting.one
        or any(a > b for a, b in zip((0, *cuts), cuts, strict=False))
    ):
        raise PrivacyViolation(
            "the noise of held keys must have a law; found integers that do not ascend to one; do not use this scheme"
        )
    lows, highs = _bounds(cuts, picked)
    up = down = 0
    least_before = most_before = 0  # bounds of m_{i-2}
    low_before = high_before = 0  # bounds of phi_{i-1}
    for low, high in zip(lows, highs, strict=True):
        # m_{i-1} is the only probability that row i adds to both sums
        least, most = max(low - high_before, 0), high - low_before
        up += max(0, (most << ratio_bits) - E * least_before)
        down += max(0, (most_before << ratio_bits) - E * least)
        absent = max(0, ((one - low_before) << ratio_bits) - E * (one - high))
        yield up, down + absent
        least_before, most_before, low_before, high_before = least, most, low, high


def _bounds(cuts: Iterable[int], picked: int) -> tuple[list[int], list[int]]:
    """Integers below and above phi_1, phi_2, ..., over 2**(bits + 128)."""
    low = high = 0
    lows, highs = [], []
    for cut in cuts:
        drawn = picked * cut << 128
        low = ((WORD - picked) * low + drawn) // WORD
        high = -(-((WORD - picked) * high + drawn) // WORD)
        lows.append(low)
        highs.append(high)
    return lows, highs
